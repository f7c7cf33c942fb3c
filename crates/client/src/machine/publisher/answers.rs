//! What becomes of a publisher's messages: answered, sent again, or of unknown outcome.

use std::collections::VecDeque;
use std::time::Duration;

use arioso_stream::Sequence;
use arioso_wire::{Code, ErrorFrame, Reply};

use super::block::{Block, Joined};
use super::{Publisher, Stage};
use crate::machine::event::{Ack, Event};
use crate::machine::retry_pause;
use crate::{Error, Result};

/// What a reply asks of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replied {
    Fine,
    /// The outcome will not be known on this connection.
    LoseConnection,
}

impl Publisher {
    /// The server answered consecutive messages.
    pub(crate) fn reply(&mut self, reply: &Reply, now: Duration, events: &mut VecDeque<Event>) -> Result<Replied> {
        if self.is_over() {
            return Ok(Replied::Fine);
        }
        let mut reply = *reply;
        let mut replied = Replied::Fine;
        while reply.messages > 0 {
            let number = reply.first;
            let Some(front) = self.flight.front_mut() else {
                let what = format!("a reply for publisher sequence {number}, nothing is open");
                return Err(Error::protocol(what));
            };
            let due = front.first.wrapping_add(self.base) + u64::from(front.answered());
            if due != number {
                let what = format!("a reply for publisher sequence {number}, {due} is next");
                return Err(Error::protocol(what));
            }
            let messages = reply.messages.min(front.messages - front.answered());
            let decides = match front.atomic {
                true => front.answer_part(messages, reply),
                false => Some(reply),
            };
            if let Some(decides) = decides {
                let taken = if front.atomic { front.messages } else { messages };
                let block = front.split_front(taken);
                if front.messages == 0 {
                    self.flight.pop_front();
                }
                self.flight_messages -= u64::from(taken);
                self.flight_bytes -= block.records.len() as u64;
                if self.outcome(block, &decides, now, events) == Replied::LoseConnection {
                    replied = Replied::LoseConnection;
                }
                if self.is_over() {
                    return Ok(replied);
                }
            }
            reply.first += u64::from(messages);
            reply.messages -= messages;
            reply.sequence = Sequence(reply.sequence.0.saturating_add(messages.into()));
        }
        if self.flight.is_empty() && !self.refused.is_empty() && replied == Replied::Fine {
            self.requeue();
        }
        Ok(replied)
    }

    /// What becomes of messages that got this reply.
    fn outcome(&mut self, block: Block, reply: &Reply, now: Duration, events: &mut VecDeque<Event>) -> Replied {
        let messages = block.messages;
        let sequence = reply.sequence;
        match reply.code {
            Code::Ok => {
                let last = Sequence(sequence.0.saturating_add(u64::from(messages) - 1));
                let ack = Ack { sequence, last, messages, level: reply.level };
                self.answer(&block, Ok(ack), events);
            }
            code if code.keeps_number() => {
                let known = code == Code::Expected && !self.refused.is_empty();
                if !known {
                    self.pause(now, reply.retry_after_ms);
                }
                self.refused.push_back(block);
            }
            Code::Failed | Code::Reopen => {
                self.reopen = true;
                self.pause(now, reply.retry_after_ms);
                self.refused.push_back(block);
            }
            Code::Unknown if !self.is_anonymous() => {
                self.refused.push_back(block);
                return Replied::LoseConnection;
            }
            // Behind a refused message nothing was stored.
            Code::Unknown if !self.refused.is_empty() => self.refused.push_back(block),
            Code::Unknown => self.answer(&block, Err(Error::Unknown), events),
            Code::Fenced => {
                // This block is not in any queue now; it is answered as the oldest.
                let name = self.name.clone();
                self.fail(&Error::Fenced { name }, events);
            }
            Code::ConditionFailed => {
                let newest = sequence;
                self.answer(&block, Err(Error::ConditionFailed { newest }), events);
            }
            code => self.answer(&block, Err(Error::code(code)), events),
        }
        Replied::Fine
    }

    fn answer(&mut self, block: &Block, outcome: Result<Ack>, events: &mut VecDeque<Event>) {
        self.answered += u64::from(block.messages);
        self.unanswered_bytes -= block.records.len() as u64;
        events.push_back(Event::Answered { publisher: self.id, messages: block.messages, outcome });
    }

    pub(super) fn pause(&mut self, now: Duration, retry_after_ms: u32) {
        self.not_before = self.not_before.max(now + retry_pause(retry_after_ms));
    }

    /// Everything refused is sent again, in order, before anything else.
    pub(super) fn requeue(&mut self) {
        let mut joined = Joined::default();
        for block in self.refused.drain(..) {
            joined.push(block);
        }
        let mut blocks = joined.finish();
        blocks.append(&mut self.waiting);
        self.waiting = blocks;
        if self.reopen && self.stage == Stage::Open {
            self.reopen = false;
            self.stage = Stage::Unopened;
        }
    }

    /// The channel ended with an error.
    pub(crate) fn channel_error(&mut self, error: &ErrorFrame, now: Duration, events: &mut VecDeque<Event>) {
        self.at_server = false;
        let again = error.code.keeps_number() || matches!(error.code, Code::Failed | Code::Reopen);
        if again {
            if self.stage == Stage::Opening && error.code.keeps_number() {
                // The open came to nothing: no epoch is this publisher's by it.
                self.opens -= 1;
            }
            self.lost(events);
            self.pause(now, error.retry_after_ms);
            return;
        }
        let error = match error.code {
            Code::Fenced => Error::Fenced { name: self.name.clone() },
            _ => Error::refused(error),
        };
        self.fail(&error, events);
    }

    /// The connection is gone: what was under way is sent again, or its outcome is unknown.
    pub(crate) fn lost(&mut self, events: &mut VecDeque<Event>) {
        self.at_server = false;
        match self.stage {
            Stage::Over(_) => return,
            Stage::Closing => {
                self.fail(&Error::Closed, events);
                return;
            }
            Stage::Unopened | Stage::Opening | Stage::Open => {}
        }
        let mut flight = std::mem::take(&mut self.flight);
        for block in &mut flight {
            block.part = None;
        }
        self.flight_messages = 0;
        self.flight_bytes = 0;
        // Behind a refused message nothing was stored, so what is under way behind one is not in doubt.
        if self.is_anonymous() && self.refused.is_empty() {
            for block in flight {
                self.answer(&block, Err(Error::Unknown), events);
            }
        } else {
            self.refused.extend(flight);
        }
        self.requeue();
        self.reopen = false;
        self.not_before = Duration::ZERO;
        self.stage = Stage::Unopened;
        if self.closing && self.unanswered() == 0 {
            self.fail(&Error::Closed, events);
        }
    }
}
