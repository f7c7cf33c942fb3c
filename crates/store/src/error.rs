//! What can go wrong with stored bytes, with the file and the place in it.

use crate::head::BadPart;

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A misfortune with stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file could not be read or written.
    #[error(transparent)]
    Disk(#[from] arioso_disk::Error),

    /// The bytes are not those that were written.
    #[error("{file} at {offset}: {what} has checksum {got:#010x}, should have {want:#010x}")]
    Checksum {
        /// The file.
        file: String,
        /// Where in the file the checked bytes begin.
        offset: u64,
        /// Which part it is.
        what: &'static str,
        /// The checksum that is stored.
        want: u32,
        /// The checksum of the bytes that were read.
        got: u32,
    },

    /// Something else lies where a part should begin.
    #[error("{file} at {offset}: {what} begins with {:?}, should with {:?}", got.escape_ascii().to_string(), want.escape_ascii().to_string())]
    Magic {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// Which part should be there.
        what: &'static str,
        /// The bytes that are there.
        got: [u8; 8],
        /// The bytes that should be.
        want: [u8; 8],
    },

    /// The bytes can't be what they should be, whatever their checksum says.
    #[error("{file} at {offset}: {what} is {got}, should be {want}")]
    Malformed {
        /// The file.
        file: String,
        /// Where in the file.
        offset: u64,
        /// Which field.
        what: &'static str,
        /// Its value.
        got: u64,
        /// What would be right.
        want: String,
    },

    /// One topic has two ids.
    #[error("topic {topic}: id {id} in {file}, but {other_id} in {other_file}")]
    TopicIds {
        /// The topic.
        topic: String,
        /// Its id in one place,
        id: u32,
        /// which is this one,
        file: String,
        /// and its id in another place,
        other_id: u32,
        /// which is this one.
        other_file: String,
    },

    /// A count of messages or bytes is past 2^64.
    #[error("topic {topic}: the sum of {what} is too large for 64 bits")]
    Overflow {
        /// The topic at which it happened.
        topic: String,
        /// What was summed.
        what: &'static str,
    },

    /// A stretch of the stream can't be read; what lies behind it can.
    #[error(transparent)]
    Damaged(#[from] Damage),

    /// A file, or a part of one, is not what it should be.
    #[error("{file} at {offset}: {bad}")]
    Part {
        /// The file.
        file: String,
        /// Where the part begins.
        offset: u64,
        /// What is wrong.
        bad: BadPart,
    },

    /// A file without which nothing can be opened is not there.
    #[error(
        "{file} is missing, but there are segments: without it they can't be told from another stream's; restore it from a backup"
    )]
    NoIdentity {
        /// The file.
        file: String,
    },

    /// Something that must fit a limit does not.
    #[error("{file}: {what} has {have} {unit}, at most {max} are right")]
    TooLarge {
        /// The file.
        file: String,
        /// What is too large.
        what: &'static str,
        /// How large it is.
        have: u64,
        /// How large it may be.
        max: u64,
        /// What is counted.
        unit: &'static str,
    },
}

impl Error {
    /// A part of a file that is not what it should be.
    pub fn part(file: &str, offset: u64, bad: BadPart) -> Error {
        Error::Part { file: file.to_owned(), offset, bad }
    }
}

/// A stretch of the stream that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at {offset}, {bytes} bytes: sequences {first} to {last} can't be read")]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The segment's number.
    pub segment: u64,
    /// Where the stretch begins in the file.
    pub offset: u64,
    /// How long it is; 0 if the file is missing.
    pub bytes: u64,
    /// The first sequence that may lie in it.
    pub first: u64,
    /// The last; below `first` if no message can lie in it.
    pub last: u64,
}
