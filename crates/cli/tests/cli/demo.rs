//! The demo on a small tree.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use crate::support::*;

const FILES: u64 = 60;

/// More than the smallest tip holds.
fn tree(dir: &Path) {
    for n in 0..FILES {
        let sub = dir.join(format!("part-{}/{}", n % 4, n % 3));
        fs::create_dir_all(&sub).unwrap();
        fs::write(sub.join(format!("file {n}")), format!("{n} ").repeat(n as usize * 4_000)).unwrap();
    }
}

fn demo(tree: &Path, temporary: &Path, more: &[&str]) -> std::process::Command {
    let mut command = arioso(&["demo", "--tree"]);
    command.arg(tree).args(more).env("TMPDIR", temporary).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn every_check_holds_what_is_left_out_is_named_and_nothing_stays_behind() {
    let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tree(dir.path());
    fs::write(dir.path().join("part-1/*"), "no topic").unwrap();
    File::create(dir.path().join("part-1/large")).unwrap().set_len((16 << 20) + 1).unwrap();
    std::os::unix::fs::symlink("large", dir.path().join("part-1/link")).unwrap();
    let output = demo(dir.path(), temporary.path(), &[]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{out}");
    let bytes: usize = (0..FILES as usize).map(|n| format!("{n} ").len() * n * 4_000).sum();
    let megabytes = format!("{:.1} MB", bytes as f64 / 1e6);
    for says in [
        &format!("{FILES} files published and acknowledged, {megabytes}, 3 left out;"),
        "left out: 1 larger than a payload may be (16 MiB): ",
        "left out: 1 with a path that is no topic: ",
        "left out: 1 that are links, sockets or devices, not files: ",
        "the server died of signal 9",
        "tip: not a byte was read from disk",
        "disk: it was read from disk",
        "checks held, 0 did not.",
    ] {
        assert!(out.contains(says), "{says:?} is missing in\n{out}");
    }
    assert!(!out.contains("FAILED"), "{out}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "the data directory is removed");
}

#[test]
fn the_data_directory_is_kept_on_request_and_can_be_inspected() {
    let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tree(dir.path());
    let output = demo(dir.path(), temporary.path(), &["--keep", "--all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let kept = fs::read_dir(temporary.path()).unwrap().next().unwrap().unwrap().path();
    assert!(String::from_utf8(output.stderr).unwrap().contains(kept.to_str().unwrap()));
    let told = run(&["inspect", kept.to_str().unwrap(), "--json"]);
    assert_eq!(told.json().last().unwrap()["messages"], FILES + 1);
    told.ok();
}

#[test]
fn a_tree_that_is_none_or_too_small_is_refused() {
    let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (tree, says) in [(dir.path().to_owned(), "0 files"), (dir.path().join("none"), "a directory is wanted")] {
        let output = demo(&tree, temporary.path(), &[]).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(says) && err.contains("--tree"), "{err}");
    }
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_signal_ends_it_and_nothing_stays_behind() {
    let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tree(dir.path());
    let mut child = demo(dir.path(), temporary.path(), &[]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("2. ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before the second step");
    }
    signal(&child, rustix::process::Signal::TERM);
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{err}");
    assert!(err.contains("interrupted"), "{err}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "the data directory is removed");
}
