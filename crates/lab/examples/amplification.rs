//! Read amplification of subtree stores: streams (JSON lines, .zst) are repeated to a size, written as one span, and what reading
//! each topic and each subtree would touch is added up: decompressed bytes of every block touched, directory and index bytes, over the
//! bytes of the records wanted. Beside it, what other encodings would make of the same blocks.
//!
//! ```text
//! cargo run --release -p arioso-lab --example amplification -- [--bytes 1000000000] [--stores 64] [--topics-max 20000] FILE.jsonl.zst...
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arioso_disk::{Disk, RealDisk};
use arioso_store::cursors::Cursors;
use arioso_store::plan::{Adaptive, Budget, Demand, NodeId, Planner, TopicTree, Volume};
use arioso_store::publishers::Publishers;
use arioso_store::segment::TopicSum;
use arioso_store::stores::span::{SpanParts, TopicPlace, write_span};
use arioso_store::stores::store::StoreHeader;
use arioso_store::stores::writer::{Row, StoreWriter};
use arioso_store::stores::{STORES_DIR, SpanFile, SpanInfo, StoreFile, View, group_bytes};
use arioso_store::voids::Voids;
use arioso_stream::Sequence;
use arioso_stream::filter::Filter;
use arioso_stream::record::{Header, push_record};
use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

type Done<T> = Result<T, Box<dyn Error>>;

#[derive(serde::Deserialize)]
struct Line {
    topic: String,
    payload: String,
}

struct Options {
    bytes: u64,
    stores: u32,
    topics_max: usize,
    files: Vec<String>,
}

fn options() -> Done<Options> {
    let mut options = Options { bytes: 1_000_000_000, stores: 64, topics_max: 20_000, files: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a number"));
        match argument.as_str() {
            "--bytes" => options.bytes = value()?.parse()?,
            "--stores" => options.stores = value()?.parse()?,
            "--topics-max" => options.topics_max = value()?.parse()?,
            _ => options.files.push(argument),
        }
    }
    Ok(options)
}

/// A stream in memory: records without their sequences, by topic.
struct Stream {
    topics: Vec<String>,
    records: Vec<(u32, Vec<u8>)>,
}

fn load(path: &Path) -> Done<Stream> {
    let reader = BufReader::new(zstd::Decoder::new(std::fs::File::open(path)?)?);
    let (mut rows, mut lines) = (BTreeMap::new(), Vec::new());
    for line in reader.lines() {
        let line: Line = serde_json::from_str(&line?)?;
        rows.insert(line.topic.clone(), 0);
        lines.push(line);
    }
    rows.values_mut().enumerate().for_each(|(row, number)| *number = row as u32);
    let record = |line: &Line| {
        let row = rows[&line.topic];
        let mut bytes = Vec::new();
        push_record(&mut bytes, row + 1, 0, &[], line.payload.as_bytes());
        (row, bytes)
    };
    Ok(Stream { records: lines.iter().map(record).collect(), topics: rows.into_keys().collect() })
}

/// Writes the stream, repeated, as one span.
fn write(disk: &dyn Disk, stream: &Stream, options: &Options) -> Done<(Vec<TopicSum>, SpanInfo, Duration)> {
    let once: u64 = stream.records.iter().map(|record| record.1.len() as u64).sum();
    let times = options.bytes.div_ceil(once);
    let mut sums = vec![TopicSum::default(); stream.topics.len()];
    for (row, record) in &stream.records {
        let sum = &mut sums[*row as usize];
        (sum.messages, sum.bytes) = (sum.messages + times, sum.bytes + times * record.len() as u64);
    }
    let volumes = stream.topics.iter().zip(&sums).map(|(topic, sum)| Volume {
        topic: topic.as_bytes(),
        messages: sum.messages,
        bytes: sum.bytes,
    });
    let started = Instant::now();
    let tree = TopicTree::build(volumes)?;
    let plan = Adaptive::default().plan(&tree, &Demand::topics(&tree), &Budget::stores(options.stores))?;
    let stores = plan.stores().len() as u32;
    let messages = stream.records.len() as u64 * times;
    let header = |store| StoreHeader { stream: 1, span: 1, store, first: 1, last: messages };
    let mut writers = Vec::new();
    for store in 0..stores {
        writers.push(StoreWriter::create(disk, header(store), group_bytes(stores as usize))?);
    }
    let (mut sequence, mut bytes) = (0, Vec::new());
    for _ in 0..times {
        for (row, record) in &stream.records {
            sequence += 1;
            bytes.clear();
            bytes.extend_from_slice(record);
            if let Ok((header, _)) = Header::mut_from_prefix(&mut bytes) {
                header.sequence = U64::new(sequence);
            }
            sums[*row as usize].last_sequence = Sequence(sequence);
            writers[plan.store_of(*row as usize).0 as usize].push(*row, sequence, &bytes)?;
        }
    }
    let told = sums.clone();
    let describe = |row: u32| Row { name: &stream.topics[row as usize], topic: row + 1, sum: told[row as usize] };
    for (store, writer) in writers.into_iter().enumerate() {
        for (row, runs) in writer.finish(&describe)?.0 {
            sums[row as usize].last_place = TopicPlace { store: store as u32, runs }.pack();
        }
    }
    let info = SpanInfo {
        span: 1,
        first_sequence: 1,
        last_sequence: messages,
        stores,
        messages,
        bytes: sums.iter().map(|sum| sum.bytes).sum(),
        ..SpanInfo::default()
    };
    let parts = SpanParts { publishers: Publishers::new(1), cursors: Cursors::default(), voids: Voids::default() };
    write_span(disk, 1, &info, &parts, &mut |directory| {
        stream.topics.iter().zip(&sums).enumerate().try_for_each(|(row, (topic, sum))| {
            let TopicSum { messages, bytes, last_sequence, last_place, sum } = *sum;
            let (name, topic) = (topic.as_bytes(), row as u32 + 1);
            directory.push(arioso_store::directory::Entry {
                name,
                topic,
                messages,
                bytes,
                last_sequence,
                last_place,
                sum,
            })
        })
    })?;
    Ok((sums, info, started.elapsed()))
}

/// Where the blocks of each store lie: offset, bytes of records.
type Blocks = Vec<Vec<(u64, u64)>>;

/// What other encodings make of the same blocks.
#[derive(Default)]
struct Encodings {
    plain: u64,
    lz4: (u64, Duration),
    zstd: (u64, Duration),
    blocks: u64,
}

/// Of so many blocks, one is also encoded otherwise.
const SAMPLE: u64 = 16;

fn blocks(stores: &[Arc<StoreFile>]) -> Done<(Blocks, Encodings)> {
    let (mut all, mut encodings) = (Vec::new(), Encodings::default());
    for store in stores {
        let mut own = Vec::new();
        for group in store.groups() {
            store.blocks(group.offset, group.bytes, &mut |_, offset, records| {
                own.push((offset, records.len() as u64));
                encodings.blocks += 1;
                if encodings.blocks.is_multiple_of(SAMPLE) {
                    encodings.sample(records);
                }
                records.clear();
                Ok(())
            })?;
        }
        all.push(own);
    }
    Ok((all, encodings))
}

impl Encodings {
    fn sample(&mut self, records: &[u8]) {
        self.plain += records.len() as u64;
        let lz4 = lz4_flex_compress(records);
        let started = Instant::now();
        let mut out = vec![0; records.len()];
        black_box(lz4_flex::block::decompress_into(&lz4, &mut out)).unwrap_or_default();
        self.lz4.0 += lz4.len() as u64;
        self.lz4.1 += started.elapsed();
        let Ok(packed) = zstd::bulk::compress(records, 1) else { return };
        let started = Instant::now();
        black_box(zstd::bulk::decompress(&packed, records.len())).unwrap_or_default();
        self.zstd.0 += packed.len() as u64;
        self.zstd.1 += started.elapsed();
    }

    fn print(&self) {
        let row = |name: &str, (bytes, took): (u64, Duration)| {
            let (ratio, speed) = (self.plain as f64 / bytes as f64, self.plain as f64 / took.as_secs_f64() / 1e6);
            println!(
                "    {name}: {ratio:.2} x, {speed:.0} MB/s of records decompressed, in blocks of {} bytes on average",
                self.plain * SAMPLE / self.blocks
            );
        };
        row("lz4   ", self.lz4);
        row("zstd 1", self.zstd);
    }
}

fn lz4_flex_compress(records: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(records)
}

/// Decompressed bytes of the blocks that a view touches.
fn touched(view: &View, stores: &[Arc<StoreFile>], blocks: &Blocks) -> u64 {
    let mut bytes = 0;
    for wanted in &view.stores {
        let (store, blocks) = (&stores[wanted.store as usize], &blocks[wanted.store as usize]);
        for group in &wanted.groups {
            let row = store.groups()[group.group as usize];
            let whole = [(0, row.bytes as u32)];
            let ranges = if group.ranges.is_empty() { &whole[..] } else { &group.ranges };
            for (offset, length) in ranges {
                let (from, to) =
                    (row.offset + u64::from(*offset), row.offset + u64::from(*offset) + u64::from(*length));
                let first = blocks.partition_point(|block| block.0 < from);
                bytes += blocks[first..].iter().take_while(|block| block.0 < to).map(|block| block.1).sum::<u64>();
            }
        }
    }
    bytes
}

/// Ratios of what was read to what was wanted.
#[derive(Default)]
struct Ratios {
    all: Vec<f64>,
    touched: u64,
    index: u64,
    useful: u64,
}

impl Ratios {
    fn add(&mut self, touched: u64, index: u64, useful: u64) {
        self.all.push((touched + index) as f64 / useful as f64);
        (self.touched, self.index, self.useful) = (self.touched + touched, self.index + index, self.useful + useful);
    }

    fn print(&mut self, what: &str) {
        if self.all.is_empty() {
            println!("  {what}: none");
            return;
        }
        self.all.sort_by(f64::total_cmp);
        let at = |part: f64| self.all[((self.all.len() - 1) as f64 * part) as usize];
        let (sum, blocks) = (self.touched + self.index, self.touched as f64 / self.useful as f64);
        println!(
            "  {what}: {} of them, summed {:.3} (blocks alone {blocks:.3}); median {:.3}, 90 % {:.3}, 99 % {:.3}, worst {:.3}",
            self.all.len(),
            sum as f64 / self.useful as f64,
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0),
        );
    }
}

fn measure(path: &str, options: &Options) -> Done<()> {
    let stream = load(Path::new(path))?;
    let dir = tempfile::tempdir()?;
    let disk = RealDisk::open(dir.path())?;
    disk.create_dir(STORES_DIR)?;
    let (sums, info, took) = write(&disk, &stream, options)?;
    let disk_bytes: u64 = disk.list(STORES_DIR)?.iter().map(|entry| entry.bytes).sum();
    let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
    println!(
        "{name}: {} messages, {} topics, {} bytes of records in {} stores, {disk_bytes} bytes on disk ({:.2} x), planned and written at {:.0} MB/s",
        info.messages,
        stream.topics.len(),
        info.bytes,
        info.stores,
        info.bytes as f64 / disk_bytes as f64,
        info.bytes as f64 / took.as_secs_f64() / 1e6,
    );
    let span = SpanFile::open(&disk, 1, 1)?;
    let mut stores = Vec::new();
    for store in 0..info.stores {
        stores.push(Arc::new(StoreFile::open(&disk, 1, 1, store)?));
    }
    let (blocks, encodings) = blocks(&stores)?;
    let mut open = |store: u32| Ok(Arc::clone(&stores[store as usize]));
    let (mut large, mut topics) = (Ratios::default(), Ratios::default());
    let step = stream.topics.len().div_ceil(options.topics_max).max(1);
    for (row, topic) in stream.topics.iter().enumerate() {
        let share = sums[row].bytes as f64 / info.bytes as f64;
        if row % step != 0 && share < 0.01 {
            continue;
        }
        let view = View::of_filters(&span, &mut open, &[Filter::new(topic)?], 1)?;
        let touched = touched(&view, &stores, &blocks);
        assert_eq!(view.useful_bytes, sums[row].bytes);
        topics.add(touched, view.index_bytes, view.useful_bytes);
        if share >= 0.01 {
            large.add(touched, view.index_bytes, view.useful_bytes);
        }
    }
    if step > 1 {
        println!("  one topic of {step} was looked at");
    }
    large.print("topics of 1 % of the volume or more");
    topics.print("topics");
    subtrees(&stream, &sums, &span, &stores, &blocks, options.topics_max)?.print("subtrees of two levels and more");
    encodings.print();
    Ok(())
}

fn subtrees(
    stream: &Stream,
    sums: &[TopicSum],
    span: &SpanFile,
    stores: &[Arc<StoreFile>],
    blocks: &Blocks,
    most: usize,
) -> Done<Ratios> {
    let volumes = stream.topics.iter().zip(sums).map(|(topic, sum)| Volume {
        topic: topic.as_bytes(),
        messages: sum.messages,
        bytes: sum.bytes,
    });
    let tree = TopicTree::build(volumes)?;
    let deep = |node: &NodeId| tree.topics(*node) > 1 && tree.depth(*node) >= 2;
    let nodes: Vec<NodeId> = tree.nodes().filter(deep).collect();
    let mut open = |store: u32| Ok(Arc::clone(&stores[store as usize]));
    let mut ratios = Ratios::default();
    for node in nodes.iter().step_by(nodes.len().div_ceil(most).max(1)) {
        let filter = Filter::new(&format!("{}/**", std::str::from_utf8(tree.name(*node))?))?;
        let view = View::of_filters(span, &mut open, &[filter], 1)?;
        assert_eq!(view.useful_bytes, tree.bytes(*node));
        ratios.add(touched(&view, stores, blocks), view.index_bytes, view.useful_bytes);
    }
    Ok(ratios)
}

fn main() -> Done<()> {
    let options = options()?;
    println!(
        "records repeated to {} bytes, {} stores at most, groups of {} bytes",
        options.bytes,
        options.stores,
        group_bytes(options.stores as usize)
    );
    for file in &options.files {
        measure(file, &options)?;
    }
    Ok(())
}
