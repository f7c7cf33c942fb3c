//! Tests of the local journal over a simulated disk.

use std::sync::Arc;

use arioso_disk::{Disk, Operation, SimDisk};
use arioso_store::batch::PAGE_BYTES;
use arioso_store::inspect::{Finding, State};
use arioso_store::segment::{SegmentReader, segment_path};
use arioso_store::voids::Voids;

use super::testing::*;
use super::*;

fn sim(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn payload(byte: u8, bytes: usize) -> Vec<u8> {
    vec![byte; bytes]
}

/// Compares what a journal holds with what was given and acknowledged.
fn check(bench: &mut Bench, disk: &dyn Disk, shown: &Shown, found: &Recovered, why: &str) {
    assert_eq!(found.damage, [], "{why}: a crash damages nothing");
    let read = read_all(disk, bench.local());
    assert_eq!(read.damage, [], "{why}");
    assert!(read.messages.is_sorted_by(|a, b| a.0 < b.0), "{why}: out of order or twice");
    let mut topics = std::collections::BTreeMap::new();
    for (sequence, topic, bytes) in &read.messages {
        let given = bench.given.get(sequence).unwrap_or_else(|| panic!("{why}: {sequence} was never given"));
        assert_eq!((given.topic, &given.bytes), (*topic, bytes), "{why}: {sequence} has other bytes");
        let row = topics.entry(topic_name(*topic)).or_insert((*topic, 0, 0, 0));
        *row = (*topic, row.1 + 1, row.2 + bytes.len() as u64, *sequence);
    }
    let kept = |sequence: &u64| read.messages.binary_search_by_key(sequence, |message| message.0).is_ok();
    let lost: Vec<_> = bench.acknowledged.iter().filter(|sequence| !kept(sequence)).collect();
    assert!(lost.is_empty(), "{why}: acknowledged and lost: {lost:?}");
    assert_eq!(shown.topics, topics, "{why}: topics do not agree with the messages");
    let newest = read.messages.last().map_or(0, |message| bench.given[&message.0].publisher_sequence);
    assert_eq!(shown.publishers.get(&PUBLISHER).map_or(0, |state| state.last), newest, "{why}");
    // What is not kept was never acknowledged and is not held against the next life.
    let all: Vec<u64> = bench.given.keys().copied().collect();
    for sequence in all.iter().filter(|sequence| !kept(sequence)) {
        bench.given.remove(sequence);
    }
}

/// A life of random work; ends early when the disk fails.
fn work(bench: &mut Bench, seed: u64, steps: u64) -> Result<(), Error> {
    let mut rng = Rng(seed);
    for _ in 0..steps {
        let count = 1 + rng.below(4);
        let large = rng.below(6) == 0;
        let messages: Vec<_> = (0..count)
            .map(|_| {
                let bytes = if large { rng.below(9_000) } else { rng.below(700) };
                (1 + rng.below(12) as u32, payload(rng.below(256) as u8, bytes as usize))
            })
            .collect();
        bench.publish(&messages);
        if rng.below(3) > 0 {
            bench.write()?;
        }
        if rng.below(4) == 0 {
            bench.jobs();
        }
        if rng.below(5) == 0 && bench.local().wants_empty_batch() {
            bench.empty_batch();
        }
    }
    bench.write().map(drop)
}

#[test]
fn a_new_directory_is_made_once_and_found_again() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    let (found, _) = bench.open(&sim(&disk)).unwrap();
    assert!(found.made && found.begun);
    assert_eq!((found.next_sequence.0, found.next_batch, bench.local().epoch()), (1, 2, 1));
    bench.store(&[(1, payload(1, 10)), (2, payload(2, 5_000))]);
    bench.local = None;
    let (found, shown) = bench.open(&sim(&disk)).unwrap();
    assert!(!found.made && !found.clean);
    assert_eq!(bench.local().epoch(), 2);
    check(&mut bench, &disk, &shown, &found, "opened again");
}

#[test]
fn a_directory_without_a_stream_is_refused_unless_one_is_to_be_made() {
    let disk = SimDisk::new(1);
    let options = LocalOptions { new_stream: None, ..options() };
    let error = Bench::new().open_with(&sim(&disk), &options, Shown::default()).err().unwrap();
    assert!(matches!(error, Error::NoStream { .. }), "{error}");
}

#[test]
fn segments_without_an_identity_are_refused_naming_the_file() {
    let disk = SimDisk::new(1);
    Bench::new().open(&sim(&disk)).unwrap();
    disk.remove("stream").unwrap();
    let error = Bench::new().open(&sim(&disk)).err().unwrap();
    assert!(error.to_string().contains("stream is missing"), "{error}");
}

#[test]
fn a_second_process_is_refused() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    let error = Bench::new().open(&sim(&disk)).err().unwrap();
    assert!(error.to_string().contains("lock"), "{error}");
}

#[test]
fn numbering_goes_on_after_a_clean_stop_and_above_the_reserve_after_an_unclean_one() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    bench.store(&[(1, payload(1, 10))]);
    let (next, timestamp) = (bench.next_sequence, bench.timestamp);
    bench.local().close(next, timestamp).unwrap();
    let (found, _) = bench.open(&sim(&disk)).unwrap();
    assert!(found.clean);
    assert_eq!(found.next_sequence.0, next);
    // The mark of the clean stop is gone before the first number.
    let (found, _) = bench.open(&sim(&disk.crash(3))).unwrap();
    assert!(!found.clean);
    assert!(found.next_sequence.0 >= next + 1_000, "{found:?}");
}

#[test]
fn a_crash_at_any_sync_loses_nothing_acknowledged_and_uses_no_number_again() {
    let mut k = 1;
    loop {
        let (disk, mut bench) = (SimDisk::new(k), Bench::new());
        disk.crash_at_sync(k);
        let lived = bench.open(&sim(&disk)).and_then(|_| work(&mut bench, k, 60));
        let mut survivor = disk.crash(k * 31);
        for life in 0..3 {
            let why = format!("crash at sync {k}, life {life}");
            let (found, shown) = bench.open(&sim(&survivor)).unwrap_or_else(|error| panic!("{why}: {error}"));
            check(&mut bench, &survivor, &shown, &found, &why);
            survivor.crash_at_sync(survivor.counts().syncs() + 1 + k % 37);
            let _ = work(&mut bench, k + life, 25);
            // A kill keeps what was written, a crash loses what was not synced.
            survivor = if (k + life) % 3 == 0 { survivor.kill() } else { survivor.crash(k + life) };
        }
        if lived.is_ok() {
            break;
        }
        k += 1;
    }
    assert!(k > 60, "the workload syncs often: {k}");
}

#[test]
fn a_segment_is_sealed_recycled_and_covered_by_a_checkpoint() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    for round in 0..160u32 {
        bench.store(&[(1 + round % 12, payload(round as u8, 3_000))]);
    }
    let before = bench.local().table().iter().len();
    assert!(before > 8);
    let below = bench.local().table().iter().nth(4).unwrap().last_sequence;
    bench.local().retire_below(below);
    let notices = bench.jobs();
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Retired { .. })), "{notices:?}");
    let first = bench.local().table().first_kept();
    assert!(first > 1 && bench.local().table().iter().len() < before);
    for round in 0..60u32 {
        bench.store(&[(1 + round % 12, payload(round as u8, 3_000))]);
    }
    assert!(disk.list("journal").unwrap().iter().filter(|entry| entry.name.starts_with("free-")).count() < 2);
    let before_stop: Vec<_> = read_all(&disk, bench.local()).messages;
    let (found, shown) = bench.open(&sim(&disk.kill())).unwrap();
    assert_eq!(found.damage, []);
    assert_eq!(read_all(&disk.kill(), bench.local()).messages, before_stop);
    // The base still tells what lay in retired segments.
    assert_eq!(shown.topics.values().map(|row| row.1).sum::<u64>(), 220);
    assert!(found.scanned_bytes <= 2 * (64 << 10), "only the unsealed tail is scanned: {}", found.scanned_bytes);
}

#[test]
fn a_full_disk_takes_nothing_it_can_not_keep_and_goes_on_when_there_is_room() {
    let disk = SimDisk::new(1);
    disk.set_capacity(400 << 10);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    let mut stored = 0;
    let refused = loop {
        if !bench.publish(&[(1, payload(7, 2_000))]) {
            bench.jobs();
            if !bench.publish(&[(1, payload(7, 2_000))]) {
                break bench.local().room();
            }
        }
        bench.write().unwrap();
        stored += 1;
    };
    assert!(matches!(refused, Room::DiskFull { .. }), "{refused:?}");
    assert!(stored > 50);
    disk.set_capacity(1 << 20);
    bench.local().retry();
    bench.jobs();
    bench.store(&[(2, payload(8, 2_000))]);
    let (found, shown) = bench.open(&sim(&disk.kill())).unwrap();
    check(&mut bench, &disk.kill(), &shown, &found, "after a full disk");
}

#[test]
fn a_segment_that_can_not_be_prepared_is_tried_again() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    disk.fail(Operation::SyncAll, 1);
    let notices = bench.jobs();
    assert!(matches!(notices[..], [Notice::Failed { what: "prepare", segment: 2, .. }]), "{notices:?}");
    while bench.publish(&[(1, payload(7, 2_000))]) {
        bench.write().unwrap();
    }
    assert!(!matches!(bench.local().room(), Room::DiskFull { .. }));
    bench.local().retry();
    bench.jobs();
    bench.store(&[(2, payload(8, 2_000))]);
    let (found, shown) = bench.open(&sim(&disk.kill())).unwrap();
    check(&mut bench, &disk.kill(), &shown, &found, "after a failed preparation");
}

#[test]
fn a_directory_on_a_full_disk_opens_for_reading() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    bench.store(&[(1, payload(7, 2_000))]);
    let disk = disk.kill();
    for entry in disk.list("journal").unwrap() {
        if entry.name != "0000000000000001.seg" {
            disk.remove(&format!("journal/{}", entry.name)).unwrap();
        }
    }
    disk.set_capacity(80 << 10);
    let (found, shown) = bench.open(&sim(&disk)).unwrap();
    assert!(!found.begun);
    assert!(matches!(bench.local().room(), Room::DiskFull { .. }));
    check(&mut bench, &disk, &shown, &found, "on a full disk");
    disk.set_capacity(1 << 20);
    bench.local().retry();
    bench.jobs();
    bench.empty_batch();
    bench.write().unwrap();
    bench.store(&[(1, payload(9, 10))]);
    let (found, shown) = bench.open(&sim(&disk.kill())).unwrap();
    check(&mut bench, &disk.kill(), &shown, &found, "when there was room");
}

#[test]
fn a_batch_larger_than_a_segment_gets_one_of_its_own() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    let large = [(3, payload(1, 300_000))];
    assert!(!bench.publish(&large), "no segment has so much room yet");
    bench.jobs();
    bench.store(&large);
    bench.store(&[(4, payload(2, 100))]);
    let (found, shown) = bench.open(&sim(&disk.kill())).unwrap();
    check(&mut bench, &disk.kill(), &shown, &found, "a large batch");
}

#[test]
fn a_failed_sync_is_final_and_names_the_file() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    bench.store(&[(1, payload(1, 10))]);
    assert!(bench.publish(&[(1, payload(2, 10))]));
    disk.fail(Operation::SyncData, 1);
    let error = bench.write().unwrap_err();
    assert!(error.to_string().contains("0000000000000001.seg"), "{error}");
    assert_eq!(bench.local().room(), Room::Busy);
    assert!(bench.local().take_write().is_none() && bench.local().next_job().is_none());
    let next = bench.next_sequence;
    bench.local().close(next, 0).unwrap();
    // The next life reads the pages that look written, and writes them again before it counts on them.
    let disk = disk.kill();
    let (found, _) = bench.open(&sim(&disk)).unwrap();
    assert!(!found.clean, "a lost journal marks no clean stop");
    let kept = read_all(&disk, bench.local()).messages.len();
    let disk = disk.crash(9);
    bench.open(&sim(&disk)).unwrap();
    assert_eq!(read_all(&disk, bench.local()).messages.len(), kept, "what was read once is kept");
}

#[test]
fn a_torn_tail_is_named_and_is_no_damage() {
    for (what, flip_at) in [("header", 20), ("records", 300)] {
        let disk = SimDisk::new(1);
        let mut bench = Bench::new();
        bench.open(&sim(&disk)).unwrap();
        bench.store(&[(1, payload(1, 10))]);
        bench.store(&[(1, payload(2, 1_000))]);
        let newest = bench.local().table().last().unwrap().batches_end - PAGE_BYTES as u64;
        let disk = disk.kill();
        disk.flip(&segment_path(1), newest + flip_at, 3).unwrap();
        bench.local = None;
        let (found, shown) = bench.open(&sim(&disk)).unwrap();
        assert_eq!(found.damage, [], "{what}");
        let torn = found.torn.clone().unwrap();
        assert_eq!((torn.offset, torn.bytes), (newest, PAGE_BYTES as u64), "{what}");
        assert_eq!(shown.topics["area/1/item-1"].1, 1, "{what}");
        // What lies behind the end is not part of the stream, whatever happens next.
        bench.given.retain(|_, message| message.bytes.len() < 1_000);
        bench.acknowledged.pop();
        bench.store(&[(2, payload(3, 10))]);
        let disk = disk.kill();
        let (found, shown) = bench.open(&sim(&disk)).unwrap();
        assert_eq!(found.torn, None);
        check(&mut bench, &disk, &shown, &found, what);
    }
}

#[test]
fn a_flipped_bit_before_a_synced_batch_is_damage_named_and_contained() {
    for sealed in [false, true] {
        let disk = SimDisk::new(1);
        let mut bench = Bench::new();
        bench.open(&sim(&disk)).unwrap();
        let rounds = if sealed { 30 } else { 10 };
        for round in 0..rounds {
            bench.store(&[(1 + round % 3, payload(round as u8, 400))]);
        }
        let at = 3 * PAGE_BYTES as u64;
        disk.flip(&segment_path(1), at + 200, 1).unwrap();
        assert_eq!(bench.local().table().get(1).unwrap().trailer.is_some(), sealed);
        let read_before = read_all(&disk, bench.local());
        assert_eq!(read_before.damage.len(), 1, "sealed {sealed}");
        let damage = &read_before.damage[0];
        assert_eq!((damage.offset, damage.file.as_str()), (at, "journal/0000000000000001.seg"));
        let lost: Vec<u64> = (damage.first..=damage.last).collect();
        assert_eq!(lost.len(), 1, "one message lay in the batch");
        assert_eq!(read_before.messages.len(), rounds as usize - 1);
        let disk = disk.kill();
        let (found, _) = bench.open(&sim(&disk)).unwrap();
        if !sealed {
            assert_eq!(found.damage.len(), 1);
            assert_eq!((found.damage[0].first, found.damage[0].last), (lost[0], lost[0]));
        }
        assert_eq!(read_all(&disk, bench.local()).messages.len(), rounds as usize - 1);
    }
}

#[test]
fn a_missing_segment_is_named_with_its_range_and_the_rest_is_read() {
    for sealed in [false, true] {
        let disk = SimDisk::new(1);
        let mut bench = Bench::new();
        bench.open(&sim(&disk)).unwrap();
        for round in 0..60u32 {
            assert!(bench.publish(&[(1 + round % 3, payload(round as u8, 4_000))]));
            bench.write().unwrap();
            while let Some(job) = bench.local().prepare_job() {
                let done = Job::Prepare(job).run();
                bench.local().done(done);
            }
            if sealed {
                bench.jobs();
            }
        }
        let (first, last) = bench.local().table().get(3).map(|info| (info.first_sequence, info.last_sequence)).unwrap();
        let disk = disk.kill();
        disk.remove(&segment_path(3)).unwrap();
        let options = LocalOptions { checkpoint_segments: 1_000, ..options() };
        let (found, _) = bench.open_with(&sim(&disk), &options, Shown::default()).unwrap();
        assert_eq!(found.damage.len(), 1, "sealed {sealed}: {:?}", found.damage);
        let damage = &found.damage[0];
        assert_eq!((damage.file.as_str(), damage.first, damage.last), ("journal/0000000000000003.seg", first, last));
        let read = read_all(&disk, bench.local());
        assert_eq!(read.damage, found.damage);
        assert_eq!(read.messages.len() as u64, 60 - (last - first + 1));
    }
}

#[test]
fn a_damaged_header_is_made_up_from_the_first_batch() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    for round in 0..40u32 {
        assert!(bench.publish(&[(1 + round % 3, payload(round as u8, 4_000))]));
        bench.write().unwrap();
        while let Some(job) = bench.local().prepare_job() {
            let done = Job::Prepare(job).run();
            bench.local().done(done);
        }
    }
    let disk = disk.kill();
    for segment in [1, 2, bench.local().table().last().unwrap().number] {
        disk.flip(&segment_path(segment), 33, 1).unwrap();
    }
    let (found, shown) = bench.open(&sim(&disk)).unwrap();
    assert_eq!(found.repairs.len(), 3, "{:?}", found.repairs);
    check(&mut bench, &disk, &shown, &found, "damaged headers");
}

#[test]
fn damaged_footers_bases_and_manifests_are_made_again() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    for round in 0..120u32 {
        bench.store(&[(1 + round % 12, payload(round as u8, 3_000))]);
    }
    let disk = disk.kill();
    let bases = disk.list("checkpoint").unwrap();
    assert_eq!(bases.len(), 2);
    disk.flip(&format!("checkpoint/{}", bases[1].name), 4_100, 2).unwrap();
    disk.flip("manifest.b", 20, 2).unwrap();
    let infos: Vec<_> = bench.local().table().iter().filter_map(|info| info.trailer.clone()).collect();
    let (early, late) = (&infos[0], infos.last().unwrap());
    disk.flip(&segment_path(late.segment), late.directory.offset + 5, 1).unwrap();
    disk.flip(&segment_path(early.segment), disk_bytes(&disk, early.segment) - 4_000, 1).unwrap();
    let (found, shown) = bench.open(&sim(&disk)).unwrap();
    assert!(found.repairs.len() >= 3, "{:?}", found.repairs);
    check(&mut bench, &disk, &shown, &found, "repaired");
    let notices = bench.jobs();
    let sealed = |number| notices.iter().any(|n| matches!(n, Notice::Sealed { segment, .. } if *segment == number));
    assert!(sealed(early.segment) && sealed(late.segment), "{notices:?}");
    let (found, shown) = bench.open(&sim(&disk.kill())).unwrap();
    assert_eq!(found.repairs, []);
    check(&mut bench, &disk.kill(), &shown, &found, "repaired and opened again");
}

fn disk_bytes(disk: &SimDisk, segment: u64) -> u64 {
    let name = segment_path(segment);
    disk.list("journal").unwrap().iter().find(|entry| name.ends_with(&entry.name)).unwrap().bytes
}

#[test]
fn zero_length_and_foreign_files_stop_nothing() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    bench.store(&[(1, payload(1, 10))]);
    let disk = disk.kill();
    for name in ["0000000000000002.seg", "0000000000000009.seg"] {
        let _ = disk.remove(&format!("journal/{name}"));
        disk.create(&format!("journal/{name}")).unwrap();
    }
    disk.create("journal/notes.txt").unwrap();
    disk.create(&arioso_disk::temporary("journal/0000000000000004.seg")).unwrap();
    disk.create("checkpoint/0000000000000001.base").unwrap();
    disk.remove("epoch").unwrap();
    disk.create("epoch").unwrap();
    let (found, shown) = bench.open(&sim(&disk)).unwrap();
    assert_eq!(found.unknown_files, ["journal/notes.txt"]);
    check(&mut bench, &disk, &shown, &found, "odd files");
    bench.store(&[(1, payload(2, 10))]);
    let names: Vec<_> = disk.list("journal").unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(!names.contains(&"0000000000000009.seg".to_owned()), "{names:?}");
}

#[test]
fn void_records_take_messages_out_of_reading_and_counting() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    bench.store(&[(1, payload(1, 10)), (2, payload(2, 10)), (1, payload(3, 10))]);
    let mut record = vec![1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    record.extend_from_slice(&2u64.to_le_bytes());
    record.extend_from_slice(&3u64.to_le_bytes());
    bench.control(&record, arioso_stream::record::FLAG_VOID);
    bench.local().add_voids(2, 3);
    bench.write().unwrap();
    let disk = disk.kill();
    bench.given.clear();
    let (found, shown) = bench.open(&sim(&disk)).unwrap();
    assert_eq!(found.voids.ranges(), [(2, 3)]);
    assert_eq!(shown.topics["area/1/item-1"], (1, 1, 48, 1));
    assert_eq!(shown.topics["area/2/item-2"], (2, 0, 0, 0));
    let runs: Vec<_> = shown.publishers[&PUBLISHER].runs.iter().map(|run| (run.first, run.messages)).collect();
    assert_eq!((shown.publishers[&PUBLISHER].last, runs), (3, vec![(1, 1)]));
    let read: Vec<_> = read_all(&disk, bench.local()).messages.iter().map(|message| message.0).collect();
    assert_eq!(read, [1]);
    // Sealed, checkpointed and opened again: the same, and the name of the empty topic is kept.
    for round in 0..120u32 {
        bench.store(&[(1, payload(round as u8, 3_000))]);
    }
    let (found, shown) = bench.open(&sim(&disk.kill())).unwrap();
    assert_eq!(found.voids.ranges(), [(2, 3)]);
    assert_eq!(shown.topics["area/2/item-2"], (2, 0, 0, 0));
    assert_eq!(shown.topics["area/1/item-1"].1, 121);
}

#[test]
fn what_the_replay_makes_void_is_left_out_before_it_is_told() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    bench.store(&[(1, payload(1, 10)), (2, payload(2, 10))]);
    let shown = Shown { voids: vec![(2, 2)], ..Shown::default() };
    let (found, shown) = bench.open_with(&sim(&disk.kill()), &options(), shown).unwrap();
    assert_eq!(found.voids.ranges(), [(2, 2)]);
    assert_eq!(shown.topics["area/2/item-2"].1, 0);
    assert_eq!((shown.number_before, shown.batches), (0, vec![1, 2]));
}

#[test]
fn a_copy_of_a_batch_inside_a_payload_is_never_taken_for_one() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    bench.store(&[(1, payload(1, 10))]);
    // The payload is the file's own first pages, at page boundaries of the file.
    let file = disk.open(&segment_path(1), arioso_disk::Access::Read).unwrap();
    let mut copy = vec![0; 5 * PAGE_BYTES];
    file.read_exact_at(&mut copy, 0).unwrap();
    let mut shifted = vec![0; PAGE_BYTES - 128 - 40 - 32];
    shifted.extend_from_slice(&copy[PAGE_BYTES..]);
    bench.store(&[(2, shifted)]);
    bench.store(&[(1, payload(3, 10))]);
    let at = 3 * PAGE_BYTES as u64;
    let disk = disk.kill();
    let (found, shown) = bench.open(&sim(&disk)).unwrap();
    check(&mut bench, &disk, &shown, &found, "a copy inside");
    // Even when the batch that holds the copies is damaged.
    disk.flip(&segment_path(1), at + 130, 0).unwrap();
    let disk = disk.kill();
    let read = read_all(&disk, bench.local());
    assert_eq!(read.messages.len(), 2);
    assert_eq!(read.damage.len(), 1);
}

#[test]
fn a_reader_resumes_anywhere_selects_and_skips_segments_without_a_wanted_topic() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    for round in 0..200u32 {
        let topic = if round < 60 { 1 } else { 2 + round % 3 };
        bench.store(&[(topic, payload(round as u8, 2_500)), (topic, payload(round as u8, 20))]);
    }
    let all = read_all(&disk, bench.local());
    assert_eq!(all.messages.len(), 400);
    let local = bench.local();
    for from in [1, 2, 3, 57, 58, 120, 121, 399, 400, 401, 5_000] {
        let reader = SegmentReader::from_sequence(from);
        let read = read(&disk, local.table(), &Voids::default(), reader, &mut Pick::All);
        let want: Vec<_> = all.messages.iter().filter(|message| message.0 >= from).cloned().collect();
        assert_eq!(read.messages, want, "from {from}");
        let topics = vec![1, 3];
        let reader = SegmentReader::from_sequence(from);
        let read =
            super::testing::read(&disk, local.table(), &Voids::default(), reader, &mut Pick::Topics(topics.clone()));
        let want: Vec<_> = want.into_iter().filter(|message| topics.contains(&message.1)).collect();
        assert_eq!(read.messages, want, "from {from}");
    }
    let reader = SegmentReader::from_sequence(1);
    let only = read(&disk, local.table(), &Voids::default(), reader, &mut Pick::Topics(vec![1]));
    assert!(only.skipped * 2 > local.table().iter().len(), "most segments were skipped: {}", only.skipped);
    // By time: the batches are 10 apart.
    let timestamps: Vec<i64> = all.messages.iter().map(|message| timestamp(&message.2)).collect();
    for time in [0, timestamps[0], timestamps[9] - 3, timestamps[150], timestamps[399], timestamps[399] + 1] {
        let reader = SegmentReader::from_time(time, 1);
        let read = read(&disk, local.table(), &Voids::default(), reader, &mut Pick::All);
        let want = timestamps.iter().filter(|timestamp| **timestamp >= time).count();
        assert_eq!(read.messages.len(), want, "from time {time}");
    }
}

fn timestamp(record: &[u8]) -> i64 {
    i64::from_le_bytes(record[16..24].try_into().unwrap())
}

#[test]
fn cursors_given_to_a_seal_are_shown_again() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    let mut body = Vec::new();
    body.extend_from_slice(&3u32.to_le_bytes());
    body.extend_from_slice(&1u32.to_le_bytes());
    body.extend_from_slice(&[0; 16]);
    body.extend_from_slice(&1u16.to_le_bytes());
    body.extend_from_slice(b"c");
    body.extend_from_slice(&0u32.to_le_bytes());
    for round in 0..120u32 {
        assert!(bench.publish(&[(1 + round % 12, payload(round as u8, 3_000))]));
        bench.write().unwrap();
        while let Some(mut job) = bench.local().next_job() {
            if let Job::Seal(seal) = &mut job
                && seal.segment() == 2
            {
                let mut cursors = arioso_store::cursors::Cursors::default();
                assert!(cursors.add(&body));
                seal.set_cursors(cursors.encode());
            }
            let done = job.run();
            bench.local().done(done);
        }
    }
    let (_, shown) = bench.open(&sim(&disk.kill())).unwrap();
    assert_eq!(shown.cursors, [body]);
}

#[test]
fn a_newer_incarnation_ends_the_scan_of_a_recycled_file() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    for round in 0..200u32 {
        bench.store(&[(1 + round % 3, payload(round as u8, 3_000))]);
        if round % 40 == 39 {
            let below = bench.next_sequence;
            bench.local().retire_below(below);
            bench.jobs();
        }
    }
    let recycled = bench.local().table().iter().last().unwrap().number;
    let file = disk.open(&segment_path(recycled), arioso_disk::Access::Read).unwrap();
    let header = SegmentHeader::load(&*file, STREAM, recycled).unwrap().unwrap();
    assert!(header.recycled, "the file held other batches before");
    bench.acknowledged.retain(|sequence| *sequence >= bench.local.as_ref().unwrap().table().first_kept());
    let first_kept = bench.local().table().first_kept();
    let disk = disk.crash(5);
    let (found, _) = bench.open(&sim(&disk)).unwrap();
    assert_eq!((found.damage.len(), found.torn), (0, None));
    let read = read_all(&disk, bench.local());
    assert!(read.messages.iter().all(|message| message.0 >= first_kept));
    assert_eq!(read.messages.len(), bench.acknowledged.len());
}

#[test]
fn an_inspection_lists_everything_and_names_what_is_wrong() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new();
    bench.open(&sim(&disk)).unwrap();
    for round in 0..120u32 {
        bench.store(&[(1 + round % 12, payload(round as u8, 3_000))]);
    }
    let disk = disk.kill();
    let look = |disk: &SimDisk| {
        let mut findings = Vec::new();
        let totals = arioso_store::inspect::inspect(disk, &mut |finding| findings.push(finding));
        (totals, findings)
    };
    let (totals, findings) = look(&disk);
    let totals = totals.unwrap();
    assert!(totals.is_healthy() && totals.repairable == 0, "{findings:?}");
    assert_eq!(totals.messages, 120);
    let rows = findings.iter().filter_map(|finding| match finding {
        Finding::Segment(row) => Some(row),
        _ => None,
    });
    let sealed = rows.clone().find(|row| row.state == State::Sealed).unwrap();
    assert_eq!(rows.map(|row| row.messages).sum::<u64>(), 120);
    // Every byte that counts is under a checksum: a flipped bit anywhere is told.
    let told = |disk: &SimDisk| {
        let (totals, findings) = look(disk);
        let torn = findings.iter().any(|finding| matches!(finding, Finding::Torn(_)));
        totals.is_err() || torn || totals.is_ok_and(|totals| !totals.is_healthy() || totals.repairable > 0)
    };
    assert!(!told(&disk));
    let number = sealed.number.unwrap();
    let trailer = bench.local().table().get(number).unwrap().trailer.clone().unwrap();
    let mut places = vec![
        (sealed.file.clone(), 40),
        (sealed.file.clone(), PAGE_BYTES as u64 + 30),
        (sealed.file.clone(), 2 * PAGE_BYTES as u64 + 300),
        (sealed.file.clone(), sealed.file_bytes - PAGE_BYTES as u64 + 40),
        ("epoch".to_owned(), 20),
        ("stream".to_owned(), 20),
        ("manifest.a".to_owned(), 20),
    ];
    for part in [trailer.directory, trailer.publishers, trailer.voids] {
        places.push((sealed.file.clone(), part.offset + part.bytes / 2));
    }
    for (file, at) in places {
        disk.flip(&file, at, 2).unwrap();
        assert!(told(&disk), "a flipped bit in {file} at {at} was not told");
        disk.flip(&file, at, 2).unwrap();
    }
    assert!(!told(&disk));
}

#[test]
#[ignore = "a measurement; run with --release --ignored --nocapture"]
fn measure_writing_opening_and_reading() {
    use std::time::Instant;
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(arioso_disk::RealDisk::open(dir.path()).unwrap());
    let options = LocalOptions { segment_bytes: 64 << 20, ..options() };
    let mut bench = Bench::new();
    bench.open_with(&disk, &options, Shown::default()).unwrap();
    let batch: Vec<_> = (0..64).map(|index| (1 + index % 50, payload(3, 168))).collect();
    let (batches, mut waited) = (5_000, std::time::Duration::ZERO);
    // The bare loop: the same bytes to a file that was written before.
    let raw = disk.create("raw").unwrap();
    for at in 0..64 {
        raw.write_at(&vec![0; 1 << 20], at << 20).unwrap();
    }
    raw.sync_all().unwrap();
    let page = vec![7; 16 << 10];
    let from = Instant::now();
    for at in 0..batches {
        raw.write_at(&page, (at % 4_096) << 14).unwrap();
        raw.sync_data().unwrap();
    }
    println!("bare write and sync of 16 KiB: {:.0} us", from.elapsed().as_secs_f64() * 1e6 / batches as f64);
    for _ in 0..batches {
        bench.reserved_to = u64::MAX;
        let from = Instant::now();
        while !bench.publish(&batch) {
            bench.jobs();
        }
        bench.write().unwrap();
        waited += from.elapsed();
        if matches!(bench.local().behind, Behind::Wanted) {
            bench.jobs();
        }
        bench.given.clear();
    }
    let bytes = batches as f64 * 64.0 * 200.0;
    println!("write: {batches} batches of 64 x 200 B, {:.0} us a batch", waited.as_secs_f64() * 1e6 / batches as f64);
    let local = bench.local();
    let segment = local.table().iter().next().unwrap().number;
    let from = Instant::now();
    let file = disk.open(&segment_path(segment), arioso_disk::Access::Read).unwrap();
    let info = local.table().get(segment).unwrap();
    let trailer = info.trailer.clone().unwrap();
    let header = SegmentHeader::load(&*file, STREAM, segment).unwrap().unwrap();
    let known = KnownEnd::of_trailer(&trailer);
    let mut scan = arioso_store::segment::Scan::new(file, &header, Some(known)).unwrap();
    while !matches!(scan.step().unwrap(), arioso_store::segment::Scanned::End(_)) {}
    let rate = trailer.batches_end as f64 / from.elapsed().as_secs_f64() / 1e9;
    println!("scan of a segment: {rate:.2} GB/s");
    for (what, mut pick) in [("everything", Pick::All), ("1 of 50 topics", Pick::Topics(vec![7]))] {
        let from = Instant::now();
        let (mut reader, mut got, table) = (SegmentReader::from_sequence(1), 0, local.table());
        loop {
            use arioso_store::segment::{Step, read_request};
            match reader.step(table, &Voids::default(), &mut pick) {
                Step::Need(request) => {
                    let file = disk.open(&segment_path(request.segment), arioso_disk::Access::Read).unwrap();
                    reader.supply(read_request(&*file, &request).unwrap());
                }
                Step::Choose { .. } => reader.chosen(true),
                Step::Slices(slices) => got += slices.bytes,
                Step::End { .. } => break,
                step => panic!("{step:?}"),
            }
        }
        println!("read {what}: {:.2} GB/s of records, {got} bytes", bytes / from.elapsed().as_secs_f64() / 1e9);
    }
    let from = Instant::now();
    let (found, _) = bench.open_with(&disk, &options, Shown::default()).unwrap();
    println!("open: {} bytes scanned, {:.0} ms", found.scanned_bytes, from.elapsed().as_secs_f64() * 1e3);
}
