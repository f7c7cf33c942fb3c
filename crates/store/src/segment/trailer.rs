//! The trailer of a sealed segment: its last page.

use arioso_disk::File;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{SegmentHeader, expect};
use crate::Result;
use crate::batch::PAGE_BYTES;
use crate::head::{self, BadPart, Head};

/// The first bytes of a trailer.
pub const TRAILER_MAGIC: [u8; 8] = *b"ARIOEND1";

/// Where a part of a file lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartPlace {
    /// Its offset.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

/// A place as it lies in a fixed part.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FixedPlace {
    offset: U64,
    bytes: U64,
}

impl From<PartPlace> for FixedPlace {
    fn from(place: PartPlace) -> FixedPlace {
        FixedPlace { offset: U64::new(place.offset), bytes: U64::new(place.bytes) }
    }
}

impl From<FixedPlace> for PartPlace {
    fn from(place: FixedPlace) -> PartPlace {
        PartPlace { offset: place.offset.get(), bytes: place.bytes.get() }
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    head: Head,
    segment: U64,
    incarnation: U64,
    first_sequence: U64,
    last_sequence: U64,
    first_timestamp: I64,
    last_timestamp: I64,
    batches: U64,
    last_batch: U64,
    last_checksum: U32,
    next_topic: U32,
    records: U64,
    records_bytes: U64,
    batches_end: U64,
    directory: FixedPlace,
    publishers: FixedPlace,
    cursors: FixedPlace,
    settled_to: U64,
    reserved_to: U64,
    next_publisher: U32,
    damaged: U32,
    voids: FixedPlace,
    places: FixedPlace,
}

const _: () = assert!(size_of::<Fixed>() == 216);

/// What a sealed segment holds and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// The segment's number.
    pub segment: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// The first sequence in it.
    pub first_sequence: u64,
    /// The last one; below the first in a segment without records.
    pub last_sequence: u64,
    /// The first record's timestamp.
    pub first_timestamp: i64,
    /// The last batch's.
    pub last_timestamp: i64,
    /// Good batches.
    pub batches: u64,
    /// The last batch's number.
    pub last_batch: u64,
    /// The last batch's header checksum.
    pub last_checksum: u32,
    /// The next topic id.
    pub next_topic: u32,
    /// Records, control records not counted.
    pub records: u64,
    /// Their bytes.
    pub records_bytes: u64,
    /// The offset behind the last batch.
    pub batches_end: u64,
    /// The topics.
    pub directory: PartPlace,
    /// The publishers.
    pub publishers: PartPlace,
    /// The cursors.
    pub cursors: PartPlace,
    /// Everything at or below was settled or void at the last batch.
    pub settled_to: u64,
    /// The highest in it.
    pub reserved_to: u64,
    /// The next publisher id.
    pub next_publisher: u32,
    /// Damaged ranges named when it was sealed.
    pub damaged: u32,
    /// The ranges that void records in it name.
    pub voids: PartPlace,
    /// Where batches begin, about one a MiB.
    pub places: PartPlace,
}

impl Trailer {
    /// The trailer as a page.
    pub fn encode(&self) -> Vec<u8> {
        let fixed = Fixed {
            head: Head::new(TRAILER_MAGIC, 0),
            segment: U64::new(self.segment),
            incarnation: U64::new(self.incarnation),
            first_sequence: U64::new(self.first_sequence),
            last_sequence: U64::new(self.last_sequence),
            first_timestamp: I64::new(self.first_timestamp),
            last_timestamp: I64::new(self.last_timestamp),
            batches: U64::new(self.batches),
            last_batch: U64::new(self.last_batch),
            last_checksum: U32::new(self.last_checksum),
            next_topic: U32::new(self.next_topic),
            records: U64::new(self.records),
            records_bytes: U64::new(self.records_bytes),
            batches_end: U64::new(self.batches_end),
            directory: self.directory.into(),
            publishers: self.publishers.into(),
            cursors: self.cursors.into(),
            settled_to: U64::new(self.settled_to),
            reserved_to: U64::new(self.reserved_to),
            next_publisher: U32::new(self.next_publisher),
            damaged: U32::new(self.damaged),
            voids: self.voids.into(),
            places: self.places.into(),
        };
        head::page(fixed.as_bytes())
    }

    /// Reads a page.
    pub fn read(page: &[u8]) -> Result<Trailer, BadPart> {
        head::check(page, TRAILER_MAGIC)?;
        let fixed: &Fixed = head::fixed(page)?;
        Ok(Trailer {
            segment: fixed.segment.get(),
            incarnation: fixed.incarnation.get(),
            first_sequence: fixed.first_sequence.get(),
            last_sequence: fixed.last_sequence.get(),
            first_timestamp: fixed.first_timestamp.get(),
            last_timestamp: fixed.last_timestamp.get(),
            batches: fixed.batches.get(),
            last_batch: fixed.last_batch.get(),
            last_checksum: fixed.last_checksum.get(),
            next_topic: fixed.next_topic.get(),
            records: fixed.records.get(),
            records_bytes: fixed.records_bytes.get(),
            batches_end: fixed.batches_end.get(),
            directory: fixed.directory.into(),
            publishers: fixed.publishers.into(),
            cursors: fixed.cursors.into(),
            settled_to: fixed.settled_to.get(),
            reserved_to: fixed.reserved_to.get(),
            next_publisher: fixed.next_publisher.get(),
            damaged: fixed.damaged.get(),
            voids: fixed.voids.into(),
            places: fixed.places.into(),
        })
    }

    /// Reads the trailer of a segment's file. An unsealed one has none, which is a [`BadPart`] like any other.
    pub fn load(file: &dyn File, header: &SegmentHeader) -> Result<Result<Trailer, BadPart>> {
        let page = PAGE_BYTES as u64;
        let bytes = file.len()?;
        if bytes < 2 * page || !bytes.is_multiple_of(page) {
            return Ok(Err(BadPart::Short { have: bytes as usize, need: 2 * PAGE_BYTES }));
        }
        let trailer = head::read_page(file, bytes - page)?.and_then(|page| Trailer::read(&page));
        Ok(trailer.and_then(|trailer| {
            expect("segment number", u128::from(header.number), u128::from(trailer.segment))?;
            expect("incarnation", u128::from(header.incarnation), u128::from(trailer.incarnation))?;
            trailer.check_places(bytes - page)?;
            Ok(trailer)
        }))
    }

    /// Every part lies between the batches and the trailer.
    fn check_places(&self, parts_end: u64) -> Result<(), BadPart> {
        let parts = [self.directory, self.publishers, self.cursors, self.voids, self.places];
        let inside = |part: &PartPlace| {
            part.offset >= self.batches_end && part.offset.checked_add(part.bytes).is_some_and(|end| end <= parts_end)
        };
        let page = PAGE_BYTES as u64;
        if self.batches_end < page || !self.batches_end.is_multiple_of(page) || !parts.iter().all(inside) {
            return Err(BadPart::Field { field: "place of a part" });
        }
        Ok(())
    }
}
