//! The tip's one writer: takes batches in, tells readers how far to look, puts the oldest chunks out.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;

use super::chunk::Chunk;
use super::index::IndexWriter;
use super::{CHUNK_BYTES_MAX, Counters, OpenRange, PartitionId, TIP_BYTES_MAX, TipConfig, TipShared, Visible};
use crate::record::{CONTROL_TOPIC, HEADER_BYTES, RECORD_ALIGN, Sequence};

/// The slot of the first record ever appended: in the middle, so that [`TipWriter::prepend`] has room below it.
const FIRST_SLOT: u64 = 1 << 40;

/// The writing side of a tip; one thread owns it.
pub struct TipWriter {
    config: TipConfig,
    shared: Arc<TipShared>,
    index: IndexWriter,
    /// The same chunks as readers see, found without a lock.
    chunks: VecDeque<Arc<Chunk>>,
    /// Whether the newest chunk takes further records.
    is_open: bool,
    bytes: usize,
    next_slot: u64,
    /// Above the last record's sequence.
    next_sequence: Sequence,
    settled_to: Sequence,
    settled_slot: u64,
    has_evicted: bool,
}

impl TipWriter {
    /// An empty tip: the writer and what its readers share.
    pub fn new(config: TipConfig) -> (TipWriter, Arc<TipShared>) {
        assert!(
            (HEADER_BYTES..=CHUNK_BYTES_MAX).contains(&config.chunk_bytes),
            "a chunk holds 32 bytes to 1 GiB, not {}",
            config.chunk_bytes
        );
        assert!(config.bytes <= TIP_BYTES_MAX, "a tip holds 32 GiB at most, not {} bytes", config.bytes);
        let settled_to = Sequence(config.next.0.saturating_sub(1));
        let (index, index_shared) = IndexWriter::new(&config);
        let shared = Arc::new(TipShared {
            chunks: RwLock::default(),
            visible: RwLock::new(Arc::new(Visible {
                settled_to,
                through: settled_to,
                settled_slot: FIRST_SLOT,
                end_slot: FIRST_SLOT,
                open: Box::default(),
            })),
            first_sequence: AtomicU64::new(config.next.0),
            index: index_shared,
            counters: Counters::default(),
            scratch: Mutex::default(),
        });
        let writer = TipWriter {
            next_sequence: config.next,
            config,
            shared: shared.clone(),
            index,
            chunks: VecDeque::new(),
            is_open: false,
            bytes: 0,
            next_slot: FIRST_SLOT,
            settled_to,
            settled_slot: FIRST_SLOT,
            has_evicted: false,
        };
        (writer, shared)
    }

    /// What readers share.
    pub fn shared(&self) -> &Arc<TipShared> {
        &self.shared
    }

    /// Takes in a batch's records, in sequence order, and puts out the oldest chunks over the budget. Readers see the
    /// records after the next [`TipWriter::set_visible`]. `partition_of` is asked for each message's topic, never for
    /// the bus's own.
    pub fn append(&mut self, records: Bytes, partition_of: &mut dyn FnMut(u32) -> PartitionId) {
        if records.is_empty() {
            return;
        }
        assert!(
            records.len() <= CHUNK_BYTES_MAX && records.len().is_multiple_of(RECORD_ALIGN),
            "a batch of {} bytes is not whole records",
            records.len()
        );
        let chunk = self.chunk_for(&records);
        let bytes = records.len();
        let before = self.next_slot;
        let (next_slot, next_sequence) = (&mut self.next_slot, &mut self.next_sequence);
        let index = &mut self.index;
        let mut entries_lost = 0;
        chunk.push(records, |row| {
            assert!(row.sequence >= *next_sequence, "sequence {} comes after {}", row.sequence, next_sequence.0 - 1);
            *next_sequence = row.sequence.next();
            *next_slot = row.slot + 1;
            let lost = row.topic != CONTROL_TOPIC && !index.push(row.slot, row.topic, partition_of(row.topic));
            if lost {
                entries_lost += 1;
            }
        });
        if entries_lost > 0 {
            self.lose(&chunk, entries_lost);
        }
        self.index.tell();
        self.account(bytes as i64, (self.next_slot - before) as i64);
        self.evict();
    }

    /// Notes that the index lacks messages of a chunk, before anybody may see them.
    fn lose(&self, chunk: &Chunk, entries: u64) {
        let counters = &self.shared.counters;
        counters.entries_lost.fetch_add(entries, Ordering::Relaxed);
        if chunk.lose_index() {
            counters.chunks_degraded.fetch_add(1, Ordering::Release);
        }
    }

    /// The open chunk the records go to, made where needed.
    fn chunk_for(&mut self, records: &Bytes) -> Arc<Chunk> {
        let newest = self.chunks.back().filter(|_| self.is_open).cloned();
        if let Some(newest) = newest {
            let fits = newest.bytes() + records.len() <= self.config.chunk_bytes;
            if fits && newest.takes_piece() {
                return newest;
            }
            if fits {
                return self.replace_newest(newest.regrouped());
            }
            self.replace_newest(newest.sealed());
        }
        let first = crate::record::Record::read(records).map(|record| record.sequence());
        let first = first.unwrap_or_else(|bad| panic!("the sequencer built a bad batch: {bad}"));
        let bytes_max = self.config.chunk_bytes.max(records.len());
        let chunk = Arc::new(Chunk::open(self.next_slot, first, bytes_max));
        self.is_open = true;
        self.index.begin_chunk(self.next_slot);
        self.chunks.push_back(chunk.clone());
        self.shared.change_chunks(|chunks| chunks.push_back(chunk.clone()));
        chunk
    }

    fn replace_newest(&mut self, chunk: Chunk) -> Arc<Chunk> {
        let chunk = Arc::new(chunk);
        self.chunks.pop_back();
        self.chunks.push_back(chunk.clone());
        let old = self.shared.change_chunks(|chunks| {
            let old = chunks.pop_back();
            chunks.push_back(chunk.clone());
            old
        });
        // Freed, if no reader holds it, after the lock.
        drop(old);
        chunk
    }

    /// Fills the tip backwards after a start: one chunk of records that come right before the oldest held, and every
    /// message kept from `from` on is in the tip then. Newest chunks come first. Everything in them is settled; `voids`
    /// are the sequences in them that never were. False when the budget is full or something
    /// was evicted already: the chunk is not taken, and no older
    /// one will be. Prepended chunks are not in the index: they are scanned until they leave.
    pub fn prepend(
        &mut self,
        records: Vec<Bytes>,
        from: Sequence,
        voids: &[(Sequence, Sequence)],
        partition_of: &mut dyn FnMut(u32) -> PartitionId,
    ) -> bool {
        let _ = partition_of;
        let bytes: usize = records.iter().map(Bytes::len).sum();
        assert!(bytes <= CHUNK_BYTES_MAX, "a chunk of {bytes} bytes is too large");
        // A slot is given once: not again after its record has left.
        if self.has_evicted || self.bytes + bytes > self.config.bytes {
            return false;
        }
        let before = self.shared.first_sequence();
        assert!(from <= before, "{from} is not before {before}");
        if let Some(chunk) = self.older_chunk(&records, bytes) {
            assert!(
                from <= chunk.first_sequence && chunk.last_sequence() < before,
                "a chunk from {} to {} does not lie between {from} and {before}",
                chunk.first_sequence,
                chunk.last_sequence()
            );
            for void in voids {
                let from = chunk.find(void.0);
                let to = chunk.find(void.1.next());
                if from < to {
                    chunk.cut(from..to);
                }
            }
            let rows = i64::from(chunk.rows());
            self.lose(&chunk, 0);
            self.index.prepend_chunk(chunk.first_slot);
            let chunk = Arc::new(chunk);
            self.chunks.push_front(chunk.clone());
            self.shared.change_chunks(|chunks| chunks.push_front(chunk));
            self.account(bytes as i64, rows);
        }
        self.shared.first_sequence.store(from.0, Ordering::Release);
        true
    }

    fn older_chunk(&self, records: &[Bytes], bytes: usize) -> Option<Chunk> {
        // Its slots are known once its rows are counted.
        let mut rows = 0;
        let mut first = None;
        for record in records.iter().flat_map(|part| crate::record::Records::new(part)) {
            let record = record.unwrap_or_else(|bad| panic!("records to prepend: {bad}"));
            first.get_or_insert(record.sequence());
            rows += 1;
        }
        let oldest = self.chunks.front().map_or(self.next_slot, |chunk| chunk.first_slot);
        let mut chunk = Chunk::open(oldest - rows, first?, bytes);
        let mut last = None;
        for part in records.iter().filter(|part| !part.is_empty()) {
            if !chunk.takes_piece() {
                chunk = chunk.regrouped();
            }
            chunk.push(part.clone(), |row| {
                assert!(last < Some(row.sequence), "{} comes after {last:?}", row.sequence);
                last = Some(row.sequence);
            });
        }
        Some(chunk.sealed())
    }

    fn account(&mut self, bytes: i64, rows: i64) {
        self.bytes = self.bytes.wrapping_add_signed(bytes as isize);
        let counters = &self.shared.counters;
        counters.bytes.store(self.bytes as u64, Ordering::Relaxed);
        // Two's complement: adding a negative number takes away.
        counters.records.fetch_add(rows as u64, Ordering::Relaxed);
        counters.column_bytes.fetch_add((rows * 8) as u64, Ordering::Relaxed);
    }

    /// Puts out the oldest chunks over the budget, as far as they are settled.
    fn evict(&mut self) {
        while self.bytes > self.config.bytes && self.chunks.len() > 1 {
            if self.chunks[0].end_slot() > self.settled_slot {
                return;
            }
            let Some(oldest) = self.chunks.pop_front() else {
                return;
            };
            let next = oldest.last_sequence().next();
            self.shared.first_sequence.store(next.0, Ordering::Release);
            self.index.evict_chunk(oldest.end_slot());
            self.has_evicted = true;
            let gone = self.shared.change_chunks(VecDeque::pop_front);
            drop(gone);
            if !oldest.is_indexed() {
                self.shared.counters.chunks_degraded.fetch_sub(1, Ordering::Relaxed);
            }
            self.shared.counters.chunks_evicted.fetch_add(1, Ordering::Relaxed);
            self.account(-(oldest.bytes() as i64), -i64::from(oldest.rows()));
        }
    }

    /// Lets readers see what was appended. Everything at or below `settled_to` is settled or void. Above it what lies
    /// in `open` (in order, without overlap) is not settled yet, and everything else appended is: a reader gets a
    /// settled message unless an open one before it matches too. `voids` are sequences that never were, told here
    /// once, at the latest with the `settled_to` at or above them; no reader gets them.
    pub fn set_visible(&mut self, settled_to: Sequence, open: &[OpenRange], voids: &[(Sequence, Sequence)]) {
        assert!(settled_to >= self.settled_to, "settled_to goes back from {} to {settled_to}", self.settled_to);
        for void in voids {
            self.cut(void.0, void.1);
        }
        self.settled_to = settled_to;
        self.settled_slot = self.slot_of(settled_to.next());
        let mut above = settled_to;
        let open = open.iter().map(|range| {
            assert!(
                above < range.first && range.first <= range.last,
                "open range {}..={} is not above {above}",
                range.first,
                range.last
            );
            above = range.last;
            self.slot_of(range.first)..self.slot_of(range.last.next())
        });
        let open: Box<[Range<u64>]> = open.filter(|slots| !slots.is_empty()).collect();
        let visible = Arc::new(Visible {
            settled_to,
            through: settled_to.max(Sequence(self.next_sequence.0 - 1)),
            settled_slot: self.settled_slot,
            end_slot: self.next_slot,
            open,
        });
        let mut shared = self.shared.visible.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *shared, visible);
        drop(shared);
        drop(old);
        self.evict();
    }

    /// The first slot whose sequence is at or above `sequence`, the next slot to come if none is.
    fn slot_of(&self, sequence: Sequence) -> u64 {
        if sequence >= self.next_sequence {
            return self.next_slot;
        }
        let after = self.chunks.partition_point(|chunk| chunk.first_sequence <= sequence);
        let Some(chunk) = self.chunks.get(after.saturating_sub(1)) else {
            return self.next_slot;
        };
        chunk.first_slot + u64::from(chunk.find(sequence))
    }

    fn cut(&self, first: Sequence, last: Sequence) {
        let slots = self.slot_of(first)..self.slot_of(last.next());
        let from = self.chunks.partition_point(|chunk| chunk.end_slot() <= slots.start);
        for chunk in self.chunks.range(from..) {
            let from = slots.start.max(chunk.first_slot);
            let to = slots.end.min(chunk.end_slot());
            if from >= to {
                break;
            }
            chunk.cut((from - chunk.first_slot) as u32..(to - chunk.first_slot) as u32);
        }
    }
}
