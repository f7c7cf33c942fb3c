//! What a start must take back: the rule of void.rs, read from what is durable.
//!
//! ```text
//! batch   7 [a 1..3 | b 1]   8 missing   9 [a 5..6, before 4 | c 1 if 12]      settled_to 10
//!            ≤ settled_to                    ▲ a 4 was in 8: a 5..6 are void    12 was in 8: c 1 is void
//! ```
//!
//! Every run names the publisher sequence stored before it, so a missing batch shows by the runs behind it. Only what lies
//! above the highest durable `settled_to` is looked at: a batch that is missing at or below it is damage or trimmed, and
//! voids nothing. Without a batch missing above it nothing is missing before any run, whatever the publisher's books say.

use std::collections::BTreeMap;

use arioso_store::batch::BatchHeader;
use arioso_store::control::Control;
use arioso_stream::Sequence;
use arioso_stream::record::{CONTROL_TOPIC, FLAG_CONDITIONAL, Records};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use crate::entry::{BatchNumber, SequenceRange};
use crate::void::VoidSet;

/// Consecutive publisher sequences of one publisher, as a batch's header tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The publisher.
    pub publisher: u32,
    /// Its epoch.
    pub epoch: u32,
    /// Publisher sequence of the first message.
    pub first_publisher_sequence: u64,
    /// Messages, with consecutive sequences too.
    pub messages: u32,
    /// The publisher sequence stored before it; 0 if none was.
    pub before: u64,
    /// Sequence of the first message.
    pub first: Sequence,
}

/// A message with a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The message's sequence.
    pub sequence: Sequence,
    /// The sequence its condition named (extension 3).
    pub named: Sequence,
}

/// What the rule needs of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSummary {
    /// The batch's number.
    pub number: BatchNumber,
    /// No batch before it has a higher sequence: its first sequence less one; for an empty batch the one its header tells.
    pub given_before: Sequence,
    /// Its runs, in sequence order.
    pub runs: Vec<Run>,
    /// Its messages that have a condition, in sequence order.
    pub conditions: Vec<Condition>,
    /// The ranges of the void records in it.
    pub voids: Vec<SequenceRange>,
}

impl BatchSummary {
    /// From a good batch.
    pub fn of(header: &BatchHeader<'_>, records: &[u8]) -> BatchSummary {
        let mut summary = BatchSummary {
            number: BatchNumber(header.number()),
            given_before: Sequence(header.first_sequence().saturating_sub(u64::from(header.records_count() > 0))),
            ..BatchSummary::default()
        };
        summary.runs.extend(header.runs().map(|run| Run {
            publisher: run.publisher,
            epoch: run.epoch,
            first_publisher_sequence: run.first_publisher_sequence,
            messages: run.messages,
            before: run.stored_before,
            first: run.first_sequence,
        }));
        for record in Records::new(records).map_while(Result::ok) {
            if record.topic() == CONTROL_TOPIC {
                if let Some(Control::Void(ranges)) = Control::read(&record) {
                    let range = |(first, last)| SequenceRange { first: Sequence(first), last: Sequence(last) };
                    summary.voids.extend(ranges.iter().map(range));
                }
            } else if record.header().flags.get() & FLAG_CONDITIONAL != 0
                && let Some(named) = record.condition()
            {
                summary.conditions.push(Condition { sequence: record.sequence(), named });
            }
        }
        summary
    }
}

/// What is to be made void before anything is served: the newly found only, not what void records hold already.
///
/// `batches` are all good batches that reach above `settled_to` (the highest that a durable batch tells), in order; earlier
/// ones do no harm. `number_before` is the number before the first of them: that of the last good batch not given, 0 at the
/// beginning of a stream (whose first batch is 1), `None` if that is not known.
/// `stored` tells the newest publisher sequence a publisher has stored at or below `settled_to`, 0 for none; it need not know
/// what `batches` hold.
pub fn replay_voids(
    batches: &[BatchSummary],
    number_before: Option<BatchNumber>,
    settled_to: Sequence,
    stored: impl Fn(u32) -> u64,
) -> VoidSet {
    let mut replay = ReplayVoids {
        settled_to,
        told: Told::of(batches),
        kept: Vec::new(),
        newest: HashMap::default(),
        missing: false,
        set: VoidSet::default(),
        fallen: HashSet::default(),
        touched: BTreeMap::new(),
    };
    let mut number_before = number_before;
    for batch in batches {
        let follows = number_before.is_none_or(|before| before.0 + 1 == batch.number.0);
        replay.missing |= !follows && batch.given_before > settled_to;
        number_before = Some(batch.number);
        let mut conditions = batch.conditions.as_slice();
        for run in &batch.runs {
            let end = run.first.0 + u64::from(run.messages);
            let of_run = conditions.partition_point(|c| c.sequence.0 < end);
            let (own, rest) = conditions.split_at(of_run);
            conditions = rest;
            replay.run(run, own, &stored);
        }
    }
    replay.set.publishers = replay.touched.into_iter().collect();
    replay.set
}

struct ReplayVoids {
    settled_to: Sequence,
    told: Told,
    /// Above `settled_to`, ascending: what a condition may name.
    kept: Vec<SequenceRange>,
    /// The newest publisher sequence kept of each publisher above `settled_to`.
    newest: HashMap<u32, u64, FixedState>,
    /// A batch is missing above `settled_to`.
    missing: bool,
    /// Publishers of which something above `settled_to` is void.
    fallen: HashSet<u32, FixedState>,
    set: VoidSet,
    /// Those of which something is newly so, and the epoch to close.
    touched: BTreeMap<u32, u32>,
}

impl ReplayVoids {
    fn run(&mut self, run: &Run, conditions: &[Condition], stored: &impl Fn(u32) -> u64) {
        let end = run.first.0 + u64::from(run.messages);
        let from = run.first.0.max(self.settled_to.0 + 1);
        let stop = if from < end {
            self.first_void(run, from, end, conditions, stored)
        } else {
            self.told.first_at_or_above(run.first.0).map_or(end, |first| first.min(end))
        };
        if stop > run.first.0 {
            let newest = run.first_publisher_sequence + (stop - 1 - run.first.0);
            self.newest.insert(run.publisher, newest);
        }
        if stop > from {
            let (first, last) = (Sequence(from), Sequence(stop - 1));
            SequenceRange::push(&mut self.kept, SequenceRange { first, last });
        }
        if stop < end && from < end {
            self.void(run, stop, end);
        }
    }

    /// The sequence from which on the run is void; its end if all of it is kept. What follows a void message in its run is a
    /// later message of the same publisher.
    fn first_void(
        &self,
        run: &Run,
        from: u64,
        end: u64,
        conditions: &[Condition],
        stored: &impl Fn(u32) -> u64,
    ) -> u64 {
        // A run that begins at or below `settled_to` has its predecessors there.
        if from == run.first.0 && !self.has_predecessor(run, stored) {
            return from;
        }
        let told = self.told.first_at_or_above(from).map_or(end, |first| first.min(end));
        let mut conditions = conditions.iter().filter(|c| c.sequence.0 >= from);
        let failed = conditions.find(|condition| !self.holds(condition, from));
        failed.map_or(told, |condition| told.min(condition.sequence.0))
    }

    fn has_predecessor(&self, run: &Run, stored: &impl Fn(u32) -> u64) -> bool {
        let newest = self.newest.get(&run.publisher).copied();
        if newest.is_some_and(|newest| newest >= run.before) || run.before == 0 {
            return true;
        }
        // Something void stands before it, or something that is missing.
        let fallen = self.fallen.contains(&run.publisher);
        stored(run.publisher) >= run.before || !(fallen || self.missing)
    }

    /// Whether what a condition named is kept, trimmed or nothing. `from` is where the part of the run in question begins:
    /// what is named in it stands before the condition and is kept if the condition is looked at.
    fn holds(&self, condition: &Condition, from: u64) -> bool {
        let named = condition.named;
        if named <= self.settled_to || (from..condition.sequence.0).contains(&named.0) {
            return true;
        }
        let at = self.kept.partition_point(|range| range.last < named);
        self.kept.get(at).is_some_and(|range| range.contains(named))
    }

    fn void(&mut self, run: &Run, from: u64, end: u64) {
        self.fallen.insert(run.publisher);
        let mut from = from;
        while from < end {
            // Leave out what a record holds already.
            let (told_from, told_end) = self.told.next(from).unwrap_or((end, end));
            if from < told_from.min(end) {
                let (first, last) = (Sequence(from), Sequence(told_from.min(end) - 1));
                SequenceRange::push(&mut self.set.ranges, SequenceRange { first, last });
                let epoch = self.touched.entry(run.publisher).or_insert(run.epoch);
                *epoch = run.epoch.max(*epoch);
            }
            from = told_end;
        }
    }
}

/// What void records hold, sorted.
struct Told(Vec<SequenceRange>);

impl Told {
    fn of(batches: &[BatchSummary]) -> Told {
        let mut ranges: Vec<SequenceRange> = batches.iter().flat_map(|b| b.voids.clone()).collect();
        ranges.sort_unstable();
        let mut told: Vec<SequenceRange> = Vec::new();
        for range in ranges {
            match told.last_mut() {
                Some(last) if range.first <= last.last.next() => last.last = last.last.max(range.last),
                _ => told.push(range),
            }
        }
        Told(told)
    }

    /// The first void sequence at or above one.
    fn first_at_or_above(&self, sequence: u64) -> Option<u64> {
        self.next(sequence).map(|(first, _)| first)
    }

    /// The part at or above a sequence of the first range that reaches there: its first sequence, and the one after its last.
    fn next(&self, sequence: u64) -> Option<(u64, u64)> {
        let at = self.0.partition_point(|range| range.last.0 < sequence);
        let range = self.0.get(at)?;
        Some((range.first.0.max(sequence), range.last.0 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(publisher: u32, sequence: u64, messages: u32, before: u64) -> Run {
        Run { publisher, epoch: 1, first_publisher_sequence: before + 1, messages, before, first: Sequence(sequence) }
    }

    fn batch(number: u64, runs: &[Run]) -> BatchSummary {
        BatchSummary {
            number: BatchNumber(number),
            given_before: Sequence(runs[0].first.0 - 1),
            runs: runs.to_vec(),
            ..BatchSummary::default()
        }
    }

    fn conditional(mut batch: BatchSummary, sequence: u64, named: u64) -> BatchSummary {
        batch.conditions.push(Condition { sequence: Sequence(sequence), named: Sequence(named) });
        batch
    }

    fn range(first: u64, last: u64) -> SequenceRange {
        SequenceRange { first: Sequence(first), last: Sequence(last) }
    }

    fn voids(batches: &[BatchSummary], settled_to: u64) -> Vec<(u64, u64)> {
        let set = replay_voids(batches, None, Sequence(settled_to), |_| 0);
        set.ranges.iter().map(|r| (r.first.0, r.last.0)).collect()
    }

    #[test]
    fn a_missing_batch_takes_the_later_messages_of_its_publishers() {
        let batches = [
            batch(7, &[run(1, 1, 3, 0), run(2, 4, 1, 0)]),
            // 8 held publisher 1's 4th message, sequence 5.
            batch(9, &[run(1, 6, 2, 4), run(2, 8, 1, 1)]),
            batch(10, &[run(1, 9, 1, 6), run(3, 10, 1, 0)]),
        ];
        assert_eq!(voids(&batches, 4), [(6, 7), (9, 9)]);
        let set = replay_voids(&batches, None, Sequence(4), |_| 0);
        assert_eq!(set.publishers, [(1, 1)]);
    }

    #[test]
    fn a_batch_missing_at_or_below_settled_to_voids_nothing() {
        let batches = [batch(7, &[run(1, 1, 3, 0)]), batch(9, &[run(1, 6, 2, 4)])];
        assert_eq!(voids(&batches, 5), []);
        assert_eq!(voids(&batches, 4), [(6, 7)]);
    }

    #[test]
    fn what_was_stored_at_or_below_settled_to_is_a_predecessor() {
        let batches = [batch(9, &[run(1, 60, 2, 4), run(2, 62, 1, 9)])];
        let set =
            replay_voids(&batches, Some(BatchNumber(7)), Sequence(50), |publisher| if publisher == 1 { 4 } else { 8 });
        assert_eq!(set.ranges, [range(62, 62)]);
        // Without a batch missing, the books that do not know a publisher prove nothing.
        let set = replay_voids(&batches, Some(BatchNumber(8)), Sequence(50), |_| 0);
        assert_eq!(set, VoidSet::default());
    }

    #[test]
    fn a_conditional_message_is_kept_only_if_what_it_named_is_kept_trimmed_or_nothing() {
        let last = batch(9, &[run(1, 6, 1, 0), run(2, 7, 2, 0), run(3, 9, 3, 0)]);
        let first = batch(7, &[run(4, 3, 1, 0)]);
        let with = |sequence, named| [first.clone(), conditional(last.clone(), sequence, named)];
        assert_eq!(voids(&with(7, 0), 2), []);
        assert_eq!(voids(&with(7, 2), 2), []);
        assert_eq!(voids(&with(7, 3), 2), []);
        assert_eq!(voids(&with(7, 6), 2), []);
        // 4 and 5 were in batch 8.
        assert_eq!(voids(&with(7, 5), 2), [(7, 8)]);
        assert_eq!(voids(&with(8, 5), 2), [(8, 8)]);
        assert_eq!(voids(&with(10, 9), 2), []);
        assert_eq!(voids(&with(10, 4), 2), [(10, 11)]);
        // One falls with the other.
        let both = conditional(conditional(last.clone(), 7, 5), 9, 8);
        assert_eq!(voids(&[first.clone(), both], 2), [(7, 11)]);
    }

    #[test]
    fn what_a_void_record_holds_is_not_told_again_and_takes_what_rests_on_it() {
        let mut batches = [
            batch(7, &[run(1, 1, 2, 0), run(2, 3, 1, 0)]),
            conditional(batch(8, &[run(1, 4, 2, 2), run(3, 6, 1, 0)]), 6, 2),
            batch(9, &[run(4, 8, 1, 0)]),
        ];
        batches[2].voids = vec![range(2, 2), range(4, 4)];
        let set = replay_voids(&batches, None, Sequence::ZERO, |_| 0);
        assert_eq!(set.ranges, [range(5, 6)]);
        assert_eq!(set.publishers, [(1, 1), (3, 1)]);
        // What follows in another batch falls too, with no batch missing.
        batches[2].runs.push(run(1, 9, 1, 4));
        let set = replay_voids(&batches, None, Sequence::ZERO, |_| 0);
        assert_eq!(set.ranges, [range(5, 6), range(9, 9)]);
        batches[2].runs.pop();
        // In a new epoch the publisher goes on behind what was kept.
        let mut again = run(1, 9, 1, 1);
        again.epoch = 2;
        batches[2].runs.push(again);
        let set = replay_voids(&batches, None, Sequence::ZERO, |_| 0);
        assert_eq!(set.ranges, [range(5, 6)]);
    }
}
