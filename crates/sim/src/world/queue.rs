//! What is to happen when: earliest first, and of the same moment in the order in which it was put there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arioso_journal::{BatchNumber, Outcome};
use arioso_server::history::Supplied;
use arioso_server::session::{Read, Ticket};

use super::process::Finished;
use crate::plan::Fault;

/// Something that happens.
#[derive(Debug)]
pub enum Event {
    /// A client is looked after: bytes, time, events.
    Wake(usize),
    /// A client's application does something.
    Act(usize),
    /// A client's application takes what was delivered.
    Take(usize),
    /// A client's call to the server is answered, or not.
    Connect(usize, u32),
    /// A connection's session is looked after.
    Turn(u32),
    /// A round of the log begins; whether it may be a mark.
    Log(u32, bool),
    /// A round of the log ends.
    Written(u32),
    /// A job runs.
    Job(u32, u32),
    /// Its result is given back.
    Done(u32, Finished),
    /// A disk that was full is tried again.
    Retry(u32),
    /// A subscription's read is done.
    Read(u32, u32, Read),
    /// And given to the session.
    Supply(u32, u32, Ticket, Result<Supplied, String>),
    /// A write in memory becomes known.
    Known(u32, BatchNumber, Outcome),
    /// Something goes wrong.
    Fault(Fault),
    /// The process ends.
    Die(u32, bool),
    /// A server that was taken over finds out.
    Fenced(u32),
    /// And ends.
    Gone(u32),
    /// The server starts.
    Boot(bool),
    /// A round of a backup.
    BackUp,
    /// The disk has room again.
    Room,
    /// Is everything quiet?
    Look,
}

struct Due {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The schedule.
#[derive(Default)]
pub struct Queue {
    due: BinaryHeap<Reverse<Due>>,
    order: u64,
}

impl Queue {
    /// Puts something on the schedule.
    pub fn push(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.due.push(Reverse(Due { at, order: self.order, event }));
    }

    /// What comes next.
    pub fn pop(&mut self) -> Option<(u64, Event)> {
        self.due.pop().map(|Reverse(due)| (due.at, due.event))
    }
}
