//! Opening a data directory: whose it is, which segments there are, what they hold, where the stream goes on.
//!
//! ```text
//! lock, stream, manifest, epoch
//! survey of journal/          begun, prepared, free, missing
//! newest valid base           topics, publishers, cursors, voids up to a segment
//! footers behind it           the same, per segment; a damaged one is made up by a scan
//! unsealed segments           scanned: every batch is shown, damage and a torn tail are told apart
//! a new segment               begun with an empty batch that carries `reserved_to`, durable before anything is served
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arioso_disk::{Access, Disk};
use arioso_store::batch::BatchParts;
use arioso_store::checkpoint::{CHECKPOINT_DIR, Described, base_path};
use arioso_store::history::missing_span;
use arioso_store::identity::{Clean, EPOCH_FILE, Epoch, Identity, STREAM_FILE};
use arioso_store::manifest::Manifest;
use arioso_store::publishers::Publishers;
use arioso_store::segment::survey::{Spare, Survey, survey};
use arioso_store::segment::{
    ChainEnd, JOURNAL_DIR, JournalName, KnownEnd, SegmentTable, Torn, free_path, segment_path,
};
use arioso_store::stores::span::spans_without_manifest;
use arioso_store::stores::split::remove_orphans;
use arioso_store::stores::{SpanFile, SpanInfo, list_stores, span_path};
use arioso_store::voids::Voids;
use arioso_store::{Damage, Error as StoreError};
use arioso_stream::Sequence;
use arioso_stream::order::PublisherState;

use super::jobs::{bases_bytes, give_back};
use super::load::{Part, Unsynced};
use super::split::span_bytes;
use super::{Behind, Job, Local, LocalOptions, SEGMENT_BYTES_MIN, write_of};
use crate::error::Error;

/// A stream to be made.
#[derive(Clone, Debug)]
pub struct NewStream {
    /// Its id, never used for another stream.
    pub id: u128,
    /// Its name.
    pub name: String,
    /// The time, unix nanoseconds.
    pub now: i64,
}

/// A topic as a start finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its id.
    pub topic: u32,
    /// Messages, void ones left out.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// The newest one's sequence; 0 for a topic that was named and has none.
    pub last_sequence: Sequence,
}

/// Sees what a start finds, in this order: cursors and batches segment by segment, [`LocalReplay::voids`] once, publishers,
/// topics. What it can't take it remembers, and refuses when the start is over.
pub trait LocalReplay {
    /// The body of a control record 5; a later one of the same cursor counts.
    fn cursor(&mut self, body: &[u8]);

    /// A good batch of an unsealed segment: its header and its records.
    fn batch(&mut self, header: &[u8], records: &[u8]);

    /// Which sequences are to count as void beside those that void records name. Asked after the last batch. `sealed` are
    /// the publishers as of the batch `number_before`, behind which the batches shown begin.
    fn voids(&mut self, sealed: &Publishers, number_before: u64, settled_to: Sequence) -> Vec<(u64, u64)>;

    /// A publisher.
    fn publisher(&mut self, state: PublisherState);

    /// A topic, in the order of the names; those without a message in a sealed segment come after all others.
    fn topic(&mut self, topic: &RecoveredTopic<'_>);
}

/// Something that was found wrong and does not matter for what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The file.
    pub file: String,
    /// What was wrong, and what was done.
    pub what: String,
}

/// What a start found.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Whether the stream was made just now.
    pub made: bool,
    /// The next sequence to give.
    pub next_sequence: Sequence,
    /// No sequence above is given until a batch with a higher one is durable.
    pub reserved_to: Sequence,
    /// No record is stamped below it.
    pub timestamp: i64,
    /// The number of the next batch.
    pub next_batch: u64,
    /// The next topic id.
    pub next_topic: u32,
    /// The next publisher id.
    pub next_publisher: u32,
    /// Everything at or below was settled or void.
    pub settled_to: Sequence,
    /// Whether the last stop was clean.
    pub clean: bool,
    /// All void ranges that files tell or the replay named.
    pub voids: Voids,
    /// What was being written when the machine stopped.
    pub torn: Option<Torn>,
    /// Stretches of the stream that can't be read.
    pub damage: Vec<Damage>,
    /// What was wrong and is made good.
    pub repairs: Vec<Repair>,
    /// Files in the journal's directory that are none of ours.
    pub unknown_files: Vec<String>,
    /// Bytes of unsealed segments that were scanned.
    pub scanned_bytes: u64,
    /// Control records that were passed over because their kind is not known.
    pub unknown_control: u64,
    /// Whether a segment was begun. If not, the disk had no room for one: batches can be submitted once
    /// [`Local::retry`] and a prepare job found some, and the first must be one that carries `reserved_to`.
    pub begun: bool,
}

/// Everything a start gathers on its way.
pub(super) struct Opening<'a> {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: &'a LocalOptions,
    pub(super) identity: Identity,
    pub(super) found: Recovered,
    pub(super) table: SegmentTable,
    pub(super) parts: Vec<Part>,
    pub(super) unsealed: std::collections::VecDeque<(u64, KnownEnd)>,
    pub(super) chain: ChainEnd,
    pub(super) last_sequence: u64,
    pub(super) highest_reserved: u64,
    /// The number of the batch behind which the scanned batches begin.
    pub(super) number_before: Option<u64>,
    /// What was written and is not known to be durable.
    pub(super) unsynced: Unsynced,
}

impl Local {
    /// Opens a data directory and shows what is in it.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &LocalOptions,
        replay: &mut dyn LocalReplay,
    ) -> Result<(Local, Recovered), Error> {
        assert!(options.segment_bytes >= SEGMENT_BYTES_MIN, "the setting was checked where it came in");
        let lock = disk.lock("lock")?;
        let (identity, made) = identity(&*disk, options)?;
        let mut opening = Opening::new(Arc::clone(&disk), options, identity, made);
        opening.remove_temporary()?;
        let (manifest, copies) = opening.manifest()?;
        let (epoch_before, clean) = opening.epoch()?;
        let mut survey = survey(&*disk, opening.identity.stream, manifest.as_ref().map(Manifest::first_in_segments))?;
        let (manifest, next_span) = opening.spans(manifest, &survey)?;
        let first_kept = manifest.as_ref().map(|manifest| manifest.first_sequence);
        opening.table = SegmentTable::new(first_kept.unwrap_or_else(|| lowest(&survey)));
        let span_files = opening.open_spans(manifest.as_ref())?;
        opening.note_survey(&mut survey);
        let manifest = opening.store_manifest(manifest, copies, &survey)?;
        let (bases, base) = opening.base()?;
        let base = opening.base_beside(base, &span_files);
        let covered = base.as_ref().map_or(0, |base| base.segment);
        let described_to = base.as_ref().map_or(0, |base| base.directory.totals().last_sequence.0);
        opening.load(&survey.begun, covered, (base, span_files), replay)?;
        let newest_number = opening.note_end(clean, covered, described_to);
        opening.void(replay)?;
        opening.tell(replay)?;
        let clean = opening.settle_numbers(clean);
        if !clean {
            opening.write_doubtful_again()?;
        }
        let in_headers = survey.begun.iter().map(|begun| begun.header.server_epoch).max().unwrap_or(0);
        let epoch = epoch_before.max(in_headers).max(survey.incarnation >> 32) + 1;
        // The mark of a clean stop is gone, and the epoch taken, before the first number.
        Epoch { epoch, clean: None }.store(&*disk)?;
        let free = opening.collect_free(&survey, newest_number + 1)?;
        let base_bytes = bases_bytes(&*disk, &bases)?;
        let mut bytes_of_spans = BTreeMap::new();
        for info in opening.table.spans() {
            bytes_of_spans.insert(info.span, span_bytes(&*disk, info)?);
        }
        let Opening { identity, found, table, unsealed, chain, last_sequence, .. } = opening;
        let spare = survey.prepared.iter().any(|spare| spare.id == newest_number + 1);
        let mut local = Local {
            disk,
            options: options.clone(),
            identity,
            _lock: lock,
            epoch,
            incarnations: 0,
            table,
            newest_number,
            manifest,
            voids: found.voids.clone(),
            current: None,
            behind: Behind::Wanted,
            wanted_bytes: 0,
            chain,
            last_sequence: last_sequence.max(found.next_sequence.0 - 1),
            timestamp: found.timestamp,
            settled_to: found.settled_to.0,
            next_topic: found.next_topic,
            next_publisher: found.next_publisher,
            steps: Vec::new(),
            effects: Vec::new(),
            first_step_batch: None,
            flying: None,
            durable: chain.batch,
            durable_quiet: true,
            unsealed,
            sealing: false,
            seal_failed: false,
            base_bytes,
            checkpoint_wanted: false,
            bases,
            checkpointing: false,
            checkpoint_failed: false,
            retiring: None,
            retire_running: false,
            splitting: Default::default(),
            span_bytes: bytes_of_spans,
            next_span,
            free,
            spare,
            lost: false,
        };
        let found = local.begin(found)?;
        Ok((local, found))
    }

    /// Begins the first segment of this start with an empty batch.
    fn begin(&mut self, mut found: Recovered) -> Result<Recovered, Error> {
        if let Some(job) = self.prepare_job()
            && let Some(super::Notice::Failed { error, .. }) = self.done(Job::Prepare(job).run())
        {
            return match error {
                StoreError::Disk(error) if error.is_full() => Ok(found),
                error => Err(error.into()),
            };
        }
        let next = found.next_sequence.0;
        let mut parts = BatchParts::empty(self.chain.batch + 1, next - 1, self.timestamp, self.epoch);
        parts.synced_to = self.chain.batch;
        parts.reserved_to = (next - 1).saturating_add(self.options.reserve_ahead);
        parts.settled_to = self.settled_to;
        self.submit(write_of(&parts));
        if let Some(job) = self.take_write() {
            self.wrote(job.run(), &mut Vec::new())?;
        }
        found.reserved_to = Sequence(parts.reserved_to);
        found.next_batch = self.chain.batch + 1;
        found.begun = true;
        Ok(found)
    }
}

/// Whose directory this is.
fn identity(disk: &dyn Disk, options: &LocalOptions) -> Result<(Identity, bool), Error> {
    disk.create_dir(JOURNAL_DIR)?;
    disk.create_dir(CHECKPOINT_DIR)?;
    if let Some(identity) = Identity::load(disk)? {
        return Ok((identity, false));
    }
    let has_segments = |name: &str| matches!(JournalName::read(name), JournalName::Segment(_));
    if disk.list(JOURNAL_DIR)?.iter().any(|entry| has_segments(&entry.name)) {
        return Err(StoreError::NoIdentity { file: STREAM_FILE.to_owned() }.into());
    }
    let Some(new) = &options.new_stream else { return Err(Error::NoStream { file: STREAM_FILE }) };
    let identity = Identity { stream: new.id, name: new.name.clone(), made_at: new.now };
    identity.store(disk)?;
    Ok((identity, true))
}

/// A file that is gone, or too short, is damage; anything else is the disk's failure.
fn is_missing(error: &arioso_disk::Error) -> bool {
    error.is_not_found() || matches!(error, arioso_disk::Error::Short { .. })
}

/// The first sequence there is, when no manifest tells.
fn lowest(survey: &Survey) -> u64 {
    survey.begun.first().map_or(1, |begun| begun.header.next_sequence)
}

impl<'a> Opening<'a> {
    fn new(disk: Arc<dyn Disk>, options: &'a LocalOptions, identity: Identity, made: bool) -> Opening<'a> {
        let timestamp = identity.made_at;
        Opening {
            disk,
            options,
            identity,
            found: Recovered {
                made,
                next_sequence: Sequence(1),
                reserved_to: Sequence::ZERO,
                timestamp,
                next_batch: 1,
                next_topic: 1,
                next_publisher: 1,
                settled_to: Sequence::ZERO,
                clean: false,
                voids: Voids::default(),
                torn: None,
                damage: Vec::new(),
                repairs: Vec::new(),
                unknown_files: Vec::new(),
                scanned_bytes: 0,
                unknown_control: 0,
                begun: false,
            },
            table: SegmentTable::default(),
            parts: Vec::new(),
            unsealed: Default::default(),
            chain: ChainEnd::default(),
            last_sequence: 0,
            highest_reserved: 0,
            number_before: None,
            unsynced: Unsynced::default(),
        }
    }

    pub(super) fn repair(&mut self, file: impl Into<String>, what: impl Into<String>) {
        self.found.repairs.push(Repair { file: file.into(), what: what.into() });
    }

    /// Removes what was being written when the process stopped.
    fn remove_temporary(&mut self) -> Result<(), Error> {
        for dir in ["", JOURNAL_DIR, CHECKPOINT_DIR] {
            let suffix = arioso_disk::temporary("");
            let old: Vec<_> = self.disk.list(dir)?.into_iter().filter(|entry| entry.name.ends_with(&suffix)).collect();
            for entry in &old {
                let path = if dir.is_empty() { entry.name.clone() } else { format!("{dir}/{}", entry.name) };
                self.disk.remove(&path)?;
            }
            // The directories themselves may be new.
            self.disk.sync_dir(dir)?;
        }
        Ok(())
    }

    /// What says which segments are in charge, and how many of its copies are to be written.
    fn manifest(&mut self) -> Result<(Option<Manifest>, usize), Error> {
        let (mut manifest, wrong) = Manifest::load(&*self.disk)?;
        for error in &wrong {
            self.repair("manifest", format!("{error}; the other copy counts, or else the segments present"));
        }
        if manifest.is_none() && self.found.made {
            // A new stream has one from the start, so that a lost first segment is noticed.
            manifest = Some(Manifest { first_segment: 1, first_sequence: 1, ..Manifest::default() });
        }
        let copies = if manifest.is_none() || self.found.made { 2 } else { wrong.len() };
        Ok((manifest, copies))
    }

    /// Writes copies of the manifest that are missing or bad; without any, the segments present are in charge.
    fn store_manifest(&self, manifest: Option<Manifest>, copies: usize, survey: &Survey) -> Result<Manifest, Error> {
        let first_segment = survey.begun.first().map_or(1, |begun| begun.header.number);
        let made_up = Manifest { first_segment, first_sequence: lowest(survey), ..Manifest::default() };
        let mut manifest = manifest.unwrap_or(made_up);
        for _ in 0..copies {
            manifest.store(&*self.disk)?;
        }
        Ok(manifest)
    }

    /// Makes up a manifest where spans took the place of segments and no copy of it is left; removes files of spans that are
    /// not in charge. Gives the next span's id too.
    fn spans(&mut self, manifest: Option<Manifest>, survey: &Survey) -> Result<(Option<Manifest>, u64), Error> {
        let manifest = match manifest {
            Some(manifest) => Some(manifest),
            None => {
                let lowest_segment = survey.begun.first().map(|begun| begun.header.number);
                let spans = spans_without_manifest(&*self.disk, self.identity.stream, lowest_segment)?;
                spans.last().zip(spans.first()).map(|(last, first)| Manifest {
                    first_segment: last.last_segment + 1,
                    first_sequence: first.first_sequence,
                    spans: spans.iter().map(SpanInfo::manifest_row).collect(),
                    ..Manifest::default()
                })
            }
        };
        let in_charge: Vec<u64> = manifest.iter().flat_map(|manifest| &manifest.spans).map(|span| span.span).collect();
        let listed = list_stores(&*self.disk)?;
        let next =
            listed.files.iter().filter_map(|(_, span)| *span).chain(in_charge.iter().copied()).max().unwrap_or(0);
        remove_orphans(&*self.disk, &in_charge)?;
        Ok((manifest, next + 1))
    }

    /// Opens the spans in charge. One that can't be used is named with its range; the rest stays readable.
    fn open_spans(&mut self, manifest: Option<&Manifest>) -> Result<Vec<SpanFile>, Error> {
        let mut files = Vec::new();
        for span in manifest.iter().flat_map(|manifest| &manifest.spans) {
            match SpanFile::open(&*self.disk, self.identity.stream, span.span) {
                Ok(file) => {
                    let info = file.info();
                    self.found.timestamp = self.found.timestamp.max(info.last_timestamp);
                    self.last_sequence = self.last_sequence.max(info.last_sequence);
                    self.table.push_span(*info);
                    files.push(file);
                }
                Err(StoreError::Disk(error)) if !is_missing(&error) => return Err(error.into()),
                Err(error) => {
                    self.repair(span_path(span.span), format!("{error}; what it held can't be read"));
                    let range = (span.first_sequence, span.last_sequence);
                    let damage = missing_span(span.span, range, span.last_segment);
                    self.table.push_missing(damage.clone());
                    self.found.damage.push(damage);
                }
            }
        }
        Ok(files)
    }

    /// A base that ends inside a span would count some of it twice.
    fn base_beside(&mut self, base: Option<Described>, spans: &[SpanFile]) -> Option<Described> {
        let inside = |base: &Described| {
            spans.iter().any(|file| (file.info().first_segment..file.info().last_segment).contains(&base.segment))
        };
        base.filter(|base| {
            let cuts = inside(base);
            if cuts {
                self.repair(base_path(base.segment), "it ends inside a span; the spans and the footers tell the same");
            }
            !cuts
        })
    }

    /// The epoch of the last start, and the mark of a clean stop.
    fn epoch(&mut self) -> Result<(u64, Option<Clean>), Error> {
        Ok(match Epoch::load(&*self.disk)? {
            Some(Ok(epoch)) => (epoch.epoch, epoch.clean),
            Some(Err(bad)) => {
                self.repair(EPOCH_FILE, format!("{bad}; the start goes on as after an unclean stop"));
                (0, None)
            }
            None => (0, None),
        })
    }

    fn note_survey(&mut self, survey: &mut Survey) {
        self.found.unknown_files = std::mem::take(&mut survey.unknown);
        for missing in std::mem::take(&mut survey.missing) {
            self.table.push_missing(missing.clone());
            self.found.damage.push(missing);
        }
        for begun in &survey.begun {
            if let Some(bad) = begun.header_bad {
                let file = segment_path(begun.header.number);
                self.repair(file, format!("header: {bad}; it is made up from the first batch"));
            }
        }
    }

    /// Where numbering goes on; tells whether the last stop was clean.
    fn settle_numbers(&mut self, clean: Option<Clean>) -> bool {
        let after = self.last_sequence.saturating_add(1);
        // A clean mark that the journal contradicts is not believed.
        let clean = clean.filter(|clean| clean.next_sequence >= after && self.found.torn.is_none());
        let found = &mut self.found;
        let next = match clean {
            Some(clean) => clean.next_sequence,
            None => after.max(self.highest_reserved.saturating_add(1)),
        };
        found.next_sequence = Sequence(next.max(self.table.first_kept()).max(1));
        found.timestamp = found.timestamp.max(clean.map_or(i64::MIN, |clean| clean.timestamp));
        found.next_batch = self.chain.batch + 1;
        found.clean = clean.is_some();
        found.clean
    }

    /// Writes what is not known to be durable again, the same bytes to the same places, and syncs it: headers of segments and
    /// batches. A sync that failed before the stop may have left pages that look written and are not: only writing them
    /// again makes the next sync speak of them.
    fn write_doubtful_again(&mut self) -> Result<(), Error> {
        let mut bytes = vec![0; 1 << 20];
        for (number, known) in &self.unsealed {
            let Some(from) = self.unsynced.begins(*number) else { continue };
            let file = self.disk.open(&segment_path(*number), Access::ReadWrite)?;
            let mut at = from;
            while at < known.end {
                let piece = &mut bytes[..(known.end - at).min(1 << 20) as usize];
                file.read_exact_at(piece, at)?;
                file.write_at(piece, at)?;
                at += piece.len() as u64;
            }
            file.sync_data()?;
        }
        Ok(())
    }

    /// Names what is missing behind the newest segment, if the mark of a clean stop or a base tells of more. Gives the number
    /// above which segments are begun: not one that was lost, so that it stays missing at every start, nor one the base covers.
    fn note_end(&mut self, clean: Option<Clean>, covered: u64, described_to: u64) -> u64 {
        let newest = self.table.last().map_or(0, |info| info.number);
        let told = clean.map_or(0, |clean| clean.next_sequence.saturating_sub(1)).max(described_to);
        if told <= self.last_sequence && covered <= newest {
            return newest;
        }
        let (segment, first) = (newest + 1, self.last_sequence + 1);
        let damage = Damage { file: segment_path(segment), segment, offset: 0, bytes: 0, first, last: told };
        self.table.push_missing(damage.clone());
        self.found.damage.push(damage);
        self.last_sequence = self.last_sequence.max(told);
        covered.max(segment)
    }

    /// Files that may be written again; what is too much is removed.
    fn collect_free(&mut self, survey: &Survey, next_number: u64) -> Result<Vec<Spare>, Error> {
        let mut free = Vec::new();
        for spare in &survey.free {
            if free.len() < self.options.free_files_max {
                free.push(*spare);
            } else {
                self.disk.remove(&free_path(spare.id))?;
            }
        }
        for spare in survey.prepared.iter().filter(|spare| spare.id != next_number) {
            self.disk.remove(&segment_path(spare.id))?;
        }
        if !survey.retired.is_empty() {
            let retired: Vec<_> = survey.retired.iter().map(|spare| (spare.id, 0)).collect();
            give_back(&*self.disk, &retired, 0)?;
        }
        self.disk.sync_dir(JOURNAL_DIR)?;
        Ok(free)
    }
}
