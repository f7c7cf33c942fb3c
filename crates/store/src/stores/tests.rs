//! Tests of spans written by hand: whatever the plan, a span gives what the plain log gives.

use std::sync::Arc;

use arioso_disk::{Access, Disk, SimDisk};
use arioso_stream::filter::Filter;
use arioso_stream::record::{Header, push_record};
use proptest::prelude::*;
use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use super::span::{SpanParts, TopicPlace, write_span};
use super::store::StoreHeader;
use super::verify::Verify;
use super::writer::{Row, StoreWriter};
use super::*;
use crate::cursors::Cursors;
use crate::publishers::Publishers;
use crate::segment::seal::entry;
use crate::segment::{Selector, TopicSum};
use crate::voids::Voids;
use crate::{Error, Result};

const STREAM: u128 = 9;
const SPAN: u64 = 3;

/// Topics in the order of their bytes; ids are not in that order.
const NAMES: [&str; 7] = ["a", "a/b", "a/b!", "a/b/c", "a/b/d", "b/x/c", "b/y/c"];

fn id(row: usize) -> u32 {
    (row as u32 * 5) % 7 + 1
}

fn record(row: usize, sequence: u64, bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    push_record(&mut out, id(row), 0, &[], &vec![(sequence * 7) as u8; bytes]);
    Header::mut_from_prefix(&mut out).unwrap().0.sequence = U64::new(sequence);
    out
}

/// Row, sequence, bytes of each record.
type Log = Vec<(usize, u64, Vec<u8>)>;

fn log(messages: &[(usize, u64, usize)]) -> Log {
    let mut sequence = 10;
    let next = |(row, skip, bytes): &(usize, u64, usize)| {
        sequence += skip + 1;
        (*row, sequence, record(*row, sequence, *bytes))
    };
    messages.iter().map(next).collect()
}

/// Writes a log as a span, each topic into the store the plan says.
fn write(disk: &SimDisk, log: &Log, plan: &[u32; 7], group_bytes: usize) {
    disk.create_dir(STORES_DIR).unwrap();
    let stores = plan.iter().max().unwrap() + 1;
    let last = log.last().map_or(10, |last| last.1) + 2;
    let mut sums = [TopicSum::default(); 7];
    let header = |store| StoreHeader { stream: STREAM, span: SPAN, store, first: 10, last };
    let mut writers: Vec<_> =
        (0..stores).map(|store| StoreWriter::create(disk, header(store), group_bytes).unwrap()).collect();
    for (row, sequence, bytes) in log {
        let sum = &mut sums[*row];
        (sum.messages, sum.bytes) = (sum.messages + 1, sum.bytes + bytes.len() as u64);
        sum.sum = sum.sum.wrapping_add(twox_hash::XxHash3_64::oneshot(bytes));
        sum.last_sequence = arioso_stream::Sequence(*sequence);
        writers[plan[*row] as usize].push(*row as u32, *sequence, bytes).unwrap();
    }
    let told = sums;
    let describe = |row: u32| Row { name: NAMES[row as usize], topic: id(row as usize), sum: told[row as usize] };
    for (store, writer) in writers.into_iter().enumerate() {
        for (row, runs) in writer.finish(&describe).unwrap().0 {
            sums[row as usize].last_place = TopicPlace { store: store as u32, runs }.pack();
        }
    }
    let info = SpanInfo {
        span: SPAN,
        first_sequence: 10,
        last_sequence: last,
        stores,
        messages: log.len() as u64,
        bytes: log.iter().map(|record| record.2.len() as u64).sum(),
        ..SpanInfo::default()
    };
    let parts = SpanParts { publishers: Publishers::new(1), cursors: Cursors::default(), voids: Voids::default() };
    write_span(disk, STREAM, &info, &parts, &mut |directory| {
        (0..NAMES.len()).try_for_each(|row| directory.push(entry(NAMES[row], id(row), &sums[row])))
    })
    .unwrap();
}

struct Topics(Vec<u32>);

impl Selector for Topics {
    fn selects(&mut self, topic: u32) -> bool {
        self.0.contains(&topic)
    }

    fn everything(&self) -> bool {
        self.0.len() == NAMES.len()
    }
}

/// Reads what filters match from a position on, through view and cursor.
fn read(disk: &SimDisk, filters: &[Filter], next: u64) -> Result<Vec<u8>> {
    let span = SpanFile::open(disk, STREAM, SPAN)?;
    let mut open = |store| StoreFile::open(disk, STREAM, SPAN, store).map(Arc::new);
    let view = Arc::new(View::of_filters(&span, &mut open, filters, next)?);
    let wanted = |row: &usize| filters.iter().any(|filter| filter.matches(NAMES[*row]));
    let mut selector = Topics((0..NAMES.len()).filter(wanted).map(id).collect());
    let mut cursor = SpanCursor::new(Arc::clone(&view), next);
    let mut out = Vec::new();
    let mut through = 0;
    loop {
        match cursor.step(&mut selector) {
            SpanStep::Need(need) => {
                let store = StoreFile::open(disk, STREAM, SPAN, need.store)?;
                cursor.supply(store.load(need.group, &need.ranges)?.records);
            }
            SpanStep::Slices(slices) => {
                assert!(slices.through >= through && cursor.position() == slices.through + 1);
                through = slices.through;
                slices.slices.iter().for_each(|slice| out.extend_from_slice(slice));
            }
            SpanStep::End => {
                assert!(cursor.position() > view.last);
                return Ok(out);
            }
        }
    }
}

/// Reads every store back.
fn verify(disk: &SimDisk, stores: u32) -> Result<()> {
    for store in 0..stores {
        let mut verify = Verify::new(Arc::new(StoreFile::open(disk, STREAM, SPAN, store)?))?;
        while verify.step()?.is_some() {}
        verify.finish(&mut |_, _| Ok(()))?;
    }
    SpanFile::open(disk, STREAM, SPAN)?.described(1).map(|_| ())
}

fn plain(log: &Log, filters: &[Filter], next: u64) -> Vec<u8> {
    let wanted = |record: &&(usize, u64, Vec<u8>)| {
        record.1 >= next && filters.iter().any(|filter| filter.matches(NAMES[record.0]))
    };
    log.iter().filter(wanted).flat_map(|record| record.2.clone()).collect()
}

fn filters(texts: &[&str]) -> Vec<Filter> {
    texts.iter().map(|text| Filter::new(text).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_span_gives_what_the_plain_log_gives_whatever_the_plan(
        messages in prop::collection::vec((0usize..7, 0u64..3, prop_oneof![0usize..60, 3_000usize..9_000]), 0..200),
        plan in prop::array::uniform7(0u32..4),
        group_bytes in prop_oneof![Just(1usize), 100usize..5_000, Just(100_000usize)],
        from in 0u64..500,
    ) {
        let (disk, log) = (SimDisk::new(1), log(&messages));
        write(&disk, &log, &plan, group_bytes);
        verify(&disk, plan.iter().max().unwrap() + 1).unwrap();
        for texts in [&["**"][..], &["a/b/c"], &["a/b/**"], &["a/**"], &["*/*/c"], &["a", "b/*/c"], &["a/b", "a/b/**"], &["z"]] {
            let filters = filters(texts);
            prop_assert!(read(&disk, &filters, from).unwrap() == plain(&log, &filters, from), "{texts:?}");
        }
    }
}

/// A small span with blocks of every kind.
fn small() -> (SimDisk, Log) {
    let messages: Vec<_> = (0..40).map(|at| (at * 3 % 7, (at % 3) as u64, if at % 9 == 0 { 300 } else { 8 })).collect();
    let (disk, log) = (SimDisk::new(1), log(&messages));
    write(&disk, &log, &[0, 0, 0, 0, 0, 1, 1], 1_500);
    (disk, log)
}

fn files() -> [String; 3] {
    [span_path(SPAN), store_path(SPAN, 0), store_path(SPAN, 1)]
}

/// An error says in which file, unless all is as it was.
fn names_the_file_or_reads_the_same(disk: &SimDisk, log: &Log, path: &str, what: &str) {
    let everything = filters(&["**"]);
    let one = filters(&["a/b/c"]);
    for filters in [&everything, &one] {
        match read(disk, filters, 0) {
            Ok(bytes) => assert!(bytes == plain(log, filters, 0), "{path}: {what}: other bytes"),
            Err(error) => assert!(error.to_string().contains(path), "{path}: {what}: {error}"),
        }
    }
}

#[test]
fn every_flipped_bit_is_named_or_changes_nothing() {
    let (disk, log) = small();
    let mut found = 0;
    for path in files() {
        let bytes = disk.open(&path, Access::Read).unwrap().len().unwrap();
        for offset in 0..bytes {
            let bit = (offset % 8) as u8;
            disk.flip(&path, offset, bit).unwrap();
            names_the_file_or_reads_the_same(&disk, &log, &path, &format!("bit {bit} at {offset}"));
            found += u64::from(verify(&disk, 2).is_err());
            disk.flip(&path, offset, bit).unwrap();
        }
    }
    // All but the zeros between parts are under a checksum.
    let all: u64 = files().iter().map(|path| disk.open(path, Access::Read).unwrap().len().unwrap()).sum();
    assert!(found + 64 >= all, "{found} of {all} flips were found");
}

#[test]
fn every_cut_is_named() {
    let (disk, log) = small();
    for path in files() {
        let file = disk.open(&path, Access::ReadWrite).unwrap();
        let bytes = file.len().unwrap();
        let mut whole = vec![0; bytes as usize];
        file.read_exact_at(&mut whole, 0).unwrap();
        for length in (0..bytes).step_by(7) {
            file.set_len(length).unwrap();
            names_the_file_or_reads_the_same(&disk, &log, &path, &format!("cut to {length}"));
            assert!(verify(&disk, 2).is_err(), "{path} cut to {length}");
            file.write_at(&whole, 0).unwrap();
        }
    }
}

#[test]
fn a_damaged_block_is_named_and_other_topics_stay_readable() {
    let (disk, log) = small();
    let store = StoreFile::open(&disk, STREAM, SPAN, 0).unwrap();
    let group = store.groups()[0];
    disk.flip(&store_path(SPAN, 0), group.offset + 60, 1).unwrap();
    let error = read(&disk, &filters(&["a/**"]), 0).unwrap_err();
    assert!(
        matches!(&error, Error::Part { file, offset, .. } if *file == store_path(SPAN, 0) && *offset == group.offset)
    );
    let other = filters(&["b/**"]);
    assert_eq!(read(&disk, &other, 0).unwrap(), plain(&log, &other, 0));
    let behind = filters(&["a/**"]);
    assert_eq!(read(&disk, &behind, group.last + 1).unwrap(), plain(&log, &behind, group.last + 1));
}

#[test]
fn one_topic_reads_only_the_blocks_that_hold_it() {
    let disk = SimDisk::new(1);
    let log = log(&(0..700).map(|at| (at % 7, 0, 1_000)).collect::<Vec<_>>());
    write(&disk, &log, &[0; 7], 1 << 20);
    let span = SpanFile::open(&disk, STREAM, SPAN).unwrap();
    let mut open = |store| StoreFile::open(&disk, STREAM, SPAN, store).map(Arc::new);
    let store = open(0).unwrap();
    let view = View::of_filters(&span, &mut open, &filters(&["a/b/c"]), 0).unwrap();
    let mut records = 0;
    for wanted in &view.stores[0].groups {
        records += store.load(wanted.group, &wanted.ranges).unwrap().records.len();
    }
    // A topic of more than a few KiB shares no block.
    assert_eq!(records as u64, view.useful_bytes);
    assert_eq!(view.messages, 100);
}

#[test]
fn a_step_looks_at_no_more_than_a_slice() {
    let disk = SimDisk::new(1);
    let log = log(&(0..3_000).map(|at| (at % 7, 0, 500)).collect::<Vec<_>>());
    write(&disk, &log, &[0, 1, 2, 3, 0, 1, 2], 1 << 20);
    let span = SpanFile::open(&disk, STREAM, SPAN).unwrap();
    let mut open = |store| StoreFile::open(&disk, STREAM, SPAN, store).map(Arc::new);
    let view = View::of_filters(&span, &mut open, &filters(&["**"]), 0).unwrap();
    let mut cursor = SpanCursor::new(Arc::new(view), 0);
    let mut slices = 0;
    loop {
        match cursor.step(&mut Topics((1..=7).collect())) {
            SpanStep::Need(need) => {
                cursor.supply(open(need.store).unwrap().load(need.group, &need.ranges).unwrap().records);
            }
            SpanStep::Slices(read) => {
                slices += 1;
                assert!(read.bytes <= crate::segment::SLICE_BYTES + 600);
            }
            SpanStep::End => break,
        }
    }
    assert!(slices >= 6);
}

#[test]
fn without_a_manifest_spans_count_whose_segments_are_gone() {
    let (disk, _) = small();
    let spans = |lowest| span::spans_without_manifest(&disk, STREAM, lowest).unwrap().len();
    // It says that it replaces segment 0.
    assert_eq!((spans(Some(1)), spans(Some(0)), spans(None)), (1, 0, 1));
    split::remove_orphans(&disk, &[SPAN]).unwrap();
    assert_eq!(list_stores(&disk).unwrap().files.len(), 3);
    split::remove_orphans(&disk, &[]).unwrap();
    assert!(list_stores(&disk).unwrap().files.is_empty());
}
