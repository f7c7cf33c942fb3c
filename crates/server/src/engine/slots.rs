//! Which messages share a write: those of one reply group while a write slot is free, whatever waits when none is.
//!
//! ```text
//! slots free   2        1        0
//! messages     a a a | b b b | c a b d ...      a batch ends where the group changes, as long as another can be written
//! ```

use arioso_journal::Group;

/// Where batches are parted.
#[derive(Debug, Default)]
pub(super) struct Parting {
    /// Writes that can be begun beside those that wait to be taken.
    slots: u32,
    /// Group and publisher of the newest message in the open batch.
    open: Option<(Group, u32)>,
}

impl Parting {
    /// So many writes can be begun.
    pub(super) fn set_slots(&mut self, slots: u32) {
        // One of them takes what is open.
        self.slots = slots.saturating_sub(1);
    }

    /// Everything was taken.
    pub(super) fn taken(&mut self) {
        self.open = None;
    }

    /// Whether the open batch ends before a message of this group.
    pub(super) fn parts_before(&mut self, group: Group, publisher: u32) -> bool {
        let own = (group, if group == Group::OWN { publisher } else { 0 });
        let parts = self.slots > 0 && self.open.is_some_and(|open| open != own);
        self.slots -= u32::from(parts);
        self.open = Some(own);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parted(slots: u32, messages: &[(u32, u32)]) -> String {
        let mut parting = Parting::default();
        parting.set_slots(slots);
        let mut text = String::new();
        for (group, publisher) in messages {
            if parting.parts_before(Group(*group), *publisher) {
                text.push('|');
            }
            text += &publisher.to_string();
        }
        text
    }

    #[test]
    fn a_write_holds_one_group_while_a_slot_is_free_and_any_when_none_is() {
        let messages = [(0, 1), (0, 2), (1, 3), (1, 4), (0, 1), (2, 5)];
        assert_eq!(parted(8, &messages), "12|34|1|5");
        assert_eq!(parted(2, &messages), "12|3415");
        assert_eq!(parted(1, &messages), "123415");
        assert_eq!(parted(0, &messages), "123415");
    }

    #[test]
    fn where_every_publisher_is_a_group_a_write_holds_one_publisher() {
        let own = Group::OWN.0;
        assert_eq!(parted(8, &[(own, 1), (own, 1), (own, 2), (own, 1)]), "11|2|1");
    }

    #[test]
    fn what_was_taken_parts_nothing() {
        let mut parting = Parting::default();
        parting.set_slots(8);
        assert!(!parting.parts_before(Group(1), 1));
        parting.taken();
        assert!(!parting.parts_before(Group(2), 2));
        assert!(parting.parts_before(Group(1), 1));
    }
}
