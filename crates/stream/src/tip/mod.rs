//! The tip: the recent stream in memory, and reading any selection of it at a cost that follows what is selected.
//!
//! ```text
//!   TipWriter ── append ──▶ chunks   oldest … newest, evicted from the left over the budget
//!   (one)        set_visible         │
//!                                    ▼
//!   TipCursor ── read ──────────▶ slices of the chunks' own bytes
//!   (many)
//! ```
//!
//! Every record has a *slot*: its running number in the tip. Slots say which record lies beside which, sequences don't:
//! they may skip.
//!
//! One thread writes. Readers share a [`TipShared`]; the longest a reader holds a lock is the time to find a chunk in
//! the list and clone its `Arc`.

mod chunk;
mod deliver;
mod index;
mod lanes;
pub mod merge;
mod nodes;
mod pool;
mod read;
mod runs;
mod words;
mod writer;

#[cfg(test)]
mod index_tests;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;

use crate::record::{CONTROL_TOPIC, Sequence};
use chunk::Chunk;
use index::Index;
use lanes::Scratch;

pub use read::{ReadEnd, ReadState, TipCursor, Way};
pub use runs::Runs;
pub use writer::TipWriter;

/// Bytes of records a tip holds unless told otherwise.
pub const TIP_BYTES: usize = 256 << 20;
/// Bytes of records in a chunk unless told otherwise.
pub const CHUNK_BYTES: usize = 4 << 20;
/// A chunk's rows are placed by a `u32` of bytes, and a batch of any size gets a chunk of its own.
pub const CHUNK_BYTES_MAX: usize = 1 << 30;
/// More bytes of the smallest records would have slots too far apart to tell by their lower 32 bits.
pub const TIP_BYTES_MAX: usize = 32 << 30;
/// Ceiling of the index's blocks unless told otherwise: 1.25 × 8 bytes for each of 8 million of the smallest messages.
pub const POOL_BYTES_MAX: usize = 80 << 20;

/// A partition splits when it holds more than one in this many of the tip's messages unless told otherwise.
pub const SPLIT_SHARE: u64 = 256;
/// A partition of fewer messages is not split: testing them all costs no more than a few visits elsewhere.
pub const SPLIT_ENTRIES_MIN: u32 = 64;
/// Readers' working memory kept for the next read: more readers than this at once make their own.
const SCRATCH_MAX: usize = 16;

/// How a tip is made.
#[derive(Clone, Debug)]
pub struct TipConfig {
    /// Bytes of records kept. Messages that are not settled stay beyond it.
    pub bytes: usize,
    /// Bytes of records in a chunk: what is evicted at once.
    pub chunk_bytes: usize,
    /// Ceiling of the index's blocks. Beyond it new messages are found by scanning.
    pub pool_bytes_max: usize,
    /// A partition that holds more than one in this many of the messages is indexed topic by topic …
    pub split_share: u64,
    /// … if it holds more than this many.
    pub split_entries_min: u32,
    /// No record appended has a lower sequence: where the stream goes on.
    pub next: Sequence,
}

impl Default for TipConfig {
    fn default() -> TipConfig {
        TipConfig {
            bytes: TIP_BYTES,
            chunk_bytes: CHUNK_BYTES,
            pool_bytes_max: POOL_BYTES_MAX,
            split_share: SPLIT_SHARE,
            split_entries_min: SPLIT_ENTRIES_MIN,
            next: Sequence(1),
        }
    }
}

/// All topics that share their first two levels, by number from 0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// Sequences appended and not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRange {
    /// The first of them.
    pub first: Sequence,
    /// The last of them.
    pub last: Sequence,
}

/// What a subscription wants of the stream. Between two reads of one cursor a selection only gets to know more topics
/// and partitions; its filters stay.
pub trait Selector {
    /// Whether messages of the topic are wanted.
    fn selects(&mut self, topic: u32) -> bool;

    /// Whether every topic is wanted, one not known yet too.
    fn everything(&self) -> bool;

    /// Appends the partitions that may hold a wanted topic, of those numbered from `from_count` on; returns how many
    /// partitions are known. Every topic of a visible message lies in a known partition.
    fn partitions(&mut self, from_count: u32, out: &mut Vec<PartitionId>) -> u32;

    /// Whether every topic of the partition is wanted, one not known yet too: its messages need no test.
    fn whole_partition(&mut self, _partition: PartitionId) -> bool {
        false
    }

    /// The wanted topics, where the selection is a list of topics.
    fn exact_topics(&self) -> Option<&[u32]>;

    /// Which of up to 64 topics are wanted, lowest bit first. Control records are not.
    fn selects_each(&mut self, topics: &[u32]) -> u64 {
        let mut wanted = 0;
        for (bit, topic) in topics.iter().enumerate() {
            let yes = *topic != CONTROL_TOPIC && self.selects(*topic);
            wanted |= u64::from(yes) << bit;
        }
        wanted
    }
}

/// Adjacent whole records in the chunk's own memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The records, laid end to end.
    pub bytes: Bytes,
    /// How many there are.
    pub records: u32,
    /// Sequence of the first one.
    pub first: Sequence,
    /// Sequence of the last one.
    pub last: Sequence,
}

/// How far readers may look. Replaced whole by the writer.
#[derive(Debug, Default)]
struct Visible {
    /// Everything at or below is settled or void.
    settled_to: Sequence,
    /// Sequence of the last row below `end_slot`, or `settled_to` if that is higher.
    through: Sequence,
    /// The first slot above `settled_to`.
    settled_slot: u64,
    /// Nothing from here on may be looked at.
    end_slot: u64,
    /// Slots of messages that are not settled, in order, all at or above `settled_slot`.
    open: Box<[Range<u64>]>,
}

impl Visible {
    /// The first row of `slots` that is not settled.
    fn barrier(&self, slots: &Range<u64>) -> Option<u64> {
        if slots.end <= self.settled_slot {
            return None;
        }
        let next = self.open.partition_point(|open| open.end <= slots.start);
        let first = self.open.get(next)?.start.max(slots.start);
        (first < slots.end).then_some(first)
    }
}

/// Counts a tip keeps about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TipMetrics {
    /// Bytes of records held.
    pub bytes: u64,
    /// Records held.
    pub records: u64,
    /// Chunks held.
    pub chunks: u64,
    /// Bytes of the columns beside the chunks.
    pub column_bytes: u64,
    /// Chunks held that the index lacks messages of: they are scanned.
    pub chunks_degraded: u64,
    /// Messages that found no room in the index, since the tip was made.
    pub entries_lost: u64,
    /// Chunks evicted, since the tip was made.
    pub chunks_evicted: u64,
    /// Records tested by scanning, since the tip was made.
    pub records_scanned: u64,
    /// Index entries tested, since the tip was made.
    pub entries_tested: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Entries in the index.
    pub entries: u64,
    /// Index nodes: partitions, and topics of split partitions.
    pub nodes: u64,
    /// Partitions that are split.
    pub partitions_split: u64,
    /// Blocks of the pool in use.
    pub blocks: u64,
}

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    records: AtomicU64,
    column_bytes: AtomicU64,
    chunks_degraded: AtomicU64,
    entries_lost: AtomicU64,
    chunks_evicted: AtomicU64,
    records_scanned: AtomicU64,
    entries_tested: AtomicU64,
}

/// What readers share with the writer.
pub struct TipShared {
    chunks: RwLock<VecDeque<Arc<Chunk>>>,
    visible: RwLock<Arc<Visible>>,
    /// Every message kept from this sequence on is in the tip.
    first_sequence: AtomicU64,
    index: Arc<Index>,
    counters: Counters,
    /// Lent to readers, one each.
    scratch: Mutex<Vec<Scratch>>,
}

impl TipShared {
    /// Every message kept of this sequence or a later one is in the tip.
    pub fn first_sequence(&self) -> Sequence {
        Sequence(self.first_sequence.load(Ordering::Acquire))
    }

    /// Everything at or below is settled or void.
    pub fn settled_to(&self) -> Sequence {
        self.visible().settled_to
    }

    /// Bytes of records held.
    pub fn bytes(&self) -> usize {
        self.counters.bytes.load(Ordering::Relaxed) as usize
    }

    /// Bytes of the index: blocks, nodes and the maps to them.
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// The counts as they are now.
    pub fn metrics(&self) -> TipMetrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        TipMetrics {
            bytes: get(&counters.bytes),
            records: get(&counters.records),
            chunks: self.with_chunks(|chunks| chunks.len() as u64),
            column_bytes: get(&counters.column_bytes),
            chunks_degraded: get(&counters.chunks_degraded),
            entries_lost: get(&counters.entries_lost),
            chunks_evicted: get(&counters.chunks_evicted),
            records_scanned: get(&counters.records_scanned),
            entries_tested: get(&counters.entries_tested),
            index_bytes: self.index.bytes() as u64,
            entries: get(&self.index.entries),
            nodes: get(&self.index.nodes_used),
            partitions_split: get(&self.index.partitions_split),
            blocks: get(&self.index.blocks_used),
        }
    }

    fn lend_scratch(&self) -> Scratch {
        let scratch = self.scratch.lock();
        let lent = scratch.unwrap_or_else(PoisonError::into_inner).pop();
        lent.unwrap_or_default()
    }

    fn return_scratch(&self, scratch: Scratch) {
        let kept = self.scratch.lock();
        let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
        if kept.len() < SCRATCH_MAX {
            kept.push(scratch);
        }
    }

    fn visible(&self) -> Arc<Visible> {
        let visible = self.visible.read();
        visible.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with_chunks<T>(&self, look: impl FnOnce(&VecDeque<Arc<Chunk>>) -> T) -> T {
        look(&self.chunks.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change_chunks<T>(&self, change: impl FnOnce(&mut VecDeque<Arc<Chunk>>) -> T) -> T {
        change(&mut self.chunks.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The chunk that holds a slot, unless it was evicted or is yet to come.
    fn chunk_at(&self, slot: u64) -> Option<Arc<Chunk>> {
        self.with_chunks(|chunks| {
            let after = chunks.partition_point(|chunk| chunk.first_slot <= slot);
            let chunk = chunks.get(after.checked_sub(1)?)?;
            (slot < chunk.end_slot()).then(|| chunk.clone())
        })
    }

    /// The slot of the first record at or above a sequence, if there is one.
    fn slot_of(&self, sequence: Sequence) -> Option<u64> {
        let chunk = self.with_chunks(|chunks| {
            let after = chunks.partition_point(|chunk| chunk.first_sequence <= sequence);
            let held = chunks.get(after.saturating_sub(1))?;
            // The one before may end below the sequence: then it is the first of the next.
            let next = chunks.get(after).cloned();
            Some((held.clone(), next))
        });
        let (held, next) = chunk?;
        let index = held.find(sequence);
        if index < held.rows() {
            return Some(held.first_slot + u64::from(index));
        }
        next.map(|next| next.first_slot)
    }
}
