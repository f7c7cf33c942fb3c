//! Tests of segments written by hand: what a scan and a reader make of each kind of page.

use std::sync::Arc;

use arioso_disk::{Disk, File, SimDisk};
use arioso_stream::record::{Header, push_record};
use arioso_stream::{Records, Sequence};
use proptest::prelude::*;
use zerocopy::FromBytes;
use zerocopy::little_endian::{I64, U64};

use super::*;
use crate::batch::{BatchParts, NameKind, NamesBuilder, NamesPart, PAGE_BYTES, Place, Run};
use crate::places::Places;
use crate::voids::Voids;

const PAGE: u64 = PAGE_BYTES as u64;
const INCARNATION: u64 = 5 << 32 | 1;

/// A segment file under construction.
struct Builder {
    file: Arc<dyn File>,
    header: SegmentHeader,
    at: u64,
    checksum: u32,
    number: u64,
    sequence: u64,
    synced_to: u64,
}

impl Builder {
    fn new(disk: &SimDisk, pages: u64, recycled: bool) -> Builder {
        let _ = disk.create_dir(JOURNAL_DIR);
        let file = disk.create(&segment_path(1)).unwrap();
        file.set_len(pages * PAGE).unwrap();
        let header = SegmentHeader {
            stream: 9,
            number: 1,
            incarnation: INCARNATION,
            state: SegmentState::Begun,
            recycled,
            next_sequence: 1,
            timestamp: 0,
            server_epoch: 5,
            previous: ChainEnd::default(),
            next_topic: 1,
            next_publisher: 1,
            capacity: pages * PAGE,
            settled_to: 0,
        };
        file.write_at(&header.encode(), 0).unwrap();
        Builder { file, header, at: PAGE, checksum: 0, number: 1, sequence: 1, synced_to: 0 }
    }

    fn parts(&self, payloads: &[(u32, usize)]) -> BatchParts {
        let mut records = Vec::new();
        for (index, (topic, bytes)) in payloads.iter().enumerate() {
            let at = records.len();
            push_record(&mut records, *topic, 0, &[], &vec![self.number as u8; *bytes]);
            let (header, _) = Header::mut_from_prefix(&mut records[at..]).unwrap();
            header.sequence = U64::new(self.sequence + index as u64);
            header.timestamp = I64::new(self.number as i64 * 100);
        }
        let count = payloads.len() as u64;
        BatchParts {
            number: self.number,
            first_sequence: if count == 0 { self.sequence - 1 } else { self.sequence },
            last_sequence: self.sequence + count - 1,
            synced_to: self.synced_to,
            reserved_to: 1_000,
            settled_to: 0,
            timestamp: self.number as i64 * 100,
            server_epoch: 5,
            records_count: count as u32,
            names: NamesPart::default(),
            runs: if count == 0 { Vec::new() } else { vec![self.run(count as u32)] },
            records_crc: crc32c::crc32c(&records),
            records: records.into(),
        }
    }

    fn run(&self, messages: u32) -> Run {
        let first_sequence = Sequence(self.sequence);
        Run {
            publisher: 1,
            epoch: 1,
            first_publisher_sequence: self.sequence,
            messages,
            stored_before: self.sequence - 1,
            first_sequence,
        }
    }

    /// Writes a batch at the end, as of some incarnation; tells where.
    fn write(&mut self, parts: &BatchParts, incarnation: u64) -> u64 {
        let place = Place { incarnation, offset: self.at, previous_checksum: self.checksum };
        let mut bytes = Vec::new();
        let checksum = parts.encode_header(place, &mut bytes);
        bytes.extend_from_slice(&parts.records);
        self.file.write_at(&bytes, self.at).unwrap();
        let at = self.at;
        (self.at, self.checksum) = (at + parts.file_bytes(), checksum);
        at
    }

    fn push(&mut self, payloads: &[(u32, usize)]) -> u64 {
        let parts = self.parts(payloads);
        let at = self.write(&parts, INCARNATION);
        self.number += 1;
        self.sequence += payloads.len() as u64;
        at
    }

    fn known_end(&self) -> KnownEnd {
        let (end, batch, checksum) = (self.at, self.number - 1, self.checksum);
        KnownEnd { end, batch, checksum, last_sequence: self.sequence - 1 }
    }

    fn info(&self) -> SegmentInfo {
        SegmentInfo {
            number: 1,
            incarnation: INCARNATION,
            first_sequence: 1,
            last_sequence: self.sequence - 1,
            first_timestamp: 0,
            last_timestamp: self.number as i64 * 100,
            batches_end: self.at,
            file_bytes: self.header.capacity,
            trailer: None,
            places: Places::default(),
        }
    }
}

/// Numbers of good batches, damage, and what was torn.
fn scan(builder: &Builder, known_end: Option<KnownEnd>) -> (Vec<u64>, Vec<crate::Damage>, Option<Torn>) {
    let mut scan = Scan::new(Arc::clone(&builder.file), &builder.header, known_end).unwrap();
    let (mut batches, mut damage) = (Vec::new(), Vec::new());
    loop {
        match scan.step().unwrap() {
            Scanned::Batch(header, records) => {
                assert_eq!(Records::new(records).count(), header.records_count() as usize);
                batches.push(header.number());
            }
            Scanned::Damage(found) => damage.push(found),
            Scanned::End(torn) => {
                assert!(matches!(scan.step().unwrap(), Scanned::End(None)));
                return (batches, damage, torn);
            }
        }
    }
}

#[test]
fn a_scan_ends_at_zeros_without_a_word() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, false);
    for payloads in [&[(1, 10)][..], &[(2, 9_000), (1, 3)], &[]] {
        builder.push(payloads);
    }
    assert_eq!(scan(&builder, None), (vec![1, 2, 3], vec![], None));
}

#[test]
fn old_batches_on_a_recycled_file_are_no_part_of_the_stream() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, true);
    builder.push(&[(1, 10)]);
    // The old life's batch even has the number that is due, and follows by its checksum.
    let old = builder.parts(&[(1, 5_000)]);
    builder.write(&old, INCARNATION - 1);
    assert_eq!(scan(&builder, None), (vec![1], vec![], None));
}

#[test]
fn a_batch_that_does_not_follow_the_one_before_is_not_read() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, true);
    builder.push(&[(1, 10)]);
    builder.checksum ^= 1;
    builder.push(&[(1, 10)]);
    let (batches, damage, torn) = scan(&builder, None);
    assert_eq!((batches, damage), (vec![1], vec![]));
    assert_eq!(torn.unwrap().offset, 2 * PAGE);
}

#[test]
fn whether_a_bad_batch_is_damage_depends_on_what_later_ones_knew() {
    // (what the later batch knew synced, batches read, damaged ranges)
    for (synced_to, batches, ranges) in [(1, vec![1], vec![]), (2, vec![1, 3], vec![(2, 3)])] {
        for bit_at in [3, 20, 200] {
            let disk = SimDisk::new(1);
            let mut builder = Builder::new(&disk, 40, false);
            builder.push(&[(1, 10)]);
            let bad = builder.push(&[(1, 10), (1, 200)]);
            builder.synced_to = synced_to;
            builder.push(&[(1, 10)]);
            disk.flip(&segment_path(1), bad + bit_at, 5).unwrap();
            let (read, damage, torn) = scan(&builder, None);
            let found: Vec<_> = damage.iter().map(|damage| (damage.first, damage.last)).collect();
            assert_eq!((&read, &found), (&batches, &ranges), "bit at {bit_at}");
            assert_eq!(torn.is_some(), ranges.is_empty());
        }
    }
}

#[test]
fn a_known_end_makes_every_bad_batch_before_it_damage() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, false);
    builder.push(&[(1, 10)]);
    let bad = builder.push(&[(1, 10), (1, 200)]);
    let known = builder.known_end();
    disk.flip(&segment_path(1), bad, 5).unwrap();
    let (read, damage, torn) = scan(&builder, Some(known));
    assert_eq!((read, torn), (vec![1], None));
    let damage = &damage[0];
    assert_eq!((damage.offset, damage.bytes, damage.first, damage.last), (bad, PAGE, 2, 3));
    // What lies behind the end is not part of the stream, however good it looks.
    builder.push(&[(1, 10)]);
    assert_eq!(scan(&builder, Some(known)).0, [1]);
    // A file that was cut is as damaged.
    builder.file.set_len(bad).unwrap();
    let (read, damage, _) = scan(&builder, Some(known));
    assert_eq!((read, damage.len(), damage[0].last), (vec![1], 1, 3));
}

#[test]
fn a_batch_over_many_pieces_is_scanned_and_read() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 2_000, false);
    builder.push(&[(1, 10)]);
    builder.push(&[(2, 3 << 20), (1, 70_000)]);
    builder.push(&[(1, 10)]);
    assert_eq!(scan(&builder, None).0, [1, 2, 3]);
    let (messages, damage) = read(&builder, 1, &[1]);
    assert_eq!((messages, damage), (vec![1, 3, 4], vec![]));
    let (messages, _) = read(&builder, 2, &[]);
    assert_eq!(messages, [2, 3, 4]);
}

#[test]
fn a_batch_forged_inside_a_damaged_payload_is_not_taken_for_one() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, false);
    builder.push(&[(1, 10)]);
    let at = builder.at;
    // Right in everything: place, incarnation, number, and it claims that its host was synced.
    let mut forged = builder.parts(&[(9, 100)]);
    (forged.number, forged.synced_to) = (builder.number + 1, builder.number);
    let place = Place { incarnation: INCARNATION, offset: at + PAGE, previous_checksum: 0 };
    let mut inner = Vec::new();
    forged.encode_header(place, &mut inner);
    inner.extend_from_slice(&forged.records);
    let mut parts = builder.parts(&[(1, 2 * PAGE_BYTES)]);
    let mut records = parts.records.to_vec();
    let inside = PAGE_BYTES - parts.header_bytes();
    records[inside..inside + inner.len()].copy_from_slice(&inner);
    (parts.records_crc, parts.records) = (crc32c::crc32c(&records), records.into());
    builder.write(&parts, INCARNATION);
    (builder.number, builder.sequence, builder.synced_to) = (3, 3, 2);
    builder.push(&[(1, 10)]);
    assert_eq!(scan(&builder, None).0, [1, 2, 3]);
    disk.flip(&segment_path(1), at + 250, 1).unwrap();
    let (batches, damage, _) = scan(&builder, None);
    assert_eq!((batches, damage.len(), damage[0].first, damage[0].last), (vec![1, 3], 1, 2, 2));
    assert_eq!(read(&builder, 1, &[]), (vec![1, 3], vec![(2, 2)]));
}

struct Pick<'a>(&'a [u32]);

impl Selector for Pick<'_> {
    fn selects(&mut self, topic: u32) -> bool {
        self.0.contains(&topic)
    }

    fn everything(&self) -> bool {
        self.0.is_empty()
    }
}

/// Sequences a reader gives; no topics select everything.
fn read(builder: &Builder, from: u64, topics: &[u32]) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut table = SegmentTable::new(1);
    table.push(builder.info());
    let mut reader = SegmentReader::from_sequence(from);
    let (mut messages, mut damage) = (Vec::new(), Vec::new());
    for _ in 0..100_000 {
        match reader.step(&table, &Voids::default(), &mut Pick(topics)) {
            Step::Need(request) => reader.supply(read_request(&*builder.file, &request).unwrap()),
            Step::Choose { .. } => reader.chosen(true),
            Step::Slices(slices) => {
                for slice in &slices.slices {
                    messages.extend(Records::new(slice).map(|record| record.unwrap().sequence().0));
                }
            }
            Step::End { .. } => return (messages, damage),
            Step::Damaged(found) => damage.push((found.first, found.last)),
            Step::Trimmed { first, .. } => reader.seek(first),
        }
    }
    panic!("the reader does not come to an end");
}

#[test]
fn a_reader_names_damage_and_goes_on_behind_it() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, false);
    builder.push(&[(1, 10)]);
    let bad = builder.push(&[(2, 10), (1, 200)]);
    builder.push(&[(1, 10)]);
    let last = builder.push(&[(1, 10)]);
    for bit_at in [0, 20, 200] {
        disk.flip(&segment_path(1), bad + bit_at, 5).unwrap();
        assert_eq!(read(&builder, 1, &[]), (vec![1, 4, 5], vec![(2, 3)]), "bit at {bit_at}");
        assert_eq!(read(&builder, 4, &[1]), (vec![4, 5], vec![]), "behind it");
        disk.flip(&segment_path(1), bad + bit_at, 5).unwrap();
    }
    disk.flip(&segment_path(1), last + 20, 5).unwrap();
    assert_eq!(read(&builder, 1, &[]), (vec![1, 2, 3, 4], vec![(5, 5)]));
    // A file cut short is damage up to where it should end.
    builder.file.set_len(bad + 100).unwrap();
    assert_eq!(read(&builder, 1, &[]), (vec![1], vec![(2, 5)]));
}

#[test]
fn a_reader_told_that_a_segment_was_retired_says_trimmed() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, false);
    builder.push(&[(1, 10)]);
    let mut table = SegmentTable::new(1);
    table.push(builder.info());
    let mut reader = SegmentReader::from_sequence(1);
    let Step::Need(request) = reader.step(&table, &Voids::default(), &mut Pick(&[])) else { panic!() };
    table.retire(2, 77);
    reader.supply(read_request(&*builder.file, &request).unwrap());
    let step = reader.step(&table, &Voids::default(), &mut Pick(&[]));
    assert!(matches!(step, Step::Trimmed { wanted: 1, first: 77 }), "{step:?}");
}

#[test]
fn one_step_looks_at_no_more_than_a_slice_of_records() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 2_000, false);
    let many: Vec<_> = (0..20_000).map(|index| (1 + index % 2, 100)).collect();
    builder.push(&many);
    let mut table = SegmentTable::new(1);
    table.push(builder.info());
    let mut reader = SegmentReader::from_sequence(1);
    let (mut steps, mut records) = (0, 0);
    loop {
        match reader.step(&table, &Voids::default(), &mut Pick(&[1])) {
            Step::Need(request) => reader.supply(read_request(&*builder.file, &request).unwrap()),
            Step::Slices(slices) => {
                assert!(slices.bytes <= super::reader::SLICE_BYTES);
                records += slices.slices.iter().flat_map(|slice| Records::new(slice)).count();
                steps += 1;
            }
            Step::End { through } => break assert_eq!(through, 20_000),
            step => panic!("{step:?}"),
        }
    }
    assert_eq!(records, 10_000);
    assert!(steps > 9, "{steps}");
}

#[test]
fn sealing_twice_gives_the_same_bytes_and_a_footer_that_finds_topics() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 60, false);
    let mut parts = builder.parts(&[(1, 10), (2, 20)]);
    let mut names = NamesBuilder::default();
    names.push(NameKind::Topic, 1, "b");
    names.push(NameKind::Topic, 2, "a");
    parts.names = names.take();
    builder.write(&parts, INCARNATION);
    (builder.number, builder.sequence) = (2, 3);
    builder.push(&[(1, 30), (3, 1)]);
    let voids = Voids::default();
    let input =
        SealInput { stream: 9, segment: 1, end: builder.known_end(), voids: &voids, cursors: &[], window_messages: 10 };
    let arc: Arc<dyn Disk> = Arc::new(disk.clone());
    let names = EarlierNames::new(Arc::clone(&arc), 9, 1);
    let first = seal(&disk, &input, &names).unwrap();
    let mut before = vec![0; first.file_bytes as usize];
    builder.file.read_exact_at(&mut before, 0).unwrap();
    assert_eq!(seal(&disk, &input, &names).unwrap().trailer, first.trailer);
    let mut after = vec![0; builder.file.len().unwrap() as usize];
    builder.file.read_exact_at(&mut after, 0).unwrap();
    assert!(before == after, "sealing again changed the file");
    let trailer = Trailer::load(&*builder.file, &builder.header).unwrap().unwrap();
    assert_eq!((trailer.records, trailer.batches, trailer.next_topic), (4, 2, 4));
    let has = |wanted: Wanted<'_>| has_wanted(Arc::clone(&builder.file), &trailer, &[wanted]);
    assert!(has(Wanted::Topic(b"a")) && has(Wanted::Topic(b"b")) && !has(Wanted::Topic(b"c")));
    assert!(has(Wanted::Subtree(b"$lost")), "a topic whose name is told nowhere is found by its id");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is flipped, a reader gives only what was written, in order, and names the rest.
    #[test]
    fn a_reader_gives_only_what_was_written_and_names_the_rest(
        batches in prop::collection::vec(prop::collection::vec((1u32..4, 0usize..6_000), 0..4), 1..12),
        flips in prop::collection::vec((any::<u64>(), 0u8..8), 0..4),
        from in 1u64..30,
    ) {
        let disk = SimDisk::new(1);
        let mut builder = Builder::new(&disk, 200, false);
        for batch in &batches {
            builder.push(batch);
        }
        for (at, bit) in flips {
            disk.flip(&segment_path(1), PAGE + at % (builder.at - PAGE), bit).unwrap();
        }
        let last = builder.sequence - 1;
        let (messages, damage) = read(&builder, from, &[]);
        prop_assert!(messages.is_sorted_by(|a, b| a < b) && messages.first().is_none_or(|first| *first >= from));
        for sequence in from..=last {
            let named = damage.iter().any(|(first, last)| *first <= sequence && sequence <= *last);
            prop_assert!(messages.contains(&sequence) != named, "{sequence}: {messages:?} {damage:?}");
        }
        // The scan agrees.
        let (_, scanned, _) = scan(&builder, Some(builder.known_end()));
        let told = |sequence: u64| scanned.iter().any(|d| d.first <= sequence && sequence <= d.last);
        for sequence in from..=last {
            prop_assert_eq!(told(sequence), !messages.contains(&sequence));
        }
    }
}

#[test]
fn a_reader_that_has_reached_the_end_stands_behind_every_number_given_so_far() {
    let disk = SimDisk::new(1);
    let mut builder = Builder::new(&disk, 40, false);
    builder.push(&[(1, 10)]);
    // A start goes on far above, and says so in a batch that holds nothing.
    builder.sequence = 1_000;
    builder.push(&[]);
    let mut table = SegmentTable::new(1);
    table.push(builder.info());
    let mut reader = SegmentReader::from_sequence(1);
    let mut got = 0;
    loop {
        match reader.step(&table, &Voids::default(), &mut Pick(&[])) {
            Step::Need(request) => reader.supply(read_request(&*builder.file, &request).unwrap()),
            Step::Slices(slices) => got += slices.slices.len(),
            Step::End { through } => {
                assert_eq!((got, through, reader.position()), (1, 999, 1_000));
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}
