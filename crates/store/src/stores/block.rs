//! Blocks: what of a store is compressed, checksummed and read at once (docs/format.md section 9.1).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::head::BadPart;

const MAGIC: [u8; 4] = *b"ABLK";
/// Bytes of a block before its records.
pub const BLOCK_FIXED_BYTES: usize = 48;
/// A block is closed before the record that would take it past this, unless it is its first.
pub const BLOCK_BYTES: usize = 64 << 10;
/// A topic with so many bytes in a group shares its blocks with nobody; small ones share until they have this.
pub const BLOCK_BYTES_SHARED: usize = 4 << 10;
/// The longest block: one record of the largest payload with all its extensions.
pub const BLOCK_BYTES_MAX: usize = 17 << 20;

const PLAIN: u8 = 0;
const LZ4: u8 = 1;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    magic: [u8; 4],
    checksum: U32,
    encoding: u8,
    zero: [u8; 3],
    bytes: U32,
    records_bytes: U32,
    records: U32,
    first: U64,
    last: U64,
    offset: U64,
}

const _: () = assert!(size_of::<Fixed>() == BLOCK_FIXED_BYTES);

/// What a block's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// Bytes on disk, the head included.
    pub bytes: usize,
    /// Bytes of its records.
    pub records_bytes: usize,
    /// Records.
    pub records: u32,
    /// The lowest sequence in it.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

/// Records on their way into a block.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    records: Vec<u8>,
    count: u32,
    first: u64,
    last: u64,
}

impl BlockBuilder {
    /// Bytes of the records so far.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a record.
    pub fn push(&mut self, sequence: u64, record: &[u8]) {
        self.first = if self.count == 0 { sequence } else { self.first.min(sequence) };
        self.last = self.last.max(sequence);
        self.count += 1;
        self.records.extend_from_slice(record);
    }

    /// Appends the block to `out`; it will lie at `offset` in its file. Begins the next one.
    pub fn finish(&mut self, offset: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let body = start + BLOCK_FIXED_BYTES;
        let room = lz4_flex::block::get_maximum_output_size(self.records.len());
        out.resize(body + room, 0);
        let packed = lz4_flex::block::compress_into(&self.records, &mut out[body..]);
        let encoding = match packed {
            Ok(bytes) if bytes < self.records.len() => {
                out.truncate(body + bytes);
                LZ4
            }
            _ => {
                out.truncate(body);
                out.extend_from_slice(&self.records);
                PLAIN
            }
        };
        let mut fixed = Fixed {
            magic: MAGIC,
            checksum: U32::ZERO,
            encoding,
            zero: [0; 3],
            bytes: U32::new((out.len() - start) as u32),
            records_bytes: U32::new(self.records.len() as u32),
            records: U32::new(self.count),
            first: U64::new(self.first),
            last: U64::new(self.last),
            offset: U64::new(offset),
        };
        out[start..body].copy_from_slice(fixed.as_bytes());
        fixed.checksum = U32::new(crc32c::crc32c(&out[start + 8..]));
        out[start..body].copy_from_slice(fixed.as_bytes());
        self.records.clear();
        (self.count, self.first, self.last) = (0, 0, 0);
    }
}

/// Reads the block at the front of `bytes`, which lies at `offset` in its file, and appends its records to `out`.
pub fn read(bytes: &[u8], offset: u64, out: &mut Vec<u8>) -> Result<BlockHead, BadPart> {
    let (fixed, head) = read_head(bytes)?;
    if bytes.len() < head.bytes {
        return Err(BadPart::Short { have: bytes.len(), need: head.bytes });
    }
    let (want, got) = (fixed.checksum.get(), crc32c::crc32c(&bytes[8..head.bytes]));
    if want != got {
        return Err(BadPart::Checksum { want, got });
    }
    if fixed.offset.get() != offset {
        let (want, got) = (u128::from(offset), u128::from(fixed.offset.get()));
        return Err(BadPart::Other { field: "offset", want, got });
    }
    let body = &bytes[BLOCK_FIXED_BYTES..head.bytes];
    let start = out.len();
    match fixed.encoding {
        PLAIN if body.len() == head.records_bytes => out.extend_from_slice(body),
        LZ4 => {
            out.resize(start + head.records_bytes, 0);
            match lz4_flex::block::decompress_into(body, &mut out[start..]) {
                Ok(bytes) if bytes == head.records_bytes => {}
                _ => {
                    out.truncate(start);
                    return Err(BadPart::Field { field: "compressed form" });
                }
            }
        }
        PLAIN => return Err(BadPart::Field { field: "bytes of records" }),
        _ => return Err(BadPart::Field { field: "encoding" }),
    }
    Ok(head)
}

fn read_head(bytes: &[u8]) -> Result<(&Fixed, BlockHead), BadPart> {
    let short = BadPart::Short { have: bytes.len(), need: BLOCK_FIXED_BYTES };
    let (fixed, _) = Fixed::ref_from_prefix(bytes).map_err(|_| short)?;
    if fixed.magic != MAGIC {
        return Err(BadPart::Magic);
    }
    let head = BlockHead {
        bytes: fixed.bytes.get() as usize,
        records_bytes: fixed.records_bytes.get() as usize,
        records: fixed.records.get(),
        first: fixed.first.get(),
        last: fixed.last.get(),
    };
    let most = BLOCK_FIXED_BYTES + BLOCK_BYTES_MAX;
    if !(BLOCK_FIXED_BYTES..=most).contains(&head.bytes) || head.records_bytes > BLOCK_BYTES_MAX {
        return Err(BadPart::Field { field: "length" });
    }
    Ok((fixed, head))
}
