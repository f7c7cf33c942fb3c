//! Drives a split: step by step, at a bounded pace, behind every sync of the journal.
//!
//! ```text
//!   step (a slice) ──▶ a sync waits? it goes first ──▶ faster than allowed? pause ──▶ step ...
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use arioso_store::Error;
use arioso_store::stores::{SpanInfo, Split, SplitProgress};
use parking_lot::{Condvar, Mutex};

use crate::metrics::add;
use crate::node::Node;

/// How long one sync is let go first: under a steady load one follows another, and splitting must come to an end.
const YIELD_MAX: Duration = Duration::from_millis(20);
/// The nice value of the splitter's thread.
const NICE: i32 = 10;

/// Tells whether the journal is making something durable.
#[derive(Debug, Default)]
pub struct SyncGate {
    syncing: Mutex<bool>,
    over: Condvar,
}

impl SyncGate {
    /// A sync begins or is over.
    pub fn set(&self, syncing: bool) {
        *self.syncing.lock() = syncing;
        if !syncing {
            self.over.notify_all();
        }
    }

    /// Lets a sync that is under way go first.
    fn yield_to_sync(&self) {
        let mut syncing = self.syncing.lock();
        if *syncing {
            self.over.wait_for(&mut syncing, YIELD_MAX);
        }
    }
}

/// Keeps the bytes of a split to so many a second.
struct Pace {
    bytes_per_second: u64,
    /// When what was done so far would have been done at that speed.
    due: Instant,
}

impl Pace {
    fn new(bytes_per_second: u64) -> Pace {
        Pace { bytes_per_second, due: Instant::now() }
    }

    /// How long to wait after so many bytes.
    fn after(&mut self, bytes: u64, now: Instant) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        let took = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        // Time that was not used is not saved up.
        self.due = (self.due + took).max(now);
        self.due.saturating_duration_since(now)
    }
}

/// The splitter's thread: ends when the log's does. `done` takes each split's end.
pub fn work(take: &Receiver<Split>, node: &Node, stop: &AtomicBool, done: &dyn Fn(Result<SpanInfo, Error>)) {
    // Refused where the system does not allow it: splitting then merely competes.
    let _ = rustix::process::nice(NICE);
    while let Ok(split) = take.recv() {
        done(drive(split, node, stop));
    }
}

fn drive(mut split: Split, node: &Node, stop: &AtomicBool) -> Result<SpanInfo, Error> {
    let mut pace = Pace::new(node.settings.split_bytes_per_second);
    loop {
        if stop.load(Ordering::Acquire) {
            // What was written belongs to no span in charge: the next start removes it and begins anew.
            return Err(abandoned(&split));
        }
        node.syncing.yield_to_sync();
        match split.step() {
            Ok(SplitProgress::Working { bytes }) => {
                add(&node.counters.split_bytes, bytes);
                let now = Instant::now();
                pause_until(now + pace.after(bytes, now), stop);
            }
            Ok(SplitProgress::Done(info)) => return Ok(*info),
            Err(error) => {
                if let Err(error) = split.clean_up() {
                    tracing::warn!("what a failed split wrote stays until the next start: {error}");
                }
                return Err(error);
            }
        }
    }
}

/// Whoever sets `stop` unparks this thread.
fn pause_until(due: Instant, stop: &AtomicBool) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Acquire) {
            return;
        }
        std::thread::park_timeout(left);
    }
}

fn abandoned(split: &Split) -> Error {
    Error::Malformed {
        file: arioso_store::stores::span_path(split.span()),
        offset: 0,
        what: "state of the split",
        got: 0,
        want: "finished; the server stopped before it was".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_keeps_to_its_speed_and_saves_nothing_up() {
        let start = Instant::now();
        let mut pace = Pace { bytes_per_second: 1_000, due: start };
        let second = Duration::from_secs(1);
        assert_eq!(pace.after(1_000, start), second);
        assert_eq!(pace.after(1_000, start), 2 * second);
        let later = start + 60 * second;
        assert_eq!(pace.after(1_000, later), Duration::ZERO);
        assert_eq!(pace.after(1_000, later), second);
    }

    #[test]
    fn a_sync_goes_first_and_wakes_the_splitter_when_it_is_over() {
        let gate = SyncGate::default();
        gate.yield_to_sync();
        gate.set(true);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| gate.yield_to_sync());
            gate.set(false);
            waiter.join().unwrap();
        });
    }
}
