//! What the engine does when a write is known to have failed: voids what falls with it. What rested on it is judged again in
//! [`super::conditions`].

use arioso_journal::{BatchNumber, Entry, Group, Kind, Level, NO_PUBLISHER, VoidSet};
use arioso_stream::Sequence;

use super::Engine;

impl Engine {
    pub(super) fn void(&mut self, now: i64, set: &VoidSet) {
        let ranges: Vec<(Sequence, Sequence)> = set.ranges.iter().map(|range| (range.first, range.last)).collect();
        self.watched.clear();
        for (publisher, _) in &set.publishers {
            self.order.void_published(*publisher, &ranges);
        }
        let (first, batch) = self.order.void(now, &ranges);
        self.ledger.enter_void(first, BatchNumber(batch)).expect("void records are taken above the ceiling");
        self.voided.extend(set.ranges.iter().copied());
    }

    /// Replay found messages that never were: says so in the stream before anything else.
    pub fn void_at_start(&mut self, now: i64, ranges: &[(Sequence, Sequence)]) {
        let (first, batch) = self.order.void(now, ranges);
        self.enter(Entry {
            kind: Kind::Control,
            publisher: NO_PUBLISHER,
            epoch: 0,
            first_publisher_sequence: 0,
            messages: 0,
            first,
            batch: BatchNumber(batch),
            level: Level::Durable,
            group: Group::OWN,
            conditioned_on: None,
            // Session 0 does not exist: the reply goes nowhere.
            tag: 0,
        });
    }
}
