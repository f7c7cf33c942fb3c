//! The topic directory: every topic of a segment, a checkpoint base or a subtree store, with its figures.
//!
//! ```text
//! | block 0 | block 1 | ... | sparse index | trailer |
//!   about 16 KiB each         first topic,   totals, sizes,
//!   sorted, names share       length and     checksum of
//!   prefixes, checksummed     checksum of    the index
//!                             each block
//! ```
//!
//! It is written in one pass and never read whole: a reader holds the trailer and the sparse index, a
//! lookup reads one block, a scan one block after the other. docs/format-directory.md has the fields.
//!
//! Every byte is under a checksum that is itself under one, up to the trailer's own: a damaged directory gives
//! an error naming file and offset, never another value.

mod bytes;
mod merge;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

use arioso_stream::Sequence;

pub use merge::{Entries, merge};
pub use reader::{DirectoryReader, Scan, Subtree};
pub use writer::DirectoryWriter;

use crate::{Error, Result};

/// A block is closed when its entries have reached this size: large enough that the sparse index is about
/// 1/400 of the directory, small enough that a lookup decodes a few hundred entries.
pub const BLOCK_BYTES: usize = 16 << 10;

/// The longest topic.
pub const NAME_BYTES_MAX: usize = 1024;

/// One topic with its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The topic, 1 to 1,024 bytes.
    pub name: &'a [u8],
    /// Its stream-wide id.
    pub topic: u32,
    /// How many messages.
    pub messages: u64,
    /// The bytes of their records.
    pub bytes: u64,
    /// The highest sequence among them.
    pub last_sequence: Sequence,
    /// Where the last message lies, in the owner's own terms; the directory only keeps it.
    pub last_place: u64,
    /// The sum mod 2^64 of the XXH3 of each record.
    pub sum: u64,
}

/// The figures of all topics together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// How many topics.
    pub entries: u64,
    /// How many messages.
    pub messages: u64,
    /// The bytes of their records.
    pub bytes: u64,
    /// The highest sequence among them, 0 if there are none.
    pub last_sequence: Sequence,
    /// The sum mod 2^64 of the XXH3 of each record.
    pub sum: u64,
}

impl Totals {
    /// Counts one more topic.
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.entries += 1;
        self.messages = add(self.messages, entry.messages, entry.name, "messages")?;
        self.bytes = add(self.bytes, entry.bytes, entry.name, "bytes")?;
        self.last_sequence = self.last_sequence.max(entry.last_sequence);
        self.sum = self.sum.wrapping_add(entry.sum);
        Ok(())
    }
}

fn add(a: u64, b: u64, name: &[u8], what: &'static str) -> Result<u64> {
    a.checked_add(b).ok_or_else(|| Error::Overflow { topic: text(name), what })
}

/// A topic as it is shown in an error.
fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
