//! One message's bytes, the same in memory, on disk and on the wire (docs/format.md section 2).
//!
//! ```text
//!  0 payload bytes   4 topic   8 sequence   16 timestamp   24 publisher   28 flags   30 extension bytes
//! 32 extensions, payload, zeros up to a multiple of 8
//! ```

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A message's place in the stream: strictly increasing, may skip. The first one is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before every message.
    pub const ZERO: Sequence = Sequence(0);

    /// The number after this one.
    pub fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }
}

impl std::fmt::Display for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 32;
/// Records are padded to a multiple of this.
pub const RECORD_ALIGN: usize = 8;
/// The largest payload: a batch and its record fit a `u32`, and one message can't hold a connection for long.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// Extensions are counted in a `u16`.
pub const EXTENSION_BYTES_MAX: usize = u16::MAX as usize;
/// Topic id of the bus's own records.
pub const CONTROL_TOPIC: u32 = 0;

/// Flag: a void record (a control record that takes messages back).
pub const FLAG_VOID: u16 = 1;
/// Flag: extension 3 tells the sequence the message's condition named.
pub const FLAG_CONDITIONAL: u16 = 2;
/// Flag: first message of an atomic batch of two or more.
pub const FLAG_ATOMIC_FIRST: u16 = 4;
/// Flag: last message of an atomic batch of two or more.
pub const FLAG_ATOMIC_LAST: u16 = 8;

/// Extension: pairs of key and value.
pub const EXTENSION_HEADERS: u16 = 1;
/// Extension: event time, unix nanoseconds.
pub const EXTENSION_EVENT_TIME: u16 = 2;
/// Extension: the sequence the message's condition named.
pub const EXTENSION_CONDITION: u16 = 3;

/// A record's header as it lies.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Bytes of the payload.
    pub payload_bytes: U32,
    /// Stream-wide topic id (on a publish frame: the connection's).
    pub topic: U32,
    /// The message's sequence.
    pub sequence: U64,
    /// Unix nanoseconds, given by the sequencer.
    pub timestamp: I64,
    /// Stream-wide publisher id.
    pub publisher: U32,
    /// `FLAG_*`.
    pub flags: U16,
    /// Bytes of the extensions.
    pub extension_bytes: U16,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

impl Header {
    /// Bytes of the whole record, padding included.
    pub fn record_bytes(&self) -> usize {
        record_bytes(self.extension_bytes.get() as usize, self.payload_bytes.get() as usize)
    }
}

/// Bytes of a record with these parts, padding included.
pub const fn record_bytes(extension_bytes: usize, payload_bytes: usize) -> usize {
    (HEADER_BYTES + extension_bytes + payload_bytes).next_multiple_of(RECORD_ALIGN)
}

/// A record seen in place.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    header: &'a Header,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at the start of `bytes`, or what is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<Record<'a>, BadRecord> {
        let (header, _) =
            Header::ref_from_prefix(bytes).map_err(|_| BadRecord::Short { have: bytes.len(), need: HEADER_BYTES })?;
        let payload_bytes = header.payload_bytes.get() as usize;
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(BadRecord::Payload { payload_bytes });
        }
        let need = header.record_bytes();
        match bytes.get(..need) {
            Some(bytes) => Ok(Record { header, bytes }),
            None => Err(BadRecord::Short { have: bytes.len(), need }),
        }
    }

    /// The header.
    pub fn header(&self) -> &'a Header {
        self.header
    }

    /// The message's sequence.
    pub fn sequence(&self) -> Sequence {
        Sequence(self.header.sequence.get())
    }

    /// Stream-wide topic id.
    pub fn topic(&self) -> u32 {
        self.header.topic.get()
    }

    /// Unix nanoseconds.
    pub fn timestamp(&self) -> i64 {
        self.header.timestamp.get()
    }

    /// The whole record, padding included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The payload.
    pub fn payload(&self) -> &'a [u8] {
        let from = HEADER_BYTES + self.header.extension_bytes.get() as usize;
        &self.bytes[from..from + self.header.payload_bytes.get() as usize]
    }

    /// The extensions, as they lie.
    pub fn extension_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.header.extension_bytes.get() as usize]
    }

    /// The value of the first extension of a type.
    pub fn extension(&self, wanted: u16) -> Option<&'a [u8]> {
        Extensions(self.extension_bytes()).find_map(|part| part.ok().filter(|(kind, _)| *kind == wanted).map(|p| p.1))
    }

    /// The event time, where given.
    pub fn event_time(&self) -> Option<i64> {
        let value: [u8; 8] = self.extension(EXTENSION_EVENT_TIME)?.try_into().ok()?;
        Some(i64::from_le_bytes(value))
    }

    /// The sequence the message's condition named, where it had one.
    pub fn condition(&self) -> Option<Sequence> {
        let value: [u8; 8] = self.extension(EXTENSION_CONDITION)?.try_into().ok()?;
        Some(Sequence(u64::from_le_bytes(value)))
    }
}

/// What is wrong with bytes that should be a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// The bytes end too early.
    #[error("record of {need} bytes is cut after {have}")]
    Short {
        /// Bytes there are.
        have: usize,
        /// Bytes the record needs.
        need: usize,
    },
    /// The payload is over the limit.
    #[error("payload of {payload_bytes} bytes is over the limit of 16777216")]
    Payload {
        /// Bytes the header tells.
        payload_bytes: usize,
    },
    /// The extensions do not parse.
    #[error("extensions do not parse at byte {at}")]
    Extension {
        /// Where in the extensions.
        at: usize,
    },
}

/// Walks records laid end to end. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Over records that fill `bytes`.
    pub fn new(bytes: &'a [u8]) -> Records<'a> {
        Records(bytes)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        match Record::read(self.0) {
            Ok(record) => {
                self.0 = &self.0[record.bytes.len()..];
                Some(Ok(record))
            }
            Err(bad) => {
                self.0 = &[];
                Some(Err(bad))
            }
        }
    }
}

/// Walks extensions: type and value. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Extensions<'a>(pub &'a [u8]);

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<(u16, &'a [u8]), BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.0;
        if bytes.is_empty() {
            return None;
        }
        let part = bytes.split_at_checked(4).and_then(|(head, rest)| {
            let kind = u16::from_le_bytes([head[0], head[1]]);
            let value_bytes = u16::from_le_bytes([head[2], head[3]]) as usize;
            let (value, rest) = rest.split_at_checked(value_bytes)?;
            Some((kind, value, rest))
        });
        match part {
            Some((kind, value, rest)) => {
                self.0 = rest;
                Some(Ok((kind, value)))
            }
            None => {
                self.0 = &[];
                Some(Err(BadRecord::Extension { at: 0 }))
            }
        }
    }
}

/// Appends an extension.
pub fn push_extension(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let value_bytes = u16::try_from(value.len()).expect("the caller keeps extensions small");
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&value_bytes.to_le_bytes());
    out.extend_from_slice(value);
}

/// Appends a record that has no number yet, as a publisher sends it.
pub fn push_record(out: &mut impl bytes::BufMut, topic: u32, flags: u16, extensions: &[u8], payload: &[u8]) {
    let header = Header {
        payload_bytes: U32::new(u32::try_from(payload.len()).expect("payload is bounded")),
        topic: U32::new(topic),
        sequence: U64::new(0),
        timestamp: I64::new(0),
        publisher: U32::new(0),
        flags: U16::new(flags),
        extension_bytes: U16::new(u16::try_from(extensions.len()).expect("extensions are bounded")),
    };
    out.put_slice(header.as_bytes());
    out.put_slice(extensions);
    out.put_slice(payload);
    let plain = HEADER_BYTES + extensions.len() + payload.len();
    out.put_bytes(0, plain.next_multiple_of(RECORD_ALIGN) - plain);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let mut bytes = Vec::new();
        let mut extensions = Vec::new();
        push_extension(&mut extensions, EXTENSION_EVENT_TIME, &7i64.to_le_bytes());
        push_extension(&mut extensions, 99, b"kept");
        push_record(&mut bytes, 3, FLAG_CONDITIONAL, &extensions, b"hello");
        push_record(&mut bytes, 4, 0, &[], b"");
        assert_eq!(bytes.len() % RECORD_ALIGN, 0);
        let records: Vec<Record> = Records::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].payload(), b"hello");
        assert_eq!(records[0].event_time(), Some(7));
        assert_eq!(records[0].extension(99), Some(&b"kept"[..]));
        assert_eq!(records[0].condition(), None);
        assert_eq!(records[1].topic(), 4);
        assert_eq!(records[1].payload(), b"");
    }

    #[test]
    fn a_cut_record_says_how_much_is_missing() {
        let mut bytes = Vec::new();
        push_record(&mut bytes, 3, 0, &[], b"hello");
        bytes.truncate(bytes.len() - 8);
        assert_eq!(Record::read(&bytes).unwrap_err(), BadRecord::Short { have: 32, need: 40 });
    }
}
