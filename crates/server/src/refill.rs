//! After a start the tip is filled again from the newest segments, backwards, behind everybody's back: one segment is read
//! whole chunk by chunk on the jobs' thread, then put in front of the tip by the log's.

use std::collections::VecDeque;
use std::sync::Arc;

use arioso_disk::{Access, Disk};
use arioso_store::batch::PAGE_BYTES;
use arioso_store::segment::{KnownEnd, Scan, Scanned, SegmentHeader, SegmentTable, segment_path};
use arioso_store::voids::Voids;
use arioso_stream::Sequence;
use arioso_stream::names::Names;
use arioso_stream::tip::{CHUNK_BYTES, PartitionId, TipWriter};
use arioso_stream::topic::TopicId;
use bytes::Bytes;

/// What is left to fill in.
pub struct Refill {
    disk: Arc<dyn Disk>,
    stream: u128,
    /// Number, where the batches end; the newest last.
    segments: Vec<(u64, u64)>,
    voids: Vec<(Sequence, Sequence)>,
    budget: u64,
}

/// One segment to read.
pub struct RefillJob {
    disk: Arc<dyn Disk>,
    stream: u128,
    number: u64,
    end: u64,
}

/// One segment's records, in chunks.
pub struct Refilled(Result<VecDeque<Chunk>, arioso_store::Error>);

struct Chunk {
    records: Vec<Bytes>,
    bytes: usize,
    /// Every message kept from here on is in this chunk or behind it.
    from: Sequence,
}

impl Refill {
    /// Everything the table has, as far as `budget` bytes go.
    pub fn new(disk: Arc<dyn Disk>, stream: u128, table: &SegmentTable, voids: &Voids, budget: u64) -> Refill {
        let segments = table.iter().map(|info| (info.number, info.batches_end)).collect();
        let voids = voids.ranges().iter().map(|(first, last)| (Sequence(*first), Sequence(*last))).collect();
        Refill { disk, stream, segments, voids, budget }
    }

    /// The next segment to read; none when the tip is full or nothing is left.
    pub fn next_job(&mut self) -> Option<RefillJob> {
        let (number, end) = self.segments.pop()?;
        if self.budget < end.saturating_sub(PAGE_BYTES as u64) {
            // Read for nothing: it would not fit whole, and the tip holds what comes before it already.
            self.segments.clear();
            return None;
        }
        Some(RefillJob { disk: Arc::clone(&self.disk), stream: self.stream, number, end })
    }

    /// Puts a segment in front of the tip.
    pub fn done(&mut self, refilled: Refilled, tip: &mut TipWriter, names: &Names) {
        let mut chunks = match refilled.0 {
            Ok(chunks) => chunks,
            Err(error) => {
                // Readers are served from disk and are told there what is wrong.
                tracing::warn!("filling the tip: {error}");
                self.segments.clear();
                return;
            }
        };
        while let Some(chunk) = chunks.pop_back() {
            let partition_of = &mut |topic| {
                let partition = names.partition_of(TopicId(topic)).expect("a topic of a kept record has a name");
                PartitionId(partition.0)
            };
            self.budget = self.budget.saturating_sub(chunk.bytes as u64);
            if !tip.prepend(chunk.records, chunk.from, &self.voids, partition_of) {
                self.segments.clear();
                return;
            }
        }
    }
}

impl RefillJob {
    /// Reads the segment. Blocks.
    pub fn run(self) -> Refilled {
        Refilled(self.read())
    }

    fn read(&self) -> Result<VecDeque<Chunk>, arioso_store::Error> {
        let path = segment_path(self.number);
        let file = self.disk.open(&path, Access::Read)?;
        let header = SegmentHeader::load(&*file, self.stream, self.number)?
            .map_err(|bad| arioso_store::Error::part(&path, 0, bad))?;
        let end = KnownEnd { end: self.end, batch: 0, checksum: 0, last_sequence: 0 };
        let mut scan = Scan::new(file, &header, Some(end))?;
        let mut chunks: VecDeque<Chunk> = VecDeque::new();
        let mut from = Sequence(header.next_sequence);
        loop {
            match scan.step()? {
                Scanned::Batch(batch, records) => {
                    let next = Sequence(batch.last_sequence() + 1);
                    if !records.is_empty() {
                        let records = Bytes::copy_from_slice(records);
                        match chunks.back_mut() {
                            Some(chunk) if chunk.bytes + records.len() <= CHUNK_BYTES => {
                                chunk.bytes += records.len();
                                chunk.records.push(records);
                            }
                            _ => chunks.push_back(Chunk { bytes: records.len(), records: vec![records], from }),
                        }
                    }
                    from = next.max(from);
                }
                // What lies before can't join what lies behind: only the newest stretch is taken.
                Scanned::Damage(damage) => {
                    chunks.clear();
                    from = Sequence(damage.last.max(from.0) + 1);
                }
                Scanned::End(_) => return Ok(chunks),
            }
        }
    }
}
