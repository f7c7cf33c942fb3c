//! The decoder on real recordings and on what chance makes of them.

use std::path::Path;

use arioso_voyage::error::Result;
use arioso_voyage::input::Input;
use arioso_voyage::nmea::{Counts, JsonLines, Outcome, Record, Sink, import::Decoder, sentence};
use proptest::prelude::*;

use crate::shared::shared;

/// Keeps what it is given.
#[derive(Default)]
struct Kept(Vec<Record>);

impl Sink for Kept {
    fn take(&mut self, record: Record) -> Result<()> {
        self.0.push(record);
        Ok(())
    }
}

fn decode<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Record>, Counts) {
    let mut kept = Kept::default();
    let mut decoder = Decoder::default();
    for line in lines {
        decoder.line(line, &mut kept).expect("memory takes all");
    }
    let counts = decoder.finish(&mut kept).expect("memory takes all");
    (kept.0, counts)
}

fn statuses(text: &str) -> Vec<(Vec<u64>, &'static str)> {
    let (records, _) = decode(text.lines().map(str::as_bytes));
    records.into_iter().map(|r| (r.lines, r.outcome.status())).collect()
}

#[test]
fn every_recording_decodes_to_the_expected_records() {
    let Some(dir) = shared("ais_nmea") else {
        return;
    };
    let mut files = 0;
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for nmea in names.iter().filter(|p| p.extension().is_some_and(|e| e == "nmea")) {
        let mut got = JsonLines(Vec::new());
        arioso_voyage::nmea::import(Input::open(nmea).unwrap(), &mut got).unwrap();
        let got = String::from_utf8(got.0).unwrap();
        let want = Input::open(&nmea.with_extension("expected.jsonl.zst")).unwrap();
        let want = String::from_utf8(want.read_all(1 << 26).unwrap()).unwrap();
        compare(nmea, &got, &want);
        files += 1;
    }
    assert_eq!(files, 9);
}

/// Byte for byte, which holds order and number format too.
fn compare(file: &Path, got: &str, want: &str) {
    for (at, (got, want)) in got.lines().zip(want.lines()).enumerate() {
        assert_eq!(got, want, "{} record {}", file.display(), at + 1);
    }
    assert_eq!(got.lines().count(), want.lines().count(), "{}", file.display());
}

const PART_1: &str = "!BSVDM,2,1,3,A,58IIrt025jfSUKW;;:0l4E9<f18E<tiE@F22220P3iVUO6oS0>4kmE28,0*70";
const PART_2: &str = "!BSVDM,2,2,3,A,0DSQH1RAC188880,2*50";
const SINGLE: &str = "!AIVDM,1,1,,A,13HOI:0P0000VOHLCnHQKwvL05Ip,0*23";

#[test]
fn a_bad_line_between_the_parts_of_a_message_harms_nothing_else() {
    let broken = SINGLE.replace("*23", "*24");
    let text = format!("{PART_1}\n{broken}\n!AIVDM,1,1\n\u{1}\u{ff}\n{PART_2}\n{SINGLE}\n");
    let want = [(vec![2], "bad_checksum"), (vec![3], "malformed"), (vec![1, 5], "ok"), (vec![6], "ok")];
    assert_eq!(statuses(&text), want);
}

#[test]
fn an_incomplete_message_is_told_in_its_place_among_the_others() {
    let text = format!("{SINGLE}\n{PART_2}\n{SINGLE}\n");
    assert_eq!(statuses(&text), [(vec![1], "ok"), (vec![2], "incomplete"), (vec![3], "ok")]);
}

#[test]
fn a_sentence_with_an_empty_payload_is_undecodable() {
    assert_eq!(statuses("!AIVDM,1,1,,A,,0*26"), [(vec![1], "undecodable")]);
}

/// A line and what chance does to it.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just(PART_1.as_bytes().to_vec()),
        Just(PART_2.as_bytes().to_vec()),
        Just(SINGLE.as_bytes().to_vec()),
        Just(b"\\g:1-2-27300*5F\\!SAVDM,2,1,2,B,55Mw@A7J1adAL@?;7WPl58F0U<h4pB222222220t1P,0*26".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..100),
        // any payload in a sentence with a right checksum reaches the message decoder
        (1..=3u8, 1..=3u8, proptest::collection::vec(any::<u8>(), 0..120), 0..8u8).prop_map(
            |(parts, part, payload, fill)| {
                let armour = payload.iter().map(|b| match b % 64 {
                    low @ 0..40 => (b'0' + low) as char,
                    high => (b'8' + high) as char,
                });
                let body = format!("AIVDM,{parts},{part},1,B,{},{fill}", armour.collect::<String>());
                let sum = body.bytes().fold(0, |sum, b| sum ^ b);
                format!("!{body}*{sum:02X}").into_bytes()
            }
        ),
    ];
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..4);
    (line, edits).prop_map(|(mut line, edits)| {
        for (at, byte, what) in edits {
            let at = at.index(line.len() + 1);
            match what {
                0 => line.truncate(at),
                1 => line.insert(at, byte),
                2 if at < line.len() => line[at] = byte,
                3 if at < line.len() => drop(line.remove(at)),
                _ => {}
            }
        }
        line
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_the_lines_hold_each_sentence_is_in_one_record_in_order(
        lines in proptest::collection::vec(mutated(), 0..40)
    ) {
        let (records, counts) = decode(lines.iter().map(Vec::as_slice));
        let last: Vec<u64> = records.iter().map(Record::last_line).collect();
        prop_assert!(last.is_sorted());
        let mut told: Vec<u64> = records.iter().flat_map(|r| r.lines.clone()).collect();
        told.sort_unstable();
        let sentences: Vec<u64> =
            (1..).zip(&lines).filter(|(_, l)| sentence::find(l).is_some()).map(|(n, _)| n).collect();
        prop_assert_eq!(&told, &sentences);
        prop_assert_eq!(counts.sentences, sentences.len() as u64);
        let ok = records.iter().filter(|r| matches!(r.outcome, Outcome::Message(..))).count();
        prop_assert_eq!(counts.messages, ok as u64);
        for record in &records {
            serde_json::to_string(record).unwrap();
        }
    }
}
