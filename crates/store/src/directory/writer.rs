//! Writing a directory in one pass, into whatever takes its bytes.

use zerocopy::IntoBytes;

use super::bytes::{self, BlockHeader, IndexEntry, MAGIC, TRAILER_BYTES, Trailer, VERSION};
use super::{BLOCK_BYTES, Entry, NAME_BYTES_MAX, Totals};
use crate::Result;

/// Takes entries in the order of their names and hands the directory's bytes on, block by block. It holds
/// one block and the sparse index.
pub struct DirectoryWriter<'a> {
    sink: &'a mut dyn FnMut(&[u8]) -> Result<()>,
    block_bytes: usize,
    block: Vec<u8>,
    block_entries: u32,
    first_name: Vec<u8>,
    last_name: Vec<u8>,
    index: Vec<u8>,
    blocks: u32,
    blocks_bytes: u64,
    totals: Totals,
}

impl<'a> DirectoryWriter<'a> {
    /// A writer of an empty directory. What the sink fails with is what the writer's calls fail with.
    pub fn new(sink: &'a mut dyn FnMut(&[u8]) -> Result<()>) -> Self {
        DirectoryWriter::with_block_bytes(sink, BLOCK_BYTES)
    }

    /// The same with other blocks, which readers take as long as they are not larger.
    pub(super) fn with_block_bytes(sink: &'a mut dyn FnMut(&[u8]) -> Result<()>, block_bytes: usize) -> Self {
        assert!(block_bytes <= BLOCK_BYTES, "readers take blocks of {BLOCK_BYTES} bytes, not {block_bytes}");
        DirectoryWriter {
            sink,
            block_bytes,
            block: Vec::new(),
            block_entries: 0,
            first_name: Vec::new(),
            last_name: Vec::new(),
            index: Vec::new(),
            blocks: 0,
            blocks_bytes: 0,
            totals: Totals::default(),
        }
    }

    /// Adds the next topic, whose name is behind the one before.
    pub fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        let name = entry.name;
        assert!((1..=NAME_BYTES_MAX).contains(&name.len()), "a name has 1 to {NAME_BYTES_MAX} bytes");
        // The empty name before the first entry is before every name.
        assert!(name > &self.last_name[..], "names come in order, each once");
        self.totals.add(&entry)?;
        let shared = if self.block_entries == 0 {
            self.first_name.clear();
            self.first_name.extend_from_slice(name);
            self.block.resize(size_of::<BlockHeader>(), 0);
            0
        } else {
            name.iter().zip(&self.last_name).take_while(|(a, b)| a == b).count()
        };
        bytes::encode(&mut self.block, &entry, shared);
        self.block_entries += 1;
        self.last_name.clear();
        self.last_name.extend_from_slice(name);
        if self.block.len() - size_of::<BlockHeader>() >= self.block_bytes { self.close_block() } else { Ok(()) }
    }

    fn close_block(&mut self) -> Result<()> {
        let bytes = u32::try_from(self.block.len()).expect("a block is far below 4 GiB");
        let mut header = BlockHeader { checksum: 0.into(), bytes: bytes.into(), entries: self.block_entries.into() };
        self.block[..size_of::<BlockHeader>()].copy_from_slice(header.as_bytes());
        header.checksum = crc32c::crc32c(&self.block[size_of_val(&header.checksum)..]).into();
        self.block[..size_of::<BlockHeader>()].copy_from_slice(header.as_bytes());
        (self.sink)(&self.block)?;

        let name_bytes = u16::try_from(self.first_name.len()).expect("a name is far below 64 KiB");
        let indexed = IndexEntry { block: header, name_bytes: name_bytes.into() };
        self.index.extend_from_slice(indexed.as_bytes());
        self.index.extend_from_slice(&self.first_name);
        self.blocks = self.blocks.checked_add(1).expect("2^32 blocks are 64 TiB");
        self.blocks_bytes += u64::from(bytes);
        self.block.clear();
        self.block_entries = 0;
        Ok(())
    }

    /// Writes what is left, and tells the totals and how many bytes the directory has.
    pub fn finish(mut self) -> Result<(Totals, u64)> {
        if self.block_entries > 0 {
            self.close_block()?;
        }
        (self.sink)(&self.index)?;
        let totals = self.totals;
        let mut trailer = Trailer {
            magic: MAGIC,
            version: VERSION.into(),
            zero: 0.into(),
            checksum: 0.into(),
            entries: totals.entries.into(),
            messages: totals.messages.into(),
            bytes: totals.bytes.into(),
            last_sequence: totals.last_sequence.0.into(),
            sum: totals.sum.into(),
            blocks_bytes: self.blocks_bytes.into(),
            index_bytes: (self.index.len() as u64).into(),
            blocks: self.blocks.into(),
            index_checksum: crc32c::crc32c(&self.index).into(),
        };
        trailer.checksum = trailer.compute_checksum().into();
        (self.sink)(trailer.as_bytes())?;
        Ok((totals, self.blocks_bytes + self.index.len() as u64 + TRAILER_BYTES as u64))
    }
}
