//! One publisher: its window, its messages until they are answered, and what happens when they are refused.
//!
//! ```text
//! publish ──▶ tail ──▶ waiting ──▶ flight ──▶ answered
//!             joins    in order    in order of sending
//!                        ▲            │ not taken (busy, expected, failed, reopen)
//!                        └── refused ◀┘
//!                 when flight is empty: all of refused goes in front of waiting, in order
//! ```
//!
//! Messages are counted by *index* from 1; the publisher sequence is index + base. The base of a named publisher is
//! settled when it is first opened, that of an anonymous one at each opening.

mod answers;
mod block;

use std::collections::VecDeque;
use std::time::Duration;

use arioso_stream::Sequence;
use arioso_stream::record::{FLAG_ATOMIC_FIRST, FLAG_ATOMIC_LAST};
use arioso_wire::{
    AckLevel, Body, ClosePublisher, Condition, OpenPublisher, PublisherOpened, Text, publish_prefix,
    publish_prefix_bytes,
};
use bytes::{Bytes, BytesMut};

pub(crate) use answers::Replied;
use block::Block;

use super::channels::Wake;
use super::event::{Event, PublisherId};
use super::output::Output;
use crate::message::{Message, TopicId};
use crate::options::Limits;
use crate::{Error, Result};

/// Messages that still can be joined by the next one; their records are in the buffer.
#[derive(Clone, Copy, Debug)]
struct Tail {
    first: u64,
    messages: u32,
    level: AckLevel,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// To be opened.
    Unopened,
    /// Open was sent.
    Opening,
    Open,
    /// Close was sent.
    Closing,
    Over(Error),
}

#[derive(Debug)]
pub(crate) struct Publisher {
    id: PublisherId,
    name: Text,
    /// The next publisher sequence by the caller's own count, 0: after the last stored.
    start: u64,
    stage: Stage,
    /// Whether it was ever open.
    was_open: bool,
    epoch: u32,
    /// Opens sent since the epoch was told.
    opens: u32,
    base: u64,
    /// Index of the next message.
    next: u64,
    /// Everything below is answered.
    answered: u64,
    unanswered_bytes: u64,
    waiting: VecDeque<Block>,
    flight: VecDeque<Block>,
    refused: VecDeque<Block>,
    flight_messages: u64,
    flight_bytes: u64,
    tail: Option<Tail>,
    buffer: BytesMut,
    extensions: Vec<u8>,
    /// The epoch is closed: open again before anything is sent.
    reopen: bool,
    not_before: Duration,
    closing: bool,
    /// Whether the server may still say something on the channel.
    at_server: bool,
}

impl Publisher {
    /// A publisher to be opened; an empty name is an anonymous one.
    pub(crate) fn new(id: PublisherId, name: Text, start: u64) -> Publisher {
        Publisher {
            id,
            base: start.saturating_sub(1),
            name,
            start,
            stage: Stage::Unopened,
            was_open: false,
            epoch: 0,
            opens: 0,
            next: 1,
            answered: 1,
            unanswered_bytes: 0,
            waiting: VecDeque::new(),
            flight: VecDeque::new(),
            refused: VecDeque::new(),
            flight_messages: 0,
            flight_bytes: 0,
            tail: None,
            buffer: BytesMut::new(),
            extensions: Vec::new(),
            reopen: false,
            not_before: Duration::ZERO,
            closing: false,
            at_server: false,
        }
    }

    fn is_anonymous(&self) -> bool {
        self.name.is_empty()
    }

    pub(crate) fn unanswered(&self) -> u64 {
        self.next - self.answered
    }

    /// Publisher sequence of the next message, once it is known.
    pub(crate) fn next_number(&self) -> Option<u64> {
        self.was_open.then(|| self.number(self.next))
    }

    fn number(&self, index: u64) -> u64 {
        index.wrapping_add(self.base)
    }

    /// Whether the window has room.
    pub(crate) fn check_window(&self, messages: u64, bytes: usize, limits: &Limits) -> Result<()> {
        if let Stage::Over(error) = &self.stage {
            return Err(error.clone());
        }
        if self.closing {
            return Err(Error::Closed);
        }
        let fits = self.unanswered() + messages <= limits.window_messages
            && self.unanswered_bytes + bytes as u64 <= limits.window_bytes;
        if fits || self.unanswered() == 0 {
            return Ok(());
        }
        Err(Error::Busy {
            messages: self.unanswered(),
            bytes: self.unanswered_bytes,
            messages_max: limits.window_messages,
            bytes_max: limits.window_bytes,
        })
    }

    /// Takes one message. The window was checked.
    pub(crate) fn push(&mut self, topic: TopicId, message: &Message<'_>, record_bytes: usize, block_bytes: usize) {
        let joins = self
            .tail
            .is_some_and(|tail| tail.level == message.level && self.buffer.len() + record_bytes <= block_bytes);
        if message.condition.is_some() || !joins {
            self.seal();
        }
        self.push_record(topic, message, 0, record_bytes);
        let condition = message
            .condition
            .map(|condition| Condition { sequence: condition.newest, filter: condition.filter.into() });
        let tail = self.tail.get_or_insert(Tail { first: self.next, messages: 0, level: message.level });
        tail.messages += 1;
        self.next += 1;
        if condition.is_some() {
            self.seal_as(false, condition.map(Box::new));
        }
    }

    /// Takes an atomic batch. The window was checked.
    pub(crate) fn push_atomic(&mut self, messages: &[(TopicId, Message<'_>, usize)]) {
        self.seal();
        let last = messages.len() - 1;
        for (at, (topic, message, record_bytes)) in messages.iter().enumerate() {
            let flags = match at {
                _ if last == 0 => 0,
                0 => FLAG_ATOMIC_FIRST,
                at if at == last => FLAG_ATOMIC_LAST,
                _ => 0,
            };
            self.push_record(*topic, message, flags, *record_bytes);
        }
        let (_, message, _) = &messages[0];
        let condition = message
            .condition
            .map(|condition| Condition { sequence: condition.newest, filter: condition.filter.into() });
        self.tail = Some(Tail {
            first: self.next,
            messages: u32::try_from(messages.len()).expect("an atomic batch is bounded"),
            level: message.level,
        });
        self.next += messages.len() as u64;
        self.seal_as(true, condition.map(Box::new));
    }

    /// Takes records built beforehand. The window was checked.
    pub(crate) fn push_block(&mut self, messages: u32, level: AckLevel, records: Bytes) {
        self.seal();
        self.unanswered_bytes += records.len() as u64;
        self.waiting.push_back(Block {
            first: self.next,
            messages,
            level,
            atomic: false,
            condition: None,
            records,
            part: None,
        });
        self.next += u64::from(messages);
    }

    fn push_record(&mut self, topic: TopicId, message: &Message<'_>, flags: u16, bytes: usize) {
        if self.buffer.capacity() - self.buffer.len() < bytes {
            // One allocation serves many small blocks, which share it until they are answered.
            self.buffer.reserve(bytes.max(16 << 10));
        }
        message.push(topic.0, flags, &mut self.extensions, &mut self.buffer);
        self.unanswered_bytes += bytes as u64;
    }

    fn seal(&mut self) {
        self.seal_as(false, None);
    }

    fn seal_as(&mut self, atomic: bool, condition: Option<Box<Condition>>) {
        if let Some(tail) = self.tail.take() {
            self.waiting.push_back(Block {
                first: tail.first,
                messages: tail.messages,
                level: tail.level,
                atomic,
                condition,
                records: self.buffer.split().freeze(),
                part: None,
            });
        }
    }

    /// When it has something to send.
    pub(crate) fn wake(&self, now: Duration, limits: &Limits) -> Wake {
        let wants = match self.stage {
            Stage::Unopened => true,
            Stage::Open if !self.refused.is_empty() => false,
            Stage::Open => match (self.waiting.front(), self.tail) {
                (Some(block), _) => self.has_room(block.messages, block.records.len(), limits),
                (None, Some(tail)) => self.has_room(tail.messages, self.buffer.len(), limits),
                (None, None) => self.closing && self.unanswered() == 0,
            },
            Stage::Opening | Stage::Closing | Stage::Over(_) => false,
        };
        match wants {
            false => Wake::No,
            true if self.not_before > now => Wake::At(self.not_before),
            true => Wake::Now,
        }
    }

    /// Whether the server takes this much more now.
    fn has_room(&self, messages: u32, bytes: usize, limits: &Limits) -> bool {
        let messages = self.flight_messages + u64::from(messages);
        let bytes = self.flight_bytes + bytes as u64;
        self.flight.is_empty() || (messages <= limits.window_messages && bytes <= limits.window_bytes)
    }

    /// Writes what it has to say now, up to about `budget` bytes.
    pub(crate) fn emit(&mut self, now: Duration, limits: &Limits, budget: usize, out: &mut Output) {
        if self.wake(now, limits) != Wake::Now {
            return;
        }
        match self.stage {
            Stage::Unopened => self.emit_open(out),
            Stage::Open => {
                let end = out.bytes() + budget;
                while out.bytes() < end && self.emit_block(limits, out) {}
                if self.closing && self.unanswered() == 0 && self.stage == Stage::Open {
                    ClosePublisher {}.encode(self.id.0, out.buffer());
                    self.stage = Stage::Closing;
                }
            }
            Stage::Opening | Stage::Closing | Stage::Over(_) => {}
        }
    }

    fn emit_open(&mut self, out: &mut Output) {
        let first = self.waiting.front().map(|block| block.first);
        let first = first.or(self.tail.map(|tail| tail.first));
        let first = first.unwrap_or(self.next);
        let next = if self.is_anonymous() {
            self.base = 1u64.wrapping_sub(first);
            1
        } else if self.was_open {
            self.number(first)
        } else {
            self.start
        };
        self.opens = self.opens.saturating_add(1);
        OpenPublisher { next, name: self.name.clone() }.encode(self.id.0, out.buffer());
        self.stage = Stage::Opening;
        self.at_server = true;
    }

    fn emit_block(&mut self, limits: &Limits, out: &mut Output) -> bool {
        if !self.refused.is_empty() {
            return false;
        }
        if self.waiting.is_empty() {
            self.seal();
        }
        self.fit_front(limits);
        let Some(block) = self.waiting.front() else {
            return false;
        };
        if !self.has_room(block.messages, block.records.len(), limits) {
            return false;
        }
        let Some(block) = self.waiting.pop_front() else {
            return false;
        };
        publish_prefix(
            self.id.0,
            self.number(block.first),
            block.messages,
            block.level,
            block.atomic,
            block.condition.as_deref(),
            block.records.len(),
            out.buffer(),
        );
        out.push_records(block.records.clone());
        self.flight_messages += u64::from(block.messages);
        self.flight_bytes += block.records.len() as u64;
        self.flight.push_back(block);
        true
    }

    /// Cuts the block that goes next to what the server takes in one frame: its limit may be lower than when the block was
    /// made.
    fn fit_front(&mut self, limits: &Limits) {
        let Some(front) = self.waiting.front_mut() else {
            return;
        };
        if front.records.len() <= limits.block_bytes || front.atomic || front.messages == 1 {
            return;
        }
        let messages = front.messages_within(limits.block_bytes);
        let fits = front.split_front(messages);
        self.waiting.push_front(fits);
    }

    /// The server opened it.
    pub(crate) fn opened(&mut self, opened: &PublisherOpened, events: &mut VecDeque<Event>) -> Result<()> {
        if self.is_over() {
            return Ok(());
        }
        if self.stage != Stage::Opening {
            return Err(Error::protocol("publisher opened without being asked"));
        }
        let expected = self.epoch..=self.epoch.saturating_add(self.opens);
        let mine = expected.contains(&opened.epoch) && opened.epoch != self.epoch;
        if self.was_open && !self.is_anonymous() && !mine {
            // Somebody opened it in between, or it was dropped: its numbers may mean other messages now.
            let name = self.name.clone();
            self.fail(&Error::Fenced { name }, events);
            return Ok(());
        }
        if !self.was_open && !self.is_anonymous() && self.start == 0 {
            self.base = opened.last_consumed;
        }
        self.was_open = true;
        self.epoch = opened.epoch;
        self.opens = 0;
        self.stage = Stage::Open;
        events.push_back(Event::PublisherOpened {
            publisher: self.id,
            epoch: opened.epoch,
            last_consumed: opened.last_consumed,
        });
        Ok(())
    }

    /// No more messages; closes when everything is answered.
    pub(crate) fn close(&mut self, events: &mut VecDeque<Event>) {
        self.closing = true;
        if self.unanswered() == 0 && !self.at_server {
            self.fail(&Error::Closed, events);
        }
    }

    /// The server answered the close.
    pub(crate) fn closed(&mut self, events: &mut VecDeque<Event>) -> Result<()> {
        self.at_server = false;
        if self.is_over() {
            return Ok(());
        }
        if self.stage != Stage::Closing {
            return Err(Error::protocol("closed without being asked"));
        }
        self.fail(&Error::Closed, events);
        Ok(())
    }

    /// Nothing more is taken; everything unanswered ends with the error.
    pub(crate) fn fail(&mut self, error: &Error, events: &mut VecDeque<Event>) {
        if self.is_over() {
            return;
        }
        let mut left = self.unanswered();
        while left > 0 {
            let messages = u32::try_from(left).unwrap_or(u32::MAX);
            left -= u64::from(messages);
            events.push_back(Event::Answered { publisher: self.id, messages, outcome: Err(error.clone()) });
        }
        self.answered = self.next;
        self.unanswered_bytes = 0;
        self.flight_messages = 0;
        self.flight_bytes = 0;
        self.waiting.clear();
        self.flight.clear();
        self.refused.clear();
        self.tail = None;
        self.buffer = BytesMut::new();
        self.stage = Stage::Over(error.clone());
        events.push_back(Event::PublisherOver { publisher: self.id, error: error.clone() });
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    /// Whether its channel may be used for something else: its owner and the server are done with it.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_over() && self.closing && !self.at_server
    }
}

/// Whether a frame of these records fits what the server takes.
pub(crate) fn check_frame(bytes: usize, condition: Option<&str>, limits: &Limits) -> Result<()> {
    let condition = condition.map(|filter| Condition { sequence: Sequence::ZERO, filter: filter.into() });
    let frame_bytes = publish_prefix_bytes(condition.as_ref()) + bytes;
    if frame_bytes <= limits.frame_bytes {
        return Ok(());
    }
    Err(Error::TooLarge {
        what: "a publish frame, in bytes,",
        count: frame_bytes as u64,
        count_max: limits.frame_bytes as u64,
    })
}
