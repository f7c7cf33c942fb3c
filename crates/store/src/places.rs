//! The places part of a footer: where batches begin, about one a MiB, so that a reader that starts in the middle of
//! a segment reads little before it (docs/format.md section 4.1).

use bytes::BufMut;

use crate::batch::PAGE_BYTES;
use crate::head::{BadPart, Cut};
use crate::part;

const MAGIC: [u8; 4] = *b"APLA";
/// How far places are apart at least.
pub const PLACE_STEP_BYTES: u64 = 1 << 20;

/// A batch that begins at a known place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlace {
    /// Its offset.
    pub offset: u64,
    /// Its first sequence.
    pub first_sequence: u64,
    /// The timestamp of the batch before: nothing before the place is newer.
    pub timestamp_before: i64,
}

/// The places of a segment, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<BatchPlace>);

impl Places {
    /// Notes a batch, if it is far enough from the last one noted.
    pub fn note(&mut self, place: BatchPlace) {
        let due = self.0.last().map_or(PAGE_BYTES as u64, |last| last.offset) + PLACE_STEP_BYTES;
        if place.offset >= due {
            self.0.push(place);
        }
    }

    /// Where to begin so as not to miss a sequence; `None`: at the first batch.
    pub fn before_sequence(&self, sequence: u64) -> Option<BatchPlace> {
        let at = self.0.partition_point(|place| place.first_sequence <= sequence);
        at.checked_sub(1).map(|at| self.0[at])
    }

    /// Where to begin so as not to miss the first record at or after a time.
    pub fn before_time(&self, timestamp: i64) -> Option<BatchPlace> {
        let at = self.0.partition_point(|place| place.timestamp_before < timestamp);
        at.checked_sub(1).map(|at| self.0[at])
    }

    /// As a part.
    pub fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(8 + self.0.len() * 24);
        rest.put_u32_le(self.0.len() as u32);
        rest.put_u32_le(0);
        for place in &self.0 {
            rest.put_u64_le(place.offset);
            rest.put_u64_le(place.first_sequence);
            rest.put_i64_le(place.timestamp_before);
        }
        part::seal(MAGIC, &rest)
    }

    /// Reads a part.
    pub fn read(bytes: &[u8]) -> Result<Places, BadPart> {
        let mut rest = Cut(part::check(MAGIC, bytes)?);
        let mut places = Places::default();
        let mut read = || {
            let (count, _) = (rest.u32()?, rest.u32()?);
            for _ in 0..count {
                let place =
                    BatchPlace { offset: rest.u64()?, first_sequence: rest.u64()?, timestamp_before: rest.i64()? };
                places.0.push(place);
            }
            Some(())
        };
        read().ok_or(BadPart::Field { field: "list of places" })?;
        let ascending = places.0.is_sorted_by(|a, b| a.offset < b.offset && a.first_sequence <= b.first_sequence);
        let on_pages = places.0.iter().all(|place| place.offset.is_multiple_of(PAGE_BYTES as u64));
        if !ascending || !on_pages {
            return Err(BadPart::Field { field: "order of places" });
        }
        Ok(places)
    }
}
