//! A cursor over the history of a journal that is a database: batches come as rows, a piece at a time, and are walked in
//! slices as those of a file are.

use std::collections::VecDeque;

use arioso_journal::StoredBatch;
use arioso_journal::backend::From;
use arioso_store::batch::BatchHeader;
use arioso_store::voids::Voids;
use arioso_stream::Sequence;
use arioso_stream::record::{CONTROL_TOPIC, Record};
use arioso_stream::tip::{Selector, Slice};
use bytes::Bytes;

use crate::subscription::SLICE_BYTES;

/// What is asked for at once.
pub const PIECE_BYTES: usize = 1 << 20;

/// What a step came to.
#[derive(Debug)]
pub enum RowStep {
    /// Went on; there may be slices.
    Read,
    /// Batches are needed first, from here on.
    Need(From),
    /// Nothing more may be read now.
    End,
    /// Some batches are lost.
    Damaged(String),
}

/// The cursor.
pub struct RowCursor {
    next: Sequence,
    /// The number of the batch to read next, once one was read.
    number: Option<u64>,
    rows: VecDeque<StoredBatch>,
    /// The batch being walked: its records, and how far.
    open: Option<(Bytes, usize)>,
    /// The last piece was empty.
    ended: bool,
}

impl RowCursor {
    /// Begins at the first message at or above `next`.
    pub fn new(next: Sequence) -> RowCursor {
        RowCursor { next, number: None, rows: VecDeque::new(), open: None, ended: false }
    }

    /// The next sequence wanted.
    pub fn next(&self) -> Sequence {
        self.next
    }

    /// What was needed; nothing where the journal ends.
    pub fn supply(&mut self, rows: Vec<StoredBatch>) {
        self.ended = rows.is_empty();
        self.rows = rows.into();
    }

    /// Reads on, a slice of 256 KiB; nothing above `settled_to`, of which it is not known whether it stays.
    pub fn step(
        &mut self,
        settled_to: Sequence,
        voids: &Voids,
        selector: &mut dyn Selector,
        out: &mut Vec<Slice>,
    ) -> RowStep {
        let mut walked = 0;
        while walked < SLICE_BYTES {
            if let Some((records, at)) = self.open.take() {
                let end = self.walk(&records, at, (settled_to, voids), selector, out);
                walked += end.bytes;
                if end.at < records.len() {
                    self.open = Some((records, end.at));
                    if end.unsettled {
                        return if walked == 0 { RowStep::End } else { RowStep::Read };
                    }
                }
                continue;
            }
            if walked > 0 && self.rows.front().is_some_and(|row| row.damage_before.is_some()) {
                // Told after the records that came before it.
                return RowStep::Read;
            }
            let Some(row) = self.rows.pop_front() else {
                if walked > 0 {
                    return RowStep::Read;
                }
                if std::mem::take(&mut self.ended) {
                    return RowStep::End;
                }
                return RowStep::Need(self.number.map_or(From::Sequence(self.next), From::Number));
            };
            if let Some(step) = self.damage_before(&row, settled_to) {
                return step;
            }
            self.number = Some(row.number + 1);
            if row.header.is_empty() || row.records.is_empty() {
                continue;
            }
            let header = BatchHeader::trusted(&row.header);
            if header.last_sequence() >= self.next.0 {
                self.open = Some((row.records, 0));
            }
        }
        RowStep::Read
    }

    /// What is missing before a batch is lost if what follows it is settled; else it is on its way.
    fn damage_before(&mut self, row: &StoredBatch, settled_to: Sequence) -> Option<RowStep> {
        let damage = row.damage_before.clone()?;
        let mut behind = std::iter::once(row).chain(&self.rows).filter(|row| !row.header.is_empty());
        let first = behind.next().map(|row| Sequence(BatchHeader::trusted(&row.header).first_sequence()));
        let missing = damage.batches.as_ref().map_or(row.number, |batches| *batches.start());
        if first.is_none_or(|first| first > settled_to) {
            self.rows.clear();
            self.number = Some(missing);
            return Some(RowStep::End);
        }
        self.rows.push_front(StoredBatch { damage_before: None, ..row.clone() });
        Some(RowStep::Damaged(format!("{}: batches {:?} are lost or damaged", damage.place, damage.batches)))
    }

    fn walk(
        &mut self,
        records: &Bytes,
        from: usize,
        (settled_to, voids): (Sequence, &Voids),
        selector: &mut dyn Selector,
        out: &mut Vec<Slice>,
    ) -> Walked {
        let mut at = from;
        let mut run: Option<Slice> = None;
        let mut run_from = from;
        let mut unsettled = false;
        while at < records.len() && at - from < SLICE_BYTES {
            let record =
                Record::read(&records[at..]).expect("the reader tested the checksum of what the sequencer built");
            let sequence = record.sequence();
            if sequence > settled_to {
                unsettled = true;
                break;
            }
            let end = at + record.bytes().len();
            let wanted = sequence >= self.next
                && record.topic() != CONTROL_TOPIC
                && selector.selects(record.topic())
                && !voids.contains(sequence.0);
            if wanted {
                let slice = run.get_or_insert_with(|| {
                    run_from = at;
                    Slice { bytes: Bytes::new(), records: 0, first: sequence, last: sequence }
                });
                slice.records += 1;
                slice.last = sequence;
            } else if let Some(slice) = run.take() {
                out.push(Slice { bytes: records.slice(run_from..at), ..slice });
            }
            self.next = self.next.max(sequence.next());
            at = end;
        }
        if let Some(slice) = run {
            out.push(Slice { bytes: records.slice(run_from..at), ..slice });
        }
        Walked { at, bytes: at - from, unsettled }
    }
}

struct Walked {
    at: usize,
    bytes: usize,
    /// The record at `at` is not settled yet.
    unsettled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use arioso_journal::backend::Damage;
    use arioso_store::batch::{BatchParts, NamesPart};
    use arioso_stream::record::{Header, push_record};
    use arioso_stream::tip::PartitionId;
    use zerocopy::FromBytes;

    struct Odd;

    impl Selector for Odd {
        fn selects(&mut self, topic: u32) -> bool {
            topic % 2 == 1
        }

        fn everything(&self) -> bool {
            false
        }

        fn partitions(&mut self, _: u32, _: &mut Vec<PartitionId>) -> u32 {
            0
        }

        fn exact_topics(&self) -> Option<&[u32]> {
            None
        }
    }

    /// A batch of four messages on topics 1, 1, 2, 3, from this sequence on.
    fn row(number: u64, first: u64, damage: Option<std::ops::RangeInclusive<u64>>) -> StoredBatch {
        let mut records = Vec::new();
        for (n, topic) in [1, 1, 2, 3].into_iter().enumerate() {
            let at = records.len();
            push_record(&mut records, topic, 0, &[], b"payload");
            Header::mut_from_prefix(&mut records[at..]).unwrap().0.sequence.set(first + n as u64);
        }
        let mut parts = BatchParts::empty(number, first + 3, 1, 1);
        (parts.first_sequence, parts.records_count, parts.names) = (first, 4, NamesPart::default());
        parts.records = records.into();
        let mut header = Vec::new();
        parts.encode_unplaced(&mut header);
        let damage_before = damage.map(|batches| Damage { place: "db".into(), batches: Some(batches), bytes: 0 });
        StoredBatch { number, header: header.into(), records: parts.records, damage_before }
    }

    fn taken(number: u64) -> StoredBatch {
        StoredBatch { number, header: Bytes::new(), records: Bytes::new(), damage_before: None }
    }

    fn step(cursor: &mut RowCursor, settled_to: u64, voids: &Voids) -> String {
        let mut out = Vec::new();
        let step = cursor.step(Sequence(settled_to), voids, &mut Odd, &mut out);
        let slices: Vec<String> = out.iter().map(|slice| format!("{}-{}", slice.first, slice.last)).collect();
        format!("{step:?} {} next {}", slices.join(","), cursor.next())
    }

    #[test]
    fn what_is_wanted_settled_and_not_void_is_given_once_and_in_order() {
        let mut cursor = RowCursor::new(Sequence(11));
        let mut voids = Voids::default();
        voids.add(21, 21);
        assert_eq!(step(&mut cursor, 99, &voids), "Need(Sequence(Sequence(11)))  next 11");
        cursor.supply(vec![row(3, 6, None), row(4, 10, None), taken(5), row(6, 20, None)]);
        assert_eq!(step(&mut cursor, 99, &voids), "Read 11-11,13-13,20-20,23-23 next 24");
        assert_eq!(step(&mut cursor, 99, &voids), "Need(Number(7))  next 24");
        cursor.supply(Vec::new());
        assert_eq!(step(&mut cursor, 99, &voids), "End  next 24");
        assert_eq!(step(&mut cursor, 99, &voids), "Need(Number(7))  next 24");
    }

    #[test]
    fn nothing_above_what_is_settled_is_given_before_it_is() {
        let mut cursor = RowCursor::new(Sequence(1));
        let voids = Voids::default();
        cursor.supply(vec![row(1, 1, None)]);
        assert_eq!(step(&mut cursor, 1, &voids), "Read 1-1 next 2");
        assert_eq!(step(&mut cursor, 1, &voids), "End  next 2");
        assert_eq!(step(&mut cursor, 4, &voids), "Read 2-2,4-4 next 5");
    }

    #[test]
    fn missing_batches_are_lost_if_what_follows_is_settled_and_on_their_way_if_not() {
        let mut cursor = RowCursor::new(Sequence(1));
        let voids = Voids::default();
        cursor.supply(vec![row(1, 1, None), row(4, 10, Some(2..=3))]);
        assert_eq!(step(&mut cursor, 8, &voids), "Read 1-2,4-4 next 5");
        assert_eq!(step(&mut cursor, 8, &voids), "End  next 5");
        assert_eq!(step(&mut cursor, 20, &voids), "Need(Number(2))  next 5");
        cursor.supply(vec![row(4, 10, Some(2..=3))]);
        assert_eq!(step(&mut cursor, 20, &voids), "Damaged(\"db: batches Some(2..=3) are lost or damaged\")  next 5");
        assert_eq!(step(&mut cursor, 20, &voids), "Read 10-11,13-13 next 14");
    }
}
