//! Planned failures, the room, the counters and the virtual time of the simulated disk.

use std::collections::BTreeSet;

use arioso_disk::{Access, Disk, Operation, SECTOR_BYTES, SimDisk, read_small};

fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
    read_small(disk, path, 1 << 20).unwrap()
}

#[test]
fn the_nth_call_of_an_operation_fails_once() {
    let disk = SimDisk::new(1);
    disk.fail(Operation::Create, 2);
    disk.create("a").unwrap();
    let error = disk.create("b").map(drop).unwrap_err();
    assert_eq!(error.to_string(), "create b: Input/output error (os error 5)");
    assert!(!error.is_full() && !error.is_not_found());
    disk.create("b").unwrap();
    let file = disk.open("a", Access::ReadWrite).unwrap();
    file.write_at(b"1", 0).unwrap();
    disk.fail(Operation::Read, 1);
    file.read_at(&mut [0], 0).unwrap_err();
    assert_eq!(file.read_at(&mut [0], 0).unwrap(), 1);
}

#[test]
fn a_failed_write_leaves_a_part_of_it_or_nothing() {
    let parts: BTreeSet<u64> = (0..200)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            let file = disk.create("a").unwrap();
            disk.fail(Operation::Write, 1);
            let error = file.write_at(&[1; 3 * SECTOR_BYTES], 0).unwrap_err();
            assert!(!error.is_full() && error.to_string().starts_with("write a at 0: Input/output error"));
            file.len().unwrap()
        })
        .collect();
    assert_eq!(parts, BTreeSet::from([0, 1, 2].map(|sectors| sectors * SECTOR_BYTES as u64)));
}

#[test]
fn after_a_failed_sync_a_good_one_makes_only_later_writes_durable() {
    let found: BTreeSet<(u8, u8)> = (0..200)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            let file = disk.create("a").unwrap();
            file.set_len(2 * SECTOR_BYTES as u64).unwrap();
            file.sync_all().unwrap();
            disk.sync_dir("").unwrap();
            file.write_at(b"1", 0).unwrap();
            disk.fail(Operation::SyncData, 1);
            file.sync_data().unwrap_err();
            file.write_at(b"2", SECTOR_BYTES as u64).unwrap();
            file.sync_data().unwrap();
            assert_eq!(read(&disk, "a")[0], b'1', "reads go on seeing it");
            let bytes = read(&disk.crash(seed), "a");
            (bytes[0], bytes[SECTOR_BYTES])
        })
        .collect();
    assert_eq!(found, BTreeSet::from([(0, b'2'), (b'1', b'2')]));
}

#[test]
fn a_sector_written_again_after_a_failed_sync_is_durable_whole() {
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let file = disk.create("a").unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(b"12", 0).unwrap();
        disk.fail(Operation::SyncAll, 1);
        file.sync_all().unwrap_err();
        file.write_at(b"3", 2).unwrap();
        file.sync_all().unwrap();
        assert_eq!(read(&disk.crash(seed), "a"), b"123");
    }
}

#[test]
fn a_failed_directory_sync_leaves_names_in_doubt() {
    let disk = SimDisk::new(1);
    disk.create("a").unwrap();
    disk.fail(Operation::SyncDir, 1);
    disk.sync_dir("").unwrap_err();
    let lost = |seed: &u64| disk.crash(*seed).list("").unwrap().is_empty();
    assert!((0..100).any(|seed| lost(&seed)) && !(0..100).all(|seed| lost(&seed)));
}

#[test]
fn a_flipped_bit_is_read_and_survives() {
    let disk = SimDisk::new(1);
    let file = disk.create("a").unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(&[0, 0], 0).unwrap();
    file.sync_data().unwrap();
    disk.flip("a", 1, 7).unwrap();
    assert_eq!(read(&disk, "a"), [0, 128]);
    file.write_at(&[1], 0).unwrap();
    disk.flip("a", 0, 1).unwrap();
    file.sync_data().unwrap();
    assert_eq!(read(&disk.crash(1), "a"), [3, 128]);
    assert!(disk.flip("a", 2, 0).is_err() && disk.flip("none", 0, 0).is_err());
}

#[test]
fn a_full_disk_refuses_more_and_removing_makes_room() {
    let disk = SimDisk::new(1);
    disk.set_capacity(1000);
    let file = disk.create("a").unwrap();
    file.write_at(&[1; 600], 0).unwrap();
    let other = disk.create("b").unwrap();
    let error = other.write_at(&[1; 500], 0).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_eq!(other.len().unwrap(), 400, "a write takes what room there is");
    assert!(other.set_len(401).unwrap_err().is_full());
    assert_eq!(disk.space().unwrap().available, 0);
    // Overwriting needs no room.
    file.write_at(&[2; 600], 0).unwrap();
    disk.link("a", "c").unwrap();
    disk.remove("a").unwrap();
    disk.remove("c").unwrap();
    assert_eq!(disk.space().unwrap().available, 0, "an open file keeps its room");
    drop(file);
    assert_eq!(disk.space().unwrap().available, 600);
    other.set_len(100).unwrap();
    assert_eq!(disk.space().unwrap().available, 900);
    disk.create("d").unwrap();
    disk.rename("d", "b").unwrap();
    drop(other);
    assert_eq!(disk.space().unwrap().available, 1000);
}

#[test]
fn calls_and_bytes_are_counted() {
    let disk = SimDisk::new(1);
    let file = disk.create("a").unwrap();
    file.write_vectored_at(&[b"12", b"345"], 0).unwrap();
    file.read_at(&mut [0; 10], 2).unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    disk.sync_dir("").unwrap();
    disk.open("none", Access::Read).map(drop).unwrap_err();
    let counts = disk.counts();
    assert_eq!((counts.bytes_written, counts.bytes_read), (5, 3));
    assert_eq!((counts.of(Operation::Write), counts.of(Operation::Open)), (1, 1));
    assert_eq!((counts.syncs(), counts.all()), (3, 7));
    assert_eq!(disk.crash(1).counts().all(), 0);
}

#[test]
fn latency_is_added_up_in_virtual_time() {
    let disk = SimDisk::new(1);
    disk.set_latency(|operation, bytes| if operation.is_sync() { 150_000 } else { bytes });
    let file = disk.create("a").unwrap();
    file.write_at(&[0; 4096], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.virtual_ns(), 154_096);
}

#[test]
fn every_operation_has_its_own_counter_and_name() {
    let numbers: Vec<usize> = Operation::ALL.iter().map(|operation| *operation as usize).collect();
    assert_eq!(numbers, (0..Operation::ALL.len()).collect::<Vec<_>>());
    let names: BTreeSet<String> = Operation::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), Operation::ALL.len());
}
