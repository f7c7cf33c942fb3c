//! Reply groups: whose replies keep order with whose.
//!
//! ```text
//! group 0   a1 ── b7 ── a2        head: the earliest reply that has not left
//! group 1   c4 ── c5
//! own       each publisher keeps its own order and no other
//! ```

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::entry::Ticket;

/// Groups up to this many have a place in a table (16 bytes each); above, only those with open entries have one.
const DENSE_GROUPS_MAX: u32 = 65_536;

/// How replies are grouped: `write-reply-ordering-groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// This many groups, 1 or more.
    Shared(u32),
    /// Every publisher is a group of its own.
    PerPublisher,
}

/// A reply group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub u32);

impl Group {
    /// Not in order with any other publisher: the publisher's own order is all there is.
    pub const OWN: Group = Group(u32::MAX);
}

/// The group of a publisher, by the XXH3 of its name (of its id as 4 little-endian bytes for an anonymous one). The
/// same for every run and every machine.
pub fn group_of(publisher_hash: u64, groups: Groups) -> Group {
    match groups {
        Groups::PerPublisher => Group::OWN,
        Groups::Shared(groups) => {
            let scaled = (u128::from(publisher_hash) * u128::from(groups)) >> 64;
            Group(u32::try_from(scaled).expect("a 64-bit fraction of a u32 is below it"))
        }
    }
}

/// The ends of one group's queue; the links lie in the entries. `None`: nothing is open.
#[derive(Clone, Copy, Debug)]
struct Queue {
    head: Ticket,
    tail: Ticket,
}

/// The queues of all groups.
#[derive(Debug)]
pub(crate) struct GroupQueues {
    dense: Vec<Option<Queue>>,
    sparse: HashMap<u32, Queue, FixedState>,
    groups: u32,
}

impl GroupQueues {
    pub(crate) fn new(groups: Groups) -> GroupQueues {
        let groups = match groups {
            Groups::Shared(groups) => {
                assert!(groups >= 1, "a ledger has at least one reply group");
                groups
            }
            Groups::PerPublisher => 0,
        };
        let dense = if groups <= DENSE_GROUPS_MAX { groups as usize } else { 0 };
        GroupQueues { dense: vec![None; dense], sparse: HashMap::default(), groups }
    }

    fn get(&self, group: Group) -> Option<Queue> {
        if self.dense.is_empty() { self.sparse.get(&group.0).copied() } else { self.dense[group.0 as usize] }
    }

    fn set(&mut self, group: Group, queue: Option<Queue>) {
        if !self.dense.is_empty() {
            self.dense[group.0 as usize] = queue;
        } else if let Some(queue) = queue {
            self.sparse.insert(group.0, queue);
        } else {
            self.sparse.remove(&group.0);
        }
    }

    /// Puts an entry at a group's end; gives the entry before it, which the caller links to it.
    pub(crate) fn push(&mut self, group: Group, ticket: Ticket) -> Option<Ticket> {
        assert!(group.0 < self.groups, "group {} of {} groups", group.0, self.groups);
        let before = self.get(group);
        let head = before.map_or(ticket, |queue| queue.head);
        self.set(group, Some(Queue { head, tail: ticket }));
        before.map(|queue| queue.tail)
    }

    /// The earliest entry of a group whose reply has not left.
    pub(crate) fn head(&self, group: Group) -> Option<Ticket> {
        self.get(group).map(|queue| queue.head)
    }

    /// The head's reply left; `next` is the entry linked behind it.
    pub(crate) fn advance(&mut self, group: Group, next: Option<Ticket>) {
        let queue = self.get(group).and_then(|queue| next.map(|head| Queue { head, tail: queue.tail }));
        self.set(group, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_hash_never_changes() {
        let groups = Groups::Shared(3);
        assert_eq!(group_of(0, groups), Group(0));
        assert_eq!(group_of(u64::MAX / 2, groups), Group(1));
        assert_eq!(group_of(u64::MAX, groups), Group(2));
        assert_eq!(group_of(u64::MAX, Groups::Shared(u32::MAX)).0, u32::MAX - 1);
        assert_eq!(group_of(7, Groups::PerPublisher), Group::OWN);
    }

    #[test]
    fn hashes_spread_evenly_over_groups() {
        let mut counts = [0u32; 7];
        for id in 0..70_000u64 {
            // A cheap stand-in for XXH3: the golden ratio spreads consecutive numbers.
            let hash = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            counts[group_of(hash, Groups::Shared(7)).0 as usize] += 1;
        }
        assert!(counts.iter().all(|n| (9_900..=10_100).contains(n)), "{counts:?}");
    }

    #[test]
    fn more_groups_than_the_table_holds_keep_their_queues_only_while_open() {
        let mut queues = GroupQueues::new(Groups::Shared(DENSE_GROUPS_MAX + 1));
        assert_eq!(queues.push(Group(65_536), Ticket(1)), None);
        assert_eq!(queues.push(Group(65_536), Ticket(2)), Some(Ticket(1)));
        assert_eq!(queues.push(Group(3), Ticket(3)), None);
        assert_eq!(queues.head(Group(65_536)), Some(Ticket(1)));
        queues.advance(Group(65_536), Some(Ticket(2)));
        queues.advance(Group(65_536), None);
        queues.advance(Group(3), None);
        assert_eq!(queues.head(Group(65_536)), None);
        assert!(queues.sparse.is_empty());
    }
}
