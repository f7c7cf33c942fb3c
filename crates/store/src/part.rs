//! Parts of footers and bases that are small enough to be read whole: a magic, a checksum, the rest.
//!
//! ```text
//! 0 u8[4] magic   4 u32 checksum of the rest   8 the rest
//! ```

use arioso_disk::File;

use crate::head::BadPart;
use crate::segment::PartPlace;
use crate::{Error, Result};

const HEAD_BYTES: usize = 8;

/// The largest part that is read whole: the windows of 10,000 publishers with 8,192 runs of 24 bytes each would be
/// 2 GiB, so a base is refused before it takes a machine's memory.
pub const PART_BYTES_MAX: u64 = 4 << 30;

/// A part with its head.
pub fn seal(magic: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + rest.len());
    out.extend_from_slice(&magic);
    out.extend_from_slice(&crc32c::crc32c(rest).to_le_bytes());
    out.extend_from_slice(rest);
    out
}

/// The rest of a part whose head was tested.
pub fn check(magic: [u8; 4], bytes: &[u8]) -> Result<&[u8], BadPart> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
        return Err(BadPart::Short { have: bytes.len(), need: HEAD_BYTES });
    };
    if head[..4] != magic {
        return Err(BadPart::Magic);
    }
    let (want, got) = (u32::from_le_bytes([head[4], head[5], head[6], head[7]]), crc32c::crc32c(rest));
    if want != got {
        return Err(BadPart::Checksum { want, got });
    }
    Ok(rest)
}

/// Reads a part of a file whole; an empty place is an empty part.
pub fn load(file: &dyn File, place: PartPlace) -> Result<Vec<u8>> {
    if place.bytes > PART_BYTES_MAX {
        let (have, max) = (place.bytes, PART_BYTES_MAX);
        return Err(Error::TooLarge { file: file.path().to_owned(), what: "a part", have, max, unit: "bytes" });
    }
    let there = file.len()?.saturating_sub(place.offset);
    if place.bytes > there {
        let bad = BadPart::Short { have: there as usize, need: place.bytes as usize };
        return Err(Error::part(file.path(), place.offset, bad));
    }
    let mut bytes = vec![0; place.bytes as usize];
    file.read_exact_at(&mut bytes, place.offset)?;
    Ok(bytes)
}
