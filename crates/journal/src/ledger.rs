//! The ledger: who may be answered what, and when. It is told what was entered and which batches are durable or failed,
//! and tells which messages are settled or void and which replies leave.
//!
//! **Settled**: an entry is settled when its batch is durable, its publisher's previous entries are settled or void, and what
//! it was conditioned on is settled. An answer is a link of its publisher's chain too: as long as it rests on something open,
//! nothing behind it is settled, since judging it again may take back what follows.
//!
//! **Replies**: each entry is answered once, when its answer is decided and it is its turn.
//!
//! | entry | decided when | turn |
//! |---|---|---|
//! | durable message, control record | settled, or void | the publisher's earlier replies left, and it heads its group |
//! | sequenced message | at once (with a condition: when that is settled), or void | the publisher's earlier replies left |
//! | answer | what it was judged on is settled; or the epoch was closed before it | as its level says |
//!
//! Sequenced entries are not in their group's order: they wait for nobody else and nobody else waits for them. A durable
//! reply behind one of the same publisher still leaves after it, by the publisher's order.
//!
//! "Void" means that the record that says so is durable. Until then the entry is neither answered nor passed by `settled_to`.

use arioso_stream::Sequence;

use crate::backend::Outcome;
use crate::entry::{BatchNumber, Entry, Kind, Level, NO_PUBLISHER, Reply, SequenceRange, Ticket, Verdict};
use crate::flight::{Flight, Held, HeldKind, State, WAIT_BATCH, WAIT_CONDITION, WAIT_PREVIOUS};
use crate::groups::{GroupQueues, Groups};
use crate::void::Voids;

#[cfg(test)]
use crate::mutation::Mutation;

/// The highest ceiling on entries in flight: at 96 bytes each, 1.5 GiB.
pub const ENTRIES_MAX: usize = 1 << 24;

/// The ceiling on entries in flight is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entries} entries are in flight, the ceiling is {entries_max}")]
pub struct Busy {
    /// Entries in flight.
    pub entries: usize,
    /// The ceiling.
    pub entries_max: usize,
}

/// The entries in flight and what is owed to them.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) flight: Flight,
    pub(crate) groups: GroupQueues,
    pub(crate) voids: Voids,
    /// The first entry that `settled_to` has not passed.
    front: Ticket,
    settled_to: Sequence,
    entries_max: usize,
    replies: Vec<Reply>,
    settled: Vec<SequenceRange>,
    /// Entries whose turn to be looked at has come; empty between calls.
    settling: Vec<Ticket>,
    answering: Vec<Ticket>,
    unknown: u64,
    #[cfg(test)]
    pub(crate) mutation: Option<Mutation>,
}

impl Ledger {
    /// A ledger for a stream in which everything up to `settled_to` is settled or void, with a ceiling on the entries
    /// in flight. An entry is in flight until it is answered and every earlier one is settled or void.
    pub fn new(groups: Groups, entries_max: usize, settled_to: Sequence) -> Ledger {
        assert!(
            (1..=ENTRIES_MAX).contains(&entries_max),
            "a ledger holds 1 to {ENTRIES_MAX} entries, not {entries_max}"
        );
        Ledger {
            flight: Flight::new(settled_to),
            groups: GroupQueues::new(groups),
            voids: Voids::default(),
            front: Ticket(1),
            settled_to,
            entries_max,
            replies: Vec::new(),
            settled: Vec::new(),
            settling: Vec::new(),
            answering: Vec::new(),
            unknown: 0,
            #[cfg(test)]
            mutation: None,
        }
    }

    /// How many entries can be entered now. Ask before giving numbers: a number once given must be entered.
    pub fn room(&self) -> usize {
        let held = self.flight.len().max(self.replies.len());
        self.entries_max.saturating_sub(held)
    }

    /// The ceiling on entries in flight.
    pub fn entries_max(&self) -> usize {
        self.entries_max
    }

    /// Entries in flight.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// How often a write was reported with an unknown outcome.
    pub fn unknown_outcomes(&self) -> u64 {
        self.unknown
    }

    /// Everything at or below is settled or void, durably.
    pub fn settled_to(&self) -> Sequence {
        self.settled_to
    }

    /// What lies above [`settled_to`](Ledger::settled_to) and is neither settled nor void, ascending. A reader may pass
    /// everything up to the last sequence entered but these. Costs a look at every entry above `settled_to`.
    pub fn open_ranges(&self) -> impl Iterator<Item = SequenceRange> {
        let mut open = self.flight.iter_from(self.front).filter_map(|(_, held)| {
            let open = matches!(held.state, State::Open | State::Voiding) && held.records() > 0;
            open.then(|| SequenceRange { first: held.first, last: held.last() })
        });
        let mut ahead = open.next();
        std::iter::from_fn(move || {
            let mut range = ahead?;
            ahead = open.next();
            while let Some(next) = ahead.filter(|next| range.last.next() == next.first) {
                range.last = next.last;
                ahead = open.next();
            }
            Some(range)
        })
    }

    /// Moves the replies that may leave, in the order in which they leave, behind what is in `out`.
    pub fn take_replies(&mut self, out: &mut Vec<Reply>) {
        out.append(&mut self.replies);
    }

    /// Moves the ranges that became settled since the last call behind what is in `out`, in the order in which they did.
    /// Control records are among them.
    pub fn take_settled(&mut self, out: &mut Vec<SequenceRange>) {
        out.append(&mut self.settled);
    }

    /// Takes an entry in. The caller has taken every void request and judged every refusal it was asked to judge again, so
    /// that nothing is entered on what will be void.
    pub fn enter(&mut self, entry: &Entry) -> Result<Ticket, Busy> {
        if self.room() == 0 {
            return Err(Busy { entries: self.flight.len().max(self.replies.len()), entries_max: self.entries_max });
        }
        self.voids.assert_all_taken();
        let answer = matches!(entry.kind, Kind::Answer { .. });
        self.check(entry, answer);
        let next = self.flight.last().next();
        let mut held = Held::new(entry, if answer { next } else { entry.first });
        let on = self.rests_on(entry.conditioned_on);
        if on.is_some() {
            held.waits |= WAIT_CONDITION;
        }
        let in_group_order = held.in_group_order();
        let (ticket, previous) = self.flight.push(held, (!answer).then_some(entry.batch));
        if let Some(on) = on {
            self.flight.depend(ticket, on);
        }
        if let Some(previous) = previous {
            self.link_behind(previous, ticket, entry.epoch, answer);
        }
        if in_group_order && let Some(before) = self.groups.push(entry.group, ticket) {
            self.flight.follow_in_group(before, ticket);
        }
        if answer || entry.level == Level::Sequenced {
            if self.flight.get(ticket).waits == 0 {
                self.settle(ticket);
            } else {
                self.answer(ticket);
            }
            self.retire();
        }
        Ok(ticket)
    }

    fn check(&self, entry: &Entry, answer: bool) {
        if answer {
            return;
        }
        assert!(entry.first > self.flight.last(), "sequence {} is entered after {}", entry.first, self.flight.last());
        match entry.kind {
            Kind::Messages => {
                assert!(entry.messages > 0, "an entry of no messages");
                assert!(entry.publisher != NO_PUBLISHER, "messages of no publisher");
            }
            Kind::Control | Kind::Answer { .. } => {
                assert!(entry.level == Level::Durable, "a control record is durable");
            }
        }
    }

    /// The entry in flight that the verdict on a condition rests on, if it is open.
    pub(crate) fn rests_on(&self, sequence: Option<Sequence>) -> Option<Ticket> {
        let sequence = sequence.filter(|sequence| *sequence > self.settled_to)?;
        let on = self.flight.find(sequence);
        let on = on.unwrap_or_else(|| panic!("nothing was entered with sequence {sequence}"));
        match self.flight.get(on).state {
            State::Settled => None,
            State::Open => Some(on),
            State::Voiding | State::Void => {
                panic!("a condition was judged on sequence {sequence}, which is void")
            }
        }
    }

    fn link_behind(&mut self, previous: Ticket, ticket: Ticket, epoch: u32, answer: bool) {
        let before = self.flight.get(previous);
        let (waits, replied) = (!before.lets_next_go(), before.replied);
        let closed = matches!(before.state, State::Voiding | State::Void);
        assert!(answer || !closed || epoch > before.epoch, "epoch {epoch} of publisher {} is closed", before.publisher);
        let held = self.flight.get_mut(ticket);
        held.previous_replied = replied;
        if waits {
            held.waits |= WAIT_PREVIOUS;
        }
    }

    /// Tells what became of a batch. Durable and failed are told once; unknown as often as the backend likes: it writes the
    /// batch again under the same number until the outcome is known, and the ledger keeps waiting.
    pub fn completed(&mut self, batch: BatchNumber, outcome: Outcome) {
        if outcome == Outcome::Unknown {
            self.unknown += 1;
            return;
        }
        #[cfg(test)]
        if outcome == Outcome::Failed && self.mutated(Mutation::DropFailure) {
            return;
        }
        let Some(tickets) = self.flight.batch_known(batch) else {
            return;
        };
        for ticket in tickets.clone().map(Ticket) {
            let held = self.flight.get_mut(ticket);
            if held.kind == HeldKind::Answer {
                continue;
            }
            // One after the other, so that what becomes settled together does so in its order.
            held.waits &= !WAIT_BATCH;
            if outcome == Outcome::Durable && held.state == State::Open && held.waits == 0 {
                self.settle(ticket);
            }
        }
        if outcome == Outcome::Failed {
            self.void_batch(tickets);
        }
        self.retire();
    }

    /// Takes a reason to wait away; settles or answers when that was the last one.
    pub(crate) fn release(&mut self, ticket: Ticket, wait: u8) {
        let mut at = Some(ticket);
        while let Some(ticket) = at.take() {
            let held = self.flight.get_mut(ticket);
            held.waits &= !wait;
            if held.state == State::Void && wait == WAIT_PREVIOUS {
                at = self.flight.next_of_publisher(ticket);
            } else if held.state == State::Open && held.waits == 0 {
                self.settling.push(ticket);
            } else if held.state == State::Open && held.decided() {
                self.answer(ticket);
            }
        }
    }

    /// Settles an entry that waits for nothing, then whatever waited for it only.
    pub(crate) fn settle(&mut self, ticket: Ticket) {
        self.settling.push(ticket);
        self.settle_all();
    }

    pub(crate) fn settle_all(&mut self) {
        while let Some(ticket) = self.settling.pop() {
            let held = self.flight.get_mut(ticket);
            if held.state != State::Open {
                // Let go by two void entries at once.
                continue;
            }
            debug_assert_eq!(held.waits, 0);
            held.state = State::Settled;
            let kind = held.kind;
            if held.records() > 0 {
                let range = SequenceRange { first: held.first, last: held.last() };
                SequenceRange::push(&mut self.settled, range);
            }
            if let Some(next) = self.flight.next_of_publisher(ticket) {
                self.release(next, WAIT_PREVIOUS);
            }
            let mut dependent = self.flight.first_dependent(ticket);
            while let Some(on_this) = dependent {
                dependent = self.flight.other_dependent(on_this);
                self.release(on_this, WAIT_CONDITION);
            }
            if kind == HeldKind::VoidRecord {
                self.void_record_durable(ticket);
            } else {
                self.answer(ticket);
            }
        }
    }

    /// Lets the reply of an entry out if it is decided and its turn, then whatever waited for that only.
    pub(crate) fn answer(&mut self, ticket: Ticket) {
        self.answering.push(ticket);
        while let Some(ticket) = self.answering.pop() {
            let held = self.flight.get(ticket);
            if held.replied || !held.previous_replied || !held.decided() {
                continue;
            }
            let in_order = held.in_group_order();
            let group = held.group;
            let heads = !in_order || self.groups.head(group) == Some(ticket);
            #[cfg(test)]
            let heads = heads || self.mutated(Mutation::AnswerFromAnotherGroup);
            if !heads {
                continue;
            }
            if !held.silent {
                self.replies.push(reply(held));
            }
            self.flight.get_mut(ticket).replied = true;
            if in_order && self.groups.head(group) == Some(ticket) {
                let next = self.flight.next_of_group(ticket);
                self.groups.advance(group, next);
                self.answering.extend(next);
            }
            if let Some(next) = self.flight.next_of_publisher(ticket) {
                self.flight.get_mut(next).previous_replied = true;
                self.answering.push(next);
            }
        }
    }

    /// Moves `settled_to` on and lets go what is answered and passed.
    pub(crate) fn retire(&mut self) {
        let end = self.flight.end();
        while self.front < end {
            let held = self.flight.get(self.front);
            if !held.passed() {
                break;
            }
            if held.records() > 0 {
                self.settled_to = held.last();
            }
            self.front = Ticket(self.front.0 + 1);
        }
        while let Some((ticket, held)) = self.flight.front() {
            if ticket >= self.front || !held.replied {
                break;
            }
            self.flight.pop();
        }
    }

    /// The journal is lost or fenced: everything that is not answered is answered `Unknown`, in the order received. Nothing
    /// may be done with the ledger afterwards but taking what it let out.
    pub fn give_up(&mut self) {
        let Some((base, _)) = self.flight.front() else {
            return;
        };
        for ticket in (base.0..self.flight.end().0).map(Ticket) {
            let held = self.flight.get_mut(ticket);
            if held.replied || held.silent {
                continue;
            }
            held.replied = true;
            self.replies.push(Reply { verdict: Verdict::Unknown, ..reply(held) });
        }
    }

    #[cfg(test)]
    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

fn reply(held: &Held) -> Reply {
    let verdict = match (held.kind, held.state) {
        (HeldKind::Answer, State::Void) => Verdict::Reopen,
        (_, State::Void) => Verdict::Failed,
        (HeldKind::Answer, _) if held.code != 0 => Verdict::Refused { code: held.code, detail: held.detail },
        (HeldKind::Answer, _) => Verdict::Ok { first: Sequence(held.detail), level: held.level },
        _ => Verdict::Ok { first: held.first, level: held.level },
    };
    Reply {
        tag: held.tag,
        publisher: held.publisher,
        first_publisher_sequence: held.first_publisher_sequence,
        messages: held.messages,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::Group;
    use std::time::Instant;

    /// Batches of `entries` entries of 64 publishers, `writes` in flight, known in order.
    struct Stream {
        ledger: Ledger,
        entries: u64,
        next: u64,
        batch: u64,
        replies: Vec<Reply>,
        settled: Vec<SequenceRange>,
    }

    impl Stream {
        fn new(groups: Groups, entries: u64, writes: u64) -> Stream {
            let mut stream = Stream {
                ledger: Ledger::new(groups, 1 << 16, Sequence::ZERO),
                entries,
                next: 1,
                batch: 1,
                replies: Vec::new(),
                settled: Vec::new(),
            };
            (0..writes).for_each(|_| stream.enter());
            stream
        }

        fn enter(&mut self) {
            for _ in 0..self.entries {
                let publisher = (self.next % 64) as u32 + 1;
                let entry = Entry {
                    kind: Kind::Messages,
                    publisher,
                    epoch: 1,
                    first_publisher_sequence: self.next / 64,
                    messages: 1,
                    first: Sequence(self.next),
                    batch: BatchNumber(self.batch),
                    level: Level::Durable,
                    group: Group(0),
                    conditioned_on: None,
                    tag: self.next,
                };
                self.ledger.enter(&entry).expect("room");
                self.next += 1;
            }
            self.batch += 1;
        }

        fn step(&mut self, writes: u64) -> usize {
            self.enter();
            let oldest = BatchNumber(self.batch - 1 - writes);
            self.ledger.completed(oldest, Outcome::Durable);
            self.replies.clear();
            self.settled.clear();
            self.ledger.take_replies(&mut self.replies);
            self.ledger.take_settled(&mut self.settled);
            self.replies.len()
        }
    }

    #[test]
    fn in_steady_state_nothing_grows() {
        let mut stream = Stream::new(Groups::Shared(1), 100, 4);
        (0..10).for_each(|_| assert_eq!(stream.step(4), 100));
        let before = stream.ledger.flight.capacities();
        let replies = stream.replies.capacity();
        (0..1000).for_each(|_| assert_eq!(stream.step(4), 100));
        assert_eq!(stream.ledger.flight.capacities(), before);
        assert_eq!(stream.replies.capacity(), replies);
        assert_eq!(stream.ledger.in_flight(), 400);
    }

    /// What an entry costs from entering to its reply. Small with the tests; `cargo test --release -p arioso-journal -- entry_costs
    /// --ignored --nocapture` measures.
    fn entry_costs(steps: u64) -> f64 {
        let mut stream = Stream::new(Groups::Shared(1), 256, 4);
        let began = Instant::now();
        let replies: usize = (0..steps).map(|_| stream.step(4)).sum();
        let ns = began.elapsed().as_nanos() as f64 / replies as f64;
        assert_eq!(replies as u64, steps * 256);
        println!("256 entries a batch, 4 batches in flight, {replies} replies: {ns:.1} ns each");
        ns
    }

    #[test]
    fn the_measurement_sees_every_entry_answered() {
        entry_costs(20);
    }

    #[test]
    #[ignore = "a measurement"]
    fn entry_costs_in_full() {
        entry_costs(20_000);
    }
}
