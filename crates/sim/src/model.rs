//! What must be true, whatever happens. The model knows what clients sent and what they were told; it is shown every message
//! that any reader gets, and every full read of the stream. It shares no code with the bus but the filter's rule.
//!
//! | promise | found out by |
//! |---|---|
//! | acknowledged means kept | [`Model::read_back`]: everything answered at level durable is there, where it was said to be |
//! | a delivered message survives | the same, for everything that any subscription got |
//! | once | a message is seen at one sequence only, whoever sees it |
//! | one order, the same bytes | every sight of a sequence is the same record; a later full read repeats an earlier one |
//! | no number twice | a sequence that was told or seen stands for one message for ever |
//! | a publisher's own order | its messages ascend in every full read |
//! | refused means not there | what was refused for good is never seen |

use std::collections::BTreeMap;

use arioso_client::{Ack, Error};
use arioso_stream::filter::Filter;
use arioso_stream::record::EXTENSION_HEADERS;
use arioso_stream::{Record, Sequence};
use arioso_wire::{AckLevel, Code};

use crate::{Check, hash, violated};

/// A message's number in the model: its first four payload bytes.
pub type Uid = u32;

/// What became of a message, as far as its client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not answered yet.
    Open,
    /// Stored for good.
    Durable(u64),
    /// It has a number; a crash may take it back.
    Sequenced(u64),
    /// It was refused for good.
    Refused,
    /// Nobody will tell.
    InDoubt,
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Whose messages it keeps its order with.
    pub series: u32,
    /// Its topic, by place in [`Model::topics`].
    pub topic: usize,
    /// Bytes of its payload.
    pub bytes: usize,
    /// The level asked for.
    pub level: AckLevel,
    /// Its event time.
    pub event_time: Option<i64>,
    /// All messages of an atomic batch have the same number; 0: none.
    pub atomic: u32,
    /// The newest message that matches must be this.
    pub condition: Option<(Filter, u64)>,
    /// Its series is kept in order even where an answer was lost.
    pub named: bool,
    /// Other clients use its publisher's name too.
    pub shared: bool,
}

#[derive(Clone, Debug)]
struct Message {
    sent: Sent,
    payload_hash: u64,
    fate: Fate,
    seen_at: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    uid: Uid,
    /// Of the record, once somebody saw it.
    record_hash: Option<u64>,
}

/// A message of a full read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its sequence.
    pub sequence: u64,
    /// Which.
    pub uid: Uid,
    /// Its topic, by place in [`Model::topics`].
    pub topic: usize,
    /// Its timestamp.
    pub timestamp: i64,
    /// Bytes of its record.
    pub bytes: usize,
}

/// A full read of the stream.
#[derive(Clone, Debug, Default)]
pub struct ReadBack {
    /// The messages.
    pub kept: Vec<Kept>,
    /// Everything up to here was read.
    pub through: u64,
    /// Nothing below is kept.
    pub first_kept: u64,
}

/// What must be true.
#[derive(Clone, Debug)]
pub struct Model {
    /// Topics of the workload; the last ones can't be published to.
    pub topics: Vec<String>,
    messages: Vec<Message>,
    places: BTreeMap<u64, Place>,
    read: ReadBack,
    highest_given: u64,
    series: u32,
    atomics: u32,
    newest: Option<(usize, u64)>,
}

impl Model {
    /// Nothing sent yet.
    pub fn new(topics: Vec<String>) -> Model {
        Model {
            topics,
            messages: Vec::new(),
            places: BTreeMap::new(),
            read: ReadBack::default(),
            highest_given: 0,
            series: 0,
            atomics: 0,
            newest: None,
        }
    }

    /// A row of messages that keep their order.
    pub fn begin_series(&mut self) -> u32 {
        self.series += 1;
        self.series
    }

    /// The number of an atomic batch.
    pub fn begin_atomic(&mut self) -> u32 {
        self.atomics += 1;
        self.atomics
    }

    /// A message is about to be sent.
    pub fn send(&mut self, sent: Sent) -> Uid {
        let uid = u32::try_from(self.messages.len()).expect("a run is short");
        let payload_hash = hash(0, &payload(uid, sent.bytes));
        self.messages.push(Message { sent, payload_hash, fate: Fate::Open, seen_at: None });
        uid
    }

    /// The last messages were not taken after all.
    pub fn unsend(&mut self, from: Uid) {
        self.messages.truncate(from as usize);
    }

    /// How a message was sent.
    pub fn sent(&self, uid: Uid) -> &Sent {
        &self.messages[uid as usize].sent
    }

    /// What became of a message.
    pub fn fate(&self, uid: Uid) -> Fate {
        self.messages[uid as usize].fate
    }

    /// Messages sent.
    pub fn sent_count(&self) -> usize {
        self.messages.len()
    }

    /// Messages of the newest full read.
    pub fn kept(&self) -> &ReadBack {
        &self.read
    }

    /// A topic and the sequence somebody was told of it last, for conditions.
    pub fn newest_told(&self) -> Option<(usize, u64)> {
        self.newest
    }

    /// Nobody will tell any more what became of a message.
    pub fn give_up(&mut self, uid: Uid) {
        let message = &mut self.messages[uid as usize];
        if message.fate == Fate::Open {
            message.fate = Fate::InDoubt;
        }
    }

    /// A client was told what became of the `at`-th message of an answer.
    pub fn told(&mut self, uid: Uid, at: u64, outcome: &Result<Ack, Error>) -> Check {
        let asked = self.sent(uid).level;
        let fate = match outcome {
            Ok(ack) => {
                let sequence = ack.sequence.0 + at;
                if asked == AckLevel::Durable && ack.level != AckLevel::Durable {
                    return violated(format!("message {uid} was to be durable and is answered {:?}", ack.level));
                }
                if self.is_anothers(sequence, uid) {
                    self.messages[uid as usize].fate = Fate::InDoubt;
                    return Ok(());
                }
                self.place(sequence, uid, None)?;
                match ack.level {
                    AckLevel::Durable => Fate::Durable(sequence),
                    AckLevel::Sequenced => Fate::Sequenced(sequence),
                }
            }
            Err(Error::ConditionFailed { newest }) => {
                let (topic, _) = (self.sent(uid).topic, ());
                self.newest = Some((topic, newest.0));
                Fate::Refused
            }
            Err(Error::Refused { code, .. }) if is_definite(*code) => Fate::Refused,
            Err(Error::Refused { .. } | Error::Fenced { .. } | Error::Unknown | Error::Closed) => Fate::InDoubt,
            Err(error) => return violated(format!("message {uid} ended with an error nobody caused: {error}")),
        };
        let message = &mut self.messages[uid as usize];
        if message.fate != Fate::Open {
            return violated(format!("message {uid} is answered {fate:?}, it was {:?}", message.fate));
        }
        message.fate = fate;
        if let Fate::Durable(sequence) | Fate::Sequenced(sequence) = fate {
            self.newest = Some((message.sent.topic, sequence));
        }
        if fate == Fate::Refused
            && let Some(sequence) = message.seen_at
        {
            return violated(format!("message {uid} is refused, it was seen at {sequence}"));
        }
        Ok(())
    }

    /// Two clients that take a publisher's name from each other, with a connection cut while one opens it, can't tell their
    /// numbers apart: the protocol does not say who opened an epoch. A known limit, and no more than that.
    fn is_anothers(&self, sequence: u64, uid: Uid) -> bool {
        let other = self.places.get(&sequence).map(|place| place.uid);
        other.is_some_and(|other| other != uid && self.sent(other).shared && self.sent(uid).shared)
    }

    /// A sequence stands for a message.
    fn place(&mut self, sequence: u64, uid: Uid, record_hash: Option<u64>) -> Check {
        let place = self.places.entry(sequence).or_insert(Place { uid, record_hash });
        if place.uid != uid {
            let other = place.uid;
            return violated(format!("sequence {sequence} stood for message {other} and now for message {uid}"));
        }
        match (place.record_hash, record_hash) {
            (Some(before), Some(after)) if before != after => {
                violated(format!("message {uid} at {sequence} was seen with other bytes before"))
            }
            (None, Some(_)) => {
                place.record_hash = record_hash;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Somebody got a message: is it one that was sent, unharmed, at the only place it can have?
    pub fn saw(&mut self, record: &Record<'_>, topic: &str) -> Result<Kept, crate::Violation> {
        let sequence = record.sequence().0;
        let uid = record.payload().first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let Some((uid, message)) = uid.and_then(|uid| Some((uid, self.messages.get(uid as usize)?))) else {
            return Err(crate::Violation(format!("sequence {sequence} holds a message that nobody sent")));
        };
        let wrong = |what: &str| Err(crate::Violation(format!("message {uid} at {sequence}: {what}")));
        if hash(0, record.payload()) != message.payload_hash || record.payload().len() != message.sent.bytes {
            return wrong("the payload is not what was sent");
        }
        if self.topics[message.sent.topic] != topic {
            return wrong(&format!("its topic is {topic:?}, it was sent to {:?}", self.topics[message.sent.topic]));
        }
        if record.event_time() != message.sent.event_time || record.extension(EXTENSION_HEADERS).is_some() {
            return wrong("event time or headers are not what was sent");
        }
        if record.condition() != message.sent.condition.as_ref().map(|(_, newest)| Sequence(*newest)) {
            return wrong("it names another condition than was sent");
        }
        match message.fate {
            Fate::Refused => return wrong("it was refused"),
            Fate::Durable(at) | Fate::Sequenced(at) if at != sequence => {
                return wrong(&format!("it was answered with {at}"));
            }
            _ => {}
        }
        if message.seen_at.is_some_and(|at| at != sequence) {
            return wrong(&format!("it was seen at {:?} too", message.seen_at));
        }
        let topic = message.sent.topic;
        self.place(sequence, uid, Some(hash(0, record.bytes())))?;
        self.messages[uid as usize].seen_at = Some(sequence);
        let (timestamp, bytes) = (record.timestamp(), record.bytes().len());
        Ok(Kept { sequence, uid, topic, timestamp, bytes })
    }

    /// A life of the server ended; `next` is the number it would have given next.
    pub fn life_ended(&mut self, next: u64) {
        self.highest_given = self.highest_given.max(next - 1);
    }

    /// A life of the server began. After a clean stop numbering goes on where it ended.
    pub fn life_began(&mut self, next: u64, clean: bool) -> Check {
        let given = self.highest_given;
        if next <= given {
            return violated(format!("numbering goes on at {next}, {given} was handed out before"));
        }
        if clean && next != given + 1 {
            return violated(format!("after a clean stop numbering goes on at {next}, {given} was the last"));
        }
        Ok(())
    }

    /// The stream was read from its first message kept to its settled end; every message went through [`Model::saw`].
    pub fn read_back(&mut self, read: ReadBack) -> Check {
        for pair in read.kept.windows(2) {
            if pair[0].sequence >= pair[1].sequence {
                return violated(format!("sequence {} follows {}", pair[1].sequence, pair[0].sequence));
            }
            if pair[0].timestamp > pair[1].timestamp {
                return violated(format!("the timestamp goes back at sequence {}", pair[1].sequence));
            }
        }
        self.check_earlier_read(&read)?;
        self.check_places(&read)?;
        self.check_series(&read)?;
        self.check_atomic(&read)?;
        self.check_conditions(&read)?;
        self.read = read;
        Ok(())
    }

    /// Nothing was answered durable above this sequence.
    pub fn all_answered_within(&self, through: u64) -> Check {
        let durable =
            |(sequence, place): &(&u64, &Place)| self.messages[place.uid as usize].fate == Fate::Durable(**sequence);
        match self.places.range(through + 1..).find(durable) {
            Some((sequence, _)) => violated(format!("{sequence} was answered durable, it goes through {through} only")),
            None => Ok(()),
        }
    }

    /// An earlier full read is the beginning of this one.
    fn check_earlier_read(&self, read: &ReadBack) -> Check {
        if read.through < self.read.through {
            return violated(format!("settled to {}, it was {}", read.through, self.read.through));
        }
        // What was being given back when the machine stopped may be there again.
        let first_kept = read.first_kept.max(self.read.first_kept);
        let from = |of: &ReadBack| of.kept.partition_point(|kept| kept.sequence < first_kept);
        let earlier = &self.read.kept[from(&self.read)..];
        let to = read.kept.partition_point(|kept| kept.sequence <= self.read.through);
        let again = &read.kept[from(read).min(to)..to];
        if earlier == again {
            return Ok(());
        }
        let differs = earlier.iter().zip(again).find(|(a, b)| a != b);
        violated(format!(
            "a full read has {} messages up to {}, it had {} of them before; the first that differ: {differs:?}",
            again.len(),
            self.read.through,
            earlier.len()
        ))
    }

    /// Everything answered durable or seen is there.
    fn check_places(&self, read: &ReadBack) -> Check {
        let mut kept = read.kept.iter().peekable();
        for (sequence, place) in self.places.range(read.first_kept..=read.through) {
            while kept.next_if(|kept| kept.sequence < *sequence).is_some() {}
            let there = kept.peek().is_some_and(|kept| kept.sequence == *sequence && kept.uid == place.uid);
            let durable = self.messages[place.uid as usize].fate == Fate::Durable(*sequence);
            if !there && (durable || place.record_hash.is_some()) {
                let why = if durable { "was answered durable" } else { "was delivered" };
                return violated(format!("message {} at {sequence} {why} and is not there", place.uid));
            }
        }
        Ok(())
    }

    fn check_series(&self, read: &ReadBack) -> Check {
        let mut newest: BTreeMap<u32, Uid> = BTreeMap::new();
        for kept in &read.kept {
            let message = &self.messages[kept.uid as usize];
            if !message.sent.named && message.fate == Fate::InDoubt {
                // It may have been under way on another connection.
                continue;
            }
            let before = newest.insert(message.sent.series, kept.uid);
            if before.is_some_and(|before| before >= kept.uid) {
                return violated(format!("message {} of its publisher stands behind message {before:?}", kept.uid));
            }
        }
        Ok(())
    }

    /// Of an atomic batch all messages are there, side by side, or none.
    fn check_atomic(&self, read: &ReadBack) -> Check {
        let sizes = self.messages.iter().filter(|message| message.sent.atomic > 0);
        let mut size: BTreeMap<u32, usize> = BTreeMap::new();
        sizes.for_each(|message| *size.entry(message.sent.atomic).or_default() += 1);
        let mut at = 0;
        while at < read.kept.len() {
            let atomic = self.sent(read.kept[at].uid).atomic;
            if atomic == 0 {
                at += 1;
                continue;
            }
            let part = &read.kept[at..read.kept.len().min(at + size[&atomic])];
            let first = part[0].sequence;
            let whole = part.len() == size[&atomic]
                && part
                    .iter()
                    .enumerate()
                    .all(|(i, kept)| self.sent(kept.uid).atomic == atomic && kept.sequence == first + i as u64);
            if !whole {
                return violated(format!("of the atomic batch at {first} a part is missing or lies elsewhere"));
            }
            at += part.len();
        }
        Ok(())
    }

    /// A message with a condition stands right behind what its condition named.
    fn check_conditions(&self, read: &ReadBack) -> Check {
        for (at, kept) in read.kept.iter().enumerate() {
            let Some((filter, named)) = &self.sent(kept.uid).condition else { continue };
            let matches = |kept: &&Kept| filter.matches(&self.topics[kept.topic]);
            let newest = read.kept[..at].iter().rev().find(matches).map_or(0, |kept| kept.sequence);
            if newest != *named && (newest > 0 || *named >= read.first_kept) {
                let (uid, sequence, filter) = (kept.uid, kept.sequence, filter.as_str());
                return violated(format!(
                    "message {uid} at {sequence} was to follow {named} on {filter:?}, the newest before it is {newest}"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a refusal means that the message is not in the stream and never will be.
fn is_definite(code: Code) -> bool {
    matches!(
        code,
        Code::BadTopic
            | Code::TooManyTopics
            | Code::PayloadTooLarge
            | Code::BadRecord
            | Code::NotStored
            | Code::ConditionFailed
            | Code::BatchTooLarge
    )
}

/// The payload of a message.
pub fn payload(uid: Uid, bytes: usize) -> Vec<u8> {
    let mut out = uid.to_le_bytes().to_vec();
    let mut word = u64::from(uid) | 0xA510_5000_0000_0000;
    while out.len() < bytes {
        word = crate::rng::mix(word);
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(bytes.max(4));
    out
}
