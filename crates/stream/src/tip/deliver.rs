//! Turns runs of selected rows into slices: takes out what no reader gets, stops before what is not settled, keeps
//! within the budget.
//!
//! Runs come many at a time. Where each lies is looked up for a block of them before the first is cut out, and a byte of
//! each of its cache lines is read: the memory then fetches them side by side, and whoever copies the slices finds them
//! in the cache.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::chunk::Chunk;
use super::{Slice, TipShared, Visible};
use crate::record::Sequence;

/// Runs looked up at once.
const RUNS_AT_ONCE: usize = 64;

/// What memory fetches at once.
const LINE_BYTES: usize = 64;
/// Of a longer run the beginning is looked at only: the memory foresees the rest.
const LOOK_BYTES_MAX: u32 = 512;

/// Runs closer together than this need no look ahead: the memory foresees them.
const SPACING_MIN: usize = 128;
/// The first cache has 32 KiB.
const LOOK_AHEAD_BYTES: u32 = 8 << 10;

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

/// Adjacent rows that are not in `out` yet.
#[derive(Default)]
struct Pending {
    rows: Range<u32>,
    /// Where they lie in the chunk.
    bytes: Range<u32>,
}

/// Where a read's records go.
pub(super) enum Out<'a> {
    /// Cut out of the chunk, uncopied.
    Slices(&'a mut Vec<Slice>),
    /// Copied, one behind the other, and counted.
    Bytes(&'a mut BytesMut, &'a mut u32),
}

/// Collects what one read delivers.
pub(super) struct Delivery<'a> {
    shared: &'a TipShared,
    visible: &'a Visible,
    out: Out<'a>,
    /// Bytes that may still be delivered.
    left: u64,
    is_first: bool,
    /// The last row that went out, plus one, and the sequence of the last record of the chunks before.
    last_row: u32,
    last: Sequence,
    chunk: Option<Arc<Chunk>>,
    cuts: Option<Arc<Vec<Range<u32>>>>,
    /// The piece looked at last, and where it lies in the chunk.
    piece: Bytes,
    piece_at: Range<u32>,
    pending: Pending,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(shared: &'a TipShared, visible: &'a Visible, budget_bytes: usize, out: Out<'a>) -> Delivery<'a> {
        Delivery {
            shared,
            visible,
            out,
            left: budget_bytes as u64,
            is_first: true,
            last_row: 0,
            last: Sequence::ZERO,
            chunk: None,
            cuts: None,
            piece: Bytes::new(),
            piece_at: 0..0,
            pending: Pending::default(),
        }
    }

    /// Goes on in the chunk that holds a slot; none if it has left the tip.
    pub(super) fn enter(&mut self, slot: u64) -> Option<Arc<Chunk>> {
        let held = self.chunk.as_ref();
        let held = held.filter(|c| (c.first_slot..c.end_slot()).contains(&slot));
        if let Some(chunk) = held {
            return Some(chunk.clone());
        }
        let chunk = self.shared.chunk_at(slot)?;
        self.finish();
        self.piece_at = 0..0;
        self.cuts = chunk.cuts();
        self.chunk = Some(chunk.clone());
        Some(chunk)
    }

    /// Lets everything out that is pending. Returns the sequence of the last record delivered; zero if there is none.
    pub(super) fn finish(&mut self) -> Sequence {
        self.flush();
        let row = std::mem::take(&mut self.last_row);
        if let (Some(chunk), Some(row)) = (&self.chunk, row.checked_sub(1)) {
            self.last = chunk.sequence(row);
        }
        self.last
    }

    /// Bytes that may still be delivered.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Delivers selected slots at or above `from`, behind everything delivered before: runs counted from `base`.
    /// Returns how many of the runs are delivered whole.
    pub(super) fn offer_runs(&mut self, base: u64, runs: &[Range<u32>], from: u64) -> (usize, ControlFlow<Stop>) {
        let mut at = 0;
        while let Some(first) = runs.get(at) {
            let first = base + u64::from(first.start);
            let Some(chunk) = self.enter(first.max(from)) else {
                return (at, ControlFlow::Break(Stop::Gone(first.max(from))));
            };
            let block = &runs[at..runs.len().min(at + RUNS_AT_ONCE)];
            let chunk_end = chunk.end_slot();
            let is_in = |run: &&Range<u32>| base + u64::from(run.end) <= chunk_end;
            let inside = block.iter().take_while(is_in).count();
            let (done, flow) = match inside {
                // It goes on in the next chunk.
                0 => {
                    let end = base + u64::from(block[0].end);
                    (1, self.offer_slots(first.max(from)..end))
                }
                _ => self.offer_block(&chunk, base, &block[..inside], from),
            };
            if flow.is_break() {
                return (at + done - 1, flow);
            }
            at += done;
        }
        (at, ControlFlow::Continue(()))
    }

    /// Delivers runs that lie in one chunk. Returns how many were begun.
    fn offer_block(&mut self, chunk: &Chunk, base: u64, block: &[Range<u32>], from: u64) -> (usize, ControlFlow<Stop>) {
        let row = |slot: u32| ((base + u64::from(slot)).max(from) - chunk.first_slot) as u32;
        let mut rows = [const { 0..0 }; RUNS_AT_ONCE];
        let mut bytes = [(0, 0); RUNS_AT_ONCE];
        for (at, run) in block.iter().enumerate() {
            rows[at] = row(run.start)..row(run.end);
            if !rows[at].is_empty() {
                bytes[at] = (chunk.start(rows[at].start), chunk.end(rows[at].end - 1));
            }
        }
        let (rows, bytes) = (&rows[..block.len()], &bytes[..block.len()]);
        let end = block.last().map_or(0, |run| base + u64::from(run.end));
        let is_plain = self.cuts.is_none() && end <= self.visible.settled_slot;
        let mut looked_to = 0;
        for (at, (rows, (start, end))) in rows.iter().zip(bytes).enumerate() {
            if at == looked_to {
                looked_to = self.look_ahead(chunk, rows.start, at, bytes);
            }
            if rows.is_empty() {
                continue;
            }
            let rows = rows.clone();
            if is_plain && u64::from(end - start) <= self.left {
                self.put(rows, *start..*end);
                continue;
            }
            let flow = self.offer(rows);
            if flow.is_break() {
                return (at + 1, flow);
            }
        }
        (block.len(), ControlFlow::Continue(()))
    }

    /// Reads a byte of each cache line of what lies at `bytes[at..]`, as much as the first cache holds beside what it is
    /// copied to; the first of it is a row's. Returns where that ends.
    fn look_ahead(&mut self, chunk: &Chunk, row: u32, at: usize, bytes: &[(u32, u32)]) -> usize {
        let mut to = at;
        let mut sum = 0;
        while to < bytes.len() && sum < LOOK_AHEAD_BYTES {
            sum += (bytes[to].1 - bytes[to].0).min(LOOK_BYTES_MAX) + LINE_BYTES as u32;
            to += 1;
        }
        let span = bytes[to - 1].1.saturating_sub(bytes[at].0) as usize;
        if span < (to - at) * SPACING_MIN {
            return to;
        }
        if !self.piece_at.contains(&bytes[at].0) {
            (self.piece, self.piece_at) = chunk.piece_of(row);
        }
        let mut looked = 0;
        for (start, end) in &bytes[at..to] {
            // What lies in the next piece is not looked at.
            let begins = start.wrapping_sub(self.piece_at.start) as usize;
            let ends = begins.saturating_add((end - start).min(LOOK_BYTES_MAX) as usize);
            let lines = self.piece.get(begins..ends).unwrap_or_default();
            looked ^= lines.iter().step_by(LINE_BYTES).fold(0, |all, byte| all ^ byte);
        }
        std::hint::black_box(looked);
        to
    }

    /// Delivers adjacent selected slots, which may lie in several chunks.
    pub(super) fn offer_slots(&mut self, slots: Range<u64>) -> ControlFlow<Stop> {
        let mut from = slots.start;
        while from < slots.end {
            let Some(chunk) = self.enter(from) else {
                return ControlFlow::Break(Stop::Gone(from));
            };
            let to = slots.end.min(chunk.end_slot());
            let base = chunk.first_slot;
            self.offer((from - base) as u32..(to - base) as u32)?;
            from = to;
        }
        ControlFlow::Continue(())
    }

    /// Delivers adjacent selected rows of the chunk.
    fn offer(&mut self, rows: Range<u32>) -> ControlFlow<Stop> {
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
        let Some(chunk) = self.chunk.clone() else {
            panic!("a chunk is entered before rows of it are offered");
        };
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
            self.put(rows.start..end, start..chunk.end(end - 1));
        }
        match barrier {
            _ if end < to => ControlFlow::Break(Stop::Full(base + u64::from(end))),
            Some(slot) => ControlFlow::Break(Stop::Unsettled(slot)),
            None => ControlFlow::Continue(()),
        }
    }

    #[inline]
    fn put(&mut self, rows: Range<u32>, bytes: Range<u32>) {
        self.left = self.left.saturating_sub(u64::from(bytes.end - bytes.start));
        self.is_first = false;
        if self.pending.rows.end == rows.start && !self.pending.rows.is_empty() {
            self.pending.rows.end = rows.end;
            self.pending.bytes.end = bytes.end;
        } else {
            self.flush();
            self.pending = Pending { rows, bytes };
        }
    }

    /// Lets out what is pending.
    #[inline]
    fn flush(&mut self) {
        let Pending { rows, bytes } = std::mem::take(&mut self.pending);
        if rows.is_empty() {
            return;
        }
        let is_here = self.piece_at.start <= bytes.start && bytes.end <= self.piece_at.end;
        match is_here {
            true => self.let_out(rows, bytes),
            false => self.let_out_by_piece(rows, bytes),
        }
    }

    /// Rows of another piece, or of several: each piece's are a slice.
    fn let_out_by_piece(&mut self, mut rows: Range<u32>, mut bytes: Range<u32>) {
        let Some(chunk) = self.chunk.clone() else {
            return;
        };
        while !rows.is_empty() {
            (self.piece, self.piece_at) = chunk.piece_of(rows.start);
            let to = bytes.end.min(self.piece_at.end);
            let end = match to == bytes.end {
                true => rows.end,
                false => chunk.fitting(rows.clone(), u64::from(to)),
            };
            self.let_out(rows.start..end, bytes.start..to);
            rows.start = end;
            bytes.start = to;
        }
    }

    #[inline]
    fn let_out(&mut self, rows: Range<u32>, bytes: Range<u32>) {
        let base = self.piece_at.start;
        let range = (bytes.start - base) as usize..(bytes.end - base) as usize;
        self.last_row = rows.end;
        match &mut self.out {
            Out::Bytes(out, records) => {
                out.extend_from_slice(&self.piece[range]);
                **records += rows.end - rows.start;
            }
            Out::Slices(slices) => {
                let Some(chunk) = &self.chunk else {
                    return;
                };
                slices.push(Slice {
                    bytes: self.piece.slice(range),
                    records: rows.end - rows.start,
                    first: chunk.sequence(rows.start),
                    last: chunk.sequence(rows.end - 1),
                });
            }
        }
    }
}
