//! `inspect` on directories that a server wrote, and that were harmed.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use twox_hash::XxHash3_64;

use crate::support::*;

/// A directory with several segments, cleanly stopped.
fn written(dir: &Path) -> PathBuf {
    let data = dir.join("data");
    let server = Server::start(&data);
    let payload = "0123456789abcdef".repeat(500);
    let text: String =
        (0..400).map(|n| format!("{{\"topic\":\"t/{}\",\"payload\":\"{payload}\"}}\n", n % 10)).collect();
    server.run_with_input(&["pub", "--jsonl", "-", "--publisher", "writer"], text.as_bytes()).ok();
    assert_eq!(server.stop().code(), Some(0));
    data
}

fn inspect(data: &Path) -> Ran {
    run(&["inspect", data.to_str().unwrap()])
}

fn inspect_json(data: &Path) -> (Option<i32>, Vec<Value>) {
    let ran = run(&["inspect", data.to_str().unwrap(), "--json"]);
    (ran.code, ran.json())
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// Every file with a hash of its bytes.
fn everything(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path));
        } else {
            let hash = XxHash3_64::oneshot(&fs::read(&path).unwrap());
            all.insert(path, hash);
        }
    }
    all
}

fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

#[test]
fn a_healthy_directory_is_listed_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let data = written(dir.path());
    let before = everything(&data);
    let text = inspect(&data).ok();
    assert!(text.contains("every checksum holds, nothing is missing"), "{text}");
    assert!(text.starts_with("stream \"main\", id "), "{text}");
    let (code, lines) = inspect_json(&data);
    assert_eq!((code, everything(&data) == before), (Some(0), true));
    let total = lines.last().unwrap();
    assert_eq!((&total["kind"], &total["healthy"], &total["clean"]), (&"total".into(), &true.into(), &true.into()));
    assert_eq!((&total["messages"], &total["damaged"]), (&400.into(), &0.into()));
    let held = of_kind(&lines, "segment").into_iter().filter(|row| row["messages"].as_u64() > Some(0));
    let counted: u64 = held.clone().map(|row| row["messages"].as_u64().unwrap()).sum();
    assert!(counted == 400 && held.clone().count() > 2, "{lines:?}");
    let mut last = 0;
    for row in held {
        assert!(row["first"].as_u64().unwrap() > last && row["batches"].as_u64() > Some(0), "{row}");
        assert!(row["first_ts"].as_i64() <= row["last_ts"].as_i64() && row["bytes"].as_u64() > Some(0), "{row}");
        last = row["last"].as_u64().unwrap();
    }
}

#[test]
fn a_directory_that_a_server_has_open_is_refused_naming_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    inspect(&data).fails(1, &["lock", "process", data.to_str().unwrap()]);
    server.run(&["pub", "a", "1"]).ok();
    drop(server);
    inspect(&data).ok();
}

#[test]
fn a_directory_without_a_stream_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    inspect(dir.path()).fails(1, &["there is no stream in it"]);
    inspect(&dir.path().join("missing")).fails(1, &["missing"]);
    assert_eq!(everything(dir.path()).len(), 0);
    let data = written(dir.path());
    fs::remove_file(data.join("stream")).unwrap();
    inspect(&data).fails(1, &["stream is missing"]);
}

#[test]
fn a_torn_tail_is_named_and_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    server.run(&["pub", "a", "1"]).ok();
    server.kill();
    let (_, lines) = inspect_json(&data);
    let rows = of_kind(&lines, "segment");
    let newest = rows.iter().rfind(|row| row["state"] == "unsealed").unwrap();
    let path = data.join(newest["file"].as_str().unwrap());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"half of a batch", 512 << 10).unwrap();
    let (code, lines) = inspect_json(&data);
    assert_eq!(code, Some(0), "{lines:?}");
    let torn = of_kind(&lines, "torn");
    assert_eq!(torn.len(), 1, "{lines:?}");
    let end = torn[0]["offset"].as_u64().unwrap() + torn[0]["bytes"].as_u64().unwrap();
    assert_eq!((end, &torn[0]["file"]), ((512 << 10) + 4096, &newest["file"]));
    assert!(inspect(&data).ok().contains("torn "));
    let server = Server::start(&data);
    assert!(server.log().contains("that were being written"), "{}", server.log());
    assert_eq!(server.run(&["sub", "a", "--from", "start", "--until-end", "--format", "raw"]).ok(), "1\n");
}

#[test]
fn a_flipped_bit_is_named_with_its_file_and_what_can_not_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    // The name of a topic may be lost with the batch that tells it.
    let sequences = [("b", "1"), ("a", "2"), ("a", "3")].map(|(topic, payload)| {
        let told = server.run(&["pub", topic, payload]).json();
        told[0]["seq"].clone()
    });
    assert_eq!(server.stop().code(), Some(0));
    // The header, the batch of one page that every start begins with, then that of the first message.
    let offset = 2 * 4096;
    flip(&data.join("journal/0000000000000001.seg"), offset + 140);
    let (code, lines) = inspect_json(&data);
    assert_eq!(code, Some(1), "{lines:?}");
    let damage = of_kind(&lines, "damage");
    assert_eq!(damage.len(), 1, "{lines:?}");
    let expected = serde_json::json!({
        "kind": "damage", "file": "journal/0000000000000001.seg", "segment": 1, "offset": offset, "bytes": 4096,
        "first": sequences[0], "last": sequences[0],
    });
    assert_eq!(*damage[0], expected);
    let segments = of_kind(&lines, "segment");
    assert_eq!((&segments[0]["state"], &segments[0]["messages"]), (&"damaged".into(), &2.into()), "{lines:?}");
    inspect(&data).fails(1, &["1 stretches of the stream can't be read"]);
    // A server names the same, and reads what is left.
    let server = Server::start(&data);
    assert!(server.log().contains("is damaged at 8192"), "{}", server.log());
    let from = sequences[1].to_string();
    let left = server.run(&["sub", "a", "--from", &from, "--until-end", "--format", "raw"]).ok();
    assert_eq!(left, "2\n3\n");
    server.run(&["sub", "a", "--from", "start", "--until-end"]).fails(1, &["damaged"]);
}

#[test]
fn a_flipped_bit_in_a_base_a_footer_or_a_manifest_is_named_and_made_good_by_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = written(dir.path());
    let (_, lines) = inspect_json(&data);
    let rows = of_kind(&lines, "segment");
    let sealed = rows.iter().find(|row| row["state"] == "sealed").expect("segments are sealed while the server runs");
    let bytes = sealed["file_bytes"].as_u64().unwrap();
    flip(&data.join(sealed["file"].as_str().unwrap()), bytes - 4096 + 70);
    flip(&data.join("manifest.a"), 20);
    flip(&data.join("epoch"), 20);
    let (code, lines) = inspect_json(&data);
    assert_eq!((code, of_kind(&lines, "damage").len(), of_kind(&lines, "wrong").len()), (Some(1), 0, 3), "{lines:?}");
    let server = Server::start(&data);
    let all = server.run(&["sub", "**", "--from", "start", "--until-end"]).json();
    assert_eq!(all.len(), 400);
    assert_eq!(server.stop().code(), Some(0));
    let (_, lines) = inspect_json(&data);
    assert_eq!(of_kind(&lines, "damage").len(), 0, "{lines:?}");
}

#[test]
fn a_missing_segment_is_named_with_its_range() {
    for last in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let data = written(dir.path());
        let (_, lines) = inspect_json(&data);
        let mut rows = of_kind(&lines, "segment").into_iter().filter(|row| row["messages"].as_u64() > Some(0));
        let row = if last { rows.next_back() } else { rows.nth(1) }.unwrap();
        fs::remove_file(data.join(row["file"].as_str().unwrap())).unwrap();
        let (code, lines) = inspect_json(&data);
        assert_eq!(code, Some(1), "{lines:?}");
        let damage = of_kind(&lines, "damage");
        assert_eq!(damage.len(), 1, "{lines:?}");
        assert_eq!(
            ["file", "first", "last"].map(|key| &damage[0][key]),
            ["file", "first", "last"].map(|key| &row[key])
        );
        let missing = of_kind(&lines, "segment").into_iter().filter(|row| row["state"] == "missing").count();
        assert_eq!(missing, 1, "{lines:?}");
        inspect(&data).fails(1, &["each is named above"]);
        let server = Server::start(&data);
        assert!(server.log().contains(row["file"].as_str().unwrap()), "{}", server.log());
    }
}
