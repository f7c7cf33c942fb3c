//! What lies in a data directory, with every checksum verified: the matter of `arioso inspect`. Nothing is changed, and no
//! more is held in memory than one segment's topics and publishers.
//!
//! ```text
//! stream, epoch, manifest           whose it is, how it ended, what is kept
//! checkpoint/*.base                 every part and every block read
//! stores/*                          every block, run and figure; what belongs to no span in charge is listed
//! journal/*.seg, ascending          header, every batch, the footer's parts, the footer against the batches
//! journal/free-*, prepared          listed
//! what is missing between and behind
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use arioso_disk::{Disk, File};

use crate::checkpoint::{Described, base_path, list_bases};
use crate::directory::Entries;
use crate::head::BadPart;
use crate::identity::{EPOCH_FILE, Epoch, Identity, STREAM_FILE};
use crate::manifest::Manifest;
use crate::part;
use crate::places::Places;
use crate::segment::survey::{Begun, Spare, Survey, survey};
use crate::segment::{Chain, JOURNAL_DIR, Scan, Scanned, Summary, Torn, Trailer, free_path, segment_path};
use crate::stores::inspect::{SpanRow, inspect_span};
use crate::stores::span::spans_without_manifest;
use crate::stores::{STORES_DIR, SpanInfo, list_stores};
use crate::voids::Voids;
use crate::{Damage, Error, Result};

/// Messages of a publisher's window that are looked at: an inspection keeps no windows.
const WINDOW_MESSAGES: u32 = 1;

/// How a file of the journal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Full, with a footer.
    Sealed,
    /// Without a footer: read by scanning.
    Unsealed,
    /// Made ready, never begun.
    Prepared,
    /// Kept to be written again.
    Free,
    /// Below what is kept, not given back yet.
    Retired,
    /// A part of it can't be read.
    Damaged,
    /// It should be there and is not, or nothing in it can be read.
    Missing,
}

impl State {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Sealed => "sealed",
            State::Unsealed => "unsealed",
            State::Prepared => "prepared",
            State::Free => "free",
            State::Retired => "retired",
            State::Damaged => "damaged",
            State::Missing => "missing",
        }
    }
}

/// One file of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// The file.
    pub file: String,
    /// The segment's number; `None` for a free file.
    pub number: Option<u64>,
    /// How it stands.
    pub state: State,
    /// The first sequence of a record in it, 0 if it has none.
    pub first_sequence: u64,
    /// The last sequence given in it.
    pub last_sequence: u64,
    /// Stamp of its first record, unix nanoseconds; 0 if it has none.
    pub first_timestamp: i64,
    /// Stamp of its last record.
    pub last_timestamp: i64,
    /// Good batches.
    pub batches: u64,
    /// Messages in them, void ones included.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Topics with a message in it, or named in it.
    pub topics: u64,
    /// Length of the file.
    pub file_bytes: u64,
}

/// A checkpoint's base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseRow {
    /// The file.
    pub file: String,
    /// Everything up to the end of this segment is in it.
    pub segment: u64,
    /// Topics.
    pub topics: u64,
    /// Messages they have.
    pub messages: u64,
    /// Named publishers.
    pub publishers: u64,
}

/// What an inspection comes upon, in the order in which it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Whose directory it is.
    Stream(Identity),
    /// A base whose every checksum holds.
    Base(BaseRow),
    /// A span of subtree stores.
    Span(SpanRow),
    /// A file of the journal, or one that should be there.
    Segment(SegmentRow),
    /// A stretch of the stream that can't be read.
    Damage(Damage),
    /// Something that is wrong and that the next start makes good from the segments: nothing is lost.
    Repairable {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// What was being written when the machine stopped. Nothing of it was acknowledged.
    Torn(Torn),
    /// Nothing is wrong, but it may be asked about.
    Note {
        /// The file.
        file: String,
        /// What about it.
        what: String,
    },
}

/// The sum of an inspection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Segments that hold a part of the stream.
    pub segments: u64,
    /// Spans that hold a part of it.
    pub spans: u64,
    /// Their stores.
    pub stores: u64,
    /// Good batches.
    pub batches: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// The first sequence kept.
    pub first_kept: u64,
    /// The last sequence given.
    pub last_sequence: u64,
    /// Whether the last stop was clean.
    pub clean: bool,
    /// Server epochs so far.
    pub epoch: u64,
    /// Stretches that can't be read.
    pub damaged: u64,
    /// Things that are wrong and can be made good.
    pub repairable: u64,
}

impl Totals {
    /// Whether every checksum holds and nothing is missing. A torn tail is no damage.
    pub fn is_healthy(&self) -> bool {
        self.damaged == 0 && self.repairable == 0
    }
}

/// Inspects a directory that nobody has open, and tells `each` what it comes upon. An error means that the directory can't be
/// told apart from anything else: it has no identity, or a file of another stream.
pub fn inspect(disk: &dyn Disk, each: &mut dyn FnMut(Finding)) -> Result<Totals> {
    let identity = Identity::load(disk)?.ok_or_else(|| Error::NoIdentity { file: STREAM_FILE.to_owned() })?;
    let stream = identity.stream;
    let mut inspection = Inspection { disk, each, totals: Totals::default(), voids: Voids::default() };
    inspection.tell(Finding::Stream(identity));
    let epoch = inspection.epoch()?;
    let manifest = inspection.manifest()?;
    let first_kept = manifest.as_ref().map(|manifest| manifest.first_sequence);
    let survey = survey(disk, stream, manifest.as_ref().map(Manifest::first_in_segments))?;
    let newest_base = inspection.bases(stream)?;
    let first_span = inspection.spans(stream, manifest, &survey)?;
    inspection.totals.first_kept =
        first_kept.or(first_span).or(survey.begun.first().map(|begun| begun.header.next_sequence)).unwrap_or(1);
    inspection.gather_voids(&survey);
    inspection.segments(&survey);
    inspection.end(&survey, epoch, newest_base);
    inspection.others(&survey);
    Ok(inspection.totals)
}

struct Inspection<'a> {
    disk: &'a dyn Disk,
    each: &'a mut dyn FnMut(Finding),
    totals: Totals,
    /// Ranges that are void by what footers and unsealed segments say: their figures may be left out of a footer.
    voids: Voids,
}

impl Inspection<'_> {
    fn tell(&mut self, finding: Finding) {
        match &finding {
            Finding::Damage(_) => self.totals.damaged += 1,
            Finding::Repairable { .. } => self.totals.repairable += 1,
            _ => {}
        }
        (self.each)(finding);
    }

    fn repairable(&mut self, file: impl Into<String>, what: impl std::fmt::Display) {
        self.tell(Finding::Repairable { file: file.into(), what: what.to_string() });
    }

    fn note(&mut self, file: impl Into<String>, what: impl Into<String>) {
        self.tell(Finding::Note { file: file.into(), what: what.into() });
    }

    fn epoch(&mut self) -> Result<Option<Epoch>> {
        match Epoch::load(self.disk)? {
            Some(Ok(epoch)) => {
                (self.totals.epoch, self.totals.clean) = (epoch.epoch, epoch.clean.is_some());
                return Ok(Some(epoch));
            }
            Some(Err(bad)) => self.repairable(EPOCH_FILE, format!("{bad}; a start goes on as after an unclean stop")),
            None => self.repairable(EPOCH_FILE, "it is missing; a start goes on as after an unclean stop"),
        }
        Ok(None)
    }

    fn manifest(&mut self) -> Result<Option<Manifest>> {
        let (manifest, wrong) = Manifest::load(self.disk)?;
        for error in wrong {
            self.repairable("manifest", error);
        }
        if manifest.is_none() {
            self.repairable("manifest", "no copy of it is there; the segments present are in charge");
        }
        Ok(manifest)
    }

    /// Reads every span in charge to its end, and lists what else lies beside them. Gives the first sequence in them.
    fn spans(&mut self, stream: u128, manifest: Option<Manifest>, survey: &Survey) -> Result<Option<u64>> {
        let spans = match manifest {
            Some(manifest) => manifest.spans,
            None => {
                let lowest = survey.begun.first().map(|begun| begun.header.number);
                let found = spans_without_manifest(self.disk, stream, lowest)?;
                found.iter().map(SpanInfo::manifest_row).collect()
            }
        };
        for span in &spans {
            let (row, damage) = inspect_span(self.disk, stream, span);
            self.totals.spans += 1;
            self.totals.stores += u64::from(row.stores);
            self.totals.messages += row.messages;
            self.totals.bytes += row.bytes;
            self.totals.last_sequence = self.totals.last_sequence.max(row.last_sequence);
            self.tell(Finding::Span(row));
            damage.into_iter().for_each(|damage| self.tell(Finding::Damage(damage)));
        }
        for (file, of) in list_stores(self.disk)?.files {
            match of {
                Some(span) if spans.iter().any(|known| known.span == span) => {}
                Some(_) => self.note(file, "belongs to no span in charge; a start removes it"),
                None => self.note(file, format!("not a file of the bus, though it lies in {STORES_DIR}")),
            }
        }
        Ok(spans.first().map(|span| span.first_sequence))
    }

    /// Reads every base to its end; gives the segment and the last sequence of the newest good one.
    fn bases(&mut self, stream: u128) -> Result<(u64, u64)> {
        let (bases, temporary) = list_bases(self.disk)?;
        for file in temporary {
            self.note(file, "was being written when the process stopped; a start removes it");
        }
        let mut newest = (0, 0);
        for segment in &bases {
            match Described::base(self.disk, stream, *segment, WINDOW_MESSAGES) {
                Ok(base) => {
                    let totals = base.directory.totals();
                    let row = BaseRow {
                        file: base_path(*segment),
                        segment: *segment,
                        topics: totals.entries,
                        messages: totals.messages,
                        publishers: base.publishers.iter().count() as u64,
                    };
                    newest = (*segment, totals.last_sequence.0);
                    self.tell(Finding::Base(row));
                }
                Err(error) => {
                    self.repairable(
                        base_path(*segment),
                        format!("{error}; an older base and the footers tell the same"),
                    );
                }
            }
        }
        Ok(newest)
    }

    /// What is void is known before the first footer is compared with its batches.
    fn gather_voids(&mut self, survey: &Survey) {
        for begun in &survey.begun {
            let Ok(file) = begun.open(self.disk) else { continue };
            // What can't be read here is told when the segment's turn comes.
            let voids = match &begun.trailer {
                Ok(trailer) => part::load(&*file, trailer.voids).ok().and_then(|bytes| Voids::read(&bytes).ok()),
                Err(_) => scanned_voids(file, begun).ok(),
            };
            self.voids.extend(&voids.unwrap_or_default());
        }
    }

    fn segments(&mut self, survey: &Survey) {
        let mut missing: VecDeque<&Damage> = survey.missing.iter().collect();
        for (at, begun) in survey.begun.iter().enumerate() {
            while let Some(damage) = missing.pop_front_if(|damage| damage.segment < begun.header.number) {
                self.missing(damage.clone());
            }
            if let Some(bad) = begun.header_bad {
                self.repairable(
                    segment_path(begun.header.number),
                    format!("header: {bad}; it is made up from the first batch"),
                );
            }
            let next = survey.begun.get(at + 1);
            if let Err(error) = self.segment(begun, next) {
                self.unreadable(begun, &error);
            }
        }
        for damage in missing {
            self.missing(damage.clone());
        }
    }

    fn missing(&mut self, damage: Damage) {
        let (file, number) = (damage.file.clone(), Some(damage.segment));
        let (first_sequence, last_sequence) = (damage.first, damage.last);
        let row = SegmentRow { file, number, first_sequence, last_sequence, ..empty_row(State::Missing) };
        self.tell(Finding::Segment(row));
        self.tell(Finding::Damage(damage));
    }

    /// The file can't be read at all.
    fn unreadable(&mut self, begun: &Begun, error: &Error) {
        let number = begun.header.number;
        let file = segment_path(number);
        let (first, last) = (begun.header.next_sequence, begun.known_end.map_or(u64::MAX, |known| known.last_sequence));
        self.note(file.clone(), error.to_string());
        let row = SegmentRow {
            file: file.clone(),
            number: Some(number),
            first_sequence: first,
            last_sequence: last,
            file_bytes: begun.file_bytes,
            ..empty_row(State::Missing)
        };
        self.tell(Finding::Segment(row));
        self.tell(Finding::Damage(Damage { file, segment: number, offset: 0, bytes: begun.file_bytes, first, last }));
    }

    fn segment(&mut self, begun: &Begun, next: Option<&Begun>) -> Result<()> {
        let file = begun.open(self.disk)?;
        let mut read = read(&file, begun)?;
        if let Some(damage) = gap(begun, next, &read) {
            read.damage.push(damage);
        }
        let summary = &read.summary;
        let state = match &begun.trailer {
            _ if !read.damage.is_empty() => State::Damaged,
            Ok(_) => State::Sealed,
            Err(_) => State::Unsealed,
        };
        let has_records = summary.first_sequence > 0;
        let row = SegmentRow {
            file: file.path().to_owned(),
            number: Some(begun.header.number),
            state,
            first_sequence: summary.first_sequence,
            last_sequence: summary.last_sequence.max(read.chain.last_sequence),
            first_timestamp: if has_records { summary.first_timestamp } else { 0 },
            last_timestamp: if has_records { summary.last_timestamp } else { 0 },
            batches: summary.batches,
            messages: summary.records,
            bytes: summary.records_bytes,
            topics: summary.topics.len() as u64,
            file_bytes: begun.file_bytes,
        };
        self.totals.segments += 1;
        self.totals.batches += row.batches;
        self.totals.messages += row.messages;
        self.totals.bytes += row.bytes;
        self.totals.last_sequence = self.totals.last_sequence.max(row.last_sequence);
        self.tell(Finding::Segment(row));
        if summary.unknown_control > 0 {
            self.note(file.path(), format!("{} control records of a kind not known here", summary.unknown_control));
        }
        self.footer(&file, begun, &read);
        for damage in read.damage {
            self.tell(Finding::Damage(damage));
        }
        match read.torn {
            Some(torn) if next.is_none() => self.tell(Finding::Torn(torn)),
            _ => {}
        }
        Ok(())
    }

    /// Every part of a footer, and the footer against the batches.
    fn footer(&mut self, file: &Arc<dyn File>, begun: &Begun, read: &Read) {
        let trailer = match &begun.trailer {
            Ok(trailer) => trailer,
            Err(BadPart::Magic) if was_cut(begun) => {
                self.note(
                    file.path(),
                    "it was being sealed when the process stopped; it is read by scanning and sealed again",
                );
                return;
            }
            Err(bad) => {
                if was_cut(begun) {
                    self.repairable(file.path(), format!("trailer: {bad}; it is read by scanning and sealed again"));
                }
                return;
            }
        };
        let checked = check_footer(file, trailer, read, &self.voids);
        if let Err(error) = checked {
            self.repairable(file.path(), format!("footer: {error}; it is made again"));
        }
    }

    /// What lies behind the newest segment, if anything tells that there was more.
    fn end(&mut self, survey: &Survey, epoch: Option<Epoch>, (described, described_to): (u64, u64)) {
        let newest = survey.begun.last().map_or(0, |begun| begun.header.number);
        let last = self.totals.last_sequence;
        let clean = epoch.and_then(|epoch| epoch.clean);
        let told = clean.map_or(0, |clean| clean.next_sequence.saturating_sub(1)).max(described_to);
        if told <= last && described <= newest {
            return;
        }
        let segment = newest + 1;
        let damage = Damage { file: segment_path(segment), segment, offset: 0, bytes: 0, first: last + 1, last: told };
        self.missing(damage);
    }

    fn others(&mut self, survey: &Survey) {
        for (spares, state) in
            [(&survey.retired, State::Retired), (&survey.prepared, State::Prepared), (&survey.free, State::Free)]
        {
            for Spare { id, bytes } in spares {
                let free = state == State::Free;
                let file = if free { free_path(*id) } else { segment_path(*id) };
                let number = (!free).then_some(*id);
                self.tell(Finding::Segment(SegmentRow { file, number, file_bytes: *bytes, ..empty_row(state) }));
            }
        }
        for file in &survey.temporary {
            self.note(file.clone(), "was being written when the process stopped; a start removes it");
        }
        for file in &survey.unknown {
            self.note(file.clone(), format!("not a file of the bus, though it lies in {JOURNAL_DIR}"));
        }
    }
}

fn empty_row(state: State) -> SegmentRow {
    SegmentRow {
        file: String::new(),
        number: None,
        state,
        first_sequence: 0,
        last_sequence: 0,
        first_timestamp: 0,
        last_timestamp: 0,
        batches: 0,
        messages: 0,
        bytes: 0,
        topics: 0,
        file_bytes: 0,
    }
}

/// What the batches of a segment come to.
struct Read {
    summary: Summary,
    damage: Vec<Damage>,
    torn: Option<Torn>,
    chain: Chain,
    end: u64,
}

fn read(file: &Arc<dyn File>, begun: &Begun) -> Result<Read> {
    let mut summary = Summary::new(&begun.header, WINDOW_MESSAGES);
    let (none, mut damage) = (Voids::default(), Vec::new());
    let mut scan = Scan::new(Arc::clone(file), &begun.header, begun.known_end)?;
    let torn = loop {
        match scan.step()? {
            Scanned::Batch(header, records) => summary.add(&header, records, &none),
            Scanned::Damage(found) => damage.push(found),
            Scanned::End(torn) => break torn,
        }
    };
    let (chain, end) = (scan.chain(), scan.offset());
    Ok(Read { summary, damage, torn, chain, end })
}

fn scanned_voids(file: Arc<dyn File>, begun: &Begun) -> Result<Voids> {
    Ok(read(&file, begun)?.summary.voids)
}

/// What is missing between a segment whose end nothing else told and the one behind it.
fn gap(begun: &Begun, next: Option<&Begun>, read: &Read) -> Option<Damage> {
    let next = next?.header;
    if begun.known_end.is_some() || next.previous.batch <= read.chain.batch {
        return None;
    }
    let here = begun.header.number;
    let lost = if next.number > here + 1 { here + 1 } else { here };
    let (offset, bytes) = if lost == here { (read.end, begun.file_bytes.saturating_sub(read.end)) } else { (0, 0) };
    let (first, last) = (read.chain.last_sequence + 1, next.next_sequence.saturating_sub(1));
    Some(Damage { file: segment_path(lost), segment: lost, offset, bytes, first, last })
}

/// Whether a segment without a valid trailer had one: an unsealed one keeps the length it was made with.
fn was_cut(begun: &Begun) -> bool {
    begun.header_bad.is_none() && begun.file_bytes != begun.header.capacity
}

fn check_footer(file: &Arc<dyn File>, trailer: &Trailer, read: &Read, voids: &Voids) -> Result<()> {
    let described = Described::footer(Arc::clone(file), trailer, WINDOW_MESSAGES)?;
    let wrong = |offset, bad| Error::part(file.path(), offset, bad);
    if trailer.places.bytes > 0 {
        let bytes = part::load(&**file, trailer.places)?;
        Places::read(&bytes).map_err(|bad| wrong(trailer.places.offset, bad))?;
    }
    if !read.damage.is_empty() || trailer.damaged > 0 {
        // Batches that can't be read now, or could not when it was sealed: the figures differ for that reason.
        return Ok(());
    }
    let summary = &read.summary;
    let same = |field, told: u64, found: u64| {
        let bad = BadPart::Other { field, want: u128::from(found), got: u128::from(told) };
        if told == found { Ok(()) } else { Err(wrong(trailer_offset(file), bad)) }
    };
    same("number of batches", trailer.batches, summary.batches)?;
    same("number of records", trailer.records, summary.records)?;
    same("number of records' bytes", trailer.records_bytes, summary.records_bytes)?;
    same("last sequence", trailer.last_sequence, summary.last_sequence)?;
    if voids.overlaps(trailer.first_sequence, trailer.last_sequence) {
        return Ok(());
    }
    same("number of topics", described.directory.totals().entries, summary.topics.len() as u64)?;
    let mut scan = described.directory.scan(b"");
    while scan.advance()? {
        let entry = scan.entry();
        let sum = summary.topics.get(&entry.topic).copied().unwrap_or_default();
        same("number of a topic's messages", entry.messages, sum.messages)?;
        same("number of a topic's bytes", entry.bytes, sum.bytes)?;
        same("last sequence of a topic", entry.last_sequence.0, sum.last_sequence.0)?;
        same("sum of a topic's records", entry.sum, sum.sum)?;
    }
    Ok(())
}

fn trailer_offset(file: &Arc<dyn File>) -> u64 {
    file.len().unwrap_or(0).saturating_sub(crate::batch::PAGE_BYTES as u64)
}
