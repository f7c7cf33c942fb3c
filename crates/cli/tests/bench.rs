//! Every bench once, as small as it goes: what was sent came back, and the JSON line says so. No times are asserted.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn arioso(arguments: &[&str], temporary: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_arioso");
    Command::new(program).args(arguments).env("TMPDIR", temporary).output().expect("the program runs")
}

/// Runs a bench; its last line, and everything it printed.
fn bench(arguments: &[&str]) -> (Value, String) {
    let temporary = tempfile::tempdir().unwrap();
    let output = arioso(&[&["bench"], arguments].concat(), temporary.path());
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "bench {arguments:?}: {error}");
    let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.is_empty(), "bench {arguments:?} leaves {left:?} behind");
    let line = out.lines().next_back().unwrap_or_default();
    (serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}")), out.into_owned())
}

#[test]
fn publishing_counts_every_message_it_was_asked_for() {
    let (line, text) = bench(&[
        "publish",
        "--publishers",
        "3",
        "--window",
        "8",
        "--messages",
        "300",
        "--topics",
        "20",
        "--warmup",
        "0",
        "--seconds",
        "0.1",
        "--runs",
        "2",
        "--recycled",
        "64",
    ]);
    assert_eq!(line["result"]["messages"], 600);
    assert_eq!(line["result"]["window_1_messages"], 600);
    assert!(line["result"]["runs"][1]["limit"]["append_bytes"].as_u64() >= Some(4_096), "{line}");
    assert!(text.contains("messages/s of what append + fdatasync allows"), "{text}");
}

#[test]
fn a_replay_gets_everything_from_every_place() {
    let (line, _) = bench(&[
        "replay",
        "--messages",
        "20000",
        "--topics",
        "200",
        "--many-topics",
        "500",
        "--runs",
        "1",
        "--set",
        "segment-bytes=1MiB",
    ]);
    let readings = line["result"]["readings"].as_array().unwrap();
    assert_eq!(readings.len(), 3 * 3 + 4 + 2);
    let of = |what: &str| -> Vec<u64> {
        let of = readings.iter().filter(|reading| reading["what"].as_str().unwrap().starts_with(what));
        of.map(|reading| reading["messages"].as_u64().unwrap()).collect()
    };
    assert_eq!(of("everything"), [20_000; 5]);
    assert_eq!(of("99.99 % one topic: its filter"), [19_998; 2]);
    let subtree = of("a subtree");
    assert!(subtree[0] > 0 && subtree.iter().all(|messages| *messages == subtree[0]), "{subtree:?}");
}

#[test]
fn the_stuck_one_gets_everything_in_the_end() {
    let (line, _) = bench(&["slow", "--fast", "3", "--messages", "40000", "--size", "300", "--rounds", "1"]);
    assert_eq!(line["result"]["caught_up"], 40_000);
    assert_eq!(line["result"]["messages"], 80_000);
}

#[test]
fn very_many_topics_survive_kill_9() {
    let (line, _) = bench(&["topics", "--topics", "500", "--messages", "2000", "--restarts", "2", "--samples", "2"]);
    assert_eq!(line["result"]["messages"], 2_000);
    assert_eq!(line["result"]["first_messages"].as_array().unwrap().len(), 3);
}

#[test]
fn replies_never_come_before_the_rule_lets_them() {
    for pace in ["open", "closed"] {
        let (line, _) = bench(&[
            "replies",
            "--loop",
            pace,
            "--groups",
            "1,3,per-publisher",
            "--slow-percent",
            "20",
            "--slow-ms",
            "30-60",
            "--publishers",
            "10",
            "--rate",
            "200",
            "--seconds",
            "0.5",
            "--warmup",
            "0.1",
            "--json",
        ]);
        assert_eq!(line["result"]["before_rule"], 0);
        let cells = line["result"]["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 3);
        if pace == "open" {
            assert_eq!(line["result"]["messages"], 300);
        }
        assert!(cells.iter().all(|cell| cell["runs"][0]["slow_writes"]["count"].as_u64() > Some(0)), "{line}");
    }
    let (line, _) = bench(&[
        "replies",
        "--backend",
        "local",
        "--slow-percent",
        "0",
        "--groups",
        "1",
        "--publishers",
        "4",
        "--rate",
        "200",
        "--seconds",
        "0.3",
        "--warmup",
        "0",
    ]);
    assert_eq!(line["result"]["messages"], 60);
}

#[cfg(feature = "postgres")]
#[test]
fn replies_are_measured_on_a_database_behind_a_slow_network() {
    if arioso_journal::postgres::cluster::programs().is_none() {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed, and CI is set: it must be");
        eprintln!("omitted: PostgreSQL is not installed");
        return;
    }
    let (line, _) = bench(&[
        "replies",
        "--backend",
        "postgres",
        "--proxy",
        "--groups",
        "1,per-publisher",
        "--slow-percent",
        "10",
        "--slow-ms",
        "20-40",
        "--publishers",
        "10",
        "--rate",
        "100",
        "--seconds",
        "1",
        "--warmup",
        "0",
        "--json",
    ]);
    assert_eq!((&line["result"]["before_rule"], &line["result"]["messages"]), (&0.into(), &200.into()));
    for cell in line["result"]["cells"].as_array().unwrap() {
        let run = &cell["runs"][0];
        assert!(run["slow_writes"]["count"].as_u64() > Some(0) && run["connections"].as_u64() > Some(0), "{line}");
    }
}

/// A data set of 3,000 messages of 3 topics, and the scenarios' counts.
fn data_set(path: &Path) {
    let mut bytes = b"PBDS0001".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend(3_000u64.to_le_bytes());
    bytes.extend(40u32.to_le_bytes());
    for topic in 0..3u64 {
        let name = ["app/s0/g00/t0", "app/s0/g00/t1", "app/s1/g00/t0"][topic as usize];
        bytes.extend((name.len() as u16).to_le_bytes());
        bytes.extend(name.as_bytes());
        let numbers = (1..=3_000u64).filter(|number| number % 3 == topic);
        bytes.extend((numbers.clone().count() as u64).to_le_bytes());
        bytes.extend(numbers.sum::<u64>().to_le_bytes());
    }
    for number in 1..=3_000u64 {
        let topic = (number % 3) as u32;
        bytes.extend(topic.to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(topic.to_le_bytes());
        bytes.extend([7; 28]);
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn another_runner_s_data_set_goes_in_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    data_set(&set);
    let data = dir.path().join("data");
    let mut server = Command::new(env!("CARGO_BIN_EXE_arioso"))
        .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let out = server.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut ready).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let (addr, set) = (ready["listen"].as_str().unwrap(), set.to_str().unwrap());
    let (loaded, _) = bench(&["peer-load", "--addr", addr, "--file", set]);
    assert_eq!(loaded["messages"], 3_000);
    for (scenario, messages) in [("all", 3_000), ("big", 1_000), ("subtree", 1_000), ("ten", 3_000)] {
        let (read, _) = bench(&["peer-replay", "--addr", addr, "--file", set, "--scenario", scenario]);
        assert_eq!((&read["got"], &read["ok"]), (&messages.into(), &true.into()), "{scenario}: {read}");
    }
    let (published, _) = bench(&["peer-pub", "--addr", addr, "--pubs", "2", "--window", "4", "--secs", "0.2"]);
    assert!(published["messages"].as_u64() > Some(0), "{published}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn what_a_bench_can_t_do_is_refused_as_wrong_use() {
    let temporary = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        (&["publish", "--window", "0"][..], "1 or more"),
        (&["replies", "--groups", "0"], "write-reply-ordering-groups"),
        (&["replay", "--set", "tip-bytes"], "NAME=VALUE"),
        (&["topics", "--topics", "9", "--messages", "3"], "at least as many"),
    ] {
        let output = arioso(&[&["bench"], arguments].concat(), temporary.path());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}
