//! The table of spans and segments: which there are, which sequences lie in each, and how far each may be read.

use std::collections::VecDeque;

use super::trailer::Trailer;
use crate::Damage;
use crate::places::Places;
use crate::stores::SpanInfo;

/// What is known of one segment.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    /// Its number.
    pub number: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// No sequence below lies in it.
    pub first_sequence: u64,
    /// No sequence above lies in what may be read.
    pub last_sequence: u64,
    /// No record in it is older.
    pub first_timestamp: i64,
    /// No record in it is newer.
    pub last_timestamp: i64,
    /// The offset behind the last batch that may be read: durable, and settled as far as the reader's owner says.
    pub batches_end: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Its trailer, once sealed.
    pub trailer: Option<Box<Trailer>>,
    /// Where batches begin, until it is sealed.
    pub places: Places,
}

/// All spans, and all segments behind them, ascending.
#[derive(Clone, Debug, Default)]
pub struct SegmentTable {
    spans: Vec<SpanInfo>,
    segments: VecDeque<SegmentInfo>,
    missing: Vec<Damage>,
    first_kept: u64,
}

impl SegmentTable {
    /// An empty table of a stream whose sequences are kept from `first_kept` on.
    pub fn new(first_kept: u64) -> SegmentTable {
        SegmentTable { spans: Vec::new(), segments: VecDeque::new(), missing: Vec::new(), first_kept }
    }

    /// Sequences below are not kept.
    pub fn first_kept(&self) -> u64 {
        self.first_kept
    }

    /// The spans, ascending; what lies in them lies in no segment.
    pub fn spans(&self) -> &[SpanInfo] {
        &self.spans
    }

    /// Adds the next span.
    pub fn push_span(&mut self, info: SpanInfo) {
        assert!(self.spans.last().is_none_or(|last| last.last_segment < info.first_segment));
        self.spans.push(info);
    }

    /// The span that holds a sequence, or the next one above it; none if it lies behind all.
    pub fn span_at(&self, sequence: u64) -> Option<&SpanInfo> {
        let at = self.spans.partition_point(|info| info.last_sequence < sequence);
        self.spans.get(at)
    }

    /// A span takes the place of the segments it was made of, which are given.
    pub fn switch(&mut self, info: SpanInfo) -> Vec<SegmentInfo> {
        let count = self.segments.partition_point(|segment| segment.number <= info.last_segment);
        self.push_span(info);
        self.segments.drain(..count).collect()
    }

    /// Whether a sequence lies before all segments: in a span, or missing.
    pub fn is_before_segments(&self, sequence: u64) -> bool {
        self.segments.front().is_none_or(|info| sequence < info.first_sequence)
    }

    /// A sequence at or below which no message is stamped at or after a time.
    pub fn sequence_at_time(&self, timestamp: i64) -> u64 {
        let at = self.spans.partition_point(|info| info.last_timestamp < timestamp);
        match self.spans.get(at) {
            Some(span) => span.first_sequence,
            None => self.from_time(timestamp).map_or(0, |info| info.first_sequence),
        }
    }

    /// Adds the next segment.
    pub fn push(&mut self, info: SegmentInfo) {
        assert!(self.segments.back().is_none_or(|last| last.number < info.number));
        self.segments.push_back(info);
    }

    /// Notes a stretch of the stream that no segment holds any more.
    pub fn push_missing(&mut self, damage: Damage) {
        let at = self.missing.partition_point(|other| other.first < damage.first);
        self.missing.insert(at, damage);
    }

    /// One segment.
    pub fn get(&self, number: u64) -> Option<&SegmentInfo> {
        self.index(number).map(|at| &self.segments[at])
    }

    /// One segment, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut SegmentInfo> {
        self.index(number).map(|at| &mut self.segments[at])
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.segments.binary_search_by_key(&number, |info| info.number).ok()
    }

    /// The newest segment.
    pub fn last(&self) -> Option<&SegmentInfo> {
        self.segments.back()
    }

    /// All segments, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SegmentInfo> + ExactSizeIterator {
        self.segments.iter()
    }

    /// The first segment with sequences at or above one, or the newest.
    pub fn from_sequence(&self, sequence: u64) -> Option<&SegmentInfo> {
        let at = self.segments.partition_point(|info| info.last_sequence < sequence);
        self.segments.get(at).or(self.segments.back())
    }

    /// The first segment with records at or after a time, or the newest.
    pub fn from_time(&self, timestamp: i64) -> Option<&SegmentInfo> {
        let at = self.segments.partition_point(|info| info.last_timestamp < timestamp);
        self.segments.get(at).or(self.segments.back())
    }

    /// The segment behind one.
    pub fn after(&self, number: u64) -> Option<&SegmentInfo> {
        let at = self.segments.partition_point(|info| info.number <= number);
        self.segments.get(at)
    }

    /// The missing stretch that holds a sequence.
    pub fn missing_at(&self, sequence: u64) -> Option<&Damage> {
        self.missing.iter().find(|damage| damage.first <= sequence && sequence <= damage.last)
    }

    /// The missing stretches.
    pub fn missing(&self) -> &[Damage] {
        &self.missing
    }

    /// Forgets the segments below `number`, and spans that end below `first_kept`; sequences are kept from `first_kept` on.
    pub fn retire(&mut self, number: u64, first_kept: u64) -> Vec<SegmentInfo> {
        let count = self.segments.partition_point(|info| info.number < number);
        self.first_kept = self.first_kept.max(first_kept);
        self.missing.retain(|damage| damage.last >= first_kept);
        self.spans.retain(|span| span.last_sequence >= first_kept);
        self.segments.drain(..count).collect()
    }
}
