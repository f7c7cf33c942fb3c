//! A subscription's place in the tip, and reading on from it.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;

use super::chunk::Chunk;
use super::deliver::{Delivery, Out, Stop};
use super::lanes::{Lanes, Order, Scratch};
use super::{Selector, Slice, TipShared, Visible};
use crate::record::Sequence;

/// Records one read tests at most: a read that finds nothing ends too, so that others get their turn.
const TESTED_MAX: u64 = 1 << 16;
/// Rows fewer than this are tested one by one without further thought.
const PLAN_ROWS_MIN: u64 = 64;
/// Rows tested one by one before index and scan are compared again.
const REPLAN_ROWS: u64 = 1 << 20;
/// Rows tested one by one when memory was taken back under the reader's eyes.
const RETRY_ROWS: u64 = 1 << 12;
/// Runs a scan collects before it offers them.
const SCAN_RUNS: usize = 64;
/// What it costs to test a row in the column, to bring an entry of the index into order, to visit a lane: ratios
/// measured by `arioso bench merge`.
const ROW_COST: u64 = 2;
const ENTRY_COST: u64 = 20;
const LANE_COST: u64 = 30;

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadState {
    /// Read again: there may be more.
    More,
    /// Nothing more until the writer makes more visible.
    AtEnd,
    /// What comes next has left the tip, which begins at this sequence.
    FellOff(Sequence),
}

/// What a read got through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadEnd {
    /// Everything selected up to here has been delivered, by this read or before.
    pub through: Sequence,
    /// Whether to go on.
    pub state: ReadState,
    /// Records and index entries looked at.
    pub tested: u64,
}

/// How a cursor finds its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The cheaper way for each stretch.
    #[default]
    Chosen,
    /// By the index wherever it is whole: for measurements and tests.
    Index,
    /// By testing every record: for measurements and tests.
    Scan,
}

/// A subscription's place in the tip.
pub struct TipCursor {
    shared: Arc<TipShared>,
    /// Everything selected below it was delivered.
    next: Sequence,
    /// The slot to go on at, once it was found.
    slot: Option<u64>,
    /// Up to here rows are tested one by one, without the index.
    scan_to: u64,
    lanes: Lanes,
    way: Way,
}

impl TipCursor {
    /// Begins at the first message at or above `from`, which may be yet to come.
    pub fn new(shared: Arc<TipShared>, from: Sequence) -> TipCursor {
        TipCursor { shared, next: from, slot: None, scan_to: 0, lanes: Lanes::default(), way: Way::Chosen }
    }

    /// Makes the cursor go one way only.
    pub fn go(mut self, way: Way) -> TipCursor {
        self.way = way;
        self
    }

    /// The sequence to go on at: one above what everything was delivered through.
    pub fn next(&self) -> Sequence {
        self.next
    }

    /// Goes on above `through`. The caller knows that nothing selected lies between: it was told by the matcher, or
    /// delivered it otherwise.
    pub fn advance(&mut self, through: Sequence) {
        if through >= self.next {
            self.next = through.next();
            self.slot = None;
        }
    }

    /// Appends what is selected, in order, until the budget is used up or nothing more is to be had. A record over the
    /// whole budget goes out alone. Every read of a cursor is for the same selection.
    pub fn read(&mut self, selector: &mut dyn Selector, budget_bytes: usize, out: &mut Vec<Slice>) -> ReadEnd {
        self.read_out(selector, budget_bytes, Out::Slices(out))
    }

    /// As [`TipCursor::read`], the records copied one behind the other: where few messages are selected the cheaper way,
    /// and nothing of the chunks stays in use. Returns how many records there are, too.
    pub fn read_into(
        &mut self,
        selector: &mut dyn Selector,
        budget_bytes: usize,
        out: &mut BytesMut,
    ) -> (ReadEnd, u32) {
        let mut records = 0;
        let end = self.read_out(selector, budget_bytes, Out::Bytes(out, &mut records));
        (end, records)
    }

    fn read_out(&mut self, selector: &mut dyn Selector, budget_bytes: usize, out: Out) -> ReadEnd {
        let shared = self.shared.clone();
        let visible = shared.visible();
        let (state, tested) = match self.seat(&visible) {
            Seat::At(slot) => {
                let mut scratch = shared.lend_scratch();
                let mut read = Read {
                    shared: &shared,
                    selector,
                    delivery: Delivery::new(&shared, &visible, budget_bytes, out),
                    end: visible.end_slot,
                    scanned: 0,
                    taken: 0,
                };
                let (slot, state) = self.read_on(slot, &mut read, &mut scratch);
                let delivered = read.delivery.finish();
                let (scanned, taken) = (read.scanned, read.taken);
                shared.return_scratch(scratch);
                self.lanes.shrink();
                self.reached(slot, &visible, delivered);
                let counters = &shared.counters;
                counters.records_scanned.fetch_add(scanned, Ordering::Relaxed);
                counters.entries_tested.fetch_add(taken, Ordering::Relaxed);
                (state, scanned + taken)
            }
            Seat::AtEnd => (ReadState::AtEnd, 0),
            Seat::FellOff => (ReadState::FellOff(shared.first_sequence()), 0),
        };
        ReadEnd { through: Sequence(self.next.0.saturating_sub(1)), state, tested }
    }

    fn seat(&mut self, visible: &Visible) -> Seat {
        if self.slot.is_none() {
            if self.next > visible.through {
                return Seat::AtEnd;
            }
            let found = self.shared.slot_of(self.next);
            // Asked last: what left the tip before the slot was looked for shows here.
            if self.next < self.shared.first_sequence() {
                return Seat::FellOff;
            }
            let slot = found.map_or(visible.end_slot, |slot| slot.min(visible.end_slot));
            self.slot = Some(slot);
            self.lanes.leave();
            self.scan_to = 0;
        }
        match self.slot {
            Some(slot) => Seat::At(slot),
            None => Seat::AtEnd,
        }
    }

    /// Notes where a read ended.
    fn reached(&mut self, slot: u64, visible: &Visible, delivered: Sequence) {
        self.slot = Some(slot);
        let mark = if slot >= visible.end_slot {
            visible.through.next()
        } else {
            // If the chunk has left by now, the last message delivered is as far as one knows.
            let chunk = self.shared.chunk_at(slot);
            let mark = chunk.map(|chunk| chunk.sequence((slot - chunk.first_slot) as u32));
            mark.unwrap_or(delivered.next())
        };
        self.next = self.next.max(mark);
    }

    /// Reads from a slot on: the slot it got to, and why it ended there.
    fn read_on(&mut self, slot: u64, read: &mut Read, scratch: &mut Scratch) -> (u64, ReadState) {
        let mut slot = slot;
        loop {
            if slot >= read.end {
                return (slot, ReadState::AtEnd);
            }
            if read.is_done() {
                return (slot, ReadState::More);
            }
            let flow = self.step(slot, read, scratch);
            match flow {
                ControlFlow::Continue(next) => slot = next,
                ControlFlow::Break(Stop::Full(at)) => return (at, ReadState::More),
                ControlFlow::Break(Stop::Unsettled(at)) => return (at, ReadState::AtEnd),
                ControlFlow::Break(Stop::Gone(at)) => {
                    let first = self.shared.first_sequence();
                    return (at, ReadState::FellOff(first));
                }
            }
        }
    }

    /// One stretch, the best way.
    fn step(&mut self, slot: u64, read: &mut Read, scratch: &mut Scratch) -> ControlFlow<Stop, u64> {
        let everything = read.selector.everything();
        // Where chunks lack entries in the index, each is asked before it is passed.
        let degraded = &self.shared.counters.chunks_degraded;
        let is_indexed = degraded.load(Ordering::Acquire) == 0;
        let in_lanes = slot >= self.scan_to && slot < self.lanes.known_to() && !everything;
        if in_lanes && is_indexed {
            return self.gather(slot, self.lanes.known_to(), read, scratch);
        }
        let Some(chunk) = read.delivery.enter(slot) else {
            return ControlFlow::Break(Stop::Gone(slot));
        };
        let to = read.end.min(chunk.end_slot());
        if everything {
            read.delivery.offer_slots(slot..to)?;
            return ControlFlow::Continue(to);
        }
        if slot < self.scan_to {
            return read.scan(&chunk, slot..to.min(self.scan_to), scratch);
        }
        if !chunk.is_indexed() {
            // The lanes stay behind: they are seated again after it.
            self.lanes.leave();
            return read.scan(&chunk, slot..to, scratch);
        }
        if in_lanes {
            return self.gather(slot, to.min(self.lanes.known_to()), read, scratch);
        }
        self.plan(slot, read);
        ControlFlow::Continue(slot)
    }

    /// Chooses between index and scan for what lies before the reader.
    fn plan(&mut self, slot: u64, read: &mut Read) {
        let rows = read.end - slot;
        let is_free = self.way == Way::Chosen;
        let lanes_cost = |lanes: &Lanes| lanes.len() as u64 * LANE_COST;
        self.scan_to = read.end;
        let is_short = rows < PLAN_ROWS_MIN || lanes_cost(&self.lanes) > rows * ROW_COST;
        if self.way == Way::Scan || is_free && is_short {
            return;
        }
        self.scan_to = read.end.min(slot + RETRY_ROWS);
        let index = &self.shared.index;
        if self.lanes.discover(index, read.selector).is_err() {
            return;
        }
        let density = self.lanes.density(index);
        if is_free && lanes_cost(&self.lanes) > rows * ROW_COST {
            self.scan_to = read.end;
            return;
        }
        if is_free && density * ENTRY_COST as f64 > ROW_COST as f64 {
            self.scan_to = read.end.min(slot + REPLAN_ROWS);
            return;
        }
        if self.lanes.turn(index, (slot, read.end), density).is_ok() {
            self.scan_to = slot;
        }
    }

    /// Reads on by the index, below `limit`.
    fn gather(&mut self, slot: u64, limit: u64, read: &mut Read, scratch: &mut Scratch) -> ControlFlow<Stop, u64> {
        let (base, rest) = self.lanes.rest();
        let (passed, flow) = read.delivery.offer_runs(base, rest, slot);
        self.lanes.pass_rest(passed);
        flow?;
        let from = self.lanes.gathered_to();
        if slot < from {
            return ControlFlow::Continue(from);
        }
        let ahead = (limit, read.messages_that_fit());
        let (lanes, index) = (&mut self.lanes, &self.shared.index);
        let Ok(gathered) = lanes.gather(index, read.selector, ahead, Order::Chosen, scratch) else {
            lanes.leave();
            self.scan_to = limit.min(slot + RETRY_ROWS);
            return ControlFlow::Continue(slot);
        };
        read.taken += gathered.tested;
        let runs = scratch.runs.as_slice();
        let (passed, flow) = read.delivery.offer_runs(from, runs, slot);
        lanes.keep(from, &runs[passed..]);
        flow?;
        ControlFlow::Continue(lanes.gathered_to())
    }
}

enum Seat {
    At(u64),
    AtEnd,
    FellOff,
}

/// One read under way.
struct Read<'a> {
    shared: &'a TipShared,
    selector: &'a mut dyn Selector,
    delivery: Delivery<'a>,
    /// Nothing from here on may be looked at.
    end: u64,
    /// Rows tested one by one.
    scanned: u64,
    /// Entries of the index tested.
    taken: u64,
}

impl Read<'_> {
    /// The budget is used up, or enough was tested.
    fn is_done(&self) -> bool {
        self.delivery.left() == 0 || self.scanned + self.taken >= TESTED_MAX
    }

    /// Messages of the tip's mean size that still fit the budget.
    fn messages_that_fit(&self) -> u64 {
        let counters = &self.shared.counters;
        let bytes = counters.bytes.load(Ordering::Relaxed);
        let records = counters.records.load(Ordering::Relaxed).max(1);
        self.delivery.left() / (bytes / records).max(1) + 1
    }

    /// Tests every row by its topic, 64 at a time. What is selected is offered many runs at a time.
    fn scan(&mut self, chunk: &Chunk, slots: Range<u64>, scratch: &mut Scratch) -> ControlFlow<Stop, u64> {
        let base = chunk.first_slot;
        let runs = &mut scratch.runs;
        let mut topics = [0; 64];
        let (mut at, end) = ((slots.start - base) as u32, (slots.end - base) as u32);
        while at < end && self.scanned + self.taken < TESTED_MAX && self.delivery.left() > 0 {
            runs.clear();
            let mut bytes = 0;
            while at < end && runs.as_slice().len() < SCAN_RUNS && bytes < self.delivery.left() {
                let count = (end - at).min(64);
                chunk.topics(at, &mut topics[..count as usize]);
                self.scanned += u64::from(count);
                let mut wanted = self.selector.selects_each(&topics[..count as usize]);
                if wanted != 0 {
                    // Of these rows no more than this is wanted: offered before it is far more than fits.
                    bytes += u64::from(chunk.end(at + count - 1) - chunk.start(at));
                }
                while wanted != 0 {
                    let from = wanted.trailing_zeros();
                    let ones = (wanted >> from).trailing_ones();
                    runs.push_run(at + from..at + from + ones);
                    wanted &= u64::MAX.checked_shl(from + ones).unwrap_or(0);
                }
                at += count;
                if self.scanned + self.taken >= TESTED_MAX {
                    break;
                }
            }
            self.delivery.offer_runs(base, runs.as_slice(), slots.start).1?;
        }
        ControlFlow::Continue(base + u64::from(at))
    }
}
