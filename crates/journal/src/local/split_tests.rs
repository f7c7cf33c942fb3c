//! Splitting, with everything that can come between: readers see nothing of it, and segments or stores are in charge, never
//! both, never neither.

use std::collections::BTreeSet;
use std::sync::Arc;

use arioso_disk::{Disk, SimDisk};
use arioso_store::history::{HistoryReader, Step, read_need};
use arioso_store::inspect::{Finding, inspect};
use arioso_store::manifest::{MANIFEST_FILES, Manifest};
use arioso_store::segment::{JOURNAL_DIR, JournalName};
use arioso_store::stores::{SplitProgress, list_stores, span_path, store_path};
use arioso_stream::Records;
use arioso_stream::filter::Filter;
use proptest::prelude::*;

use super::testing::{Bench, Pick, Rng, STREAM, Shown, options, topic_name};
use super::{LocalOptions, Notice};

const TOPICS: u32 = 12;

fn split_options() -> LocalOptions {
    LocalOptions { split_segments: 3, stores_max: 4, ..options() }
}

fn arc(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn open(bench: &mut Bench, disk: &SimDisk) -> super::Recovered {
    bench.open_with(&arc(disk), &split_options(), Shown::default()).unwrap().0
}

/// Splits what can be split, as far as the disk goes; gives how many spans took the place of segments.
fn split(bench: &mut Bench) -> usize {
    let mut spans = 0;
    let heard = |notices: Vec<Notice>| notices.iter().filter(|notice| matches!(notice, Notice::Split { .. })).count();
    while let Some(mut split) = bench.local().next_split() {
        let result = loop {
            match split.step() {
                Ok(SplitProgress::Working { .. }) => {}
                Ok(SplitProgress::Done(info)) => break Ok(*info),
                Err(error) => {
                    let _ = split.clean_up();
                    break Err(error);
                }
            }
        };
        let notice = bench.local().split_done(result);
        spans += heard(notice.into_iter().collect());
        spans += heard(bench.jobs());
    }
    spans
}

fn publish(bench: &mut Bench, rng: &mut Rng, rounds: u64) {
    for _ in 0..rounds {
        let topic = 1 + (rng.below(TOPICS.into()) * rng.below(3) / 2) as u32;
        let payload = vec![rng.below(256) as u8; rng.below(6_000) as usize];
        bench.store(&[(topic, payload)]);
    }
    bench.empty_batch();
    bench.write().unwrap();
    bench.jobs();
}

/// What filters match, from a sequence on, through the whole history.
fn read(disk: &SimDisk, bench: &Bench, filters: &[&str], from: u64) -> Vec<(u64, Vec<u8>)> {
    let local = bench.local.as_ref().unwrap();
    let filters: Vec<Filter> = filters.iter().map(|text| Filter::new(text).unwrap()).collect();
    let matches = |topic: &u32| filters.iter().any(|filter| filter.matches(&topic_name(*topic)));
    let mut pick = match filters.iter().any(Filter::is_everything) {
        true => Pick::All,
        false => Pick::Topics((1..=TOPICS).filter(matches).collect()),
    };
    let mut reader = HistoryReader::from_sequence(from);
    let mut out = Vec::new();
    loop {
        match reader.step(local.table(), local.voids(), &mut pick) {
            Step::Need(need) => reader.supply(read_need(disk, STREAM, local.table(), &need, &filters)),
            Step::Slices(slices) => {
                for slice in &slices.slices {
                    out.extend(Records::new(slice).map(Result::unwrap).map(|r| (r.sequence().0, r.bytes().to_vec())));
                }
            }
            Step::End { .. } => return out,
            other => panic!("{other:?}"),
        }
    }
}

/// Everything acknowledged and kept is read, once, in order, with its bytes, whatever the filter; the directory is tidy.
fn check(disk: &SimDisk, bench: &Bench) {
    let local = bench.local.as_ref().unwrap();
    let kept = local.table().first_kept();
    let acknowledged: BTreeSet<u64> = bench.acknowledged.iter().copied().filter(|sequence| *sequence >= kept).collect();
    for filters in [&["**"][..], &["area/1/**"], &["area/*/item-5"], &["area/0/item-3", "area/2/item-2"], &["none"]] {
        for from in [kept, bench.next_sequence / 2] {
            let from = from.max(kept);
            let got = read(disk, bench, filters, from);
            assert!(got.is_sorted_by(|a, b| a.0 < b.0));
            let matches = |sequence: &u64| {
                let topic = topic_name(bench.given[sequence].topic);
                filters.iter().any(|filter| Filter::new(filter).unwrap().matches(&topic))
            };
            for (sequence, bytes) in &got {
                assert!(*sequence >= from && matches(sequence) && bench.given[sequence].bytes == *bytes);
            }
            let numbers: BTreeSet<u64> = got.iter().map(|(sequence, _)| *sequence).collect();
            let missing = acknowledged.iter().find(|s| **s >= from && matches(s) && !numbers.contains(s));
            assert_eq!(missing, None, "{filters:?} from {from}");
        }
    }
}

/// Of each segment either itself or the span that replaced it is there; no file is without an owner; an inspection is clean.
fn check_directory(disk: &SimDisk) {
    let manifest = Manifest::load(disk).unwrap().0.unwrap();
    let mut expected: Vec<String> = Vec::new();
    for span in &manifest.spans {
        expected.extend((0..span.stores).map(|store| store_path(span.span, store)));
        expected.push(span_path(span.span));
        assert!(span.last_segment < manifest.first_segment);
    }
    let mut files: Vec<String> = list_stores(disk).unwrap().files.into_iter().map(|(path, _)| path).collect();
    expected.sort();
    files.sort();
    assert_eq!(files, expected);
    for entry in disk.list(JOURNAL_DIR).unwrap() {
        if let JournalName::Segment(number) = JournalName::read(&entry.name) {
            assert!(number >= manifest.first_segment, "segment {number} is there beside its span");
        }
    }
    let mut findings = Vec::new();
    let totals = inspect(&disk.kill(), &mut |finding| findings.push(format!("{finding:?}"))).unwrap();
    assert!(totals.is_healthy(), "{findings:#?}");
}

#[test]
fn a_span_takes_the_place_of_its_segments() {
    let disk = SimDisk::new(1);
    let (mut bench, mut rng) = (Bench::new(), Rng(1));
    open(&mut bench, &disk);
    publish(&mut bench, &mut rng, 300);
    let before = read(&disk, &bench, &["**"], 1);
    let counts = bench.open_with(&arc(&disk.kill()), &split_options(), Shown::default()).unwrap().1.topics;
    let disk = disk.kill();
    open(&mut bench, &disk);
    bench.jobs();
    assert!(split(&mut bench) >= 2);
    assert_eq!(read(&disk, &bench, &["**"], 1), before);
    check(&disk, &bench);
    bench.local = None;
    check_directory(&disk);
    // Once more after a start, with the base and without.
    let disk = disk.kill();
    for remove in [false, true] {
        if remove {
            for base in arioso_store::checkpoint::list_bases(&disk).unwrap().0 {
                disk.remove(&arioso_store::checkpoint::base_path(base)).unwrap();
            }
        }
        let (_, shown) = bench.open_with(&arc(&disk), &split_options(), Shown::default()).unwrap();
        assert_eq!(shown.topics, counts);
        check(&disk, &bench);
        bench.local = None;
    }
}

#[test]
fn spans_are_found_without_a_manifest() {
    let disk = SimDisk::new(1);
    let (mut bench, mut rng) = (Bench::new(), Rng(2));
    open(&mut bench, &disk);
    publish(&mut bench, &mut rng, 250);
    assert!(split(&mut bench) >= 1);
    bench.local = None;
    let disk = disk.kill();
    for file in MANIFEST_FILES {
        disk.remove(file).unwrap();
    }
    open(&mut bench, &disk);
    assert!(!bench.local().table().spans().is_empty());
    check(&disk, &bench);
}

#[test]
fn a_lost_span_is_named_and_the_rest_is_read() {
    let disk = SimDisk::new(1);
    let (mut bench, mut rng) = (Bench::new(), Rng(3));
    open(&mut bench, &disk);
    publish(&mut bench, &mut rng, 350);
    assert!(split(&mut bench) >= 2);
    let lost = bench.local().table().spans()[0];
    bench.local = None;
    let disk = disk.kill();
    disk.remove(&span_path(lost.span)).unwrap();
    let found = open(&mut bench, &disk);
    assert_eq!((found.damage[0].first, found.damage[0].last), (lost.first_sequence, lost.last_sequence));
    let local = bench.local.as_ref().unwrap();
    let mut reader = HistoryReader::from_sequence(1);
    let step = reader.step(local.table(), local.voids(), &mut Pick::All);
    assert!(matches!(step, Step::Damaged { text } if text.contains(&span_path(lost.span))));
    assert_eq!(reader.position(), lost.last_sequence + 1);
    bench.acknowledged.retain(|sequence| *sequence > lost.last_sequence);
    let rest = read(&disk, &bench, &["**"], lost.last_sequence + 1);
    assert_eq!(rest.iter().map(|message| message.0).collect::<Vec<_>>(), bench.acknowledged);
}

#[test]
fn a_segment_that_does_not_read_back_as_told_is_not_given_back() {
    let disk = SimDisk::new(1);
    let (mut bench, mut rng) = (Bench::new(), Rng(4));
    open(&mut bench, &disk);
    publish(&mut bench, &mut rng, 300);
    let mut running = bench.local().next_split().unwrap();
    let store = store_path(running.span(), 0);
    let mut flipped = false;
    let error = loop {
        match running.step() {
            Ok(SplitProgress::Working { .. }) => {}
            Ok(SplitProgress::Done(_)) => panic!("a flipped bit was not found"),
            Err(error) => break error,
        }
        // The store's file is whole when the span's is there.
        if !flipped && list_stores(&disk).unwrap().spans.contains(&running.span()) {
            disk.flip(&store, 4_200, 3).unwrap();
            flipped = true;
        }
    };
    assert!(error.to_string().contains(&store), "{error}");
    running.clean_up().unwrap();
    bench.local().split_done(Err(error));
    assert!(bench.local().next_split().is_none(), "it waits until more is sealed");
    bench.jobs();
    check(&disk, &bench);
    bench.local = None;
    check_directory(&disk);
}

#[test]
fn an_inspection_reads_every_store() {
    let disk = SimDisk::new(1);
    let (mut bench, mut rng) = (Bench::new(), Rng(7));
    open(&mut bench, &disk);
    publish(&mut bench, &mut rng, 250);
    let messages = read(&disk, &bench, &["**"], 1).len() as u64;
    assert!(split(&mut bench) >= 1);
    let span = bench.local().table().spans()[0];
    bench.local = None;
    let disk = disk.kill();
    let look = |disk: &SimDisk| {
        let mut damage = Vec::new();
        let totals = inspect(disk, &mut |finding| {
            if let Finding::Damage(found) = finding {
                damage.push(found);
            }
        });
        (totals.unwrap(), damage)
    };
    let (totals, damage) = look(&disk);
    assert!(totals.is_healthy() && totals.spans >= 1 && totals.messages == messages, "{totals:?} {damage:?}");
    for file in [span_path(span.span), store_path(span.span, 0)] {
        let bytes = disk.open(&file, arioso_disk::Access::Read).unwrap().len().unwrap();
        for offset in (0..bytes).step_by(997) {
            disk.flip(&file, offset, 1).unwrap();
            let (totals, damage) = look(&disk);
            // Zeros between parts are the only bytes that nothing depends on.
            assert!(totals.damaged > 0 || bytes - offset < 200, "{file} at {offset}");
            assert!(damage.iter().all(|found| found.file == file), "{damage:?}");
            disk.flip(&file, offset, 1).unwrap();
        }
    }
}

/// A directory in which something can be split.
fn prepared() -> (SimDisk, Bench) {
    let disk = SimDisk::new(1);
    let (mut bench, mut rng) = (Bench::new(), Rng(5));
    bench.open_with(&arc(&disk), &options(), Shown::default()).unwrap();
    publish(&mut bench, &mut rng, 130);
    bench.local = None;
    (disk, bench)
}

#[test]
fn a_crash_at_any_call_leaves_segments_or_stores_in_charge() {
    let (whole, mut bench) = prepared();
    let acknowledged = bench.acknowledged.clone();
    let mut splits = 0;
    for call in 1.. {
        let disk = whole.survivor(call);
        bench.acknowledged = acknowledged.clone();
        open(&mut bench, &disk);
        disk.crash_at_call(disk.counts().all() + call);
        bench.jobs();
        let done = split(&mut bench);
        splits += done;
        let crashed = disk.is_crashed();
        bench.local = None;
        let disk = disk.crash(call);
        open(&mut bench, &disk);
        // A footer that was being written is made again.
        bench.jobs();
        check(&disk, &bench);
        bench.local = None;
        check_directory(&disk);
        if !crashed {
            assert!(done > 0 && call > 60, "{call} calls");
            break;
        }
    }
    assert!(splits > 1, "some crashes came after the switch");
}

#[test]
fn retention_takes_spans_away_before_segments() {
    let disk = SimDisk::new(1);
    let (mut bench, mut rng) = (Bench::new(), Rng(6));
    open(&mut bench, &disk);
    publish(&mut bench, &mut rng, 350);
    assert!(split(&mut bench) >= 2);
    let second = bench.local().table().spans()[1];
    bench.local().retire_below(second.first_sequence + 1);
    bench.jobs();
    assert_eq!(bench.local().table().first_kept(), second.first_sequence);
    check(&disk, &bench);
    bench.local = None;
    check_directory(&disk);
    let disk = disk.crash(1);
    open(&mut bench, &disk);
    assert_eq!(bench.local().table().first_kept(), second.first_sequence);
    check(&disk, &bench);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn splits_crashes_and_retention_change_nothing_that_is_read(
        seed in any::<u64>(),
        acts in prop::collection::vec(0u8..6, 1..14),
    ) {
        let mut rng = Rng(seed);
        let (mut disk, mut bench) = (SimDisk::new(seed), Bench::new());
        open(&mut bench, &disk);
        for act in acts {
            match act {
                0 | 1 => publish(&mut bench, &mut rng, 60),
                2 => { split(&mut bench); }
                3 => {
                    bench.local = None;
                    disk = if rng.below(2) == 0 { disk.kill() } else { disk.crash(rng.below(100)) };
                    open(&mut bench, &disk);
                }
                4 => {
                    disk.crash_at_call(disk.counts().all() + 1 + rng.below(150));
                    split(&mut bench);
                    bench.local = None;
                    disk = disk.crash(rng.below(100));
                    open(&mut bench, &disk);
                }
                _ => {
                    let below = rng.below(bench.next_sequence);
                    bench.local().retire_below(below);
                    bench.jobs();
                }
            }
            check(&disk, &bench);
        }
        bench.local = None;
        let disk = disk.kill();
        open(&mut bench, &disk);
        bench.jobs();
        check(&disk, &bench);
        bench.local = None;
        check_directory(&disk);
    }
}
