//! Backends that note when each write was handed over and when it was known, and that never make the log wait for a write: the
//! log's thread is woken when the next one is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arioso_journal::backend::{Replay, ReplayEnd, Wake};
use arioso_journal::delayed::Delayed;
use arioso_journal::local::Local;
use arioso_journal::memory::MemoryBackend;
use arioso_journal::{Backend, BatchNumber, Completion, Error, Outcome, Room, Write};
use arioso_store::batch::BatchHeader;
use arioso_stream::Sequence;
use parking_lot::Mutex;

use super::rule::Written;

/// A backend in real time.
pub trait Paced: Backend {
    /// Time has come to this many microseconds.
    fn at(&mut self, now_us: u64);
    /// Whether asking for completions does not wait for a write that is not due.
    fn is_due(&self) -> bool;
    /// When to ask again though nothing is submitted, in microseconds.
    fn due_us(&self) -> Option<u64>;
    /// What must be done behind the writer's back.
    fn attend(&mut self);
    /// Connections to a database, and the writes that may be in flight there.
    fn connections(&self) -> (u32, u32) {
        (0, 0)
    }
}

/// A backend that works at its own pace.
pub trait Bare: Backend {
    /// What must be done behind the writer's back.
    fn attend(&mut self);
    /// Connections to a database, and the writes that may be in flight there.
    fn connections(&self) -> (u32, u32) {
        (0, 0)
    }
}

impl<B: Bare> Paced for Delayed<B> {
    fn at(&mut self, now_us: u64) {
        self.set_now_us(now_us);
    }

    fn is_due(&self) -> bool {
        true
    }

    fn due_us(&self) -> Option<u64> {
        self.next_due_us()
    }

    fn attend(&mut self) {
        self.inner().attend();
    }

    fn connections(&self) -> (u32, u32) {
        self.inner_ref().connections()
    }
}

#[cfg(feature = "postgres")]
impl Bare for arioso_journal::postgres::Postgres {
    fn attend(&mut self) {}

    fn connections(&self) -> (u32, u32) {
        (arioso_journal::postgres::Postgres::connections(self), self.limit())
    }
}

impl Paced for MemoryBackend {
    fn at(&mut self, now_us: u64) {
        self.set_now_us(now_us.max(self.now_us()));
    }

    fn is_due(&self) -> bool {
        self.next_due_us().is_some_and(|due| due <= self.now_us())
    }

    fn due_us(&self) -> Option<u64> {
        self.next_due_us()
    }

    fn attend(&mut self) {}
}

impl Bare for Local {
    fn attend(&mut self) {
        // On the log's own thread: at this bench's rates a segment lasts longer than a run.
        while let Some(job) = self.next_job() {
            let _ = self.done(job.run());
        }
    }
}

/// Notes what became of which write, and when.
pub struct Watched<B> {
    inner: B,
    began: Instant,
    written: Arc<Mutex<Vec<Written>>>,
    /// Number of the first write noted; they are consecutive.
    first: Option<u64>,
}

impl<B: Paced> Watched<B> {
    /// Watches a backend; times count from `began`.
    pub fn new(inner: B, began: Instant, written: Arc<Mutex<Vec<Written>>>) -> Watched<B> {
        Watched { inner, began, written, first: None }
    }

    /// How long until it wants to be asked though nothing is submitted.
    pub fn wait(&self) -> Option<Duration> {
        let now_us = micros(self.began);
        self.inner.due_us().map(|due| Duration::from_micros(due.saturating_sub(now_us)))
    }

    /// Connections to a database, and the writes that may be in flight there.
    pub fn connections(&self) -> (u32, u32) {
        self.inner.connections()
    }

    /// Does what must be done behind the writer's back.
    pub fn attend(&mut self) {
        self.inner.attend();
    }
}

fn micros(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl<B: Paced> Backend for Watched<B> {
    fn replay(&mut self, from: Sequence, replay: &mut dyn Replay) -> Result<ReplayEnd, Error> {
        self.inner.replay(from, replay)
    }

    fn fails(&self) -> bool {
        self.inner.fails()
    }

    fn room(&self) -> Room {
        self.inner.room()
    }

    fn slots(&self) -> u32 {
        self.inner.slots()
    }

    fn wake_by(&mut self, wake: Wake) {
        self.inner.wake_by(wake);
    }

    fn submit(&mut self, write: Write) {
        let header = BatchHeader::trusted(&write.header);
        let (first, last) = (header.first_sequence(), header.last_sequence());
        self.first.get_or_insert(write.number.0);
        self.inner.at(micros(self.began));
        let submitted = nanos(self.began);
        self.written.lock().push(Written { first, last, submitted, known: u64::MAX });
        self.inner.submit(write);
    }

    fn advance(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        self.inner.at(micros(self.began));
        if !self.inner.is_due() {
            return Ok(());
        }
        let before = out.len();
        self.inner.advance(out)?;
        let known = nanos(self.began);
        let mut written = self.written.lock();
        for Completion { number: BatchNumber(number), outcome } in &out[before..] {
            let at = number - self.first.expect("a write is submitted before it is known");
            if *outcome == Outcome::Durable {
                written[at as usize].known = known;
            }
        }
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), Error> {
        self.inner.confirm()
    }

    fn stop(&mut self, next: Sequence, timestamp: i64) -> Result<(), Error> {
        self.inner.stop(next, timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arioso_journal::memory::Schedule;
    use arioso_store::batch::{BatchParts, NamesBuilder};
    use bytes::Bytes;

    #[test]
    fn a_write_is_known_when_it_is_due_and_not_waited_for() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let inner = MemoryBackend::scheduled(1 << 20, 8, Schedule::even(20_000));
        let mut backend = Watched::new(inner, Instant::now(), Arc::clone(&written));
        let parts = BatchParts {
            number: 7,
            first_sequence: 3,
            last_sequence: 5,
            synced_to: 6,
            reserved_to: 100,
            settled_to: 2,
            timestamp: 1,
            server_epoch: 1,
            records_count: 0,
            names: NamesBuilder::default().take(),
            runs: Vec::new(),
            records: Bytes::new(),
            records_crc: 0,
        };
        let mut header = Vec::new();
        parts.encode_unplaced(&mut header);
        backend.submit(Write { number: BatchNumber(7), header: header.into(), records: Bytes::new() });
        let mut out = Vec::new();
        backend.advance(&mut out).unwrap();
        assert_eq!(out, []);
        let wait = backend.wait().unwrap();
        assert!(wait <= Duration::from_millis(20), "{wait:?}");
        while out.is_empty() {
            std::thread::sleep(backend.wait().unwrap_or_default());
            backend.advance(&mut out).unwrap();
        }
        let write = written.lock()[0];
        assert_eq!((write.first, write.last), (3, 5));
        assert!(write.known - write.submitted >= 19_000_000, "{write:?}");
    }
}
