//! The header of a segment: page 0.

use arioso_disk::File;
use zerocopy::little_endian::{I64, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Result;
use crate::head::{self, BadPart, Head};

/// The first bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"ARIOSEG1";
const FLAG_BEGUN: u16 = 1;
const FLAG_RECYCLED: u16 = 2;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    head: Head,
    stream: U128,
    number: U64,
    incarnation: U64,
    next_sequence: U64,
    timestamp: I64,
    server_epoch: U64,
    previous_segment: U64,
    previous_end: U64,
    previous_batch: U64,
    previous_checksum: U32,
    next_topic: U32,
    next_publisher: U32,
    zero: U32,
    capacity: U64,
    settled_to: U64,
}

const _: () = assert!(size_of::<Fixed>() == 128);

/// Where a chain of batches ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainEnd {
    /// The segment of the last batch; 0 before any.
    pub segment: u64,
    /// The offset behind it.
    pub end: u64,
    /// Its number; 0 before any.
    pub batch: u64,
    /// Its header checksum.
    pub checksum: u32,
}

/// How far a segment's file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Ready to be begun: no batch of this incarnation is in it, and what the header says beside number,
    /// incarnation and capacity counts for nothing.
    Prepared,
    /// Batches may follow.
    Begun,
}

/// A segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The stream it belongs to.
    pub stream: u128,
    /// Its number.
    pub number: u64,
    /// Never used before for any file of the stream.
    pub incarnation: u64,
    /// How far it has come.
    pub state: SegmentState,
    /// Whether the file held other batches before.
    pub recycled: bool,
    /// The next sequence when it began.
    pub next_sequence: u64,
    /// The last kept timestamp.
    pub timestamp: i64,
    /// The epoch of the server that began it.
    pub server_epoch: u64,
    /// Where the chain before it ended.
    pub previous: ChainEnd,
    /// The next topic id.
    pub next_topic: u32,
    /// The next publisher id.
    pub next_publisher: u32,
    /// Bytes of the file when made.
    pub capacity: u64,
    /// Everything at or below was settled or void.
    pub settled_to: u64,
}

impl SegmentHeader {
    /// The header as a page.
    pub fn encode(&self) -> Vec<u8> {
        let begun = if self.state == SegmentState::Begun { FLAG_BEGUN } else { 0 };
        let recycled = if self.recycled { FLAG_RECYCLED } else { 0 };
        let fixed = Fixed {
            head: Head::new(SEGMENT_MAGIC, begun | recycled),
            stream: U128::new(self.stream),
            number: U64::new(self.number),
            incarnation: U64::new(self.incarnation),
            next_sequence: U64::new(self.next_sequence),
            timestamp: I64::new(self.timestamp),
            server_epoch: U64::new(self.server_epoch),
            previous_segment: U64::new(self.previous.segment),
            previous_end: U64::new(self.previous.end),
            previous_batch: U64::new(self.previous.batch),
            previous_checksum: U32::new(self.previous.checksum),
            next_topic: U32::new(self.next_topic),
            next_publisher: U32::new(self.next_publisher),
            zero: U32::ZERO,
            capacity: U64::new(self.capacity),
            settled_to: U64::new(self.settled_to),
        };
        head::page(fixed.as_bytes())
    }

    /// Reads a page.
    pub fn read(page: &[u8]) -> Result<SegmentHeader, BadPart> {
        let flags = head::check(page, SEGMENT_MAGIC)?;
        let fixed: &Fixed = head::fixed(page)?;
        let state = if flags & FLAG_BEGUN == 0 { SegmentState::Prepared } else { SegmentState::Begun };
        Ok(SegmentHeader {
            stream: fixed.stream.get(),
            number: fixed.number.get(),
            incarnation: fixed.incarnation.get(),
            state,
            recycled: flags & FLAG_RECYCLED != 0,
            next_sequence: fixed.next_sequence.get(),
            timestamp: fixed.timestamp.get(),
            server_epoch: fixed.server_epoch.get(),
            previous: ChainEnd {
                segment: fixed.previous_segment.get(),
                end: fixed.previous_end.get(),
                batch: fixed.previous_batch.get(),
                checksum: fixed.previous_checksum.get(),
            },
            next_topic: fixed.next_topic.get(),
            next_publisher: fixed.next_publisher.get(),
            capacity: fixed.capacity.get(),
            settled_to: fixed.settled_to.get(),
        })
    }

    /// Reads the header of a file that should be segment `number` of `stream`.
    pub fn load(file: &dyn File, stream: u128, number: u64) -> Result<Result<SegmentHeader, BadPart>> {
        let header = head::read_page(file, 0)?.and_then(|page| SegmentHeader::read(&page));
        Ok(header.and_then(|header| {
            expect("stream id", stream, header.stream)?;
            expect("segment number", u128::from(number), u128::from(header.number))?;
            Ok(header)
        }))
    }
}

pub(crate) fn expect(field: &'static str, want: u128, got: u128) -> Result<(), BadPart> {
    if want == got { Ok(()) } else { Err(BadPart::Other { field, want, got }) }
}
