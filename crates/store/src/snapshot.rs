//! Application snapshots: a header page, then the application's bytes as they are (docs/format.md section 10).

use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::batch::PAGE_BYTES;
use crate::head::{self, BadPart, Head};

const MAGIC: [u8; 8] = *b"ARIOSNP1";
/// The folder they lie in.
pub const SNAPSHOTS_DIR: &str = "snapshots";
/// What their files' names end with.
pub const SNAPSHOT_SUFFIX: &str = ".snap";
/// Where the application's bytes begin.
pub const SNAPSHOT_AT: u64 = PAGE_BYTES as u64;
/// Bytes of a snapshot's name.
pub const SNAPSHOT_NAME_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    head: Head,
    stream: U128,
    as_of: U64,
    bytes: U64,
    hash: U64,
    name_bytes: U16,
    zero: U16,
    zeros: U32,
}

const _: () = assert!(size_of::<Fixed>() == 64);

/// What a snapshot's header tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The stream.
    pub stream: u128,
    /// Everything up to this sequence is in it.
    pub as_of: u64,
    /// Bytes of the application.
    pub bytes: u64,
    /// Their XXH3.
    pub hash: u64,
    /// Its name.
    pub name: String,
}

impl SnapshotHeader {
    /// As the file's first page.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.name.len() <= SNAPSHOT_NAME_BYTES_MAX, "the name was checked where it came in");
        let fixed = Fixed {
            head: Head::new(MAGIC, 0),
            stream: U128::new(self.stream),
            as_of: U64::new(self.as_of),
            bytes: U64::new(self.bytes),
            hash: U64::new(self.hash),
            name_bytes: U16::new(self.name.len() as u16),
            zero: U16::ZERO,
            zeros: U32::ZERO,
        };
        let mut content = fixed.as_bytes().to_vec();
        content.extend_from_slice(self.name.as_bytes());
        head::page(&content)
    }

    /// Reads the file's first page.
    pub fn read(page: &[u8]) -> Result<SnapshotHeader, BadPart> {
        head::check(page, MAGIC)?;
        let fixed: &Fixed = head::fixed(page)?;
        let name = page.get(size_of::<Fixed>()..size_of::<Fixed>() + usize::from(fixed.name_bytes.get()));
        let name = name.and_then(|name| std::str::from_utf8(name).ok()).ok_or(BadPart::Field { field: "name" })?;
        Ok(SnapshotHeader {
            stream: fixed.stream.get(),
            as_of: fixed.as_of.get(),
            bytes: fixed.bytes.get(),
            hash: fixed.hash.get(),
            name: name.to_owned(),
        })
    }
}

/// The path of a snapshot, by the XXH3 of its name.
pub fn snapshot_path(name_hash: u64, as_of: u64) -> String {
    format!("{SNAPSHOTS_DIR}/{name_hash:016x}-{as_of:016x}{SNAPSHOT_SUFFIX}")
}

/// What a file's name in the folder tells: the hash of the snapshot's name, and as of when it is.
pub fn read_snapshot_name(file: &str) -> Option<(u64, u64)> {
    let (hash, as_of) = file.strip_suffix(SNAPSHOT_SUFFIX)?.split_once('-')?;
    Some((u64::from_str_radix(hash, 16).ok()?, u64::from_str_radix(as_of, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_and_a_changed_byte_is_found() {
        let header = SnapshotHeader { stream: 7, as_of: 11, bytes: 3, hash: 5, name: "inventory".into() };
        let mut page = header.encode();
        assert_eq!(page.len() as u64, SNAPSHOT_AT);
        assert_eq!(SnapshotHeader::read(&page), Ok(header));
        page[40] ^= 1;
        assert!(SnapshotHeader::read(&page).is_err());
        let path = snapshot_path(0xab, 9);
        let file = path.strip_prefix("snapshots/").unwrap();
        assert_eq!(read_snapshot_name(file), Some((0xab, 9)));
        assert_eq!(read_snapshot_name("x.snap"), None);
    }
}
