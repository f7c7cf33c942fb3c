//! What is kept: retention, and what readers and cursors behind it are told.

use std::fs;
use std::path::Path;

use crate::support::*;

const MIB: u64 = 1 << 20;

/// Bytes of all files below a directory.
fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk_bytes(&entry.path()),
        Ok(found) => found.len(),
        // It was renamed or removed meanwhile.
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// So many messages of 1 KiB as JSON lines.
fn kibibytes(count: usize) -> Vec<u8> {
    let line = format!("{{\"topic\":\"load/a\",\"payload\":\"{}\"}}\n", "x".repeat(960));
    line.repeat(count).into_bytes()
}

#[test]
fn the_disk_stays_within_its_budget_and_who_is_behind_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start_with(&data, &["--retention-bytes", "8MiB", "--tip-bytes", "8MiB"]);
    server.run(&["pub", "first", "x"]).ok();
    server.run(&["sub", "**", "--cursor", "behind", "--count", "1"]).ok();
    let mut most = 0;
    for _ in 0..12 {
        server.run_with_input(&["pub", "--jsonl", "-"], &kibibytes(2_048)).ok();
        most = most.max(disk_bytes(&data));
    }
    assert!(most <= 9 * MIB, "{most} bytes on disk, the budget is 8 MiB and a segment");
    let trimmed = server.run(&["sub", "**", "--from", "1", "--until-end"]);
    trimmed.fails(1, &["sequence 1 is not kept any more", "--from"]);
    let trimmed = server.run(&["sub", "**", "--cursor", "behind", "--until-end"]);
    let told = trimmed.fails(1, &["is not kept any more", "arioso cursors set behind"]);
    let words: Vec<&str> = told.err.split_whitespace().collect();
    let first = words[words.iter().position(|word| *word == "behind").unwrap() + 1];
    server.run(&["cursors", "set", "behind", first]).ok();
    let read = server.run(&["sub", "**", "--cursor", "behind", "--until-end"]);
    let kept = read.json().len();
    assert!(kept > 1_000, "{kept} messages are kept: {}", read.err);
    let newest = server.run(&["sub", "**", "--from", "last", "--until-end"]).json();
    assert_eq!(newest.iter().map(|line| line["topic"].as_str().unwrap()).collect::<Vec<_>>(), ["load/a"]);
    server.kill();
    run(&["inspect", &data.display().to_string()]).ok();
    let server = Server::start_with(&data, &["--retention-bytes", "8MiB", "--tip-bytes", "8MiB"]);
    assert_eq!(server.run(&["cursors", "list", "--json"]).json()[0]["name"], "behind", "it outlived its segment");
}

#[test]
fn a_budget_too_small_for_the_segments_is_refused_with_what_would_be_right() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").display().to_string();
    run(&["serve", "--data", &data, "--retention-bytes", "100MiB"])
        .fails(2, &["retention-bytes", "at least 8 segments"]);
}

#[test]
fn a_backup_taken_under_load_has_everything_acknowledged_by_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let server = Server::start(&data);
    server.run_with_input(&["pub", "--jsonl", "-", "--publisher", "p"], &kibibytes(3_000)).ok();
    server.run(&["sub", "load/a", "--cursor", "c", "--count", "1000"]).ok();
    let load = server.spawn(&["sub", "load/**", "--from", "live"]);
    let (address, stop) = (server.address.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let stopped = std::sync::Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        let mut acknowledged = Vec::new();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let told = run(&["pub", "load/b", "x", "--server", &address]).json();
            acknowledged.push(told[0]["seq"].as_u64().unwrap());
        }
        acknowledged
    });
    let out = backup.display().to_string();
    let told = server.run(&["backup", &out]).json();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let acknowledged = writer.join().unwrap();
    let through = told[0]["through"].as_u64().unwrap();
    server.run(&["backup", &out]).fails(1, &["not empty"]);
    drop(load);
    server.kill();
    run(&["inspect", &out]).ok();
    let restored = Server::start(&backup);
    let kept = restored.run(&["sub", "**", "--from", "start", "--until-end"]).json();
    let kept: Vec<u64> = kept.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert!(kept.len() >= 3_000);
    let missing: Vec<_> = acknowledged.iter().filter(|seq| **seq <= through && !kept.contains(seq)).collect();
    assert!(missing.is_empty(), "{missing:?} were acknowledged by {through}");
    assert_eq!(restored.run(&["sub", "load/a", "--cursor", "c", "--until-end"]).json().len(), 2_000);
    let again = restored.run(&["pub", "load/c", "after", "--publisher", "p"]).json()[0]["seq"].as_u64().unwrap();
    assert!(again > *acknowledged.iter().max().unwrap_or(&through), "no number is used twice");
}
