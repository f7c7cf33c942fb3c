//! What the simulator itself must be: repeatable, and able to find mistakes. A few seeds run here; the 200 run in `xtask sim`.

use arioso_sim::plan::Journal;
use arioso_sim::sync_points::sweep;
use arioso_sim::{Options, Plan, Plant, run};

/// Seeds among which a mistake made on purpose must be found.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=200;

fn first_that_finds(plant: Plant) -> Option<u64> {
    SEEDS.into_iter().find(|seed| run(&Options { plant: Some(plant), ..Options::of(*seed) }).check.is_err())
}

#[test]
fn a_seed_gives_the_same_trace_byte_for_byte() {
    let mut journals = Vec::new();
    for seed in 1..=6 {
        let options = Options::of(seed);
        journals.push(Plan::draw(&options).journal);
        let (once, again) = (run(&options), run(&options));
        assert_eq!((once.digest, once.events), (again.digest, again.events), "seed {seed}");
        assert_ne!(once.digest, run(&Options::of(seed + 1)).digest);
    }
    assert!(journals.contains(&Journal::Local) && journals.contains(&Journal::Memory), "{journals:?}");
}

#[test]
fn whatever_goes_wrong_nothing_promised_is_lost() {
    for seed in 1_000..1_020 {
        let outcome = run(&Options::of(seed));
        assert!(outcome.check.is_ok(), "seed {seed}: {:?}\n{}", outcome.check, outcome.lines.join("\n"));
    }
}

#[test]
fn a_crash_at_any_sync_of_a_workload_loses_nothing() {
    let swept = sweep(&Options { steps: 25, ..Options::of(11) });
    assert!(swept.failed.is_none(), "{:?}", swept.failed);
    assert!(swept.syncs > 20, "{} syncs", swept.syncs);
}

#[test]
fn a_disk_that_says_synced_too_early_is_found() {
    assert!(first_that_finds(Plant::SyncLies).is_some());
}

#[test]
fn a_reader_that_passes_over_a_segment_is_found() {
    assert!(first_that_finds(Plant::SegmentSkipped).is_some());
}

#[test]
fn a_server_that_acknowledges_what_the_one_that_took_over_lacks_is_found() {
    assert!(first_that_finds(Plant::FencedAcknowledges).is_some());
}

#[test]
fn takeovers_with_writes_under_way_happen_and_lose_nothing() {
    let takeovers: u64 = (1..=25)
        .filter(|seed| Plan::draw(&Options::of(*seed)).shared)
        .map(|seed| {
            let outcome = run(&Options::of(seed));
            assert!(outcome.check.is_ok(), "seed {seed}: {:?}\n{}", outcome.check, outcome.lines.join("\n"));
            outcome.counts.takeovers
        })
        .sum();
    assert!(takeovers > 2, "{takeovers}");
}

#[test]
fn backups_of_a_running_bus_hold_all_that_was_acknowledged() {
    // All that split or let go of old segments while they are copied.
    let draws = |seed: &u64| {
        let plan = Plan::draw(&Options::of(*seed));
        plan.backups > 0 && (plan.retention || *seed <= 15)
    };
    let (mut backups, mut spans, mut retired) = (0, 0, 0);
    for seed in (1..=60).filter(draws) {
        let outcome = run(&Options::of(seed));
        assert!(outcome.check.is_ok(), "seed {seed}: {:?}\n{}", outcome.check, outcome.lines.join("\n"));
        backups += outcome.counts.backups;
        spans += outcome.counts.spans;
        retired += outcome.counts.retired;
    }
    assert!(backups > 8 && spans > 4 && retired > 4, "{backups} backups, {spans} spans, {retired} times segments went");
}

#[test]
fn numbers_that_are_handed_out_twice_are_found() {
    assert!(first_that_finds(Plant::NumbersReused).is_some());
}
