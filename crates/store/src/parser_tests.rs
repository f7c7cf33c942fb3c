//! Every parser answers whatever the bytes are, finds every flipped bit, and gives back what was written.

use arioso_stream::Sequence;
use arioso_stream::order::{ANONYMOUS_FROM, Run};
use proptest::prelude::*;

use crate::control::Control;
use crate::cursors::Cursors;
use crate::identity::{Clean, Epoch, Identity};
use crate::manifest::{Manifest, Span};
use crate::part;
use crate::places::{BatchPlace, Places};
use crate::publishers::Publishers;
use crate::segment::{ChainEnd, JournalName, PartPlace, SegmentHeader, SegmentState, Trailer};
use crate::voids::Voids;

const WINDOW: u32 = 100;

fn publishers() -> Publishers {
    let mut publishers = Publishers::new(WINDOW);
    publishers.name(1, "orders");
    for n in 0..5 {
        let run = Run {
            publisher: 1 + n % 2,
            epoch: 2,
            first_publisher_sequence: 10 * u64::from(n),
            messages: 3,
            stored_before: 0,
            first_sequence: Sequence(100 * u64::from(n)),
        };
        publishers.run(&run, i64::from(n), &Voids::default());
    }
    publishers
}

fn cursor(id: u32, epoch: u32, filters: &[&str]) -> Vec<u8> {
    let mut body = id.to_le_bytes().to_vec();
    body.extend_from_slice(&epoch.to_le_bytes());
    body.extend_from_slice(&[7; 16]);
    body.extend_from_slice(&2u16.to_le_bytes());
    body.extend_from_slice(b"cu");
    body.extend_from_slice(&(filters.len() as u32).to_le_bytes());
    for filter in filters {
        body.extend_from_slice(&(filter.len() as u16).to_le_bytes());
        body.extend_from_slice(filter.as_bytes());
    }
    body
}

fn cursors() -> Cursors {
    let mut cursors = Cursors::default();
    assert!(cursors.add(&cursor(3, 1, &["a/**", "b"])));
    assert!(cursors.add(&cursor(4, 0, &[])));
    cursors
}

fn voids() -> Voids {
    let mut voids = Voids::default();
    voids.add(5, 9);
    voids.add(20, 20);
    voids
}

fn places() -> Places {
    let mut places = Places::default();
    for n in 1..4u64 {
        places.note(BatchPlace { offset: n * (3 << 20), first_sequence: n * 10, timestamp_before: n as i64 * 7 });
    }
    places
}

fn header() -> SegmentHeader {
    SegmentHeader {
        stream: 1 << 100 | 7,
        number: 3,
        incarnation: 9,
        state: SegmentState::Begun,
        recycled: true,
        next_sequence: 44,
        timestamp: -3,
        server_epoch: 6,
        previous: ChainEnd { segment: 2, end: 8192, batch: 5, checksum: 99 },
        next_topic: 12,
        next_publisher: 13,
        capacity: 1 << 20,
        settled_to: 40,
    }
}

fn trailer() -> Trailer {
    let place = |offset| PartPlace { offset, bytes: 8 };
    Trailer {
        segment: 3,
        incarnation: 9,
        last_timestamp: -5,
        batches_end: 8192,
        directory: place(8192),
        publishers: place(8200),
        cursors: place(8208),
        voids: place(8216),
        places: place(8224),
        ..Trailer::default()
    }
}

fn manifest() -> Manifest {
    let span = Span { first_sequence: 1, last_sequence: 9, last_segment: 2, tier: 1, stores: 4, span: 8 };
    Manifest { generation: 3, first_segment: 1, first_sequence: 1, spans: vec![span, span] }
}

fn identity() -> Identity {
    Identity { stream: u128::MAX - 5, name: "täst".into(), made_at: 55 }
}

fn epoch() -> Epoch {
    Epoch { epoch: 8, clean: Some(Clean { next_sequence: 9, timestamp: -10 }) }
}

/// Every kind of part: its name, a good one, and whether bytes are taken for one.
type Parser = (&'static str, Vec<u8>, fn(&[u8]) -> bool);

fn parsers() -> Vec<Parser> {
    vec![
        ("publishers", publishers().encode(), |bytes| Publishers::read(bytes, WINDOW).is_ok()),
        ("cursors", cursors().encode(), |bytes| Cursors::read(bytes).is_ok()),
        ("voids", voids().encode(), |bytes| Voids::read(bytes).is_ok()),
        ("places", places().encode(), |bytes| Places::read(bytes).is_ok()),
        ("header", header().encode(), |bytes| SegmentHeader::read(bytes).is_ok()),
        ("trailer", trailer().encode(), |bytes| Trailer::read(bytes).is_ok()),
        ("manifest", manifest().encode(), |bytes| Manifest::read(bytes).is_ok()),
        ("stream", identity().encode(), |bytes| Identity::read(bytes).is_ok()),
        ("epoch", epoch().encode(), |bytes| Epoch::read(bytes).is_ok()),
    ]
}

#[test]
fn every_part_is_read_back_as_it_was_written() {
    assert!(Publishers::read(&publishers().encode(), WINDOW).unwrap().iter().eq(publishers().iter()));
    assert_eq!(Cursors::read(&cursors().encode()).unwrap(), cursors());
    assert_eq!(Voids::read(&voids().encode()).unwrap(), voids());
    assert_eq!(Places::read(&places().encode()).unwrap(), places());
    assert_eq!(SegmentHeader::read(&header().encode()).unwrap(), header());
    assert_eq!(Trailer::read(&trailer().encode()).unwrap(), trailer());
    assert_eq!(Manifest::read(&manifest().encode()).unwrap(), manifest());
    assert_eq!(Identity::read(&identity().encode()).unwrap(), identity());
    assert_eq!(Epoch::read(&epoch().encode()).unwrap(), epoch());
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    for (name, good, read) in parsers() {
        assert!(read(&good), "{name}");
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!read(&bytes), "{name}: bit {bit} went unnoticed");
        }
        for cut in 0..good.len() {
            assert!(!read(&good[..cut]), "{name}: a cut at {cut} went unnoticed");
        }
    }
}

#[test]
fn names_in_the_journals_directory_are_told_apart() {
    let read = JournalName::read;
    assert_eq!(read("00000000000000ff.seg"), JournalName::Segment(255));
    assert_eq!(read("free-0000000300000001"), JournalName::Free(3 << 32 | 1));
    assert_eq!(read(&arioso_disk::temporary("00000000000000ff.seg")), JournalName::Temporary);
    for odd in ["ff.seg", "00000000000000FF.seg", "00000000000000ff.sto", "", "free-", "0000000000000+ff.seg"] {
        assert_eq!(read(odd), JournalName::Unknown, "{odd}");
    }
}

#[test]
fn later_states_of_a_publisher_add_up() {
    let run = |first: u64, messages, sequence: u64| Run {
        publisher: 1,
        epoch: 1,
        first_publisher_sequence: first,
        messages,
        stored_before: 0,
        first_sequence: Sequence(sequence),
    };
    let (mut base, mut later) = (Publishers::new(4), Publishers::new(4));
    base.name(1, "orders");
    base.run(&run(1, 3, 11), 5, &Voids::default());
    later.run(&run(4, 2, 14), 6, &Voids::default());
    later.run(&run(9, 1, 30), 7, &Voids::default());
    base.extend(&later);
    let state = base.iter().next().unwrap();
    assert_eq!((&*state.name, state.last, state.last_used), ("orders", 9, 7));
    let runs: Vec<_> = state.runs.iter().map(|run| (run.first, run.messages, run.sequence.0)).collect();
    assert_eq!(runs, [(1, 5, 11), (9, 1, 30)], "runs that go on are strung together");
    // Far beyond the window the oldest runs are dropped, never the newest window.
    for n in 0..20 {
        base.run(&run(20 + 2 * n, 1, 40 + 2 * n), 8, &Voids::default());
    }
    let state = base.iter().next().unwrap();
    assert!((4..8).contains(&state.runs.iter().map(|run| run.messages).sum::<u32>()));
    assert_eq!(state.runs.last().unwrap().first, 58);
    // Dropped means gone from a base, and said so in a footer.
    let mut dropped = Publishers::new(4);
    dropped.control(&Control::PublisherDropped { publisher: 1 }, 9);
    base.extend(&dropped);
    assert_eq!(base.iter().next().unwrap().epoch, 0);
    base.forget_dropped();
    assert!(base.is_empty());
    // Anonymous ones keep no state.
    base.run(&Run { publisher: ANONYMOUS_FROM, ..run(1, 1, 1) }, 1, &Voids::default());
    assert!(base.is_empty());
}

#[test]
fn void_pieces_are_left_out_of_a_run() {
    let mut publishers = Publishers::new(100);
    let mut voids = Voids::default();
    for (first, last) in [(1, 10), (12, 13), (19, 40)] {
        voids.add(first, last);
    }
    let run = Run {
        publisher: 1,
        epoch: 1,
        first_publisher_sequence: 1,
        messages: 10,
        stored_before: 0,
        first_sequence: Sequence(10),
    };
    publishers.run(&run, 0, &voids);
    let state = publishers.iter().next().unwrap();
    let runs: Vec<_> = state.runs.iter().map(|run| (run.first, run.messages, run.sequence.0)).collect();
    assert_eq!((runs, state.last), (vec![(2, 1, 11), (5, 5, 14)], 10));
}

proptest! {
    #[test]
    fn parsers_answer_whatever_the_bytes_are(bytes in prop::collection::vec(any::<u8>(), 0..300), seal in any::<bool>()) {
        for (_, good, read) in parsers() {
            let _ = read(&bytes);
            // Past magic and checksum too, as far as a part has the short head.
            if seal && good[..4] != *b"ARIO" {
                let sealed = part::seal([good[0], good[1], good[2], good[3]], &bytes);
                let _ = read(&sealed);
            }
        }
    }

    #[test]
    fn mutated_parts_with_a_good_checksum_never_panic(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        for (_, mut good, read) in parsers().into_iter().filter(|parser| parser.1[..4] != *b"ARIO") {
            let at = 8 + at.index(good.len() - 8);
            good[at] = to;
            let sealed = part::seal([good[0], good[1], good[2], good[3]], &good[8..]);
            let _ = read(&sealed);
        }
    }

    #[test]
    fn void_ranges_hold_what_was_added_and_nothing_else(ranges in prop::collection::vec((0u64..60, 0u64..12), 0..12)) {
        let mut voids = Voids::default();
        let mut model = std::collections::BTreeSet::new();
        for (first, more) in ranges {
            voids.add(first, first + more);
            model.extend(first..=first + more);
        }
        for sequence in 0..80 {
            prop_assert_eq!(voids.contains(sequence), model.contains(&sequence));
        }
        for (first, last) in [(0, 5), (10, 20), (30, 31), (70, 80)] {
            prop_assert_eq!(voids.overlaps(first, last), (first..=last).any(|s| model.contains(&s)));
        }
        let apart = |pair: &[(u64, u64)]| pair[0].1 + 1 < pair[1].0;
        prop_assert!(voids.ranges().windows(2).all(apart));
        prop_assert_eq!(Voids::read(&voids.encode()).unwrap(), voids);
    }
}
