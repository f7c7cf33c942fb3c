//! A store's file: header, trailer, groups, and what is read of them.

use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use arioso_stream::Records;
use bytes::{BufMut, Bytes};
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{block, store_path};
use crate::directory::DirectoryReader;
use crate::head::{self, BadPart, Cut, Head};
use crate::segment::PartPlace;
use crate::segment::header::expect;
use crate::segment::trailer::FixedPlace;
use crate::{Error, Result, part};

const HEADER_MAGIC: [u8; 8] = *b"ARIOSTO1";
const TRAILER_MAGIC: [u8; 8] = *b"ARIOSTE1";
const GROUPS_MAGIC: [u8; 4] = *b"AGRP";
const PLAN_VERSION: u32 = 1;
/// Bytes of a group's row.
const GROUP_ROW_BYTES: usize = 48;
/// Bytes of the trailer.
pub const TRAILER_BYTES: usize = 128;
/// What is read at once of a group: large enough that a disk streams.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FixedHeader {
    head: Head,
    stream: U128,
    span: U64,
    store: U32,
    plan: U32,
    first: U64,
    last: U64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FixedTrailer {
    head: Head,
    span: U64,
    store: U32,
    groups_count: U32,
    messages: U64,
    bytes: U64,
    runs: FixedPlace,
    groups: FixedPlace,
    directory: FixedPlace,
    groups_end: U64,
    zero: [U64; 3],
}

const _: () = assert!(size_of::<FixedHeader>() == 64 && size_of::<FixedTrailer>() == TRAILER_BYTES);

/// Whose store a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreHeader {
    /// The stream.
    pub stream: u128,
    /// The span.
    pub span: u64,
    /// The store's number in it.
    pub store: u32,
    /// The span's first sequence.
    pub first: u64,
    /// The span's last.
    pub last: u64,
}

impl StoreHeader {
    /// As page 0.
    pub fn encode(&self) -> Vec<u8> {
        let fixed = FixedHeader {
            head: Head::new(HEADER_MAGIC, 0),
            stream: U128::new(self.stream),
            span: U64::new(self.span),
            store: U32::new(self.store),
            plan: U32::new(PLAN_VERSION),
            first: U64::new(self.first),
            last: U64::new(self.last),
        };
        head::page(fixed.as_bytes())
    }

    fn check(page: &[u8], stream: u128, span: u64, store: u32) -> Result<(), BadPart> {
        head::check(page, HEADER_MAGIC)?;
        let fixed: &FixedHeader = head::fixed(page)?;
        expect("stream id", stream, fixed.stream.get())?;
        expect("span id", u128::from(span), u128::from(fixed.span.get()))?;
        expect("number of the store", u128::from(store), u128::from(fixed.store.get()))?;
        if page[size_of::<FixedHeader>()..].iter().any(|byte| *byte != 0) {
            return Err(BadPart::Field { field: "rest of the page" });
        }
        Ok(())
    }
}

/// Where the parts of a store lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTrailer {
    /// The span.
    pub span: u64,
    /// The store's number in it.
    pub store: u32,
    /// Groups.
    pub groups_count: u32,
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// The runs part.
    pub runs: PartPlace,
    /// The groups part.
    pub groups: PartPlace,
    /// The directory.
    pub directory: PartPlace,
    /// The end of the last group.
    pub groups_end: u64,
}

impl StoreTrailer {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let fixed = FixedTrailer {
            head: Head::new(TRAILER_MAGIC, 0),
            span: U64::new(self.span),
            store: U32::new(self.store),
            groups_count: U32::new(self.groups_count),
            messages: U64::new(self.messages),
            bytes: U64::new(self.bytes),
            runs: self.runs.into(),
            groups: self.groups.into(),
            directory: self.directory.into(),
            groups_end: U64::new(self.groups_end),
            zero: [U64::ZERO; 3],
        };
        let mut bytes = fixed.as_bytes().to_vec();
        head::seal(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8], parts_end: u64) -> Result<StoreTrailer, BadPart> {
        head::check(bytes, TRAILER_MAGIC)?;
        let fixed: &FixedTrailer = head::fixed(bytes)?;
        let trailer = StoreTrailer {
            span: fixed.span.get(),
            store: fixed.store.get(),
            groups_count: fixed.groups_count.get(),
            messages: fixed.messages.get(),
            bytes: fixed.bytes.get(),
            runs: fixed.runs.into(),
            groups: fixed.groups.into(),
            directory: fixed.directory.into(),
            groups_end: fixed.groups_end.get(),
        };
        let inside = |part: &PartPlace| {
            part.offset >= trailer.groups_end && part.offset.checked_add(part.bytes).is_some_and(|end| end <= parts_end)
        };
        if ![trailer.runs, trailer.groups, trailer.directory].iter().all(inside) {
            return Err(BadPart::Field { field: "place of a part" });
        }
        Ok(trailer)
    }
}

/// A group's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes on disk.
    pub bytes: u64,
    /// Its first sequence.
    pub first: u64,
    /// Its last.
    pub last: u64,
    /// Bytes of its records.
    pub records_bytes: u64,
    /// Records.
    pub records: u32,
    /// Blocks.
    pub blocks: u32,
}

/// The groups part.
pub fn encode_groups(groups: &[Group]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(8 + groups.len() * GROUP_ROW_BYTES);
    rest.put_u32_le(groups.len() as u32);
    rest.put_u32_le(0);
    for group in groups {
        for value in [group.offset, group.bytes, group.first, group.last, group.records_bytes] {
            rest.put_u64_le(value);
        }
        rest.put_u32_le(group.records);
        rest.put_u32_le(group.blocks);
    }
    part::seal(GROUPS_MAGIC, &rest)
}

fn read_groups(bytes: &[u8]) -> Result<Vec<Group>, BadPart> {
    let mut rest = Cut(part::check(GROUPS_MAGIC, bytes)?);
    let mut read = || {
        let (count, _) = (rest.u32()?, rest.u32()?);
        if rest.0.len() != (count as usize).checked_mul(GROUP_ROW_BYTES)? {
            return None;
        }
        (0..count)
            .map(|_| {
                Some(Group {
                    offset: rest.u64()?,
                    bytes: rest.u64()?,
                    first: rest.u64()?,
                    last: rest.u64()?,
                    records_bytes: rest.u64()?,
                    records: rest.u32()?,
                    blocks: rest.u32()?,
                })
            })
            .collect()
    };
    read().ok_or(BadPart::Field { field: "list of groups" })
}

/// A store that is open: its groups' table is held, everything else is read when it is wanted.
#[derive(Debug)]
pub struct StoreFile {
    file: Arc<dyn File>,
    trailer: StoreTrailer,
    groups: Vec<Group>,
}

/// Takes a block's head, its offset and its records, which it may take away.
pub type EachBlock<'a> = dyn FnMut(&block::BlockHead, u64, &mut Vec<u8>) -> Result<()> + 'a;

/// What was read of a group.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Records in the order of the stream; beside those wanted, what shares their blocks.
    pub records: Bytes,
    /// Bytes read from disk.
    pub disk_bytes: u64,
}

impl StoreFile {
    /// Opens a store and tests header, trailer and groups' table.
    pub fn open(disk: &dyn Disk, stream: u128, span: u64, store: u32) -> Result<StoreFile> {
        let path = store_path(span, store);
        let file = disk.open(&path, Access::Read)?;
        let page = head::read_page(&*file, 0)?.map_err(|bad| Error::part(&path, 0, bad))?;
        StoreHeader::check(&page, stream, span, store).map_err(|bad| Error::part(&path, 0, bad))?;
        let length = file.len()?;
        let at = length.saturating_sub(TRAILER_BYTES as u64);
        let mut bytes = vec![0; TRAILER_BYTES];
        file.read_exact_at(&mut bytes, at)?;
        let trailer = StoreTrailer::read(&bytes, at).and_then(|trailer| {
            expect("span id", u128::from(span), u128::from(trailer.span))?;
            expect("number of the store", u128::from(store), u128::from(trailer.store))?;
            Ok(trailer)
        });
        let trailer = trailer.map_err(|bad| Error::part(&path, at, bad))?;
        let bytes = part::load(&*file, trailer.groups)?;
        let wrong = |bad| Error::part(&path, trailer.groups.offset, bad);
        let groups = read_groups(&bytes).map_err(wrong)?;
        let mut end = page.len() as u64;
        for group in &groups {
            if group.offset != end || group.first > group.last {
                return Err(wrong(BadPart::Field { field: "place of a group" }));
            }
            end = end.checked_add(group.bytes).ok_or_else(|| wrong(BadPart::Field { field: "length of a group" }))?;
        }
        if end != trailer.groups_end || groups.len() != trailer.groups_count as usize {
            return Err(wrong(BadPart::Field { field: "number of groups" }));
        }
        Ok(StoreFile { file, trailer, groups })
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Where its parts lie.
    pub fn trailer(&self) -> &StoreTrailer {
        &self.trailer
    }

    /// Its groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// What opening it reads beside the header.
    pub fn index_bytes(&self) -> u64 {
        TRAILER_BYTES as u64 + self.trailer.groups.bytes
    }

    /// Its directory.
    pub fn directory(&self) -> Result<DirectoryReader> {
        let PartPlace { offset, bytes } = self.trailer.directory;
        DirectoryReader::open(Arc::clone(&self.file), offset..offset + bytes)
    }

    /// Reads blocks that lie one behind the other, in pieces, and hands on each one's head, offset and records.
    pub fn blocks(&self, offset: u64, bytes: u64, each: &mut EachBlock<'_>) -> Result<()> {
        let end = offset + bytes;
        let (mut at, mut piece, mut skip) = (offset, Vec::new(), 0);
        let mut records = Vec::new();
        while at < end {
            let mut need = block::BLOCK_FIXED_BYTES;
            let head = loop {
                if piece.len() - skip < need {
                    let want = ((end - at) as usize).min(need.max(PIECE_BYTES));
                    piece.resize(want, 0);
                    skip = 0;
                    self.file.read_exact_at(&mut piece, at)?;
                }
                match block::read(&piece[skip..], at, &mut records) {
                    Err(BadPart::Short { have, need: more }) if more > have && (end - at) as usize >= more => {
                        need = more
                    }
                    other => break other.map_err(|bad| Error::part(self.file.path(), at, bad))?,
                }
            };
            each(&head, at, &mut records)?;
            skip += head.bytes;
            at += head.bytes as u64;
        }
        Ok(())
    }

    /// Reads a group, or only ranges of it (offset from its beginning, bytes), and restores the order of the stream.
    pub fn load(&self, group: u32, ranges: &[(u32, u32)]) -> Result<Loaded> {
        let row = self.groups.get(group as usize);
        let row = row.ok_or_else(|| {
            Error::part(self.file.path(), self.trailer.groups.offset, BadPart::Field { field: "number of a group" })
        })?;
        let whole = [(0u32, row.bytes as u32)];
        let ranges = if ranges.is_empty() { &whole[..] } else { ranges };
        let (mut records, mut disk_bytes) = (Vec::new(), 0);
        for (offset, bytes) in ranges {
            if u64::from(*offset) + u64::from(*bytes) > row.bytes {
                let bad = BadPart::Field { field: "place of a run" };
                return Err(Error::part(self.file.path(), self.trailer.runs.offset, bad));
            }
            self.blocks(row.offset + u64::from(*offset), (*bytes).into(), &mut |_, _, block| {
                records.append(block);
                Ok(())
            })?;
            disk_bytes += u64::from(*bytes);
        }
        let bad = || Error::part(self.file.path(), row.offset, BadPart::Field { field: "row of records" });
        let records = in_order(records).ok_or_else(bad)?;
        Ok(Loaded { records: records.into(), disk_bytes })
    }
}

/// Records in the order of their sequences; none if they do not parse.
fn in_order(records: Vec<u8>) -> Option<Vec<u8>> {
    let mut places: Vec<(u64, u32, u32)> = Vec::new();
    let mut at = 0;
    for record in Records::new(&records) {
        let record = record.ok()?;
        places.push((record.sequence().0, at as u32, record.bytes().len() as u32));
        at += record.bytes().len();
    }
    if places.is_sorted() {
        return Some(records);
    }
    places.sort_unstable();
    let mut ordered = Vec::with_capacity(records.len());
    for (_, at, bytes) in places {
        ordered.extend_from_slice(&records[at as usize..][..bytes as usize]);
    }
    Some(ordered)
}
