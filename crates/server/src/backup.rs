//! A backup of a running bus: files copied to another folder, the manifest last. A bus that is started on the folder goes on as
//! after an unclean stop.
//!
//! ```text
//!   spans, sealed segments, checkpoints ──copy──▶ folder           they do not change; what retention takes meanwhile is left out
//!   how far is durable? ── asked of the log ──▶ the unsealed ones up to there ──▶ stream, epoch, manifest
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arioso_disk::{Access, Disk, RealDisk};
use arioso_store::checkpoint::{CHECKPOINT_DIR, base_path};
use arioso_store::identity::{Epoch, Identity, STREAM_FILE};
use arioso_store::manifest::Manifest;
use arioso_store::segment::{JOURNAL_DIR, SegmentInfo, segment_path};
use arioso_store::snapshot::{SNAPSHOT_SUFFIX, SNAPSHOTS_DIR};
use arioso_store::stores::split::remove_span;
use arioso_store::stores::{STORES_DIR, SpanInfo, span_path, store_path};
use arioso_stream::Sequence;

use crate::node::Node;

/// What is read and written at once.
const COPY_BYTES: usize = 1 << 20;

/// What a backup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// Every message acknowledged up to here that is kept is in it.
    pub through: Sequence,
    /// Files copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The folder.
    #[error("{}: {what}", path.display())]
    Folder {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// Files.
    #[error(transparent)]
    Disk(#[from] arioso_disk::Error),
    /// What lies in them.
    #[error(transparent)]
    Store(#[from] arioso_store::Error),
    /// The journal has no files here.
    #[error("the stream lies in a database: back that up with its own tools")]
    Database,
    /// The journal ended.
    #[error("the journal is lost")]
    Lost,
}

/// Copies the bus to a folder that is made, or empty. Blocks.
pub fn back_up(node: &Node, folder: &Path) -> Result<BackedUp, BackupError> {
    let wrong = |what| BackupError::Folder { path: folder.to_path_buf(), what };
    if !folder.is_absolute() {
        return Err(wrong("an absolute path is wanted: it is the server's"));
    }
    if node.history.is_database() {
        return Err(BackupError::Database);
    }
    let target = RealDisk::create(folder)?;
    if !target.list("")?.is_empty() {
        return Err(wrong("the folder is not empty"));
    }
    let mut backup = Backup::begin(Arc::new(target))?;
    while !backup.gather(node)? {}
    let through = node.history.exact(node).ok_or(BackupError::Lost)?;
    loop {
        if let Some(done) = backup.finish(node, through)? {
            return Ok(done);
        }
    }
}

/// A backup being made, a round at a time. The bus goes on between two rounds.
pub struct Backup {
    target: Arc<dyn Disk>,
    copied: Copied,
}

impl Backup {
    /// Into an empty disk.
    pub fn begin(target: Arc<dyn Disk>) -> Result<Backup, BackupError> {
        for folder in [JOURNAL_DIR, STORES_DIR, CHECKPOINT_DIR] {
            target.create_dir(folder)?;
        }
        Ok(Backup { target, copied: Copied::default() })
    }

    fn copy<'a>(&'a mut self, node: &'a Node) -> Copy<'a> {
        Copy { node, source: node.history.disk(), target: &*self.target, copied: &mut self.copied }
    }

    /// Copies what takes long: what is durable at the end is copied last. False: the bus went on meanwhile, another round is
    /// wanted.
    pub fn gather(&mut self, node: &Node) -> Result<bool, BackupError> {
        let mut copy = self.copy(node);
        if copy.round()?.is_none() {
            return Ok(false);
        }
        copy.folder(SNAPSHOTS_DIR, SNAPSHOT_SUFFIX)?;
        Ok(true)
    }

    /// Copies what came since, and says which files are in charge. The table that readers are shown tells of everything through
    /// `through`. `None`: the bus went on meanwhile, another round is wanted.
    pub fn finish(&mut self, node: &Node, through: Sequence) -> Result<Option<BackedUp>, BackupError> {
        let mut copy = self.copy(node);
        let Some(pieces) = copy.round()? else { return Ok(None) };
        copy.unsealed(&pieces)?;
        copy.heads(&pieces)?;
        self.target.sync_dir("")?;
        Ok(Some(BackedUp { through, files: self.copied.files, bytes: self.copied.bytes }))
    }
}

/// What is there already.
#[derive(Default)]
struct Copied {
    /// Sealed segments, by number and incarnation; spans; checkpoints; snapshots' paths.
    segments: BTreeSet<(u64, u64)>,
    spans: BTreeSet<u64>,
    bases: BTreeSet<u64>,
    snapshots: BTreeSet<String>,
    files: u64,
    bytes: u64,
}

/// What the stream lies in, as of one moment.
struct Pieces {
    spans: Vec<SpanInfo>,
    segments: Vec<SegmentInfo>,
}

impl Pieces {
    fn sealed(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.segments.iter().filter(|info| info.trailer.is_some())
    }
}

struct Copy<'a> {
    node: &'a Node,
    source: &'a dyn Disk,
    target: &'a dyn Disk,
    copied: &'a mut Copied,
}

impl Copy<'_> {
    fn table(&self) -> Pieces {
        self.node.history.with_table_read(|table| Pieces {
            spans: table.spans().to_vec(),
            segments: table.iter().cloned().collect(),
        })
    }

    /// Copies spans, sealed segments and a checkpoint that covers all spans. Gives what was in charge at one moment once all of
    /// that is there: the splitter and retention go on meanwhile.
    fn round(&mut self) -> Result<Option<Pieces>, BackupError> {
        let pieces = self.table();
        self.drop_retired(&pieces)?;
        for info in &pieces.spans {
            self.span(info)?;
        }
        for info in pieces.sealed() {
            let key = (info.number, info.incarnation);
            if !self.copied.segments.contains(&key) && self.segment(info, info.file_bytes)? {
                self.copied.segments.insert(key);
            }
        }
        let covered = self.checkpoints(&pieces)?;
        let all = pieces.spans.iter().all(|info| self.copied.spans.contains(&info.span))
            && pieces.sealed().all(|info| self.copied.segments.contains(&(info.number, info.incarnation)));
        if !all || !covered {
            return Ok(None);
        }
        for folder in [STORES_DIR, CHECKPOINT_DIR] {
            self.target.sync_dir(folder)?;
        }
        Ok(Some(pieces))
    }

    /// Removes from the target what a split or retention retired since it was copied.
    fn drop_retired(&mut self, pieces: &Pieces) -> Result<(), BackupError> {
        let in_charge = |key: &(u64, u64)| pieces.segments.iter().any(|info| (info.number, info.incarnation) == *key);
        let gone: Vec<_> = self.copied.segments.iter().filter(|key| !in_charge(key)).copied().collect();
        for key in gone {
            self.copied.segments.remove(&key);
            // Another segment of the number may have been copied since; it is copied anew.
            self.copied.segments.retain(|(number, _)| *number != key.0);
            self.target.remove(&segment_path(key.0))?;
        }
        let in_charge = |span: &u64| pieces.spans.iter().any(|info| info.span == *span);
        let gone: Vec<u64> = self.copied.spans.iter().filter(|span| !in_charge(span)).copied().collect();
        for span in gone {
            self.copied.spans.remove(&span);
            remove_span(self.target, span)?;
        }
        Ok(())
    }

    /// Copies a span's files, unless that was done; one that goes meanwhile is left out.
    fn span(&mut self, info: &SpanInfo) -> Result<(), BackupError> {
        if self.copied.spans.contains(&info.span) {
            return Ok(());
        }
        let stores = (0..info.stores).map(|store| store_path(info.span, store));
        for path in stores.chain([span_path(info.span)]) {
            match self.file(&path, None) {
                Err(BackupError::Disk(error)) if error.is_not_found() => {
                    if self.table().spans.iter().any(|now| now.span == info.span) {
                        return Err(error.into());
                    }
                    return Ok(remove_span(self.target, info.span)?);
                }
                copied => copied?,
            }
        }
        self.copied.spans.insert(info.span);
        Ok(())
    }

    /// Copies the checkpoints that no newer segment than those at hand went into. Gives false where one that covers all spans
    /// was written or removed meanwhile.
    fn checkpoints(&mut self, pieces: &Pieces) -> Result<bool, BackupError> {
        let newest = pieces.sealed().map(|info| info.number).max();
        let newest = newest.max(pieces.spans.last().map(|info| info.last_segment)).unwrap_or(0);
        let listed = self.source.list(CHECKPOINT_DIR)?;
        let numbers = listed.iter().filter_map(|entry| entry.name.strip_suffix(".base"));
        let mut newer = false;
        for base in numbers.filter_map(|hex| u64::from_str_radix(hex, 16).ok()) {
            newer |= base > newest;
            if base > newest || self.copied.bases.contains(&base) {
                continue;
            }
            match self.file(&base_path(base), None) {
                Err(BackupError::Disk(error)) if error.is_not_found() => {}
                copied => {
                    copied?;
                    self.copied.bases.insert(base);
                }
            }
        }
        let covered = pieces.spans.last().map_or(0, |info| info.last_segment);
        Ok(!newer || self.copied.bases.last().is_some_and(|base| *base >= covered))
    }

    /// Copies segments that are not sealed, up to where they are durable.
    fn unsealed(&mut self, pieces: &Pieces) -> Result<(), BackupError> {
        for info in pieces.segments.iter().filter(|info| info.trailer.is_none()) {
            self.file(&segment_path(info.number), Some(info.batches_end))?;
        }
        Ok(())
    }

    /// False: a split or retention took it meanwhile.
    fn segment(&mut self, info: &SegmentInfo, bytes: u64) -> Result<bool, BackupError> {
        let path = segment_path(info.number);
        let copied = self.file(&path, Some(bytes));
        // A file that was retired may be written again under another number.
        let same = |now: &SegmentInfo| (now.number, now.incarnation) == (info.number, info.incarnation);
        let kept = self.table().segments.iter().any(same);
        match copied {
            Ok(()) if kept => Ok(true),
            Ok(()) => {
                self.target.remove(&path)?;
                Ok(false)
            }
            Err(BackupError::Disk(error)) if error.is_not_found() && !kept => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All files of a folder that end so; one that goes meanwhile is left out.
    fn folder(&mut self, folder: &str, suffix: &str) -> Result<(), BackupError> {
        let entries = match self.source.list(folder) {
            Err(error) if error.is_not_found() => return Ok(()),
            entries => entries?,
        };
        self.target.create_dir(folder)?;
        for entry in entries.iter().filter(|entry| entry.name.ends_with(suffix)) {
            let path = format!("{folder}/{}", entry.name);
            if self.copied.snapshots.contains(&path) {
                continue;
            }
            match self.file(&path, None) {
                Err(BackupError::Disk(error)) if error.is_not_found() => {}
                copied => {
                    copied?;
                    self.copied.snapshots.insert(path);
                }
            }
        }
        Ok(self.target.sync_dir(folder)?)
    }

    /// Copies a file, or its first bytes, and syncs the copy.
    fn file(&mut self, path: &str, bytes: Option<u64>) -> Result<(), BackupError> {
        let from = self.source.open(path, Access::Read)?;
        let bytes = bytes.map_or_else(|| from.len(), Ok)?;
        let to = self.target.create(path)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < bytes {
            let piece = &mut buffer[..(bytes - at).min(COPY_BYTES as u64) as usize];
            from.read_exact_at(piece, at)?;
            to.write_at(piece, at)?;
            at += piece.len() as u64;
        }
        to.sync_all()?;
        self.copied.files += 1;
        self.copied.bytes += bytes;
        Ok(())
    }

    /// Who the stream is, that it did not stop cleanly, and which files are in charge.
    fn heads(&mut self, pieces: &Pieces) -> Result<(), BackupError> {
        self.target.sync_dir(JOURNAL_DIR)?;
        let identity = Identity::load(self.source)?
            .ok_or(BackupError::Folder { path: PathBuf::from(STREAM_FILE), what: "the stream's identity is gone" })?;
        identity.store(self.target)?;
        Epoch { epoch: self.node.identity.server_epoch, clean: None }.store(self.target)?;
        let stored = Manifest::load(self.source)?.0.unwrap_or_default();
        let first_segment = pieces.segments.first().map_or(stored.first_segment, |info| info.number);
        let first = pieces.spans.first().map(|info| info.first_sequence);
        let first = first.or(pieces.segments.first().map(|info| info.first_sequence.max(1)));
        let mut manifest = Manifest {
            first_segment,
            first_sequence: first.unwrap_or(stored.first_sequence),
            spans: pieces.spans.iter().map(SpanInfo::manifest_row).collect(),
            ..stored
        };
        manifest.store(self.target)?;
        Ok(manifest.store(self.target)?)
    }
}
