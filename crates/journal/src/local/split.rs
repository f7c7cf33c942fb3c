//! Splitting sealed segments into spans of subtree stores (docs/format.md section 9.3), from the journal's side: which segments
//! are next, the switch by the manifest, and the segments given back behind it.
//!
//! ```text
//!  next_split ──▶ Split::step ... ──▶ split_done ──▶ SwitchJob ──▶ readers are told ──▶ GiveBackJob
//!                 a thread of its own                manifest                           files
//! ```

use std::sync::Arc;

use arioso_disk::{Access, Disk};
use arioso_store::Error as StoreError;
use arioso_store::manifest::Manifest;
use arioso_store::segment::survey::Spare;
use arioso_store::stores::{SpanInfo, Split, SplitInput, span_path, store_path};
use arioso_store::voids::Voids;

use super::Local;
use super::jobs::{Done, JobDone, Notice, give_back};

/// Room for so many segments is left to the journal: splitting must not be what fills the disk.
const SEGMENTS_SPARED: u64 = 4;

/// How far the split that is under way has come.
#[derive(Debug, Default)]
pub(super) enum Splitting {
    #[default]
    Idle,
    /// The last try failed: the next one waits until another segment is sealed.
    Failed,
    /// Stores are being written.
    Running,
    /// Written and read back; the manifest does not name the span yet.
    Written(Box<SpanInfo>),
    /// The manifest could not be written.
    SwitchFailed(Box<SpanInfo>),
    Switching,
    /// Segments, by number and incarnation, that count no longer.
    Switched(Vec<(u64, u64)>),
    GivingBack,
}

impl Splitting {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Splitting::Idle | Splitting::Failed)
    }

    pub(super) fn more_came(&mut self) {
        if let Splitting::Failed = self {
            *self = Splitting::Idle;
        }
    }

    pub(super) fn retry(&mut self) {
        if let Splitting::SwitchFailed(info) = self {
            *self = Splitting::Written(std::mem::take(info));
        }
    }
}

/// Let a span take the place of its segments.
#[derive(Debug)]
pub struct SwitchJob {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    info: Box<SpanInfo>,
}

impl SwitchJob {
    pub(super) fn run(mut self) -> JobDone {
        let result = span_bytes(&*self.disk, &self.info);
        let result = result.and_then(|bytes| self.manifest.store(&*self.disk).map(|()| bytes));
        JobDone(Done::Switch { manifest: self.manifest, info: self.info, result })
    }
}

/// Bytes of a span's files; one that is gone has none.
pub(super) fn span_bytes(disk: &dyn Disk, info: &SpanInfo) -> Result<u64, StoreError> {
    let length = |path: String| match disk.open(&path, Access::Read).and_then(|file| file.len()) {
        Err(error) if error.is_not_found() => Ok(0),
        other => other,
    };
    let mut bytes = length(span_path(info.span))?;
    for store in 0..info.stores {
        bytes += length(store_path(info.span, store))?;
    }
    Ok(bytes)
}

/// Give back the segments whose place a span took.
#[derive(Debug)]
pub struct GiveBackJob {
    disk: Arc<dyn Disk>,
    segments: Vec<(u64, u64)>,
    free_files: usize,
}

impl GiveBackJob {
    pub(super) fn run(self) -> JobDone {
        JobDone(Done::GiveBack { result: give_back(&*self.disk, &self.segments, self.free_files) })
    }
}

impl Local {
    /// The next segments to be split, if there are enough of them: to be stepped to its end elsewhere, which is given to
    /// [`Local::split_done`].
    pub fn next_split(&mut self) -> Option<Split> {
        let count = usize::try_from(self.options.split_segments).ok().filter(|count| *count > 0)?;
        if self.lost || self.retire_running || !matches!(self.splitting, Splitting::Idle) {
            return None;
        }
        let covered = self.covered();
        let first = self.table.iter().next()?.number;
        let mut segments = Vec::new();
        for (at, info) in self.table.iter().take(count).enumerate() {
            let trailer = info.trailer.as_ref().filter(|trailer| trailer.damaged == 0)?;
            let settled = trailer.last_sequence <= self.settled_to;
            // A gap is a lost segment: what lies behind one is not joined to what lies before.
            if info.number != first + at as u64 || info.number > covered || !settled {
                return None;
            }
            segments.push(info.number);
        }
        // One is always left: it names where the chain of batches goes on.
        if segments.len() < count || self.table.iter().len() == count {
            return None;
        }
        let bytes: u64 = self.table.iter().take(count).map(|info| info.batches_end).sum();
        if !self.has_space_for(bytes) {
            self.splitting = Splitting::Failed;
            return None;
        }
        let (low, high) = (self.table.get(segments[0])?, self.table.get(segments[count - 1])?);
        let mut voids = Voids::default();
        for (first, last) in self.voids.ranges() {
            voids.add((*first).max(low.first_sequence), (*last).min(high.last_sequence));
        }
        self.splitting = Splitting::Running;
        let span = self.next_span;
        self.next_span += 1;
        Some(Split::new(SplitInput {
            disk: Arc::clone(&self.disk),
            stream: self.identity.stream,
            span,
            segments,
            voids,
            stores_max: self.options.stores_max,
            window_messages: self.options.window_messages,
        }))
    }

    /// Whether the disk has room for a span beside its segments, and for the next segments of the journal.
    fn has_space_for(&self, bytes: u64) -> bool {
        let need = bytes.saturating_add(SEGMENTS_SPARED * self.options.segment_bytes);
        self.disk.space().is_ok_and(|space| space.available >= need)
    }

    /// A split ended. After an error what it wrote was removed.
    pub fn split_done(&mut self, result: Result<SpanInfo, StoreError>) -> Option<Notice> {
        match result {
            Ok(info) => {
                self.splitting = Splitting::Written(Box::new(info));
                None
            }
            Err(error) => {
                self.splitting = Splitting::Failed;
                let segment = self.table.iter().next().map_or(0, |info| info.number);
                Some(Notice::Failed { what: "split", segment, error })
            }
        }
    }

    /// The spans in charge, oldest first, with the bytes of their files.
    pub fn spans(&self) -> impl Iterator<Item = (&SpanInfo, u64)> {
        let bytes = |info: &SpanInfo| self.span_bytes.get(&info.span).copied().unwrap_or(0);
        self.table.spans().iter().map(move |info| (info, bytes(info)))
    }

    pub(super) fn switch_job(&mut self) -> Option<SwitchJob> {
        if self.retire_running || !matches!(self.splitting, Splitting::Written(_)) {
            return None;
        }
        let Splitting::Written(info) = std::mem::replace(&mut self.splitting, Splitting::Switching) else {
            return None;
        };
        self.retire_running = true;
        let mut manifest = Manifest { first_segment: info.last_segment + 1, ..self.manifest.clone() };
        manifest.spans.push(info.manifest_row());
        Some(SwitchJob { disk: Arc::clone(&self.disk), manifest, info })
    }

    pub(super) fn switched(
        &mut self,
        manifest: Manifest,
        info: Box<SpanInfo>,
        result: Result<u64, StoreError>,
    ) -> Notice {
        self.retire_running = false;
        match result {
            Ok(bytes) => {
                self.manifest = manifest;
                self.span_bytes.insert(info.span, bytes);
                let segments = self.table.switch(*info);
                let segments = segments.iter().map(|info| (info.number, info.incarnation)).collect();
                self.splitting = Splitting::Switched(segments);
                Notice::Split { info }
            }
            Err(error) => {
                // It may have become durable nevertheless: until one is that names the same or less, nothing is given back.
                self.manifest.generation = manifest.generation;
                let segment = info.first_segment;
                self.splitting = Splitting::SwitchFailed(info);
                Notice::Failed { what: "switch", segment, error }
            }
        }
    }

    /// Handed out after whoever reads was told of the switch.
    pub(super) fn give_back_job(&mut self) -> Option<GiveBackJob> {
        if !matches!(self.splitting, Splitting::Switched(_)) {
            return None;
        }
        let state = std::mem::replace(&mut self.splitting, Splitting::GivingBack);
        let Splitting::Switched(segments) = state else { return None };
        let free_files = self.options.free_files_max.saturating_sub(self.free.len());
        Some(GiveBackJob { disk: Arc::clone(&self.disk), segments, free_files })
    }

    pub(super) fn given_back(&mut self, result: Result<Vec<Spare>, StoreError>) -> Option<Notice> {
        self.splitting = Splitting::Idle;
        match result {
            Ok(free) => {
                self.free.extend(free);
                self.retry();
                None
            }
            Err(error) => {
                let segment = self.table.iter().next().map_or(0, |info| info.number);
                Some(Notice::Failed { what: "give back", segment, error })
            }
        }
    }
}
