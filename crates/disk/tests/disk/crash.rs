//! What a crash may and may not lose on the simulated disk.

use std::collections::BTreeSet;

use arioso_disk::{Access, Disk, Operation, SECTOR_BYTES, SimDisk, read_small, replace};
use proptest::prelude::*;

/// Seeds enough that an outcome of 1 in 16 fails to show once in 10^11 runs.
const SEEDS: u64 = 400;

fn read(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    match read_small(disk, path, 1 << 20) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            assert!(error.is_not_found(), "{error}");
            None
        }
    }
}

/// A disk with one durable file.
fn disk_with(path: &str, bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(1);
    let file = disk.create(path).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir("").unwrap();
    disk
}

/// What is found in a file after a crash, over many seeds.
fn outcomes(disk: &SimDisk, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..SEEDS).map(|seed| read(&disk.survivor(seed), path)).collect()
}

/// The names found in a directory after a crash, over many seeds.
fn lists(disk: &SimDisk, dir: &str) -> BTreeSet<String> {
    let list = |seed| {
        let entries = disk.survivor(seed).list(dir).unwrap();
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(" ")
    };
    (0..SEEDS).map(list).collect()
}

fn set(rows: &[&str]) -> BTreeSet<String> {
    rows.iter().map(|row| (*row).to_owned()).collect()
}

#[test]
fn synced_bytes_under_a_synced_name_survive() {
    let disk = disk_with("a", b"kept");
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([Some(b"kept".to_vec())]));
}

#[test]
fn an_unsynced_overwrite_survives_wholly_partly_or_not() {
    let old = vec![1; 3 * SECTOR_BYTES];
    let disk = disk_with("a", &old);
    let file = disk.open("a", Access::ReadWrite).unwrap();
    file.write_at(&vec![2; 3 * SECTOR_BYTES], 0).unwrap();
    let mut shapes = BTreeSet::new();
    for found in outcomes(&disk, "a") {
        let found = found.unwrap();
        let sectors: Vec<u8> = found.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
        // A sector is never torn.
        assert!(found.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        shapes.insert(sectors);
    }
    assert_eq!(shapes.len(), 8, "each subset of three sectors is seen: {shapes:?}");
}

#[test]
fn unsynced_writes_survive_in_any_order() {
    let disk = disk_with("a", &[0; 2 * SECTOR_BYTES]);
    let file = disk.open("a", Access::ReadWrite).unwrap();
    file.write_at(b"1", 0).unwrap();
    file.write_at(b"2", SECTOR_BYTES as u64).unwrap();
    let pair = |found: Option<Vec<u8>>| found.map(|bytes| (bytes[0], bytes[SECTOR_BYTES]));
    let seen: BTreeSet<_> = outcomes(&disk, "a").into_iter().filter_map(pair).collect();
    assert_eq!(seen, BTreeSet::from([(0, 0), (0, b'2'), (b'1', 0), (b'1', b'2')]));
}

#[test]
fn a_sector_that_reached_the_device_holds_every_earlier_write_to_it() {
    let disk = disk_with("a", b"..");
    let file = disk.open("a", Access::ReadWrite).unwrap();
    file.write_at(b"1", 0).unwrap();
    file.write_at(b"2", 1).unwrap();
    let seen: BTreeSet<_> = outcomes(&disk, "a").into_iter().flatten().collect();
    assert_eq!(seen, BTreeSet::from([b"..".to_vec(), b"1.".to_vec(), b"12".to_vec()]));
}

#[test]
fn a_lost_append_may_leave_its_length_as_zeros() {
    let disk = disk_with("a", b"x");
    disk.open("a", Access::ReadWrite).unwrap().write_at(b"yz", 1).unwrap();
    let seen: BTreeSet<_> = outcomes(&disk, "a").into_iter().flatten().collect();
    assert_eq!(seen, BTreeSet::from([b"x".to_vec(), b"x\0\0".to_vec(), b"xyz".to_vec()]));
}

#[test]
fn a_cut_survives_or_not() {
    let disk = disk_with("a", b"1234");
    let file = disk.open("a", Access::ReadWrite).unwrap();
    file.set_len(2).unwrap();
    let seen: BTreeSet<_> = outcomes(&disk, "a").into_iter().flatten().collect();
    assert_eq!(seen, BTreeSet::from([b"12".to_vec(), b"1234".to_vec()]));
    let disk = disk_with("a", b"1234");
    let file = disk.open("a", Access::ReadWrite).unwrap();
    file.set_len(2).unwrap();
    file.set_len(3).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([Some(b"12\0".to_vec())]));
}

#[test]
fn an_unsynced_name_survives_or_not_without_regard_to_its_bytes() {
    let disk = SimDisk::new(1);
    let file = disk.create("a").unwrap();
    file.write_at(b"1", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([None, Some(b"1".to_vec())]));
    disk.sync_dir("").unwrap();
    file.write_at(b"2", 0).unwrap();
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([Some(b"1".to_vec()), Some(b"2".to_vec())]));
}

#[test]
fn unsynced_names_survive_each_by_itself() {
    let disk = disk_with("a", b"");
    disk.create("b").unwrap();
    disk.remove("a").unwrap();
    disk.link("b", "c").unwrap();
    assert_eq!(lists(&disk, ""), set(&["", "a", "b", "c", "a b", "a c", "b c", "a b c"]));
    disk.sync_dir("").unwrap();
    assert_eq!(lists(&disk, ""), set(&["b c"]));
}

#[test]
fn a_rename_is_seen_whole_or_not_at_all() {
    let disk = disk_with("a", b"new");
    disk.create_dir("d").unwrap();
    disk.sync_dir("").unwrap();
    disk.rename("a", "d/b").unwrap();
    let seen: BTreeSet<_> = (0..SEEDS)
        .map(|seed| {
            let disk = disk.crash(seed);
            (read(&disk, "a").is_some(), read(&disk, "d/b").is_some())
        })
        .collect();
    assert_eq!(seen, BTreeSet::from([(true, false), (false, true)]));
    // Either directory's sync makes it durable; the process may have been another one.
    let disk = disk.kill();
    disk.sync_dir("d").unwrap();
    assert_eq!(lists(&disk, ""), set(&["d"]));
}

#[test]
fn changes_to_one_name_keep_their_order() {
    let disk = disk_with("log", b"old");
    disk.rename("log", "log.1").unwrap();
    let file = disk.create("log").unwrap();
    file.write_at(b"new", 0).unwrap();
    file.sync_all().unwrap();
    let seen: BTreeSet<_> = (0..SEEDS)
        .map(|seed| {
            let disk = disk.crash(seed);
            let text = |path| read(&disk, path).map(|bytes| String::from_utf8(bytes).unwrap());
            (text("log"), text("log.1"))
        })
        .collect();
    let (old, new) = (|| Some("old".to_owned()), || Some("new".to_owned()));
    assert_eq!(seen, BTreeSet::from([(old(), None), (None, old()), (new(), old())]));
}

#[test]
fn a_directory_whose_name_was_lost_takes_its_files_along() {
    let disk = SimDisk::new(1);
    disk.create_dir("d").unwrap();
    let file = disk.create("d/a").unwrap();
    disk.sync_dir("d").unwrap();
    assert_eq!(lists(&disk, ""), set(&["", "d"]));
    file.write_at(b"123", 0).unwrap();
    file.sync_all().unwrap();
    for survivor in (0..SEEDS).map(|seed| disk.survivor(seed)) {
        let space = survivor.space().unwrap();
        let lost = survivor.list("").unwrap().is_empty();
        assert_eq!(space.total - space.available, if lost { 0 } else { 3 });
    }
    disk.sync_dir("").unwrap();
    assert_eq!(lists(&disk, "d"), set(&["a"]));
}

#[test]
fn a_removed_file_comes_back_whole_or_not_at_all() {
    let disk = disk_with("a", b"1234");
    disk.create_dir("d").unwrap();
    disk.remove("a").unwrap();
    disk.sync_dir("d").unwrap();
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([None, Some(b"1234".to_vec())]));
}

#[test]
fn what_was_cut_off_does_not_come_back_after_a_failed_sync() {
    for seed in 0..SEEDS {
        let disk = SimDisk::new(seed);
        let file = disk.create("a").unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(b"123456", 0).unwrap();
        disk.fail(Operation::SyncData, 1);
        file.sync_data().unwrap_err();
        file.set_len(2).unwrap();
        file.set_len(4).unwrap();
        file.write_at(b"x", 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(read(&disk.survivor(seed), "a").unwrap(), b"x2\0\0");
    }
}

#[test]
fn a_crashed_machine_answers_nothing_and_its_survivor_everything() {
    let disk = disk_with("a", b"kept");
    let file = disk.open("a", Access::ReadWrite).unwrap();
    let lock = disk.lock("lock").unwrap();
    let survivor = disk.crash(3);
    assert!(disk.is_crashed() && !survivor.is_crashed());
    let dead = [
        file.write_at(b"x", 0),
        file.read_at(&mut [0], 0).map(drop),
        file.sync_data(),
        file.len().map(drop),
        disk.list("").map(drop),
        disk.create("b").map(drop),
        disk.lock("lock").map(drop),
    ];
    assert!(dead.iter().all(|result| result.as_ref().is_err_and(|error| error.is_crashed())));
    assert_eq!(read(&survivor, "a").unwrap(), b"kept");
    let _held = survivor.lock("lock").unwrap();
    drop(lock);
    assert!(survivor.lock("lock").is_err(), "a dead process's lock frees nothing");
}

#[test]
fn a_killed_process_leaves_what_it_wrote_and_a_crash_may_still_take_it() {
    let disk = disk_with("a", b"1");
    disk.open("a", Access::ReadWrite).unwrap().write_at(b"2", 0).unwrap();
    disk.create("b").unwrap();
    let alive = disk.kill();
    assert_eq!((read(&alive, "a").unwrap(), read(&alive, "b").unwrap()), (b"2".to_vec(), vec![]));
    assert_eq!(outcomes(&alive, "a"), BTreeSet::from([Some(b"1".to_vec()), Some(b"2".to_vec())]));
    assert!(disk.list("").unwrap_err().is_crashed());
}

#[test]
fn a_replaced_file_is_the_old_one_or_the_new_one_at_every_sync_and_call() {
    let (old, new) = (vec![b'o'; 5 * SECTOR_BYTES], vec![b'n'; 4 * SECTOR_BYTES + 9]);
    let run = |arm: &dyn Fn(&SimDisk)| {
        let disk = SimDisk::new(1);
        replace(&disk, "m", &old).unwrap();
        let before = disk.counts();
        arm(&disk);
        let done = replace(&disk, "m", &new);
        (disk, before, done)
    };
    let (disk, before, done) = run(&|_| {});
    done.unwrap();
    let after = disk.counts();
    assert_eq!(after.syncs() - before.syncs(), 2);
    let mut seen = BTreeSet::new();
    let mut check = |arm: &dyn Fn(&SimDisk)| {
        let (disk, _, done) = run(arm);
        assert!(done.unwrap_err().is_crashed());
        for seed in 0..40 {
            let survivor = disk.crash(seed);
            let found = read(&survivor, "m").unwrap();
            assert!(found == old || found == new, "neither the old nor the new file");
            seen.insert(found);
            // And the next one finds its way.
            replace(&survivor, "m", b"next").unwrap();
            assert_eq!(read(&survivor.crash(seed), "m").unwrap(), b"next");
        }
    };
    for k in before.syncs() + 1..=after.syncs() {
        check(&|disk| disk.crash_at_sync(k));
    }
    for k in before.all() + 1..=after.all() {
        check(&|disk| disk.crash_at_call(k));
    }
    assert_eq!(seen.len(), 2);
    assert!(outcomes(&run(&|_| {}).0, "m") == BTreeSet::from([Some(new.clone())]));
}

#[test]
fn the_model_sees_what_a_careless_replacement_loses() {
    // Without the sync of the new file, a crash shows a file that is neither.
    let disk = disk_with("m", &[b'o'; 2000]);
    let file = disk.create("m.tmp").unwrap();
    file.write_at(&[b'n'; 2000], 0).unwrap();
    disk.rename("m.tmp", "m").unwrap();
    disk.sync_dir("").unwrap();
    let torn = |found: &Option<Vec<u8>>| found.as_deref().is_none_or(|bytes| bytes != [b'n'; 2000]);
    assert!(outcomes(&disk, "m").iter().any(torn));
}

/// What a test does to one file.
#[derive(Debug, Clone)]
enum Step {
    Write { offset: usize, bytes: usize },
    SetLen(usize),
    Sync,
    FailedSync,
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0..4 * SECTOR_BYTES;
    prop_oneof![
        6 => (place.clone(), 1..3 * SECTOR_BYTES).prop_map(|(offset, bytes)| Step::Write { offset, bytes }),
        2 => place.prop_map(Step::SetLen),
        2 => Just(Step::Sync),
        1 => Just(Step::FailedSync),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Reads see the last write, whatever was synced or failed; after a sync with nothing in doubt, a crash
    /// leaves exactly what was read; after a crash, what was found stays.
    #[test]
    fn reads_follow_a_plain_vector_and_a_sync_makes_it_durable(steps in proptest::collection::vec(step(), 1..30)) {
        let mut disk = disk_with("a", b"");
        let mut model: Vec<u8> = Vec::new();
        let mut in_doubt = false;
        for (n, step) in steps.into_iter().enumerate() {
            let file = disk.open("a", Access::ReadWrite).unwrap();
            let fill = n as u8 + 1;
            match step {
                Step::Write { offset, bytes } => {
                    file.write_at(&vec![fill; bytes], offset as u64).unwrap();
                    model.resize(model.len().max(offset + bytes), 0);
                    model[offset..offset + bytes].fill(fill);
                }
                Step::SetLen(bytes) => {
                    file.set_len(bytes as u64).unwrap();
                    model.resize(bytes, 0);
                }
                Step::Sync => {
                    if in_doubt {
                        // A sector that is written again is in doubt no more, whatever byte of it.
                        for place in (0..model.len()).step_by(SECTOR_BYTES) {
                            file.write_at(&model[place..=place], place as u64).unwrap();
                        }
                    }
                    file.sync_data().unwrap();
                    in_doubt = false;
                    prop_assert_eq!(read(&disk.survivor(n as u64), "a").unwrap(), model.clone());
                }
                Step::FailedSync => {
                    disk.fail(Operation::SyncData, 1);
                    file.sync_data().unwrap_err();
                    in_doubt = true;
                }
                Step::Crash(seed) => {
                    let twin = read(&disk.survivor(seed), "a");
                    disk = disk.crash(seed);
                    model = read(&disk, "a").unwrap();
                    prop_assert_eq!(Some(&model), twin.as_ref(), "a seed repeats");
                    in_doubt = false;
                    // Nothing is left in doubt: another crash changes nothing.
                    disk = disk.crash(!seed);
                }
            }
            prop_assert_eq!(read(&disk, "a").unwrap(), model.clone());
        }
    }
}
