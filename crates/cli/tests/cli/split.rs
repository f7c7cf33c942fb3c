//! History split into stores, as a user meets it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::support::*;

/// How long a split may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_slice_of_split_history_is_explained_and_read_without_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let settings =
        ["--tip-bytes", "8MiB", "--checkpoint-segments", "1", "--split-segments", "3", "--stores-per-span", "8"];
    let server = Server::start_with(&data, &settings);
    let mut input = String::new();
    for number in 0..24_000 {
        let topic = number % 40;
        let text = format!("message {number} of a text that says little {number}").repeat(12);
        writeln!(input, "{{\"topic\": \"a/{}/t{topic}\", \"payload\": \"{text}\"}}", topic % 4).unwrap();
    }
    server.run_with_input(&["pub", "--jsonl", "-"], input.as_bytes()).ok();
    // Four segments a span, and two bases before they may go.
    let started = Instant::now();
    let whole = loop {
        let told = server.run(&["explain", "**", "--json"]).json().remove(0);
        if told["stores"].as_u64().unwrap() > 8 {
            break told;
        }
        assert!(started.elapsed() < PATIENCE, "nothing was split: {told} {}", server.log());
        std::thread::sleep(Duration::from_millis(100));
    };
    let one = server.run(&["explain", "a/2/t6", "--json"]).json().remove(0);
    assert!(one["stores"].as_u64() < whole["stores"].as_u64(), "{one} {whole}");
    assert!(one["bytes_useful"].as_u64().unwrap() * 20 < whole["bytes_useful"].as_u64().unwrap(), "{one} {whole}");
    assert!(server.run(&["explain", "a/2/t6"]).ok().contains("bytes to read on disk"));
    server.run(&["explain", "a/**/b"]).fails(2, &["**"]);
    let read = server.run(&["sub", "a/2/t6", "--from", "start", "--until-end", "--format", "raw"]).ok();
    let numbers: Vec<&str> = read.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    let expected: Vec<String> = (0..600).map(|at| (at * 40 + 6).to_string()).collect();
    assert_eq!(numbers, expected);
    let topics = server.run(&["topics", "a/2/t6", "--json"]).json();
    assert_eq!(topics[0]["messages"], 600);
    let backup = dir.path().join("backup");
    server.run(&["backup", backup.to_str().unwrap()]).ok();
    assert!(server.stop().success());
    let inspected = run(&["inspect", backup.to_str().unwrap()]).ok();
    assert!(inspected.contains(".span: sealed") && inspected.contains("every checksum holds"), "{inspected}");
    let restored = Server::start_with(&backup, &settings);
    let again = restored.run(&["sub", "a/2/t6", "--from", "start", "--until-end", "--format", "raw"]).ok();
    assert_eq!(again, read, "spans are part of a backup");
    assert!(restored.stop().success());
    let inspected = run(&["inspect", data.to_str().unwrap()]).ok();
    assert!(inspected.contains(".span: sealed") && inspected.contains("every checksum holds"), "{inspected}");
}
