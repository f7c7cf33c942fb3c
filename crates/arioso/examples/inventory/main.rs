//! A replica of a state machine as a process: `cargo run --example inventory -- 127.0.0.1:7420`. Fill the stream with
//! `arioso pub --jsonl flights_us_2001.jsonl.zst`, run as many replicas as you like, kill them when you like: each prints the
//! same.

#![allow(dead_code, reason = "the tests use the rest")]

mod replica;

use std::io::Write as _;

use arioso::{Bus, Result};

/// Messages between two snapshots.
const SNAPSHOT_EVERY: u64 = 100_000;

fn main() -> Result<()> {
    let server = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7420".to_owned());
    let bus = Bus::connect(&server)?;
    let until = bus.status()?.settled;
    if let Some(state) = replica::run(&bus, until, SNAPSHOT_EVERY, &mut || true)? {
        std::io::stdout().lock().write_all(&state.encode())?;
    }
    bus.close()
}
