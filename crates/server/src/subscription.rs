//! One subscription of a session: where it is, what it may still send, what it has told.
//!
//! ```text
//!   reader: stores → segments → tip        slices of records, in order
//!      │ cut at the end asked for, at the time asked for
//!      ▼
//!   deliver frames, as far as credit goes; safe marks when nothing was selected for a while
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arioso_stream::Sequence;
use arioso_stream::matcher::SubscriptionId;
use arioso_stream::record::Records;
use arioso_stream::selection::Selection;
use arioso_stream::tip::Slice;
use arioso_wire::{Code, Frame, Safe, Trimmed};
use bytes::Bytes;

use crate::admission::Waiter;
use crate::history::{ReadRequest, Supplied};
use crate::hub::Bell;
use crate::mailbox::Mailbox;
use crate::metrics::add;
use crate::newest::Newest;
use crate::node::Node;
use crate::output::Output;
use crate::reader::{Reader, Step};
use crate::selecting::Selecting;

/// What one turn of a subscription reads at most, so that others get theirs.
pub const SLICE_BYTES: usize = 256 << 10;
/// Bytes of a deliver body before its records.
const DELIVER_FIXED_BYTES: u64 = 16;
/// A mark is sent at least this often (ns) when anything was passed since the last.
pub const MARK_NS: i64 = 1_000_000_000;
/// And after this much was read without one.
pub const MARK_BYTES: u64 = 64 << 20;

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
    /// It waits for memory, and is woken when there is some.
    Crowded,
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
    /// It has reached the end and follows what is committed; otherwise it recovers.
    live: bool,
    /// When it gives memory back if others wait for it.
    way_due: i64,
    /// Bytes that may be sent; below zero a record was longer than the credit, and that much is owed.
    credit: i64,
    /// It ends behind this.
    until: Option<Sequence>,
    /// Records stamped before are left out at the beginning.
    not_before: Option<i64>,
    /// It begins with the newest of each topic.
    newest: Option<Newest>,
    /// Everything selected up to here was delivered.
    through: Sequence,
    /// The newest mark sent.
    told: Sequence,
    told_at: i64,
    passed_bytes: u64,
    /// What was read and not delivered for want of credit: at most one slice.
    slices: VecDeque<Slice>,
    /// Everything selected up to here was delivered, once `slices` are.
    read_through: Sequence,
    read: Vec<Slice>,
    parts: Vec<Bytes>,
    /// It waits for the disk or for the client: no turn until then.
    pub busy: bool,
    /// The read it waits for.
    pub awaits: Option<u64>,
    /// It is in the session's row of those that want a turn.
    pub queued: bool,
}

/// Where and how a subscription begins.
pub struct Begins {
    /// First sequence that can be delivered.
    pub first: Sequence,
    /// Records stamped before are left out.
    pub not_before: Option<i64>,
    /// Before anything else, only these.
    pub newest: Option<Newest>,
    /// It ends behind this.
    pub until: Option<Sequence>,
    /// Bytes that may be sent.
    pub credit: u64,
    /// The filters.
    pub filters: Arc<[Box<str>]>,
    /// Its session.
    pub mailbox: Arc<Mailbox>,
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
        let live = begins.newest.is_none() && begins.first > node.tip.settled_to();
        Subscription {
            channel,
            id,
            bell,
            selection,
            reader: Reader::new(node, begins.first, begins.filters, Waiter { mailbox: begins.mailbox, channel }),
            way_due: now + MARK_NS,
            credit: i64::try_from(begins.credit).unwrap_or(i64::MAX),
            until: begins.until,
            not_before: begins.not_before,
            newest: begins.newest,
            through: before,
            told: before,
            told_at: now,
            live,
            passed_bytes: 0,
            slices: VecDeque::new(),
            read_through: before,
            read: Vec::new(),
            parts: Vec::new(),
            busy: false,
            awaits: None,
            queued: false,
        }
    }

    /// More may be sent.
    pub fn add_credit(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_add_unsigned(bytes);
    }

    /// After `trimmed`: goes on here.
    pub fn go_on(&mut self, node: &Node, next: Sequence) {
        self.reader.seek(node, next);
        if let Some(newest) = &mut self.newest {
            newest.skip_to(next);
        }
        self.slices.clear();
        self.through = self.through.max(Sequence(next.0.saturating_sub(1)));
    }

    /// Everything selected up to here was delivered.
    pub fn through(&self) -> Sequence {
        self.through
    }

    /// Whether the newest of each topic are still being delivered.
    pub fn is_at_newest(&self) -> bool {
        self.newest.is_some()
    }

    /// Bytes that the turn [`Turn::Reads`] asked for.
    pub fn supply(&mut self, node: &Node, read: Result<Supplied, String>) {
        self.reader.supply(node, read);
    }

    /// Whether it has reached the end and follows what is committed.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Where it waits and nothing that matches was committed: passes all that others were told of, without reading it. Many
    /// subscriptions that match little would else read the stream once a second each.
    pub fn pass_unmatched(&mut self, node: &Node) -> bool {
        // In this order: what is told after this look rings the bell first.
        let told_to = Sequence(node.told_to.load(Ordering::SeqCst));
        let waits = self.live && self.slices.is_empty() && self.bell.is_armed();
        // One that ends somewhere takes a turn, in which it sees whether it is there.
        if !waits || self.until.is_some() || told_to <= self.through {
            return false;
        }
        self.reader.pass_to(node, told_to.next());
        self.read_through = self.read_through.max(told_to);
        self.through = told_to;
        true
    }

    /// Whether something was passed that no mark told of.
    pub fn owes_mark(&self) -> bool {
        self.through > self.told
    }

    /// Gives memory back that others wait for, if it had it for a while. Not while a read is under way.
    pub fn make_way(&mut self, now: i64, node: &Node) {
        if now >= self.way_due && !self.busy {
            self.way_due = now + MARK_NS;
            self.reader.make_way(node);
        }
    }

    /// It is over: its read amplification goes to the counts.
    pub fn count_end(&self, node: &Node) {
        let (touched, useful) = self.reader.read_from_disk();
        if touched == 0 {
            return;
        }
        tracing::debug!(channel = self.channel, touched, useful, "a subscription that read from disk ended");
        add(&node.counters.disk_readers, 1);
        add(&node.counters.disk_readers_above_2, u64::from(touched > useful.saturating_mul(2)));
        add(&node.counters.disk_readers_above_10, u64::from(touched > useful.saturating_mul(10)));
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
        if self.until.is_some_and(|until| self.through >= until) {
            return Turn::Ended(Code::Ok);
        }
        if self.credit <= 0 {
            return Turn::NoCredit;
        }
        self.bell.disarm();
        self.make_way(now, node);
        let turn = self.read(now, node, out, announce);
        self.live = turn == Turn::Waits;
        if turn != Turn::Waits {
            return turn;
        }
        if self.credit <= 0 {
            return Turn::NoCredit;
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
        let mut at_end = false;
        if self.slices.is_empty() {
            let budget = SLICE_BYTES.min(usize::try_from(self.credit).unwrap_or(usize::MAX));
            let mut selecting = Selecting::new(&mut self.selection, &node.names);
            let step = self.reader.step(node, &mut selecting, budget, &mut self.read);
            let (through, passed_bytes) = match step {
                Step::Read { through, passed_bytes, at_end: end } => {
                    at_end = end;
                    (through, passed_bytes)
                }
                Step::Need(request) => return Turn::Reads(request),
                Step::Crowded => return Turn::Crowded,
                Step::Trimmed { wanted, first } => {
                    out.push(self.channel, &Frame::Trimmed(Trimmed { wanted, first }));
                    return Turn::Trimmed;
                }
                Step::Damaged { text } => {
                    tracing::error!(channel = self.channel, "{text}");
                    return Turn::Ended(Code::Damaged);
                }
            };
            let through = self.keep_newest(node, through);
            self.cut();
            self.slices.extend(self.read.drain(..));
            self.read_through = through;
            self.passed_bytes += passed_bytes;
        }
        self.pass_on(now, node, out, announce);
        if self.until.is_some_and(|until| self.through >= until) {
            Turn::Ended(Code::Ok)
        } else if !self.slices.is_empty() {
            // What did not fit behind other records goes alone next, if there is any credit left.
            if self.credit > 0 { Turn::Again } else { Turn::NoCredit }
        } else if at_end {
            Turn::Waits
        } else {
            Turn::Again
        }
    }

    /// Of what lies before the end of the newest only these are kept; goes to the next of them. Gives up to where everything
    /// wanted was read.
    fn keep_newest(&mut self, node: &Node, through: Sequence) -> Sequence {
        let Some(newest) = &mut self.newest else { return through };
        newest.keep(&mut self.read, through);
        let next = newest.next();
        if newest.is_done() {
            self.newest = None;
        }
        if next <= through.next() {
            return through;
        }
        self.reader.pass_to(node, next);
        Sequence(next.0 - 1)
    }

    /// Delivers what was read, as far as the credit goes, and tells how far everything is delivered.
    fn pass_on(&mut self, now: i64, node: &Node, out: &mut Output, announce: &mut dyn FnMut(&mut Output, &[Slice])) {
        let mut ready = std::mem::take(&mut self.read);
        if self.credit > 0 {
            take_front(&mut self.slices, self.credit.unsigned_abs(), &mut ready);
        }
        let through =
            if self.slices.is_empty() { Some(self.read_through) } else { ready.last().map(|slice| slice.last) };
        self.through = self.through.max(through.unwrap_or(self.through));
        if let Some(until) = self.until {
            self.through = self.through.min(until.max(self.told));
        }
        if !ready.is_empty() {
            self.deliver(now, node, out, &mut ready, announce);
        } else if self.passed_bytes >= MARK_BYTES || now >= self.mark_due() {
            self.mark(now, out);
        }
        self.read = ready;
    }

    fn deliver(
        &mut self,
        now: i64,
        node: &Node,
        out: &mut Output,
        ready: &mut Vec<Slice>,
        announce: &mut dyn FnMut(&mut Output, &[Slice]),
    ) {
        announce(out, ready);
        let count: u32 = ready.iter().map(|slice| slice.records).sum();
        self.parts.extend(ready.drain(..).map(|slice| slice.bytes));
        let bytes: usize = self.parts.iter().map(Bytes::len).sum();
        self.credit = self.credit.saturating_sub_unsigned(bytes as u64 + DELIVER_FIXED_BYTES);
        add(&node.counters.delivered, u64::from(count));
        add(&node.counters.delivered_bytes, bytes as u64);
        out.deliver(self.channel, self.through, count, &mut self.parts);
        self.note_mark(now);
    }

    /// Cuts what lies before the time or behind the end that was asked for.
    fn cut(&mut self) {
        if let Some(time) = self.not_before {
            let mut begun = false;
            self.read.retain_mut(|slice| {
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
            self.read.retain_mut(|slice| {
                if slice.last > until {
                    cut_back(slice, until);
                }
                slice.records > 0
            });
        }
    }
}

/// Takes slices off, as many bytes as the credit pays for. A record over the whole credit goes alone.
fn take_front(slices: &mut VecDeque<Slice>, credit: u64, out: &mut Vec<Slice>) {
    let mut left = usize::try_from(credit.saturating_sub(DELIVER_FIXED_BYTES)).unwrap_or(usize::MAX);
    while let Some(front) = slices.front_mut() {
        if front.bytes.len() <= left {
            left -= front.bytes.len();
            out.extend(slices.pop_front());
            continue;
        }
        let part = split_front(front, left, out.is_empty());
        if front.records == 0 {
            slices.pop_front();
        }
        if part.records > 0 {
            out.push(part);
        }
        return;
    }
}

/// Takes the records off that fit; `one`: the first in any case.
fn split_front(slice: &mut Slice, bytes_max: usize, one: bool) -> Slice {
    let (first, mut at, mut records, mut last) = (slice.first, 0, 0, slice.first);
    for record in Records::new(&slice.bytes) {
        let record = record.expect("a slice is whole records");
        let end = at + record.bytes().len();
        if end > bytes_max && !(one && records == 0) {
            slice.first = record.sequence();
            break;
        }
        (at, last) = (end, record.sequence());
        records += 1;
    }
    let part = Slice { bytes: slice.bytes.split_to(at), records, first, last };
    slice.records -= records;
    part
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
