//! What the index promises about memory, its ceiling, splits and the work of a read.

use bytes::{Bytes, BytesMut};

use super::*;
use crate::record::push_record;

/// One topic or a few, each in the partition of its hundred.
struct Topics(Vec<u32>);

impl Selector for Topics {
    fn selects(&mut self, topic: u32) -> bool {
        self.0.contains(&topic)
    }

    fn everything(&self) -> bool {
        false
    }

    fn partitions(&mut self, from_count: u32, out: &mut Vec<PartitionId>) -> u32 {
        if from_count == 0 {
            let mut partitions: Vec<_> = self.0.iter().map(|topic| partition_of(*topic)).collect();
            partitions.sort_unstable();
            partitions.dedup();
            out.extend(partitions);
        }
        u32::MAX
    }

    fn exact_topics(&self) -> Option<&[u32]> {
        Some(&self.0)
    }
}

fn partition_of(topic: u32) -> PartitionId {
    PartitionId(topic / 100)
}

fn batch(first: u64, topics: impl Iterator<Item = u32>) -> Bytes {
    let mut bytes = BytesMut::new();
    for (sequence, topic) in (first..).zip(topics) {
        let at = bytes.len();
        push_record(&mut bytes, topic, 0, &[], &[]);
        bytes[at + 8..at + 16].copy_from_slice(&sequence.to_le_bytes());
    }
    bytes.freeze()
}

/// Messages of the topics, a thousand a batch, all settled.
fn feed(writer: &mut TipWriter, next: &mut u64, topics: impl Iterator<Item = u32>) {
    let mut topics = topics.peekable();
    while topics.peek().is_some() {
        let part: Vec<u32> = topics.by_ref().take(1000).collect();
        let count = part.len() as u64;
        writer.append(batch(*next, part.into_iter()), &mut partition_of);
        *next += count;
        writer.set_visible(Sequence(*next - 1), &[], &[]);
    }
}

/// Reads everything there is: sequences delivered, and what was tested for them.
fn read_all(shared: &Arc<TipShared>, topics: Vec<u32>, way: Way) -> (Vec<u64>, u64) {
    let mut selector = Topics(topics);
    let mut cursor = TipCursor::new(shared.clone(), shared.first_sequence()).go(way);
    let (mut sequences, mut tested) = (Vec::new(), 0);
    loop {
        let mut slices = Vec::new();
        let end = cursor.read(&mut selector, 4096, &mut slices);
        tested += end.tested;
        for slice in &slices {
            for record in crate::record::Records::new(&slice.bytes) {
                sequences.push(record.unwrap().sequence().0);
            }
        }
        if end.state != ReadState::More {
            return (sequences, tested);
        }
    }
}

fn scrambled(count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20)
}

#[test]
fn the_index_takes_ten_bytes_a_message_and_sixty_four_a_node() {
    // Topics a message is drawn from, and messages put through a tip that holds 32,768 of them.
    for (topics, messages) in [(1, 100_000), (40, 100_000), (3_000, 100_000), (200_000, 150_000)] {
        let (mut writer, shared) = TipWriter::new(TipConfig {
            bytes: 1 << 20,
            chunk_bytes: 64 << 10,
            pool_bytes_max: 4 << 20,
            ..TipConfig::default()
        });
        // What an empty index takes is for its tables and the same whatever is in it.
        let tables = shared.index_bytes();
        let drawn = scrambled(messages).map(|n| 1 + (n % topics) as u32);
        feed(&mut writer, &mut 1, drawn);
        let metrics = shared.metrics();
        assert_eq!(metrics.entries_lost, 0);
        let budget = metrics.entries * 10 + metrics.nodes * 64;
        // Maps grow by whole leaves of 4 KiB, blocks are 8 KiB; a cell size with one node takes a block.
        let slack = (128 << 10) + 4 * topics;
        let taken = (shared.index_bytes() - tables) as u64;
        assert!(taken <= budget + slack, "{topics} topics: {taken} bytes, {metrics:?}");
    }
}

#[test]
fn a_full_pool_degrades_to_scanning_and_the_metrics_tell() {
    let (mut writer, shared) = TipWriter::new(TipConfig {
        bytes: 1 << 20,
        chunk_bytes: 64 << 10,
        pool_bytes_max: 512 << 10,
        split_share: 1024,
        ..TipConfig::default()
    });
    let mut next = 1;
    let drawn = scrambled(60_000).map(|n| 1 + (n % 30_000) as u32);
    feed(&mut writer, &mut next, drawn);
    let full = shared.metrics();
    assert!(full.entries_lost > 0 && full.chunks_degraded > 0, "{full:?}");
    assert!(full.blocks <= 64, "the ceiling holds: {full:?}");
    for topics in [vec![7], vec![7, 8, 1234, 24_000]] {
        let scanned = read_all(&shared, topics.clone(), Way::Scan).0;
        assert_eq!(read_all(&shared, topics, Way::Index).0, scanned);
    }
    // With few nodes there is room for all: new chunks are whole again, the degraded ones leave.
    feed(&mut writer, &mut next, (0..100_000).map(|n| 1 + n % 2));
    let after = shared.metrics();
    assert_eq!(after.chunks_degraded, 0, "{after:?}");
    let (sequences, tested) = read_all(&shared, vec![2], Way::Index);
    assert_eq!(sequences.len() as u64, after.records / 2);
    assert_eq!(tested, after.records / 2);
}

#[test]
fn a_topic_of_a_large_partition_is_read_at_the_cost_of_its_own_messages() {
    let (mut writer, shared) =
        TipWriter::new(TipConfig { bytes: 1 << 20, chunk_bytes: 64 << 10, ..TipConfig::default() });
    let mut next = 1;
    feed(&mut writer, &mut next, scrambled(80_000).map(|n| 1 + (n % 99) as u32));
    assert_eq!(shared.metrics().partitions_split, 1);
    let (sequences, tested) = read_all(&shared, vec![42], Way::Index);
    assert!(sequences.len() > 200);
    assert_eq!(tested, sequences.len() as u64, "entries of other topics were tested");
    assert_eq!(sequences, read_all(&shared, vec![42], Way::Scan).0);
}

#[test]
fn a_split_partition_is_whole_again_when_its_messages_have_left() {
    let (mut writer, shared) =
        TipWriter::new(TipConfig { bytes: 256 << 10, chunk_bytes: 16 << 10, split_share: 4, ..TipConfig::default() });
    let mut next = 1;
    feed(&mut writer, &mut next, (0..4000).map(|n| 1 + n % 90));
    assert_eq!(shared.metrics().partitions_split, 1);
    let nodes = shared.metrics().nodes;
    assert!(nodes > 80, "{nodes} nodes");
    // Ten partitions, none of which holds a quarter.
    feed(&mut writer, &mut next, (0..20_000).map(|n| 1000 + n % 10 * 100));
    let after = shared.metrics();
    assert_eq!((after.partitions_split, after.nodes), (0, 10));
    assert!(after.entries >= after.records, "every message is in the index");
    // And it splits again.
    feed(&mut writer, &mut next, (0..20_000).map(|n| 1 + n % 90));
    assert_eq!(shared.metrics().partitions_split, 1);
    assert_eq!(read_all(&shared, vec![5], Way::Index).0, read_all(&shared, vec![5], Way::Scan).0);
}

#[test]
fn the_choice_between_index_and_scan_tests_little_and_keeps_the_order() {
    let (mut writer, shared) =
        TipWriter::new(TipConfig { bytes: 1 << 20, chunk_bytes: 64 << 10, ..TipConfig::default() });
    let mut next = 1;
    feed(&mut writer, &mut next, scrambled(32_000).map(|n| 1 + (n % 20_000) as u32));
    let few = vec![5, 900, 17_000];
    let (sequences, tested) = read_all(&shared, few.clone(), Way::Chosen);
    assert!(tested < 2000, "{tested} tested for {} messages", sequences.len());
    assert_eq!(sequences, read_all(&shared, few, Way::Scan).0);
    let many: Vec<u32> = (1..=16_000).collect();
    let (sequences, tested) = read_all(&shared, many, Way::Chosen);
    assert!(sequences.len() > 20_000);
    assert!(tested < 40_000, "{tested} tested: rows were tested more than once");
}

/// Wants the first topic of every partition, and lets the writer go on in the middle of a look at the index.
struct Meddling<'a> {
    writer: &'a mut TipWriter,
    next: u64,
    /// Tests until the writer goes on; none: it went on.
    fuse: Option<u32>,
}

impl Meddling<'_> {
    fn wants(topic: u32) -> bool {
        topic % 100 == 1
    }
}

impl Selector for Meddling<'_> {
    fn selects(&mut self, topic: u32) -> bool {
        if self.fuse == Some(0) {
            self.fuse = None;
            // Everything held leaves, and the memory goes to other nodes' entries.
            let drawn = (0..40_000).map(|n| 1 + (n * 7 % 40) * 100 + n % 3);
            feed(self.writer, &mut self.next, drawn);
        }
        self.fuse = self.fuse.map(|fuse| fuse - 1);
        Meddling::wants(topic)
    }

    fn everything(&self) -> bool {
        false
    }

    fn partitions(&mut self, from_count: u32, out: &mut Vec<PartitionId>) -> u32 {
        out.extend((from_count..40).map(PartitionId));
        40
    }

    fn exact_topics(&self) -> Option<&[u32]> {
        None
    }
}

#[test]
fn memory_taken_back_under_a_readers_eyes_never_reads_as_its_own() {
    for fuse in [0, 1, 63, 64, 500] {
        let (mut writer, shared) =
            TipWriter::new(TipConfig { bytes: 512 << 10, chunk_bytes: 64 << 10, ..TipConfig::default() });
        let mut next = 1;
        // Every fourth message is one of those wanted, the rest of each partition is not.
        let topics: Vec<u32> = scrambled(12_000).map(|n| 1 + (n % 40) as u32 * 100 + (n >> 20) as u32 % 4).collect();
        feed(&mut writer, &mut next, topics.iter().copied());
        let mut selector = Meddling { writer: &mut writer, next, fuse: Some(fuse) };
        let mut cursor = TipCursor::new(shared.clone(), Sequence(1)).go(Way::Index);
        let mut delivered = Vec::new();
        let end = loop {
            let mut slices = Vec::new();
            let end = cursor.read(&mut selector, 1 << 20, &mut slices);
            for slice in &slices {
                for record in crate::record::Records::new(&slice.bytes) {
                    delivered.push(record.unwrap().sequence().0);
                }
            }
            if end.state != ReadState::More {
                break end;
            }
        };
        assert!(matches!(end.state, ReadState::FellOff(_)), "{end:?} after {fuse} tests");
        // What was delivered before it fell off is what was wanted up to the mark, no more and no less.
        let wanted: Vec<u64> =
            (1..=end.through.0).filter(|sequence| Meddling::wants(topics[*sequence as usize - 1])).collect();
        assert_eq!(delivered, wanted, "after {fuse} tests");
    }
}
