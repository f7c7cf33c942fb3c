//! The files `stream` and `epoch`: whose directory this is, and the server's epoch (docs/format.md section 7).
//!
//! Both are replaced whole: after a crash there is the old one or the new one.

use arioso_disk::Disk;
use zerocopy::little_endian::{I64, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::head::{self, BadPart, HEAD_BYTES, Head};
use crate::{Error, Result};

/// The file that says whose directory this is.
pub const STREAM_FILE: &str = "stream";
/// The file with the server's epoch and the mark of a clean stop.
pub const EPOCH_FILE: &str = "epoch";
/// The longest name of a stream.
pub const STREAM_NAME_BYTES_MAX: usize = 1024;

const STREAM_MAGIC: [u8; 8] = *b"ARIOSTR1";
const EPOCH_MAGIC: [u8; 8] = *b"ARIOEPO1";
const FLAG_CLEAN: u16 = 1;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FixedStream {
    head: Head,
    stream: U128,
    made_at: I64,
    zero: U64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FixedEpoch {
    head: Head,
    epoch: U64,
    next_sequence: U64,
    timestamp: I64,
}

const _: () = assert!(size_of::<FixedStream>() == 48 && size_of::<FixedEpoch>() == 40 && HEAD_BYTES == 16);

/// Whose directory this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The stream's id.
    pub stream: u128,
    /// Its name.
    pub name: String,
    /// When it was made, unix nanoseconds.
    pub made_at: i64,
}

impl Identity {
    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.name.len() <= STREAM_NAME_BYTES_MAX, "the name was checked where it came in");
        let fixed = FixedStream {
            head: Head::new(STREAM_MAGIC, self.name.len() as u16),
            stream: U128::new(self.stream),
            made_at: I64::new(self.made_at),
            zero: U64::ZERO,
        };
        let mut bytes = fixed.as_bytes().to_vec();
        bytes.extend_from_slice(self.name.as_bytes());
        head::seal(&mut bytes);
        bytes
    }

    /// Reads the file's bytes.
    pub fn read(bytes: &[u8]) -> Result<Identity, BadPart> {
        let name_bytes = head::check(bytes, STREAM_MAGIC)?;
        let fixed: &FixedStream = head::fixed(bytes)?;
        let name = &bytes[size_of::<FixedStream>()..];
        if name.len() != usize::from(name_bytes) {
            return Err(BadPart::Field { field: "length of the name" });
        }
        let name = std::str::from_utf8(name).map_err(|_| BadPart::Field { field: "name" })?.to_owned();
        Ok(Identity { stream: fixed.stream.get(), name, made_at: fixed.made_at.get() })
    }

    /// The directory's identity; `None` if there is none. A damaged one is an error: the directory is refused.
    pub fn load(disk: &dyn Disk) -> Result<Option<Identity>> {
        let bytes_max = size_of::<FixedStream>() + STREAM_NAME_BYTES_MAX;
        let bytes = head::read_whole(disk, STREAM_FILE, bytes_max)?;
        bytes.map(|bytes| Identity::read(&bytes).map_err(|bad| Error::part(STREAM_FILE, 0, bad))).transpose()
    }

    /// Writes it durably.
    pub fn store(&self, disk: &dyn Disk) -> Result<()> {
        Ok(arioso_disk::replace(disk, STREAM_FILE, &self.encode())?)
    }
}

/// The mark of a clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clean {
    /// The next sequence.
    pub next_sequence: u64,
    /// The last timestamp.
    pub timestamp: i64,
}

/// The server's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// One higher at each start.
    pub epoch: u64,
    /// Where numbering ended, if the last stop was clean.
    pub clean: Option<Clean>,
}

impl Epoch {
    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let clean = self.clean.unwrap_or(Clean { next_sequence: 0, timestamp: 0 });
        let fixed = FixedEpoch {
            head: Head::new(EPOCH_MAGIC, if self.clean.is_some() { FLAG_CLEAN } else { 0 }),
            epoch: U64::new(self.epoch),
            next_sequence: U64::new(clean.next_sequence),
            timestamp: I64::new(clean.timestamp),
        };
        let mut bytes = fixed.as_bytes().to_vec();
        head::seal(&mut bytes);
        bytes
    }

    /// Reads the file's bytes.
    pub fn read(bytes: &[u8]) -> Result<Epoch, BadPart> {
        let flags = head::check(bytes, EPOCH_MAGIC)?;
        let fixed: &FixedEpoch = head::fixed(bytes)?;
        let clean = Clean { next_sequence: fixed.next_sequence.get(), timestamp: fixed.timestamp.get() };
        Ok(Epoch { epoch: fixed.epoch.get(), clean: (flags & FLAG_CLEAN != 0).then_some(clean) })
    }

    /// The epoch of the last start; `None` if the file is missing, `Some(Err)` if it is damaged. Neither stops a
    /// start: numbering then goes on as after an unclean stop.
    pub fn load(disk: &dyn Disk) -> Result<Option<Result<Epoch, BadPart>>> {
        let file = match arioso_disk::read_small(disk, EPOCH_FILE, crate::batch::PAGE_BYTES) {
            Err(arioso_disk::Error::TooLarge { .. }) => return Ok(Some(Err(BadPart::Field { field: "length" }))),
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        Ok(Some(Epoch::read(&file)))
    }

    /// Writes it durably.
    pub fn store(&self, disk: &dyn Disk) -> Result<()> {
        Ok(arioso_disk::replace(disk, EPOCH_FILE, &self.encode())?)
    }
}
