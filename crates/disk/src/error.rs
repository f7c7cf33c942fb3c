//! What can go wrong at the door, with the operation, the path and the offset.

use std::fmt;
use std::io;

/// The result of every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A misfortune with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{operation} {path}{}: {}", At(*offset), Cause(*kind, *code))]
    Io {
        /// What was tried.
        operation: Operation,
        /// On which path.
        path: String,
        /// Where in the file, if the operation has a place.
        offset: Option<u64>,
        /// The kind of refusal.
        kind: io::ErrorKind,
        /// The system's number for it.
        code: Option<i32>,
    },

    /// The path can't be one of ours.
    #[error("{operation} {path:?}: a path is relative, its parts separated by single '/', none of them '.' or '..'")]
    Path {
        /// What was tried.
        operation: Operation,
        /// The path as it was given.
        path: String,
    },

    /// Someone else holds the lock.
    #[error("lock {path}: held by {}", Holder(*holder))]
    Locked {
        /// The lock's file.
        path: String,
        /// The process that holds it, if the file tells.
        holder: Option<u32>,
    },

    /// The file ends before the bytes that were wanted.
    #[error("read {path} at {offset}: wanted {want} bytes, the file has {got} there")]
    Short {
        /// The file.
        path: String,
        /// Where the read began.
        offset: u64,
        /// How many bytes were wanted.
        want: usize,
        /// How many there were.
        got: usize,
    },

    /// A file that is read whole is larger than it can rightly be.
    #[error("read {path}: it has {bytes} bytes, at most {bytes_max} are right")]
    TooLarge {
        /// The file.
        path: String,
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        bytes_max: u64,
    },

    /// The simulated machine has stopped; only [`SimDisk`](crate::SimDisk) says so.
    #[error("{operation} {path}: the simulated machine has crashed")]
    Crashed {
        /// What was tried.
        operation: Operation,
        /// On which path.
        path: String,
    },
}

impl Error {
    /// What the system said about an operation.
    pub(crate) fn io(operation: Operation, path: &str, offset: Option<u64>, error: &io::Error) -> Self {
        Error::Io { operation, path: path.to_owned(), offset, kind: error.kind(), code: error.raw_os_error() }
    }

    /// The same, from the system's number.
    pub(crate) fn errno(operation: Operation, path: &str, offset: Option<u64>, errno: rustix::io::Errno) -> Self {
        Error::io(operation, path, offset, &errno.into())
    }

    /// The system's kind of refusal, if it was one.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Io { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// No room: the file system or a quota is full.
    pub fn is_full(&self) -> bool {
        matches!(self.kind(), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// No such file or directory.
    pub fn is_not_found(&self) -> bool {
        self.kind() == Some(io::ErrorKind::NotFound)
    }

    /// The name is taken.
    pub fn is_taken(&self) -> bool {
        self.kind() == Some(io::ErrorKind::AlreadyExists)
    }

    /// The simulated machine has stopped.
    pub fn is_crashed(&self) -> bool {
        matches!(self, Error::Crashed { .. })
    }
}

/// The calls of [`Disk`](crate::Disk) and [`File`](crate::File).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the call of the same name")]
pub enum Operation {
    Create,
    Open,
    List,
    CreateDir,
    Rename,
    Remove,
    Link,
    SyncDir,
    Space,
    Lock,
    Read,
    Write,
    SyncData,
    SyncAll,
    Len,
    SetLen,
    Advise,
}

impl Operation {
    /// Every operation, in the order of their values.
    pub const ALL: [Operation; 17] = [
        Operation::Create,
        Operation::Open,
        Operation::List,
        Operation::CreateDir,
        Operation::Rename,
        Operation::Remove,
        Operation::Link,
        Operation::SyncDir,
        Operation::Space,
        Operation::Lock,
        Operation::Read,
        Operation::Write,
        Operation::SyncData,
        Operation::SyncAll,
        Operation::Len,
        Operation::SetLen,
        Operation::Advise,
    ];

    /// Whether the operation waits for the device: `sync_data`, `sync_all`, `sync_dir`.
    pub fn is_sync(self) -> bool {
        matches!(self, Operation::SyncData | Operation::SyncAll | Operation::SyncDir)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Create => "create",
            Operation::Open => "open",
            Operation::List => "list",
            Operation::CreateDir => "create directory",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::Link => "link",
            Operation::SyncDir => "sync directory",
            Operation::Space => "measure the space of",
            Operation::Lock => "lock",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::SyncData => "sync the data of",
            Operation::SyncAll => "sync",
            Operation::Len => "measure",
            Operation::SetLen => "set the length of",
            Operation::Advise => "advise on",
        })
    }
}

/// " at 4096", or nothing.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |offset| write!(f, " at {offset}"))
    }
}

/// The system's own text where it has one.
struct Cause(io::ErrorKind, Option<i32>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(code) => io::Error::from_raw_os_error(code).fmt(f),
            None => self.0.fmt(f),
        }
    }
}

struct Holder(Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}
