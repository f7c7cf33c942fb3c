//! Turns runs of selected rows into slices: takes out what no reader gets, stops before what is not settled, keeps
//! within the budget.
//!
//! Runs come many at a time. Where each lies is looked up for a block of them before the first is cut out, and memory is
//! asked for each some runs before its turn: it fetches them side by side, and whoever copies them finds them in the cache.
//!
//! Single messages are copied together, long runs go out as slices of the chunk's own bytes: a part for each message
//! would cost more than its copy, in every layer down to the socket.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::chunk::{Chunk, fetch};
use super::{Slice, TipShared, Visible};
use crate::record::Sequence;

/// Runs looked up at once.
const RUNS_AT_ONCE: usize = 64;
/// What memory fetches at once.
const LINE_BYTES: u32 = 64;
/// Runs further apart than this, in the mean, are asked for before their chunks are entered.
const SCOUTED_SLOTS_MIN: usize = 32;
/// Runs memory is asked for ahead of the one that is copied.
const RUNS_AHEAD: usize = 12;
/// Of a longer run the beginning is asked for only: the memory foresees the rest.
const RUN_AHEAD_BYTES_MAX: u32 = 512;
/// With fewer bytes than this between two runs memory is asked for what lies between them, too: it gives a stream of
/// lines in less time than a part of them singly.
const HOLE_BYTES_MAX: u32 = 600;
/// How far ahead of the copy such a stream is asked for.
const STREAM_AHEAD_BYTES: u32 = 3 << 10;
/// Runs below this many bytes, in the mean, are copied together …
const COPIED_RUN_BYTES_MAX: u32 = 1 << 10;
/// … if there are this many at once.
const COPIED_RUNS_MIN: usize = 4;

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

/// Rows of the chunk that were copied and are not in `out` yet.
#[derive(Default)]
struct Copied {
    bytes: BytesMut,
    records: u32,
    /// The first row and the last.
    first: u32,
    last: u32,
}

/// Where a read's records go.
pub(super) enum Out<'a> {
    /// Cut out of the chunk, or copied together where they are short.
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
    copied: Copied,
    /// The chunks that were asked for runs, and which runs: room to work in.
    scouted: Vec<(Arc<Chunk>, Range<usize>)>,
    /// Runs of this block are copied together.
    copies: bool,
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
            copied: Copied::default(),
            scouted: Vec::new(),
            copies: false,
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
        self.let_copied_out();
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
        let mut scouted = 0;
        while let Some(first) = runs.get(at) {
            if scouted < runs.len().min(at + RUNS_AT_ONCE) {
                let to = runs.len().min(scouted + 2 * RUNS_AT_ONCE);
                self.scout(base, &runs[scouted..to]);
                scouted = to;
            }
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

    /// Where runs lie far apart: asks memory for where they lie, then for their records, whatever chunks they are in. What
    /// has left is passed over.
    fn scout(&mut self, base: u64, runs: &[Range<u32>]) {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return;
        };
        if (last.end - first.start) as usize <= runs.len() * SCOUTED_SLOTS_MIN {
            return;
        }
        self.scouted.clear();
        self.shared.with_chunks(|chunks| {
            let mut next = chunks.partition_point(|chunk| chunk.first_slot <= base + u64::from(first.start));
            let mut at = 0;
            while let (Some(chunk), true) = (chunks.get(next.saturating_sub(1)), at < runs.len()) {
                let end = chunk.end_slot();
                let inside = runs[at..].partition_point(|run| base + u64::from(run.end) <= end);
                self.scouted.push((chunk.clone(), at..at + inside));
                // A run over the end of a chunk is long: nothing is asked for.
                at += inside + usize::from(inside == 0);
                next += 1;
            }
        });
        for (chunk, inside) in &self.scouted {
            let rows =
                runs[inside.clone()].iter().map(|run| (base + u64::from(run.start)).wrapping_sub(chunk.first_slot));
            rows.for_each(|row| chunk.fetch_place(row));
        }
        for (chunk, inside) in &self.scouted {
            for run in &runs[inside.clone()] {
                let row = (base + u64::from(run.start)).wrapping_sub(chunk.first_slot);
                chunk.fetch_record(row, RUN_AHEAD_BYTES_MAX);
            }
        }
    }

    /// Delivers runs that lie in one chunk. Returns how many were begun.
    fn offer_block(&mut self, chunk: &Chunk, base: u64, block: &[Range<u32>], from: u64) -> (usize, ControlFlow<Stop>) {
        let row = |slot: u32| ((base + u64::from(slot)).max(from) - chunk.first_slot) as u32;
        let mut rows = [const { 0..0 }; RUNS_AT_ONCE];
        for (rows, run) in rows.iter_mut().zip(block) {
            *rows = row(run.start)..row(run.end);
        }
        let rows = &rows[..block.len()];
        let end = block.last().map_or(0, |run| base + u64::from(run.end));
        let is_plain = self.cuts.is_none() && end <= self.visible.settled_slot;
        if !is_plain {
            return self.offer_each(rows);
        }
        let mut places = [const { 0..0 }; RUNS_AT_ONCE];
        chunk.places(rows, &mut places);
        let places = &places[..block.len()];
        let Some(first) = places.iter().position(|place| !place.is_empty()) else {
            return (block.len(), ControlFlow::Continue(()));
        };
        self.enter_piece(chunk, rows[first].start, places[first].start);
        let bytes: u32 = places.iter().map(|place| place.end - place.start).sum();
        let copies = places.len() >= COPIED_RUNS_MIN && bytes / places.len() as u32 <= COPIED_RUN_BYTES_MAX;
        self.set_copies(copies, bytes);
        let mut ahead = Ahead::of(&places[first..], bytes);
        for (at, (rows, place)) in rows.iter().zip(places).enumerate().skip(first) {
            ahead.ask(&self.piece, self.piece_at.start, &places[at..]);
            if u64::from(place.end - place.start) <= self.left {
                self.put(rows.clone(), place.clone());
                continue;
            }
            let flow = self.offer(rows.clone());
            if flow.is_break() {
                return (at + 1, flow);
            }
        }
        (block.len(), ControlFlow::Continue(()))
    }

    fn offer_each(&mut self, rows: &[Range<u32>]) -> (usize, ControlFlow<Stop>) {
        for (at, rows) in rows.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let flow = self.offer(rows.clone());
            if flow.is_break() {
                return (at + 1, flow);
            }
        }
        (rows.len(), ControlFlow::Continue(()))
    }

    /// Makes the piece a row begins in the one that is looked at.
    fn enter_piece(&mut self, chunk: &Chunk, row: u32, start: u32) {
        if !self.piece_at.contains(&start) {
            self.flush();
            (self.piece, self.piece_at) = chunk.piece_of(row);
        }
    }

    /// What comes, of about so many bytes, is copied together or not.
    fn set_copies(&mut self, copies: bool, bytes: u32) {
        if copies != self.copies {
            self.flush();
            self.let_copied_out();
        }
        self.copies = copies;
        match &mut self.out {
            Out::Bytes(out, _) => out.reserve(bytes as usize),
            Out::Slices(_) if copies => self.copied.bytes.reserve(u64::from(bytes).min(self.left) as usize),
            Out::Slices(_) => {}
        }
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
        if self.copies {
            return self.let_out_at_once(rows, bytes);
        }
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
        if !rows.is_empty() {
            self.let_out_at_once(rows, bytes);
        }
    }

    #[inline]
    fn let_out_at_once(&mut self, rows: Range<u32>, bytes: Range<u32>) {
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
        let records = rows.end - rows.start;
        self.last_row = rows.end;
        match &mut self.out {
            Out::Bytes(out, count) => {
                out.extend_from_slice(&self.piece[range]);
                **count += records;
            }
            Out::Slices(_) if self.copies => {
                let copied = &mut self.copied;
                if copied.records == 0 {
                    copied.first = rows.start;
                }
                copied.bytes.extend_from_slice(&self.piece[range]);
                copied.records += records;
                copied.last = rows.end - 1;
            }
            Out::Slices(slices) => {
                let Some(chunk) = &self.chunk else {
                    return;
                };
                slices.push(Slice {
                    bytes: self.piece.slice(range),
                    records,
                    first: chunk.sequence(rows.start),
                    last: chunk.sequence(rows.end - 1),
                });
            }
        }
    }

    /// Lets out what was copied together.
    fn let_copied_out(&mut self) {
        let (Some(chunk), Out::Slices(slices)) = (&self.chunk, &mut self.out) else {
            return;
        };
        let copied = &mut self.copied;
        if copied.records == 0 {
            return;
        }
        slices.push(Slice {
            bytes: copied.bytes.split().freeze(),
            records: std::mem::take(&mut copied.records),
            first: chunk.sequence(copied.first),
            last: chunk.sequence(copied.last),
        });
    }
}

/// Asks memory for what a block's runs lie in, ahead of the copy.
struct Ahead {
    /// Everything is asked for, in order, from here on …
    stream: Option<Range<u32>>,
    /// … or the runs are: the first of them was not yet.
    is_begun: bool,
}

impl Ahead {
    fn of(places: &[Range<u32>], bytes: u32) -> Ahead {
        let span = places[0].start..places.last().map_or(0, |last| last.end);
        let holes = (span.end.saturating_sub(span.start)).saturating_sub(bytes);
        let is_stream = holes < places.len() as u32 * HOLE_BYTES_MAX && places.len() > 1;
        Ahead { stream: is_stream.then_some(span), is_begun: false }
    }

    /// The first of `places` is copied next. What lies in another piece is not asked for.
    #[inline]
    fn ask(&mut self, piece: &[u8], base: u32, places: &[Range<u32>]) {
        let fetch = |bytes: Range<u32>| {
            let range = bytes.start.wrapping_sub(base) as usize..bytes.end.wrapping_sub(base) as usize;
            piece.get(range).into_iter().for_each(fetch);
        };
        if let Some(left) = &mut self.stream {
            let to = left.end.min(places[0].start + STREAM_AHEAD_BYTES);
            if left.start < to {
                fetch(left.start..to);
                left.start += (to - left.start).next_multiple_of(LINE_BYTES);
            }
            return;
        }
        let run = |place: &Range<u32>| place.start..place.end.min(place.start + RUN_AHEAD_BYTES_MAX);
        if !std::mem::replace(&mut self.is_begun, true) {
            places.iter().take(RUNS_AHEAD).for_each(|place| fetch(run(place)));
        }
        if let Some(place) = places.get(RUNS_AHEAD) {
            fetch(run(place));
        }
    }
}
