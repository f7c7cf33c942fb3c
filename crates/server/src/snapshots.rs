//! Application snapshots: kept by name and sequence, beside the stream, so that retention does not take the newest. They come and
//! go in pieces.
//!
//! ```text
//!   put 0 ─▶ put 1 MiB ─▶ … ─▶ the last piece: hash tested, synced, renamed: kept; older ones but one are removed
//!   get newest, at 0 ─▶ get as of that, at 1 MiB ─▶ …
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use arioso_store::batch::PAGE_BYTES;
use arioso_store::snapshot::{
    SNAPSHOT_AT, SNAPSHOT_NAME_BYTES_MAX, SNAPSHOTS_DIR, SnapshotHeader, read_snapshot_name, snapshot_path,
};
use arioso_stream::Sequence;
use arioso_wire::Code;
use bytes::Bytes;
use parking_lot::Mutex;
use twox_hash::XxHash3_64;

use crate::node::Node;

/// Names a stream may have snapshots under.
const NAMES_MAX: usize = 1_000;
/// Kept under each: the newest, and the one before it for who is loading that.
const KEPT: usize = 2;
/// Bytes of a snapshot.
pub const SNAPSHOT_BYTES_MAX: u64 = 64 << 30;
/// Bytes of a piece.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotAsk {
    /// A piece is stored; the last one makes the snapshot.
    Put {
        /// The session: a snapshot is put on one connection.
        session: u32,
        /// What it will be.
        header: SnapshotHeader,
        /// Where the piece begins.
        offset: u64,
        /// The piece.
        bytes: Bytes,
    },
    /// A piece is read.
    Get {
        /// The name.
        name: String,
        /// Which; zero: the newest.
        as_of: u64,
        /// Where the piece begins.
        offset: u64,
        /// Its bytes at most.
        bytes_max: u32,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotTold {
    /// The piece is stored; of the last one: the snapshot is kept, durably.
    Stored,
    /// A piece, and what it is of.
    Piece(SnapshotHeader, Bytes),
}

/// A refusal: code, its number, in words.
pub type Refusal = (Code, u64, String);
type Told<T> = Result<T, Refusal>;

/// Snapshots that are being put, by session.
#[derive(Default)]
pub struct Snapshots {
    putting: Mutex<BTreeMap<u32, String>>,
    /// Begun by sessions that are gone: removed with the next one that is begun.
    abandoned: Mutex<Vec<String>>,
}

impl Snapshots {
    /// The session is gone.
    pub fn abandon(&self, session: u32) {
        if let Some(path) = self.putting.lock().remove(&session) {
            self.abandoned.lock().push(path);
        }
    }
}

/// What begun ones of an earlier life left is removed; to be called before anything is asked.
pub fn clean(disk: &dyn Disk) -> arioso_disk::Result<()> {
    disk.create_dir(SNAPSHOTS_DIR)?;
    let suffix = arioso_disk::temporary("");
    for entry in disk.list(SNAPSHOTS_DIR)?.iter().filter(|entry| entry.name.ends_with(&suffix)) {
        disk.remove(&format!("{SNAPSHOTS_DIR}/{}", entry.name))?;
    }
    disk.sync_dir("")
}

/// Does what is asked. Blocks.
pub fn ask(node: &Node, ask: &SnapshotAsk) -> Told<SnapshotTold> {
    match ask {
        SnapshotAsk::Put { session, header, offset, bytes } => {
            put(node, *session, header, *offset, bytes).map(|()| SnapshotTold::Stored)
        }
        SnapshotAsk::Get { name, as_of, offset, bytes_max } => get(node, name, *as_of, *offset, *bytes_max),
    }
}

fn disk_error(error: arioso_disk::Error) -> Refusal {
    let code = if error.is_full() { Code::DiskFull } else { Code::Internal };
    (code, 0, error.to_string())
}

fn check(node: &Node, header: &SnapshotHeader) -> Told<()> {
    let name = &header.name;
    if name.is_empty() || name.len() > SNAPSHOT_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let text = format!("a snapshot's name has 1 to {SNAPSHOT_NAME_BYTES_MAX} bytes and no control character");
        return Err((Code::BadRecord, 0, text));
    }
    if header.bytes > SNAPSHOT_BYTES_MAX {
        let text = format!("a snapshot of {} bytes, at most {SNAPSHOT_BYTES_MAX} are kept", header.bytes);
        return Err((Code::PayloadTooLarge, 0, text));
    }
    // The tip follows a moment after the answers.
    let settled = node.engine.lock().settled_to();
    if header.as_of == 0 || Sequence(header.as_of) > settled {
        return Err((Code::BadPosition, 0, format!("as of {}: 1 to {settled} can be told of", header.as_of)));
    }
    Ok(())
}

fn put(node: &Node, session: u32, header: &SnapshotHeader, offset: u64, bytes: &Bytes) -> Told<()> {
    check(node, header)?;
    let disk = node.history.disk();
    let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= header.bytes);
    let end = end.ok_or_else(|| (Code::BadRecord, 0, format!("a piece ends behind its {} bytes", header.bytes)))?;
    if bytes.is_empty() && header.bytes > 0 {
        return Err((Code::BadRecord, 0, "a piece of no bytes".into()));
    }
    let path = snapshot_path(hash_of(header.name.as_bytes()), header.as_of);
    let temporary = arioso_disk::temporary(&format!("{path}.{session}"));
    let file = if offset == 0 {
        begin(node, disk, session, header, &temporary)?
    } else {
        disk.open(&temporary, Access::ReadWrite).map_err(|error| {
            let missing = error.is_not_found();
            if missing { (Code::BadPosition, 0, "its first piece did not come".into()) } else { disk_error(error) }
        })?
    };
    if file.len().map_err(disk_error)? != SNAPSHOT_AT + offset {
        return Err((Code::BadPosition, 0, format!("the piece at {offset} does not follow the one before")));
    }
    file.write_at(bytes, SNAPSHOT_AT + offset).map_err(disk_error)?;
    if end < header.bytes {
        return Ok(());
    }
    let hash = hash_file(&*file, header.bytes).map_err(disk_error)?;
    node.snapshots.putting.lock().remove(&session);
    if hash != header.hash {
        disk.remove(&temporary).map_err(disk_error)?;
        return Err((Code::BadRecord, 0, format!("its XXH3 is {hash:016x}, {:016x} was told", header.hash)));
    }
    keep(disk, &file, &temporary, &path, header).map_err(disk_error)
}

fn begin(node: &Node, disk: &dyn Disk, session: u32, header: &SnapshotHeader, temporary: &str) -> Told<Arc<dyn File>> {
    let mut gone = std::mem::take(&mut *node.snapshots.abandoned.lock());
    gone.extend(node.snapshots.putting.lock().insert(session, temporary.to_owned()));
    for path in gone {
        match disk.remove(&path) {
            Err(error) if !error.is_not_found() => return Err(disk_error(error)),
            _ => {}
        }
    }
    let names: BTreeSet<u64> = kept(disk).map_err(disk_error)?.into_iter().map(|(hash, _)| hash).collect();
    if names.len() >= NAMES_MAX && !names.contains(&hash_of(header.name.as_bytes())) {
        return Err((Code::TooManySnapshots, 0, format!("snapshots of {NAMES_MAX} names are kept")));
    }
    let file = disk.create(temporary).map_err(disk_error)?;
    file.write_at(&header.encode(), 0).map_err(disk_error)?;
    Ok(file)
}

/// The rename is what keeps it.
fn keep(
    disk: &dyn Disk,
    file: &Arc<dyn File>,
    temporary: &str,
    path: &str,
    header: &SnapshotHeader,
) -> arioso_disk::Result<()> {
    file.sync_all()?;
    disk.rename(temporary, path)?;
    disk.sync_dir(SNAPSHOTS_DIR)?;
    let hash = hash_of(header.name.as_bytes());
    let mut all: Vec<u64> = kept(disk)?.into_iter().filter(|(of, _)| *of == hash).map(|(_, as_of)| as_of).collect();
    all.sort_unstable();
    for as_of in all.iter().rev().skip(KEPT) {
        match disk.remove(&snapshot_path(hash, *as_of)) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Hashes of names, and as of when.
fn kept(disk: &dyn Disk) -> arioso_disk::Result<Vec<(u64, u64)>> {
    let entries = match disk.list(SNAPSHOTS_DIR) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    Ok(entries.iter().filter_map(|entry| read_snapshot_name(&entry.name)).collect())
}

fn get(node: &Node, name: &str, as_of: u64, offset: u64, bytes_max: u32) -> Told<SnapshotTold> {
    let disk = node.history.disk();
    let none = || (Code::NoSuchSnapshot, as_of, format!("no snapshot {name:?} as of {as_of} (0: the newest)"));
    let hash = hash_of(name.as_bytes());
    let wanted = match as_of {
        0 => kept(disk).map_err(disk_error)?.into_iter().filter(|(of, _)| *of == hash).map(|(_, as_of)| as_of).max(),
        as_of => Some(as_of),
    };
    let path = snapshot_path(hash, wanted.ok_or_else(none)?);
    let file = match disk.open(&path, Access::Read) {
        Err(error) if error.is_not_found() => return Err(none()),
        opened => opened.map_err(disk_error)?,
    };
    let mut page = vec![0; PAGE_BYTES];
    file.read_exact_at(&mut page, 0).map_err(disk_error)?;
    let header = SnapshotHeader::read(&page).map_err(|bad| (Code::Damaged, 0, format!("{path}: {bad}")))?;
    if header.name != name || header.stream != node.identity.stream_id {
        return Err(none());
    }
    let left = header.bytes.saturating_sub(offset).min(u64::from(bytes_max.min(PIECE_BYTES_MAX)));
    let mut bytes = vec![0; usize::try_from(left).expect("a piece is short")];
    file.read_exact_at(&mut bytes, SNAPSHOT_AT + offset).map_err(disk_error)?;
    Ok(SnapshotTold::Piece(header, bytes.into()))
}

fn hash_of(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

fn hash_file(file: &dyn File, bytes: u64) -> arioso_disk::Result<u64> {
    let mut hasher = XxHash3_64::new();
    let mut buffer = vec![0; PIECE_BYTES_MAX as usize];
    let mut at = 0;
    while at < bytes {
        let piece = &mut buffer[..(bytes - at).min(u64::from(PIECE_BYTES_MAX)) as usize];
        file.read_exact_at(piece, SNAPSHOT_AT + at)?;
        hasher.write(piece);
        at += piece.len() as u64;
    }
    Ok(hasher.finish())
}
