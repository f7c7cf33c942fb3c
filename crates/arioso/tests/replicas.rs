//! The example state machine: replicas that crash end with the same bytes as one that does not.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "../examples/inventory/replica.rs"]
mod replica;

use arioso::{Bus, Message, Sequence};

const FLIGHTS: u64 = 6_000;
const CRASHES: u64 = 50;

/// A small generator, so that the same flights come every time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn publish_flights(bus: &Bus) -> Sequence {
    let mut draw = Draw(7);
    let publisher = bus.publisher(Some("airline")).unwrap();
    let airports = ["LAX", "JFK", "ORD", "SEA", "DEN", "MIA"];
    let receipts: Vec<_> = (0..FLIGHTS)
        .map(|_| {
            let (from, to) = (airports[draw.below(6) as usize], airports[draw.below(6) as usize]);
            let delay = draw.below(90) as i64 - 30;
            let payload = format!("{delay},{}", 100 + draw.below(2_000));
            publisher.send(&format!("flight/{from}/{to}"), Message::new(payload.as_bytes())).unwrap()
        })
        .collect();
    receipts.into_iter().map(|receipt| receipt.wait().unwrap().last).max().unwrap()
}

#[test]
fn a_replica_that_crashes_fifty_times_ends_with_the_same_bytes_as_one_that_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::open(dir.path()).unwrap();
    let last = publish_flights(&bus);
    let steady = replica::run(&bus, last, u64::MAX, &mut || true).unwrap().unwrap();
    let mut draw = Draw(11);
    let mut crashes = 0;
    let crashed = loop {
        let mut left = if crashes < CRASHES { 1 + draw.below(300) } else { u64::MAX };
        let mut lives = || {
            left -= 1;
            left > 0
        };
        match replica::run(&bus, last, 97, &mut lives).unwrap() {
            Some(state) => break state,
            None => crashes += 1,
        }
    };
    assert_eq!(crashes, CRASHES);
    assert_eq!(crashed.encode(), steady.encode());
    let aircraft: i64 = steady.airports.values().map(|airport| airport.aircraft).sum();
    let departures: u64 = steady.airports.values().map(|airport| airport.departures).sum();
    assert_eq!((aircraft, departures), (0, FLIGHTS), "aircraft come from somewhere");
    // Another life of the bus finds the snapshot too.
    bus.close().unwrap();
    let bus = Bus::open(dir.path()).unwrap();
    let kept = bus.snapshot(replica::SNAPSHOT).unwrap().unwrap();
    assert!(kept.as_of > Sequence(1) && kept.as_of <= last);
    assert_eq!(replica::run(&bus, last, u64::MAX, &mut || true).unwrap().unwrap().encode(), steady.encode());
}

#[test]
fn a_large_snapshot_travels_in_pieces_and_only_the_two_newest_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::open(dir.path()).unwrap();
    assert_eq!(bus.snapshot("big").unwrap(), None);
    let mut sequences = Vec::new();
    for round in 0..4u8 {
        let sequence = bus.publish("a", b"x").unwrap().sequence;
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8 ^ round).collect();
        bus.store_snapshot("big", sequence, &bytes).unwrap();
        let kept = bus.snapshot("big").unwrap().unwrap();
        assert_eq!((kept.as_of, kept.bytes == bytes), (sequence, true));
        sequences.push(sequence);
    }
    let files = std::fs::read_dir(dir.path().join("snapshots")).unwrap().count();
    assert_eq!(files, 2);
    let ahead = bus.store_snapshot("big", Sequence(sequences[3].0 + 1_000), b"x").unwrap_err();
    assert!(ahead.to_string().contains("as of"), "{ahead}");
}
