//! Reading a directory where it lies: the trailer and the sparse index are held, blocks are read when needed.

use std::ops::Range;
use std::sync::Arc;

use arioso_disk::File;
use zerocopy::FromBytes;

use super::bytes::{self, BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockHeader, Figures, IndexEntry};
use super::bytes::{INDEX_ENTRY_BYTES, MAGIC, TRAILER_BYTES, Trailer, VERSION, Wrong};
use super::{Entries, Entry, NAME_BYTES_MAX, Totals};
use crate::{Error, Result};

/// A directory in a file.
#[derive(Debug)]
pub struct DirectoryReader {
    place: Place,
    totals: Totals,
    blocks: Vec<Block>,
    /// The first name of each block, one behind the other.
    names: Vec<u8>,
}

/// Which bytes of which file.
#[derive(Debug)]
struct Place {
    file: Arc<dyn File>,
    range: Range<u64>,
}

/// One row of the sparse index.
#[derive(Debug)]
struct Block {
    /// In the file.
    offset: u64,
    header: BlockHeader,
    name: Range<usize>,
}

impl Place {
    fn wrong(&self, offset: u64, what: &'static str, got: u64, want: impl ToString) -> Error {
        Error::Malformed { file: self.file.path().to_owned(), offset, what, got, want: want.to_string() }
    }

    fn check(&self, offset: u64, what: &'static str, want: u32, got: u32) -> Result<()> {
        if want == got {
            return Ok(());
        }
        Err(Error::Checksum { file: self.file.path().to_owned(), offset, what, want, got })
    }

    fn read_trailer(&self) -> Result<(Trailer, u64)> {
        let bytes = self.range.end.saturating_sub(self.range.start);
        if bytes < TRAILER_BYTES as u64 {
            return Err(self.wrong(self.range.start, "directory's length", bytes, format!("at least {TRAILER_BYTES}")));
        }
        let offset = self.range.end - TRAILER_BYTES as u64;
        let mut trailer = [0; TRAILER_BYTES];
        self.file.read_exact_at(&mut trailer, offset)?;
        let trailer = Trailer::read_from_bytes(&trailer).expect("the buffer has the trailer's size");
        if trailer.magic != MAGIC {
            let file = self.file.path().to_owned();
            return Err(Error::Magic { file, offset, what: "a directory's trailer", got: trailer.magic, want: MAGIC });
        }
        self.check(offset, "directory trailer", trailer.checksum.get(), trailer.compute_checksum())?;
        if trailer.version.get() != VERSION {
            return Err(self.wrong(offset, "directory's version", trailer.version.get().into(), VERSION));
        }
        let parts = trailer.blocks_bytes.get().checked_add(trailer.index_bytes.get());
        if parts != Some(bytes - TRAILER_BYTES as u64) {
            let want = format!(
                "blocks of {} bytes, an index of {} and the trailer",
                trailer.blocks_bytes, trailer.index_bytes
            );
            return Err(self.wrong(offset, "directory's length", bytes, want));
        }
        Ok((trailer, offset))
    }

    /// Reads a block whole and checks it against the index.
    fn read_block(&self, block: &Block, buf: &mut Vec<u8>) -> Result<()> {
        buf.resize(block.header.bytes.get() as usize, 0);
        self.file.read_exact_at(buf, block.offset)?;
        let (header, _) = BlockHeader::read_from_prefix(buf).expect("the index holds no shorter block");
        let want = block.header.checksum.get();
        self.check(block.offset, "directory block", want, crc32c::crc32c(&buf[size_of_val(&header.checksum)..]))?;
        self.check(block.offset, "directory block's header", want, header.checksum.get())?;
        let (got, want) = (header.entries.get(), block.header.entries.get());
        if got != want || header.bytes.get() != block.header.bytes.get() {
            return Err(self.wrong(block.offset, "number of entries in a block", got.into(), want));
        }
        Ok(())
    }
}

impl DirectoryReader {
    /// Opens the directory that takes up `range` of a file: two reads, however large it is.
    pub fn open(file: Arc<dyn File>, range: Range<u64>) -> Result<Self> {
        let place = Place { file, range };
        let (trailer, index_end) = place.read_trailer()?;
        let index_start = place.range.start + trailer.blocks_bytes.get();
        // It lies before the trailer that was just read, so that it is no larger than the file.
        let index_bytes = usize::try_from(trailer.index_bytes.get()).map_err(|_| {
            place.wrong(index_start, "directory index's length", trailer.index_bytes.get(), "within memory")
        })?;
        let mut index = vec![0; index_bytes];
        place.file.read_exact_at(&mut index, index_start)?;
        place.check(index_start, "directory index", trailer.index_checksum.get(), crc32c::crc32c(&index))?;

        let mut reader = DirectoryReader { place, totals: trailer.totals(), blocks: Vec::new(), names: Vec::new() };
        let mut offset = reader.place.range.start;
        let mut rest = &index[..];
        while !rest.is_empty() {
            let at = index_end - rest.len() as u64;
            let (block, name) = parse_index_entry(&mut rest)
                .map_err(|wrong| reader.place.wrong(at, wrong.what, wrong.got, wrong.want))?;
            if reader.blocks.last().is_some_and(|last| &reader.names[last.name.clone()] >= name) {
                return Err(reader.place.wrong(
                    at,
                    "place of a block",
                    reader.blocks.len() as u64,
                    "in the order of names",
                ));
            }
            let start = reader.names.len();
            reader.names.extend_from_slice(name);
            reader.blocks.push(Block { offset, header: block, name: start..reader.names.len() });
            offset += u64::from(block.bytes.get());
        }
        let (blocks, want) = (reader.blocks.len() as u64, trailer.blocks.get());
        if blocks != u64::from(want) || offset != index_start {
            return Err(reader.place.wrong(index_start, "number of blocks", blocks, want));
        }
        Ok(reader)
    }

    /// The figures of all topics together, as the writer summed them.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The file it lies in.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.place.file
    }

    /// Which bytes of the file it takes up.
    pub fn range(&self) -> Range<u64> {
        self.place.range.clone()
    }

    /// Bytes of the sparse index and the trailer, which opening it reads.
    pub fn index_bytes(&self) -> u64 {
        self.place.range.end - self.place.range.start - self.blocks_bytes()
    }

    /// Bytes of all blocks.
    pub fn blocks_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.header.bytes.get())).sum()
    }

    /// Bytes of the block that a look-up of this name reads.
    pub fn block_bytes_of(&self, name: &[u8]) -> u64 {
        let behind = self.blocks.partition_point(|block| self.first_name(block) <= name);
        self.blocks.get(behind.saturating_sub(1)).map_or(0, |block| block.header.bytes.get().into())
    }

    /// What it holds in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.blocks.capacity() * size_of::<Block>() + self.names.capacity()
    }

    /// The figures of one topic; reads one block at most.
    pub fn get<'n>(&self, name: &'n [u8]) -> Result<Option<Entry<'n>>> {
        let mut scan = self.scan(name);
        // The first topic that begins with these bytes is the topic of these bytes, if it is there.
        if scan.advance_within_block()? && scan.name == name {
            return Ok(Some(scan.figures.named(name)));
        }
        Ok(None)
    }

    /// Reads every block and tests its checksum, without taking it apart.
    pub fn verify(&self) -> Result<()> {
        let mut bytes = Vec::new();
        self.blocks.iter().try_for_each(|block| self.place.read_block(block, &mut bytes))
    }

    /// Every topic whose bytes begin with a prefix, in order; all topics for an empty one. The prefix does not
    /// end at a level: `a/b` finds `a/bc` too (see [`DirectoryReader::subtree`]).
    pub fn scan<'a>(&'a self, prefix: &[u8]) -> Scan<'a> {
        let behind = self.blocks.partition_point(|block| self.first_name(block) <= prefix);
        let next = behind.saturating_sub(1);
        Scan {
            reader: self,
            prefix: prefix.to_vec(),
            block_next: next,
            block: Vec::new(),
            at: 0,
            entries_left: 0,
            name: Vec::new(),
            figures: Figures::default(),
            seen: Totals::default(),
            failed: None,
        }
    }

    /// A topic and everything below it, in order.
    pub fn subtree<'a>(&'a self, topic: &[u8]) -> Subtree<'a> {
        let below = [topic, b"/"].concat();
        Subtree { scan: self.scan(topic), topic: topic.to_vec(), below }
    }

    fn first_name(&self, block: &Block) -> &[u8] {
        &self.names[block.name.clone()]
    }
}

fn parse_index_entry<'a>(rest: &mut &'a [u8]) -> Result<(BlockHeader, &'a [u8]), Wrong> {
    let left = rest.len() as u64;
    let short = || Wrong::new("bytes left in the directory index", left, "a whole row");
    let row = rest.split_off(..INDEX_ENTRY_BYTES).ok_or_else(short)?;
    let row = IndexEntry::read_from_bytes(row).map_err(|_| short())?;
    let bytes = row.block.bytes.get();
    if !(BLOCK_HEADER_BYTES..=BLOCK_BYTES_MAX).contains(&(bytes as usize)) {
        return Err(Wrong::new("length of a block", bytes.into(), "12 to 17477"));
    }
    let name_bytes = usize::from(row.name_bytes.get());
    if !(1..=NAME_BYTES_MAX).contains(&name_bytes) {
        return Err(Wrong::new("length of a block's first name", name_bytes as u64, "1 to 1024"));
    }
    let name = rest.split_off(..name_bytes).ok_or_else(short)?;
    Ok((row.block, name))
}

/// A walk over the topics that begin with a prefix. It holds one block. An error ends it: whoever
/// asks again gets the same one.
#[derive(Debug)]
pub struct Scan<'a> {
    reader: &'a DirectoryReader,
    prefix: Vec<u8>,
    block_next: usize,
    block: Vec<u8>,
    at: usize,
    entries_left: u32,
    name: Vec<u8>,
    figures: Figures,
    seen: Totals,
    failed: Option<Error>,
}

impl Scan<'_> {
    /// Takes a step, unless one has failed.
    fn step(&mut self, step: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = step(self);
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Goes on to the next topic that begins with the prefix, through block after block.
    fn advance_through_blocks(&mut self) -> Result<bool> {
        loop {
            if self.advance_within_block()? {
                let entry = self.figures.named(&self.name);
                self.seen.add(&entry)?;
                return Ok(true);
            }
            if self.block_next == self.reader.blocks.len() {
                self.check_totals()?;
                return Ok(false);
            }
        }
    }

    /// Goes on to the next one in the block it stands in, or in the next block if it stands at an end.
    fn advance_within_block(&mut self) -> Result<bool> {
        if self.entries_left == 0 && !self.open_block()? {
            return Ok(false);
        }
        while self.entries_left > 0 {
            self.decode()?;
            if self.name.starts_with(&self.prefix) {
                return Ok(true);
            }
            if self.name > self.prefix {
                self.end();
            }
        }
        Ok(false)
    }

    /// Reads the next block, if there is one that may hold a topic with the prefix.
    fn open_block(&mut self) -> Result<bool> {
        let reader = self.reader;
        let Some(block) = reader.blocks.get(self.block_next) else { return Ok(false) };
        let first = reader.first_name(block);
        if first > &self.prefix[..] && !first.starts_with(&self.prefix) {
            self.end();
            return Ok(false);
        }
        reader.place.read_block(block, &mut self.block)?;
        let entries = block.header.entries.get();
        if entries == 0 {
            return Err(reader.place.wrong(block.offset, "number of entries in a block", 0, "1 or more"));
        }
        self.at = BLOCK_HEADER_BYTES;
        self.entries_left = entries;
        self.block_next += 1;
        Ok(true)
    }

    fn end(&mut self) {
        self.block_next = self.reader.blocks.len();
        self.entries_left = 0;
    }

    fn decode(&mut self) -> Result<()> {
        let place = &self.reader.place;
        let block = &self.reader.blocks[self.block_next - 1];
        let offset = block.offset + self.at as u64;
        let first = self.at == BLOCK_HEADER_BYTES;
        let mut rest = &self.block[self.at..];
        let figures = bytes::decode(&mut rest, &mut self.name, first)
            .map_err(|wrong| place.wrong(offset, wrong.what, wrong.got, wrong.want))?;
        if first && self.name != self.reader.first_name(block) {
            return Err(place.wrong(offset, "length of a first name", self.name.len() as u64, "the name in the index"));
        }
        if self.entries_left == 1 && !rest.is_empty() {
            return Err(place.wrong(offset, "bytes behind the last entry of a block", rest.len() as u64, 0));
        }
        let next = self.reader.blocks.get(self.block_next);
        if self.entries_left == 1 && next.is_some_and(|next| self.name[..] >= *self.reader.first_name(next)) {
            return Err(place.wrong(
                offset,
                "place of a block's last name",
                self.entries_left.into(),
                "before the next block's first",
            ));
        }
        self.figures = figures;
        self.at = self.block.len() - rest.len();
        self.entries_left -= 1;
        Ok(())
    }

    /// A walk over everything has seen what the writer counted.
    fn check_totals(&self) -> Result<()> {
        if !self.prefix.is_empty() {
            return Ok(());
        }
        let (seen, totals) = (&self.seen, &self.reader.totals);
        let figures = [
            ("number of topics", seen.entries, totals.entries),
            ("sum of messages", seen.messages, totals.messages),
            ("sum of bytes", seen.bytes, totals.bytes),
            ("last sequence", seen.last_sequence.0, totals.last_sequence.0),
            ("sum of sums", seen.sum, totals.sum),
        ];
        let trailer = self.reader.place.range.end - TRAILER_BYTES as u64;
        match figures.into_iter().find(|(_, seen, total)| seen != total) {
            Some((what, seen, total)) => Err(self.reader.place.wrong(trailer, what, seen, total)),
            None => Ok(()),
        }
    }
}

impl Entries for Scan<'_> {
    fn advance(&mut self) -> Result<bool> {
        self.step(Scan::advance_through_blocks)
    }

    fn entry(&self) -> Entry<'_> {
        self.figures.named(&self.name)
    }

    fn origin(&self) -> &str {
        self.reader.place.file.path()
    }
}

/// A walk over a topic and everything below it. Names like `a/b!` lie between `a/b` and `a/b/`: they are
/// passed over through the sparse index.
#[derive(Debug)]
pub struct Subtree<'a> {
    scan: Scan<'a>,
    topic: Vec<u8>,
    below: Vec<u8>,
}

impl Entries for Subtree<'_> {
    fn advance(&mut self) -> Result<bool> {
        if self.scan.prefix != self.below {
            let found = self.scan.step(Scan::advance_within_block)? && self.scan.name == self.topic;
            if found {
                return Ok(true);
            }
            self.scan = self.scan.reader.scan(&self.below);
        }
        self.scan.advance()
    }

    fn entry(&self) -> Entry<'_> {
        self.scan.entry()
    }

    fn origin(&self) -> &str {
        self.scan.origin()
    }
}
