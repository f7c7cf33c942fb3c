//! Slots in order: as runs, and as a set that brings them into order.

use std::ops::Range;

/// Slots in ascending order, adjacent ones as one range. Counted from wherever the user likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    runs: Vec<Range<u32>>,
}

impl Runs {
    /// Takes all out.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// Adds a slot above all before it.
    #[inline]
    pub fn push(&mut self, slot: u32) {
        self.push_run(slot..slot + 1);
    }

    /// Adds adjacent slots above all before them.
    #[inline]
    pub fn push_run(&mut self, run: Range<u32>) {
        if run.is_empty() {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => self.runs.push(run),
        }
    }

    /// The runs.
    pub fn as_slice(&self) -> &[Range<u32>] {
        &self.runs
    }

    /// How many slots there are.
    pub fn slots(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.end - run.start)).sum()
    }
}

/// A set of slots below a width, as a bitmap with a bitmap of its filled words above it: to add costs two memory
/// accesses, to empty it in order costs what is in it, not its width.
#[derive(Default)]
pub(super) struct SlotSet {
    bits: Vec<u64>,
    filled: Vec<u64>,
}

impl SlotSet {
    /// Makes room for slots below `width`.
    pub(super) fn fit(&mut self, width: u64) {
        let words = (width as usize).div_ceil(64);
        if self.bits.len() < words {
            self.bits.resize(words, 0);
            self.filled.resize(words.div_ceil(64), 0);
        }
    }

    /// Adds a slot. One beyond the width is passed over: it was read from memory that was taken back meanwhile, and
    /// what was gathered is thrown away.
    #[inline]
    pub(super) fn add(&mut self, slot: u32) {
        let word = slot as usize / 64;
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= 1 << (slot % 64);
            self.filled[word / 64] |= 1 << (word % 64);
        }
    }

    /// Takes all slots out, in order, as runs within 64 slots.
    #[inline]
    pub(super) fn drain(&mut self, mut each: impl FnMut(Range<u32>)) {
        for (group, filled) in self.filled.iter_mut().enumerate() {
            let mut words = std::mem::take(filled);
            while words != 0 {
                let word = group * 64 + words.trailing_zeros() as usize;
                words &= words - 1;
                let mut bits = std::mem::take(&mut self.bits[word]);
                let base = word as u32 * 64;
                while bits != 0 {
                    let from = bits.trailing_zeros();
                    let ones = (bits >> from).trailing_ones();
                    each(base + from..base + from + ones);
                    bits &= u64::MAX.checked_shl(from + ones).unwrap_or(0);
                }
            }
        }
    }

    /// Throws all slots away.
    pub(super) fn clear(&mut self) {
        for (group, filled) in self.filled.iter_mut().enumerate() {
            let mut words = std::mem::take(filled);
            while words != 0 {
                self.bits[group * 64 + words.trailing_zeros() as usize] = 0;
                words &= words - 1;
            }
        }
    }
}

/// Fewer slots than this are sorted by comparing.
const RADIX_SLOTS_MIN: usize = 256;
/// Bits of a slot that one pass sorts by.
const RADIX_BITS: u32 = 11;

/// Sorts slots below `width`, by their bits from the lowest on. `spare` is room to work in.
pub(super) fn sort_slots(slots: &mut Vec<u32>, spare: &mut Vec<u32>, width: u64) {
    if slots.len() < RADIX_SLOTS_MIN {
        slots.sort_unstable();
        return;
    }
    let bits = u64::BITS - width.leading_zeros();
    let passes = bits.div_ceil(RADIX_BITS).clamp(1, 3);
    let bits = bits.min(u32::BITS).div_ceil(passes);
    let mask = (1u32 << bits) - 1;
    spare.clear();
    spare.resize(slots.len(), 0);
    for pass in 0..passes {
        let digit = |slot: u32| (slot >> (pass * bits) & mask) as usize;
        let mut starts = [0u32; 1 << RADIX_BITS];
        slots.iter().for_each(|slot| starts[digit(*slot)] += 1);
        let mut sum = 0;
        for start in &mut starts[..=mask as usize] {
            sum += std::mem::replace(start, sum);
        }
        for slot in slots.iter() {
            let start = &mut starts[digit(*slot)];
            spare[*start as usize] = *slot;
            *start += 1;
        }
        std::mem::swap(slots, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_its_slots_back_in_order_as_runs() {
        let mut set = SlotSet::default();
        set.fit(1 << 16);
        for slot in [70, 5, 64, 63, 65, 65_535, 4096, 9_999_999] {
            set.add(slot);
        }
        let mut runs = Runs::default();
        set.drain(|run| runs.push_run(run));
        assert_eq!(runs.as_slice(), [5..6, 63..66, 70..71, 4096..4097, 65_535..65_536]);
        assert_eq!(runs.slots(), 7);
        for slot in [3, 9, 700, 60_000] {
            set.add(slot);
        }
        set.clear();
        set.drain(|run| panic!("{run:?} is still there"));
    }

    #[test]
    fn slots_are_sorted_whatever_their_number_and_width() {
        let mut seed = 1u64;
        for (count, width) in [(0, 1), (5, 9), (300, 2), (300, 1 << 11), (4000, 700_000), (3000, 1 << 32)] {
            let mut slots = Vec::new();
            for _ in 0..count {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                slots.push(((seed >> 32) % width) as u32);
            }
            let mut expected = slots.clone();
            expected.sort();
            sort_slots(&mut slots, &mut Vec::new(), width);
            assert!(slots == expected, "{count} below {width}");
        }
    }
}
