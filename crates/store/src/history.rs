//! One reader over spans and segments: wherever a message lies on disk, the same order and the same bytes. A state machine: it
//! says what it needs, whoever drives it reads that.
//!
//! ```text
//!   span ──▶ span ──▶ segment ──▶ segment ──▶ end       where the table says the next sequence lies, asked at every step:
//!                                                       a span may take the place of segments at any time
//! ```

use std::sync::Arc;

use arioso_disk::{Access, Disk};
use arioso_stream::filter::Filter;
use bytes::Bytes;

use crate::segment::{self, SegmentReader, SegmentTable, Selector, Slices};
use crate::stores::view::wanted;
use crate::stores::{GroupRequest, SpanCursor, SpanFile, SpanStep, StoreFile, View, span_path};
use crate::voids::Voids;
use crate::{Damage, Result};

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Bytes of a segment.
    Bytes(segment::ReadRequest),
    /// Does this sealed segment's directory have a wanted topic?
    Choose {
        /// The segment.
        segment: u64,
    },
    /// What of a span is wanted?
    View {
        /// The span.
        span: u64,
        /// From this sequence on.
        next: u64,
    },
    /// A group of a store.
    Group(GroupRequest),
}

/// What was read.
#[derive(Clone, Debug)]
pub enum Supplied {
    /// The bytes; fewer than wanted only where the file ends.
    Bytes(Bytes),
    /// Whether the segment has a wanted topic.
    Chosen(bool),
    /// What of the span is wanted.
    View(Arc<View>),
    /// The group's records, in the order of the stream.
    Group(Bytes),
    /// The segment or span is no longer in charge: the table says what is.
    Gone,
    /// It can't be read, and why.
    Failed(String),
}

/// What a directory tells of a piece of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceSum {
    /// The piece's first sequence.
    pub first: u64,
    /// Its last.
    pub last: u64,
    /// Messages in it that match.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// The sum mod 2^64 of the XXH3 of each record.
    pub sum: u64,
}

/// What a reader would read, told beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// Segments touched.
    pub segments: u64,
    /// Stores touched.
    pub stores: u64,
    /// Bytes to read, directories and indexes included.
    pub bytes_to_read: u64,
    /// Bytes of records that match, as far as directories tell.
    pub bytes_useful: u64,
    /// Their number.
    pub messages: u64,
    /// Messages that match in the tip.
    pub tip_messages: u64,
}

/// What a step came to.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read this, give it to [`HistoryReader::supply`], step again.
    Need(Need),
    /// Records; none if nothing in what was passed was selected.
    Slices(Slices),
    /// Nothing more may be read now.
    End {
        /// Everything selected up to here has been given.
        through: u64,
    },
    /// A stretch can't be read. The next step goes on behind it.
    Damaged {
        /// File, offset and range.
        text: String,
    },
    /// The position is behind retention.
    Trimmed {
        /// The next sequence that was wanted.
        wanted: u64,
        /// The first that is kept.
        first: u64,
    },
}

#[derive(Debug)]
enum Mode {
    Segments(Box<SegmentReader>),
    Span { span: u64, last: u64, next: u64, cursor: Option<Box<SpanCursor>> },
}

/// Reads what lies on disk for one cursor.
#[derive(Debug)]
pub struct HistoryReader {
    mode: Mode,
    failed: Option<String>,
}

impl HistoryReader {
    /// From a sequence on, or the first kept above it.
    pub fn from_sequence(sequence: u64) -> HistoryReader {
        HistoryReader { mode: segments(sequence), failed: None }
    }

    /// The next sequence wanted.
    pub fn position(&self) -> u64 {
        match &self.mode {
            Mode::Segments(reader) => reader.position(),
            Mode::Span { cursor: Some(cursor), .. } => cursor.position(),
            Mode::Span { next, .. } => *next,
        }
    }

    /// In a span whose view it has: its id, and the bytes of records that are held at most while it is read.
    pub fn in_span(&self) -> Option<(u64, u64)> {
        match &self.mode {
            Mode::Span { span, cursor: Some(cursor), .. } => Some((*span, cursor.held_bytes_max())),
            _ => None,
        }
    }

    /// Lets go of what is held; the next step asks for it again. Not while something that was asked for is under way.
    pub fn let_go(&mut self) {
        if let Mode::Span { .. } = &self.mode {
            self.mode = segments(self.position());
        }
    }

    /// Goes on at a sequence ahead. Not while something that was asked for is under way.
    pub fn seek(&mut self, sequence: u64) {
        match &mut self.mode {
            Mode::Segments(reader) => reader.seek(sequence),
            Mode::Span { last, cursor: Some(cursor), .. } if sequence <= *last => cursor.seek(sequence),
            Mode::Span { .. } => self.mode = segments(sequence),
        }
    }

    /// What was asked for by [`Step::Need`].
    pub fn supply(&mut self, supplied: Supplied) {
        match (supplied, &mut self.mode) {
            (Supplied::Bytes(bytes), Mode::Segments(reader)) => reader.supply(bytes),
            (Supplied::Chosen(wanted), Mode::Segments(reader)) => reader.chosen(wanted),
            (Supplied::View(view), Mode::Span { span, next, cursor, .. }) if view.span == *span => {
                *cursor = Some(Box::new(SpanCursor::new(view, *next)));
            }
            (Supplied::Group(records), Mode::Span { cursor: Some(cursor), .. }) => cursor.supply(records),
            (Supplied::Failed(text), _) => self.failed = Some(text),
            // The table is asked again.
            _ => self.mode = segments(self.position()),
        }
    }

    /// Goes on until there is something to tell. Looks at no more than a slice of records.
    pub fn step(&mut self, table: &SegmentTable, voids: &Voids, selector: &mut dyn Selector) -> Step {
        if let Some(text) = self.failed.take() {
            return self.fail(text);
        }
        loop {
            let next = self.position();
            if next < table.first_kept() {
                return Step::Trimmed { wanted: next, first: table.first_kept() };
            }
            if let Some(missing) = table.missing_at(next).filter(|_| table.is_before_segments(next)) {
                self.mode = segments(missing.last + 1);
                return Step::Damaged { text: missing.to_string() };
            }
            let Some(info) = table.span_at(next) else {
                if let Mode::Span { .. } = &self.mode {
                    self.mode = segments(next);
                }
                return self.step_segments(table, voids, selector);
            };
            let (id, last_of) = (info.span, info.last_sequence);
            if !matches!(&self.mode, Mode::Span { span, .. } if *span == id) {
                self.mode = Mode::Span { span: id, last: last_of, next, cursor: None };
            }
            if let Mode::Span { cursor: Some(cursor), .. } = &mut self.mode {
                match cursor.step(selector) {
                    SpanStep::Need(request) => return Step::Need(Need::Group(request)),
                    SpanStep::Slices(slices) => return Step::Slices(slices),
                    SpanStep::End => self.mode = segments(last_of + 1),
                }
            } else {
                return Step::Need(Need::View { span: id, next });
            }
        }
    }

    fn step_segments(&mut self, table: &SegmentTable, voids: &Voids, selector: &mut dyn Selector) -> Step {
        let Mode::Segments(reader) = &mut self.mode else { panic!("the mode was set") };
        match reader.step(table, voids, selector) {
            segment::Step::Need(request) => Step::Need(Need::Bytes(request)),
            segment::Step::Choose { segment } => Step::Need(Need::Choose { segment }),
            segment::Step::Slices(slices) => Step::Slices(slices),
            segment::Step::End { through } => Step::End { through },
            segment::Step::Damaged(damage) => Step::Damaged { text: damage.to_string() },
            segment::Step::Trimmed { wanted, first } => Step::Trimmed { wanted, first },
        }
    }

    /// What was asked for can't be read: names the range it may have held, and passes over it.
    fn fail(&mut self, text: String) -> Step {
        match &mut self.mode {
            Mode::Segments(_) => Step::Damaged { text },
            Mode::Span { cursor: Some(cursor), .. } => {
                let (first, last) = cursor.pass_over().unwrap_or((cursor.position(), cursor.position()));
                let first = first.max(cursor.position().min(last));
                Step::Damaged { text: format!("{text}: some of sequences {first} to {last} can't be read") }
            }
            Mode::Span { span, last, next, .. } => {
                let (first, last) = (*next, *last);
                let text = format!("{}: {text}: sequences {first} to {last} can't be read", span_path(*span));
                self.mode = segments(last + 1);
                Step::Damaged { text }
            }
        }
    }
}

fn segments(next: u64) -> Mode {
    Mode::Segments(Box::new(SegmentReader::from_sequence(next)))
}

/// Reads what a reader needs, every file opened anew: for tools that read one thing after the other.
pub fn read_need(disk: &dyn Disk, stream: u128, table: &SegmentTable, need: &Need, filters: &[Filter]) -> Supplied {
    let read = || -> Result<Supplied> {
        let open = |span| move |store| StoreFile::open(disk, stream, span, store).map(Arc::new);
        Ok(match need {
            Need::Bytes(request) => {
                let file = disk.open(&segment::segment_path(request.segment), Access::Read)?;
                Supplied::Bytes(segment::read_request(&*file, request)?)
            }
            Need::Choose { segment } => {
                let file = disk.open(&segment::segment_path(*segment), Access::Read)?;
                let trailer = table.get(*segment).and_then(|info| info.trailer.as_deref());
                let wanted: Vec<_> = filters.iter().map(|filter| wanted(filter.as_str())).collect();
                Supplied::Chosen(trailer.is_none_or(|trailer| segment::has_wanted(file, trailer, &wanted)))
            }
            Need::View { span, next } => {
                let file = SpanFile::open(disk, stream, *span)?;
                Supplied::View(Arc::new(View::of_filters(&file, &mut open(*span), filters, *next)?))
            }
            Need::Group(request) => {
                let store = open(request.span)(request.store)?;
                Supplied::Group(store.load(request.group, &request.ranges)?.records)
            }
        })
    };
    read().unwrap_or_else(|error| Supplied::Failed(error.to_string()))
}

/// A span whose files can't be used, as a stretch that is missing.
pub fn missing_span(span: u64, (first, last): (u64, u64), segment: u64) -> Damage {
    Damage { file: span_path(span), segment, offset: 0, bytes: 0, first, last }
}
