//! A backup of a running bus: files copied to another folder, the manifest last. A bus that is started on the folder goes on as
//! after an unclean stop.
//!
//! ```text
//!   sealed segments, checkpoints, stores ──copy──▶ folder          they do not change; what retention takes meanwhile is left out
//!   how far is durable? ── asked of the log ──▶ the unsealed ones up to there ──▶ stream, epoch, manifest
//! ```

use std::path::{Path, PathBuf};

use arioso_disk::{Access, Disk, RealDisk};
use arioso_store::checkpoint::CHECKPOINT_DIR;
use arioso_store::identity::{Epoch, Identity, STREAM_FILE};
use arioso_store::manifest::Manifest;
use arioso_store::segment::{JOURNAL_DIR, SegmentInfo, segment_path};
use arioso_store::snapshot::{SNAPSHOT_SUFFIX, SNAPSHOTS_DIR};
use arioso_stream::Sequence;

use crate::node::Node;

/// What is read and written at once.
const COPY_BYTES: usize = 1 << 20;
/// Where stores lie.
const STORES_DIR: &str = "stores";

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
    let mut copy = Copy { node, source: node.history.disk(), target: &target, files: 0, bytes: 0 };
    copy.target.create_dir(JOURNAL_DIR)?;
    // What takes long first: what is durable at the end is copied last.
    let mut have = Vec::new();
    copy.sealed(&mut have)?;
    copy.folder(CHECKPOINT_DIR, ".base")?;
    copy.folder(STORES_DIR, ".sto")?;
    copy.folder(SNAPSHOTS_DIR, SNAPSHOT_SUFFIX)?;
    let through = node.history.exact(node).ok_or(BackupError::Lost)?;
    copy.sealed(&mut have)?;
    copy.unsealed(&have)?;
    copy.heads(&have)?;
    target.sync_dir("")?;
    Ok(BackedUp { through, files: copy.files, bytes: copy.bytes })
}

struct Copy<'a> {
    node: &'a Node,
    source: &'a dyn Disk,
    target: &'a RealDisk,
    files: u64,
    bytes: u64,
}

impl Copy<'_> {
    fn table(&self) -> Vec<SegmentInfo> {
        self.node.history.with_table_read(|table| table.iter().cloned().collect())
    }

    /// The sealed segments that were not copied yet.
    fn sealed(&mut self, have: &mut Vec<(u64, u64)>) -> Result<(), BackupError> {
        for info in self.table().iter().filter(|info| info.trailer.is_some()) {
            let key = (info.number, info.incarnation);
            if !have.contains(&key) && self.segment(info, info.file_bytes)? {
                have.push(key);
            }
        }
        Ok(())
    }

    /// Those that are not sealed, up to where they are durable.
    fn unsealed(&mut self, have: &[(u64, u64)]) -> Result<(), BackupError> {
        for info in &self.table() {
            if !have.contains(&(info.number, info.incarnation)) {
                self.segment(info, info.batches_end)?;
            }
        }
        Ok(())
    }

    /// False: retention took it meanwhile.
    fn segment(&mut self, info: &SegmentInfo, bytes: u64) -> Result<bool, BackupError> {
        let path = segment_path(info.number);
        let copied = self.file(&path, Some(bytes));
        // A file that retention took may be written again under another number.
        let kept = self.table().iter().any(|now| (now.number, now.incarnation) == (info.number, info.incarnation));
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
            match self.file(&format!("{folder}/{}", entry.name), None) {
                Err(BackupError::Disk(error)) if error.is_not_found() => {}
                copied => copied?,
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
        self.files += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// Who the stream is, that it did not stop cleanly, and which files are in charge.
    fn heads(&mut self, have: &[(u64, u64)]) -> Result<(), BackupError> {
        self.target.sync_dir(JOURNAL_DIR)?;
        let identity = Identity::load(self.source)?
            .ok_or(BackupError::Folder { path: PathBuf::from(STREAM_FILE), what: "the stream's identity is gone" })?;
        identity.store(self.target)?;
        Epoch { epoch: self.node.identity.server_epoch, clean: None }.store(self.target)?;
        // Retention may have gone on while the first segments were copied: the first that is here counts.
        let first = self.table().into_iter().find(|info| {
            let key = (info.number, info.incarnation);
            have.contains(&key) || info.trailer.is_none()
        });
        let stored = Manifest::load(self.source)?.0.unwrap_or_default();
        let mut manifest = match first {
            Some(info) => Manifest { first_segment: info.number, first_sequence: info.first_sequence.max(1), ..stored },
            None => stored,
        };
        manifest.store(self.target)?;
        Ok(manifest.store(self.target)?)
    }
}
