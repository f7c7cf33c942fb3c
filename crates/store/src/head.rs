//! What all our files begin with, and small helpers to read and write their fixed parts.
//!
//! ```text
//! 0 u8[8] magic   8 u16 version   10 u16 flags   12 u32 checksum of the whole part, this field taken as zero
//! ```

use arioso_disk::{Disk, File};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::batch::PAGE_BYTES;
use crate::{Error, Result};

/// Bytes of the head.
pub const HEAD_BYTES: usize = 16;
/// The version of every file this code writes.
pub const FILE_VERSION: u16 = 1;
const CHECKSUM_AT: usize = 12;

/// The head as it lies.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Head {
    /// Tells the kind of file.
    pub magic: [u8; 8],
    /// Of the format.
    pub version: U16,
    /// By kind.
    pub flags: U16,
    /// CRC-32C of the part with this field zero.
    pub checksum: U32,
}

const _: () = assert!(size_of::<Head>() == HEAD_BYTES);

impl Head {
    /// A head whose checksum is still to be set by [`seal`].
    pub fn new(magic: [u8; 8], flags: u16) -> Head {
        Head { magic, version: U16::new(FILE_VERSION), flags: U16::new(flags), checksum: U32::ZERO }
    }
}

/// What is wrong with bytes that should be a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPart {
    /// The bytes end too early.
    #[error("it is cut: {need} bytes are needed, {have} are there")]
    Short {
        /// Bytes there are.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// It begins with something else.
    #[error("it does not begin with the magic of its kind")]
    Magic,
    /// A version this reader does not know.
    #[error("version {version} is not known, this reader knows 1")]
    Version {
        /// The version.
        version: u16,
    },
    /// It is not what was written.
    #[error("its checksum is {got:#010x}, {want:#010x} was written")]
    Checksum {
        /// What it says.
        want: u32,
        /// What its bytes give.
        got: u32,
    },
    /// Its checksum is right, its content is impossible.
    #[error("its {field} is impossible")]
    Field {
        /// Which part of it.
        field: &'static str,
    },
    /// It belongs to another stream, segment or incarnation.
    #[error("its {field} is {got:#x}, {want:#x} belongs here")]
    Other {
        /// Which field tells.
        field: &'static str,
        /// What belongs here.
        want: u128,
        /// What stands there.
        got: u128,
    },
}

/// Sets the checksum of a part that begins with a head.
pub fn seal(bytes: &mut [u8]) {
    let checksum = checksum(bytes);
    bytes[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Tests a part that begins with a head; gives the flags.
pub fn check(bytes: &[u8], magic: [u8; 8]) -> Result<u16, BadPart> {
    let Ok((head, _)) = Head::ref_from_prefix(bytes) else {
        return Err(BadPart::Short { have: bytes.len(), need: HEAD_BYTES });
    };
    if head.magic != magic {
        return Err(BadPart::Magic);
    }
    if head.version.get() != FILE_VERSION {
        return Err(BadPart::Version { version: head.version.get() });
    }
    let (want, got) = (head.checksum.get(), checksum(bytes));
    if want != got {
        return Err(BadPart::Checksum { want, got });
    }
    Ok(head.flags.get())
}

fn checksum(bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
    let zeroed = crc32c::crc32c_append(before, &[0; 4]);
    crc32c::crc32c_append(zeroed, &bytes[HEAD_BYTES..])
}

/// A page that holds `fixed` at its start, its checksum set.
pub fn page(fixed: &[u8]) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    page[..fixed.len()].copy_from_slice(fixed);
    seal(&mut page);
    page
}

/// The fixed part at the start of a page whose head was tested.
pub fn fixed<T: FromBytes + KnownLayout + Immutable + Unaligned>(page: &[u8]) -> Result<&T, BadPart> {
    let short = BadPart::Short { have: page.len(), need: size_of::<T>() };
    T::ref_from_prefix(page).map(|(fixed, _)| fixed).map_err(|_| short)
}

/// Reads the page at `offset`; a file that ends before it is a short part.
pub fn read_page(file: &dyn File, offset: u64) -> Result<Result<Vec<u8>, BadPart>> {
    let mut page = vec![0; PAGE_BYTES];
    let have = file.read_at(&mut page, offset)?;
    Ok(if have == PAGE_BYTES { Ok(page) } else { Err(BadPart::Short { have, need: PAGE_BYTES }) })
}

/// Reads a small file whole; `None` if there is none.
pub fn read_whole(disk: &dyn Disk, path: &str, bytes_max: usize) -> Result<Option<Vec<u8>>> {
    match arioso_disk::read_small(disk, path, bytes_max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Error::Disk(error)),
    }
}

/// Cuts fields off the front of bytes; `None` once they end too early.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a>(pub &'a [u8]);

impl<'a> Cut<'a> {
    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next eight, signed.
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}
