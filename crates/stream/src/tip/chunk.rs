//! A chunk: what of the tip is shared with readers and evicted at once.
//!
//! ```text
//! pieces   [batch][batch][batch]…            the records' bytes, batches whole inside
//! column   topic, end | topic, end | …       one row a record: its topic and where it ends in the chunk
//! cuts     [3..4) [17..20) …                 rows no reader gets: control records, void messages
//! ```
//!
//! A row's number in the chunk is its *index*; the chunk's first row has the slot `first_slot`. One writer adds rows to
//! the newest chunk while readers look at it: rows are atomics, pieces are set once. A sealed chunk is plain memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use crate::record::{CONTROL_TOPIC, HEADER_BYTES, Record, Records, Sequence};

/// Pieces an open chunk takes before they are copied together: bounds the array a busy trickle of small batches needs.
const OPEN_PIECES_MAX: usize = 1024;
/// A sealed chunk with more pieces than this is copied into larger ones.
const SEALED_PIECES_MAX: usize = 64;
/// Pieces that are copied together make one of about this size.
const PIECE_BYTES: usize = 256 << 10;
/// Rows the column of an open chunk grows by.
const COLUMN_ROWS: usize = 4096;

/// One batch's records, or several copied together.
#[derive(Clone, Debug)]
struct Piece {
    /// Index of its first row.
    first: u32,
    /// Where it starts in the chunk.
    start: u32,
    bytes: Bytes,
}

/// Topic and end of each row while the chunk is open.
struct OpenColumn {
    groups: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl OpenColumn {
    fn new(rows_max: usize) -> OpenColumn {
        let groups = rows_max.div_ceil(COLUMN_ROWS);
        OpenColumn { groups: (0..groups).map(|_| OnceLock::new()).collect() }
    }

    fn set(&self, index: u32, topic: u32, end: u32) {
        let group = self.groups[index as usize / COLUMN_ROWS]
            .get_or_init(|| (0..COLUMN_ROWS).map(|_| AtomicU64::new(0)).collect());
        let row = u64::from(end) << 32 | u64::from(topic);
        group[index as usize % COLUMN_ROWS].store(row, Ordering::Relaxed);
    }

    /// Rows from `index` on in one stretch of memory, at most `rows`.
    fn rows(&self, index: u32, rows: usize) -> &[AtomicU64] {
        let from = index as usize % COLUMN_ROWS;
        let to = COLUMN_ROWS.min(from + rows);
        match self.groups[index as usize / COLUMN_ROWS].get() {
            Some(group) => &group[from..to],
            None => &[],
        }
    }

    fn row(&self, index: u32) -> (u32, u32) {
        let row = self.rows(index, 1).first().map_or(0, |row| row.load(Ordering::Relaxed));
        (row as u32, (row >> 32) as u32)
    }
}

struct Open {
    column: Arc<OpenColumn>,
    /// Rows readers may look at.
    rows: AtomicU32,
    /// Pieces copied together earlier, then those that came since.
    merged: Vec<Piece>,
    pieces: Box<[OnceLock<Piece>]>,
    piece_count: AtomicU32,
}

struct Sealed {
    topics: Box<[u32]>,
    ends: Box<[u32]>,
    pieces: Box<[Piece]>,
}

enum Body {
    Open(Open),
    Sealed(Sealed),
}

/// Rows no reader gets, as ranges of indexes in order. Control records come with the batch; a message may become void
/// when its chunk is sealed already.
#[derive(Default)]
struct Cuts {
    count: AtomicU32,
    ranges: Mutex<Arc<Vec<Range<u32>>>>,
}

impl Cuts {
    fn add(&self, cut: Range<u32>) {
        let mut shared = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = Arc::make_mut(&mut shared);
        // The neighbours that touch the new range become one with it.
        let from = ranges.partition_point(|range| range.end < cut.start);
        let to = ranges.partition_point(|range| range.start <= cut.end);
        let mut cut = cut;
        if from < to {
            cut.start = cut.start.min(ranges[from].start);
            cut.end = cut.end.max(ranges[to - 1].end);
        }
        ranges.splice(from..to, [cut]);
        self.count.store(ranges.len() as u32, Ordering::Release);
    }
}

/// A stretch of the stream in memory.
pub(super) struct Chunk {
    /// Slot of its first row.
    pub(super) first_slot: u64,
    /// Sequence of its first row.
    pub(super) first_sequence: Sequence,
    /// Leading rows whose sequences follow each other without a gap: theirs need no look at the record.
    dense: Arc<AtomicU32>,
    /// Every message in it is in the index.
    indexed: Arc<AtomicBool>,
    cuts: Arc<Cuts>,
    body: Body,
}

/// A row as the writer sees it go in.
pub(super) struct Row {
    pub(super) slot: u64,
    pub(super) topic: u32,
    pub(super) sequence: Sequence,
}

impl Chunk {
    /// An open chunk without rows that takes `bytes_max` bytes of records.
    pub(super) fn open(first_slot: u64, first_sequence: Sequence, bytes_max: usize) -> Chunk {
        Chunk {
            first_slot,
            first_sequence,
            dense: Arc::default(),
            indexed: Arc::new(AtomicBool::new(true)),
            cuts: Arc::default(),
            body: Body::Open(Open {
                column: Arc::new(OpenColumn::new(bytes_max / HEADER_BYTES)),
                rows: AtomicU32::new(0),
                merged: Vec::new(),
                pieces: open_pieces(),
                piece_count: AtomicU32::new(0),
            }),
        }
    }

    /// Rows there are.
    pub(super) fn rows(&self) -> u32 {
        match &self.body {
            Body::Open(open) => open.rows.load(Ordering::Acquire),
            Body::Sealed(sealed) => sealed.ends.len() as u32,
        }
    }

    /// The slot after its last row.
    pub(super) fn end_slot(&self) -> u64 {
        self.first_slot + u64::from(self.rows())
    }

    /// Bytes of its records.
    pub(super) fn bytes(&self) -> usize {
        match self.rows() {
            0 => 0,
            rows => self.end(rows - 1) as usize,
        }
    }

    /// Whether a further piece fits without [`Chunk::regrouped`].
    pub(super) fn takes_piece(&self) -> bool {
        match &self.body {
            Body::Open(open) => (open.piece_count.load(Ordering::Relaxed) as usize) < open.pieces.len(),
            Body::Sealed(_) => false,
        }
    }

    /// Adds a batch's records, telling each to `seen`. Only the one writer calls this, on an open chunk with room.
    pub(super) fn push(&self, records: Bytes, mut seen: impl FnMut(Row)) {
        let Body::Open(open) = &self.body else {
            panic!("a sealed chunk takes no records");
        };
        let first = open.rows.load(Ordering::Relaxed);
        let start = self.bytes() as u32;
        let (mut index, mut end) = (first, start);
        for record in Records::new(&records) {
            let record = match record {
                Ok(record) => record,
                Err(bad) => panic!("the sequencer built a batch that does not parse: {bad}"),
            };
            end += record.bytes().len() as u32;
            let row = self.add_row(&open.column, index, end, &record);
            seen(row);
            index += 1;
        }
        let count = open.piece_count.load(Ordering::Relaxed);
        let piece = Piece { first, start, bytes: records };
        assert!(open.pieces[count as usize].set(piece).is_ok(), "one writer fills a chunk");
        open.piece_count.store(count + 1, Ordering::Release);
        open.rows.store(index, Ordering::Release);
    }

    fn add_row(&self, column: &OpenColumn, index: u32, end: u32, record: &Record) -> Row {
        let (topic, sequence) = (record.topic(), record.sequence());
        column.set(index, topic, end);
        if self.dense.load(Ordering::Relaxed) == index && sequence.0 == self.first_sequence.0 + u64::from(index) {
            self.dense.store(index + 1, Ordering::Release);
        }
        if topic == CONTROL_TOPIC {
            self.cuts.add(index..index + 1);
        }
        Row { slot: self.first_slot + u64::from(index), topic, sequence }
    }

    /// The same chunk, open, its pieces copied together. It takes the place of `self`.
    pub(super) fn regrouped(&self) -> Chunk {
        let Body::Open(open) = &self.body else {
            panic!("a sealed chunk takes no records");
        };
        let mut merged = open.merged.clone();
        merged.extend(copied_together(self.open_pieces(open)));
        self.with_body(Body::Open(Open {
            column: open.column.clone(),
            rows: AtomicU32::new(open.rows.load(Ordering::Relaxed)),
            merged,
            pieces: open_pieces(),
            piece_count: AtomicU32::new(0),
        }))
    }

    /// The same chunk as plain memory. It takes the place of `self`.
    pub(super) fn sealed(&self) -> Chunk {
        let Body::Open(open) = &self.body else {
            panic!("a chunk is sealed once");
        };
        let rows = open.rows.load(Ordering::Relaxed);
        let (topics, ends): (Vec<u32>, Vec<u32>) = (0..rows).map(|index| open.column.row(index)).unzip();
        let mut pieces = open.merged.clone();
        pieces.extend(self.open_pieces(open).cloned());
        if pieces.len() > SEALED_PIECES_MAX {
            pieces = copied_together(pieces.iter());
        }
        self.with_body(Body::Sealed(Sealed { topics: topics.into(), ends: ends.into(), pieces: pieces.into() }))
    }

    fn with_body(&self, body: Body) -> Chunk {
        Chunk {
            first_slot: self.first_slot,
            first_sequence: self.first_sequence,
            dense: self.dense.clone(),
            indexed: self.indexed.clone(),
            cuts: self.cuts.clone(),
            body,
        }
    }

    fn open_pieces<'a>(&self, open: &'a Open) -> impl Iterator<Item = &'a Piece> + use<'a> {
        let count = open.piece_count.load(Ordering::Acquire) as usize;
        open.pieces[..count].iter().filter_map(OnceLock::get)
    }

    /// Whether the index has every message of it.
    pub(super) fn is_indexed(&self) -> bool {
        self.indexed.load(Ordering::Acquire)
    }

    /// Notes that the index lacks a message of it. True the first time.
    pub(super) fn lose_index(&self) -> bool {
        self.indexed.swap(false, Ordering::AcqRel)
    }

    /// Takes rows out of every reader's sight.
    pub(super) fn cut(&self, indexes: Range<u32>) {
        self.cuts.add(indexes);
    }

    /// The rows no reader gets; none when there are none.
    pub(super) fn cuts(&self) -> Option<Arc<Vec<Range<u32>>>> {
        if self.cuts.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let ranges = self.cuts.ranges.lock();
        Some(ranges.unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Where a row ends in the chunk.
    pub(super) fn end(&self, index: u32) -> u32 {
        match &self.body {
            Body::Open(open) => open.column.row(index).1,
            Body::Sealed(sealed) => sealed.ends[index as usize],
        }
    }

    /// Where a row starts in the chunk.
    pub(super) fn start(&self, index: u32) -> u32 {
        match index {
            0 => 0,
            _ => self.end(index - 1),
        }
    }

    /// Where runs of rows lie, into as many `places`: empty for an empty run.
    pub(super) fn places(&self, runs: &[Range<u32>], places: &mut [Range<u32>]) {
        match &self.body {
            Body::Open(_) => {
                for (run, place) in runs.iter().zip(places).filter(|(run, _)| !run.is_empty()) {
                    *place = self.start(run.start)..self.end(run.end - 1);
                }
            }
            Body::Sealed(sealed) => {
                for (run, place) in runs.iter().zip(places).filter(|(run, _)| !run.is_empty()) {
                    let start = run.start.checked_sub(1).map_or(0, |before| sealed.ends[before as usize]);
                    *place = start..sealed.ends[run.end as usize - 1];
                }
            }
        }
    }

    /// Asks memory for where a row lies. A row there is not is passed over; of an open chunk nothing is asked for: it is new.
    pub(super) fn fetch_place(&self, row: u64) {
        if let Body::Sealed(sealed) = &self.body {
            let end = usize::try_from(row).ok().and_then(|row| sealed.ends.get(row..=row));
            end.into_iter().for_each(fetch);
        }
    }

    /// Asks memory for a row's record and what follows it, at most so many bytes of the record.
    pub(super) fn fetch_record(&self, row: u64, bytes_max: u32) {
        let (Body::Sealed(sealed), Ok(row)) = (&self.body, u32::try_from(row)) else {
            return;
        };
        if row as usize >= sealed.ends.len() {
            return;
        }
        let (start, end) = (self.start(row), self.end(row));
        if let Some(piece) = last_from(&sealed.pieces, row) {
            let from = (start - piece.start) as usize;
            let bytes = piece.bytes.get(from..from + (end - start).min(bytes_max) as usize);
            bytes.into_iter().for_each(fetch);
        }
    }

    /// Writes the topics of the rows from `index` on into `out`, which they fill.
    pub(super) fn topics(&self, index: u32, out: &mut [u32]) {
        match &self.body {
            Body::Open(open) => {
                let mut done = 0;
                while done < out.len() {
                    let rows = open.column.rows(index + done as u32, out.len() - done);
                    assert!(!rows.is_empty(), "rows are read after they are there");
                    for row in rows {
                        out[done] = row.load(Ordering::Relaxed) as u32;
                        done += 1;
                    }
                }
            }
            Body::Sealed(sealed) => {
                let from = index as usize;
                out.copy_from_slice(&sealed.topics[from..from + out.len()]);
            }
        }
    }

    /// The last index whose row ends at or before `limit` bytes into the chunk, plus one; within `indexes`.
    pub(super) fn fitting(&self, indexes: Range<u32>, limit: u64) -> u32 {
        let (mut low, mut high) = (indexes.start, indexes.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if u64::from(self.end(middle)) <= limit {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// A row's sequence.
    pub(super) fn sequence(&self, index: u32) -> Sequence {
        if index < self.dense.load(Ordering::Acquire) {
            return Sequence(self.first_sequence.0 + u64::from(index));
        }
        let piece = self.piece(index);
        let at = (self.start(index) - piece.start) as usize;
        match Record::read(&piece.bytes[at..]) {
            Ok(record) => record.sequence(),
            Err(bad) => panic!("a record in the tip does not parse: {bad}"),
        }
    }

    /// The sequence of its last row.
    pub(super) fn last_sequence(&self) -> Sequence {
        self.sequence(self.rows() - 1)
    }

    /// The first index whose sequence is at or above `sequence`; the number of rows if none is.
    pub(super) fn find(&self, sequence: Sequence) -> u32 {
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.sequence(middle) < sequence {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn piece(&self, index: u32) -> &Piece {
        let found = match &self.body {
            Body::Open(open) => {
                let count = open.piece_count.load(Ordering::Acquire) as usize;
                let first = |piece: &OnceLock<Piece>| piece.get().is_some_and(|p| p.first <= index);
                match open.pieces[..count].partition_point(first) {
                    0 => last_from(&open.merged, index),
                    after => open.pieces[after - 1].get(),
                }
            }
            Body::Sealed(sealed) => last_from(&sealed.pieces, index),
        };
        found.expect("every row lies in a piece")
    }

    /// The piece a row lies in, and where that lies in the chunk.
    pub(super) fn piece_of(&self, index: u32) -> (Bytes, Range<u32>) {
        let piece = self.piece(index);
        let end = piece.start + piece.bytes.len() as u32;
        (piece.bytes.clone(), piece.start..end)
    }
}

/// What memory fetches at once.
const LINE_BYTES: usize = 64;

/// Asks memory for the cache lines of `items`, without waiting for them.
#[inline]
#[expect(unsafe_code, reason = "there is no safe way to ask for memory without waiting for it")]
pub(super) fn fetch<T>(items: &[T]) {
    const { assert!(size_of::<T>() > 0 && size_of::<T>() <= LINE_BYTES) };
    #[cfg(target_arch = "x86_64")]
    for line in items.iter().step_by(LINE_BYTES / size_of::<T>()) {
        // SAFETY: every x86-64 has SSE, and a prefetch reads nothing: it may be given any address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(line).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}

fn last_from(pieces: &[Piece], index: u32) -> Option<&Piece> {
    pieces[..pieces.partition_point(|piece| piece.first <= index)].last()
}

fn open_pieces() -> Box<[OnceLock<Piece>]> {
    (0..OPEN_PIECES_MAX).map(|_| OnceLock::new()).collect()
}

/// Copies runs of small pieces into larger ones; large ones stay as they are.
fn copied_together<'a>(pieces: impl Iterator<Item = &'a Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    let mut run: Vec<&Piece> = Vec::new();
    let mut run_bytes = 0;
    for piece in pieces {
        if run_bytes + piece.bytes.len() > PIECE_BYTES {
            out.extend(joined(&run, run_bytes));
            run.clear();
            run_bytes = 0;
        }
        run_bytes += piece.bytes.len();
        run.push(piece);
    }
    out.extend(joined(&run, run_bytes));
    out
}

fn joined(run: &[&Piece], run_bytes: usize) -> Option<Piece> {
    let first = run.first()?;
    if run.len() == 1 {
        return Some((*first).clone());
    }
    let mut bytes = Vec::with_capacity(run_bytes);
    for piece in run {
        bytes.extend_from_slice(&piece.bytes);
    }
    Some(Piece { first: first.first, start: first.start, bytes: bytes.into() })
}
