//! Reads history for one cursor. A state machine: it says which bytes it needs, whoever drives it reads them.
//!
//! ```text
//!  step() ──▶ Need(request)  ──▶ the driver reads ──▶ supply(bytes)
//!         ──▶ Choose(segment) ─▶ the driver asks the segment's directory ──▶ chosen(bool)
//!         ──▶ Slices           runs of selected records, as they lie in what was read
//!         ──▶ End, Damaged, Trimmed
//! ```
//!
//! Both checksums of a batch, its place and its number are tested before anything of it is given out. Memory: one piece of
//! 1 MiB, or one batch if that is larger; slices share it.

use std::sync::Arc;

use arioso_disk::File;
use arioso_stream::Records;
use arioso_stream::record::CONTROL_TOPIC;
use bytes::Bytes;

use super::segment_path;
use super::table::{SegmentInfo, SegmentTable};
use super::trailer::Trailer;
use super::window::PIECE_BYTES;
use crate::Damage;
use crate::batch::{BadBatch, BatchHeader, FIXED_BYTES, PAGE_BYTES};
use crate::directory::{DirectoryReader, Entries};
use crate::places::{BatchPlace, Places};
use crate::voids::Voids;

const PAGE: u64 = PAGE_BYTES as u64;
/// Records looked at in one step: what may lie between a commit and its live delivery.
pub const SLICE_BYTES: usize = 256 << 10;
/// The largest places part: a place a MiB in a segment of 1 TiB.
const PLACES_BYTES_MAX: u64 = 32 << 20;

/// Which topics are wanted.
pub trait Selector {
    /// Whether a topic is.
    fn selects(&mut self, topic: u32) -> bool;

    /// Whether all are.
    fn everything(&self) -> bool;
}

/// Bytes to be read from a segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The segment.
    pub segment: u64,
    /// Where in its file.
    pub offset: u64,
    /// How many bytes; fewer only where the file ends.
    pub bytes: usize,
}

/// Selected records, in order.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    /// Runs of records, end to end.
    pub slices: Vec<Bytes>,
    /// Everything selected up to here has been given.
    pub through: u64,
    /// Bytes of the slices.
    pub bytes: usize,
}

/// What a step came to.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read this, give it to [`SegmentReader::supply`], step again.
    Need(ReadRequest),
    /// Does this sealed segment's directory have a wanted topic? Answer by [`SegmentReader::chosen`], step again.
    Choose {
        /// The segment.
        segment: u64,
    },
    /// Records; none if nothing in what was passed was selected.
    Slices(Slices),
    /// Nothing more may be read now; step again when there is.
    End {
        /// Everything selected up to here has been given.
        through: u64,
    },
    /// A stretch can't be read. The next step goes on behind it.
    Damaged(Damage),
    /// The position is behind retention. Nothing follows until [`SegmentReader::seek`].
    Trimmed {
        /// The next sequence that was wanted.
        wanted: u64,
        /// The first that is kept.
        first: u64,
    },
}

/// Where a reader stands in a segment.
#[derive(Clone, Copy, Debug)]
struct At {
    segment: u64,
    incarnation: u64,
    stage: Stage,
    offset: u64,
    /// Number and checksum of the batch before, if known.
    before: Option<(u64, u32)>,
    /// The last sequence before `offset`.
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Is there anything wanted in the segment?
    Choose,
    /// Where to begin?
    Place,
    /// At a batch.
    Batches,
    /// Behind a bad batch: the page to look at for a good one.
    Search { page: u64 },
}

/// A piece of a file.
#[derive(Clone, Debug, Default)]
struct Piece {
    segment: u64,
    incarnation: u64,
    offset: u64,
    bytes: Bytes,
    /// Fewer bytes came than were asked for: the file ends behind them.
    short: bool,
}

/// A batch that is being given out.
#[derive(Clone, Debug)]
struct Open {
    records: Bytes,
    at: usize,
    last: u64,
    /// Segment, offset and bytes of the batch, for errors.
    place: (u64, u64, u64),
    /// Every record may be given as it lies, if all topics are wanted.
    whole: bool,
}

/// Reads history for one cursor.
#[derive(Debug)]
pub struct SegmentReader {
    next: u64,
    not_before: Option<i64>,
    at: Option<At>,
    asked: Option<ReadRequest>,
    piece: Piece,
    open: Option<Open>,
    waiting: Option<Step>,
}

/// What one turn of the machine came to.
enum Turn {
    /// Goes on.
    On,
    /// Something to tell.
    Tell(Step),
}

impl SegmentReader {
    /// From a sequence on, or the first kept above it.
    pub fn from_sequence(sequence: u64) -> SegmentReader {
        SegmentReader {
            next: sequence.max(1),
            not_before: None,
            at: None,
            asked: None,
            piece: Piece::default(),
            open: None,
            waiting: None,
        }
    }

    /// From the first record at or after a time (unix nanoseconds) whose sequence is at or above `first_kept`.
    pub fn from_time(timestamp: i64, first_kept: u64) -> SegmentReader {
        SegmentReader { not_before: Some(timestamp), ..SegmentReader::from_sequence(first_kept) }
    }

    /// The next sequence wanted.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Goes on at another sequence.
    pub fn seek(&mut self, sequence: u64) {
        *self = SegmentReader { piece: std::mem::take(&mut self.piece), ..SegmentReader::from_sequence(sequence) };
    }

    /// What was asked for by [`Step::Need`].
    pub fn supply(&mut self, bytes: Bytes) {
        let (Some(asked), Some(at)) = (self.asked.take(), self.at) else { return };
        let ReadRequest { segment, offset, bytes: wanted } = asked;
        let short = bytes.len() < wanted;
        self.piece = Piece { segment, incarnation: at.incarnation, offset, bytes, short };
    }

    /// The answer to [`Step::Choose`].
    pub fn chosen(&mut self, wanted: bool) {
        let Some(at) = &mut self.at else { return };
        if at.stage == Stage::Choose {
            if wanted {
                at.stage = Stage::Place;
            } else {
                // Passed whole: the batches are taken as read.
                (at.stage, at.offset) = (Stage::Batches, u64::MAX);
            }
        }
    }

    /// Goes on until there is something to tell. Looks at no more than a slice of records.
    pub fn step(&mut self, table: &SegmentTable, voids: &Voids, selector: &mut dyn Selector) -> Step {
        if let Some(step) = self.waiting.take() {
            return step;
        }
        let mut out = Slices::default();
        let mut walked = 0;
        while walked < SLICE_BYTES {
            if self.open.is_some() {
                walked += self.walk(voids, selector, &mut out);
                if self.waiting.is_none() {
                    continue;
                }
                break;
            }
            match self.turn(table, voids, selector.everything()) {
                Turn::On => {}
                Turn::Tell(step) if out.slices.is_empty() => return step,
                // Told after the records that came before it.
                Turn::Tell(step) => {
                    self.waiting = Some(step);
                    break;
                }
            }
        }
        out.through = self.next.saturating_sub(1);
        Step::Slices(out)
    }

    fn turn(&mut self, table: &SegmentTable, voids: &Voids, everything: bool) -> Turn {
        if self.next < table.first_kept() {
            return Turn::Tell(Step::Trimmed { wanted: self.next, first: table.first_kept() });
        }
        let Some(at) = self.at else { return self.enter(table, everything) };
        let Some(info) = table.get(at.segment).filter(|info| info.incarnation == at.incarnation) else {
            self.at = None;
            return Turn::On;
        };
        match at.stage {
            Stage::Choose => Turn::Tell(Step::Choose { segment: at.segment }),
            Stage::Place => self.find_place(info),
            Stage::Batches if at.offset >= info.batches_end => self.leave(table, info),
            Stage::Batches => self.read_batch(info, voids),
            Stage::Search { page } => self.search(info, page),
        }
    }

    /// Finds the segment to read next.
    fn enter(&mut self, table: &SegmentTable, everything: bool) -> Turn {
        let by_sequence = table.from_sequence(self.next);
        let by_time = self.not_before.and_then(|time| table.from_time(time));
        let info = match (by_sequence, by_time) {
            (Some(a), Some(b)) => Some(if a.number < b.number { b } else { a }),
            (a, _) => a,
        };
        let Some(info) = info else {
            return Turn::Tell(Step::End { through: self.next.saturating_sub(1) });
        };
        if let Some(missing) = table.missing_at(self.next).filter(|_| self.not_before.is_none()) {
            self.next = missing.last + 1;
            return Turn::Tell(Step::Damaged(missing.clone()));
        }
        let stage = if info.trailer.is_some() && !everything { Stage::Choose } else { Stage::Place };
        self.at = Some(At {
            segment: info.number,
            incarnation: info.incarnation,
            stage,
            offset: PAGE,
            before: None,
            last: info.first_sequence.saturating_sub(1),
        });
        Turn::On
    }

    /// Goes to the segment behind, or tells that there is none.
    fn leave(&mut self, table: &SegmentTable, info: &SegmentInfo) -> Turn {
        // Its last batch may hold nothing and still tell how far numbers were given.
        self.next = self.next.max(info.last_sequence + 1);
        let sealed = info.trailer.is_some() || table.after(info.number).is_some();
        if !sealed {
            return Turn::Tell(Step::End { through: self.next.saturating_sub(1) });
        }
        if table.after(info.number).is_none() {
            return Turn::Tell(Step::End { through: self.next - 1 });
        }
        self.at = None;
        Turn::On
    }

    /// Where in the segment to begin.
    fn find_place(&mut self, info: &SegmentInfo) -> Turn {
        let from_start = self.next <= info.first_sequence && self.not_before.is_none();
        let place = if from_start {
            None
        } else if let Some(trailer) = &info.trailer {
            let part = trailer.places;
            if part.bytes == 0 || part.bytes > PLACES_BYTES_MAX {
                None
            } else {
                match self.piece_at(info, part.offset, part.bytes as usize) {
                    None => return self.need(info, part.offset, part.bytes as usize),
                    // A damaged part only means reading from the start.
                    Some(bytes) => Places::read(&bytes[..bytes.len().min(part.bytes as usize)])
                        .ok()
                        .and_then(|places| self.place_in(&places)),
                }
            }
        } else {
            self.place_in(&info.places)
        };
        let place = place.filter(|place| place.offset < info.batches_end);
        if let Some(at) = &mut self.at {
            at.stage = Stage::Batches;
            if let Some(place) = place {
                at.offset = place.offset;
                at.last = place.first_sequence.saturating_sub(1);
            }
        }
        Turn::On
    }

    fn place_in(&self, places: &Places) -> Option<BatchPlace> {
        let by_sequence = places.before_sequence(self.next);
        let by_time = self.not_before.and_then(|time| places.before_time(time));
        match (by_sequence, by_time) {
            (Some(a), Some(b)) if a.offset < b.offset => Some(b),
            (None, b) => b,
            (a, _) => a,
        }
    }

    /// The bytes from `offset` on, if at least `need` are at hand, or all that the file has.
    fn piece_at(&self, info: &SegmentInfo, offset: u64, need: usize) -> Option<Bytes> {
        let piece = &self.piece;
        if piece.segment != info.number || piece.incarnation != info.incarnation {
            return None;
        }
        let skip = usize::try_from(offset.checked_sub(piece.offset)?).ok()?;
        let there = piece.bytes.len().checked_sub(skip)?;
        (there >= need || skip == 0 && piece.short).then(|| piece.bytes.slice(skip..))
    }

    fn need(&mut self, info: &SegmentInfo, offset: u64, bytes: usize) -> Turn {
        let request = ReadRequest { segment: info.number, offset, bytes };
        self.asked = Some(request);
        self.piece = Piece::default();
        Turn::Tell(Step::Need(request))
    }

    /// Asks for a batch's bytes and what follows them.
    fn need_batch(&mut self, info: &SegmentInfo, offset: u64, need: usize) -> Turn {
        let ahead = (info.batches_end - offset).min(PIECE_BYTES as u64) as usize;
        self.need(info, offset, need.max(ahead))
    }

    /// Whether so many bytes are to be had for a batch.
    fn may_have(&self, info: &SegmentInfo, offset: u64, need: usize) -> bool {
        let ends = self.piece.segment == info.number && self.piece.offset == offset && self.piece.short;
        offset.checked_add(need as u64).is_some_and(|end| end <= info.batches_end) && !ends
    }

    /// Opens the batch at the reader's offset, passes over it, or finds it bad.
    fn read_batch(&mut self, info: &SegmentInfo, voids: &Voids) -> Turn {
        let Some(mut at) = self.at else { return Turn::On };
        let Some(bytes) = self.piece_at(info, at.offset, FIXED_BYTES) else {
            return self.need_batch(info, at.offset, FIXED_BYTES);
        };
        let header = match BatchHeader::read_at(&bytes, at.incarnation, at.offset) {
            Ok(header) if continues(at.before, &header) && header.end() <= info.batches_end => header,
            Err(BadBatch::Short { need, .. }) if self.may_have(info, at.offset, need) => {
                return self.need_batch(info, at.offset, need);
            }
            _ => return self.bad_batch(at.offset),
        };
        let too_old = self.not_before.is_some_and(|time| header.timestamp() < time);
        let total = header.header_bytes() + header.records_bytes();
        let passed = header.records_count() == 0 || header.last_sequence() < self.next || too_old;
        if !passed {
            let records = match header.records(&bytes) {
                Ok(_) => bytes.slice(header.header_bytes()..total),
                Err(BadBatch::Short { need, .. }) if self.may_have(info, at.offset, need) => {
                    return self.need_batch(info, at.offset, need);
                }
                Err(_) => return self.bad_batch(header.end()),
            };
            if let Some(time) = self.not_before.take() {
                self.next = self.next.max(first_at(&records, time).unwrap_or(header.last_sequence() + 1));
            }
            let whole = header.messages_only() && !voids.overlaps(header.first_sequence(), header.last_sequence());
            let whole = whole && self.next <= header.first_sequence();
            let (last, place) = (header.last_sequence(), (at.segment, at.offset, header.file_bytes()));
            self.open = Some(Open { records, at: 0, last, place, whole });
        } else if self.not_before.is_some() || header.records_count() > 0 {
            self.next = self.next.max(header.last_sequence() + 1);
        }
        at.before = Some((header.number(), header.checksum()));
        (at.offset, at.last) = (header.end(), header.last_sequence());
        self.at = Some(at);
        Turn::On
    }

    /// The batch at the reader's offset can't be read: look for a good one from `page` on.
    fn bad_batch(&mut self, page: u64) -> Turn {
        if let Some(at) = &mut self.at {
            let page = page.max(at.offset + PAGE);
            at.stage = Stage::Search { page };
        }
        Turn::On
    }

    /// Looks for the next good batch, page by page.
    fn search(&mut self, info: &SegmentInfo, page: u64) -> Turn {
        let Some(at) = self.at else { return Turn::On };
        if page >= info.batches_end {
            return self.tell_damage(info, info.batches_end, info.last_sequence);
        }
        let Some(bytes) = self.piece_at(info, page, FIXED_BYTES) else {
            return self.need_batch(info, page, FIXED_BYTES);
        };
        match BatchHeader::read_at(&bytes, at.incarnation, page) {
            Ok(found) if at.before.is_none_or(|(number, _)| found.number() > number) => {
                let empty = found.records_count() == 0;
                let last = if empty { found.first_sequence() } else { found.first_sequence().saturating_sub(1) };
                self.tell_damage(info, page, last)
            }
            Err(BadBatch::Short { need, .. }) if self.may_have(info, page, need) => self.need_batch(info, page, need),
            _ => self.bad_batch(page + PAGE),
        }
    }

    /// Names what lies between the reader's offset and `to`, and goes on there.
    fn tell_damage(&mut self, info: &SegmentInfo, to: u64, last: u64) -> Turn {
        let Some(at) = &mut self.at else { return Turn::On };
        let damage = Damage {
            file: segment_path(info.number),
            segment: info.number,
            offset: at.offset,
            bytes: to - at.offset,
            first: at.last + 1,
            last,
        };
        (at.offset, at.before, at.last, at.stage) = (to, None, at.last.max(last), Stage::Batches);
        if damage.last < self.next || damage.first > damage.last {
            return Turn::On;
        }
        self.next = damage.last + 1;
        Turn::Tell(Step::Damaged(damage))
    }

    /// Gives out a stretch of the open batch; tells how many bytes it looked at.
    fn walk(&mut self, voids: &Voids, selector: &mut dyn Selector, out: &mut Slices) -> usize {
        let Some(open) = &mut self.open else { return 0 };
        if open.whole && open.at == 0 && selector.everything() {
            let bytes = open.records.len();
            out.bytes += bytes;
            out.slices.push(open.records.clone());
            self.next = open.last + 1;
            self.open = None;
            return bytes;
        }
        let everything = selector.everything();
        let from = open.at;
        let mut run = from..from;
        let mut push = |run: std::ops::Range<usize>| {
            if !run.is_empty() {
                out.bytes += run.len();
                out.slices.push(open.records.slice(run));
            }
        };
        let mut parsed = true;
        for record in Records::new(&open.records[from..]) {
            let Ok(record) = record else {
                parsed = false;
                break;
            };
            let (start, bytes) = (open.at, record.bytes().len());
            let sequence = record.sequence().0;
            let wanted = sequence >= self.next
                && record.topic() != CONTROL_TOPIC
                && (everything || selector.selects(record.topic()))
                && (open.whole || !voids.contains(sequence));
            if wanted && run.end == start {
                run.end = start + bytes;
            } else if wanted {
                push(std::mem::replace(&mut run, start..start + bytes));
            }
            open.at += bytes;
            self.next = self.next.max(sequence + 1);
            if open.at - from >= SLICE_BYTES {
                break;
            }
        }
        push(run);
        let walked = open.at - from;
        if !parsed {
            // Its checksum was right: it was written so. What can't be told apart is not given out.
            let (segment, offset, bytes) = open.place;
            let file = segment_path(segment);
            let damage = Damage { file, segment, offset, bytes, first: self.next, last: open.last };
            self.waiting = Some(Step::Damaged(damage));
        }
        if !parsed || open.at == open.records.len() {
            self.next = self.next.max(open.last + 1);
            self.open = None;
        }
        walked
    }
}

fn continues(before: Option<(u64, u32)>, header: &BatchHeader<'_>) -> bool {
    before.is_none_or(|(number, checksum)| {
        header.number().checked_sub(1) == Some(number) && header.previous_checksum() == checksum
    })
}

/// The sequence of the first record at or after a time.
fn first_at(records: &[u8], timestamp: i64) -> Option<u64> {
    let mut records = Records::new(records).map_while(Result::ok);
    records.find(|record| record.timestamp() >= timestamp).map(|record| record.sequence().0)
}

/// Reads what a reader asked for; fewer bytes only where the file ends.
pub fn read_request(file: &dyn File, request: &ReadRequest) -> crate::Result<Bytes> {
    let mut bytes = vec![0; request.bytes];
    let got = file.read_at(&mut bytes, request.offset)?;
    bytes.truncate(got);
    Ok(bytes.into())
}

/// What is wanted, as a directory can be asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// A topic.
    Topic(&'a [u8]),
    /// A topic and all below it.
    Subtree(&'a [u8]),
}

/// Whether a sealed segment has a message of a topic that is wanted: the answer to [`Step::Choose`]. A directory that can't
/// be read says yes, so that nothing is passed over.
pub fn has_wanted(file: Arc<dyn File>, trailer: &Trailer, wanted: &[Wanted<'_>]) -> bool {
    let range = trailer.directory.offset..trailer.directory.offset + trailer.directory.bytes;
    let Ok(directory) = DirectoryReader::open(file, range) else { return true };
    wanted.iter().any(|wanted| match wanted {
        Wanted::Topic(name) => directory.get(name).map_or(true, |entry| entry.is_some_and(|entry| entry.messages > 0)),
        Wanted::Subtree(name) => {
            let mut subtree = directory.subtree(name);
            loop {
                match subtree.advance() {
                    Ok(false) => return false,
                    Ok(true) if subtree.entry().messages == 0 => {}
                    _ => return true,
                }
            }
        }
    })
}
