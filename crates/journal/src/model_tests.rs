//! The ledger against a model that looks at everything, every time: random entries, conditions, levels, groups, outcomes in
//! any order. After each step exactly the replies are out that the rules let out, with the verdicts they give.
//!
//! The model knows no links and no queues, only the sentences of ledger.rs and void.rs, read over the whole history.

use std::collections::BTreeSet;

use arioso_stream::Sequence;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use crate::backend::Outcome;
use crate::entry::{BatchNumber, Entry, Kind, Level, NO_PUBLISHER, Reply, SequenceRange, Verdict};
use crate::groups::{Group, Groups, group_of};
use crate::ledger::Ledger;
use crate::mutation::Mutation;
use crate::void::{Judgement, Rejudge};

const PUBLISHERS: u32 = 5;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Publish { publisher: u32, messages: u32, sequenced: bool, condition: Option<u16> },
    Refuse { publisher: u32, sequenced: bool, on: Option<u16> },
    Open(u32),
    Cursor,
    Write,
    Known { which: u8, failed: bool },
    Unknown(u8),
    EnterVoid,
}

fn op() -> impl Strategy<Value = Op> {
    let publisher = 1..=PUBLISHERS;
    prop_oneof![
        8 => (publisher.clone(), 1..4u32, any::<bool>(), prop::option::of(any::<u16>())).prop_map(
            |(publisher, messages, sequenced, condition)| Op::Publish {
                publisher, messages, sequenced, condition,
            }
        ),
        2 => (publisher.clone(), any::<bool>(), prop::option::of(any::<u16>())).prop_map(
            |(publisher, sequenced, on)| Op::Refuse { publisher, sequenced, on }
        ),
        1 => publisher.prop_map(Op::Open),
        1 => Just(Op::Cursor),
        5 => Just(Op::Write),
        5 => (any::<u8>(), prop::bool::weighted(0.2)).prop_map(|(which, failed)| Op::Known { which, failed }),
        1 => any::<u8>().prop_map(Op::Unknown),
        2 => Just(Op::EnterVoid),
    ]
}

pub(crate) fn run() -> impl Strategy<Value = (Groups, Vec<Op>, u64)> {
    let groups = prop_oneof![(1..4u32).prop_map(Groups::Shared), Just(Groups::PerPublisher)];
    (groups, prop::collection::vec(op(), 1..60), any::<u64>())
}

/// What the model knows of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) entry: Entry,
    void_record: bool,
    pub(crate) known: Option<Outcome>,
    /// Index of the entry its verdict rests on.
    pub(crate) on: Option<usize>,
    judging: bool,
    silent: bool,
    pub(crate) marked: bool,
    pub(crate) void: bool,
    pub(crate) out: bool,
    /// For a void record: what it holds, as long as it is in flight, and for ever.
    holds: Vec<usize>,
    pub(crate) held: Vec<usize>,
    /// The publisher's own number of the first message, and the one stored before it.
    pub(crate) number: u64,
    pub(crate) before: u64,
}

impl Seen {
    pub(crate) fn answer(&self) -> bool {
        matches!(self.entry.kind, Kind::Answer { .. })
    }

    fn records(&self) -> u64 {
        match self.entry.kind {
            Kind::Messages => u64::from(self.entry.messages),
            Kind::Control => 1,
            Kind::Answer { .. } => 0,
        }
    }

    pub(crate) fn range(&self) -> SequenceRange {
        SequenceRange { first: self.entry.first, last: Sequence(self.entry.first.0 + self.records() - 1) }
    }

    fn ordered(&self) -> bool {
        self.entry.level == Level::Durable && self.entry.group != Group::OWN && !self.void_record
    }
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) seen: Vec<Seen>,
    /// Something was marked that was not asked for.
    fresh: bool,
}

impl Model {
    pub(crate) fn same_publisher(&self, a: usize, b: usize) -> bool {
        let publisher = self.seen[a].entry.publisher;
        publisher != NO_PUBLISHER && publisher == self.seen[b].entry.publisher
    }

    /// For each entry: whether it is settled.
    fn settled(&self) -> Vec<bool> {
        let mut settled: Vec<bool> = Vec::new();
        for (at, seen) in self.seen.iter().enumerate() {
            let own = seen.answer() || seen.known == Some(Outcome::Durable);
            let previous = (0..at)
                .filter(|before| self.same_publisher(*before, at))
                .all(|before| settled[before] || self.seen[before].void);
            let on = seen.on.is_none_or(|on| settled[on]);
            settled.push(own && previous && on && !seen.marked && !seen.judging);
        }
        settled
    }

    /// Lets out what may leave; gives it in the order received.
    fn let_out(&mut self) -> Vec<Reply> {
        let settled = self.settled();
        let mut replies = Vec::new();
        for at in 0..self.seen.len() {
            let seen = &self.seen[at];
            let on = seen.on.is_none_or(|on| settled[on]);
            let decided = match seen.entry.kind {
                _ if seen.void => true,
                _ if seen.marked => false,
                Kind::Answer { .. } => on && !seen.judging,
                Kind::Messages if seen.entry.level == Level::Sequenced => on,
                _ => settled[at],
            };
            let turn = (0..at).all(|before| {
                let earlier = &self.seen[before];
                let waits = self.same_publisher(before, at)
                    || (earlier.ordered() && seen.ordered() && earlier.entry.group == seen.entry.group);
                earlier.out || !waits
            });
            if seen.out || !decided || !turn {
                continue;
            }
            if !seen.silent && !seen.void_record {
                replies.push(verdict(seen));
            }
            self.seen[at].out = true;
        }
        replies
    }

    fn settled_to(&self) -> Sequence {
        let settled = self.settled();
        let mut to = Sequence::ZERO;
        for (seen, settled) in self.seen.iter().zip(settled) {
            if seen.answer() {
                continue;
            }
            let void = seen.void && seen.known.is_some();
            if !(settled || void) {
                break;
            }
            to = seen.range().last;
        }
        to
    }

    fn open_ranges(&self) -> Vec<SequenceRange> {
        let settled = self.settled();
        let mut ranges = Vec::new();
        for (seen, settled) in self.seen.iter().zip(settled) {
            if !settled && !seen.void && !seen.answer() {
                SequenceRange::push(&mut ranges, seen.range());
            }
        }
        ranges
    }

    /// Marks the smallest set that holds `start`: read over and over until nothing is added.
    fn mark(&mut self, start: &[usize]) {
        let mut set: BTreeSet<usize> = start.iter().copied().filter(|at| !self.seen[*at].marked).collect();
        loop {
            let before = set.len();
            for at in 0..self.seen.len() {
                let seen = &self.seen[at];
                let follows = set.iter().any(|of| *of < at && self.same_publisher(*of, at));
                let rests = !seen.answer() && seen.on.is_some_and(|on| set.contains(&on));
                let stands = seen.marked || (seen.answer() && seen.out);
                if (follows || rests) && !stands {
                    set.insert(at);
                }
            }
            if set.len() == before {
                break;
            }
        }
        self.fresh |= !set.is_empty();
        for at in set {
            self.seen[at].marked = true;
            self.seen[at].judging = false;
            // A void record that fails holds nothing any more: what it held is to be held by another.
            self.seen[at].holds.clear();
        }
    }

    /// Marked and in no record.
    fn unheld(&self) -> Vec<usize> {
        let held: BTreeSet<usize> = self.seen.iter().flat_map(|seen| seen.holds.clone()).collect();
        (0..self.seen.len()).filter(|at| self.seen[*at].marked && !self.seen[*at].void && !held.contains(at)).collect()
    }

    /// Void records that are settled take effect; gives the answers to judge again.
    fn records_take_effect(&mut self) -> BTreeSet<u64> {
        for (at, settled) in self.settled().into_iter().enumerate() {
            if self.seen[at].void_record && settled {
                for member in std::mem::take(&mut self.seen[at].holds) {
                    self.seen[member].void = true;
                }
            }
        }
        let mut again = BTreeSet::new();
        for at in 0..self.seen.len() {
            let seen = &self.seen[at];
            let rests = seen.on.is_some_and(|on| self.seen[on].void);
            if seen.answer() && rests && !seen.marked && !seen.judging {
                self.seen[at].judging = true;
                again.insert(at as u64);
            }
        }
        again
    }

    /// The last number of a publisher that is stored, as far as is known.
    fn stored(&self, publisher: u32) -> u64 {
        let stored = self
            .seen
            .iter()
            .filter(|seen| seen.entry.publisher == publisher && seen.entry.kind == Kind::Messages && !seen.marked);
        stored.map(|seen| seen.number + u64::from(seen.entry.messages) - 1).next_back().unwrap_or(0)
    }

    /// The entry a sequence belongs to.
    fn at(&self, sequence: Sequence) -> Option<usize> {
        self.seen.iter().position(|seen| seen.records() > 0 && seen.range().contains(sequence))
    }
}

fn verdict(seen: &Seen) -> Reply {
    let entry = &seen.entry;
    let verdict = match entry.kind {
        Kind::Answer { .. } if seen.void => Verdict::Reopen,
        _ if seen.void => Verdict::Failed,
        Kind::Answer { code, detail } => Verdict::Refused { code, detail },
        _ => Verdict::Ok { first: entry.first, level: entry.level },
    };
    Reply {
        tag: entry.tag,
        publisher: entry.publisher,
        first_publisher_sequence: entry.first_publisher_sequence,
        messages: entry.messages,
        verdict,
    }
}

fn hash(id: u64) -> u64 {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The ledger and the model side by side.
pub(crate) struct Pair {
    ledger: Ledger,
    pub(crate) model: Model,
    groups: Groups,
    epochs: Vec<u32>,
    closed: Vec<bool>,
    batch: u64,
    /// Batches closed and not known.
    pub(crate) written: Vec<u64>,
    next: u64,
    random: u64,
    pub(crate) settled: BTreeSet<u64>,
    /// `settled_to` when the batch of each number was closed.
    pub(crate) settled_to: Vec<Sequence>,
}

impl Pair {
    pub(crate) fn new(groups: Groups, random: u64, mutation: Option<Mutation>) -> Pair {
        let mut ledger = Ledger::new(groups, 10_000, Sequence::ZERO);
        ledger.mutation = mutation;
        Pair {
            ledger,
            model: Model::default(),
            groups,
            epochs: vec![1; PUBLISHERS as usize + 1],
            closed: vec![false; PUBLISHERS as usize + 1],
            batch: 1,
            written: Vec::new(),
            next: 1,
            random,
            settled: BTreeSet::new(),
            settled_to: vec![Sequence::ZERO],
        }
    }

    pub(crate) fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    /// Some message a verdict may rest on: not void, nor about to be.
    fn some_message(&self, choice: Option<u16>) -> Option<Sequence> {
        let good: Vec<&Seen> =
            self.model.seen.iter().filter(|seen| seen.entry.kind == Kind::Messages && !seen.marked).collect();
        let choice = usize::from(choice?);
        let seen = good.get(choice.checked_rem(good.len())?)?;
        Some(Sequence(seen.range().first.0 + choice as u64 % seen.records()))
    }

    fn enter(&mut self, publisher: u32, kind: Kind, messages: u32, sequenced: bool, on: Option<Sequence>) {
        let tag = self.model.seen.len() as u64;
        let group = match publisher {
            NO_PUBLISHER => Group::OWN,
            publisher => group_of(hash(u64::from(publisher)), self.groups),
        };
        let entry = Entry {
            kind,
            publisher,
            epoch: self.epochs[publisher as usize],
            first_publisher_sequence: tag,
            messages,
            first: Sequence(self.next),
            batch: BatchNumber(self.batch),
            level: if sequenced { Level::Sequenced } else { Level::Durable },
            group,
            conditioned_on: on,
            tag,
        };
        let seen = Seen {
            entry,
            void_record: false,
            known: None,
            on: on.and_then(|sequence| self.model.at(sequence)),
            judging: false,
            silent: false,
            marked: false,
            void: false,
            out: false,
            holds: Vec::new(),
            held: Vec::new(),
            before: self.model.stored(publisher),
            number: self.model.stored(publisher) + 1,
        };
        self.next += seen.records();
        self.model.seen.push(seen);
        let mut entered = entry;
        if self.ledger.mutated(Mutation::HashWrongly) && publisher != NO_PUBLISHER {
            entered.group = group_of(hash(u64::from(publisher) + tag), self.groups);
        }
        self.ledger.enter(&entered).expect("room");
    }

    fn known(&mut self, batch: u64, outcome: Outcome) {
        self.ledger.completed(BatchNumber(batch), outcome);
        let mut failed = Vec::new();
        for (at, seen) in self.model.seen.iter_mut().enumerate() {
            if !seen.answer() && seen.entry.batch.0 == batch {
                seen.known = Some(outcome);
                failed.push(at);
            }
        }
        if outcome == Outcome::Failed {
            self.model.mark(&failed);
        }
    }

    fn enter_void(&mut self) {
        let holds = self.model.unheld();
        if holds.is_empty() {
            return;
        }
        let (first, batch) = (Sequence(self.next), BatchNumber(self.batch));
        self.ledger.enter_void(first, batch).expect("room");
        let mut record = self.model.seen[holds[0]].clone();
        record.entry.kind = Kind::Control;
        record.entry.publisher = NO_PUBLISHER;
        record.entry.level = Level::Durable;
        (record.entry.first, record.entry.batch) = (first, batch);
        (record.known, record.on, record.void_record) = (None, None, true);
        (record.marked, record.void, record.out) = (false, false, false);
        record.held.clone_from(&holds);
        record.holds = holds;
        self.model.seen.push(record);
        self.next += 1;
    }

    pub(crate) fn step(&mut self, op: &Op) {
        match *op {
            Op::Publish { publisher, messages, sequenced, condition } => {
                let on = self.some_message(condition);
                if self.closed[publisher as usize] {
                    let kind = Kind::Answer { code: 24, detail: 0 };
                    self.enter(publisher, kind, messages, sequenced, None);
                } else {
                    self.enter(publisher, Kind::Messages, messages, sequenced, on);
                }
            }
            Op::Refuse { publisher, sequenced, on } => {
                let on = self.some_message(on);
                let kind = Kind::Answer { code: 27, detail: 5 };
                self.enter(publisher, kind, 1, sequenced, on);
            }
            Op::Open(publisher) => {
                self.epochs[publisher as usize] += 1;
                self.closed[publisher as usize] = false;
                self.enter(publisher, Kind::Control, 0, false, None);
            }
            Op::Cursor => self.enter(NO_PUBLISHER, Kind::Control, 0, false, None),
            Op::Write => {
                self.written.push(self.batch);
                self.settled_to.push(self.ledger.settled_to());
                self.batch += 1;
            }
            Op::Known { which, failed } => {
                if !self.written.is_empty() {
                    let batch = self.written.remove(usize::from(which) % self.written.len());
                    let outcome = if failed { Outcome::Failed } else { Outcome::Durable };
                    self.known(batch, outcome);
                }
            }
            Op::Unknown(which) => {
                if !self.written.is_empty() {
                    let batch = self.written[usize::from(which) % self.written.len()];
                    self.ledger.completed(BatchNumber(batch), Outcome::Unknown);
                }
            }
            Op::EnterVoid => self.enter_void(),
        }
    }

    /// Compares everything the two let out; judges what is to be judged again, and compares once more.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        loop {
            let again = self.model.records_take_effect();
            self.compare_replies()?;
            self.compare_voids()?;
            let asked: Vec<Rejudge> = std::iter::from_fn(|| self.ledger.next_rejudge()).collect();
            let got: BTreeSet<u64> = asked.iter().map(|ask| ask.tag).collect();
            same("judge again", &got, &again)?;
            self.compare_marks()?;
            if asked.is_empty() {
                return Ok(());
            }
            for ask in asked {
                // An earlier judgement may have taken this one back.
                if self.model.seen[ask.tag as usize].judging {
                    self.judge(&ask)?;
                }
            }
        }
    }

    fn judge(&mut self, ask: &Rejudge) -> Result<(), String> {
        let at = ask.tag as usize;
        let last = !(at + 1..self.model.seen.len()).any(|later| self.model.same_publisher(at, later));
        same("last", &ask.last, &last)?;
        let choice = self.random(4);
        if choice == 0 && last {
            self.model.seen[at].silent = true;
            self.model.seen[at].judging = false;
            self.model.seen[at].on = None;
            self.ledger.judged(ask.ticket, Judgement::Anew);
        } else if choice == 1 {
            self.model.mark(&[at]);
            self.ledger.judged(ask.ticket, Judgement::Withdrawn);
        } else {
            let any = self.random(1 << 16) as u16;
            let on = self.some_message((choice == 2).then_some(any));
            let judgement = Judgement::Answer { code: 28, detail: 6, conditioned_on: on };
            self.ledger.judged(ask.ticket, judgement);
            let settled = self.model.settled();
            let on = on.and_then(|on| self.model.at(on)).filter(|on| !settled[*on]);
            if on.is_some_and(|on| on > at) {
                self.model.mark(&[at]);
            } else {
                let seen = &mut self.model.seen[at];
                seen.entry.kind = Kind::Answer { code: 28, detail: 6 };
                (seen.on, seen.judging) = (on, false);
            }
        }
        // Whatever was asked for is taken before the next thing is done.
        self.compare_voids()
    }

    fn compare_replies(&mut self) -> Result<(), String> {
        let mut got = Vec::new();
        self.ledger.take_replies(&mut got);
        for (at, later) in got.iter().enumerate() {
            for earlier in &got[at + 1..] {
                let (a, b) = (earlier.tag as usize, later.tag as usize);
                let seen = (&self.model.seen[a], &self.model.seen[b]);
                let ordered = seen.0.ordered() && seen.1.ordered() && seen.0.entry.group == seen.1.entry.group;
                if a < b && (self.model.same_publisher(a, b) || ordered) {
                    return Err(format!("reply {b} left before {a}"));
                }
            }
        }
        got.sort_by_key(|reply| reply.tag);
        same("replies", &got, &self.model.let_out())
    }

    fn compare_voids(&mut self) -> Result<(), String> {
        let request = self.ledger.take_void_request();
        let fresh = std::mem::take(&mut self.model.fresh);
        same("void request", &request.is_some(), &fresh)?;
        let Some(set) = request else {
            return Ok(());
        };
        let mut ranges = Vec::new();
        let mut publishers = std::collections::BTreeMap::new();
        for at in self.model.unheld() {
            let seen = &self.model.seen[at];
            if seen.records() > 0 {
                SequenceRange::push(&mut ranges, seen.range());
            }
            if seen.entry.publisher != NO_PUBLISHER {
                publishers.insert(seen.entry.publisher, seen.entry.epoch);
                if seen.entry.epoch == self.epochs[seen.entry.publisher as usize] {
                    self.closed[seen.entry.publisher as usize] = true;
                }
            }
        }
        same("void ranges", &set.ranges, &ranges)?;
        same("closed", &set.publishers, &publishers.into_iter().collect())
    }

    fn compare_marks(&mut self) -> Result<(), String> {
        same("settled to", &self.ledger.settled_to(), &self.model.settled_to())?;
        let open: Vec<SequenceRange> = self.ledger.open_ranges().collect();
        same("open", &open, &self.model.open_ranges())?;
        let mut ranges = Vec::new();
        self.ledger.take_settled(&mut ranges);
        for sequence in ranges.iter().flat_map(|r| r.first.0..=r.last.0) {
            if !self.settled.insert(sequence) {
                return Err(format!("{sequence} was settled twice"));
            }
        }
        let settled = self.model.settled();
        let seen = self.model.seen.iter().zip(settled);
        let want = seen
            .filter(|(seen, settled)| *settled && seen.records() > 0)
            .flat_map(|(seen, _)| seen.range().first.0..=seen.range().last.0)
            .collect();
        same("settled", &self.settled, &want)
    }

    /// Everything becomes known; nothing may be left.
    fn finish(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            self.step(&Op::EnterVoid);
            self.step(&Op::Write);
            while !self.written.is_empty() {
                let which = self.random(256) as u8;
                self.step(&Op::Known { which, failed: false });
                self.compare()?;
            }
        }
        same("replies out", &self.model.seen.iter().all(|seen| seen.out || seen.void_record), &true)?;
        same("in flight", &self.ledger.in_flight(), &0)?;
        same("settled to", &self.ledger.settled_to(), &Sequence(self.next - 1))
    }
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    Err(format!("{what}: {got:?}, the rules say {want:?}"))
}

fn check(groups: Groups, ops: &[Op], random: u64, mutation: Option<Mutation>) -> Result<(), String> {
    let mut pair = Pair::new(groups, random, mutation);
    for op in ops {
        pair.step(op);
        pair.compare()?;
    }
    pair.finish()
}

proptest! {
    #![proptest_config(Config { cases: 1500, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_reply_is_out_exactly_if_its_message_is_settled_and_no_earlier_one_of_its_group_is_open(
        (groups, ops, random) in run()
    ) {
        check(groups, &ops, random, None).map_err(TestCaseError::fail)?;
    }
}

/// What the check says to a ledger with a planted fault, on the first run that finds it.
fn found(mutation: Mutation) -> String {
    let mut runner = TestRunner::deterministic();
    for _ in 0..500 {
        let (groups, ops, random) = run().new_tree(&mut runner).expect("a run").current();
        check(groups, &ops, random, None).expect("the ledger itself is right");
        if let Err(what) = check(groups, &ops, random, Some(mutation)) {
            return what;
        }
    }
    panic!("{mutation:?} is not found");
}

#[test]
fn a_reply_out_of_its_groups_order_is_found() {
    let what = found(Mutation::AnswerFromAnotherGroup);
    assert!(what.starts_with("repl"), "{what}");
}

#[test]
fn a_failure_that_is_dropped_is_found() {
    let what = found(Mutation::DropFailure);
    assert!(!what.is_empty());
}

#[test]
fn a_publisher_that_changes_its_group_is_found() {
    let what = found(Mutation::HashWrongly);
    assert!(what.starts_with("repl"), "{what}");
}

#[test]
fn voiding_too_little_of_a_publisher_is_found() {
    let what = found(Mutation::SparePublisher);
    assert!(what.starts_with("void ranges"), "{what}");
}

#[test]
fn voiding_too_little_of_what_is_conditioned_is_found() {
    let what = found(Mutation::SpareConditional);
    assert!(what.starts_with("void ranges"), "{what}");
}

#[test]
fn failing_before_the_void_record_is_durable_is_found() {
    let what = found(Mutation::FailBeforeRecord);
    assert!(what.starts_with("replies"), "{what}");
}
