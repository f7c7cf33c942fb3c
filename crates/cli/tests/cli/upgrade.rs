//! A data directory of each version that was ever released is kept and opened by every later one.
//!
//! ```text
//! fixtures/data-vN.zst   zstd of: u32 path bytes, the path, u64 bytes, the bytes; again for each file
//! ```

use std::fs;
use std::path::Path;

use crate::support::*;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fixtures")
}

fn pack(dir: &Path, under: &str, out: &mut Vec<u8>) {
    let mut entries: Vec<_> = fs::read_dir(dir.join(under)).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        let path = if under.is_empty() { name } else { format!("{under}/{name}") };
        if entry.file_type().unwrap().is_dir() {
            pack(dir, &path, out);
            continue;
        }
        let bytes = fs::read(entry.path()).unwrap();
        out.extend_from_slice(&(path.len() as u32).to_le_bytes());
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}

fn unpack(mut bytes: &[u8], dir: &Path) {
    let mut take = |count: usize| {
        let (front, rest) = bytes.split_at(count);
        bytes = rest;
        front.to_vec()
    };
    loop {
        let path_bytes = take(4);
        let path = String::from_utf8(take(u32::from_le_bytes(path_bytes.try_into().unwrap()) as usize)).unwrap();
        if path.is_empty() {
            return;
        }
        let count = u64::from_le_bytes(take(8).try_into().unwrap());
        let content = take(count as usize);
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
}

/// Writes the fixture of the version that runs: `cargo test -p arioso-cli --test cli -- --ignored writes_the_fixture`. Only before a
/// version is released, never over one that was.
#[test]
#[ignore = "writes a file of the repository"]
fn writes_the_fixture() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    server.run(&["pub", "orders/1", "new", "--publisher", "shop", "--header", "k=v"]).ok();
    server.run(&["pub", "orders/2", "new", "--publisher", "shop"]).ok();
    server.run(&["sub", "orders/**", "--cursor", "billing", "--count", "1"]).ok();
    let line = format!("{{\"topic\":\"load/a\",\"payload\":\"{}\"}}\n", "x".repeat(960));
    server.run_with_input(&["pub", "--jsonl", "-"], line.repeat(2_500).as_bytes()).ok();
    server.run(&["pub", "orders/1", "paid", "--expect", "orders/1=2"]).ok();
    server.kill();
    let mut packed = Vec::new();
    pack(&data, "", &mut packed);
    packed.extend_from_slice(&0u32.to_le_bytes());
    fs::create_dir_all(folder()).unwrap();
    fs::write(folder().join("data-v1.zst"), zstd::encode_all(&packed[..], 19).unwrap()).unwrap();
}

#[test]
fn a_directory_of_every_version_is_opened_read_and_written_on() {
    let mut versions = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let packed = zstd::decode_all(&fs::read(entry.unwrap().path()).unwrap()[..]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        unpack(&packed, &data);
        run(&["inspect", &data.display().to_string()]).ok();
        let server = Server::start(&data);
        let orders = server.run(&["sub", "orders/**", "--from", "start", "--until-end"]).json();
        let told: Vec<_> = orders.iter().map(|line| line["payload"].as_str().unwrap()).collect();
        assert_eq!(told, ["new", "new", "paid"]);
        assert_eq!(orders[0]["headers"]["k"], "v");
        assert_eq!(server.run(&["sub", "orders/**", "--cursor", "billing", "--until-end"]).json().len(), 2);
        assert_eq!(server.run(&["sub", "load/a", "--from", "start", "--until-end"]).json().len(), 2_500);
        let publishers = server.run(&["publishers", "list", "--json"]).json();
        assert_eq!((&publishers[0]["name"], &publishers[0]["last"]), (&"shop".into(), &2.into()));
        let last = orders[2]["seq"].as_u64().unwrap();
        server.run(&["pub", "orders/1", "sent", "--expect", &format!("orders/1={last}")]).ok();
        versions += 1;
    }
    assert!(versions >= 1);
}
