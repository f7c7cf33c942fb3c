//! Directories against plain maps, and against every kind of damage.

use std::collections::BTreeMap;
use std::sync::Arc;

use arioso_disk::{Access, Disk, File, Operation, SimDisk};
use arioso_stream::Sequence;
use proptest::prelude::*;

use super::bytes::{Figures, TRAILER_BYTES};
use super::{BLOCK_BYTES, DirectoryReader, DirectoryWriter, Entries, Entry, Totals, merge};
use crate::{Error, Result};

/// The directory does not begin where its file does.
const START: u64 = 4096;
const PATH: &str = "some.dir";

type Row = (u32, u64, u64, u64, u64, u64);
type Model = BTreeMap<Vec<u8>, Row>;

fn entry<'a>(name: &'a [u8], row: &Row) -> Entry<'a> {
    let &(topic, messages, bytes, last_sequence, last_place, sum) = row;
    Figures { topic, messages, bytes, last_sequence: Sequence(last_sequence), last_place, sum }.named(name)
}

fn row(entry: &Entry<'_>) -> Row {
    (entry.topic, entry.messages, entry.bytes, entry.last_sequence.0, entry.last_place, entry.sum)
}

fn encode(model: &Model, block_bytes: usize) -> (Vec<u8>, Totals) {
    let mut bytes = Vec::new();
    let mut sink = |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok(())
    };
    let mut writer = DirectoryWriter::with_block_bytes(&mut sink, block_bytes);
    for (name, row) in model {
        writer.push(entry(name, row)).unwrap();
    }
    let (totals, length) = writer.finish().unwrap();
    assert_eq!(length, bytes.len() as u64);
    (bytes, totals)
}

/// Puts bytes into a file, with something before and behind them.
fn store(bytes: &[u8]) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(1);
    let file = disk.create(PATH).unwrap();
    file.write_vectored_at(&[&[0xAA; START as usize], bytes, &[0xBB; 100]], 0).unwrap();
    (disk, file)
}

fn open(bytes: &[u8]) -> Result<DirectoryReader> {
    let (_, file) = store(bytes);
    DirectoryReader::open(file, START..START + bytes.len() as u64)
}

fn collect(entries: &mut dyn Entries) -> Result<Vec<(Vec<u8>, Row)>> {
    let mut all = Vec::new();
    while let Some(entry) = entries.next_entry()? {
        all.push((entry.name.to_vec(), row(&entry)));
    }
    Ok(all)
}

fn read_all(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Row)>> {
    collect(&mut open(bytes)?.scan(b""))
}

fn filtered(model: &Model, keep: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, Row)> {
    model.iter().filter(|(name, _)| keep(name)).map(|(name, row)| (name.clone(), *row)).collect()
}

/// So many topics of a small tree.
fn sample(topics: u32) -> Model {
    let name = |n: u32| format!("site/{}/sensor/{n:04}", n % 7).into_bytes();
    let row =
        |n: u32| (n, u64::from(n) * 3, u64::from(n) << 20, u64::from(n) + 1000, u64::MAX - u64::from(n), !u64::from(n));
    (1..=topics).map(|n| (name(n), row(n))).collect()
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::string::bytes_regex("[ab]{0,3}(/|!)[ab/]{0,4}").unwrap(),
        1 => proptest::collection::vec(any::<u8>(), 1..40),
        1 => Just(vec![b'x'; 1024]),
    ]
}

/// Figures whose sums stay within 64 bits, but for the sums that wrap.
fn figures() -> impl Strategy<Value = Row> {
    let count = 0..1_u64 << 50;
    (any::<u32>(), count.clone(), count, prop_oneof![0..4_u64, any::<u64>()], any::<u64>(), any::<u64>())
}

fn model() -> impl Strategy<Value = Model> {
    proptest::collection::btree_map(name(), figures(), 0..60)
}

fn block_bytes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), Just(100), Just(400), Just(BLOCK_BYTES)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_was_written_is_read_and_found(model in model(), asked in name(), block_bytes in block_bytes()) {
        let (bytes, totals) = encode(&model, block_bytes);
        let reader = open(&bytes).unwrap();
        let mut want = Totals::default();
        for (name, row) in &model {
            want.add(&entry(name, row)).unwrap();
        }
        prop_assert_eq!((totals, *reader.totals()), (want, want));
        prop_assert_eq!(collect(&mut reader.scan(b"")).unwrap(), filtered(&model, |_| true));
        for name in model.keys().chain([&asked]) {
            let found = reader.get(name).unwrap().map(|entry| row(&entry));
            prop_assert_eq!(found.as_ref(), model.get(name));
        }
        for prefix in [&asked[..], &asked[..asked.len() / 2], b"a", b"a/"] {
            let want = filtered(&model, |name| name.starts_with(prefix));
            prop_assert_eq!(collect(&mut reader.scan(prefix)).unwrap(), want);
            let below = [prefix, b"/"].concat();
            let want = filtered(&model, |name| name == prefix || name.starts_with(&below));
            prop_assert_eq!(collect(&mut reader.subtree(prefix)).unwrap(), want);
        }
    }

    #[test]
    fn a_merge_is_the_sum_of_its_sources(
        parts in proptest::collection::vec(model(), 0..6),
        block_bytes in block_bytes(),
    ) {
        // A topic has one id, whatever the source.
        let id = |name: &[u8]| crc32c::crc32c(name);
        let mut want = Model::new();
        let mut readers = Vec::new();
        for mut part in parts {
            for (name, row) in &mut part {
                row.0 = id(name);
                let sum = want.entry(name.clone()).or_insert((row.0, 0, 0, 0, 0, 0));
                let place = if row.3 >= sum.3 { row.4 } else { sum.4 };
                *sum = (row.0, sum.1 + row.1, sum.2 + row.2, sum.3.max(row.3), place, sum.5.wrapping_add(row.5));
            }
            readers.push(open(&encode(&part, block_bytes).0).unwrap());
        }
        let mut scans: Vec<_> = readers.iter().map(|reader| reader.scan(b"")).collect();
        let mut sources: Vec<_> = scans.iter_mut().map(|scan| scan as &mut dyn Entries).collect();
        let mut bytes = Vec::new();
        let mut sink = |part: &[u8]| { bytes.extend_from_slice(part); Ok(()) };
        let mut writer = DirectoryWriter::with_block_bytes(&mut sink, block_bytes);
        merge(&mut sources, &mut |entry| writer.push(entry)).unwrap();
        writer.finish().unwrap();
        prop_assert!(bytes == encode(&want, block_bytes).0, "the merge is written as the sum itself");
    }

    #[test]
    fn random_bytes_are_no_directory(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(open(&bytes).is_err());
    }

    /// Bytes that were never written rightly, but whose checksums are right, lead to errors or to entries in
    /// order: never to a panic or a walk without end.
    #[test]
    fn wrong_bytes_under_right_checksums_do_no_harm(
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        block_bytes in block_bytes(),
    ) {
        let (mut bytes, _) = encode(&sample(60), block_bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        reseal(&mut bytes);
        let Ok(reader) = open(&bytes) else { return Ok(()) };
        let mut scan = reader.scan(b"");
        let mut last = Vec::new();
        while let Ok(true) = scan.advance() {
            prop_assert!(scan.entry().name > &last[..]);
            last = scan.entry().name.to_vec();
        }
        for name in sample(60).keys() {
            let _ = reader.get(name);
            let _ = collect(&mut reader.subtree(&name[..name.len() - 1]));
        }
    }
}

/// Makes every checksum right again, as far as the lengths lead.
fn reseal(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let trailer = bytes.len() - TRAILER_BYTES;
    let index = number(bytes, trailer + 56).min(trailer);
    let (mut block, mut row) = (0, index);
    while row + 14 <= trailer {
        let end = block + number(bytes, row + 4);
        if end > index || end < block + 12 {
            break;
        }
        let checksum = crc32c::crc32c(&bytes[block + 4..end]).to_le_bytes();
        bytes[block..block + 4].copy_from_slice(&checksum);
        bytes[row..row + 4].copy_from_slice(&checksum);
        row += 14 + usize::from(u16::from_le_bytes([bytes[row + 12], bytes[row + 13]]));
        block = end;
    }
    let checksum = crc32c::crc32c(&bytes[index..trailer]).to_le_bytes();
    bytes[trailer + 76..trailer + 80].copy_from_slice(&checksum);
    bytes[trailer + 12..trailer + 16].fill(0);
    let checksum = crc32c::crc32c(&bytes[trailer..]).to_le_bytes();
    bytes[trailer + 12..trailer + 16].copy_from_slice(&checksum);
}

#[test]
fn the_reseal_of_the_tests_is_right() {
    let (bytes, _) = encode(&sample(60), 300);
    let mut again = bytes.clone();
    reseal(&mut again);
    assert_eq!(again, bytes);
}

#[test]
fn every_flipped_bit_is_an_error_and_never_another_value() {
    let model = sample(40);
    let (bytes, _) = encode(&model, 300);
    let (disk, file) = store(&bytes);
    let range = START..START + bytes.len() as u64;
    for offset in range.clone() {
        for bit in 0..8 {
            disk.flip(PATH, offset, bit).unwrap();
            let reader = DirectoryReader::open(Arc::clone(&file), range.clone());
            if let Ok(reader) = &reader {
                let mut scan = reader.scan(b"");
                let error = collect(&mut scan).expect_err("a walk over everything meets the bit");
                assert_eq!(scan.advance(), Err(error), "and does not go on behind it");
            }
            if let (0, Ok(reader)) = (bit, &reader) {
                let right = |name: &Vec<u8>, want: &Row| match reader.get(name) {
                    Ok(found) => assert_eq!(found.map(|entry| row(&entry)), Some(*want)),
                    Err(error) => assert!(matches!(error, Error::Checksum { .. }), "{error}"),
                };
                model.iter().for_each(|(name, want)| right(name, want));
            }
            disk.flip(PATH, offset, bit).unwrap();
        }
    }
    assert_eq!(read_all(&bytes).unwrap().len(), model.len());
}

#[test]
fn every_truncation_is_an_error() {
    let (bytes, _) = encode(&sample(40), 300);
    for length in 0..bytes.len() {
        assert!(open(&bytes[..length]).is_err(), "cut behind {length} bytes");
        assert!(open(&bytes[bytes.len() - length..]).is_err(), "the last {length} bytes alone");
        // The owner says where the directory lies, and the file ends before.
        let disk = SimDisk::new(1);
        let file = disk.create(PATH).unwrap();
        file.write_at(&bytes[..length], 0).unwrap();
        let error = DirectoryReader::open(file, 0..bytes.len() as u64).unwrap_err();
        assert!(matches!(error, Error::Disk(arioso_disk::Error::Short { .. })), "{error}");
    }
}

#[test]
fn a_block_of_another_directory_does_not_pass() {
    // Both directories have blocks of the same lengths.
    let (mut bytes, _) = encode(&sample(40), 300);
    let mut other = sample(40);
    other.values_mut().for_each(|row| row.5 ^= 1);
    let (other, _) = encode(&other, 300);
    let block_bytes = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    bytes[..block_bytes].copy_from_slice(&other[..block_bytes]);
    let error = read_all(&bytes).unwrap_err();
    assert!(matches!(error, Error::Checksum { offset: START, what: "directory block", .. }), "{error}");
}

#[test]
fn errors_name_the_file_and_the_place() {
    let (bytes, _) = encode(&sample(40), 300);
    let second = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    let broken = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        read_all(&bytes).unwrap_err()
    };
    let text = broken(second + 20).to_string();
    let place = format!("some.dir at {}: directory block has checksum 0x", START as usize + second);
    assert!(text.starts_with(&place), "{text}");
    let end = bytes.len() - TRAILER_BYTES;
    let place = |at: usize| START + at as u64;
    let (what, at) = ("directory trailer", place(end));
    assert!(matches!(broken(end + 20), Error::Checksum { offset, what: w, .. } if (offset, w) == (at, what)));
    assert!(matches!(broken(end - 1), Error::Checksum { what: "directory index", .. }));
    let text = broken(end).to_string();
    let want = format!("some.dir at {at}: a directory's trailer begins with \"@RIODIR1\", should with \"ARIODIR1\"");
    assert_eq!(text, want);
    let mut newer = bytes.clone();
    newer[end + 8] = 2;
    reseal(&mut newer);
    assert_eq!(
        read_all(&newer).unwrap_err().to_string(),
        format!("some.dir at {at}: directory's version is 2, should be 1")
    );
}

#[test]
fn counts_and_lengths_that_do_not_fit_are_refused_though_their_checksums_are_right() {
    let (bytes, _) = encode(&sample(40), 300);
    let end = bytes.len() - TRAILER_BYTES;
    let index = u64::from_le_bytes(bytes[end + 56..end + 64].try_into().unwrap()) as usize;
    let refused = |mut bytes: Vec<u8>| {
        reseal(&mut bytes);
        match read_all(&bytes) {
            Err(Error::Malformed { what, .. }) => what,
            other => panic!("refused as malformed, not {other:?}"),
        }
    };
    // The number of entries, in the block and in the index, or in one of them.
    let entries = |in_block: u8, in_index: u8| {
        let mut bytes = bytes.clone();
        (bytes[8], bytes[index + 8]) = (in_block, in_index);
        refused(bytes)
    };
    let count = bytes[8];
    assert_eq!(entries(count - 1, count - 1), "bytes behind the last entry of a block");
    assert_eq!(entries(count + 1, count + 1), "bytes left in a block");
    assert_eq!(entries(0, 0), "number of entries in a block");
    assert_eq!(entries(count, count - 1), "number of entries in a block");
    // Bytes between the last block and the index.
    let mut longer = [&bytes[..index], &[0; 10], &bytes[index..]].concat();
    longer[end + 10 + 56..end + 10 + 64].copy_from_slice(&(index as u64 + 10).to_le_bytes());
    assert_eq!(refused(longer), "number of blocks");
    let mut fewer = bytes.clone();
    fewer[end + 72] -= 1;
    assert_eq!(refused(fewer), "number of blocks");
    let mut longer = bytes.clone();
    longer[end + 64] += 1;
    assert_eq!(refused(longer), "directory's length");
}

#[test]
fn a_scan_that_failed_does_not_go_on() {
    let (bytes, _) = encode(&sample(40), 300);
    let (disk, file) = store(&bytes);
    let reader = DirectoryReader::open(file, START..START + bytes.len() as u64).unwrap();
    let mut scan = reader.scan(b"");
    assert!(scan.advance().unwrap());
    disk.fail(Operation::Read, 1);
    let error = collect(&mut scan).unwrap_err();
    assert_eq!(scan.advance(), Err(error));
    assert_eq!(collect(&mut reader.scan(b"")).unwrap().len(), 40, "a new one may");
}

#[test]
fn totals_that_do_not_fit_the_blocks_are_found_at_the_end() {
    let (mut bytes, _) = encode(&sample(40), 300);
    let end = bytes.len() - TRAILER_BYTES;
    bytes[end + 24] ^= 1;
    reseal(&mut bytes);
    let text = read_all(&bytes).unwrap_err().to_string();
    assert_eq!(text, format!("some.dir at {}: sum of messages is 2460, should be 2461", START as usize + end));
}

#[test]
fn opening_reads_trailer_and_index_and_a_lookup_one_block() {
    let model = sample(5000);
    let (bytes, _) = encode(&model, BLOCK_BYTES);
    let (disk, file) = store(&bytes);
    let read = |disk: &SimDisk| (disk.counts().of(Operation::Read), disk.counts().bytes_read);
    let reader = DirectoryReader::open(file, START..START + bytes.len() as u64).unwrap();
    let (calls, opened) = read(&disk);
    assert_eq!(calls, 2);
    assert!(opened < bytes.len() as u64 / 50, "{opened} of {} bytes", bytes.len());
    assert!(reader.memory_bytes() < bytes.len() / 50);
    for (name, want) in model.iter().step_by(97) {
        let before = read(&disk);
        assert_eq!(reader.get(name).unwrap().map(|entry| row(&entry)), Some(*want));
        let after = read(&disk);
        assert_eq!(after.0 - before.0, 1);
        assert!(after.1 - before.1 < BLOCK_BYTES as u64 * 3 / 2);
    }
    let before = read(&disk);
    assert_eq!(reader.get(b"a").unwrap(), None, "before the first");
    assert_eq!(collect(&mut reader.subtree(b"tree")).unwrap(), []);
    assert_eq!(collect(&mut reader.subtree(b"site/3/sensor/0003")).unwrap().len(), 1);
    assert!(read(&disk).0 - before.0 <= 4);
}

#[test]
fn a_subtree_leaves_out_its_neighbours_and_does_not_read_them() {
    let mut model: Model = (0..4000_u32).map(|n| (format!("a/b!{n:05}").into_bytes(), (n, 1, 1, 1, 1, 1))).collect();
    for name in ["a/b", "a/b/c", "a/b/c/d", "a/bc"] {
        model.insert(name.into(), (7, 1, 2, 3, 4, 5));
    }
    let (bytes, _) = encode(&model, 1000);
    let (disk, file) = store(&bytes);
    let reader = DirectoryReader::open(file, START..START + bytes.len() as u64).unwrap();
    let before = disk.counts().of(Operation::Read);
    let mut names = Vec::new();
    let mut subtree = reader.subtree(b"a/b");
    while let Some(entry) = subtree.next_entry().unwrap() {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
    }
    assert_eq!(names, ["a/b", "a/b/c", "a/b/c/d"]);
    assert!(disk.counts().of(Operation::Read) - before <= 3);
}

#[test]
fn an_empty_directory_is_a_directory() {
    let (bytes, totals) = encode(&Model::new(), BLOCK_BYTES);
    assert_eq!((bytes.len(), totals), (TRAILER_BYTES, Totals::default()));
    let reader = open(&bytes).unwrap();
    assert_eq!(collect(&mut reader.scan(b"")).unwrap(), []);
    assert_eq!(reader.get(b"a").unwrap(), None);
}

#[test]
fn the_file_of_version_1_is_read_and_still_written() {
    let model = Model::from([
        (b"ais/ship/219".to_vec(), (300, 2, 64, 9, 4096, 0x0123_4567_89AB_CDEF)),
        (b"ais/ship/230".to_vec(), (7, 1, 40, 1000, 8192, u64::MAX)),
        (b"zone".to_vec(), (u32::MAX, 0, 0, 0, u64::MAX, 0)),
    ]);
    let fixture = include_bytes!("fixture-1.bin");
    assert_eq!(read_all(fixture).unwrap(), filtered(&model, |_| true));
    assert!(encode(&model, 30).0 == fixture);
}

#[test]
fn a_topic_with_two_ids_is_refused_with_both_sources() {
    let part = |id| encode(&Model::from([(b"a/b".to_vec(), (id, 1, 1, 1, 1, 1))]), BLOCK_BYTES).0;
    let readers = [1, 1, 2].map(|id| open(&part(id)).unwrap());
    let mut scans = readers.each_ref().map(|reader| reader.scan(b""));
    let mut sources = scans.each_mut().map(|scan| scan as &mut dyn Entries);
    let error = merge(&mut sources, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "topic a/b: id 1 in some.dir, but 2 in some.dir");
}

#[test]
fn counts_past_64_bits_are_refused() {
    let part = |bytes| encode(&Model::from([(b"a".to_vec(), (1, 1, bytes, 1, 1, 1))]), BLOCK_BYTES).0;
    let readers = [u64::MAX, 1].map(|bytes| open(&part(bytes)).unwrap());
    let mut scans = readers.each_ref().map(|reader| reader.scan(b""));
    let mut sources = scans.each_mut().map(|scan| scan as &mut dyn Entries);
    let error = merge(&mut sources, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error, Error::Overflow { topic: "a".into(), what: "bytes" });
    let mut sink = |_: &[u8]| Ok(());
    let mut writer = DirectoryWriter::new(&mut sink);
    writer.push(entry(b"a", &(1, u64::MAX, 1, 1, 1, 1))).unwrap();
    let error = writer.push(entry(b"b", &(1, 1, 1, 1, 1, 1))).unwrap_err();
    assert_eq!(error, Error::Overflow { topic: "b".into(), what: "messages" });
}

#[test]
fn a_merge_stops_at_a_damaged_source_and_at_a_failing_taker() {
    let (bytes, _) = encode(&sample(40), 300);
    let mut damaged = bytes.clone();
    damaged[700] ^= 1;
    let readers = [open(&bytes).unwrap(), open(&damaged).unwrap()];
    let mut scans = readers.each_ref().map(|reader| reader.scan(b""));
    let mut sources = scans.each_mut().map(|scan| scan as &mut dyn Entries);
    let error = merge(&mut sources, &mut |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    let mut scan = readers[0].scan(b"");
    let full = Error::Overflow { topic: "full".into(), what: "bytes" };
    let stopped = merge(&mut [&mut scan], &mut |_| Err(full.clone()));
    assert_eq!(stopped, Err(full));
}

#[test]
fn what_the_sink_fails_with_the_writer_fails_with() {
    let disk = SimDisk::new(1);
    disk.set_capacity(2000);
    let file = disk.create(PATH).unwrap();
    let mut at = 0;
    let mut sink = |part: &[u8]| {
        file.write_at(part, at)?;
        at += part.len() as u64;
        Ok(())
    };
    let mut writer = DirectoryWriter::with_block_bytes(&mut sink, 300);
    let failed = sample(1000).iter().try_for_each(|(name, row)| writer.push(entry(name, row)));
    assert!(matches!(failed, Err(Error::Disk(error)) if error.is_full()));
    drop(disk.open(PATH, Access::Read).unwrap());
}

#[test]
#[should_panic(expected = "names come in order")]
fn names_out_of_order_are_a_mistake() {
    let mut sink = |_: &[u8]| Ok(());
    let mut writer = DirectoryWriter::new(&mut sink);
    writer.push(entry(b"b", &(1, 1, 1, 1, 1, 1))).unwrap();
    let _ = writer.push(entry(b"a", &(1, 1, 1, 1, 1, 1)));
}

#[test]
#[should_panic(expected = "names come in order")]
fn a_name_twice_is_a_mistake() {
    let mut sink = |_: &[u8]| Ok(());
    let mut writer = DirectoryWriter::new(&mut sink);
    writer.push(entry(b"a", &(1, 1, 1, 1, 1, 1))).unwrap();
    let _ = writer.push(entry(b"a", &(1, 1, 1, 1, 1, 1)));
}

#[test]
#[should_panic(expected = "a name has 1 to 1024 bytes")]
fn a_name_too_long_is_a_mistake() {
    let mut sink = |_: &[u8]| Ok(());
    let _ = DirectoryWriter::new(&mut sink).push(entry(&[b'x'; 1025], &(1, 1, 1, 1, 1, 1)));
}

/// Not a test of behaviour: prints sizes and times for a million topics.
#[test]
#[ignore = "a measurement; run with --ignored --nocapture"]
fn measure_a_million_topics() {
    let dir = tempfile::tempdir().unwrap();
    let disk = arioso_disk::RealDisk::open(dir.path()).unwrap();
    let file = disk.create(PATH).unwrap();
    let names: std::collections::BTreeSet<_> =
        (0..1_000_000_u32).map(|n| format!("fleet/{:03}/vessel/{:07}/position", n % 997, n)).collect();
    let mut at = 0;
    let start = std::time::Instant::now();
    let mut sink = |part: &[u8]| {
        file.write_at(part, at)?;
        at += part.len() as u64;
        Ok(())
    };
    let mut writer = DirectoryWriter::new(&mut sink);
    for (n, name) in names.iter().enumerate() {
        let n = n as u64;
        writer
            .push(entry(
                name.as_bytes(),
                &(n as u32, 100 + n % 50, 23_000 + n, 1 << 40 | n, n << 12, n.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            ))
            .unwrap();
    }
    let (_, bytes) = writer.finish().unwrap();
    println!("write {:?}, {bytes} bytes, {:.1} a topic", start.elapsed(), bytes as f64 / 1e6);
    let start = std::time::Instant::now();
    let reader = DirectoryReader::open(file, 0..bytes).unwrap();
    println!("open {:?}, {} bytes in memory", start.elapsed(), reader.memory_bytes());
    let start = std::time::Instant::now();
    let mut scan = reader.scan(b"");
    let mut topics = 0;
    while scan.advance().unwrap() {
        topics += 1;
    }
    println!("scan {:?}, {topics} topics", start.elapsed());
    let start = std::time::Instant::now();
    let looked_up = names.iter().step_by(997).filter(|name| reader.get(name.as_bytes()).unwrap().is_some()).count();
    println!("get {:?} each of {looked_up}", start.elapsed() / looked_up as u32);
    let start = std::time::Instant::now();
    let mut scans: Vec<_> = (0..8).map(|_| reader.scan(b"")).collect();
    let mut sources: Vec<_> = scans.iter_mut().map(|scan| scan as &mut dyn Entries).collect();
    let mut merged = 0;
    merge(&mut sources, &mut |_| {
        merged += 1;
        Ok(())
    })
    .unwrap();
    println!("merge of 8: {:?}, {merged} topics", start.elapsed());
}
