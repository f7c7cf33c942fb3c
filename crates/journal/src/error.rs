//! What can go wrong in the journal, with its numbers.

use std::io;
use std::path::PathBuf;

/// A misfortune of the journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `write-reply-ordering-groups` is not usable.
    #[error(
        "write-reply-ordering-groups is {groups:?} and max-write-reply-ordering-groups is {groups_max:?}: the first must be \
         per-publisher or a whole number from 1 to the second"
    )]
    Groups {
        /// The value given for `write-reply-ordering-groups`.
        groups: String,
        /// The value in force for `max-write-reply-ordering-groups`.
        groups_max: String,
    },
    /// `max-write-reply-ordering-groups` is not usable.
    #[error(
        "max-write-reply-ordering-groups is {groups_max:?} and write-reply-ordering-groups is {groups:?}: the first must be a \
         whole number from 1 to {limit}"
    )]
    GroupsMax {
        /// The value given for `max-write-reply-ordering-groups`.
        groups_max: String,
        /// The value in force for `write-reply-ordering-groups`.
        groups: String,
        /// The highest value.
        limit: u32,
    },
    /// `max-writes-in-flight` is not usable.
    #[error("max-writes-in-flight is {value:?}: it must be adaptive or a whole number from 1 to {limit}")]
    WritesInFlight {
        /// The value given.
        value: String,
        /// The highest value.
        limit: u32,
    },
    /// The disk or the database refused something that it can refuse without harm.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file (or connection).
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
    /// A write or a sync came back with an error: what is on disk is not known any more. Nothing more is promised by this
    /// journal; the server stops and replays.
    #[error("the journal is lost at batch {batch}: {doing} {}: {source}", path.display())]
    Lost {
        /// The first batch that is not known.
        batch: u64,
        /// What was being done.
        doing: &'static str,
        /// To which file (or connection).
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
    /// A write or a sync of the local journal came back with an error. Nothing more is promised by it; the server stops and
    /// replays.
    #[error("the journal is lost at batch {batch}: {source}")]
    WriteLost {
        /// The first batch that is not known.
        batch: u64,
        /// What the disk said, with file and offset.
        source: arioso_disk::Error,
    },
    /// Files of the stream can't be read or written, or are not what they should be.
    #[error(transparent)]
    Store(#[from] arioso_store::Error),
    /// The directory holds no stream, and none was to be made.
    #[error("there is no stream here: the file {file} is missing and there are no segments")]
    NoStream {
        /// The file that would say whose directory this is.
        file: &'static str,
    },
    /// The database can't be used as a journal, or can't be reached at all.
    #[error("{doing} at {place}: {text}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// Host, port, database and schema; no password.
        place: String,
        /// What came back, and what would be right.
        text: String,
    },
    /// Another server took the stream over.
    #[error("another server took the stream over: its epoch is {theirs}, this one's {ours}")]
    Fenced {
        /// This server's epoch.
        ours: u64,
        /// The epoch found.
        theirs: u64,
    },
}

impl From<arioso_disk::Error> for Error {
    fn from(error: arioso_disk::Error) -> Error {
        Error::Store(error.into())
    }
}
