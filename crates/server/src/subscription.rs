//! One subscription of a session: where it is, what it may still send, what it has told.
//!
//! ```text
//!   reader: stores → segments → tip        slices of records, in order
//!      │ cut at the end asked for, at the time asked for
//!      ▼
//!   deliver frames, as far as credit goes; safe marks when nothing was selected for a while
//! ```

use std::sync::Arc;

use arioso_stream::Sequence;
use arioso_stream::matcher::SubscriptionId;
use arioso_stream::record::Records;
use arioso_stream::selection::Selection;
use arioso_stream::tip::Slice;
use arioso_wire::{Code, Frame, Safe, Trimmed};
use bytes::Bytes;

use crate::history::{ReadRequest, Supplied};
use crate::hub::Bell;
use crate::metrics::add;
use crate::node::Node;
use crate::output::Output;
use crate::reader::{Reader, Step};
use crate::selecting::Selecting;

/// What one turn of a subscription reads at most, so that others get theirs.
pub const SLICE_BYTES: usize = 256 << 10;
/// A mark is sent at least this often (ns) when anything was passed since the last.
pub const MARK_NS: i64 = 1_000_000_000;
/// And after this much was read without one.
pub const MARK_BYTES: u64 = 64 << 20;

/// Bytes of a deliver frame's body before the records.
const DELIVER_BYTES: i64 = 16;

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// What a turn of a subscription came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more; it wants another turn.
    Again,
    /// It has reached the end and waits to be woken.
    Waits,
    /// It waits for credit.
    NoCredit,
    /// It waits for bytes from disk.
    Reads(ReadRequest),
    /// It waits for the client to say where to go on.
    Trimmed,
    /// It is over.
    Ended(Code),
}

/// One subscription.
pub struct Subscription {
    /// The client's channel.
    pub channel: u16,
    /// Its number in the hub.
    pub id: SubscriptionId,
    bell: Arc<Bell>,
    selection: Selection,
    reader: Reader,
    /// Bytes that may be sent; below zero by what one long message went over.
    credit: i64,
    /// It ends behind this.
    until: Option<Sequence>,
    /// Records stamped before are left out at the beginning.
    not_before: Option<i64>,
    /// Everything selected up to here was delivered.
    through: Sequence,
    /// The newest mark sent.
    told: Sequence,
    told_at: i64,
    passed_bytes: u64,
    slices: Vec<Slice>,
    /// Read and not sent for want of credit; everything selected up to `held_through` is sent with the last of it.
    held: Vec<Slice>,
    held_through: Sequence,
    parts: Vec<Bytes>,
    /// It waits for the disk or for the client: no turn until then.
    pub busy: bool,
    /// It is in the session's row of those that want a turn.
    pub queued: bool,
}

/// Where and how a subscription begins.
pub struct Begins {
    /// First sequence that can be delivered.
    pub first: Sequence,
    /// Records stamped before are left out.
    pub not_before: Option<i64>,
    /// It ends behind this.
    pub until: Option<Sequence>,
    /// Bytes that may be sent.
    pub credit: u64,
    /// The filters.
    pub filters: Arc<[Box<str>]>,
}

impl Subscription {
    /// A subscription that is known to the hub.
    pub fn new(
        channel: u16,
        (id, bell): (SubscriptionId, Arc<Bell>),
        selection: Selection,
        begins: Begins,
        now: i64,
        node: &Node,
    ) -> Subscription {
        let before = Sequence(begins.first.0.saturating_sub(1));
        Subscription {
            channel,
            id,
            bell,
            selection,
            reader: Reader::new(node, begins.first, begins.filters),
            credit: signed(begins.credit),
            until: begins.until,
            not_before: begins.not_before,
            through: before,
            told: before,
            told_at: now,
            passed_bytes: 0,
            slices: Vec::new(),
            held: Vec::new(),
            held_through: before,
            parts: Vec::new(),
            busy: false,
            queued: false,
        }
    }

    /// More may be sent.
    pub fn add_credit(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_add(signed(bytes));
    }

    /// After `trimmed`: goes on here.
    pub fn go_on(&mut self, node: &Node, next: Sequence) {
        self.reader.seek(node, next);
        self.held.clear();
        self.through = self.through.max(Sequence(next.0.saturating_sub(1)));
    }

    /// Everything selected up to here was delivered.
    pub fn through(&self) -> Sequence {
        self.through
    }

    /// Bytes that the turn [`Turn::Reads`] asked for.
    pub fn supply(&mut self, read: Result<Supplied, String>) {
        self.reader.supply(read);
    }

    /// Whether something was passed that no mark told of.
    pub fn owes_mark(&self) -> bool {
        self.through > self.told
    }

    /// When the next mark is due if one is owed.
    pub fn mark_due(&self) -> i64 {
        self.told_at + MARK_NS
    }

    /// Sends a mark if one is owed.
    pub fn mark(&mut self, now: i64, out: &mut Output) {
        if self.owes_mark() {
            out.push(self.channel, &Frame::Safe(Safe { through: self.through }));
            self.note_mark(now);
        }
    }

    /// No mark is owed: look again in a while.
    pub fn put_off_mark(&mut self, now: i64) {
        self.told_at = now;
    }

    fn note_mark(&mut self, now: i64) {
        self.told = self.through;
        self.told_at = now;
        self.passed_bytes = 0;
    }

    /// Reads one slice on and puts it out. `announce` tells the client the names of topics before their first use.
    pub fn turn(
        &mut self,
        now: i64,
        node: &Node,
        out: &mut Output,
        announce: &mut dyn FnMut(&mut Output, &[Slice]),
    ) -> Turn {
        if self.is_over() {
            return Turn::Ended(Code::Ok);
        }
        if self.credit <= 0 {
            return Turn::NoCredit;
        }
        self.bell.disarm();
        let turn = self.read(now, node, out, announce);
        if turn != Turn::Waits {
            return turn;
        }
        // What was settled between the look at the end and arming is told to nobody: look once more.
        self.bell.arm();
        let again = self.read(now, node, out, announce);
        if again != Turn::Waits {
            self.bell.disarm();
        }
        again
    }

    fn read(
        &mut self,
        now: i64,
        node: &Node,
        out: &mut Output,
        announce: &mut dyn FnMut(&mut Output, &[Slice]),
    ) -> Turn {
        if !self.held.is_empty() {
            self.slices.append(&mut self.held);
            self.send(self.held_through, now, node, out, announce);
            return if self.is_over() { Turn::Ended(Code::Ok) } else { Turn::Again };
        }
        let budget = SLICE_BYTES.min(self.credit_records()).max(1);
        self.slices.clear();
        let mut selecting = Selecting::new(&mut self.selection, &node.names);
        let step = self.reader.step(node, &mut selecting, budget, &mut self.slices);
        let (through, passed_bytes, at_end) = match step {
            Step::Read { through, passed_bytes, at_end } => (through, passed_bytes, at_end),
            Step::Need(request) => return Turn::Reads(request),
            Step::Trimmed { wanted, first } => {
                out.push(self.channel, &Frame::Trimmed(Trimmed { wanted, first }));
                return Turn::Trimmed;
            }
            Step::Damaged { text } => {
                tracing::error!(channel = self.channel, "{text}");
                return Turn::Ended(Code::Damaged);
            }
        };
        self.cut();
        self.passed_bytes += passed_bytes;
        let through = self.until.map_or(through, |until| through.min(until));
        if !self.slices.is_empty() {
            self.send(through, now, node, out, announce);
        } else {
            self.through = self.through.max(through);
            if self.passed_bytes >= MARK_BYTES || now >= self.mark_due() {
                self.mark(now, out);
            }
        }
        if self.is_over() {
            Turn::Ended(Code::Ok)
        } else if at_end && self.held.is_empty() {
            Turn::Waits
        } else {
            Turn::Again
        }
    }

    fn is_over(&self) -> bool {
        self.held.is_empty() && self.until.is_some_and(|until| self.through >= until)
    }

    /// Bytes of records that may be sent in one frame.
    fn credit_records(&self) -> usize {
        usize::try_from((self.credit - DELIVER_BYTES).max(0)).unwrap_or(usize::MAX)
    }

    /// Sends the slices as far as credit goes, and holds the rest.
    fn send(
        &mut self,
        through: Sequence,
        now: i64,
        node: &Node,
        out: &mut Output,
        announce: &mut dyn FnMut(&mut Output, &[Slice]),
    ) {
        let budget = self.credit_records();
        self.held = cut_credit(&mut self.slices, budget);
        self.held_through = through;
        let sent = self.slices.last().map_or(self.through, |slice| slice.last);
        self.through = self.through.max(if self.held.is_empty() { through } else { sent });
        self.deliver(now, node, out, announce);
    }

    fn deliver(&mut self, now: i64, node: &Node, out: &mut Output, announce: &mut dyn FnMut(&mut Output, &[Slice])) {
        announce(out, &self.slices);
        let count: u32 = self.slices.iter().map(|slice| slice.records).sum();
        self.parts.extend(self.slices.drain(..).map(|slice| slice.bytes));
        let bytes: usize = self.parts.iter().map(Bytes::len).sum();
        self.credit -= signed(bytes as u64) + DELIVER_BYTES;
        add(&node.counters.delivered, u64::from(count));
        add(&node.counters.delivered_bytes, bytes as u64);
        out.deliver(self.channel, self.through, count, &mut self.parts);
        self.note_mark(now);
    }

    /// Cuts what lies before the time or behind the end that was asked for.
    fn cut(&mut self) {
        if let Some(time) = self.not_before {
            let mut begun = false;
            self.slices.retain_mut(|slice| {
                if !begun {
                    cut_front(slice, time);
                    begun = slice.records > 0;
                }
                slice.records > 0
            });
            if begun {
                self.not_before = None;
            }
        }
        if let Some(until) = self.until {
            self.slices.retain_mut(|slice| {
                if slice.last > until {
                    cut_back(slice, until);
                }
                slice.records > 0
            });
        }
    }
}

fn cut_front(slice: &mut Slice, not_before: i64) {
    let mut at = 0;
    let mut records = 0;
    for record in Records::new(&slice.bytes) {
        let record = record.expect("a slice is whole records");
        if record.timestamp() >= not_before {
            slice.first = record.sequence();
            break;
        }
        at += record.bytes().len();
        records += 1;
    }
    slice.bytes = slice.bytes.slice(at..);
    slice.records -= records;
}

/// Keeps what fits into a budget, at least one record, and gives back the rest.
fn cut_credit(slices: &mut Vec<Slice>, budget: usize) -> Vec<Slice> {
    let mut left = budget;
    for at in 0..slices.len() {
        if slices[at].bytes.len() <= left {
            left -= slices[at].bytes.len();
            continue;
        }
        let mut rest = slices.split_off(at);
        let (keep, behind) = split(&rest[0], left, slices.is_empty());
        slices.extend(keep);
        match behind {
            Some(behind) => rest[0] = behind,
            None => drop(rest.remove(0)),
        }
        return rest;
    }
    Vec::new()
}

/// The records of a slice that fit into a budget, and the others. `one`: the first fits whatever its size.
fn split(slice: &Slice, budget: usize, one: bool) -> (Option<Slice>, Option<Slice>) {
    let mut kept = Slice { bytes: Bytes::new(), records: 0, first: slice.first, last: slice.first };
    let mut at = 0;
    for record in Records::new(&slice.bytes) {
        let record = record.expect("a slice is whole records");
        let end = at + record.bytes().len();
        if end > budget && !(one && kept.records == 0) {
            let behind = Slice {
                bytes: slice.bytes.slice(at..),
                records: slice.records - kept.records,
                first: record.sequence(),
                last: slice.last,
            };
            kept.bytes = slice.bytes.slice(..at);
            return (Some(kept).filter(|kept| kept.records > 0), Some(behind));
        }
        kept.records += 1;
        kept.last = record.sequence();
        at = end;
    }
    (Some(slice.clone()), None)
}

fn cut_back(slice: &mut Slice, until: Sequence) {
    let mut at = 0;
    let mut records = 0;
    for record in Records::new(&slice.bytes) {
        let record = record.expect("a slice is whole records");
        if record.sequence() > until {
            break;
        }
        slice.last = record.sequence();
        at += record.bytes().len();
        records += 1;
    }
    slice.bytes = slice.bytes.slice(..at);
    slice.records = records;
}
