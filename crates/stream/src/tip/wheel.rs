//! Tells which lanes have an entry in the stretch that is read next.
//!
//! ```text
//! [stretch 0][stretch 1][stretch 2]…      each the head of a list of lanes
//!      │ lane 7 → lane 2                  linked through the lanes' own places
//! ```

use super::index::{NodeAt, ahead};

/// Stretches of a wheel at most: 256 KiB each of a tip of 256 MiB.
const STRETCHES_MAX: u64 = 1024;
/// A stretch is no wider than this, so that its set of slots takes 64 KiB.
const STRETCH_SHIFT_MAX: u32 = 19;

/// Lists of lanes by the stretch of their next entry.
#[derive(Default)]
pub(super) struct Wheel {
    /// Lane number plus one; zero ends a list.
    heads: Vec<u32>,
    /// Bit set: the list has a lane.
    filled: Vec<u64>,
    base: u64,
    shift: u32,
}

impl Wheel {
    /// Empties every list.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.filled.clear();
    }

    /// Empties it and lays it over `from..to`, in about so many stretches.
    pub(super) fn turn(&mut self, from: u64, to: u64, stretches: u64) {
        let width = (to - from) / stretches.clamp(1, STRETCHES_MAX);
        self.shift = width.next_power_of_two().ilog2().min(STRETCH_SHIFT_MAX);
        self.base = from;
        let stretches = ((to - from) >> self.shift) as usize + 1;
        self.clear();
        self.heads.resize(stretches, 0);
        self.filled.resize(stretches.div_ceil(64), 0);
    }

    /// Adds a lane where its place's slot lies.
    #[inline]
    pub(super) fn put(&mut self, places: &mut [NodeAt], lane: usize) {
        let stretch = ahead(places[lane].slot, self.base).max(0) as usize >> self.shift;
        self.put_in(places, lane, stretch);
    }

    /// Adds a lane to a stretch.
    pub(super) fn put_in(&mut self, places: &mut [NodeAt], lane: usize, stretch: usize) {
        let stretch = stretch.min(self.heads.len() - 1);
        places[lane].next = self.heads[stretch];
        self.heads[stretch] = lane as u32 + 1;
        self.filled[stretch / 64] |= 1 << (stretch % 64);
    }

    /// The first stretch with a lane.
    pub(super) fn first(&self) -> Option<usize> {
        let word = self.filled.iter().position(|bits| *bits != 0)?;
        Some(word * 64 + self.filled[word].trailing_zeros() as usize)
    }

    /// Takes a stretch's list out: its first lane plus one.
    pub(super) fn take(&mut self, stretch: usize) -> u32 {
        self.filled[stretch / 64] &= !(1 << (stretch % 64));
        std::mem::take(&mut self.heads[stretch])
    }

    /// The slots of a stretch.
    pub(super) fn slots(&self, stretch: usize) -> (u64, u64) {
        let start = self.base + ((stretch as u64) << self.shift);
        (start, start + (1 << self.shift))
    }
}
