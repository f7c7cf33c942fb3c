//! The bytes of a directory: entries, block headers, the trailer. Decoding is total: whatever the bytes are, it
//! answers with a value or with what is wrong, and allocates nothing but the name it was given room for.

use arioso_stream::Sequence;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BLOCK_BYTES, Entry, NAME_BYTES_MAX, Totals};

/// The longest varint of 64 bits.
const VARINT_BYTES_MAX: usize = 10;
/// Two lengths, the name, the id, four figures, the sum.
const ENTRY_BYTES_MAX: usize = 2 * 2 + NAME_BYTES_MAX + 5 + 4 * VARINT_BYTES_MAX + 8;
/// A block is closed by the entry that reaches [`BLOCK_BYTES`].
pub const BLOCK_BYTES_MAX: usize = BLOCK_HEADER_BYTES + BLOCK_BYTES + ENTRY_BYTES_MAX;

pub const BLOCK_HEADER_BYTES: usize = 12;
pub const INDEX_ENTRY_BYTES: usize = 14;
pub const TRAILER_BYTES: usize = 80;

pub const MAGIC: [u8; 8] = *b"ARIODIR1";
pub const VERSION: u16 = 1;

const _: () = assert!(size_of::<BlockHeader>() == BLOCK_HEADER_BYTES);
const _: () = assert!(size_of::<IndexEntry>() == INDEX_ENTRY_BYTES);
const _: () = assert!(size_of::<Trailer>() == TRAILER_BYTES);
// Two bytes of varint hold the length of a name.
const _: () = assert!(NAME_BYTES_MAX < 1 << 14);

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockHeader {
    /// Of everything behind this field.
    pub checksum: U32,
    /// Of the whole block.
    pub bytes: U32,
    pub entries: U32,
}

/// One block in the sparse index; the name of its first entry follows.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IndexEntry {
    /// The header of the block, once more: a block of another directory does not pass.
    pub block: BlockHeader,
    pub name_bytes: U16,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Trailer {
    pub magic: [u8; 8],
    pub version: U16,
    pub zero: U16,
    /// Of the trailer with this field zero.
    pub checksum: U32,
    pub entries: U64,
    pub messages: U64,
    pub bytes: U64,
    pub last_sequence: U64,
    pub sum: U64,
    pub blocks_bytes: U64,
    pub index_bytes: U64,
    pub blocks: U32,
    pub index_checksum: U32,
}

impl Trailer {
    pub fn totals(&self) -> Totals {
        Totals {
            entries: self.entries.get(),
            messages: self.messages.get(),
            bytes: self.bytes.get(),
            last_sequence: Sequence(self.last_sequence.get()),
            sum: self.sum.get(),
        }
    }

    /// What the checksum field should hold.
    pub fn compute_checksum(&self) -> u32 {
        crc32c::crc32c(Trailer { checksum: 0.into(), ..*self }.as_bytes())
    }
}

/// Appends an entry whose name begins with `shared` bytes of the name before it.
pub fn encode(target: &mut Vec<u8>, entry: &Entry<'_>, shared: usize) {
    let rest = &entry.name[shared..];
    put_varint(target, shared as u64);
    put_varint(target, rest.len() as u64);
    target.extend_from_slice(rest);
    for value in [u64::from(entry.topic), entry.messages, entry.bytes, entry.last_sequence.0, entry.last_place] {
        put_varint(target, value);
    }
    target.extend_from_slice(&entry.sum.to_le_bytes());
}

fn put_varint(target: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        target.push(value as u8 | 0x80);
        value >>= 7;
    }
    target.push(value as u8);
}

/// The figures of an entry; its name is where the decoder put it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub topic: u32,
    pub messages: u64,
    pub bytes: u64,
    pub last_sequence: Sequence,
    pub last_place: u64,
    pub sum: u64,
}

impl Figures {
    pub fn named(self, name: &[u8]) -> Entry<'_> {
        let Figures { topic, messages, bytes, last_sequence, last_place, sum } = self;
        Entry { name, topic, messages, bytes, last_sequence, last_place, sum }
    }
}

/// What is wrong with an entry: which field, its value, what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub what: &'static str,
    pub got: u64,
    pub want: &'static str,
}

impl Wrong {
    pub fn new(what: &'static str, got: u64, want: &'static str) -> Self {
        Wrong { what, got, want }
    }
}

/// Reads one entry at the front of `source` and takes it off. `name` holds the name of the entry before, if
/// `first` is not set, and then that of this one.
pub fn decode(source: &mut &[u8], name: &mut Vec<u8>, first: bool) -> Result<Figures, Wrong> {
    let shared = take_varint(source)?;
    let rest_bytes = take_varint(source)?;
    let shared_max = if first { 0 } else { name.len() as u64 };
    if shared > shared_max {
        return Err(Wrong::new("shared bytes of a name", shared, "at most the name before"));
    }
    let room = NAME_BYTES_MAX as u64 - shared;
    if rest_bytes == 0 || rest_bytes > room {
        return Err(Wrong::new("length of the rest of a name", rest_bytes, "1 or more, the whole at most 1024"));
    }
    let rest = take(source, rest_bytes as usize)?;
    if !first && rest <= &name[shared as usize..] {
        return Err(Wrong::new("place of a name", shared, "behind the name before"));
    }
    name.truncate(shared as usize);
    name.extend_from_slice(rest);
    let topic = take_varint(source)?;
    let topic = u32::try_from(topic).map_err(|_| Wrong::new("topic id", topic, "below 2^32"))?;
    let (messages, bytes) = (take_varint(source)?, take_varint(source)?);
    let (last_sequence, last_place) = (Sequence(take_varint(source)?), take_varint(source)?);
    let mut sum = [0; 8];
    sum.copy_from_slice(take(source, 8)?);
    Ok(Figures { topic, messages, bytes, last_sequence, last_place, sum: u64::from_le_bytes(sum) })
}

fn take<'a>(source: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], Wrong> {
    source.split_off(..bytes).ok_or(Wrong::new("bytes left in a block", source.len() as u64, "a whole entry"))
}

/// The shortest form only: a value has one spelling.
fn take_varint(source: &mut &[u8]) -> Result<u64, Wrong> {
    let mut value = 0;
    for at in 0..VARINT_BYTES_MAX {
        let byte = u64::from(take(source, 1)?[0]);
        let part = byte & 0x7f;
        let shift = 7 * at as u32;
        if part << shift >> shift != part || (byte == 0 && at > 0) {
            return Err(Wrong::new("last byte of a number", byte, "the shortest form of 64 bits"));
        }
        value |= part << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Wrong::new("length of a number", VARINT_BYTES_MAX as u64 + 1, "at most 10"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_spelling() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut source = &bytes[..];
            assert_eq!((take_varint(&mut source), source), (Ok(value), &[][..]));
        }
        let wrong: [&[u8]; 5] = [&[0x80, 0], &[0xff, 0x80, 0], &[0xff; 11], &[0x80], &[]];
        for mut bytes in wrong {
            assert!(take_varint(&mut bytes).is_err());
        }
        // Bits past the 64th.
        let mut bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert!(take_varint(&mut bytes).is_err());
    }
}
