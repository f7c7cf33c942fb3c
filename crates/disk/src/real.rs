//! A directory on a file system.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::path::{check_dir, check_file};
use crate::{Access, Advice, Disk, Entry, Error, File, Lock, Operation, Result, Space};

/// The most parts Linux takes in one `pwritev` (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

/// The longest process id in decimal, and a newline.
const HOLDER_BYTES_MAX: usize = 11;

/// One data directory on a file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// Opens a directory that exists.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let refuse = |error: io::Error| Error::io(Operation::Open, &root.to_string_lossy(), None, &error);
        if !fs::metadata(&root).map_err(refuse)?.is_dir() {
            return Err(refuse(Errno::NOTDIR.into()));
        }
        Ok(RealDisk { root })
    }

    /// Opens a directory after making it, durably, with those above it that were missing.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let refuse = |error: io::Error| Error::io(Operation::CreateDir, &root.to_string_lossy(), None, &error);
        let missing: Vec<_> = root.ancestors().take_while(|dir| !names_something(dir)).collect();
        fs::create_dir_all(&root).map_err(refuse)?;
        for dir in missing {
            let parent = dir.parent().filter(|parent| names_something(parent)).unwrap_or(Path::new("."));
            fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(refuse)?;
        }
        RealDisk::open(root)
    }

    /// Keeps every holder of [`Disk::lock`] out, and is kept out by one, without changing anything: for who only reads. Several
    /// may hold it so. `None`: the lock's file is not there, so nobody ever held it.
    pub fn lock_unchanged(&self, path: &str) -> Result<Option<Lock>> {
        let operation = Operation::Lock;
        let refuse = |error: io::Error| Error::io(operation, path, None, &error);
        let file = match fs::File::open(self.file(operation, path)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(refuse)?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Lock::new(file))),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned(), holder: holder(&file) }),
            Err(TryLockError::Error(error)) => Err(refuse(error)),
        }
    }

    /// The directory it was opened on.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn file(&self, operation: Operation, path: &str) -> Result<PathBuf> {
        check_file(operation, path)?;
        Ok(self.root.join(path))
    }

    fn dir(&self, operation: Operation, dir: &str) -> Result<PathBuf> {
        check_dir(operation, dir)?;
        Ok(self.root.join(dir))
    }
}

/// Whether there is something at a path; an empty path (the parent of a bare name) is nothing.
fn names_something(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.exists()
}

impl Disk for RealDisk {
    fn create(&self, path: &str) -> Result<Arc<dyn File>> {
        let operation = Operation::Create;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.file(operation, path)?)
            .map_err(|error| Error::io(operation, path, None, &error))?;
        Ok(Arc::new(RealFile { file, path: path.to_owned() }))
    }

    fn open(&self, path: &str, access: Access) -> Result<Arc<dyn File>> {
        let operation = Operation::Open;
        let refuse = |error: io::Error| Error::io(operation, path, None, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::ReadWrite)
            .open(self.file(operation, path)?)
            .map_err(refuse)?;
        // A directory opens for reading like a file.
        if file.metadata().map_err(refuse)?.is_dir() {
            return Err(refuse(Errno::ISDIR.into()));
        }
        Ok(Arc::new(RealFile { file, path: path.to_owned() }))
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        let operation = Operation::List;
        let refuse = |error: io::Error| Error::io(operation, dir, None, &error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.dir(operation, dir)?).map_err(refuse)? {
            let entry = entry.map_err(refuse)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let about = match entry.metadata() {
                // Removed between the two calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(refuse)?,
            };
            let is_dir = about.is_dir();
            entries.push(Entry { name, bytes: if is_dir { 0 } else { about.len() }, is_dir });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        let operation = Operation::CreateDir;
        let target = self.file(operation, dir)?;
        match fs::create_dir(&target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => Ok(()),
            other => other.map_err(|error| Error::io(operation, dir, None, &error)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let operation = Operation::Rename;
        let (source, target) = (self.file(operation, from)?, self.file(operation, to)?);
        let refuse = |error: io::Error| Error::io(operation, from, None, &error);
        if fs::symlink_metadata(&source).map_err(refuse)?.is_dir() {
            return Err(refuse(Errno::ISDIR.into()));
        }
        fs::rename(source, target).map_err(refuse)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let operation = Operation::Remove;
        let target = self.file(operation, path)?;
        match fs::remove_file(&target) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(&target),
            other => other,
        }
        .map_err(|error| Error::io(operation, path, None, &error))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let operation = Operation::Link;
        fs::hard_link(self.file(operation, from)?, self.file(operation, to)?)
            .map_err(|error| Error::io(operation, from, None, &error))
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        let operation = Operation::SyncDir;
        let refuse = |error: io::Error| Error::io(operation, dir, None, &error);
        let handle = fs::File::open(self.dir(operation, dir)?).map_err(refuse)?;
        if !handle.metadata().map_err(refuse)?.is_dir() {
            return Err(refuse(Errno::NOTDIR.into()));
        }
        handle.sync_all().map_err(refuse)
    }

    fn space(&self) -> Result<Space> {
        let about = rustix::fs::statvfs(&self.root).map_err(|errno| Error::errno(Operation::Space, "", None, errno))?;
        Ok(Space {
            total: about.f_blocks.saturating_mul(about.f_frsize),
            available: about.f_bavail.saturating_mul(about.f_frsize),
        })
    }

    fn lock(&self, path: &str) -> Result<Lock> {
        let operation = Operation::Lock;
        let refuse = |error: io::Error| Error::io(operation, path, None, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.file(operation, path)?)
            .map_err(refuse)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked { path: path.to_owned(), holder: holder(&file) });
            }
            Err(TryLockError::Error(error)) => return Err(refuse(error)),
        }
        // On a full disk the id can't be written; the lock holds all the same, it only has no name.
        let told = file.set_len(0).and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
        match told.map_err(refuse) {
            Err(error) if !error.is_full() => Err(error),
            _ => Ok(Lock::new(file)),
        }
    }
}

/// The process id in a lock's file. The holder may be just about to write it: then it is unknown.
fn holder(file: &fs::File) -> Option<u32> {
    let mut text = [0; HOLDER_BYTES_MAX];
    let bytes = file.read_at(&mut text, 0).ok()?;
    str::from_utf8(&text[..bytes]).ok()?.trim_end().parse().ok()
}

struct RealFile {
    file: fs::File,
    path: String,
}

impl RealFile {
    fn refuse(&self, operation: Operation, offset: Option<u64>, error: &io::Error) -> Error {
        Error::io(operation, &self.path, offset, error)
    }
}

impl File for RealFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refuse(Operation::Read, Some(offset), &error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.refuse(Operation::Write, Some(offset), &error))
    }

    fn write_vectored_at(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        let mut at = offset;
        for parts in parts.chunks(PARTS_MAX) {
            let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = &mut slices[..];
            // Drops empty parts in front, so that a write of 0 bytes means no progress.
            IoSlice::advance_slices(&mut left, 0);
            while !left.is_empty() {
                let bytes = match rustix::io::pwritev(&self.file, left, at) {
                    Err(Errno::INTR) => continue,
                    Ok(0) => {
                        return Err(self.refuse(Operation::Write, Some(at), &io::ErrorKind::WriteZero.into()));
                    }
                    other => other.map_err(|errno| Error::errno(Operation::Write, &self.path, Some(at), errno))?,
                };
                at += bytes as u64;
                IoSlice::advance_slices(&mut left, bytes);
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.refuse(Operation::SyncData, None, &error))
    }

    fn sync_all(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| self.refuse(Operation::SyncAll, None, &error))
    }

    fn len(&self) -> Result<u64> {
        let about = self.file.metadata().map_err(|error| self.refuse(Operation::Len, None, &error))?;
        Ok(about.len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|error| self.refuse(Operation::SetLen, Some(bytes), &error))
    }

    fn advise(&self, advice: Advice) -> Result<()> {
        use rustix::fs::Advice as System;
        // A length of `None` is "to the end".
        let (offset, bytes, advice) = match advice {
            Advice::Sequential => (0, None, System::Sequential),
            Advice::DontNeed => (0, None, System::DontNeed),
            Advice::WillNeed { bytes: 0, .. } => return Ok(()),
            Advice::WillNeed { offset, bytes } => (offset, NonZeroU64::new(bytes), System::WillNeed),
        };
        rustix::fs::fadvise(&self.file, offset, bytes, advice)
            .map_err(|errno| Error::errno(Operation::Advise, &self.path, Some(offset), errno))
    }
}
