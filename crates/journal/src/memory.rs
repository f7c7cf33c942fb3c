//! A backend in memory, for the simulator, `bench replies` and tests. Its writes complete, fail or stay unknown on demand, or
//! by a schedule drawn from a seed, in virtual time.
//!
//! ```text
//! submit ─▶ flying ── due, or told by complete() ─▶ durable: replay sees it
//!              │  └─ unknown: written again, due later
//!              └─ crash(): gone, or durable without anybody having been told
//! ```

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use arioso_stream::Sequence;

use crate::backend::{Backend, Completion, Outcome, Replay, ReplayEnd, Room, Write};
use crate::entry::BatchNumber;
use crate::error::Error;

/// How long writes take and what becomes of them. Percentages are of all writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Everything drawn comes from it.
    pub seed: u64,
    /// Microseconds that a write takes.
    pub delay_us: RangeInclusive<u64>,
    /// How many take `slow_us` instead.
    pub slow_percent: f64,
    /// Microseconds that a slow write takes.
    pub slow_us: RangeInclusive<u64>,
    /// How many fail.
    pub failed_percent: f64,
    /// How many are of unknown outcome when due, and are written again, which is drawn anew.
    pub unknown_percent: f64,
}

impl Schedule {
    /// Every write takes as long, and none fails.
    pub fn even(delay_us: u64) -> Schedule {
        Schedule {
            seed: 0,
            delay_us: delay_us..=delay_us,
            slow_percent: 0.0,
            slow_us: 0..=0,
            failed_percent: 0.0,
            unknown_percent: 0.0,
        }
    }
}

/// A write that is not known.
#[derive(Debug)]
struct Flying {
    write: Write,
    due_us: u64,
}

/// The backend in memory.
#[derive(Debug)]
pub struct MemoryBackend {
    durable: BTreeMap<BatchNumber, Write>,
    flying: BTreeMap<BatchNumber, Flying>,
    /// Told on demand and not yet by `advance`.
    told: Vec<Completion>,
    schedule: Option<Schedule>,
    random: u64,
    now_us: u64,
    bytes: u64,
    capacity_bytes: u64,
    writes_max: usize,
    server_epoch: u64,
    fenced_by: Option<u64>,
    lost: bool,
    clean: Option<(Sequence, i64)>,
    shared: bool,
}

impl MemoryBackend {
    /// Writes become known when [`complete`](MemoryBackend::complete) says so. Up to `writes_max` may be in flight, and
    /// `capacity_bytes` may be held.
    pub fn on_demand(capacity_bytes: u64, writes_max: usize) -> MemoryBackend {
        MemoryBackend {
            durable: BTreeMap::new(),
            flying: BTreeMap::new(),
            told: Vec::new(),
            schedule: None,
            random: 0,
            now_us: 0,
            bytes: 0,
            capacity_bytes,
            writes_max,
            server_epoch: 0,
            fenced_by: None,
            lost: false,
            clean: None,
            shared: false,
        }
    }

    /// Another server may take the stream over while this one runs.
    pub fn shared(self) -> MemoryBackend {
        MemoryBackend { shared: true, ..self }
    }

    /// Writes become known by a schedule, in virtual time.
    pub fn scheduled(capacity_bytes: u64, writes_max: usize, schedule: Schedule) -> MemoryBackend {
        MemoryBackend {
            random: schedule.seed,
            schedule: Some(schedule),
            ..MemoryBackend::on_demand(capacity_bytes, writes_max)
        }
    }

    /// Virtual time.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Moves virtual time on. What is due by then is told by the next `advance`.
    pub fn set_now_us(&mut self, now_us: u64) {
        assert!(now_us >= self.now_us, "time does not go back");
        self.now_us = now_us;
    }

    /// When the next write becomes known, by the schedule.
    pub fn next_due_us(&self) -> Option<u64> {
        self.schedule.as_ref()?;
        self.flying.values().map(|flying| flying.due_us).min()
    }

    /// The batches that are not known, in order.
    pub fn flying(&self) -> impl Iterator<Item = BatchNumber> {
        self.flying.keys().copied()
    }

    /// Says what becomes of a write in flight; `advance` tells it.
    pub fn complete(&mut self, number: BatchNumber, outcome: Outcome) {
        if outcome != Outcome::Unknown {
            let flying = self.flying.remove(&number);
            self.keep(flying.expect("a batch in flight").write, outcome);
        }
        self.told.push(Completion { number, outcome });
    }

    fn keep(&mut self, write: Write, outcome: Outcome) {
        match outcome {
            Outcome::Durable => {
                self.durable.insert(write.number, write);
            }
            _ => self.bytes -= write.bytes(),
        }
    }

    /// Another server takes the stream over: nothing is told any more.
    pub fn fence(&mut self, theirs: u64) {
        self.fenced_by = Some(theirs);
    }

    /// Another server takes the stream over while this one runs; gives what that one finds. Each write in flight has landed by
    /// chance (drawn from `seed`) and this one may still be told so; no other write of this one lands any more.
    pub fn take_over(&self, seed: u64) -> MemoryBackend {
        let (durable, schedule, clean) = (self.durable.clone(), self.schedule.clone(), self.clean);
        let flying = self.flying.iter().map(|(number, flying)| {
            let flying = Flying { write: flying.write.clone(), due_us: flying.due_us };
            (*number, flying)
        });
        let found = MemoryBackend { durable, flying: flying.collect(), told: Vec::new(), schedule, clean, ..*self };
        found.crash(seed)
    }

    /// Whether a write is durable.
    pub fn is_durable(&self, number: BatchNumber) -> bool {
        self.durable.contains_key(&number)
    }

    /// The journal is lost at the next `advance`.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// The machine stops: each write in flight is durable by chance (drawn from `seed`), or gone. What comes back is what a
    /// start finds.
    pub fn crash(mut self, seed: u64) -> MemoryBackend {
        self.random ^= seed;
        for (_, flying) in std::mem::take(&mut self.flying) {
            let durable = self.percent(50.0);
            let outcome = if durable { Outcome::Durable } else { Outcome::Failed };
            self.keep(flying.write, outcome);
        }
        self.told.clear();
        (self.fenced_by, self.lost) = (None, false);
        self
    }

    /// The next number of the seed's sequence (splitmix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn percent(&mut self, percent: f64) -> bool {
        // 53 bits: every step of it is a different double.
        let share = (self.draw() >> 11) as f64 / (1u64 << 53) as f64;
        share * 100.0 < percent
    }

    fn within(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let width = u128::from(range.end() - range.start()) + 1;
        let offset = (u128::from(self.draw()) * width) >> 64;
        range.start() + u64::try_from(offset).expect("below the width of a u64 range")
    }

    fn due_us(&mut self) -> u64 {
        let Some(schedule) = self.schedule.clone() else {
            return u64::MAX;
        };
        let delay_us = if self.percent(schedule.slow_percent) {
            self.within(&schedule.slow_us)
        } else {
            self.within(&schedule.delay_us)
        };
        self.now_us.saturating_add(delay_us)
    }

    /// What is due now, earliest first.
    fn come_due(&mut self, schedule: &Schedule, out: &mut Vec<Completion>) {
        let is_due = self.flying.iter().filter(|(_, flying)| flying.due_us <= self.now_us);
        let mut due: Vec<(u64, BatchNumber)> = is_due.map(|(n, flying)| (flying.due_us, *n)).collect();
        due.sort_unstable();
        for (_, number) in due {
            let outcome = if self.percent(schedule.unknown_percent) {
                Outcome::Unknown
            } else if self.percent(schedule.failed_percent) {
                Outcome::Failed
            } else {
                Outcome::Durable
            };
            if outcome == Outcome::Unknown {
                let due_us = self.due_us();
                if let Some(flying) = self.flying.get_mut(&number) {
                    flying.due_us = due_us;
                }
            } else if let Some(flying) = self.flying.remove(&number) {
                self.keep(flying.write, outcome);
            }
            out.push(Completion { number, outcome });
        }
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(theirs) = self.fenced_by {
            return Err(Error::Fenced { ours: self.server_epoch, theirs });
        }
        if self.lost {
            return Err(Error::Lost {
                batch: self.flying.keys().next().map_or(0, |number| number.0),
                doing: "syncing",
                path: "memory".into(),
                source: std::io::Error::other("told to fail"),
            });
        }
        Ok(())
    }
}

impl Backend for MemoryBackend {
    fn replay(&mut self, from: Sequence, replay: &mut dyn Replay) -> Result<ReplayEnd, Error> {
        self.check()?;
        let (mut reserved_to, mut timestamp_floor) = (0, 0);
        for write in self.durable.values() {
            reserved_to = reserved_to.max(field(&write.header, RESERVED_TO));
            timestamp_floor = timestamp_floor.max(field(&write.header, TIMESTAMP).cast_signed());
            if field(&write.header, LAST_SEQUENCE) >= from.0 {
                replay.batch(&write.header, &write.records)?;
            }
        }
        self.server_epoch += 1;
        let (next_sequence, stopped_at) = self.clean.take().unwrap_or((Sequence(reserved_to + 1), 0));
        Ok(ReplayEnd {
            newest_batch: self.durable.keys().next_back().copied(),
            next_sequence,
            timestamp_floor: timestamp_floor.max(stopped_at),
            server_epoch: self.server_epoch,
        })
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn room(&self) -> Room {
        if self.flying.len() >= self.writes_max {
            return Room::Busy;
        }
        match self.capacity_bytes.saturating_sub(self.bytes) {
            0 => Room::DiskFull { free: 0, need: 1 },
            free => Room::Bytes(free),
        }
    }

    fn submit(&mut self, write: Write) {
        assert!(
            matches!(self.room(), Room::Bytes(free) if write.bytes() <= free),
            "batch {} of {} bytes does not fit: {:?}",
            write.number,
            write.bytes(),
            self.room()
        );
        let newest = self.flying.keys().chain(self.durable.keys()).max();
        assert!(newest < Some(&write.number), "batches are submitted in order");
        self.bytes += write.bytes();
        let due_us = self.due_us();
        self.flying.insert(write.number, Flying { write, due_us });
    }

    /// With a schedule, virtual time moves on to the next write that is due, if none is. On demand, what was said is told;
    /// that may be nothing.
    fn advance(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        self.check()?;
        out.append(&mut self.told);
        if let Some(due_us) = self.next_due_us()
            && let Some(schedule) = self.schedule.clone()
        {
            self.now_us = self.now_us.max(due_us);
            self.come_due(&schedule, out);
        }
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), Error> {
        self.check()
    }

    fn stop(&mut self, next: Sequence, timestamp: i64) -> Result<(), Error> {
        self.check()?;
        assert!(self.flying.is_empty(), "writes are in flight at a clean stop");
        self.clean = Some((next, timestamp));
        Ok(())
    }
}

/// Places of fields in a batch header (docs/format.md section 3).
const LAST_SEQUENCE: usize = 64;
const RESERVED_TO: usize = 80;
const TIMESTAMP: usize = 96;

fn field(header: &[u8], at: usize) -> u64 {
    let bytes = header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(bytes.expect("a batch header has its fixed part"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Damage;
    use bytes::Bytes;

    fn write(number: u64, last: u64) -> Write {
        let mut header = vec![0; 128];
        header[LAST_SEQUENCE..LAST_SEQUENCE + 8].copy_from_slice(&last.to_le_bytes());
        header[RESERVED_TO..RESERVED_TO + 8].copy_from_slice(&(last + 1000).to_le_bytes());
        header[TIMESTAMP..TIMESTAMP + 8].copy_from_slice(&(last * 10).to_le_bytes());
        Write { number: BatchNumber(number), header: header.into(), records: Bytes::from(vec![0; 32]) }
    }

    fn advance(backend: &mut MemoryBackend) -> Vec<(u64, Outcome)> {
        let mut out = Vec::new();
        backend.advance(&mut out).unwrap();
        out.iter().map(|done| (done.number.0, done.outcome)).collect()
    }

    #[derive(Default)]
    struct Found(Vec<u64>);

    impl Replay for Found {
        fn batch(&mut self, header: &[u8], _: &[u8]) -> Result<(), Error> {
            self.0.push(field(header, LAST_SEQUENCE));
            Ok(())
        }

        fn damage(&mut self, damage: Damage) -> Result<(), Error> {
            panic!("{damage:?}")
        }
    }

    fn replay(backend: &mut MemoryBackend, from: u64) -> (Vec<u64>, ReplayEnd) {
        let mut found = Found::default();
        let end = backend.replay(Sequence(from), &mut found).unwrap();
        (found.0, end)
    }

    #[test]
    fn writes_become_known_as_told_in_any_order() {
        let mut backend = MemoryBackend::on_demand(10_000, 8);
        for number in 1..=4 {
            backend.submit(write(number, number * 10));
        }
        assert_eq!(advance(&mut backend), []);
        backend.complete(BatchNumber(3), Outcome::Durable);
        backend.complete(BatchNumber(1), Outcome::Unknown);
        backend.complete(BatchNumber(2), Outcome::Failed);
        let want = [(3, Outcome::Durable), (1, Outcome::Unknown), (2, Outcome::Failed)];
        assert_eq!(advance(&mut backend), want);
        backend.complete(BatchNumber(1), Outcome::Durable);
        assert_eq!(advance(&mut backend), [(1, Outcome::Durable)]);
        assert_eq!(backend.flying().collect::<Vec<_>>(), [BatchNumber(4)]);
    }

    #[test]
    fn a_replay_sees_what_is_durable_and_numbers_above_what_was_reserved() {
        let mut backend = MemoryBackend::on_demand(10_000, 8);
        for number in 1..=3 {
            backend.submit(write(number, number * 10));
        }
        backend.complete(BatchNumber(3), Outcome::Durable);
        backend.complete(BatchNumber(1), Outcome::Durable);
        backend.complete(BatchNumber(2), Outcome::Failed);
        let (found, end) = replay(&mut backend, 0);
        assert_eq!(found, [10, 30]);
        assert_eq!((end.newest_batch, end.next_sequence), (Some(BatchNumber(3)), Sequence(1031)));
        assert_eq!((end.timestamp_floor, end.server_epoch), (300, 1));
        assert_eq!(replay(&mut backend, 11).0, [30]);
        // After a clean stop numbering goes on where it ended, once.
        backend.stop(Sequence(31), 333).unwrap();
        let (_, end) = replay(&mut backend, 0);
        assert_eq!((end.next_sequence, end.timestamp_floor), (Sequence(31), 333));
        assert_eq!(replay(&mut backend, 0).1.next_sequence, Sequence(1031));
    }

    #[test]
    fn what_was_in_flight_at_a_crash_is_durable_or_gone_by_the_seed() {
        let found = |seed| {
            let mut backend = MemoryBackend::on_demand(100_000, 64);
            (1..=40).for_each(|number| backend.submit(write(number, number)));
            let mut backend = backend.crash(seed);
            let found = replay(&mut backend, 0).0;
            assert_eq!(advance(&mut backend), []);
            assert_eq!(backend.room(), Room::Bytes(100_000 - 160 * found.len() as u64));
            found
        };
        assert!((1..40).contains(&found(1).len()));
        assert_eq!(found(1), found(1));
        assert_ne!(found(1), found(2));
    }

    #[test]
    fn room_is_told_in_bytes_and_in_writes() {
        let mut backend = MemoryBackend::on_demand(320, 2);
        assert_eq!(backend.room(), Room::Bytes(320));
        backend.submit(write(1, 1));
        assert_eq!(backend.room(), Room::Bytes(160));
        backend.submit(write(2, 2));
        assert_eq!(backend.room(), Room::Busy);
        backend.complete(BatchNumber(1), Outcome::Durable);
        assert_eq!(backend.room(), Room::DiskFull { free: 0, need: 1 });
        backend.complete(BatchNumber(2), Outcome::Failed);
        assert_eq!(backend.room(), Room::Bytes(160));
    }

    #[test]
    fn a_schedule_delays_fails_and_repeats_by_its_seed() {
        let run = |seed| {
            let schedule = Schedule {
                seed,
                delay_us: 100..=200,
                slow_percent: 10.0,
                slow_us: 10_000..=50_000,
                failed_percent: 5.0,
                unknown_percent: 10.0,
            };
            let mut backend = MemoryBackend::scheduled(1 << 30, 8, schedule);
            let mut told = Vec::new();
            for number in 1..=1000 {
                while backend.room() == Room::Busy {
                    let due_us = backend.next_due_us();
                    told.extend(advance(&mut backend));
                    assert_eq!(Some(backend.now_us()), due_us);
                }
                backend.submit(write(number, number));
            }
            (told, backend.now_us())
        };
        let (told, now_us) = run(1);
        assert_eq!((told.clone(), now_us), run(1));
        assert_ne!(told, run(2).0);
        let count = |outcome| told.iter().filter(|(_, is)| *is == outcome).count();
        assert!((20..90).contains(&count(Outcome::Failed)), "{}", count(Outcome::Failed));
        assert!((60..170).contains(&count(Outcome::Unknown)));
        // 100 slow writes of 30 ms over 8 slots.
        assert!((150_000..900_000).contains(&now_us), "{now_us}");
        assert!(told.windows(2).any(|two| two[0].0 > two[1].0), "out of order");
    }

    #[test]
    fn a_fenced_or_lost_journal_tells_nothing_more() {
        let mut backend = MemoryBackend::on_demand(1000, 2);
        backend.submit(write(1, 1));
        backend.complete(BatchNumber(1), Outcome::Durable);
        backend.fence(7);
        let mut out = Vec::new();
        let error = backend.advance(&mut out).unwrap_err().to_string();
        assert_eq!(error, "another server took the stream over: its epoch is 7, this one's 0");
        assert!(backend.confirm().is_err());
        assert!(out.is_empty());
        let mut backend = MemoryBackend::on_demand(1000, 2);
        backend.submit(write(9, 1));
        backend.lose();
        let error = backend.advance(&mut out).unwrap_err().to_string();
        assert_eq!(error, "the journal is lost at batch 9: syncing memory: told to fail");
    }
}
