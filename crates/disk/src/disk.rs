//! The two traits, and the small types their calls take and give.
//!
//! Calls block. Paths are relative to the data directory, their parts separated by '/'; the directory
//! itself is `""`. Handles may be shared between threads.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// One data directory.
pub trait Disk: Send + Sync {
    /// Makes a new, empty file and opens it for reading and writing; fails if the name is taken.
    fn create(&self, path: &str) -> Result<Arc<dyn File>>;

    /// Opens a file that exists.
    fn open(&self, path: &str, access: Access) -> Result<Arc<dyn File>>;

    /// What lies in a directory, sorted by name. A name that is not UTF-8 is none of ours and left out.
    fn list(&self, dir: &str) -> Result<Vec<Entry>>;

    /// Makes a directory, whose parent must exist; fine if it is there already.
    fn create_dir(&self, dir: &str) -> Result<()>;

    /// Gives a file another name, replacing the file that had it. Directories are not renamed.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file, or an empty directory. A file that is open stays readable until it is closed.
    fn remove(&self, path: &str) -> Result<()>;

    /// Gives a file a second name; fails if that is taken.
    fn link(&self, from: &str, to: &str) -> Result<()>;

    /// Makes the names in a directory durable (not the bytes of its files).
    fn sync_dir(&self, dir: &str) -> Result<()>;

    /// How large the file system is, and how much of it we may still use.
    fn space(&self) -> Result<Space>;

    /// Takes a lock that excludes every other holder, in this process or another, until it is dropped.
    /// The lock is a file holding the process id of its last holder; the file stays.
    fn lock(&self, path: &str) -> Result<Lock>;
}

/// An open file. Every call says where in the file it works; there is no cursor.
pub trait File: Send + Sync {
    /// The path it was opened by.
    fn path(&self) -> &str;

    /// Reads what is there, at most `buf`; fewer bytes only at the end of the file, 0 beyond it.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all bytes; on an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Writes the parts one after the other, as one system call where the system allows it.
    fn write_vectored_at(&self, parts: &[&[u8]], offset: u64) -> Result<()>;

    /// Makes the bytes and the length durable.
    fn sync_data(&self) -> Result<()>;

    /// Makes the bytes, the length and everything else about the file durable, except its name.
    fn sync_all(&self) -> Result<()>;

    /// The length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or lengthens it with zeros.
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Tells the system how the file will be read. It changes no result.
    fn advise(&self, advice: Advice) -> Result<()>;

    /// Fills `buf`, or fails with [`Error::Short`] naming how much there was.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(buf, offset)?;
        if got == buf.len() {
            return Ok(());
        }
        Err(Error::Short { path: self.path().to_owned(), offset, want: buf.len(), got })
    }
}

impl fmt::Debug for dyn Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

impl fmt::Debug for dyn File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.path())
    }
}

/// What an opened file may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// How a file will be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// From front to back: read ahead.
    Sequential,
    /// This stretch soon: start fetching it.
    WillNeed {
        /// Where the stretch begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// Not again soon: its pages may leave the cache.
    DontNeed,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The last part of the path.
    pub name: String,
    /// The length of a file, 0 for a directory.
    pub bytes: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// The room on a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The whole of it.
    pub total: u64,
    /// What we may still use.
    pub available: u64,
}

/// A held lock; dropping it releases it.
#[must_use = "the lock is released when it is dropped"]
pub struct Lock {
    _held: Box<dyn Send + Sync>,
}

impl Lock {
    /// A lock that lasts as long as `held` is not dropped.
    pub(crate) fn new(held: impl Send + Sync + 'static) -> Self {
        Lock { _held: Box::new(held) }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}
