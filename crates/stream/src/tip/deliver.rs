//! Turns runs of selected rows into slices: takes out what no reader gets, stops before what is not settled, keeps
//! within the budget.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::chunk::Chunk;
use super::{Slice, Visible};

/// Why a read stops at a slot; what is selected below it has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The budget is used up.
    Full(u64),
    /// The message there is selected and not settled.
    Unsettled(u64),
}

/// Collects what one read delivers.
pub(super) struct Delivery<'a> {
    visible: &'a Visible,
    out: &'a mut Vec<Slice>,
    /// Bytes that may still be delivered.
    left: u64,
    is_first: bool,
    chunk: Arc<Chunk>,
    cuts: Option<Arc<Vec<Range<u32>>>>,
    /// Adjacent rows of the chunk that are not in `out` yet.
    run: Range<u32>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        visible: &'a Visible,
        budget_bytes: usize,
        chunk: Arc<Chunk>,
        out: &'a mut Vec<Slice>,
    ) -> Delivery<'a> {
        Delivery { visible, out, left: budget_bytes as u64, is_first: true, cuts: chunk.cuts(), chunk, run: 0..0 }
    }

    pub(super) fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    /// Goes on in another chunk.
    pub(super) fn enter(&mut self, chunk: Arc<Chunk>) {
        self.flush();
        self.cuts = chunk.cuts();
        self.chunk = chunk;
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
        let base = self.chunk.first_slot;
        let slots = base + u64::from(rows.start)..base + u64::from(rows.end);
        let barrier = self.visible.barrier(&slots);
        let to = barrier.map_or(rows.end, |slot| (slot - base) as u32);
        let start = self.chunk.start(rows.start);
        let limit = u64::from(start) + self.left;
        let mut end = self.chunk.fitting(rows.start..to, limit);
        if end == rows.start && end < to && self.is_first {
            // A record over the whole budget would never go out otherwise.
            end += 1;
        }
        if rows.start < end {
            let bytes = u64::from(self.chunk.end(end - 1) - start);
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
        let mut from = self.run.start;
        while from < self.run.end {
            let (end, bytes) = self.chunk.slice(from..self.run.end);
            self.out.push(Slice {
                bytes,
                records: end - from,
                first: self.chunk.sequence(from),
                last: self.chunk.sequence(end - 1),
            });
            from = end;
        }
        self.run = 0..0;
    }
}
