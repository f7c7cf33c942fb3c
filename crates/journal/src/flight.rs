//! The entries in flight, in the order they were received.
//!
//! ```text
//! ticket   7      8      9      10     11          a ring: only the front leaves, so links point by distance
//!          a ───────────▶a ──────────▶ a           next of the same publisher
//!          ├───────────────────▶ (if 7)            what is conditioned on it
//! batch    [5          ] [6                  ]      tickets of a batch lie together
//! ```

use std::collections::VecDeque;

use arioso_stream::Sequence;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::entry::{BatchNumber, Entry, Kind, Level, NO_PUBLISHER, Ticket};
use crate::groups::Group;

/// Waits for its batch to be known.
pub(crate) const WAIT_BATCH: u8 = 1;
/// Waits for its publisher's previous entry to be settled or void.
pub(crate) const WAIT_PREVIOUS: u8 = 2;
/// Waits for what it was conditioned on.
pub(crate) const WAIT_CONDITION: u8 = 4;
/// An answer that waits to be judged again.
pub(crate) const WAIT_JUDGEMENT: u8 = 8;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Neither of the others.
    Open,
    /// May be answered and read. For an answer: nothing it rests on is open.
    Settled,
    /// Will be void: the record that says so is not durable yet.
    Voiding,
    /// Never was.
    Void,
}

/// What kind of entry is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldKind {
    Messages,
    Control,
    Answer,
    /// A void record: no reply; when it is settled its members become void.
    VoidRecord,
}

/// An entry in flight.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) tag: u64,
    pub(crate) first_publisher_sequence: u64,
    /// For an answer: the number after the last one entered, which keeps the ring searchable.
    pub(crate) first: Sequence,
    /// For an answer only.
    pub(crate) detail: u64,
    pub(crate) publisher: u32,
    pub(crate) epoch: u32,
    pub(crate) messages: u32,
    pub(crate) group: Group,
    /// Distances to later tickets; 0 is none.
    pub(crate) next_of_publisher: u32,
    pub(crate) next_of_group: u32,
    pub(crate) first_dependent: u32,
    /// To another dependent of the same entry, before or after this one; 0 is none.
    pub(crate) other_dependent: i32,
    pub(crate) code: u16,
    pub(crate) kind: HeldKind,
    pub(crate) level: Level,
    pub(crate) state: State,
    pub(crate) waits: u8,
    pub(crate) replied: bool,
    pub(crate) previous_replied: bool,
    /// Ends without a reply: it was entered anew.
    pub(crate) silent: bool,
    /// Looked at by the marking under way.
    pub(crate) visited: bool,
}

// Two cache lines at most: a stalled write holds everything received after it in the ring.
const _: () = assert!(size_of::<Held>() <= 96);

impl Held {
    pub(crate) fn new(entry: &Entry, first: Sequence) -> Held {
        let (kind, code, detail) = match entry.kind {
            Kind::Messages => (HeldKind::Messages, 0, 0),
            Kind::Control => (HeldKind::Control, 0, 0),
            Kind::Answer { code, detail } => (HeldKind::Answer, code, detail),
        };
        Held {
            tag: entry.tag,
            first_publisher_sequence: entry.first_publisher_sequence,
            first,
            detail,
            publisher: entry.publisher,
            epoch: entry.epoch,
            messages: entry.messages,
            group: entry.group,
            next_of_publisher: 0,
            next_of_group: 0,
            first_dependent: 0,
            other_dependent: 0,
            code,
            kind,
            level: entry.level,
            state: State::Open,
            waits: if kind == HeldKind::Answer { 0 } else { WAIT_BATCH },
            replied: false,
            previous_replied: true,
            silent: false,
            visited: false,
        }
    }

    /// Sequences it took.
    pub(crate) fn records(&self) -> u64 {
        match self.kind {
            HeldKind::Messages => u64::from(self.messages),
            HeldKind::Control | HeldKind::VoidRecord => 1,
            HeldKind::Answer => 0,
        }
    }

    /// Its last sequence; for an answer the last one entered before it.
    pub(crate) fn last(&self) -> Sequence {
        Sequence(self.first.0 + self.records() - 1)
    }

    /// Whether its reply keeps the order of its group. `Sequenced` replies keep their publisher's order only.
    pub(crate) fn in_group_order(&self) -> bool {
        self.group != Group::OWN && self.level == Level::Durable && self.kind != HeldKind::VoidRecord
    }

    /// Whether its reply is decided; its turn is another question.
    pub(crate) fn decided(&self) -> bool {
        match (self.state, self.kind) {
            (State::Void, _) => true,
            (State::Voiding, _) => false,
            (_, HeldKind::Answer) => self.waits & (WAIT_CONDITION | WAIT_JUDGEMENT) == 0,
            (State::Settled, _) => true,
            (State::Open, HeldKind::Messages) => self.level == Level::Sequenced && self.waits & WAIT_CONDITION == 0,
            (State::Open, HeldKind::Control | HeldKind::VoidRecord) => false,
        }
    }

    /// Whether the next entry of the publisher need not wait: this one is settled or void, and so are all before it.
    pub(crate) fn lets_next_go(&self) -> bool {
        matches!(self.state, State::Settled | State::Void) && self.waits & WAIT_PREVIOUS == 0
    }

    /// Whether `settled_to` may pass it; an answer has no sequence. A void entry holds it while its own batch is not known, so that no batch
    /// that may still be missing lies at or below `settled_to`.
    pub(crate) fn passed(&self) -> bool {
        match self.state {
            _ if self.kind == HeldKind::Answer => true,
            State::Settled => true,
            State::Void => self.waits & WAIT_BATCH == 0,
            State::Open | State::Voiding => false,
        }
    }
}

/// The tickets of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchTickets {
    number: BatchNumber,
    first: Ticket,
    end: Ticket,
    done: bool,
}

/// The ring, the newest entry of each publisher in it, the batches that are not known.
#[derive(Debug)]
pub(crate) struct Flight {
    ring: VecDeque<Held>,
    base: Ticket,
    publishers: HashMap<u32, Ticket, FixedState>,
    batches: VecDeque<BatchTickets>,
    newest_batch: Option<BatchNumber>,
    last: Sequence,
}

impl Flight {
    pub(crate) fn new(last: Sequence) -> Flight {
        Flight {
            ring: VecDeque::new(),
            base: Ticket(1),
            publishers: HashMap::default(),
            batches: VecDeque::new(),
            newest_batch: None,
            last,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// The ticket the next entry gets.
    pub(crate) fn end(&self) -> Ticket {
        Ticket(self.base.0 + self.ring.len() as u64)
    }

    /// The last sequence entered.
    pub(crate) fn last(&self) -> Sequence {
        self.last
    }

    pub(crate) fn front(&self) -> Option<(Ticket, &Held)> {
        self.ring.front().map(|held| (self.base, held))
    }

    pub(crate) fn get(&self, ticket: Ticket) -> &Held {
        &self.ring[(ticket.0 - self.base.0) as usize]
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> &mut Held {
        &mut self.ring[(ticket.0 - self.base.0) as usize]
    }

    pub(crate) fn iter_from(&self, ticket: Ticket) -> impl Iterator<Item = (Ticket, &Held)> {
        let from = (ticket.0 - self.base.0) as usize;
        self.ring.range(from..).zip(ticket.0..).map(|(held, ticket)| (Ticket(ticket), held))
    }

    /// The next entry of the same publisher.
    pub(crate) fn next_of_publisher(&self, ticket: Ticket) -> Option<Ticket> {
        forward(ticket, self.get(ticket).next_of_publisher)
    }

    /// The next entry in the order of the same group.
    pub(crate) fn next_of_group(&self, ticket: Ticket) -> Option<Ticket> {
        forward(ticket, self.get(ticket).next_of_group)
    }

    /// The newest entry conditioned on this one.
    pub(crate) fn first_dependent(&self, ticket: Ticket) -> Option<Ticket> {
        forward(ticket, self.get(ticket).first_dependent)
    }

    /// The next one among those conditioned on the same entry.
    pub(crate) fn other_dependent(&self, ticket: Ticket) -> Option<Ticket> {
        match self.get(ticket).other_dependent {
            0 => None,
            distance => Some(Ticket(ticket.0.wrapping_add_signed(distance.into()))),
        }
    }

    /// Takes an entry in and links it behind its publisher's newest, which is given back.
    pub(crate) fn push(&mut self, held: Held, batch: Option<BatchNumber>) -> (Ticket, Option<Ticket>) {
        let ticket = self.end();
        if let Some(number) = batch {
            self.last = held.last();
            self.add_to_batch(number, ticket);
        }
        let publisher = held.publisher;
        self.ring.push_back(held);
        let previous = match publisher {
            NO_PUBLISHER => None,
            publisher => self.publishers.insert(publisher, ticket),
        };
        if let Some(previous) = previous {
            self.get_mut(previous).next_of_publisher = distance(previous, ticket);
        }
        (ticket, previous)
    }

    fn add_to_batch(&mut self, number: BatchNumber, ticket: Ticket) {
        let end = Ticket(ticket.0 + 1);
        if self.newest_batch == Some(number) {
            let newest = self.batches.back_mut().filter(|newest| !newest.done);
            let newest = newest.expect("a batch that is known takes nothing more");
            newest.end = end;
            return;
        }
        assert!(
            self.newest_batch < Some(number),
            "batch {number} comes after {:?}: batches are entered in their order",
            self.newest_batch
        );
        self.newest_batch = Some(number);
        self.batches.push_back(BatchTickets { number, first: ticket, end, done: false });
    }

    /// Puts an entry at the front of the list of those conditioned on another.
    pub(crate) fn depend(&mut self, ticket: Ticket, on: Ticket) {
        let other = self.first_dependent(on);
        self.get_mut(on).first_dependent = distance(on, ticket);
        self.get_mut(ticket).other_dependent = other.map_or(0, |other| {
            let distance = other.0.wrapping_sub(ticket.0).cast_signed();
            i32::try_from(distance).expect("the ring is bounded far below i32")
        });
    }

    /// Links an entry behind another one of its group.
    pub(crate) fn follow_in_group(&mut self, before: Ticket, ticket: Ticket) {
        self.get_mut(before).next_of_group = distance(before, ticket);
    }

    /// The entry a sequence belongs to.
    pub(crate) fn find(&self, sequence: Sequence) -> Option<Ticket> {
        let after = self.ring.partition_point(|held| held.first <= sequence);
        let at = after.checked_sub(1)?;
        let held = &self.ring[at];
        (held.records() > 0 && sequence <= held.last()).then(|| Ticket(self.base.0 + at as u64))
    }

    /// The tickets of a batch that becomes known; `None` for a batch nothing was entered for.
    pub(crate) fn batch_known(&mut self, number: BatchNumber) -> Option<std::ops::Range<u64>> {
        let at = self.batches.partition_point(|batch| batch.number < number);
        let batch = self.batches.get_mut(at).filter(|b| b.number == number)?;
        assert!(!batch.done, "batch {number} was known before");
        batch.done = true;
        let tickets = batch.first.0..batch.end.0;
        while self.batches.front().is_some_and(|batch| batch.done) {
            self.batches.pop_front();
        }
        Some(tickets)
    }

    /// Lets the front go.
    pub(crate) fn pop(&mut self) {
        if let Some(held) = self.ring.pop_front() {
            if held.next_of_publisher == 0 && held.publisher != NO_PUBLISHER {
                self.publishers.remove(&held.publisher);
            }
            self.base = Ticket(self.base.0 + 1);
        }
    }
}

#[cfg(test)]
impl Flight {
    /// What is allocated: entries, batches.
    pub(crate) fn capacities(&self) -> [usize; 2] {
        [self.ring.capacity(), self.batches.capacity()]
    }
}

fn forward(ticket: Ticket, distance: u32) -> Option<Ticket> {
    match distance {
        0 => None,
        distance => Some(Ticket(ticket.0 + u64::from(distance))),
    }
}

fn distance(from: Ticket, to: Ticket) -> u32 {
    u32::try_from(to.0 - from.0).expect("the ring is bounded far below u32")
}
