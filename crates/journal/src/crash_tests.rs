//! A crash after every run of the model: what a replay takes back, against the rule read over the whole history.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::backend::Outcome;
use crate::entry::{BatchNumber, Kind, SequenceRange};
use crate::model_tests::{Pair, Seen, run, same};
use crate::replay::{BatchSummary, Condition, Run, replay_voids};

proptest! {
    #![proptest_config(Config { cases: 1500, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_replay_after_a_crash_keeps_what_was_settled_and_takes_back_what_stands_on_nothing(
        (groups, ops, random) in run()
    ) {
        let mut pair = Pair::new(groups, random, None);
        for op in &ops {
            pair.step(op);
            pair.compare().map_err(TestCaseError::fail)?;
        }
        crash(&mut pair).map_err(TestCaseError::fail)?;
    }
}

/// A crash: what is durable is what was known to be, and by chance some of what was being written. Replay takes back exactly
/// what stands on nothing, nothing that was settled, and keeps nothing that was answered `failed`.
fn crash(pair: &mut Pair) -> Result<(), String> {
    let mut durable: BTreeSet<u64> = BTreeSet::new();
    for batch in std::mem::take(&mut pair.written) {
        if pair.random(2) == 0 {
            durable.insert(batch);
        }
    }
    let seen = &pair.model.seen;
    let known = seen.iter().filter(|seen| seen.known == Some(Outcome::Durable));
    durable.extend(known.map(|seen| seen.entry.batch.0));
    let settled_to = durable.iter().map(|batch| pair.settled_to[*batch as usize]);
    let settled_to = settled_to.max().unwrap_or_default();
    let batches = summaries(seen, &durable);
    let stored = |publisher| {
        let below = seen.iter().filter(|seen| {
            let message = seen.entry.publisher == publisher && seen.entry.kind == Kind::Messages;
            message && !seen.marked && seen.range().last <= settled_to
        });
        below.map(|seen| seen.number + u64::from(seen.entry.messages) - 1).next_back().unwrap_or(0)
    };
    let set = replay_voids(&batches, Some(BatchNumber(0)), settled_to, stored);

    let told = |sequence| batches.iter().any(|b| b.voids.iter().any(|r| r.contains(sequence)));
    let mut kept = vec![false; seen.len()];
    let mut want = Vec::new();
    for (at, one) in seen.iter().enumerate() {
        if one.entry.kind != Kind::Messages || !durable.contains(&one.entry.batch.0) {
            continue;
        }
        let (first, below) = (one.entry.first, one.entry.first <= settled_to);
        // The entry that stored the number before it: the newest one, if a number was sent again.
        let previous = (0..at).rev().find(|before| {
            let earlier = &seen[*before];
            let numbers = earlier.number..earlier.number + u64::from(earlier.entry.messages);
            pair.model.same_publisher(*before, at)
                && earlier.entry.kind == Kind::Messages
                && numbers.contains(&one.before)
        });
        let rests = |on: Option<usize>| on.is_none_or(|on| kept[on]);
        kept[at] = !told(first) && (below || (rests(previous) && rests(one.on)));
        if !kept[at] && !told(first) {
            SequenceRange::push(&mut want, one.range());
        }
        if one.out && one.void && kept[at] {
            return Err(format!("{first} was answered `failed` and is kept"));
        }
    }
    same("voided by replay", &set.ranges, &want)?;
    let lost = seen.iter().zip(&kept).find(|(seen, kept)| {
        seen.entry.kind == Kind::Messages && pair.settled.contains(&seen.entry.first.0) && !**kept
    });
    match lost {
        Some((seen, _)) => Err(format!("{} was settled and is lost", seen.entry.first)),
        None => Ok(()),
    }
}

fn summaries(seen: &[Seen], durable: &BTreeSet<u64>) -> Vec<BatchSummary> {
    let mut batches: Vec<BatchSummary> = Vec::new();
    for number in durable {
        let mut batch = BatchSummary { number: BatchNumber(*number), ..BatchSummary::default() };
        let before = seen.iter().filter(|seen| !seen.answer() && seen.entry.batch.0 < *number);
        batch.given_before = before.map(|seen| seen.range().last).max().unwrap_or_default();
        let inside = |seen: &&Seen| !seen.answer() && seen.entry.batch.0 == *number;
        for one in seen.iter().filter(inside) {
            let held = one.held.iter().map(|at| &seen[*at]).filter(|seen| !seen.answer());
            batch.voids.extend(held.map(Seen::range));
            if one.entry.kind != Kind::Messages {
                continue;
            }
            batch.runs.push(Run {
                publisher: one.entry.publisher,
                epoch: one.entry.epoch,
                first_publisher_sequence: one.number,
                messages: one.entry.messages,
                before: one.before,
                first: one.entry.first,
            });
            batch
                .conditions
                .extend(one.entry.conditioned_on.map(|named| Condition { sequence: one.entry.first, named }));
        }
        batches.push(batch);
    }
    batches
}
