//! What becomes void when a write is known to have failed.
//!
//! ```text
//! failed batch ─▶ its entries ─▶ every later entry of the same publisher ─▶ ...      voiding: marked at once
//!                           └──▶ every message conditioned on one ─▶ ...             void: its record is durable
//!                                every answer that rested on one                     judged again, once it is void
//! ```
//!
//! The set is the smallest: an entry lies whole in one batch and has one publisher, so no part of it can stand alone.

use std::collections::VecDeque;
use std::ops::Range;

use arioso_stream::Sequence;

use crate::entry::{BatchNumber, Level, NO_PUBLISHER, SequenceRange, Ticket};
use crate::flight::{Held, HeldKind, State, WAIT_BATCH, WAIT_CONDITION, WAIT_JUDGEMENT, WAIT_PREVIOUS};
use crate::groups::Group;
use crate::ledger::{Busy, Ledger};

#[cfg(test)]
use crate::mutation::Mutation;

/// What a void record is to hold, and whose epochs close.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoidSet {
    /// Ascending, without touching each other. Empty only when nothing but answers was taken back.
    pub ranges: Vec<SequenceRange>,
    /// Every publisher touched with the newest of its epochs that is closed, by id.
    pub publishers: Vec<(u32, u32)>,
}

/// An answer to judge again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejudge {
    /// Its place.
    pub ticket: Ticket,
    /// The entry's.
    pub tag: u64,
    /// The entry's.
    pub publisher: u32,
    /// The entry's.
    pub first_publisher_sequence: u64,
    /// No later entry of the publisher is in flight, so that it may be entered anew.
    pub last: bool,
}

/// What judging again came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The caller enters it anew with its next call, whatever the verdict is. Only for the `last` of its publisher: a message
    /// numbered now would stand behind the later ones.
    Anew,
    /// Refused again: it is answered in its old place, when what this verdict rests on is settled. If that was received after
    /// it and is open, the answer is withdrawn instead, since it can't wait for what may wait for it.
    Answer {
        /// The number from the table of errors; 0 is ok.
        code: u16,
        /// By code.
        detail: u64,
        /// As in [`Entry`](crate::Entry).
        conditioned_on: Option<Sequence>,
    },
    /// It would be accepted but is not the last: it is answered `Reopen`, and what the publisher sent after it is taken
    /// back as if it had failed, so that the publisher sends all of it again in its order.
    Withdrawn,
}

/// The books of what is being made void.
#[derive(Debug, Default)]
pub(crate) struct Voids {
    /// Marked, not taken by the caller.
    marked: Vec<Ticket>,
    /// Taken, no record entered.
    taken: Vec<Ticket>,
    /// Records in flight: the record's ticket and what it makes void.
    records: Vec<(Ticket, Vec<Ticket>)>,
    pub(crate) rejudges: VecDeque<Rejudge>,
    /// Answers told to the caller and not judged.
    unjudged: usize,
    /// Entries to be marked, and those looked at; empty between calls.
    marking: Vec<Ticket>,
    visited: Vec<Ticket>,
}

impl Voids {
    pub(crate) fn assert_all_taken(&self) {
        assert!(self.marked.is_empty(), "a void request waits: it is taken before anything is entered");
        assert!(
            self.unjudged == 0,
            "{} answers wait to be judged again: they are judged before anything is entered",
            self.unjudged
        );
    }
}

impl Ledger {
    /// The batch of these tickets is known not to be written.
    pub(crate) fn void_batch(&mut self, tickets: Range<u64>) {
        for ticket in tickets.map(Ticket) {
            if self.flight.get(ticket).kind != HeldKind::Answer {
                self.voids.marking.push(ticket);
            }
        }
        self.mark_all();
    }

    /// Marks what waits to be marked, and everything that falls with it. Each entry is looked at once.
    fn mark_all(&mut self) {
        let mut visited = std::mem::take(&mut self.voids.visited);
        while let Some(ticket) = self.voids.marking.pop() {
            let held = self.flight.get_mut(ticket);
            if matches!(held.state, State::Voiding | State::Void) || held.visited {
                continue;
            }
            held.visited = true;
            visited.push(ticket);
            self.mark(ticket);
            self.mark_followers(ticket);
        }
        for ticket in visited.drain(..) {
            self.flight.get_mut(ticket).visited = false;
        }
        self.voids.visited = visited;
    }

    fn mark(&mut self, ticket: Ticket) {
        let held = self.flight.get_mut(ticket);
        assert!(held.state == State::Open, "sequence {} is settled and can't become void", held.first);
        // A refusal that left behind a `sequenced` reply stands; what follows it does not.
        if held.kind != HeldKind::Answer || !held.replied {
            held.state = State::Voiding;
            self.voids.marked.push(ticket);
        }
        if held.waits & WAIT_JUDGEMENT != 0 {
            held.waits &= !WAIT_JUDGEMENT;
            self.voids.unjudged -= 1;
            self.voids.rejudges.retain(|ask| ask.ticket != ticket);
        }
        if self.flight.get(ticket).kind == HeldKind::VoidRecord {
            self.void_record_failed(ticket);
        }
    }

    fn mark_followers(&mut self, ticket: Ticket) {
        let next = self.next_to_fall(ticket);
        #[cfg(test)]
        let next = next.filter(|_| !self.mutated(Mutation::SparePublisher));
        self.voids.marking.extend(next);
        let mut dependent = self.flight.first_dependent(ticket);
        #[cfg(test)]
        if self.mutated(Mutation::SpareConditional) {
            dependent = None;
        }
        while let Some(on_this) = dependent {
            dependent = self.flight.other_dependent(on_this);
            if self.flight.get(on_this).kind != HeldKind::Answer {
                self.voids.marking.push(on_this);
            }
        }
    }

    /// The next entry of the publisher that was not marked before. Those that were are passed by: an entry of a newer epoch
    /// behind them falls too.
    fn next_to_fall(&self, ticket: Ticket) -> Option<Ticket> {
        let mut next = self.flight.next_of_publisher(ticket)?;
        loop {
            let held = self.flight.get(next);
            if held.visited || !matches!(held.state, State::Voiding | State::Void) {
                return Some(next);
            }
            next = self.flight.next_of_publisher(next)?;
        }
    }

    /// What is to be made void: the caller closes the epochs of its publishers at once and enters a void record with
    /// [`enter_void`](Ledger::enter_void) in the next batch. A set that was taken and not yet entered is told again with
    /// what came to it since.
    pub fn take_void_request(&mut self) -> Option<VoidSet> {
        if self.voids.marked.is_empty() {
            return None;
        }
        self.voids.taken.append(&mut self.voids.marked);
        self.voids.taken.sort_unstable();
        let mut set = VoidSet::default();
        for &ticket in &self.voids.taken {
            let held = self.flight.get(ticket);
            if held.records() > 0 {
                let (first, last) = (held.first, held.last());
                SequenceRange::push(&mut set.ranges, SequenceRange { first, last });
            }
            if held.publisher != NO_PUBLISHER {
                set.publishers.push((held.publisher, held.epoch));
            }
        }
        set.publishers.sort_unstable();
        // The newest epoch of each stands last: keep that one.
        set.publishers.reverse();
        set.publishers.dedup_by_key(|(publisher, _)| *publisher);
        set.publishers.reverse();
        Some(set)
    }

    /// Enters the void record that holds the set taken last. It is taken in above the ceiling too, since room comes from
    /// it; only a journal that fails void records again and again reaches twice the ceiling.
    pub fn enter_void(&mut self, first: Sequence, batch: BatchNumber) -> Result<Ticket, Busy> {
        assert!(
            !self.voids.taken.is_empty() && self.voids.marked.is_empty(),
            "a void record holds the set that was taken last"
        );
        let entries_max = 2 * self.entries_max();
        if self.flight.len() >= entries_max {
            return Err(Busy { entries: self.flight.len(), entries_max });
        }
        assert!(first > self.flight.last(), "sequence {first} is entered after {}", self.flight.last());
        let record = Held {
            tag: 0,
            first_publisher_sequence: 0,
            first,
            detail: 0,
            publisher: NO_PUBLISHER,
            epoch: 0,
            messages: 0,
            group: Group::OWN,
            next_of_publisher: 0,
            next_of_group: 0,
            first_dependent: 0,
            other_dependent: 0,
            code: 0,
            kind: HeldKind::VoidRecord,
            level: Level::Durable,
            state: State::Open,
            waits: WAIT_BATCH,
            replied: true,
            previous_replied: true,
            silent: true,
            visited: false,
        };
        let (ticket, _) = self.flight.push(record, Some(batch));
        let members = std::mem::take(&mut self.voids.taken);
        self.voids.records.push((ticket, members));
        #[cfg(test)]
        if self.mutated(Mutation::FailBeforeRecord) {
            self.void_record_durable(ticket);
        }
        Ok(ticket)
    }

    fn take_record(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let at = self.voids.records.iter().position(|(t, _)| *t == ticket);
        at.map(|at| self.voids.records.swap_remove(at).1).unwrap_or_default()
    }

    /// The void record itself was not written: what it held is asked for again.
    fn void_record_failed(&mut self, ticket: Ticket) {
        let mut members = self.take_record(ticket);
        self.voids.marked.append(&mut members);
    }

    /// The record is durable: its members are void from here on, and may be answered.
    pub(crate) fn void_record_durable(&mut self, ticket: Ticket) {
        let members = self.take_record(ticket);
        for &member in &members {
            self.flight.get_mut(member).state = State::Void;
        }
        for &member in &members {
            self.answer(member);
            if let Some(next) = self.flight.next_of_publisher(member)
                && self.flight.get(member).lets_next_go()
            {
                self.release(next, WAIT_PREVIOUS);
            }
            self.ask_again(member);
        }
    }

    /// Asks for a new judgement on every answer that rests on a void entry.
    fn ask_again(&mut self, ticket: Ticket) {
        let mut dependent = self.flight.first_dependent(ticket);
        while let Some(on_this) = dependent {
            dependent = self.flight.other_dependent(on_this);
            let last = self.flight.next_of_publisher(on_this).is_none();
            let held = self.flight.get_mut(on_this);
            if held.kind != HeldKind::Answer || held.state != State::Open {
                continue;
            }
            held.waits = held.waits & !WAIT_CONDITION | WAIT_JUDGEMENT;
            self.voids.unjudged += 1;
            self.voids.rejudges.push_back(Rejudge {
                ticket: on_this,
                tag: held.tag,
                publisher: held.publisher,
                first_publisher_sequence: held.first_publisher_sequence,
                last,
            });
        }
    }

    /// The next answer that is to be judged again, since what it was judged on is void. Each is told once and keeps its place in
    /// the order of replies until [`judged`](Ledger::judged), which comes before anything else is done; a judgement may take
    /// back those that come after it.
    pub fn next_rejudge(&mut self) -> Option<Rejudge> {
        self.voids.rejudges.pop_front()
    }

    /// Tells what judging an answer again came to.
    pub fn judged(&mut self, ticket: Ticket, judgement: Judgement) {
        assert!(self.flight.get(ticket).waits & WAIT_JUDGEMENT != 0, "nobody asked for a judgement");
        match judgement {
            Judgement::Anew => {
                let last = self.flight.next_of_publisher(ticket).is_none();
                assert!(last, "later entries of the publisher are in flight");
                self.voids.unjudged -= 1;
                self.flight.get_mut(ticket).silent = true;
                self.release(ticket, WAIT_JUDGEMENT);
            }
            Judgement::Answer { code, detail, conditioned_on } => match self.rests_on(conditioned_on) {
                Some(on) if on > ticket => self.withdraw(ticket),
                on => {
                    self.voids.unjudged -= 1;
                    let held = self.flight.get_mut(ticket);
                    (held.code, held.detail) = (code, detail);
                    if let Some(on) = on {
                        held.waits |= WAIT_CONDITION;
                        self.flight.depend(ticket, on);
                    }
                    self.release(ticket, WAIT_JUDGEMENT);
                }
            },
            Judgement::Withdrawn => self.withdraw(ticket),
        }
        self.settle_all();
        self.retire();
    }

    fn withdraw(&mut self, ticket: Ticket) {
        self.voids.marking.push(ticket);
        self.mark_all();
    }
}
