//! Any backend, some of whose writes take longer: for tests and measurements. What a write came to is told later than it is
//! known, by delays drawn from a seed.
//!
//! ```text
//! inner: known ──▶ draw: told at once, or held until now + delay ──▶ told
//! ```

use std::ops::RangeInclusive;

use arioso_stream::Sequence;

use crate::backend::{Backend, Completion, Outcome, Replay, ReplayEnd, Room, Wake, Write};
use crate::error::Error;

/// Which writes are delayed, and by how much.
#[derive(Clone, Debug)]
pub struct Delays {
    /// Everything drawn comes from it.
    pub seed: u64,
    /// How many of a hundred writes.
    pub percent: f64,
    /// Microseconds.
    pub delay_us: RangeInclusive<u64>,
}

/// A backend whose writes are delayed. It is told the time.
#[derive(Debug)]
pub struct Delayed<B> {
    inner: B,
    delays: Delays,
    random: u64,
    now_us: u64,
    held: Vec<(u64, Completion)>,
}

impl<B: Backend> Delayed<B> {
    /// Delays what `inner` does.
    pub fn new(inner: B, delays: Delays) -> Delayed<B> {
        Delayed { inner, random: delays.seed, delays, now_us: 0, held: Vec::new() }
    }

    /// The backend itself.
    pub fn inner(&mut self) -> &mut B {
        &mut self.inner
    }

    /// The backend itself, to look at.
    pub fn inner_ref(&self) -> &B {
        &self.inner
    }

    /// Moves time on.
    pub fn set_now_us(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// When something held is to be told.
    pub fn next_due_us(&self) -> Option<u64> {
        self.held.iter().map(|(due, _)| *due).min()
    }

    /// The next number of the seed's sequence (splitmix64), from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl<B: Backend> Backend for Delayed<B> {
    fn replay(&mut self, from: Sequence, replay: &mut dyn Replay) -> Result<ReplayEnd, Error> {
        self.inner.replay(from, replay)
    }

    fn fails(&self) -> bool {
        self.inner.fails()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn room(&self) -> Room {
        self.inner.room()
    }

    fn slots(&self) -> u32 {
        // What is held is in flight for everybody outside.
        match self.inner.slots() {
            u32::MAX => u32::MAX,
            slots => slots.saturating_sub(u32::try_from(self.held.len()).unwrap_or(u32::MAX)),
        }
    }

    fn wake_by(&mut self, wake: Wake) {
        self.inner.wake_by(wake);
    }

    fn submit(&mut self, write: Write) {
        self.inner.submit(write);
    }

    fn advance(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        let before = out.len();
        self.inner.advance(out)?;
        for completion in out.split_off(before) {
            let known = completion.outcome != Outcome::Unknown;
            if known && self.delays.percent > 0.0 && self.draw() * 100.0 < self.delays.percent {
                let (from, to) = (*self.delays.delay_us.start(), *self.delays.delay_us.end());
                let delay = from + ((to - from) as f64 * self.draw()).round() as u64;
                self.held.push((self.now_us + delay, completion));
            } else {
                out.push(completion);
            }
        }
        let now = self.now_us;
        let mut due: Vec<_> = self.held.extract_if(.., |(due, _)| *due <= now).collect();
        due.sort_unstable_by_key(|(due, _)| *due);
        out.extend(due.into_iter().map(|(_, completion)| completion));
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), Error> {
        self.inner.confirm()
    }

    fn stop(&mut self, next: Sequence, timestamp: i64) -> Result<(), Error> {
        assert!(self.held.is_empty(), "writes are in flight at a clean stop");
        self.inner.stop(next, timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::BatchNumber;
    use crate::memory::{MemoryBackend, Schedule};
    use bytes::Bytes;

    fn told(percent: f64, seed: u64) -> Vec<(u64, u64)> {
        let inner = MemoryBackend::scheduled(1 << 30, 1_000, Schedule::even(1));
        let mut delayed = Delayed::new(inner, Delays { seed, percent, delay_us: 100..=500 });
        (1..=200).for_each(|number| {
            delayed.submit(Write { number: BatchNumber(number), header: vec![0; 128].into(), records: Bytes::new() });
        });
        let (mut told, mut out) = (Vec::new(), Vec::new());
        while told.len() < 200 {
            delayed.advance(&mut out).unwrap();
            let now = delayed.now_us;
            told.extend(out.drain(..).map(|done| (done.number.0, now)));
            if let Some(due) = delayed.next_due_us() {
                delayed.set_now_us(due);
            }
        }
        assert_eq!(delayed.next_due_us(), None);
        told
    }

    #[test]
    fn some_writes_are_told_later_each_once_and_the_same_for_a_seed() {
        let once = told(10.0, 1);
        assert_eq!(once, told(10.0, 1));
        assert_ne!(once, told(10.0, 2));
        let late: Vec<_> = once.iter().filter(|(_, at)| *at > 0).collect();
        assert!((8..=40).contains(&late.len()), "{}", late.len());
        assert!(late.iter().all(|(_, at)| (100..=500).contains(at)));
        let mut numbers: Vec<u64> = once.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=200));
    }

    #[test]
    fn nothing_is_delayed_at_no_percent() {
        assert!(told(0.0, 1).iter().all(|(_, at)| *at == 0));
    }
}
