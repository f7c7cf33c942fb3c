//! What lies on disk, as readers see it: the segments' table, the files, and a cursor over them.
//!
//! The cursor is plain computation and says what it needs; [`History::read`] is the one place that reads it, on a thread that
//! may block.

use std::collections::VecDeque;
use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use arioso_journal::backend::From as FromBatch;
use arioso_journal::{Stored, StoredBatch};
use arioso_store::segment::{self, SegmentReader, SegmentTable, Step as SegmentStep, Wanted, segment_path};
use arioso_store::voids::Voids;
use arioso_stream::Sequence;
use arioso_stream::record::Records;
use arioso_stream::tip::{Selector, Slice};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::backup::BackedUp;
use crate::metrics::add;
use crate::node::Node;
use crate::rows::{self, RowCursor, RowStep};
use crate::snapshots::{Refusal, SnapshotAsk, SnapshotTold};
use crate::subscription::SLICE_BYTES;

/// A jump reads the segment's places and up to two pieces of 1 MiB: worth it from here on.
const JUMP_BYTES: u64 = 4 << 20;
/// Files kept open for reading.
const FILES_MAX: usize = 64;

/// What a cursor needs from disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRequest {
    /// Bytes of a segment's file.
    Bytes(segment::ReadRequest),
    /// Copies everything to a folder of the server's.
    BackUp {
        /// Where.
        folder: Arc<str>,
    },
    /// A piece of an application's snapshot.
    Snapshot(SnapshotAsk),
    /// Whether the directory of a sealed segment has a wanted topic.
    Choose {
        /// The segment.
        segment: u64,
        /// The filters.
        filters: Arc<[Box<str>]>,
    },
    /// Batches of a journal that is a database.
    Rows(FromBatch),
}

/// What was read.
#[derive(Clone, Debug)]
pub enum Supplied {
    /// The bytes; fewer than wanted only where the file ends.
    Bytes(Bytes),
    /// Whether the segment has a wanted topic.
    Chosen(bool),
    /// What a backup came to.
    BackedUp(BackedUp),
    /// What was asked of a snapshot came to, or why it was refused.
    Snapshot(Result<SnapshotTold, Refusal>),
    /// The batches; none where the journal ends.
    Rows(Vec<StoredBatch>),
}

/// Segment, incarnation, file.
type OpenFile = (u64, u64, Arc<dyn File>);

/// The segments and their files.
pub struct History {
    disk: Arc<dyn Disk>,
    /// History that lies in a database and in no segments.
    rows: Option<Arc<dyn Stored>>,
    table: RwLock<SegmentTable>,
    voids: RwLock<Voids>,
    /// Numbers below were given before this start, and the table had all of them that are kept from the beginning.
    started_at: Sequence,
    /// The last used last.
    files: Mutex<VecDeque<OpenFile>>,
    exact: Mutex<Exact>,
    exact_told: Condvar,
}

/// Who wants the table exact, and how far it is.
#[derive(Default)]
struct Exact {
    wanted: u32,
    last: Sequence,
    lost: bool,
}

impl History {
    /// What a start found.
    pub fn new(disk: Arc<dyn Disk>, table: SegmentTable, voids: Voids, started_at: Sequence) -> History {
        let (table, voids, files) = (RwLock::new(table), RwLock::new(voids), Mutex::new(VecDeque::new()));
        let (exact, exact_told) = (Mutex::default(), Condvar::new());
        History { disk, rows: None, table, voids, started_at, files, exact, exact_told }
    }

    /// The same of a journal that is a database.
    pub fn with_rows(self, rows: Option<Arc<dyn Stored>>) -> History {
        History { rows, ..self }
    }

    /// Whether history lies in a database and in no segments.
    pub fn is_database(&self) -> bool {
        self.rows.is_some()
    }

    /// The first number of this start: a reader that has read all there is on disk has passed what lies before.
    pub fn started_at(&self) -> Sequence {
        self.started_at
    }

    /// The disk behind it.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Waits until the table tells of everything that is settled now; gives how far that is. `None`: the journal is lost. For
    /// a thread that may block.
    pub fn exact(&self, node: &Node) -> Option<Sequence> {
        self.exact.lock().wanted += 1;
        let settled = {
            let mut engine = node.engine.lock();
            // The log looks, whether anything waits for it or not.
            engine.want(1);
            engine.settled_to()
        };
        node.work.notify_all();
        let mut exact = self.exact.lock();
        while exact.last < settled && !exact.lost {
            self.exact_told.wait(&mut exact);
        }
        exact.wanted -= 1;
        (!exact.lost).then_some(settled)
    }

    /// Whether somebody waits for an exact table.
    pub fn wants_exact(&self) -> bool {
        self.exact.lock().wanted > 0
    }

    /// The table tells of everything up to here.
    pub fn is_exact(&self, last: Sequence) {
        let mut exact = self.exact.lock();
        exact.last = exact.last.max(last);
        self.exact_told.notify_all();
    }

    /// Nobody will tell any more.
    pub fn lose(&self) {
        self.exact.lock().lost = true;
        self.exact_told.notify_all();
    }

    /// Looks at the table, or changes it; never together with I/O.
    pub fn with_table<T>(&self, look: impl FnOnce(&mut SegmentTable) -> T) -> T {
        look(&mut self.table.write())
    }

    /// Looks at the table.
    pub fn with_table_read<T>(&self, look: impl FnOnce(&SegmentTable) -> T) -> T {
        look(&self.table.read())
    }

    /// These sequences are void.
    pub fn add_void(&self, first: Sequence, last: Sequence) {
        self.voids.write().add(first.0, last.0);
    }

    /// The first message kept.
    pub fn first_kept(&self) -> Sequence {
        Sequence(self.table.read().first_kept().max(1))
    }

    /// A sequence at or below which no message is stamped at or after this time; the caller leaves out what is older.
    pub fn sequence_at(&self, timestamp: i64) -> Sequence {
        let table = self.table.read();
        let first = table.from_time(timestamp).map_or(0, |info| info.first_sequence);
        Sequence(first.max(table.first_kept()).max(1))
    }

    /// Reads what a cursor needs. Blocks.
    pub fn read(&self, request: &ReadRequest) -> Result<Supplied, String> {
        match request {
            ReadRequest::Bytes(request) => {
                let file = self.file(request.segment)?;
                let bytes = segment::read_request(&*file, request).map_err(|error| error.to_string())?;
                Ok(Supplied::Bytes(bytes))
            }
            ReadRequest::BackUp { .. } | ReadRequest::Snapshot(_) => Err("no part of the history".into()),
            ReadRequest::Rows(from) => {
                let rows = self.rows.as_ref().ok_or("the journal has no rows")?;
                let read = rows.read(*from, rows::PIECE_BYTES).map_err(|error| error.to_string())?;
                Ok(Supplied::Rows(read))
            }
            ReadRequest::Choose { segment, filters } => {
                let trailer = self.table.read().get(*segment).and_then(|info| info.trailer.clone());
                let wanted: Vec<Wanted<'_>> = filters.iter().map(|filter| wanted(filter)).collect();
                let everything = wanted.contains(&Wanted::Subtree(b""));
                let Some(trailer) = trailer.filter(|_| !everything) else { return Ok(Supplied::Chosen(true)) };
                Ok(Supplied::Chosen(segment::has_wanted(self.file(*segment)?, &trailer, &wanted)))
            }
        }
    }

    fn file(&self, number: u64) -> Result<Arc<dyn File>, String> {
        let incarnation = self.table.read().get(number).map(|info| info.incarnation);
        let incarnation = incarnation.ok_or_else(|| format!("{}: retired", segment_path(number)))?;
        let mut files = self.files.lock();
        if let Some(at) = files.iter().position(|(n, i, _)| (*n, *i) == (number, incarnation))
            && let Some(held) = files.remove(at)
        {
            let file = Arc::clone(&held.2);
            files.push_back(held);
            return Ok(file);
        }
        drop(files);
        let file = self.disk.open(&segment_path(number), Access::Read).map_err(|error| error.to_string())?;
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.pop_front();
        }
        files.push_back((number, incarnation, Arc::clone(&file)));
        Ok(file)
    }
}

/// What of a filter a directory can be asked for: the topic, or the subtree before its first wildcard.
fn wanted(filter: &str) -> Wanted<'_> {
    match filter.split('/').position(|level| level.contains('*')) {
        None => Wanted::Topic(filter.as_bytes()),
        Some(0) => Wanted::Subtree(b""),
        Some(levels) => {
            let end = filter.match_indices('/').nth(levels - 1).map_or(filter.len(), |(at, _)| at);
            Wanted::Subtree(&filter.as_bytes()[..end])
        }
    }
}

/// What a step of a cursor came to.
#[derive(Debug)]
pub enum HistoryStep {
    /// Went on; there may be slices.
    Read {
        /// Everything selected up to here was given out.
        through: Sequence,
        /// Bytes of records that were passed, selected or not.
        passed_bytes: u64,
    },
    /// This is needed first.
    Need(ReadRequest),
    /// Nothing more lies on disk.
    End,
    /// The position is behind what is kept.
    Trimmed {
        /// The first kept.
        first: Sequence,
    },
    /// A stretch can't be read.
    Damaged {
        /// File, offset and range.
        text: String,
    },
}

/// A cursor over the history.
pub struct HistoryCursor {
    segments: SegmentReader,
    /// Instead of segments, once it turned out that there are none.
    rows: Option<RowCursor>,
    filters: Arc<[Box<str>]>,
    failed: Option<String>,
}

struct OnDisk<'a>(&'a mut dyn Selector);

impl segment::Selector for OnDisk<'_> {
    fn selects(&mut self, topic: u32) -> bool {
        self.0.selects(topic)
    }

    fn everything(&self) -> bool {
        self.0.everything()
    }
}

impl HistoryCursor {
    /// Begins at the first message at or above `next`.
    pub fn new(next: Sequence, filters: Arc<[Box<str>]>) -> HistoryCursor {
        HistoryCursor { segments: SegmentReader::from_sequence(next.0), rows: None, filters, failed: None }
    }

    /// The next sequence wanted.
    pub fn next(&self) -> Sequence {
        self.rows.as_ref().map_or(Sequence(self.segments.position()), RowCursor::next)
    }

    /// Goes on at `next`, ahead: by a jump when that saves reading.
    pub fn pass_to(&mut self, node: &Node, next: Sequence) {
        let (from, to) = (self.segments.position(), next.0);
        let far = node.history.with_table_read(|table| {
            let Some(info) = table.from_sequence(from) else { return false };
            let numbers = info.last_sequence.saturating_sub(info.first_sequence) + 1;
            // Numbers skip, so this is low where few messages lie: then there is little to pass.
            to > info.last_sequence || (to - from).saturating_mul(info.batches_end / numbers) > JUMP_BYTES
        });
        if far {
            self.segments.seek(to);
        }
    }

    /// What was needed, or why it can't be had.
    pub fn supply(&mut self, read: Result<Supplied, String>) {
        match read {
            Ok(Supplied::Bytes(bytes)) => self.segments.supply(bytes),
            Ok(Supplied::Chosen(wanted)) => self.segments.chosen(wanted),
            Ok(Supplied::BackedUp(_) | Supplied::Snapshot(_)) => panic!("a cursor asks for parts of the history"),
            Ok(Supplied::Rows(rows)) => {
                if let Some(cursor) = &mut self.rows {
                    cursor.supply(rows);
                }
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Reads on, a slice of 256 KiB or one record.
    pub fn step(&mut self, node: &Node, selector: &mut dyn Selector, out: &mut Vec<Slice>) -> HistoryStep {
        if let Some(text) = self.failed.take() {
            // Retention may have taken the file while it was to be read.
            let first = node.history.first_kept();
            if self.next() < first {
                return HistoryStep::Trimmed { first };
            }
            return HistoryStep::Damaged { text };
        }
        if node.history.rows.is_some() {
            return self.step_rows(node, selector, out);
        }
        let step = {
            let table = node.history.table.read();
            let voids = node.history.voids.read();
            self.segments.step(&table, &voids, &mut OnDisk(selector))
        };
        match step {
            SegmentStep::Need(request) => {
                add(&node.counters.history_bytes, request.bytes as u64);
                HistoryStep::Need(ReadRequest::Bytes(request))
            }
            SegmentStep::Choose { segment } => {
                HistoryStep::Need(ReadRequest::Choose { segment, filters: Arc::clone(&self.filters) })
            }
            SegmentStep::Slices(slices) => {
                out.extend(slices.slices.into_iter().map(slice));
                HistoryStep::Read { through: Sequence(slices.through), passed_bytes: SLICE_BYTES as u64 }
            }
            SegmentStep::End { .. } => HistoryStep::End,
            SegmentStep::Damaged(damage) => HistoryStep::Damaged { text: damage.to_string() },
            SegmentStep::Trimmed { first, .. } => HistoryStep::Trimmed { first: Sequence(first) },
        }
    }
}

impl HistoryCursor {
    fn step_rows(&mut self, node: &Node, selector: &mut dyn Selector, out: &mut Vec<Slice>) -> HistoryStep {
        let (next, first) = (self.next(), node.history.first_kept());
        if next < first {
            return HistoryStep::Trimmed { first };
        }
        let cursor = self.rows.get_or_insert_with(|| RowCursor::new(next));
        let voids = node.history.voids.read();
        match cursor.step(node.tip.settled_to(), &voids, selector, out) {
            RowStep::Read => HistoryStep::Read {
                through: Sequence(cursor.next().0.saturating_sub(1)),
                passed_bytes: SLICE_BYTES as u64,
            },
            RowStep::Need(from) => {
                add(&node.counters.history_bytes, rows::PIECE_BYTES as u64);
                HistoryStep::Need(ReadRequest::Rows(from))
            }
            RowStep::End => HistoryStep::End,
            RowStep::Damaged(text) => HistoryStep::Damaged { text },
        }
    }
}

/// Counts the records of a run, whose batch was checked.
fn slice(bytes: Bytes) -> Slice {
    let mut slice = Slice { bytes: Bytes::new(), records: 0, first: Sequence::ZERO, last: Sequence::ZERO };
    for record in Records::new(&bytes) {
        let sequence = record.expect("the reader checked the records").sequence();
        if slice.records == 0 {
            slice.first = sequence;
        }
        slice.last = sequence;
        slice.records += 1;
    }
    slice.bytes = bytes;
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_asked_for_what_lies_before_the_first_wildcard() {
        for (filter, expected) in [
            ("a/b", Wanted::Topic(b"a/b")),
            ("a/b/**", Wanted::Subtree(b"a/b")),
            ("a/*/c", Wanted::Subtree(b"a")),
            ("*/c", Wanted::Subtree(b"")),
            ("**", Wanted::Subtree(b"")),
            ("/x/*", Wanted::Subtree(b"/x")),
            ("/*", Wanted::Subtree(b"")),
        ] {
            assert_eq!(wanted(filter), expected, "{filter}");
        }
    }
}
