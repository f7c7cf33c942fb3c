//! What the log's thread does: the writes of all that was submitted, and their sync.

use std::sync::Arc;

use arioso_disk::{File, Result};
use arioso_store::batch::PAGE_BYTES;
use bytes::Bytes;

/// Padding behind a batch's records, up to the page.
const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// One thing to be done, in order.
#[derive(Debug)]
pub(super) enum Step {
    /// Write a batch in one call.
    Batch { file: Arc<dyn File>, offset: u64, header: Bytes, records: Bytes },
    /// Make everything written to a file durable.
    Sync(Arc<dyn File>),
    /// Write a segment's header and make it durable, before any batch of it.
    Begin { file: Arc<dyn File>, page: Vec<u8> },
}

/// Writes to be done on the log's thread.
#[derive(Debug)]
#[must_use = "what was submitted is written by running the job"]
pub struct WriteJob {
    pub(super) steps: Vec<Step>,
    pub(super) first_batch: u64,
}

/// How they ended.
#[derive(Debug)]
#[must_use = "the journal waits to be told"]
pub struct WriteDone {
    pub(super) result: Result<()>,
    pub(super) first_batch: u64,
}

impl WriteJob {
    /// Does them. Stops at the first error: what follows would rest on something that may not be there.
    pub fn run(self) -> WriteDone {
        let result = self.steps.iter().try_for_each(Step::run);
        WriteDone { result, first_batch: self.first_batch }
    }

    /// Bytes of the batches in it.
    pub fn bytes(&self) -> u64 {
        let bytes = |step: &Step| match step {
            Step::Batch { header, records, .. } => (header.len() + records.len()) as u64,
            Step::Sync(_) | Step::Begin { .. } => 0,
        };
        self.steps.iter().map(bytes).sum()
    }
}

impl Step {
    fn run(&self) -> Result<()> {
        match self {
            Step::Batch { file, offset, header, records } => {
                let bytes = header.len() + records.len();
                let padding = &ZEROS[..bytes.next_multiple_of(PAGE_BYTES) - bytes];
                file.write_vectored_at(&[header, records, padding], *offset)
            }
            Step::Sync(file) => file.sync_data(),
            Step::Begin { file, page } => {
                file.write_at(page, 0)?;
                file.sync_data()
            }
        }
    }
}
