//! One subscription: where it stands, so that another connection can go on there, and the credit it has given.
//!
//! ```text
//! Unsubscribed ──subscribe──▶ Subscribing ──subscribed──▶ Live ⇄ Trimmed
//!      ▲                           │                        │
//!      └── connection lost, refused for now ────────────────┘      Leaving: unsubscribe was sent
//! ```
//! credit given = what the server may still send + what waits for the consumer + what is due back to the server

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arioso_stream::{Records, Sequence};
use arioso_wire::{
    Begin, Body, Code, Credit, Deliver, Ended, ErrorFrame, FILTER_BYTES_MAX, FILTERS_MAX, GoOn, List,
    Subscribe as SubscribeFrame, Subscribed, Text, Trimmed, Unsubscribe, encode_subscribe,
};

use super::channels::Wake;
use super::event::{Event, Started, SubscriptionId};
use super::output::Output;
use super::retry_pause;
use crate::batch::Batch;
use crate::names::Names;
use crate::options::NAME_BYTES_MAX;
use crate::{Error, Result};

/// Bytes of a deliver body before its records.
const DELIVER_FIXED_BYTES: u64 = 16;

/// What to subscribe to. `Subscribe::new(filters)`, then what else it needs.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// The filters; a message that matches several is delivered once.
    pub filters: Vec<Text>,
    /// Where it begins.
    pub begin: Begin,
    /// Whether it ends behind what was acknowledged when it began.
    pub until_end: bool,
    /// Bytes that may wait here for the consumer. One longer message may come on top.
    pub credit_bytes: u64,
    /// The cursor it holds; empty: none.
    pub cursor: Text,
}

impl Subscribe {
    /// These filters, live, with 4 MiB of credit.
    pub fn new(filters: impl IntoIterator<Item = impl Into<Text>>) -> Subscribe {
        Subscribe {
            filters: filters.into_iter().map(Into::into).collect(),
            begin: Begin::Live,
            until_end: false,
            credit_bytes: 4 << 20,
            cursor: Text::EMPTY,
        }
    }

    /// From here.
    pub fn from(mut self, begin: Begin) -> Subscribe {
        self.begin = begin;
        self
    }

    /// Ends behind what was acknowledged when it began.
    pub fn until_end(mut self) -> Subscribe {
        self.until_end = true;
        self
    }

    /// Holds this cursor: begins where it stands, and can commit.
    pub fn cursor(mut self, name: impl Into<Text>) -> Subscribe {
        self.cursor = name.into();
        self
    }

    /// Lets this many bytes wait here.
    pub fn credit(mut self, bytes: u64) -> Subscribe {
        self.credit_bytes = bytes;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let count = self.filters.len();
        if count == 0 || count > FILTERS_MAX {
            return Err(Error::TooLarge {
                what: "a subscription, which needs filters,",
                count: count as u64,
                count_max: FILTERS_MAX as u64,
            });
        }
        for filter in &self.filters {
            check_length("a filter", filter, 1, FILTER_BYTES_MAX)?;
        }
        check_length("a cursor's name", &self.cursor, 0, NAME_BYTES_MAX)
    }
}

/// Whether a name has a length it can have.
pub(crate) fn check_length(what: &'static str, name: &str, bytes_min: usize, bytes_max: usize) -> Result<()> {
    if (bytes_min..=bytes_max).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::Length { what, bytes: name.len(), bytes_min, bytes_max })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unsubscribed,
    Subscribing,
    Live,
    /// Nothing follows until the consumer says where.
    Trimmed,
    Leaving,
    Over,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    id: SubscriptionId,
    wanted: Subscribe,
    stage: Stage,
    /// Whether the server has it, also while it is trimmed.
    at_server: bool,
    /// Where another connection would begin.
    resume: Begin,
    /// The last mark.
    through: Sequence,
    /// Behind this an `until end` is done.
    end: Option<Sequence>,
    /// The answer to `trimmed`, to be sent.
    go_on: Option<Sequence>,
    /// Bytes the server may send; below zero it owes.
    granted: i64,
    /// Bytes that wait for the consumer.
    queued: u64,
    /// Bytes consumed and not given back yet.
    due: u64,
    /// Bytes that wait beyond the credit, when this connection began: they are not given back.
    owed: u64,
    holder_epoch: u32,
    /// Subscribes sent since the holder's epoch was told.
    tries: u32,
    not_before: Duration,
    /// Unsubscribe is to be sent.
    leave: bool,
    /// The consumer is done with it.
    released: bool,
    /// The consumer was told that it is over.
    told: bool,
}

impl Subscription {
    pub(crate) fn new(id: SubscriptionId, wanted: Subscribe) -> Subscription {
        Subscription {
            id,
            resume: wanted.begin,
            wanted,
            stage: Stage::Unsubscribed,
            at_server: false,
            through: Sequence::ZERO,
            end: None,
            go_on: None,
            granted: 0,
            queued: 0,
            due: 0,
            owed: 0,
            holder_epoch: 0,
            tries: 0,
            not_before: Duration::ZERO,
            leave: false,
            released: false,
            told: false,
        }
    }

    /// The cursor's name and the epoch it is held under.
    pub(crate) fn holder(&self) -> (Text, u32) {
        (self.wanted.cursor.clone(), self.holder_epoch)
    }

    fn credit_bytes(&self) -> u64 {
        self.wanted.credit_bytes.clamp(1, i64::MAX as u64)
    }

    fn gives_credit(&self) -> bool {
        self.stage == Stage::Live && self.due > 0 && self.due >= self.credit_bytes() / 2
    }

    /// When it has something to send.
    pub(crate) fn wake(&self, now: Duration) -> Wake {
        match self.stage {
            Stage::Unsubscribed if self.not_before > now => Wake::At(self.not_before),
            Stage::Unsubscribed => Wake::Now,
            Stage::Subscribing | Stage::Live | Stage::Trimmed if self.leave => Wake::Now,
            Stage::Trimmed if self.go_on.is_some() => Wake::Now,
            Stage::Live if self.gives_credit() => Wake::Now,
            _ => Wake::No,
        }
    }

    /// Writes what it has to say now.
    pub(crate) fn emit(&mut self, now: Duration, stream_id: u128, out: &mut Output) {
        if self.wake(now) != Wake::Now {
            return;
        }
        let channel = self.id.0;
        match self.stage {
            Stage::Unsubscribed => self.emit_subscribe(stream_id, out),
            Stage::Subscribing | Stage::Live | Stage::Trimmed if self.leave => {
                Unsubscribe {}.encode(channel, out.buffer());
                self.stage = Stage::Leaving;
            }
            Stage::Trimmed => {
                if let Some(begin) = self.go_on.take() {
                    GoOn { begin }.encode(channel, out.buffer());
                    self.stage = Stage::Live;
                }
            }
            Stage::Live if self.gives_credit() => {
                let bytes = std::mem::take(&mut self.due);
                self.granted = self.granted.saturating_add_unsigned(bytes);
                Credit { bytes }.encode(channel, out.buffer());
            }
            _ => {}
        }
    }

    fn emit_subscribe(&mut self, stream_id: u128, out: &mut Output) {
        // What still waits for the consumer counts against the credit on this connection too.
        let credit_bytes = self.credit_bytes().saturating_sub(self.queued);
        self.granted = credit_bytes.cast_signed();
        self.due = 0;
        self.owed = self.queued.saturating_sub(self.credit_bytes());
        let by_position = matches!(self.resume, Begin::Sequence(_));
        let frame = SubscribeFrame {
            more: false,
            until_end: self.wanted.until_end,
            blocks: false,
            lanes: 1,
            begin: self.resume,
            credit_bytes,
            stream_id: if by_position { stream_id } else { 0 },
            cursor: self.wanted.cursor.clone(),
            filters: List::EMPTY,
        };
        let filters = self.wanted.filters.iter().map(Text::as_str);
        encode_subscribe(self.id.0, &frame, filters, out.buffer());
        self.tries = self.tries.saturating_add(1);
        self.stage = Stage::Subscribing;
        self.at_server = true;
    }

    /// The server began it.
    pub(crate) fn subscribed(&mut self, frame: &Subscribed, events: &mut VecDeque<Event>) -> Result<()> {
        match self.stage {
            Stage::Leaving | Stage::Over => return Ok(()),
            Stage::Subscribing => {}
            _ => return Err(Error::protocol("subscribed without being asked")),
        }
        let held = self.holder_epoch;
        let mine = frame.holder_epoch > held && frame.holder_epoch - held <= self.tries;
        if held != 0 && !mine {
            let name = self.wanted.cursor.clone();
            self.leave = true;
            self.stage = Stage::Live;
            self.tell(Err(Error::Fenced { name }), events);
            return Ok(());
        }
        self.holder_epoch = frame.holder_epoch;
        self.tries = 0;
        self.stage = Stage::Live;
        self.end.get_or_insert(frame.newest_settled);
        if matches!(self.resume, Begin::Start | Begin::Live) {
            self.resume = Begin::Sequence(frame.starts_at);
        }
        events.push_back(Event::Subscribed {
            subscription: self.id,
            started: Started {
                starts_at: frame.starts_at,
                newest_settled: frame.newest_settled,
                first_kept: frame.first_kept,
            },
        });
        Ok(())
    }

    /// Records came.
    pub(crate) fn delivered(&mut self, frame: Deliver, names: &Arc<Names>, events: &mut VecDeque<Event>) -> Result<()> {
        if !self.listens("deliver")? {
            return Ok(());
        }
        let body_bytes = DELIVER_FIXED_BYTES + frame.records.len() as u64;
        if self.granted <= 0 {
            let what = format!("deliver of {body_bytes} bytes without credit");
            return Err(Error::protocol(what));
        }
        if let Some(first) = Records::new(&frame.records).next() {
            let first = first?.sequence();
            if first <= self.through {
                let what = format!("message {first} comes behind mark {}", self.through);
                return Err(Error::protocol(what));
            }
        }
        self.mark(frame.through)?;
        self.granted -= body_bytes.cast_signed();
        self.queued += body_bytes;
        events.push_back(Event::Delivered {
            subscription: self.id,
            batch: Batch {
                through: frame.through,
                count: frame.count,
                records: frame.records,
                body_bytes,
                names: names.clone(),
            },
        });
        Ok(())
    }

    /// A mark without records came.
    pub(crate) fn safe(&mut self, through: Sequence, events: &mut VecDeque<Event>) -> Result<()> {
        if !self.listens("safe")? {
            return Ok(());
        }
        if matches!(self.resume, Begin::Time(_)) {
            // Nothing came yet: another connection begins at the time again, and tells old marks once more.
            if through <= self.through {
                return Ok(());
            }
            self.through = through;
        } else {
            self.mark(through)?;
        }
        events.push_back(Event::Mark { subscription: self.id, through });
        Ok(())
    }

    /// Whether a frame counts: not while leaving.
    fn listens(&self, frame: &str) -> Result<bool> {
        match self.stage {
            Stage::Live => Ok(!self.told),
            Stage::Leaving | Stage::Over => Ok(false),
            _ => Err(Error::protocol(format!("{frame} before it may come"))),
        }
    }

    fn mark(&mut self, through: Sequence) -> Result<()> {
        if through < self.through {
            let what = format!("mark {through} comes behind mark {}", self.through);
            return Err(Error::protocol(what));
        }
        self.through = through;
        self.resume = Begin::Sequence(through.next());
        Ok(())
    }

    /// The consumer took a batch.
    pub(crate) fn consumed(&mut self, bytes: u64) {
        assert!(self.queued >= bytes, "a batch is consumed once");
        self.queued -= bytes;
        let owed = bytes.min(self.owed);
        self.owed -= owed;
        self.due += bytes - owed;
    }

    /// The position is behind retention.
    pub(crate) fn trimmed(&mut self, frame: &Trimmed, events: &mut VecDeque<Event>) -> Result<()> {
        if !self.listens("trimmed")? {
            return Ok(());
        }
        self.stage = Stage::Trimmed;
        self.resume = Begin::Sequence(frame.wanted);
        events.push_back(Event::Trimmed { subscription: self.id, wanted: frame.wanted, first: frame.first });
        Ok(())
    }

    /// The consumer says where to go on after `trimmed`.
    pub(crate) fn go_on(&mut self, begin: Sequence) -> bool {
        if self.stage != Stage::Trimmed {
            return false;
        }
        self.resume = Begin::Sequence(begin);
        if self.at_server {
            self.go_on = Some(begin);
        } else {
            self.stage = Stage::Unsubscribed;
        }
        true
    }

    /// The server ended it.
    pub(crate) fn ended(&mut self, frame: &Ended, now: Duration, events: &mut VecDeque<Event>) {
        match (self.stage, frame.code) {
            (Stage::Leaving, _) => self.end_with(Err(Error::Closed), events),
            (_, Code::Ok) => self.end_with(Ok(()), events),
            (_, code) if code.keeps_number() => self.pause(now, 0),
            (_, code) => self.end_with(Err(Error::code(code)), events),
        }
    }

    /// The channel ended with an error.
    pub(crate) fn channel_error(&mut self, error: &ErrorFrame, now: Duration, events: &mut VecDeque<Event>) {
        let name = self.wanted.cursor.clone();
        match error.code {
            _ if self.stage == Stage::Leaving => self.end_with(Err(Error::Closed), events),
            code if code.keeps_number() => self.pause(now, error.retry_after_ms),
            Code::Fenced => self.end_with(Err(Error::Fenced { name }), events),
            _ => self.end_with(Err(Error::refused(error)), events),
        }
    }

    fn pause(&mut self, now: Duration, retry_after_ms: u32) {
        self.lose_server();
        self.not_before = now + retry_pause(retry_after_ms);
    }

    fn lose_server(&mut self) {
        self.at_server = false;
        match (self.stage, self.go_on.take()) {
            (Stage::Trimmed, None) | (Stage::Over, _) => {}
            _ => self.stage = Stage::Unsubscribed,
        }
    }

    /// The connection is gone.
    pub(crate) fn lost(&mut self, events: &mut VecDeque<Event>) {
        let done = self.wanted.until_end && self.end.is_some_and(|end| self.through >= end);
        if self.leave || self.stage == Stage::Leaving {
            self.at_server = false;
            self.end_with(Err(Error::Closed), events);
        } else if done && self.stage == Stage::Live {
            self.end_with(Ok(()), events);
        } else {
            self.lose_server();
            self.not_before = Duration::ZERO;
        }
    }

    /// Nothing more is wanted.
    pub(crate) fn close(&mut self, events: &mut VecDeque<Event>) {
        self.leave = true;
        if !self.at_server {
            self.stage = Stage::Over;
        }
        self.tell(Err(Error::Closed), events);
    }

    /// The consumer is done with it.
    pub(crate) fn release(&mut self, events: &mut VecDeque<Event>) {
        self.released = true;
        self.close(events);
    }

    /// Whether its channel may be used for something else.
    pub(crate) fn is_gone(&self) -> bool {
        self.released && self.stage == Stage::Over
    }

    pub(crate) fn end_with(&mut self, outcome: Result<()>, events: &mut VecDeque<Event>) {
        self.stage = Stage::Over;
        self.tell(outcome, events);
    }

    fn tell(&mut self, outcome: Result<()>, events: &mut VecDeque<Event>) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        events.push_back(Event::SubscriptionOver { subscription: self.id, outcome });
    }
}
