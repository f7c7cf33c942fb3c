//! The words of the index: what a node is for, and what an entry, a link and a slot look like in eight bytes.

use super::PartitionId;
use super::pool::Address;

/// What a node is for: a partition, or one topic of a split one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u32);

const TOPIC_BIT: u32 = 1 << 31;
const WHOLE_BIT: u32 = 1 << 30;

impl Key {
    pub(super) fn partition(id: PartitionId) -> Key {
        Key(id.0 & !(TOPIC_BIT | WHOLE_BIT))
    }

    pub(super) fn topic(topic: u32) -> Key {
        Key(topic & !WHOLE_BIT | TOPIC_BIT)
    }

    /// The same; every entry of the node is wanted, none needs a test.
    pub(super) fn whole(self) -> Key {
        Key(self.0 | WHOLE_BIT)
    }

    pub(super) fn is_whole(self) -> bool {
        self.0 & WHOLE_BIT != 0
    }

    pub(super) fn as_partition(self) -> Option<PartitionId> {
        (!self.is_topic()).then(|| PartitionId(self.id()))
    }

    pub(super) fn is_topic(self) -> bool {
        self.0 & TOPIC_BIT != 0
    }

    pub(super) fn id(self) -> u32 {
        self.0 & !(TOPIC_BIT | WHOLE_BIT)
    }
}

/// An entry's slot, as far as a word has room for it.
pub(super) fn slot_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// An entry's topic; zero marks a link.
pub(super) fn topic_of(word: u64) -> u32 {
    word as u32
}

pub(super) fn entry(slot: u64, topic: u32) -> u64 {
    slot << 32 | u64::from(topic)
}

pub(super) fn link(to: Address) -> u64 {
    u64::from(to) << 32
}

/// How far `slot` is ahead of `base`; negative when it is behind. Holds while they are less than 2^31 apart.
pub(super) fn ahead(slot: u32, base: u64) -> i32 {
    slot.wrapping_sub(base as u32) as i32
}
