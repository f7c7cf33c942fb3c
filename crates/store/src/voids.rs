//! Void ranges: sequences that were given and never became messages (docs/format.md sections 3.3 and 6.3).

use bytes::BufMut;

use crate::head::{BadPart, Cut};
use crate::part;

const MAGIC: [u8; 4] = *b"AVOI";

/// Void sequences, as disjoint ascending ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Voids(Vec<(u64, u64)>);

impl Voids {
    /// Adds a range, both ends included; one that ends before it begins adds nothing.
    pub fn add(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let from = self.0.partition_point(|range| range.1.saturating_add(1) < first);
        let to = self.0.partition_point(|range| range.0 <= last.saturating_add(1));
        let touched = &self.0[from..to.max(from)];
        let low = touched.first().map_or(first, |range| range.0.min(first));
        let high = touched.last().map_or(last, |range| range.1.max(last));
        self.0.splice(from..to.max(from), [(low, high)]);
    }

    /// Adds all ranges of another.
    pub fn extend(&mut self, other: &Voids) {
        for (first, last) in &other.0 {
            self.add(*first, *last);
        }
    }

    /// Whether a sequence is void.
    pub fn contains(&self, sequence: u64) -> bool {
        self.overlaps(sequence, sequence)
    }

    /// Whether any sequence from `first` to `last` is void.
    pub fn overlaps(&self, first: u64, last: u64) -> bool {
        let at = self.0.partition_point(|range| range.1 < first);
        self.0.get(at).is_some_and(|range| range.0 <= last)
    }

    /// Forgets what lies below a sequence.
    pub fn trim(&mut self, first_kept: u64) {
        self.0.retain(|range| range.1 >= first_kept);
    }

    /// Whether nothing is void.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// As a part of a footer or a base.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(8 + self.0.len() * 16);
        body.put_u32_le(self.0.len() as u32);
        body.put_u32_le(0);
        for (first, last) in &self.0 {
            body.put_u64_le(*first);
            body.put_u64_le(*last);
        }
        part::seal(MAGIC, &body)
    }

    /// Reads such a part.
    pub fn read(bytes: &[u8]) -> Result<Voids, BadPart> {
        let mut body = Cut(part::check(MAGIC, bytes)?);
        let mut voids = Voids::default();
        let mut read = || {
            let (count, _) = (body.u32()?, body.u32()?);
            for _ in 0..count {
                voids.add(body.u64()?, body.u64()?);
            }
            Some(())
        };
        read().ok_or(BadPart::Field { field: "number of void ranges" })?;
        Ok(voids)
    }
}
