//! Tests of the batch's bytes.

use arioso_stream::record::push_record;
use proptest::prelude::*;

use super::*;

fn parts() -> BatchParts {
    let mut records = Vec::new();
    push_record(&mut records, 5, 0, &[], b"hello");
    push_record(&mut records, 6, 0, &[], b"world, which is longer");
    let mut names = NamesBuilder::default();
    names.push(NameKind::Topic, 5, "a/b");
    names.push(NameKind::Topic, 6, "a/c/d");
    names.push(NameKind::Publisher, 1, "orders");
    let run = |publisher, first_sequence| Run {
        publisher,
        epoch: 2,
        first_publisher_sequence: 7,
        messages: 1,
        stored_before: 6,
        first_sequence: Sequence(first_sequence),
    };
    BatchParts {
        number: 12,
        first_sequence: 100,
        last_sequence: 101,
        synced_to: 11,
        reserved_to: 1 << 20,
        settled_to: 99,
        timestamp: -5,
        server_epoch: 3,
        records_count: 2,
        names: names.take(),
        runs: vec![run(1, 100), run(2, 101)],
        records_crc: crc32c::crc32c(&records),
        records: records.into(),
    }
}

const PLACE: Place = Place { incarnation: 3 << 32 | 1, offset: 8192, previous_checksum: 77 };

fn encoded() -> Vec<u8> {
    let parts = parts();
    let mut bytes = Vec::new();
    parts.encode_header(PLACE, &mut bytes);
    bytes.extend_from_slice(&parts.records);
    bytes
}

#[test]
fn a_batch_is_read_back_as_it_was_written() {
    let (parts, bytes) = (parts(), encoded());
    let header = BatchHeader::read_at(&bytes, PLACE.incarnation, PLACE.offset).unwrap();
    assert_eq!(header.records(&bytes).unwrap(), &parts.records[..]);
    assert_eq!(header.runs().collect::<Vec<_>>(), parts.runs);
    let names: Vec<_> = header.names().map(|n| (n.kind, n.id, n.name)).collect();
    let want = [(NameKind::Topic, 5, "a/b"), (NameKind::Topic, 6, "a/c/d"), (NameKind::Publisher, 1, "orders")];
    assert_eq!(names, want);
    assert_eq!((header.number(), header.synced_to(), header.reserved_to()), (12, 11, 1 << 20));
    assert_eq!((header.first_sequence(), header.last_sequence(), header.settled_to()), (100, 101, 99));
    assert_eq!((header.timestamp(), header.server_epoch(), header.previous_checksum()), (-5, 3, 77));
    assert_eq!((header.end(), parts.file_bytes()), (8192 + 4096, 4096));
    assert!(header.messages_only());
}

#[test]
fn zeros_are_no_batch() {
    assert_eq!(BatchHeader::read(&[0; 4096]).unwrap_err(), BadBatch::Magic);
}

#[test]
fn a_copy_at_another_place_is_no_batch_of_that_place() {
    let bytes = encoded();
    let bad = BatchHeader::read_at(&bytes, PLACE.incarnation, PLACE.offset + 4096).unwrap_err();
    assert_eq!(bad, BadBatch::Elsewhere { incarnation: PLACE.incarnation, offset: PLACE.offset });
    BatchHeader::read_at(&bytes, PLACE.incarnation + 1, PLACE.offset).unwrap_err();
}

#[test]
fn every_flipped_bit_is_found() {
    let good = encoded();
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = BatchHeader::read(&bytes).and_then(|header| header.records(&bytes).map(|_| ()));
        assert!(found.is_err(), "bit {bit} went unnoticed");
    }
}

#[test]
fn every_cut_is_found_and_says_how_much_is_needed() {
    let good = encoded();
    for have in 0..good.len() {
        let bytes = &good[..have];
        match BatchHeader::read(bytes).and_then(|header| header.records(bytes).map(|_| ())) {
            Err(BadBatch::Short { have: told, need }) => assert!(told == have && need > have),
            other => panic!("cut after {have}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn reading_answers_whatever_the_bytes_are(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = BatchHeader::read(&bytes);
    }

    #[test]
    fn reading_answers_whatever_became_of_a_header_with_a_good_checksum(
        changes in prop::collection::vec((8usize..400, any::<u8>()), 1..8),
    ) {
        let mut bytes = encoded();
        for (at, to) in changes {
            let at = at % bytes.len();
            bytes[at] = to;
        }
        bytes[..4].copy_from_slice(&BATCH_MAGIC);
        let header_bytes = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        if let Some(checked) = bytes.get(8..header_bytes) {
            let checksum = crc32c::crc32c(checked);
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        }
        if let Ok(header) = BatchHeader::read(&bytes) {
            let _ = (header.names().count(), header.runs().count(), header.messages());
            let _ = header.records(&bytes);
        }
    }
}
