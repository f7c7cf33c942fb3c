//! From recordings to a bus and back.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use arioso::{Begin, Bus};
use arioso_voyage::input::Input;
use serde_json::Value;

use crate::shared::shared;

/// Topic, event time and payload of every message.
fn everything(dir: &Path) -> Vec<(String, Option<i64>, Value)> {
    let bus = Bus::open(dir).unwrap();
    let mut subscription = bus.subscribe(["**"], Begin::Start, true).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = subscription.next_batch().unwrap() {
        for message in batch.messages() {
            let message = message.unwrap();
            let payload = serde_json::from_slice(message.payload()).unwrap();
            all.push((message.topic().to_owned(), message.event_time(), payload));
        }
    }
    bus.close().unwrap();
    all
}

fn import(dir: &Path, file: &Path, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_voyage"));
    let output = command.args(["import", "nmea", "--data"]).args([dir, file]).args(more).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    told
}

const LINES: &str = "\
\\s:2573315,c:1661508206*0D\\!AIVDM,1,1,,A,13HOI:0P0000VOHLCnHQKwvL05Ip,0*23\r
!AIVDM,1,1,,A,13HOI:0P0000VOHLCnHQKwvL05Ip,0*24\r
no sentence\r
!AIVDM,1,1\r
";

#[test]
fn messages_go_to_their_topics_and_what_is_rejected_is_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.nmea");
    std::fs::File::create(&file).unwrap().write_all(LINES.as_bytes()).unwrap();
    let told = import(&dir.path().join("bus"), &file, &[]);
    assert!(told.contains("1 malformed, 1 with a bad checksum") && told.contains("3 published"), "{told}");
    let all = everything(&dir.path().join("bus"));
    let topics: Vec<&str> = all.iter().map(|(topic, ..)| topic.as_str()).collect();
    assert_eq!(topics, ["ais/1/227006760", "ais-rejected/bad_checksum", "ais-rejected/malformed"]);
    assert_eq!(all[0].1, Some(1_661_508_206_000_000_000));
    assert_eq!((&all[0].2["msg_type"], &all[0].2["mmsi"]), (&1.into(), &227_006_760.into()));
    assert_eq!((&all[2].2["lines"][0], &all[2].2["status"]), (&4.into(), &"malformed".into()));
}

#[test]
fn an_import_under_a_name_that_is_repeated_stores_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.nmea");
    std::fs::File::create(&file).unwrap().write_all(LINES.as_bytes()).unwrap();
    let bus = dir.path().join("bus");
    for _ in 0..2 {
        import(&bus, &file, &["--publisher", "harbour"]);
        assert_eq!(everything(&bus).len(), 3);
    }
    import(&bus, &file, &[]);
    assert_eq!(everything(&bus).len(), 6);
}

#[test]
fn every_message_of_a_recording_is_on_the_bus_with_its_fields() {
    let Some(dir) = shared("ais_nmea") else { return };
    let data = tempfile::tempdir().unwrap();
    import(data.path(), &dir.join("aislib_stream_example.nmea"), &[]);
    let want = Input::open(&dir.join("aislib_stream_example.expected.jsonl.zst")).unwrap();
    let want = String::from_utf8(want.read_all(1 << 26).unwrap()).unwrap();
    let got = everything(data.path());
    assert_eq!(got.len(), want.lines().count());
    for ((topic, time, payload), want) in got.iter().zip(want.lines()) {
        let want: HashMap<String, Value> = serde_json::from_str(want).unwrap();
        let fields = want["fields"].as_object().unwrap();
        assert_eq!(*topic, format!("ais/{}/{}", want["msg_type"], fields["mmsi"]));
        assert!(time.is_some(), "a line before tells when");
        assert_eq!(payload["msg_type"], want["msg_type"]);
        assert!(fields.iter().all(|(name, value)| payload[name] == *value), "{payload} {fields:?}");
    }
}
