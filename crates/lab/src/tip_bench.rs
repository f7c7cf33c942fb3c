//! `arioso bench tip`: reading a share of the tip, by the index, by scanning the columns, by the way the tip chooses, and
//! by the honest linear scan of the record headers as they lie.
//!
//! Every row begins with cold caches, and copying what is selected to one buffer is part of it. One digest over the copied bytes must come out of every
//! row of a case. Times are processor time of the thread; what counts is the ratio to the linear scan of the same case.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arioso_stream::tip::{PartitionId, ReadState, Selector, TipConfig, TipCursor, TipShared, TipWriter, Way};
use arioso_stream::{Records, Sequence};
use bytes::{Bytes, BytesMut};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::processor_time;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Bytes of records in the tip, MiB.
    #[arg(long, default_value_t = 256)]
    pub tip_mib: usize,
    /// Payload bytes of a message, besides the 32 of its header.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 168])]
    pub payload: Vec<usize>,
    /// Topics, 16 to a partition.
    #[arg(long, default_value_t = 100_000)]
    pub topics: u32,
    /// Percent of the messages that are selected.
    #[arg(long, value_delimiter = ',', default_values_t = [0.01, 0.1, 1.0, 10.0, 50.0, 100.0])]
    pub selectivity: Vec<f64>,
    /// Bytes of a read.
    #[arg(long, default_value_t = 256 << 10)]
    pub slice: usize,
    /// Each row is the median of so many runs, in which the ways take turns.
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Seed of the random order.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Warm caches: nothing else is read before a row.
    #[arg(long)]
    pub warm: bool,
    /// Only the JSON line.
    #[arg(long)]
    pub json: bool,
    /// Draws the sweep into this file (SVG).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Recorded streams (JSON lines, zstd): entries tested per message delivered, reading one topic after the other.
    #[arg(long)]
    pub stream: Vec<PathBuf>,
}

impl Args {
    /// Small enough to run with the tests.
    pub fn small() -> Args {
        Args {
            tip_mib: 1,
            payload: vec![0, 100],
            topics: 500,
            selectivity: vec![1.0, 100.0],
            slice: 16 << 10,
            rounds: 1,
            seed: 1,
            warm: false,
            json: false,
            plot: None,
            stream: Vec::new(),
        }
    }
}

/// One case and one way.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Payload bytes.
    pub payload: usize,
    /// Percent of the messages selected.
    pub selectivity: f64,
    /// The way.
    pub way: &'static str,
    /// Messages delivered.
    pub messages: u64,
    /// Records and index entries tested.
    pub tested: u64,
    /// Nanoseconds a message delivered.
    pub ns_per_message: f64,
    /// Time against the linear scan.
    pub ratio: f64,
}

/// What a recorded stream costs, topic by topic.
#[derive(Clone, Debug, Serialize)]
pub struct StreamRow {
    /// The file's name.
    pub stream: String,
    /// Messages in the tip.
    pub messages: u64,
    /// Topics read.
    pub topics: u64,
    /// Entries tested per message delivered, over all topics.
    pub tested_per_message: f64,
    /// Bytes of the index a message.
    pub index_bytes_per_message: f64,
    /// Index nodes.
    pub nodes: u64,
    /// Index memory against 1.25 × 8 bytes a message and 64 a node.
    pub memory_of_budget: f64,
}

#[derive(Serialize)]
struct Summary<'a> {
    bench: &'static str,
    tip_mib: usize,
    topics: u32,
    warm: bool,
    seed: u64,
    rows: &'a [Row],
    streams: &'a [StreamRow],
}

/// Measures, prints parameters, a table and a JSON line.
pub fn run(args: &Args, line_out: &mut dyn Write) -> io::Result<()> {
    let mut nowhere = io::sink();
    let out: &mut dyn Write = if args.json { &mut nowhere } else { &mut *line_out };
    writeln!(
        out,
        "tip: {} MiB, {} topics, reads of {} bytes, {} caches, median of {} rounds, seed {}",
        args.tip_mib,
        args.topics,
        args.slice,
        if args.warm { "warm" } else { "cold" },
        args.rounds,
        args.seed
    )?;
    let mut rows = Vec::new();
    if args.stream.is_empty() {
        writeln!(
            out,
            "{:>7} {:>8}  {:<20} {:>9} {:>10} {:>9} {:>7}",
            "payload", "percent", "way", "messages", "tested", "ns each", "of scan"
        )?;
        for payload in &args.payload {
            measure_payload(args, *payload, &mut rows, out)?;
        }
    }
    let mut streams = Vec::new();
    for path in &args.stream {
        let row = measure_stream(path, args.tip_mib << 20)?;
        writeln!(
            out,
            "{}: {} messages, {} topics, {:.2} tested per message, index {:.1} bytes a message in {} nodes, {:.2} of the budget",
            row.stream,
            row.messages,
            row.topics,
            row.tested_per_message,
            row.index_bytes_per_message,
            row.nodes,
            row.memory_of_budget
        )?;
        streams.push(row);
    }
    let summary = Summary {
        bench: "tip",
        tip_mib: args.tip_mib,
        topics: args.topics,
        warm: args.warm,
        seed: args.seed,
        rows: &rows,
        streams: &streams,
    };
    if let Some(file) = &args.plot {
        std::fs::write(file, crate::tip_plot::svg(&rows))?;
    }
    serde_json::to_writer(&mut *line_out, &summary)?;
    writeln!(line_out)
}

const TOPICS_PER_PARTITION: u32 = 16;

/// Wants the topics of a bitmap.
struct Bitmap {
    topics: Vec<u64>,
    partitions: Vec<PartitionId>,
    partition_count: u32,
}

impl Bitmap {
    fn has(&self, topic: u32) -> bool {
        self.topics[topic as usize / 64] >> (topic % 64) & 1 == 1
    }
}

impl Selector for Bitmap {
    fn selects(&mut self, topic: u32) -> bool {
        self.has(topic)
    }

    fn everything(&self) -> bool {
        false
    }

    fn partitions(&mut self, from_count: u32, out: &mut Vec<PartitionId>) -> u32 {
        let from = self.partitions.partition_point(|partition| partition.0 < from_count);
        out.extend_from_slice(&self.partitions[from..]);
        self.partition_count
    }

    fn whole_partition(&mut self, _partition: PartitionId) -> bool {
        true
    }

    fn exact_topics(&self) -> Option<&[u32]> {
        None
    }
}

/// A tip filled with messages of random topics, and the batches it was filled with.
struct Filled {
    _writer: TipWriter,
    shared: Arc<TipShared>,
    batches: Vec<Bytes>,
    messages: u64,
}

fn fill(args: &Args, payload: usize) -> Filled {
    let (mut writer, shared) =
        TipWriter::new(TipConfig { bytes: (args.tip_mib << 20) + (8 << 20), ..TipConfig::default() });
    let mut random = SmallRng::seed_from_u64(args.seed);
    let payload = vec![7; payload];
    let mut batches = Vec::new();
    let mut sequence = 0u64;
    let mut bytes = 0;
    while bytes < args.tip_mib << 20 {
        let mut batch = BytesMut::with_capacity(1 << 20);
        while batch.len() + payload.len() + 64 < 1 << 20 {
            sequence += 1;
            let at = batch.len();
            let topic = 1 + random.random_range(0..args.topics);
            arioso_stream::record::push_record(&mut batch, topic, 0, &[], &payload);
            batch[at + 8..at + 16].copy_from_slice(&sequence.to_le_bytes());
        }
        bytes += batch.len();
        let batch = batch.freeze();
        batches.push(batch.clone());
        writer.append(batch, &mut |topic| PartitionId(topic / TOPICS_PER_PARTITION));
        writer.set_visible(Sequence(sequence), &[], &[]);
    }
    Filled { _writer: writer, shared, batches, messages: sequence }
}

/// Partitions drawn at random.
fn selection(args: &Args, percent: f64, seed: u64) -> Bitmap {
    let mut random = SmallRng::seed_from_u64(seed);
    let partition_count = args.topics / TOPICS_PER_PARTITION + 1;
    let mut selection =
        Bitmap { topics: vec![0; args.topics as usize / 64 + 1], partitions: Vec::new(), partition_count };
    let wanted = (f64::from(partition_count) * percent / 100.0).round().max(1.0) as u32;
    let mut left = wanted.min(partition_count);
    for partition in 0..partition_count {
        // Of the partitions to come each is as likely as the next.
        if random.random_range(0..partition_count - partition) >= left {
            continue;
        }
        left -= 1;
        selection.partitions.push(PartitionId(partition));
        for topic in partition * TOPICS_PER_PARTITION..(partition + 1) * TOPICS_PER_PARTITION {
            if (1..=args.topics).contains(&topic) {
                selection.topics[topic as usize / 64] |= 1 << (topic % 64);
            }
        }
    }
    selection
}

const WAYS: [(&str, Option<Way>); 4] = [
    ("linear scan in place", None),
    ("column scan", Some(Way::Scan)),
    ("index", Some(Way::Index)),
    ("chosen", Some(Way::Chosen)),
];

fn measure_payload(args: &Args, payload: usize, rows: &mut Vec<Row>, out: &mut dyn Write) -> io::Result<()> {
    let filled = fill(args, payload);
    let metrics = filled.shared.metrics();
    writeln!(
        out,
        "{:>7} {} messages; index {:.2} bytes a message in {} nodes, column {:.2}",
        payload,
        filled.messages,
        metrics.index_bytes as f64 / filled.messages as f64,
        metrics.nodes,
        metrics.column_bytes as f64 / filled.messages as f64
    )?;
    let mut cold = vec![0u64; COLD_BYTES / 8];
    // Written to once: whoever reads again and again has its buffer, and does not wait for the system to make its pages.
    let mut copy = BytesMut::zeroed(args.slice + (1 << 20));
    for percent in &args.selectivity {
        let mut selection = selection(args, *percent, args.seed);
        let mut runs = [const { Vec::new() }; WAYS.len()];
        let mut result = [(0, 0, 0); WAYS.len()];
        for _ in 0..args.rounds.max(1) {
            for (at, (_, way)) in WAYS.iter().enumerate() {
                copy.clear();
                if !args.warm {
                    cool(&mut cold);
                }
                let begun = processor_time();
                result[at] = match way {
                    None => scan_in_place(&filled, &selection, args.slice, &mut copy),
                    Some(way) => read(&filled, &mut selection, *way, args.slice, &mut copy),
                };
                runs[at].push(processor_time() - begun);
            }
        }
        let took = runs.map(median);
        for (at, (name, _)) in WAYS.iter().enumerate() {
            let (messages, tested, digest) = result[at];
            assert_eq!(digest, result[0].2, "{name} delivers other bytes");
            let row = Row {
                payload,
                selectivity: *percent,
                way: name,
                messages,
                tested,
                ns_per_message: took[at].as_nanos() as f64 / messages.max(1) as f64,
                ratio: took[at].as_secs_f64() / took[0].as_secs_f64().max(1e-9),
            };
            writeln!(
                out,
                "{:>7} {:>8} {:<20} {:>9} {:>10} {:>9.1} {:>7.3}",
                payload, percent, row.way, messages, tested, row.ns_per_message, row.ratio
            )?;
            rows.push(row);
        }
        let scanned = filled.batches.iter().map(Bytes::len).sum::<usize>() as f64;
        writeln!(
            out,
            "{:>7} {:>8} the linear scan goes {:.1} GB/s",
            payload,
            percent,
            scanned / took[0].as_nanos() as f64
        )?;
    }
    Ok(())
}

fn median(mut runs: Vec<Duration>) -> Duration {
    runs.sort_unstable();
    runs.get(runs.len() / 2).copied().unwrap_or_default()
}

/// More than the caches hold.
const COLD_BYTES: usize = 64 << 20;

/// Fills the caches with something else: what a row reads it reads from memory.
fn cool(cold: &mut [u64]) {
    for word in cold.iter_mut().step_by(8) {
        *word = word.wrapping_add(1);
    }
}

/// Walks the records as they lie, tests each topic in the bitmap, copies what is selected.
fn scan_in_place(filled: &Filled, selection: &Bitmap, slice: usize, copy: &mut BytesMut) -> (u64, u64, u64) {
    let (mut messages, mut digest) = (0, Digest::default());
    for batch in &filled.batches {
        for record in Records::new(batch) {
            let record = record.expect("the bench built it");
            if selection.has(record.topic()) {
                copy.extend_from_slice(record.bytes());
                messages += 1;
                if copy.len() >= slice {
                    digest.add(copy);
                    copy.clear();
                }
            }
        }
    }
    digest.add(copy);
    (messages, filled.messages, digest.0)
}

/// Of the bytes as one stream, however they are cut: the sum of their words.
#[derive(Default)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, copy: &[u8]) {
        for word in copy.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            self.0 = self.0.wrapping_add(word);
        }
    }
}

fn read(filled: &Filled, selection: &mut Bitmap, way: Way, slice: usize, copy: &mut BytesMut) -> (u64, u64, u64) {
    let mut cursor = TipCursor::new(filled.shared.clone(), Sequence(1)).go(way);
    let (mut messages, mut tested, mut digest) = (0, 0, Digest::default());
    loop {
        copy.clear();
        let (end, records) = cursor.read_into(selection, slice, copy);
        digest.add(copy);
        messages += u64::from(records);
        tested += end.tested;
        if end.state != ReadState::More {
            return (messages, tested, digest.0);
        }
    }
}

/// One topic, the selection of a subscriber to it.
struct OneTopic {
    topic: [u32; 1],
    partition: PartitionId,
}

impl Selector for OneTopic {
    fn selects(&mut self, topic: u32) -> bool {
        self.topic[0] == topic
    }

    fn everything(&self) -> bool {
        false
    }

    fn partitions(&mut self, from_count: u32, out: &mut Vec<PartitionId>) -> u32 {
        if from_count == 0 {
            out.push(self.partition);
        }
        u32::MAX
    }

    fn exact_topics(&self) -> Option<&[u32]> {
        Some(&self.topic)
    }
}

#[derive(serde::Deserialize)]
struct Line {
    topic: String,
    payload: String,
}

/// Puts a recorded stream into a tip, again and again until it is full, then reads every topic by itself.
fn measure_stream(path: &Path, tip_bytes: usize) -> io::Result<StreamRow> {
    let mut topics = std::collections::HashMap::new();
    let mut partitions = std::collections::HashMap::new();
    let mut partition_of = vec![PartitionId(0)];
    let (mut writer, shared) = TipWriter::new(TipConfig { bytes: tip_bytes, ..TipConfig::default() });
    let mut sequence = 0u64;
    let mut rounds = 0;
    let mut written = 0;
    while rounds == 0 || (written < 2 * tip_bytes && rounds < 1_000_000) {
        rounds += 1;
        let lines = io::BufReader::new(zstd::Decoder::new(std::fs::File::open(path)?)?);
        let mut batch = BytesMut::new();
        let mut lines = lines.lines().peekable();
        while let Some(line) = lines.next() {
            let line: Line = serde_json::from_str(&line?)?;
            let next = topics.len() as u32 + 1;
            let topic = *topics.entry(line.topic.clone()).or_insert(next);
            if topic == next {
                let cut = line.topic.match_indices('/').nth(1).map_or(line.topic.len(), |m| m.0);
                let count = partitions.len() as u32;
                let partition = partitions.entry(line.topic[..cut].to_owned()).or_insert(count);
                partition_of.push(PartitionId(*partition));
            }
            sequence += 1;
            let at = batch.len();
            arioso_stream::record::push_record(&mut batch, topic, 0, &[], line.payload.as_bytes());
            batch[at + 8..at + 16].copy_from_slice(&sequence.to_le_bytes());
            if batch.len() > 64 << 10 || lines.peek().is_none() {
                written += batch.len();
                let records = batch.split().freeze();
                writer.append(records, &mut |topic| partition_of[topic as usize]);
                writer.set_visible(Sequence(sequence), &[], &[]);
            }
        }
    }
    let (mut delivered, mut tested) = (0, 0);
    for topic in 1..=topics.len() as u32 {
        let mut selector = OneTopic { topic: [topic], partition: partition_of[topic as usize] };
        let mut cursor = TipCursor::new(shared.clone(), shared.first_sequence()).go(Way::Index);
        loop {
            let mut slices = Vec::new();
            let end = cursor.read(&mut selector, 256 << 10, &mut slices);
            tested += end.tested;
            delivered += slices.iter().map(|slice| u64::from(slice.records)).sum::<u64>();
            if end.state != ReadState::More {
                break;
            }
        }
    }
    let metrics = shared.metrics();
    let budget = metrics.entries as f64 * 10.0 + metrics.nodes as f64 * 64.0;
    let name = path.file_name().unwrap_or_default();
    Ok(StreamRow {
        stream: name.to_string_lossy().into_owned(),
        messages: metrics.records,
        topics: topics.len() as u64,
        tested_per_message: tested as f64 / delivered.max(1) as f64,
        index_bytes_per_message: metrics.index_bytes as f64 / metrics.entries.max(1) as f64,
        nodes: metrics.nodes,
        memory_of_budget: metrics.index_bytes as f64 / budget.max(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_delivers_the_same_bytes() {
        let mut out = Vec::new();
        run(&Args::small(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let json: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 2 * 2 * WAYS.len());
        assert!(json["rows"][0]["messages"].as_u64().unwrap() > 0);
    }
}
