//! A moving window over a file: bounded memory, however large the file is.

use std::sync::Arc;

use arioso_disk::File;

use crate::Result;
use crate::batch::{BATCH_BYTES_MAX, BadBatch, BatchHeader, PAGE_BYTES};

/// What is read at once: large enough that a disk streams, small enough for many readers.
pub const PIECE_BYTES: usize = 1 << 20;

/// Reads a file in pieces of [`PIECE_BYTES`]; a batch that is larger takes its own size.
#[derive(Debug)]
pub struct Window {
    file: Arc<dyn File>,
    /// Bytes of the file that count.
    end: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Over the bytes of `file` before `end`.
    pub fn new(file: Arc<dyn File>, end: u64) -> Window {
        Window { file, end, offset: 0, bytes: Vec::new() }
    }

    /// Where the bytes that count end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// At least `need` bytes from `offset` on, fewer only where the bytes that count end.
    pub fn at(&mut self, offset: u64, need: usize) -> Result<&[u8]> {
        assert!(need <= BATCH_BYTES_MAX, "lengths are tested before they are asked for");
        let there = self.end.saturating_sub(offset);
        let need = usize::try_from(there).map_or(need, |there| need.min(there));
        let have = offset.checked_sub(self.offset).and_then(|skip| {
            let have = (self.bytes.len() as u64).checked_sub(skip)?;
            (have >= need as u64).then_some(skip as usize)
        });
        let skip = match have {
            Some(skip) => skip,
            None => {
                self.fill(offset, need.max(PIECE_BYTES).min(usize::try_from(there).unwrap_or(usize::MAX)))?;
                0
            }
        };
        Ok(&self.bytes[skip..])
    }

    fn fill(&mut self, offset: u64, bytes: usize) -> Result<()> {
        self.bytes.clear();
        self.bytes.shrink_to(PIECE_BYTES.max(bytes));
        self.bytes.resize(bytes, 0);
        self.offset = offset;
        let got = match self.file.read_at(&mut self.bytes, offset) {
            Ok(got) => got,
            Err(error) => {
                self.bytes.clear();
                return Err(error.into());
            }
        };
        self.bytes.truncate(got);
        Ok(())
    }

    /// The header of the batch at `offset`, if a good one stands there.
    pub fn header_at(&mut self, incarnation: u64, offset: u64) -> Result<Result<BatchHeader<'_>, BadBatch>> {
        let mut need = PAGE_BYTES;
        loop {
            let bytes = self.at(offset, need)?;
            match BatchHeader::read_at(bytes, incarnation, offset) {
                Err(BadBatch::Short { have, need: more }) if have >= need && more > need => need = more,
                Err(bad) => return Ok(Err(bad)),
                Ok(_) => break,
            }
        }
        Ok(BatchHeader::read_at(self.at(offset, need)?, incarnation, offset))
    }

    /// The batch at `offset`, if a good one stands there: its header and its records, both checksums tested.
    pub fn batch_at(&mut self, incarnation: u64, offset: u64) -> Result<Result<(BatchHeader<'_>, &[u8]), BadBatch>> {
        let need = match self.header_at(incarnation, offset)? {
            Ok(header) => header.header_bytes() + header.records_bytes(),
            Err(bad) => return Ok(Err(bad)),
        };
        let bytes = self.at(offset, need)?;
        Ok(BatchHeader::read_at(bytes, incarnation, offset)
            .and_then(|header| header.records(bytes).map(|records| (header, records))))
    }
}
