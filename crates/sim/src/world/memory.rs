//! Puts a bus together on the journal in memory: what `opening` does for segments.

use std::collections::BTreeMap;
use std::sync::Arc;

use arioso_disk::SimDisk;
use arioso_journal::local::write_of;
use arioso_journal::memory::MemoryBackend;
use arioso_journal::replay::{BatchSummary, replay_voids};
use arioso_journal::{Backend, BatchNumber, Error, Outcome, backend};
use arioso_server::assemble::{Found, assemble};
use arioso_server::cursor_replay::CursorReplay;
use arioso_server::log::Log;
use arioso_server::node::{Identity, Node};
use arioso_server::settings::Settings;
use arioso_store::batch::{BatchHeader, BatchParts, NameKind};
use arioso_store::control::Control;
use arioso_store::publishers::Publishers;
use arioso_store::segment::SegmentTable;
use arioso_store::voids::Voids;
use arioso_stream::names::Names;
use arioso_stream::order::{RESERVE_AHEAD, Resume, TopicCounts};
use arioso_stream::record::CONTROL_TOPIC;
use arioso_stream::tip::PartitionId;
use arioso_stream::topic::TopicId;
use arioso_stream::{Records, Sequence};
use bytes::Bytes;

use crate::Violation;

/// The stream's id.
pub const STREAM_ID: u128 = 0x5EED;

#[derive(Default)]
struct Replayed {
    batches: Vec<(Bytes, Bytes)>,
    summaries: Vec<BatchSummary>,
    settled_to: u64,
    last_sequence: u64,
}

impl backend::Replay for Replayed {
    fn batch(&mut self, header: &[u8], records: &[u8]) -> Result<(), Error> {
        let read = BatchHeader::trusted(header);
        self.settled_to = self.settled_to.max(read.settled_to());
        self.last_sequence = self.last_sequence.max(read.last_sequence());
        self.summaries.push(BatchSummary::of(&read, records));
        self.batches.push((Bytes::copy_from_slice(header), Bytes::copy_from_slice(records)));
        Ok(())
    }

    fn damage(&mut self, _: backend::Damage) -> Result<(), Error> {
        panic!("memory is never damaged");
    }
}

/// What the batches tell of topics and publishers.
struct Gathered {
    publishers: Publishers,
    names: BTreeMap<u32, String>,
    counts: BTreeMap<u32, TopicCounts>,
}

/// Opens the journal. `reuse`: numbering goes on behind the last number seen, which is wrong.
pub fn open(
    mut journal: MemoryBackend,
    settings: &Settings,
    (hash_seed, now): (u64, i64),
    reuse: bool,
) -> Result<(Arc<Node>, Log<MemoryBackend>), Violation> {
    let fault = |error: Error| Violation(format!("the journal in memory can't be opened: {error}"));
    let mut replayed = Replayed::default();
    let end = journal.replay(Sequence(1), &mut replayed).map_err(fault)?;
    let settled_to = Sequence(replayed.settled_to);
    let rule = replay_voids(&replayed.summaries, Some(BatchNumber(0)), settled_to, |_| 0);
    let mut voids = Voids::default();
    let told = replayed.summaries.iter().flat_map(|summary| &summary.voids);
    told.chain(&rule.ranges).for_each(|range| voids.add(range.first.0, range.last.0));
    let gathered = gather(&replayed.batches, &voids, settings);
    let next = if reuse { Sequence(replayed.last_sequence + 1) } else { end.next_sequence };
    let mut last_batch = end.newest_batch.map_or(0, |number| number.0);
    // Numbers are handed out when a batch that reserves them is durable.
    let mut first = BatchParts::empty(last_batch + 1, next.0 - 1, end.timestamp_floor, end.server_epoch);
    (first.synced_to, first.settled_to, first.reserved_to) = (last_batch, settled_to.0, next.0 - 1 + RESERVE_AHEAD);
    last_batch += 1;
    journal.submit(write_of(&first));
    journal.complete(BatchNumber(last_batch), Outcome::Durable);
    journal.advance(&mut Vec::new()).map_err(fault)?;

    let mut cursors = CursorReplay::default();
    replayed.batches.iter().for_each(|(_, records)| cursors.records(records));
    let cursors = cursors.finish(&voids);
    let mut names = Names::new(u32::try_from(settings.topics_max).unwrap_or(u32::MAX), hash_seed);
    for (id, name) in &gathered.names {
        names.insert(TopicId(*id), name).map_err(|error| Violation(format!("topic {id}: {error}")))?;
    }
    let found = Found {
        identity: Identity { stream_id: STREAM_ID, stream_name: "sim".into(), server_epoch: end.server_epoch },
        resume: Resume {
            next,
            reserved_to: Sequence(first.reserved_to),
            timestamp: end.timestamp_floor,
            batch: last_batch + 1,
            publisher: gathered.publishers.iter().map(|state| state.id + 1).max().unwrap_or(1),
        },
        last_batch,
        settled_to: Sequence(next.0 - 1),
        topic_floor: gathered.names.keys().last().map_or(1, |id| id + 1),
        names,
        topics: gathered.counts.into_iter().collect(),
        publishers: gathered.publishers.into_states().filter(|state| state.epoch > 0).collect(),
        cursors,
        table: SegmentTable::new(1),
        voids: voids.clone(),
        rows: None,
    };
    let disk = Arc::new(SimDisk::new(0));
    let assembled = assemble(settings.clone(), disk, hash_seed, found).map_err(fault)?;
    let (node, tip) = assembled;
    let mut log = Log::new(Arc::clone(&node), journal, tip);
    refill(&mut log, &node, replayed.batches, &voids);
    if !rule.ranges.is_empty() {
        let ranges: Vec<(Sequence, Sequence)> = rule.ranges.iter().map(|range| (range.first, range.last)).collect();
        node.engine.lock().void_at_start(now, &ranges);
        log.begin(now, false);
        let flying: Vec<BatchNumber> = log.backend().flying().collect();
        flying.iter().for_each(|number| log.backend().complete(*number, Outcome::Durable));
        log.finish(now).map_err(fault)?;
    }
    Ok((node, log))
}

/// The tip is the only place where messages of earlier lives are.
fn refill(log: &mut Log<MemoryBackend>, node: &Node, batches: Vec<(Bytes, Bytes)>, voids: &Voids) {
    let voids: Vec<(Sequence, Sequence)> =
        voids.ranges().iter().map(|(first, last)| (Sequence(*first), Sequence(*last))).collect();
    let names = node.names.read();
    for (_, records) in batches {
        log.tip().append(records, &mut |topic: u32| {
            let partition = names.partition_of(TopicId(topic)).expect("a replayed topic has a name");
            PartitionId(partition.0)
        });
    }
    let settled_to = node.tip.settled_to();
    log.tip().set_visible(settled_to, &[], &voids);
}

fn gather(batches: &[(Bytes, Bytes)], voids: &Voids, settings: &Settings) -> Gathered {
    let window = settings.remembered_messages();
    let mut gathered =
        Gathered { publishers: Publishers::new(window), names: BTreeMap::new(), counts: BTreeMap::new() };
    for (header, records) in batches {
        let header = BatchHeader::trusted(header);
        for name in header.names() {
            match name.kind {
                NameKind::Topic => drop(gathered.names.insert(name.id, name.name.to_owned())),
                NameKind::Publisher => gathered.publishers.name(name.id, name.name),
            }
        }
        // Runs and control records in the order of their sequences: an epoch may be opened between two runs.
        let mut runs = header.runs().peekable();
        for record in Records::new(records).map_while(Result::ok) {
            while let Some(run) = runs.next_if(|run| run.first_sequence <= record.sequence()) {
                gathered.publishers.run(&run, header.timestamp(), voids);
            }
            if record.topic() == CONTROL_TOPIC {
                if let Some(control) = Control::read(&record) {
                    gathered.publishers.control(&control, record.timestamp());
                }
                continue;
            }
            if !voids.contains(record.sequence().0) {
                let counts = gathered.counts.entry(record.topic()).or_default();
                counts.messages += 1;
                counts.bytes += record.bytes().len() as u64;
                counts.last = record.sequence();
            }
        }
    }
    gathered
}
