//! The batch: what is written and checksummed at once (docs/format.md section 3).
//!
//! ```text
//! | fixed part, 128 bytes | names | zeros to 8 | runs, 40 bytes each | records | zeros to the next page |
//! '------------------ header, one checksum --------------------------'--- one --'
//! ```
//!
//! [`BatchParts`] is all that is known before a batch has a place in a file; [`BatchHeader`] is the header
//! read in place. Reading is total: whatever the bytes are, it answers without allocating.

use arioso_stream::Sequence;
use arioso_stream::order::Batch;
pub use arioso_stream::order::{NameKind, Run};
use bytes::{BufMut, Bytes, BytesMut};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Batches start at multiples of this, in every file.
pub const PAGE_BYTES: usize = 4096;
/// The fixed part of the header.
pub const FIXED_BYTES: usize = 128;
/// One run in the header.
pub const RUN_BYTES: usize = 40;
/// The largest header: an atomic batch of 4,096 messages, each with a new topic and a new publisher of 1,024
/// bytes and a run of its own, has 8.5 MiB.
pub const BATCH_HEADER_BYTES_MAX: usize = 16 << 20;
/// The most bytes of records in a batch: the largest message has 16 MiB and 64 KiB of extensions, and what
/// waits beside it for the same sync has room too.
pub const BATCH_RECORDS_BYTES_MAX: usize = 32 << 20;
/// The largest batch as it lies in a file.
pub const BATCH_BYTES_MAX: usize = BATCH_HEADER_BYTES_MAX + BATCH_RECORDS_BYTES_MAX;
/// The longest name, topic or publisher.
pub const NAME_BYTES_MAX: usize = 1024;

const _: () = assert!(BATCH_RECORDS_BYTES_MAX > arioso_stream::record::PAYLOAD_BYTES_MAX + (1 << 17));
const _: () = assert!(BATCH_HEADER_BYTES_MAX > 4096 * (2 * (NAME_HEADER_BYTES + NAME_BYTES_MAX) + RUN_BYTES));
const _: () = assert!(size_of::<Fixed>() == FIXED_BYTES && size_of::<FixedRun>() == RUN_BYTES);

/// The first four bytes of every batch.
pub const BATCH_MAGIC: [u8; 4] = *b"ABT1";
const VERSION: u16 = 1;
const NAME_HEADER_BYTES: usize = 8;
/// Where the checksummed part begins.
const CHECKED_FROM: usize = 8;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    magic: [u8; 4],
    checksum: U32,
    version: U16,
    flags: U16,
    header_bytes: U32,
    incarnation: U64,
    number: U64,
    offset: U64,
    records_bytes: U32,
    records: U32,
    previous_checksum: U32,
    records_checksum: U32,
    first_sequence: U64,
    last_sequence: U64,
    synced_to: U64,
    reserved_to: U64,
    settled_to: U64,
    timestamp: I64,
    server_epoch: U64,
    names_bytes: U32,
    runs: U32,
    names: U32,
    zero: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FixedRun {
    publisher: U32,
    epoch: U32,
    first_publisher_sequence: U64,
    messages: U32,
    zero: U32,
    stored_before: U64,
    first_sequence: U64,
}

/// A name in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// What it names.
    pub kind: NameKind,
    /// The id.
    pub id: u32,
    /// The name itself.
    pub name: &'a str,
}

/// The encoded names of a batch.
#[derive(Clone, Debug, Default)]
pub struct NamesPart {
    bytes: Bytes,
    count: u32,
}

impl NamesPart {
    /// Bytes they take in the header, without padding.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many names.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Builds the names of a batch.
#[derive(Debug, Default)]
pub struct NamesBuilder {
    bytes: BytesMut,
    count: u32,
}

impl NamesBuilder {
    /// Adds a name of at most [`NAME_BYTES_MAX`] bytes.
    pub fn push(&mut self, kind: NameKind, id: u32, name: &str) {
        assert!(name.len() <= NAME_BYTES_MAX, "names are checked where they come in");
        self.bytes.put_u8(match kind {
            NameKind::Topic => 0,
            NameKind::Publisher => 1,
        });
        self.bytes.put_u8(0);
        self.bytes.put_u16_le(name.len() as u16);
        self.bytes.put_u32_le(id);
        self.bytes.put_slice(name.as_bytes());
        self.count += 1;
    }

    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The finished part; the builder is empty again.
    pub fn take(&mut self) -> NamesPart {
        let count = std::mem::take(&mut self.count);
        NamesPart { bytes: self.bytes.split().freeze(), count }
    }
}

/// Where a batch lies: known only when the journal places it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The incarnation of its segment.
    pub incarnation: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// The header checksum of the batch before.
    pub previous_checksum: u32,
}

/// All of a batch that is known before it has a place.
#[derive(Clone, Debug)]
pub struct BatchParts {
    /// Consecutive over the stream.
    pub number: u64,
    /// First sequence; of an empty batch the last number given so far.
    pub first_sequence: u64,
    /// Last sequence; of an empty batch the last number given so far.
    pub last_sequence: u64,
    /// The newest batch number known durable.
    pub synced_to: u64,
    /// No sequence above the durable one is ever handed out.
    pub reserved_to: u64,
    /// Everything at or below is settled or void.
    pub settled_to: u64,
    /// Of the last record, or the last kept one.
    pub timestamp: i64,
    /// The server's epoch.
    pub server_epoch: u64,
    /// Records, control records included.
    pub records_count: u32,
    /// Names first used here.
    pub names: NamesPart,
    /// In sequence order; they cover every record that is not a control record.
    pub runs: Vec<Run>,
    /// The records, end to end.
    pub records: Bytes,
    /// CRC-32C of the records.
    pub records_crc: u32,
}

impl BatchParts {
    /// What the sequencer built, and what the journal adds: how far was durable and settled, and whose epoch it is.
    pub fn new(batch: Batch, synced_to: u64, settled_to: u64, server_epoch: u64) -> BatchParts {
        let mut names = NamesBuilder::default();
        for name in &batch.names {
            names.push(name.kind, name.id, &name.name);
        }
        BatchParts {
            number: batch.number,
            first_sequence: batch.first.0,
            last_sequence: batch.last.0,
            synced_to,
            reserved_to: batch.reserved_to.0,
            settled_to,
            timestamp: batch.timestamp,
            server_epoch,
            records_count: batch.record_count,
            names: names.take(),
            runs: batch.runs,
            records_crc: crc32c::crc32c(&batch.records),
            records: batch.records,
        }
    }

    /// A batch without records: it carries `synced_to`, `reserved_to` and `settled_to` forward.
    pub fn empty(number: u64, last_sequence: u64, timestamp: i64, server_epoch: u64) -> BatchParts {
        BatchParts {
            number,
            first_sequence: last_sequence,
            last_sequence,
            synced_to: number.saturating_sub(1),
            reserved_to: last_sequence,
            settled_to: last_sequence,
            timestamp,
            server_epoch,
            records_count: 0,
            names: NamesPart::default(),
            runs: Vec::new(),
            records: Bytes::new(),
            records_crc: 0,
        }
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        header_bytes(self.names.bytes(), self.runs.len())
    }

    /// Bytes in a file, padding to the page included.
    pub fn file_bytes(&self) -> u64 {
        file_bytes(self.names.bytes(), self.runs.len(), self.records.len())
    }

    /// Appends the header for a place and returns its checksum.
    pub fn encode_header(&self, place: Place, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        self.encode_unplaced(out);
        place_header(&mut out[start..], place)
    }

    /// Appends the header without a place: what tells it, and the checksum, is zero until [`place_header`].
    pub fn encode_unplaced(&self, out: &mut Vec<u8>) {
        let header_bytes = self.header_bytes();
        assert!(header_bytes <= BATCH_HEADER_BYTES_MAX && self.records.len() <= BATCH_RECORDS_BYTES_MAX);
        assert!(self.records.len().is_multiple_of(arioso_stream::record::RECORD_ALIGN));
        let start = out.len();
        out.reserve(header_bytes);
        out.extend_from_slice(self.fixed(header_bytes).as_bytes());
        out.extend_from_slice(&self.names.bytes);
        out.resize(start + FIXED_BYTES + self.names.bytes().next_multiple_of(8), 0);
        for run in &self.runs {
            out.extend_from_slice(FixedRun::from(run).as_bytes());
        }
        assert_eq!(out.len() - start, header_bytes);
    }

    fn fixed(&self, header_bytes: usize) -> Fixed {
        Fixed {
            magic: BATCH_MAGIC,
            checksum: U32::ZERO,
            version: U16::new(VERSION),
            flags: U16::ZERO,
            header_bytes: U32::new(header_bytes as u32),
            incarnation: U64::ZERO,
            number: U64::new(self.number),
            offset: U64::ZERO,
            records_bytes: U32::new(self.records.len() as u32),
            records: U32::new(self.records_count),
            previous_checksum: U32::ZERO,
            records_checksum: U32::new(self.records_crc),
            first_sequence: U64::new(self.first_sequence),
            last_sequence: U64::new(self.last_sequence),
            synced_to: U64::new(self.synced_to),
            reserved_to: U64::new(self.reserved_to),
            settled_to: U64::new(self.settled_to),
            timestamp: I64::new(self.timestamp),
            server_epoch: U64::new(self.server_epoch),
            names_bytes: U32::new(self.names.bytes() as u32),
            runs: U32::new(self.runs.len() as u32),
            names: U32::new(self.names.count),
            zero: U32::ZERO,
        }
    }
}

impl From<&Run> for FixedRun {
    fn from(run: &Run) -> FixedRun {
        FixedRun {
            publisher: U32::new(run.publisher),
            epoch: U32::new(run.epoch),
            first_publisher_sequence: U64::new(run.first_publisher_sequence),
            messages: U32::new(run.messages),
            zero: U32::ZERO,
            stored_before: U64::new(run.stored_before),
            first_sequence: U64::new(run.first_sequence.0),
        }
    }
}

/// Gives a whole header without a place its place, and its checksum, which is returned.
pub fn place_header(header: &mut [u8], place: Place) -> u32 {
    assert!(place.offset.is_multiple_of(PAGE_BYTES as u64));
    let (fixed, _) = Fixed::mut_from_prefix(header).expect("a header has its fixed part");
    assert_eq!(fixed.magic, BATCH_MAGIC);
    fixed.incarnation = U64::new(place.incarnation);
    fixed.offset = U64::new(place.offset);
    fixed.previous_checksum = U32::new(place.previous_checksum);
    let checksum = crc32c::crc32c(&header[CHECKED_FROM..]);
    header[4..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Bytes of a header with so many bytes of names and so many runs.
pub const fn header_bytes(names_bytes: usize, runs: usize) -> usize {
    FIXED_BYTES + names_bytes.next_multiple_of(8) + runs * RUN_BYTES
}

/// Bytes a batch takes in a file, padding to the page included.
pub const fn file_bytes(names_bytes: usize, runs: usize, records_bytes: usize) -> u64 {
    (header_bytes(names_bytes, runs) + records_bytes).next_multiple_of(PAGE_BYTES) as u64
}

/// What is wrong with bytes that should be a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBatch {
    /// The bytes end too early; more of the file may hold the rest.
    #[error("batch of {need} bytes is cut after {have}")]
    Short {
        /// Bytes there are.
        have: usize,
        /// Bytes needed to judge further.
        need: usize,
    },
    /// No batch begins here.
    #[error("no batch begins here")]
    Magic,
    /// A version this reader does not know.
    #[error("batch version {version} is not known, this reader knows 1")]
    Version {
        /// The version.
        version: u16,
    },
    /// The lengths in the header contradict each other or are over the limits.
    #[error("batch header's lengths are impossible")]
    Lengths,
    /// The header is not what was written.
    #[error("batch header's checksum is {got:#010x}, {want:#010x} was written")]
    HeaderChecksum {
        /// What the header says.
        want: u32,
        /// What its bytes give.
        got: u32,
    },
    /// The names do not parse.
    #[error("batch's names do not parse")]
    Names,
    /// The records are not what was written.
    #[error("batch's records' checksum is {got:#010x}, {want:#010x} was written")]
    RecordsChecksum {
        /// What the header says.
        want: u32,
        /// What the records give.
        got: u32,
    },
    /// A good batch of another place or another life of the file.
    #[error("the batch here belongs to incarnation {incarnation:#x} at {offset}")]
    Elsewhere {
        /// The incarnation it was written in.
        incarnation: u64,
        /// The offset it was written at.
        offset: u64,
    },
    /// A good batch that does not continue the one before.
    #[error("batch {number} stands where batch {expected} belongs")]
    Chain {
        /// The batch that stands here.
        number: u64,
        /// The one that belongs here.
        expected: u64,
    },
}

/// A batch's header, read in place.
#[derive(Clone, Copy, Debug)]
pub struct BatchHeader<'a> {
    fixed: &'a Fixed,
    bytes: &'a [u8],
}

impl<'a> BatchHeader<'a> {
    /// The header at the start of `bytes`, its checksum tested, or what is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<BatchHeader<'a>, BadBatch> {
        let fixed = BatchHeader::peek(bytes)?;
        let need = fixed.header_bytes.get() as usize;
        let Some(bytes) = bytes.get(..need) else {
            return Err(BadBatch::Short { have: bytes.len(), need });
        };
        let (want, got) = (fixed.checksum.get(), crc32c::crc32c(&bytes[CHECKED_FROM..]));
        if want != got {
            return Err(BadBatch::HeaderChecksum { want, got });
        }
        let header = BatchHeader { fixed, bytes };
        let mut walk = NameWalk(header.names_bytes());
        let count = walk.by_ref().take_while(Result::is_ok).count();
        if count != fixed.names.get() as usize || !walk.0.is_empty() {
            return Err(BadBatch::Names);
        }
        Ok(header)
    }

    /// The header at its place: read, and tested to have been written there.
    pub fn read_at(bytes: &'a [u8], incarnation: u64, offset: u64) -> Result<BatchHeader<'a>, BadBatch> {
        // The place is tested before the checksum: on a recycled file old headers are the common case.
        let fixed = BatchHeader::peek(bytes)?;
        if fixed.incarnation.get() != incarnation || fixed.offset.get() != offset {
            let (incarnation, offset) = (fixed.incarnation.get(), fixed.offset.get());
            return Err(BadBatch::Elsewhere { incarnation, offset });
        }
        BatchHeader::read(bytes)
    }

    /// The incarnation a header tells whose checksum could not be tested yet.
    pub(crate) fn peek_incarnation(bytes: &'a [u8]) -> Option<u64> {
        BatchHeader::peek(bytes).ok().map(|fixed| fixed.incarnation.get())
    }

    /// A header that our own side encoded, still without a place, or one that was tested before. Panics if it is cut.
    pub fn trusted(bytes: &'a [u8]) -> BatchHeader<'a> {
        let (fixed, _) = Fixed::ref_from_prefix(bytes).expect("a tested header is whole");
        BatchHeader { fixed, bytes: &bytes[..fixed.header_bytes.get() as usize] }
    }

    /// The fixed part with possible lengths; nothing is known about its checksum.
    fn peek(bytes: &'a [u8]) -> Result<&'a Fixed, BadBatch> {
        let Ok((fixed, _)) = Fixed::ref_from_prefix(bytes) else {
            return Err(BadBatch::Short { have: bytes.len(), need: FIXED_BYTES });
        };
        if fixed.magic != BATCH_MAGIC {
            return Err(BadBatch::Magic);
        }
        if fixed.version.get() != VERSION {
            return Err(BadBatch::Version { version: fixed.version.get() });
        }
        let header = u64::from(fixed.header_bytes.get());
        let records = u64::from(fixed.records_bytes.get());
        let names = u64::from(fixed.names_bytes.get()).next_multiple_of(8);
        let want = FIXED_BYTES as u64 + names + u64::from(fixed.runs.get()) * RUN_BYTES as u64;
        let fits = header <= BATCH_HEADER_BYTES_MAX as u64 && records <= BATCH_RECORDS_BYTES_MAX as u64;
        let align = arioso_stream::record::RECORD_ALIGN as u64;
        if header != want || !fits || !records.is_multiple_of(align) {
            return Err(BadBatch::Lengths);
        }
        Ok(fixed)
    }

    /// Tests the records' checksum; `records` are exactly the records' bytes.
    pub fn verify_records(&self, records: &[u8]) -> Result<(), BadBatch> {
        let (want, need) = (self.fixed.records_checksum.get(), self.records_bytes());
        if records.len() != need {
            return Err(BadBatch::Short { have: records.len(), need });
        }
        let got = crc32c::crc32c(records);
        if want != got {
            return Err(BadBatch::RecordsChecksum { want, got });
        }
        Ok(())
    }

    /// The records of a whole batch whose first byte is this header's first, their checksum tested.
    pub fn records(&self, batch: &'a [u8]) -> Result<&'a [u8], BadBatch> {
        let need = self.header_bytes() + self.records_bytes();
        let Some(records) = batch.get(self.header_bytes()..need) else {
            return Err(BadBatch::Short { have: batch.len(), need });
        };
        self.verify_records(records)?;
        Ok(records)
    }

    /// Whether every record is a message: no control record is among them.
    pub fn messages_only(&self) -> bool {
        self.messages() == u64::from(self.records_count())
    }

    /// Records that are messages.
    pub fn messages(&self) -> u64 {
        self.runs().map(|run| u64::from(run.messages)).sum()
    }

    /// The header as it lies: fixed part, names, runs.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        self.fixed.header_bytes.get() as usize
    }

    /// Bytes of the records.
    pub fn records_bytes(&self) -> usize {
        self.fixed.records_bytes.get() as usize
    }

    /// Bytes in the file, padding included.
    pub fn file_bytes(&self) -> u64 {
        (self.header_bytes() + self.records_bytes()).next_multiple_of(PAGE_BYTES) as u64
    }

    /// Where the next batch begins.
    pub fn end(&self) -> u64 {
        self.offset() + self.file_bytes()
    }

    fn names_bytes(&self) -> &'a [u8] {
        &self.bytes[FIXED_BYTES..FIXED_BYTES + self.fixed.names_bytes.get() as usize]
    }

    /// The names told here. Kinds this reader does not know are passed over.
    pub fn names(&self) -> impl Iterator<Item = Name<'a>> + use<'a> {
        NameWalk(self.names_bytes()).filter_map(|name| name.ok().flatten())
    }

    /// The runs, in sequence order.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        let from = FIXED_BYTES + (self.fixed.names_bytes.get() as usize).next_multiple_of(8);
        self.bytes[from..].chunks_exact(RUN_BYTES).filter_map(|bytes| {
            let run = FixedRun::ref_from_bytes(bytes).ok()?;
            Some(Run {
                publisher: run.publisher.get(),
                epoch: run.epoch.get(),
                first_publisher_sequence: run.first_publisher_sequence.get(),
                messages: run.messages.get(),
                stored_before: run.stored_before.get(),
                first_sequence: Sequence(run.first_sequence.get()),
            })
        })
    }

    /// The checksum of this header.
    pub fn checksum(&self) -> u32 {
        self.fixed.checksum.get()
    }

    /// The incarnation of its segment.
    pub fn incarnation(&self) -> u64 {
        self.fixed.incarnation.get()
    }

    /// The batch's number.
    pub fn number(&self) -> u64 {
        self.fixed.number.get()
    }

    /// Its offset in the file.
    pub fn offset(&self) -> u64 {
        self.fixed.offset.get()
    }

    /// How many records, control records included.
    pub fn records_count(&self) -> u32 {
        self.fixed.records.get()
    }

    /// The header checksum of the batch before.
    pub fn previous_checksum(&self) -> u32 {
        self.fixed.previous_checksum.get()
    }

    /// The first sequence.
    pub fn first_sequence(&self) -> u64 {
        self.fixed.first_sequence.get()
    }

    /// The last sequence.
    pub fn last_sequence(&self) -> u64 {
        self.fixed.last_sequence.get()
    }

    /// The newest batch number known durable when this one was built.
    pub fn synced_to(&self) -> u64 {
        self.fixed.synced_to.get()
    }

    /// No sequence above the durable one is ever handed out.
    pub fn reserved_to(&self) -> u64 {
        self.fixed.reserved_to.get()
    }

    /// Everything at or below was settled or void when this one was built.
    pub fn settled_to(&self) -> u64 {
        self.fixed.settled_to.get()
    }

    /// Of the last record, or the last kept timestamp.
    pub fn timestamp(&self) -> i64 {
        self.fixed.timestamp.get()
    }

    /// The epoch of the server that built it.
    pub fn server_epoch(&self) -> u64 {
        self.fixed.server_epoch.get()
    }
}

/// Walks encoded names; `None` is a kind that is not known. Ends after the first error.
struct NameWalk<'a>(&'a [u8]);

impl<'a> Iterator for NameWalk<'a> {
    type Item = Result<Option<Name<'a>>, BadBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((name, rest)) = split_name(self.0) else {
            return Some(Err(BadBatch::Names));
        };
        self.0 = rest;
        Some(Ok(name))
    }
}

/// The first name and the bytes behind it.
fn split_name(bytes: &[u8]) -> Option<(Option<Name<'_>>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(NAME_HEADER_BYTES)?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([head[2], head[3]])))?;
    let id = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let kind = match head[0] {
        0 => NameKind::Topic,
        1 => NameKind::Publisher,
        _ => return Some((None, rest)),
    };
    let name = std::str::from_utf8(name).ok()?;
    Some((Some(Name { kind, id, name }), rest))
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
