//! The runs part: where, group by group, the records of each topic lie (docs/format.md section 9.1).
//!
//! It is read a page at a time: a reader of one topic reads one page.

use arioso_disk::File;

use crate::head::BadPart;
use crate::segment::PartPlace;
use crate::{Error, Result};

/// A page is closed by the entry that takes it to this.
pub const PAGE_BYTES: usize = 4 << 10;
const HEAD_BYTES: usize = 8;
/// Bits of a place that say where in its page the entry is.
const AT_BITS: u32 = 13;
/// The longest page: an entry for a topic in every group of a store.
const PAGE_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(HEAD_BYTES + PAGE_BYTES < 1 << AT_BITS);

/// What a topic has in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The group.
    pub group: u32,
    /// The first block, from the group's beginning.
    pub offset: u32,
    /// Bytes on disk up to the end of the last block.
    pub bytes: u32,
}

/// Makes pages out of topics' runs.
#[derive(Debug)]
pub struct RunsWriter {
    page: Vec<u8>,
    /// Where the page begins in the part.
    at: u64,
}

impl Default for RunsWriter {
    fn default() -> RunsWriter {
        RunsWriter { page: vec![0; HEAD_BYTES], at: 0 }
    }
}

impl RunsWriter {
    /// Adds a topic's runs; gives its place. A page that is full goes to `sink`.
    pub fn push(&mut self, runs: &[Run], sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let place = self.at << AT_BITS | self.page.len() as u64;
        put(&mut self.page, runs.len() as u64);
        let mut before = 0;
        for run in runs {
            put(&mut self.page, u64::from(run.group - before));
            put(&mut self.page, u64::from(run.offset));
            put(&mut self.page, u64::from(run.bytes));
            before = run.group;
        }
        if self.page.len() >= PAGE_BYTES {
            self.close(sink)?;
        }
        Ok(place)
    }

    fn close(&mut self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let bytes = self.page.len() as u32;
        self.page[4..8].copy_from_slice(&bytes.to_le_bytes());
        let checksum = crc32c::crc32c(&self.page[4..]);
        self.page[..4].copy_from_slice(&checksum.to_le_bytes());
        sink(&self.page)?;
        self.at += u64::from(bytes);
        self.page.clear();
        self.page.resize(HEAD_BYTES, 0);
        Ok(())
    }

    /// Writes what is left; gives the bytes of the part.
    pub fn finish(mut self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        if self.page.len() > HEAD_BYTES {
            self.close(sink)?;
        }
        Ok(self.at)
    }
}

/// A page that was read.
#[derive(Debug, Default)]
pub struct RunsPage {
    at: Option<u64>,
    bytes: Vec<u8>,
}

impl RunsPage {
    /// The runs at a place; reads its page if another one is held. Tells the bytes read.
    pub fn runs(&mut self, file: &dyn File, part: PartPlace, place: u64, out: &mut Vec<Run>) -> Result<u64> {
        let (at, within) = (place >> AT_BITS, (place & ((1 << AT_BITS) - 1)) as usize);
        let wrong = |bad| Error::part(file.path(), part.offset.saturating_add(at), bad);
        let mut read = 0;
        if self.at != Some(at) {
            self.at = None;
            read = self.load(file, part, at)?;
            self.at = Some(at);
        }
        out.clear();
        let mut rest = self.bytes.get(within..).ok_or_else(|| wrong(BadPart::Field { field: "place of runs" }))?;
        let entry = decode(&mut rest, out);
        entry.ok_or_else(|| wrong(BadPart::Field { field: "list of runs" }))?;
        Ok(read)
    }

    fn load(&mut self, file: &dyn File, part: PartPlace, at: u64) -> Result<u64> {
        let wrong = |bad| Error::part(file.path(), part.offset.saturating_add(at), bad);
        let left = part.bytes.checked_sub(at).ok_or_else(|| wrong(BadPart::Field { field: "place of runs" }))?;
        let mut want = (left as usize).min(HEAD_BYTES + PAGE_BYTES + 64);
        loop {
            self.bytes.resize(want, 0);
            file.read_exact_at(&mut self.bytes, part.offset + at)?;
            let Some(head) = self.bytes.first_chunk::<HEAD_BYTES>() else {
                return Err(wrong(BadPart::Short { have: want, need: HEAD_BYTES }));
            };
            let bytes = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            if !(HEAD_BYTES..=PAGE_BYTES_MAX).contains(&bytes) || bytes as u64 > left {
                return Err(wrong(BadPart::Field { field: "length of a page of runs" }));
            }
            if bytes > want {
                want = bytes;
                continue;
            }
            let want = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            self.bytes.truncate(bytes);
            let got = crc32c::crc32c(&self.bytes[4..]);
            return if want == got { Ok(bytes as u64) } else { Err(wrong(BadPart::Checksum { want, got })) };
        }
    }
}

fn decode(rest: &mut &[u8], out: &mut Vec<Run>) -> Option<()> {
    let count = take(rest)?;
    let mut group = 0u32;
    for _ in 0..count {
        group = group.checked_add(u32::try_from(take(rest)?).ok()?)?;
        let (offset, bytes) = (u32::try_from(take(rest)?).ok()?, u32::try_from(take(rest)?).ok()?);
        out.push(Run { group, offset, bytes });
    }
    Some(())
}

fn put(target: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        target.push(value as u8 | 0x80);
        value >>= 7;
    }
    target.push(value as u8);
}

fn take(source: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = source.split_off_first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}
