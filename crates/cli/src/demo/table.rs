//! What was published, so that what is delivered can be held against it: a hash and a length a file, never its bytes.

use std::collections::HashMap;

use arioso::{Received, Sequence};
use twox_hash::XxHash3_64;

/// Problems of one reading that are told in words.
const TOLD_MAX: usize = 3;

/// A reading of the stream, each with a bit of its own in [`File::seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reading {
    /// Followed live.
    Live = 1,
    /// Recovered from the tip.
    Tip = 2,
    /// Recovered from disk.
    Disk = 4,
    /// Left and resumed at a mark.
    Resumed = 8,
    /// Everything.
    Whole = 16,
}

/// A file as it was published.
#[derive(Clone, Copy, Debug)]
struct File {
    hash: u64,
    bytes: u32,
    /// In the subtree that is recovered.
    in_slice: bool,
    /// Readings that delivered it.
    seen: u8,
    /// Where it was acknowledged to be; 0: not acknowledged.
    sequence: u64,
}

/// All files published, by the hash of their topic.
#[derive(Debug, Default)]
pub struct Table {
    files: HashMap<u64, File>,
}

fn key(topic: &str) -> u64 {
    XxHash3_64::oneshot(topic.as_bytes())
}

impl Table {
    /// Notes a file that is about to be published. `false`: another one has the same key, this one can't be told apart.
    pub fn expect(&mut self, topic: &str, payload: &[u8], in_slice: bool) -> bool {
        let bytes = u32::try_from(payload.len()).expect("a payload has at most 16 MiB");
        let file = File { hash: XxHash3_64::oneshot(payload), bytes, in_slice, seen: 0, sequence: 0 };
        match self.files.entry(key(topic)) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(file);
                true
            }
        }
    }

    /// A file was acknowledged. Gives the sequence it was acknowledged with before, if it was.
    pub fn acknowledged(&mut self, topic: &str, sequence: Sequence) -> Option<u64> {
        let file = self.files.get_mut(&key(topic))?;
        let before = std::mem::replace(&mut file.sequence, sequence.0);
        (before != 0).then_some(before)
    }

    /// Files there are.
    pub fn len(&self) -> u64 {
        self.files.len() as u64
    }

    /// Files of the subtree at or above a sequence, and their bytes.
    pub fn slice(&self, from: Sequence) -> (u64, u64) {
        let files = self.files.values().filter(|file| file.in_slice && file.sequence >= from.0);
        files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + u64::from(file.bytes)))
    }

    /// Files that were acknowledged, and the bytes of all.
    pub fn totals(&self) -> (u64, u64) {
        let acknowledged = self.files.values().filter(|file| file.sequence != 0).count() as u64;
        (acknowledged, self.files.values().map(|file| u64::from(file.bytes)).sum())
    }

    /// Files a reading delivered.
    pub fn seen(&self, reading: Reading) -> u64 {
        self.files.values().filter(|file| file.seen & reading as u8 != 0).count() as u64
    }
}

/// What a reading came to.
#[derive(Debug)]
pub struct Checked {
    reading: Reading,
    last: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    wrong: u64,
    told: Vec<String>,
}

impl Checked {
    /// Nothing was delivered yet.
    pub fn new(reading: Reading) -> Checked {
        Checked { reading, last: 0, messages: 0, bytes: 0, wrong: 0, told: Vec::new() }
    }

    /// Holds one message against the table: known, in order, for the first time, with the same bytes, where it was acknowledged.
    pub fn message(&mut self, table: &mut Table, message: &Received<'_>) {
        let (topic, sequence, payload) = (message.topic(), message.sequence().0, message.payload());
        self.messages += 1;
        self.bytes += payload.len() as u64;
        if sequence <= self.last {
            self.wrong(format!("message {sequence} came after {}", self.last));
        }
        self.last = sequence;
        let Some(file) = table.files.get_mut(&key(topic)) else {
            self.wrong(format!("{topic} was never published"));
            return;
        };
        if file.seen & self.reading as u8 != 0 {
            self.wrong(format!("{topic} came twice, the second time as {sequence}"));
        }
        file.seen |= self.reading as u8;
        if file.bytes as usize != payload.len() || file.hash != XxHash3_64::oneshot(payload) {
            self.wrong(format!(
                "{topic} has other bytes than the file: {} where {} were read",
                payload.len(),
                file.bytes
            ));
        }
        if file.sequence != 0 && file.sequence != sequence {
            self.wrong(format!("{topic} was acknowledged as {} and came as {sequence}", file.sequence));
        }
    }

    /// Something is not as it should be.
    pub fn wrong(&mut self, what: String) {
        self.wrong += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(what);
        }
    }

    /// `None` if everything was right, else what was not.
    pub fn problem(&self) -> Option<String> {
        let more = self.wrong - self.told.len() as u64;
        let tail = if more > 0 { format!("; and {more} more") } else { String::new() };
        (self.wrong > 0).then(|| format!("{}{tail}", self.told.join("; ")))
    }
}
