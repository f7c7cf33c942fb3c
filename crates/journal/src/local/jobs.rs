//! What is not on a batch's way: making the next segment ready, sealing full ones, checkpoints, retiring. Each is a job
//! that runs on another thread and whose end is handed back; one of each kind at a time.

use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use arioso_store::checkpoint::{base_path, create_anew, write_base};
use arioso_store::manifest::Manifest;
use arioso_store::segment::survey::Spare;
use arioso_store::segment::{
    EarlierNames, JOURNAL_DIR, KnownEnd, SealInput, Sealed, SegmentHeader, SegmentState, TopicNames, free_path, seal,
    segment_path,
};
use arioso_store::stores::SpanInfo;
use arioso_store::stores::split::remove_span;
use arioso_store::voids::Voids;
use arioso_store::{Damage, Error as StoreError};

use super::split::{GiveBackJob, SwitchJob};
use super::{Behind, Local, PAGE, Prepared};

/// Zeros are written in pieces of this size.
const ZERO_BYTES: usize = 1 << 20;
/// Bases kept: the newest and the one before, should the newest be damaged.
const BASES_KEPT: usize = 2;

/// Something to be run on another thread; its end goes to [`Local::done`].
#[derive(Debug)]
pub enum Job {
    /// Make the next segment ready.
    Prepare(PrepareJob),
    /// Write a full segment's footer.
    Seal(SealJob),
    /// Write a new base.
    Checkpoint(CheckpointJob),
    /// Give segments and spans back.
    Retire(RetireJob),
    /// Let a span take the place of its segments.
    Switch(SwitchJob),
    /// Give back the segments whose place a span took.
    GiveBack(GiveBackJob),
}

/// How a job ended.
#[derive(Debug)]
pub struct JobDone(pub(super) Done);

#[derive(Debug)]
pub(super) enum Done {
    Prepare { result: Result<Prepared, arioso_disk::Error>, space: Option<u64>, need: u64, source: Source },
    Seal { segment: u64, result: Result<Sealed, StoreError> },
    Checkpoint { upto: u64, result: Result<(Vec<u64>, u64), StoreError> },
    Retire { manifest: Manifest, result: Result<Vec<Spare>, StoreError> },
    Switch { manifest: Manifest, info: Box<SpanInfo>, result: Result<u64, StoreError> },
    GiveBack { result: Result<Vec<Spare>, StoreError> },
}

/// What is worth telling of a job that ended.
#[derive(Debug)]
pub enum Notice {
    /// A segment is sealed; stretches of it that can't be read were found on the way.
    Sealed {
        /// The segment.
        segment: u64,
        /// What can't be read.
        damage: Vec<Damage>,
    },
    /// A base was written.
    Checkpointed {
        /// Up to and including this segment.
        upto: u64,
    },
    /// A span took the place of its segments.
    Split {
        /// What is known of it.
        info: Box<SpanInfo>,
    },
    /// Segments were given back.
    Retired {
        /// The first kept.
        first_segment: u64,
        /// The first sequence kept.
        first_sequence: u64,
    },
    /// A job failed. Nothing is lost by it; it is tried again when [`Local::retry`] is called.
    Failed {
        /// What was tried.
        what: &'static str,
        /// On what.
        segment: u64,
        /// Why it failed.
        error: StoreError,
    },
}

/// Where the file of the next segment comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// It is made.
    Fresh,
    /// A retired one is written again.
    Free(Spare),
    /// A file has the segment's name already: left by an earlier life, or too small.
    Named,
}

impl Job {
    /// Does it.
    pub fn run(self) -> JobDone {
        match self {
            Job::Prepare(job) => job.run(),
            Job::Seal(job) => job.run(),
            Job::Checkpoint(job) => job.run(),
            Job::Retire(job) => job.run(),
            Job::Switch(job) => job.run(),
            Job::GiveBack(job) => job.run(),
        }
    }
}

/// Make the next segment ready.
#[derive(Debug)]
pub struct PrepareJob {
    disk: Arc<dyn Disk>,
    header: SegmentHeader,
    source: Source,
}

impl PrepareJob {
    fn run(self) -> JobDone {
        let (need, source) = (self.header.capacity, self.source);
        let result = self.prepare();
        if result.is_err() && matches!(source, Source::Fresh) {
            // Give back what was taken: on a full disk it is all there is.
            let _ = self.disk.remove(&arioso_disk::temporary(&segment_path(self.header.number)));
        }
        let full = result.as_ref().is_err_and(arioso_disk::Error::is_full);
        let space = full.then(|| self.disk.space().map_or(0, |space| space.available));
        JobDone(Done::Prepare { result, space, need, source })
    }

    fn prepare(&self) -> arioso_disk::Result<Prepared> {
        let path = segment_path(self.header.number);
        let temporary = arioso_disk::temporary(&path);
        let (file, named) = match self.source {
            Source::Fresh => (create_anew(&*self.disk, &temporary)?, temporary),
            Source::Free(spare) => {
                let free = free_path(spare.id);
                (self.disk.open(&free, Access::ReadWrite)?, free)
            }
            Source::Named => (self.disk.open(&path, Access::ReadWrite)?, path.clone()),
        };
        fill(&*file, self.header.capacity)?;
        file.write_at(&self.header.encode(), 0)?;
        file.sync_all()?;
        if named != path {
            drop(file);
            self.disk.rename(&named, &path)?;
        }
        self.disk.sync_dir(JOURNAL_DIR)?;
        Ok(Prepared { header: self.header, file: self.disk.open(&path, Access::ReadWrite)? })
    }
}

/// Brings a file to its length, all of it written: a later sync has no metadata to write.
fn fill(file: &dyn File, capacity: u64) -> arioso_disk::Result<()> {
    let have = file.len()?;
    if have > capacity {
        return file.set_len(capacity);
    }
    let zeros = vec![0; ZERO_BYTES];
    let mut at = have;
    while at < capacity {
        let piece = (capacity - at).min(ZERO_BYTES as u64) as usize;
        file.write_at(&zeros[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}

/// Write a full segment's footer.
#[derive(Debug)]
pub struct SealJob {
    disk: Arc<dyn Disk>,
    stream: u128,
    segment: u64,
    end: KnownEnd,
    voids: Voids,
    cursors: Vec<u8>,
    names: Option<Arc<dyn TopicNames>>,
    window_messages: u32,
}

impl SealJob {
    /// The segment.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// The encoded cursors part: every cursor set, committed or dropped since the seal before.
    pub fn set_cursors(&mut self, cursors: Vec<u8>) {
        self.cursors = cursors;
    }

    /// Where topics' names can be asked for; without it they are found in the files before.
    pub fn set_names(&mut self, names: Arc<dyn TopicNames>) {
        self.names = Some(names);
    }

    fn run(self) -> JobDone {
        let SealJob { disk, stream, segment, end, voids, cursors, names, window_messages } = self;
        let input = SealInput { stream, segment, end, voids: &voids, cursors: &cursors, window_messages };
        let earlier = EarlierNames::new(Arc::clone(&disk), stream, segment);
        let names: &dyn TopicNames = names.as_deref().unwrap_or(&earlier);
        JobDone(Done::Seal { segment, result: seal(&*disk, &input, names) })
    }
}

/// Write a new base.
#[derive(Debug)]
pub struct CheckpointJob {
    disk: Arc<dyn Disk>,
    stream: u128,
    upto: u64,
    window_messages: u32,
    first_kept: u64,
    bases: Vec<u64>,
}

impl CheckpointJob {
    fn run(self) -> JobDone {
        let upto = self.upto;
        JobDone(Done::Checkpoint { upto, result: self.write() })
    }

    /// Gives the bases there are afterwards, and their bytes.
    fn write(mut self) -> Result<(Vec<u64>, u64), StoreError> {
        write_base(&*self.disk, self.stream, self.upto, self.window_messages, self.first_kept)?;
        self.bases.push(self.upto);
        let old = self.bases.len().saturating_sub(BASES_KEPT);
        for base in self.bases.drain(..old) {
            match self.disk.remove(&base_path(base)) {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        let bytes = bases_bytes(&*self.disk, &self.bases)?;
        Ok((self.bases, bytes))
    }
}

/// Bytes of the files of these bases.
pub(super) fn bases_bytes(disk: &dyn Disk, bases: &[u64]) -> Result<u64, StoreError> {
    let bytes = |base: &u64| disk.open(&base_path(*base), Access::Read)?.len();
    Ok(bases.iter().map(bytes).sum::<arioso_disk::Result<u64>>()?)
}

/// Give segments back.
#[derive(Debug)]
pub struct RetireJob {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    segments: Vec<(u64, u64)>,
    spans: Vec<u64>,
    free_files: usize,
}

impl RetireJob {
    fn run(mut self) -> JobDone {
        let result = self.retire();
        JobDone(Done::Retire { manifest: self.manifest, result })
    }

    fn retire(&mut self) -> Result<Vec<Spare>, StoreError> {
        self.manifest.store(&*self.disk)?;
        self.spans.iter().try_for_each(|span| remove_span(&*self.disk, *span))?;
        give_back(&*self.disk, &self.segments, self.free_files)
    }
}

/// Keeps up to `free_files` of the segments' files to be written again and removes the others. The manifest says already
/// that they do not count.
pub(super) fn give_back(disk: &dyn Disk, segments: &[(u64, u64)], free_files: usize) -> Result<Vec<Spare>, StoreError> {
    let mut free = Vec::new();
    for (number, incarnation) in segments {
        let path = segment_path(*number);
        if free.len() < free_files {
            disk.rename(&path, &free_path(*incarnation))?;
            free.push(Spare { id: *incarnation, bytes: 0 });
        } else {
            disk.remove(&path)?;
        }
    }
    disk.sync_dir(JOURNAL_DIR)?;
    Ok(free)
}

impl Local {
    /// The next thing to be done elsewhere, if there is any. It may take the prepared segment away to enlarge it: what
    /// [`Local::room`] told before no longer holds.
    pub fn next_job(&mut self) -> Option<Job> {
        if self.lost {
            return None;
        }
        // What is let go makes room, and is quick.
        self.retire_job()
            .map(Job::Retire)
            .or_else(|| self.prepare_job().map(Job::Prepare))
            .or_else(|| self.switch_job().map(Job::Switch))
            .or_else(|| self.give_back_job().map(Job::GiveBack))
            // Before the next seal: while much is published there is always one to be done.
            .or_else(|| self.checkpoint_job().map(Job::Checkpoint))
            .or_else(|| self.seal_job().map(Job::Seal))
    }

    /// Whether a job failed, for whatever reason: [`Local::retry`] is to be called in a while.
    pub fn has_failed(&self) -> bool {
        matches!(self.behind, Behind::Full { .. } | Behind::Failed) || self.seal_failed || self.checkpoint_failed
    }

    /// Tries again what failed: to be called now and then, and when room was made on the disk.
    pub fn retry(&mut self) {
        if matches!(self.behind, Behind::Full { .. } | Behind::Failed) {
            self.behind = Behind::Wanted;
        }
        self.seal_failed = false;
        self.checkpoint_failed = false;
        self.splitting.retry();
    }

    pub(super) fn prepare_job(&mut self) -> Option<PrepareJob> {
        let capacity = self.options.segment_bytes.max(PAGE + self.wanted_bytes);
        let too_small = |header: &SegmentHeader| header.capacity < PAGE + self.wanted_bytes;
        let source = match &self.behind {
            Behind::Wanted if self.spare => Source::Named,
            Behind::Wanted => self.free.pop().map_or(Source::Fresh, Source::Free),
            Behind::Ready(prepared) if too_small(&prepared.header) => Source::Named,
            _ => return None,
        };
        self.behind = Behind::Preparing;
        self.spare = false;
        let incarnation = self.next_incarnation();
        let header = SegmentHeader {
            stream: self.identity.stream,
            number: self.next_number(),
            incarnation,
            state: SegmentState::Prepared,
            recycled: !matches!(source, Source::Fresh),
            next_sequence: 0,
            timestamp: 0,
            server_epoch: self.epoch,
            previous: Default::default(),
            next_topic: 0,
            next_publisher: 0,
            capacity: capacity.next_multiple_of(PAGE),
            settled_to: 0,
        };
        Some(PrepareJob { disk: Arc::clone(&self.disk), header, source })
    }

    fn seal_job(&mut self) -> Option<SealJob> {
        let (segment, end) = *self.unsealed.front().filter(|_| !self.sealing && !self.seal_failed)?;
        self.sealing = true;
        Some(SealJob {
            disk: Arc::clone(&self.disk),
            stream: self.identity.stream,
            segment,
            end,
            voids: self.voids.clone(),
            cursors: Vec::new(),
            names: None,
            window_messages: self.options.window_messages,
        })
    }

    fn checkpoint_job(&mut self) -> Option<CheckpointJob> {
        if self.checkpointing || self.checkpoint_failed {
            return None;
        }
        let first_unsealed = self.unsealed.front().map(|(segment, _)| *segment);
        let sealed = |number: u64| first_unsealed.is_none_or(|first| number < first);
        let newest = self.table.iter().rev().find(|info| info.trailer.is_some() && sealed(info.number))?.number;
        let base = self.bases.last().copied().unwrap_or(0);
        let first = self.table.iter().next().map_or(1, |info| info.number);
        let pace = if self.checkpoint_wanted { 1 } else { self.options.checkpoint_segments };
        if newest < base.max(first - 1) + pace {
            return None;
        }
        self.checkpoint_wanted = false;
        self.checkpointing = true;
        Some(CheckpointJob {
            disk: Arc::clone(&self.disk),
            stream: self.identity.stream,
            upto: newest,
            window_messages: self.options.window_messages,
            first_kept: self.table.first_kept(),
            bases: self.bases.clone(),
        })
    }

    /// Asks for segments and spans all of whose sequences are below `sequence` to be given back. Kept are segments that the
    /// older of two bases does not cover: a start may need them.
    pub fn retire_below(&mut self, sequence: u64) {
        self.retiring = self.retiring.max(Some(sequence));
    }

    /// Bytes on disk beside the spans and segments in the table: what splitting has written or will, the one behind the current, spare files, checkpoints, the next segment to be
    /// made, and as much again for the footers and the checkpoint that are being written.
    pub fn other_bytes(&self) -> u64 {
        let spare = self.free.len() as u64 + 3;
        // What is split lies on the disk twice until it is switched.
        let split = self.options.split_segments;
        self.options.segment_bytes.saturating_mul(spare + split).saturating_add(self.base_bytes)
    }

    fn retire_job(&mut self) -> Option<RetireJob> {
        let below = self.retiring.filter(|_| !self.retire_running && !self.checkpointing)?;
        let covered = self.covered();
        let oldest = self.table.iter().next();
        // A segment that is to go and not covered yet wants a base sooner.
        self.checkpoint_wanted |=
            oldest.is_some_and(|info| info.trailer.is_some() && info.last_sequence < below && info.number > covered);
        let spans = self.table.spans();
        let spans_going: Vec<u64> =
            spans.iter().take_while(|info| info.last_sequence < below).map(|info| info.span).collect();
        let goes = |info: &&arioso_store::segment::SegmentInfo| {
            info.trailer.is_some() && info.last_sequence < below && info.number <= covered
        };
        let first_span = spans.get(spans_going.len()).map(|info| info.first_sequence);
        let mut going = Vec::new();
        // What is being split stays until it is.
        if first_span.is_none() && self.splitting.is_idle() {
            going.extend(self.table.iter().take_while(goes).map(|info| (info.number, info.incarnation)));
        }
        if going.is_empty() && spans_going.is_empty() {
            return None;
        }
        let kept = self.table.after(going.last().map_or(0, |(number, _)| *number))?;
        let (first_segment, first_sequence) = (kept.number, first_span.unwrap_or(kept.first_sequence));
        self.table.retire(first_segment, first_sequence);
        self.retire_running = true;
        let mut manifest = Manifest { first_segment, first_sequence, ..self.manifest.clone() };
        manifest.spans.retain(|span| !spans_going.contains(&span.span));
        let free_files = self.options.free_files_max.saturating_sub(self.free.len());
        Some(RetireJob { disk: Arc::clone(&self.disk), manifest, segments: going, spans: spans_going, free_files })
    }

    /// Segments up to this one are covered by every base that a start may fall back to.
    pub(super) fn covered(&self) -> u64 {
        if self.bases.len() < BASES_KEPT { 0 } else { self.bases[self.bases.len() - BASES_KEPT] }
    }

    /// A job ended.
    pub fn done(&mut self, done: JobDone) -> Option<Notice> {
        match done.0 {
            Done::Prepare { result, space, need, source } => self.prepared(result, space, need, source),
            Done::Seal { segment, result } => self.sealed(segment, result),
            Done::Checkpoint { upto, result } => {
                self.checkpointing = false;
                match result {
                    Ok((bases, bytes)) => {
                        (self.bases, self.base_bytes) = (bases, bytes);
                        Some(Notice::Checkpointed { upto })
                    }
                    Err(error) => {
                        self.checkpoint_failed = true;
                        Some(Notice::Failed { what: "checkpoint", segment: upto, error })
                    }
                }
            }
            Done::Switch { manifest, info, result } => Some(self.switched(manifest, info, result)),
            Done::GiveBack { result } => self.given_back(result),
            Done::Retire { manifest, result } => {
                self.retire_running = false;
                let Manifest { first_segment, first_sequence, .. } = manifest;
                self.span_bytes.retain(|span, _| manifest.spans.iter().any(|kept| kept.span == *span));
                self.manifest = manifest;
                match result {
                    Ok(free) => {
                        self.free.extend(free);
                        self.retry();
                        Some(Notice::Retired { first_segment, first_sequence })
                    }
                    Err(error) => Some(Notice::Failed { what: "retire", segment: first_segment, error }),
                }
            }
        }
    }

    fn prepared(
        &mut self,
        result: Result<Prepared, arioso_disk::Error>,
        space: Option<u64>,
        need: u64,
        source: Source,
    ) -> Option<Notice> {
        match result {
            Ok(prepared) => {
                self.behind = Behind::Ready(prepared);
                None
            }
            Err(error) => {
                match source {
                    Source::Free(spare) => self.free.push(spare),
                    Source::Named => self.spare = true,
                    Source::Fresh => {}
                }
                self.behind = space.map_or(Behind::Failed, |free| Behind::Full { free, need });
                let (what, segment, error) = ("prepare", self.next_number(), StoreError::Disk(error));
                Some(Notice::Failed { what, segment, error })
            }
        }
    }

    fn sealed(&mut self, segment: u64, result: Result<Sealed, StoreError>) -> Option<Notice> {
        self.sealing = false;
        match result {
            Ok(Sealed { trailer, file_bytes, damage }) => {
                self.unsealed.pop_front();
                self.splitting.more_came();
                if let Some(info) = self.table.get_mut(segment) {
                    info.trailer = Some(Box::new(trailer));
                    info.file_bytes = file_bytes;
                    info.places = Default::default();
                }
                Some(Notice::Sealed { segment, damage })
            }
            Err(error) => {
                self.seal_failed = true;
                Some(Notice::Failed { what: "seal", segment, error })
            }
        }
    }

    /// A segment got its last batch, and that is durable.
    pub(super) fn ended(&mut self, segment: u64, end: KnownEnd) {
        self.unsealed.push_back((segment, end));
        self.seal_failed = false;
    }
}
