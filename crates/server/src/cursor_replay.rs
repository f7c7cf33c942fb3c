//! Cursors as a start finds them: what bases and footers tell, then the control records of the unsealed tail, in their order.

use std::collections::BTreeMap;

use arioso_store::control::Control;
use arioso_store::cursors::read_body;
use arioso_store::voids::Voids;
use arioso_stream::order::CursorState;
use arioso_stream::record::{CONTROL_TOPIC, Records};
use arioso_stream::{Record, Sequence};

/// What a start found.
#[derive(Debug, Default)]
pub struct CursorsFound {
    /// Those there are.
    pub live: Vec<CursorState>,
    /// Those dropped in the unsealed tail, by the sequence of the record: the next seal tells of them.
    pub dropped: Vec<(u32, Sequence)>,
}

enum Change {
    Set(CursorState),
    Committed { cursor: u32, holder_epoch: u32, next: Sequence, at: i64 },
    Dropped(u32),
}

/// Gathers changes until it is known what is void.
#[derive(Default)]
pub struct CursorReplay {
    /// With the record's sequence, or zero for what a base or footer tells.
    changes: Vec<(Sequence, Change)>,
    table: BTreeMap<u32, CursorState>,
    dropped: Vec<(u32, Sequence)>,
}

impl CursorReplay {
    /// A body that a base or a footer holds.
    pub fn body(&mut self, body: &[u8]) {
        // The part's checksum held; what does not parse was written by a later version.
        let Some(state) = read_body(body) else { return };
        let change = if state.place.holder_epoch == 0 { Change::Dropped(state.id) } else { Change::Set(state) };
        self.changes.push((Sequence::ZERO, change));
    }

    /// The records of a batch.
    pub fn records(&mut self, records: &[u8]) {
        for record in Records::new(records).map_while(Result::ok).filter(|record| record.topic() == CONTROL_TOPIC) {
            self.control(&record);
        }
    }

    fn control(&mut self, record: &Record<'_>) {
        let sequence = record.sequence();
        let change = match Control::read(record) {
            Some(Control::CursorSet { body }) => read_body(body).map(|mut state| {
                state.changed = sequence;
                Change::Set(state)
            }),
            Some(Control::CursorCommitted { cursor, holder_epoch, next }) => {
                Some(Change::Committed { cursor, holder_epoch, next: Sequence(next), at: record.timestamp() })
            }
            Some(Control::CursorDropped { cursor }) => Some(Change::Dropped(cursor)),
            _ => None,
        };
        self.changes.extend(change.map(|change| (sequence, change)));
    }

    /// It is known which of the changes so far are void.
    pub fn apply(&mut self, voids: &Voids) {
        for (sequence, change) in self.changes.drain(..) {
            if voids.contains(sequence.0) {
                continue;
            }
            match change {
                Change::Set(state) => drop(self.table.insert(state.id, state)),
                Change::Committed { cursor, holder_epoch, next, at } => {
                    if let Some(state) = self.table.get_mut(&cursor) {
                        (state.place.next, state.place.holder_epoch) = (next, holder_epoch);
                        (state.place.committed_at, state.changed) = (at, sequence);
                    }
                }
                Change::Dropped(id) => {
                    self.table.remove(&id);
                    if sequence > Sequence::ZERO {
                        self.dropped.push((id, sequence));
                    }
                }
            }
        }
    }

    /// What they add up to without those that are void.
    pub fn finish(mut self, voids: &Voids) -> CursorsFound {
        self.apply(voids);
        CursorsFound { live: self.table.into_values().collect(), dropped: self.dropped }
    }
}
