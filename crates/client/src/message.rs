//! Messages on their way out: what a caller gives, and blocks of records built beforehand.

use arioso_stream::Sequence;
use arioso_stream::record::{
    EXTENSION_BYTES_MAX, EXTENSION_CONDITION, EXTENSION_EVENT_TIME, EXTENSION_HEADERS, FLAG_CONDITIONAL,
    PAYLOAD_BYTES_MAX, push_extension, push_record, record_bytes,
};
use arioso_wire::AckLevel;
use bytes::{Bytes, BytesMut};

use crate::options::BLOCK_BYTES;
use crate::{Error, Result};

/// A message to publish. `Message::new(payload)`, then what it needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// Pairs of key and value.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// Event time, unix ns.
    pub event_time: Option<i64>,
    /// When it is answered.
    pub level: AckLevel,
    /// What must be the newest message for it to be taken.
    pub condition: Option<Expect<'a>>,
    /// Further extensions, as they lie in a record.
    pub extensions: &'a [u8],
}

/// A condition: the newest message that matches `filter` is `newest`.
#[derive(Clone, Copy, Debug)]
pub struct Expect<'a> {
    /// Exact topic or subtree.
    pub filter: &'a str,
    /// Its newest message, 0 for none.
    pub newest: Sequence,
}

impl<'a> Message<'a> {
    /// A message with nothing but a payload.
    pub fn new(payload: &'a [u8]) -> Message<'a> {
        Message { payload, ..Message::default() }
    }

    /// Bytes of the extensions, or an error if they are too many.
    pub(crate) fn extension_bytes(&self) -> Result<usize> {
        let mut count = self.extensions.len();
        if !self.headers.is_empty() {
            count += 4 + header_bytes(self.headers);
        }
        if self.event_time.is_some() {
            count += 12;
        }
        if self.condition.is_some() {
            count += 12;
        }
        if count > EXTENSION_BYTES_MAX {
            return Err(Error::TooLarge {
                what: "a message's extensions, in bytes,",
                count: count as u64,
                count_max: EXTENSION_BYTES_MAX as u64,
            });
        }
        Ok(count)
    }

    /// Bytes of the record, or an error if a part is too long.
    pub(crate) fn record_bytes(&self, payload_bytes_max: usize) -> Result<usize> {
        if self.payload.len() > payload_bytes_max {
            return Err(Error::TooLarge {
                what: "a payload, in bytes,",
                count: self.payload.len() as u64,
                count_max: payload_bytes_max as u64,
            });
        }
        Ok(record_bytes(self.extension_bytes()?, self.payload.len()))
    }

    /// Appends the record. `extensions` is lent for its memory. The message was checked by `record_bytes`.
    pub(crate) fn push(&self, topic: u32, atomic_flags: u16, extensions: &mut Vec<u8>, out: &mut BytesMut) {
        extensions.clear();
        let mut flags = atomic_flags;
        if !self.headers.is_empty() {
            push_headers(self.headers, extensions);
        }
        if let Some(event_time) = self.event_time {
            push_extension(extensions, EXTENSION_EVENT_TIME, &event_time.to_le_bytes());
        }
        if let Some(condition) = &self.condition {
            let newest = condition.newest.0.to_le_bytes();
            push_extension(extensions, EXTENSION_CONDITION, &newest);
            flags |= FLAG_CONDITIONAL;
        }
        extensions.extend_from_slice(self.extensions);
        push_record(out, topic, flags, extensions, self.payload);
    }
}

fn header_bytes(headers: &[(&[u8], &[u8])]) -> usize {
    let pair = |(key, value): &(&[u8], &[u8])| 4 + key.len() + value.len();
    headers.iter().map(pair).sum()
}

fn push_headers(headers: &[(&[u8], &[u8])], out: &mut Vec<u8>) {
    // All lengths are below the limit of the extensions together, which fits a u16.
    let length = |bytes: usize| u16::try_from(bytes).expect("checked by extension_bytes");
    out.extend_from_slice(&EXTENSION_HEADERS.to_le_bytes());
    out.extend_from_slice(&length(header_bytes(headers)).to_le_bytes());
    for (key, value) in headers {
        out.extend_from_slice(&length(key.len()).to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(&length(value.len()).to_le_bytes());
        out.extend_from_slice(value);
    }
}

/// A client's own number for a topic; it stays the same over reconnections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicId(pub(crate) u32);

/// Records built beforehand, outside of any lock: the bulk way. Sent as one frame, answered by one receipt.
#[derive(Debug)]
pub struct RecordBlock {
    pub(crate) records: BytesMut,
    pub(crate) messages: u32,
    pub(crate) level: AckLevel,
    /// The longest record.
    pub(crate) record_bytes_max: usize,
    extensions: Vec<u8>,
}

impl RecordBlock {
    /// An empty block; all its messages are answered at this level.
    pub fn new(level: AckLevel) -> RecordBlock {
        RecordBlock { records: BytesMut::new(), messages: 0, level, record_bytes_max: 0, extensions: Vec::new() }
    }

    /// Appends a message. `false`: the block is full, send it first. A message with a condition is not for blocks, and
    /// the level is the block's.
    pub fn push(&mut self, topic: TopicId, message: &Message<'_>) -> Result<bool> {
        if message.condition.is_some() {
            return Err(Error::Mixed { at: self.messages as usize, what: "a conditional message can't be in a block" });
        }
        let record_bytes = message.record_bytes(PAYLOAD_BYTES_MAX)?;
        if self.messages > 0 && self.records.len() + record_bytes > BLOCK_BYTES {
            return Ok(false);
        }
        if self.records.capacity() == 0 {
            self.records.reserve(record_bytes.max(4 << 10));
        }
        message.push(topic.0, 0, &mut self.extensions, &mut self.records);
        self.messages += 1;
        self.record_bytes_max = self.record_bytes_max.max(record_bytes);
        Ok(true)
    }

    /// Messages in it.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Bytes of its records.
    pub fn bytes(&self) -> usize {
        self.records.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Takes the records off, leaving an empty block.
    pub(crate) fn take(&mut self) -> (u32, Bytes) {
        let messages = std::mem::take(&mut self.messages);
        self.record_bytes_max = 0;
        (messages, self.records.split().freeze())
    }
}
