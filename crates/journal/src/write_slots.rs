//! Which waiting groups go into the next write.
//!
//! A write holds messages of one group while a write slot is free, so that a slow write delays one group only. When all
//! slots are taken, groups pile up; what has piled up when one comes free may share it, or the groups behind would wait
//! for one write each.
//!
//! ```text
//! 4 groups wait, 3 slots free    a        alone ─┐
//! 3 groups wait, 2 slots free      b c    share ─┤ oldest first; one decision a write
//! 1 group waits, 1 slot free           d  alone ─┘
//! ```

/// Write slots: how many writes may be in flight, and how many are (`max-writes-in-flight`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSlots {
    taken: u32,
    max: u32,
}

impl WriteSlots {
    /// All free.
    pub fn new(max: u32) -> WriteSlots {
        assert!(max >= 1, "at least one write may be in flight");
        WriteSlots { taken: 0, max }
    }

    /// Slots that are free.
    pub fn free(&self) -> u32 {
        self.max - self.taken
    }

    /// A write was submitted.
    pub fn take(&mut self) {
        assert!(self.taken < self.max, "all {} write slots are taken", self.max);
        self.taken += 1;
    }

    /// A write is durable or failed. One of unknown outcome keeps its slot.
    pub fn give_back(&mut self) {
        assert!(self.taken > 0, "no write slot is taken");
        self.taken -= 1;
    }

    /// How many of the waiting groups, oldest first, go into the next write, of at most `bytes_max`. `waiting` tells the
    /// bytes of each. 0 if nothing waits or no slot is free. The first group always goes; if it is over `bytes_max` alone,
    /// a part of it does. A shared write holds whole groups only.
    pub fn next_write(&self, waiting: impl ExactSizeIterator<Item = u64>, bytes_max: u64) -> usize {
        let free = self.free() as usize;
        if free == 0 {
            return 0;
        }
        let share = waiting.len().div_ceil(free);
        let mut bytes = 0u64;
        let mut groups = 0;
        for group_bytes in waiting.take(share) {
            bytes = bytes.saturating_add(group_bytes);
            if groups > 0 && bytes > bytes_max {
                break;
            }
            groups += 1;
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writes that leave until the slots are taken, each told by its groups.
    fn writes(max: u32, taken: u32, waiting: &[(&'static str, u64)], bytes_max: u64) -> Vec<String> {
        let mut slots = WriteSlots::new(max);
        (0..taken).for_each(|_| slots.take());
        let mut waiting = waiting;
        let mut writes = Vec::new();
        loop {
            let groups = slots.next_write(waiting.iter().map(|(_, bytes)| *bytes), bytes_max);
            if groups == 0 {
                return writes;
            }
            slots.take();
            let (write, rest) = waiting.split_at(groups);
            writes.push(write.iter().map(|(name, _)| *name).collect());
            waiting = rest;
        }
    }

    const FOUR: &[(&str, u64)] = &[("a", 10), ("b", 10), ("c", 10), ("d", 10)];

    #[test]
    fn every_group_has_a_write_of_its_own_while_slots_are_free() {
        assert_eq!(writes(8, 0, FOUR, 1000), ["a", "b", "c", "d"]);
        assert_eq!(writes(4, 0, FOUR, 1000), ["a", "b", "c", "d"]);
        assert_eq!(writes(4, 3, &FOUR[..1], 1000), ["a"]);
    }

    #[test]
    fn groups_that_piled_up_share_what_comes_free() {
        assert_eq!(writes(4, 3, FOUR, 1000), ["abcd"]);
        assert_eq!(writes(4, 2, FOUR, 1000), ["ab", "cd"]);
        assert_eq!(writes(4, 1, FOUR, 1000), ["ab", "c", "d"]);
    }

    #[test]
    fn nothing_leaves_while_all_slots_are_taken() {
        assert!(writes(4, 4, FOUR, 1000).is_empty());
        assert!(writes(4, 0, &[], 1000).is_empty());
    }

    #[test]
    fn a_shared_write_stays_within_its_bytes_and_the_oldest_always_goes() {
        assert_eq!(writes(2, 1, FOUR, 25), ["ab"]);
        assert_eq!(writes(2, 1, FOUR, 30), ["abc"]);
        assert_eq!(writes(2, 1, FOUR, 5), ["a"]);
    }
}
