//! What an inspection says of directories that the local journal wrote, on the simulated disk.

use std::sync::Arc;

use arioso_disk::{Disk, SimDisk};
use arioso_store::inspect::{Finding, State, Totals, inspect};
use arioso_store::segment::segment_path;

use super::testing::*;

fn sim(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn look(disk: &SimDisk) -> (Totals, Vec<Finding>) {
    let before = disk.counts().syncs();
    let mut found = Vec::new();
    let totals = inspect(disk, &mut |finding| found.push(finding)).unwrap();
    assert_eq!(disk.counts().syncs(), before, "an inspection writes nothing");
    (totals, found)
}

/// A life that seals some segments, writes checkpoints, gives segments back and stops cleanly; the messages kept.
fn lived(disk: &SimDisk) -> Vec<(u64, u32, Vec<u8>)> {
    let mut bench = Bench::new();
    bench.open(&sim(disk)).unwrap();
    for round in 0..160u32 {
        bench.store(&[(1 + round % 12, vec![round as u8; 3_000])]);
    }
    let below = bench.local().table().iter().nth(2).unwrap().last_sequence;
    bench.local().retire_below(below);
    bench.jobs();
    for round in 0..30u32 {
        bench.store(&[(1 + round % 12, vec![round as u8; 500])]);
    }
    let messages = read_all(disk, bench.local()).messages;
    let (next, timestamp) = (bench.next_sequence, bench.timestamp);
    bench.local().close(next, timestamp).unwrap();
    messages
}

#[test]
fn a_healthy_directory_is_told_segment_by_segment_and_adds_up() {
    let disk = SimDisk::new(1);
    let messages = lived(&disk);
    let (totals, found) = look(&disk.kill());
    assert!(totals.is_healthy() && totals.clean, "{totals:?} {found:?}");
    assert_eq!(totals.messages, messages.len() as u64);
    assert_eq!(totals.bytes, messages.iter().map(|message| message.2.len() as u64).sum::<u64>());
    assert_eq!(totals.last_sequence, messages.last().unwrap().0);
    let with = |state| {
        let is = |finding: &&Finding| matches!(finding, Finding::Segment(row) if row.state == state);
        found.iter().filter(is).count()
    };
    assert!(with(State::Sealed) > 3 && with(State::Unsealed) == 1 && with(State::Prepared) == 1, "{found:?}");
    assert!(found.iter().any(|finding| matches!(finding, Finding::Base(base) if base.topics == 12)), "{found:?}");
}

#[test]
fn a_crash_anywhere_leaves_nothing_that_is_called_damage() {
    for k in 2..70 {
        let (disk, mut bench) = (SimDisk::new(k), Bench::new());
        disk.crash_at_sync(k);
        let mut work = || {
            bench.open(&sim(&disk))?;
            for round in 0..60u32 {
                bench.publish(&[(1 + round % 5, vec![round as u8; 2_500])]);
                bench.write()?;
                if round % 3 == 0 {
                    bench.jobs();
                }
            }
            Ok::<(), crate::error::Error>(())
        };
        let _ = work();
        for survivor in [disk.crash(k), disk.kill()] {
            let Ok(Some(_)) = arioso_store::identity::Identity::load(&survivor) else { continue };
            let (totals, found) = look(&survivor);
            assert_eq!(totals.damaged, 0, "crash at sync {k}: {found:?}");
            bench.open(&sim(&survivor)).unwrap();
            let (totals, found) = look(&survivor.kill());
            assert_eq!(totals.damaged, 0, "crash at sync {k}, started again: {found:?}");
        }
    }
}

#[test]
fn a_flipped_bit_is_named_or_changes_nothing_anyone_reads() {
    let disk = SimDisk::new(1);
    let messages = lived(&disk);
    let mut rng = Rng(77);
    let mut files: Vec<(String, u64)> = Vec::new();
    for dir in ["", "journal", "checkpoint"] {
        let entries = disk.kill().list(dir).unwrap();
        let path = |name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        files.extend(entries.iter().filter(|e| !e.is_dir && e.bytes > 0).map(|e| (path(&e.name), e.bytes)));
    }
    let (mut named, mut harmless) = (0, 0);
    for round in 0..300 {
        let (path, bytes) = &files[rng.below(files.len() as u64) as usize];
        let (offset, bit) = (rng.below(*bytes), rng.below(8) as u8);
        let why = format!("round {round}: bit {bit} of {path} at {offset}");
        let flipped = disk.kill();
        flipped.flip(path, offset, bit).unwrap();
        let mut found = Vec::new();
        let totals = inspect(&flipped, &mut |finding| found.push(finding));
        if totals.is_err() || totals.is_ok_and(|totals| !totals.is_healthy()) {
            named += 1;
            continue;
        }
        harmless += 1;
        let mut bench = Bench::new();
        let (recovered, _) = bench.open(&sim(&flipped)).unwrap_or_else(|error| panic!("{why}: {error}"));
        assert_eq!(recovered.damage, [], "{why}: {found:?}");
        assert!(recovered.repairs.is_empty(), "{why}: {:?} {found:?}", recovered.repairs);
        assert!(read_all(&flipped, bench.local()).messages == messages, "{why}");
    }
    assert!(named > 100, "{named} named, {harmless} harmless");
}

#[test]
fn a_segment_that_is_not_there_is_named_with_its_range_at_either_end_and_in_between() {
    for at in ["first", "middle", "last"] {
        let disk = SimDisk::new(1);
        lived(&disk);
        let disk = disk.kill();
        let (_, found) = look(&disk);
        let rows: Vec<_> = found
            .iter()
            .filter_map(|finding| match finding {
                Finding::Segment(row) if matches!(row.state, State::Sealed | State::Unsealed) => Some(row.clone()),
                _ => None,
            })
            .collect();
        let row = match at {
            "first" => &rows[0],
            "middle" => &rows[rows.len() / 2],
            _ => rows.last().unwrap(),
        };
        let number = row.number.unwrap();
        disk.remove(&segment_path(number)).unwrap();
        let (totals, found) = look(&disk);
        let is = |finding: &&Finding| matches!(finding, Finding::Damage(_));
        let damage: Vec<_> = found.iter().filter(is).collect();
        let [Finding::Damage(damage)] = damage[..] else { panic!("{at}: {found:?}") };
        assert_eq!((damage.segment, damage.last), (number, row.last_sequence), "{at}: {found:?}");
        assert!(damage.first <= row.first_sequence && !totals.is_healthy(), "{at}");
        assert!(found.iter().any(|f| matches!(f, Finding::Segment(row) if row.state == State::Missing)), "{at}");
        // A start names the same.
        let (recovered, _) = Bench::new().open(&sim(&disk)).unwrap();
        assert_eq!(
            recovered.damage.iter().map(|d| (d.segment, d.last)).collect::<Vec<_>>(),
            [(number, row.last_sequence)],
            "{at}"
        );
    }
}
