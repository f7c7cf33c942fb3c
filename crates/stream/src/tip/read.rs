//! A subscription's place in the tip, and reading on from it.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::deliver::{Delivery, Stop};
use super::{Selector, Slice, TipShared, Visible};
use crate::record::Sequence;

/// Records one read tests at most: a read that finds nothing ends too, so that others get their turn.
const TESTED_MAX: u64 = 1 << 16;

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

/// A subscription's place in the tip.
pub struct TipCursor {
    shared: Arc<TipShared>,
    /// Everything selected below it was delivered.
    next: Sequence,
    /// The slot to go on at, once it was found.
    slot: Option<u64>,
}

impl TipCursor {
    /// Begins at the first message at or above `from`, which may be yet to come.
    pub fn new(shared: Arc<TipShared>, from: Sequence) -> TipCursor {
        TipCursor { shared, next: from, slot: None }
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
    /// whole budget goes out alone.
    pub fn read(&mut self, selector: &mut dyn Selector, budget_bytes: usize, out: &mut Vec<Slice>) -> ReadEnd {
        let shared = self.shared.clone();
        let visible = shared.visible();
        let mut tested = 0;
        let state = match self.seat(&visible) {
            Seat::At(slot) => self.read_on(slot, &visible, selector, budget_bytes, out, &mut tested),
            Seat::AtEnd => ReadState::AtEnd,
            Seat::FellOff => ReadState::FellOff(shared.first_sequence()),
        };
        shared.counters.records_scanned.fetch_add(tested, Ordering::Relaxed);
        ReadEnd { through: Sequence(self.next.0.saturating_sub(1)), state, tested }
    }

    fn seat(&mut self, visible: &Visible) -> Seat {
        if self.slot.is_none() {
            // A sequence that leaves the tip right after this look is found gone when its chunk is looked for.
            if self.next < self.shared.first_sequence() {
                return Seat::FellOff;
            }
            if self.next > visible.through {
                return Seat::AtEnd;
            }
            let found = self.shared.slot_of(self.next);
            self.slot = Some(found.map_or(visible.end_slot, |slot| slot.min(visible.end_slot)));
        }
        match self.slot {
            Some(slot) if slot < self.shared.first_slot.load(Ordering::Acquire) => Seat::FellOff,
            Some(slot) => Seat::At(slot),
            None => Seat::AtEnd,
        }
    }

    fn read_on(
        &mut self,
        slot: u64,
        visible: &Visible,
        selector: &mut dyn Selector,
        budget_bytes: usize,
        out: &mut Vec<Slice>,
        tested: &mut u64,
    ) -> ReadState {
        if slot >= visible.end_slot {
            self.reached(visible.end_slot, visible);
            return ReadState::AtEnd;
        }
        let Some(chunk) = self.shared.chunk_at(slot) else {
            return ReadState::FellOff(self.shared.first_sequence());
        };
        let mut delivery = Delivery::new(visible, budget_bytes, chunk, out);
        let mut slot = slot;
        let everything = selector.everything();
        let state = loop {
            let chunk = delivery.chunk().clone();
            let from = (slot - chunk.first_slot) as u32;
            let to = (visible.end_slot.min(chunk.end_slot()) - chunk.first_slot) as u32;
            let flow =
                if everything { delivery.offer(from..to) } else { scan(&mut delivery, from..to, selector, tested) };
            if let ControlFlow::Break(stop) = flow {
                let (Stop::Full(at) | Stop::Unsettled(at)) = stop;
                slot = at;
                self.next = chunk.sequence((at - chunk.first_slot) as u32);
                break match stop {
                    Stop::Full(_) => ReadState::More,
                    Stop::Unsettled(_) => ReadState::AtEnd,
                };
            }
            slot = chunk.first_slot + u64::from(to);
            self.next = chunk.sequence(to - 1).next();
            if slot >= visible.end_slot {
                self.reached(slot, visible);
                break ReadState::AtEnd;
            }
            if *tested >= TESTED_MAX || delivery.left() == 0 {
                break ReadState::More;
            }
            match self.shared.chunk_at(slot) {
                Some(chunk) => delivery.enter(chunk),
                None => break ReadState::FellOff(self.shared.first_sequence()),
            }
        };
        delivery.flush();
        self.slot = Some(slot);
        state
    }

    fn reached(&mut self, slot: u64, visible: &Visible) {
        self.slot = Some(slot);
        self.next = self.next.max(visible.through.next());
    }
}

enum Seat {
    At(u64),
    AtEnd,
    FellOff,
}

/// Tests every row by its topic, 64 at a time. A long run of selected rows is offered as one.
fn scan(delivery: &mut Delivery, rows: Range<u32>, selector: &mut dyn Selector, tested: &mut u64) -> ControlFlow<Stop> {
    let chunk = delivery.chunk().clone();
    let mut topics = [0; 64];
    let mut run = rows.start..rows.start;
    let mut at = rows.start;
    while at < rows.end {
        let count = (rows.end - at).min(64);
        chunk.topics(at, &mut topics[..count as usize]);
        *tested += u64::from(count);
        let mut wanted = selector.selects_each(&topics[..count as usize]);
        while wanted != 0 {
            let from = wanted.trailing_zeros();
            let ones = (wanted >> from).trailing_ones();
            if run.end != at + from {
                if !run.is_empty() {
                    delivery.offer(run.clone())?;
                }
                run.start = at + from;
            }
            run.end = at + from + ones;
            wanted &= u64::MAX.checked_shl(from + ones).unwrap_or(0);
        }
        at += count;
        if !run.is_empty() {
            let bytes = u64::from(chunk.end(run.end - 1) - chunk.start(run.start));
            if bytes >= delivery.left() {
                delivery.offer(run.clone())?;
                run = run.end..run.end;
            }
        }
        if *tested >= TESTED_MAX && at < rows.end {
            break;
        }
    }
    if !run.is_empty() {
        delivery.offer(run)?;
    }
    match at < rows.end {
        true => ControlFlow::Break(Stop::Full(chunk.first_slot + u64::from(at))),
        false => ControlFlow::Continue(()),
    }
}
