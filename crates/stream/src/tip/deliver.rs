//! Turns runs of selected rows into slices: takes out what no reader gets, stops before what is not settled, keeps
//! within the budget.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::chunk::Chunk;
use super::{Slice, TipShared, Visible};
use crate::record::Sequence;

/// Why a read stops at a slot; what is selected below it has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The budget is used up.
    Full(u64),
    /// The message there is selected and not settled.
    Unsettled(u64),
    /// The chunk has left the tip.
    Gone(u64),
}

/// Collects what one read delivers.
pub(super) struct Delivery<'a> {
    visible: &'a Visible,
    out: &'a mut Vec<Slice>,
    /// Bytes that may still be delivered.
    left: u64,
    is_first: bool,
    /// Sequence of the last record in `out`.
    last: Sequence,
    chunk: Option<Arc<Chunk>>,
    cuts: Option<Arc<Vec<Range<u32>>>>,
    /// Adjacent rows of the chunk that are not in `out` yet.
    run: Range<u32>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(visible: &'a Visible, budget_bytes: usize, out: &'a mut Vec<Slice>) -> Delivery<'a> {
        Delivery {
            visible,
            out,
            left: budget_bytes as u64,
            is_first: true,
            last: Sequence::ZERO,
            chunk: None,
            cuts: None,
            run: 0..0,
        }
    }

    /// Goes on in the chunk that holds a slot; none if it has left the tip.
    pub(super) fn enter(&mut self, slot: u64, shared: &TipShared) -> Option<Arc<Chunk>> {
        let held = self.chunk.as_ref();
        let held = held.filter(|c| (c.first_slot..c.end_slot()).contains(&slot));
        if let Some(chunk) = held {
            return Some(chunk.clone());
        }
        let chunk = shared.chunk_at(slot)?;
        self.flush();
        self.cuts = chunk.cuts();
        self.chunk = Some(chunk.clone());
        Some(chunk)
    }

    /// Delivers selected slots, behind everything delivered before.
    pub(super) fn offer_slots(&mut self, slots: Range<u64>, shared: &TipShared) -> ControlFlow<Stop> {
        let mut from = slots.start;
        while from < slots.end {
            let Some(chunk) = self.enter(from, shared) else {
                return ControlFlow::Break(Stop::Gone(from));
            };
            let to = slots.end.min(chunk.end_slot());
            let base = chunk.first_slot;
            self.offer((from - base) as u32..(to - base) as u32)?;
            from = to;
        }
        ControlFlow::Continue(())
    }

    /// Sequence of the last record delivered; zero if there is none.
    pub(super) fn last(&self) -> Sequence {
        self.last
    }

    /// Bytes that may still be delivered.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Delivers adjacent selected rows of the chunk, behind everything delivered before.
    pub(super) fn offer(&mut self, rows: Range<u32>) -> ControlFlow<Stop> {
        let Some(cuts) = self.cuts.clone() else {
            return self.offer_uncut(rows);
        };
        let mut from = rows.start;
        let next = cuts.partition_point(|cut| cut.end <= from);
        for cut in &cuts[next..] {
            if cut.start >= rows.end {
                break;
            }
            if from < cut.start {
                self.offer_uncut(from..cut.start)?;
            }
            from = cut.end;
        }
        if from < rows.end {
            self.offer_uncut(from..rows.end)?;
        }
        ControlFlow::Continue(())
    }

    fn offer_uncut(&mut self, rows: Range<u32>) -> ControlFlow<Stop> {
        let chunk = self.chunk.clone().expect("a chunk is entered before rows of it are offered");
        let base = chunk.first_slot;
        let slots = base + u64::from(rows.start)..base + u64::from(rows.end);
        let barrier = self.visible.barrier(&slots);
        let to = barrier.map_or(rows.end, |slot| (slot - base) as u32);
        let start = chunk.start(rows.start);
        let limit = u64::from(start) + self.left;
        let mut end = chunk.fitting(rows.start..to, limit);
        if end == rows.start && end < to && self.is_first {
            // A record over the whole budget would never go out otherwise.
            end += 1;
        }
        if rows.start < end {
            let bytes = u64::from(chunk.end(end - 1) - start);
            self.left = self.left.saturating_sub(bytes);
            self.is_first = false;
            if self.run.end == rows.start && !self.run.is_empty() {
                self.run.end = end;
            } else {
                self.flush();
                self.run = rows.start..end;
            }
        }
        match barrier {
            _ if end < to => ControlFlow::Break(Stop::Full(base + u64::from(end))),
            Some(slot) => ControlFlow::Break(Stop::Unsettled(slot)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Moves what is pending to the slices.
    pub(super) fn flush(&mut self) {
        let run = std::mem::take(&mut self.run);
        let Some(chunk) = &self.chunk else {
            return;
        };
        let mut from = run.start;
        while from < run.end {
            let (end, bytes) = chunk.slice(from..run.end);
            self.last = chunk.sequence(end - 1);
            self.out.push(Slice { bytes, records: end - from, first: chunk.sequence(from), last: self.last });
            from = end;
        }
    }
}
