//! What lies on disk, as readers see it: the table of spans and segments, the files, and a cursor over them.
//!
//! The cursor is plain computation and says what it needs; [`Node::read`] is the one place that reads it, on a thread that
//! may block. Files kept open, and what is held of them, are bounded.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use arioso_journal::backend::From as FromBatch;
use arioso_journal::{Stored, StoredBatch};
use arioso_store::history::{Explained, HistoryReader, Need, PieceSum, Step as StoreStep, Supplied as FromStore};
use arioso_store::segment::{self, SegmentTable, Wanted, segment_path};
use arioso_store::stores::view::wanted;
use arioso_store::stores::{GroupRequest, SpanFile, StoreFile, View};
use arioso_store::voids::Voids;
use arioso_stream::Sequence;
use arioso_stream::filter::Filter;
use arioso_stream::record::Records;
use arioso_stream::tip::{Selector, Slice};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::admission::{Admission, Permit, Waiter};
use crate::backup::{BackedUp, back_up};
use crate::explain::{explain, sums};
use crate::metrics::add;
use crate::node::Node;
use crate::rows::{self, RowCursor, RowStep};
use crate::snapshots::{self, Refusal, SnapshotAsk, SnapshotTold};
use crate::subscription::SLICE_BYTES;

/// A jump begins reading anew, two pieces of 1 MiB: worth it from here on.
const JUMP_BYTES: u64 = 4 << 20;
/// Segments' files kept open for reading.
const FILES_MAX: usize = 64;
/// Spans' files kept open, each with the sparse index of its directory.
const SPANS_MAX: usize = 24;
/// Stores kept open, each with the table of its groups.
const STORES_MAX: usize = 256;

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
    /// What of a span is wanted.
    View {
        /// The span.
        span: u64,
        /// From this sequence on.
        next: u64,
        /// The filters.
        filters: Arc<[Box<str>]>,
    },
    /// A group of a store.
    Group(GroupRequest),
    /// What a subscription from a sequence on would read.
    Explain {
        /// The sequence.
        next: Sequence,
        /// The filters.
        filters: Arc<[Box<str>]>,
    },
    /// What directories tell of a stretch of the stream.
    Sums {
        /// Its first sequence.
        first: Sequence,
        /// Its last.
        last: Sequence,
        /// The filters.
        filters: Arc<[Box<str>]>,
    },
}

/// What was read.
#[derive(Clone, Debug)]
pub enum Supplied {
    /// What a cursor needed.
    History(FromStore),
    /// The batches; none where the journal ends.
    Rows(Vec<StoredBatch>),
    /// What a reader would read.
    Explained(Explained),
    /// What directories tell of pieces of the stream.
    Summed(Vec<PieceSum>),
    /// What a backup came to.
    BackedUp(BackedUp),
    /// What was asked of a snapshot came to, or why it was refused.
    Snapshot(Result<SnapshotTold, Refusal>),
}

/// Files that are open, the last used last.
struct Opened<K, T>(Mutex<VecDeque<(K, Arc<T>)>>, usize);

impl<K: Copy + PartialEq, T> Opened<K, T> {
    fn new(most: usize) -> Opened<K, T> {
        Opened(Mutex::new(VecDeque::new()), most)
    }

    /// The one that is open, or opens it.
    fn get<E>(&self, key: K, open: impl FnOnce() -> Result<Arc<T>, E>) -> Result<Arc<T>, E> {
        {
            let mut held = self.0.lock();
            if let Some(at) = held.iter().position(|(known, _)| *known == key)
                && let Some(found) = held.remove(at)
            {
                let file = Arc::clone(&found.1);
                held.push_back(found);
                return Ok(file);
            }
        }
        let file = open()?;
        let mut held = self.0.lock();
        if held.len() >= self.1 {
            held.pop_front();
        }
        held.push_back((key, Arc::clone(&file)));
        Ok(file)
    }

    /// Lets go of what is not in charge any more.
    fn retain(&self, keep: impl Fn(&K) -> bool) {
        self.0.lock().retain(|(key, _)| keep(key));
    }
}

/// The spans, the segments and their files.
pub struct History {
    disk: Arc<dyn Disk>,
    stream: u128,
    /// History that lies in a database and in no segments.
    rows: Option<Arc<dyn Stored>>,
    table: RwLock<SegmentTable>,
    voids: RwLock<Voids>,
    /// Numbers below were given before this start, and the table had all of them that are kept from the beginning.
    started_at: Sequence,
    /// By segment and incarnation.
    files: Opened<(u64, u64), Arc<dyn File>>,
    spans: Opened<u64, SpanFile>,
    /// By span and store.
    stores: Opened<(u64, u32), StoreFile>,
    /// Memory for what cursors read from stores.
    pub admission: Arc<Admission>,
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
    /// What a start found. Cursors hold so many bytes of what they read from stores at most.
    pub fn new(
        disk: Arc<dyn Disk>,
        stream: u128,
        table: SegmentTable,
        voids: Voids,
        started_at: Sequence,
        bytes_max: u64,
    ) -> History {
        let (table, voids) = (RwLock::new(table), RwLock::new(voids));
        let (files, spans, stores) = (Opened::new(FILES_MAX), Opened::new(SPANS_MAX), Opened::new(STORES_MAX));
        let admission = Admission::new(bytes_max);
        let (exact, exact_told) = (Mutex::default(), Condvar::new());
        History {
            disk,
            rows: None,
            stream,
            table,
            voids,
            started_at,
            files,
            spans,
            stores,
            admission,
            exact,
            exact_told,
        }
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

    /// Lets go of files whose spans and segments are no longer in charge: a removed file takes room as long as it is open.
    pub fn close_retired(&self) {
        let table = self.table.read();
        self.files.retain(|(number, incarnation)| table.get(*number).is_some_and(|i| i.incarnation == *incarnation));
        let in_charge = |span: u64| table.spans().iter().any(|info| info.span == span);
        self.spans.retain(|span| in_charge(*span));
        self.stores.retain(|(span, _)| in_charge(*span));
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
        Sequence(table.sequence_at_time(timestamp).max(table.first_kept()).max(1))
    }

    /// Reads what a cursor needs. Blocks.
    fn read(&self, request: &ReadRequest) -> Result<Supplied, String> {
        let read = match request {
            ReadRequest::Bytes(request) => self.bytes(request),
            ReadRequest::Choose { segment, filters } => self.choose(*segment, filters),
            ReadRequest::View { span, next, filters } => {
                self.view(*span, &parsed(filters), *next).map(|view| FromStore::View(Arc::new(view)))
            }
            ReadRequest::Group(request) => self.group(request),
            other => panic!("{other:?} is not read from files of the stream"),
        };
        match read {
            // What took its place is in the table.
            Err(_) if !self.is_in_charge(request) => Ok(Supplied::History(FromStore::Gone)),
            other => other.map(Supplied::History).map_err(|error| error.to_string()),
        }
    }

    fn read_rows(&self, from: FromBatch) -> Result<Supplied, String> {
        let rows = self.rows.as_ref().ok_or("the journal has no rows")?;
        rows.read(from, rows::PIECE_BYTES).map(Supplied::Rows).map_err(|error| error.to_string())
    }

    fn is_in_charge(&self, request: &ReadRequest) -> bool {
        let table = self.table.read();
        let (segment, span) = match request {
            ReadRequest::Bytes(request) => (Some(request.segment), None),
            ReadRequest::Choose { segment, .. } => (Some(*segment), None),
            ReadRequest::View { span, .. } => (None, Some(*span)),
            ReadRequest::Group(request) => (None, Some(request.span)),
            _ => return true,
        };
        segment.is_some_and(|number| table.get(number).is_some())
            || span.is_some_and(|id| table.spans().iter().any(|info| info.span == id))
    }

    fn bytes(&self, request: &segment::ReadRequest) -> arioso_store::Result<FromStore> {
        let Some(file) = self.file(request.segment)? else { return Ok(FromStore::Gone) };
        Ok(FromStore::Bytes(segment::read_request(&**file, request)?))
    }

    fn choose(&self, segment: u64, filters: &[Box<str>]) -> arioso_store::Result<FromStore> {
        let trailer = self.table.read().get(segment).and_then(|info| info.trailer.clone());
        let wanted: Vec<Wanted<'_>> = filters.iter().map(|filter| wanted(filter)).collect();
        let everything = wanted.contains(&Wanted::Subtree(b""));
        let Some(trailer) = trailer.filter(|_| !everything) else { return Ok(FromStore::Chosen(true)) };
        let Some(file) = self.file(segment)? else { return Ok(FromStore::Gone) };
        Ok(FromStore::Chosen(segment::has_wanted(Arc::clone(&file), &trailer, &wanted)))
    }

    /// A span's file. Blocks.
    pub fn span(&self, span: u64) -> arioso_store::Result<Arc<SpanFile>> {
        self.spans.get(span, || SpanFile::open(&*self.disk, self.stream, span).map(Arc::new))
    }

    /// Whether any sequence of a range is void.
    pub fn has_voids(&self, first: u64, last: u64) -> bool {
        self.voids.read().overlaps(first, last)
    }

    /// What of a span filters match, from a sequence on. Blocks.
    pub fn view(&self, span: u64, filters: &[Filter], next: u64) -> arioso_store::Result<View> {
        let file = self.span(span)?;
        View::of_filters(&file, &mut |store| self.store(span, store), filters, next)
    }

    fn group(&self, request: &GroupRequest) -> arioso_store::Result<FromStore> {
        let loaded = self.store(request.span, request.store)?.load(request.group, &request.ranges)?;
        Ok(FromStore::Group(loaded.records))
    }

    fn store(&self, span: u64, store: u32) -> arioso_store::Result<Arc<StoreFile>> {
        self.stores.get((span, store), || StoreFile::open(&*self.disk, self.stream, span, store).map(Arc::new))
    }

    /// A segment's file; none if the segment is no longer in charge.
    pub fn file(&self, number: u64) -> arioso_store::Result<Option<Arc<Arc<dyn File>>>> {
        let incarnation = self.table.read().get(number).map(|info| info.incarnation);
        let Some(incarnation) = incarnation else { return Ok(None) };
        let open = || self.disk.open(&segment_path(number), Access::Read).map(Arc::new);
        Ok(Some(self.files.get((number, incarnation), open)?))
    }
}

impl Node {
    /// Reads what a session asked for. Blocks.
    pub fn read(&self, request: &ReadRequest) -> Result<Supplied, String> {
        match request {
            ReadRequest::Rows(from) => self.history.read_rows(*from),
            ReadRequest::BackUp { folder } => {
                back_up(self, Path::new(&**folder)).map(Supplied::BackedUp).map_err(|error| error.to_string())
            }
            ReadRequest::Snapshot(ask) => Ok(Supplied::Snapshot(snapshots::ask(self, ask))),
            ReadRequest::Explain { next, filters } => explain(self, &parsed(filters), *next).map(Supplied::Explained),
            ReadRequest::Sums { first, last, filters } => {
                sums(self, &parsed(filters), *first, *last).map(Supplied::Summed)
            }
            request => self.history.read(request),
        }
    }
}

/// Filters that were tested when the subscription began.
pub fn parsed(filters: &[Box<str>]) -> Vec<Filter> {
    filters.iter().filter_map(|filter| Filter::new(filter).ok()).collect()
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
    /// Memory is needed first: it is woken when there is some.
    Crowded,
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
    reader: HistoryReader,
    /// Instead of segments, once it turned out that there are none.
    rows: Option<RowCursor>,
    filters: Arc<[Box<str>]>,
    /// Why rows can't be had.
    failed: Option<String>,
    /// Of the span it reads.
    permit: Option<(u64, Permit)>,
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
        HistoryCursor { reader: HistoryReader::from_sequence(next.0), rows: None, filters, failed: None, permit: None }
    }

    /// The next sequence wanted.
    pub fn next(&self) -> Sequence {
        self.rows.as_ref().map_or(Sequence(self.reader.position()), RowCursor::next)
    }

    /// Goes on at `next`, ahead: by a jump when that saves reading.
    pub fn pass_to(&mut self, node: &Node, next: Sequence) {
        let (from, to) = (self.reader.position(), next.0);
        if node.history.with_table_read(|table| bytes_between(table, from, to)) > JUMP_BYTES {
            self.reader.seek(to);
        }
    }

    /// What was needed, or why it can't be had. Gives the bytes that were looked at for it.
    pub fn supply(&mut self, node: &Node, read: Result<Supplied, String>) -> u64 {
        let supplied = match read {
            Ok(Supplied::History(supplied)) => supplied,
            Ok(Supplied::Rows(rows)) => {
                if let Some(cursor) = &mut self.rows {
                    cursor.supply(rows);
                }
                return 0;
            }
            Ok(_) => panic!("a cursor asks for parts of the history"),
            Err(error) if self.rows.is_some() => {
                self.failed = Some(error);
                return 0;
            }
            Err(error) => FromStore::Failed(error),
        };
        let touched = match &supplied {
            FromStore::View(view) => view.index_bytes,
            FromStore::Group(records) => records.len() as u64,
            FromStore::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        };
        add(&node.counters.history_touched, touched);
        self.reader.supply(supplied);
        touched
    }

    /// Whether it has, or waits for, memory that others wait for too.
    pub fn is_in_the_way(&self, node: &Node) -> bool {
        self.permit.as_ref().is_some_and(|(_, permit)| permit.is_granted()) && node.history.admission.is_wanted()
    }

    /// Gives its memory back, to ask for it again. Not while a read is under way.
    pub fn let_go(&mut self) {
        self.reader.let_go();
        self.permit = None;
    }

    /// Whether it may hold what the span it is in takes.
    fn is_admitted(&mut self, node: &Node, waiter: &Waiter) -> bool {
        let Some((span, bytes)) = self.reader.in_span() else { return true };
        match &self.permit {
            Some((of, permit)) if *of == span => permit.is_granted(),
            _ => {
                // Given back first: nobody waits for what it has itself.
                self.permit = None;
                let permit = node.history.admission.ask(bytes, waiter);
                let granted = permit.is_granted();
                self.permit = Some((span, permit));
                granted
            }
        }
    }

    /// Reads on, a slice of 256 KiB or one record. `waiter` is woken when there is memory that it could not get.
    pub fn step(
        &mut self,
        node: &Node,
        selector: &mut dyn Selector,
        out: &mut Vec<Slice>,
        waiter: &Waiter,
    ) -> HistoryStep {
        if node.history.is_database() {
            return self.step_rows(node, selector, out);
        }
        if !self.is_admitted(node, waiter) {
            return HistoryStep::Crowded;
        }
        let step = {
            let table = node.history.table.read();
            let voids = node.history.voids.read();
            self.reader.step(&table, &voids, &mut OnDisk(selector))
        };
        if self.reader.in_span().is_none() {
            self.permit = None;
        }
        match step {
            StoreStep::Need(need) => HistoryStep::Need(self.request(node, need)),
            StoreStep::Slices(slices) => {
                add(&node.counters.history_useful, slices.bytes as u64);
                out.extend(slices.slices.into_iter().map(slice));
                HistoryStep::Read { through: Sequence(slices.through), passed_bytes: SLICE_BYTES as u64 }
            }
            StoreStep::End { .. } => HistoryStep::End,
            StoreStep::Damaged { text } => HistoryStep::Damaged { text },
            StoreStep::Trimmed { first, .. } => HistoryStep::Trimmed { first: Sequence(first) },
        }
    }

    fn request(&self, node: &Node, need: Need) -> ReadRequest {
        let filters = Arc::clone(&self.filters);
        match need {
            Need::Bytes(request) => {
                add(&node.counters.history_bytes, request.bytes as u64);
                ReadRequest::Bytes(request)
            }
            Need::Choose { segment } => ReadRequest::Choose { segment, filters },
            Need::View { span, next } => ReadRequest::View { span, next, filters },
            Need::Group(request) => {
                add(&node.counters.history_bytes, request.disk_bytes);
                ReadRequest::Group(request)
            }
        }
    }
}

impl HistoryCursor {
    fn step_rows(&mut self, node: &Node, selector: &mut dyn Selector, out: &mut Vec<Slice>) -> HistoryStep {
        let (next, first) = (self.next(), node.history.first_kept());
        if next < first {
            return HistoryStep::Trimmed { first };
        }
        if let Some(text) = self.failed.take() {
            return HistoryStep::Damaged { text };
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

/// About how many bytes of files lie between two sequences.
fn bytes_between(table: &SegmentTable, from: u64, to: u64) -> u64 {
    let part = |first: u64, last: u64, bytes: u64| {
        // Numbers skip, so this is low where few messages lie: then there is little to pass.
        let numbers = last.saturating_sub(first) + 1;
        if to > last { u64::MAX } else { (to - from).saturating_mul(bytes / numbers) }
    };
    if let Some(info) = table.span_at(from) {
        return part(info.first_sequence, info.last_sequence, info.bytes);
    }
    table.from_sequence(from).map_or(0, |info| part(info.first_sequence, info.last_sequence, info.batches_end))
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
