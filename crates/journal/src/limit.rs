//! How many writes may be in flight: a fixed number, or one that follows the backend's latency.
//!
//! ```text
//! median of late writes ≤ 2 × the best median seen of late     and the limit is used    → one more a round
//!                       > 2 ×                                                            → a tenth less a round
//! a write of unknown outcome                                                             → a third less
//! ```
//!
//! The median, not the mean: a few slow writes among many say nothing about load, and must not shrink the limit that hides
//! them. A *round* is as many writes as the limit. Told latencies, it reads no clock.

/// `max-writes-in-flight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritesInFlight {
    /// So many.
    Fixed(u32),
    /// From 1 to the connections there are, by latency.
    Adaptive,
}

/// A latency at which writes wait for each other more than they are worked on.
const SLOWER: f64 = 2.0;
/// Differences below this many microseconds are the scheduler's.
const NOISE_US: f64 = 500.0;
/// How far the median moves at one write, as a part of itself.
const MEDIAN_STEP: f64 = 0.03;
/// How fast the best median is forgotten, a write: a database that became slower for good is the new measure after some
/// hundred writes. Forgotten only while writes can't be waiting for each other: at a limit of one, or when it is not used up.
/// Else a queue would become the measure of itself, and grow.
const BEST_DECAY: f64 = 1.003;
/// Where an adaptive limit begins.
const BEGIN: f64 = 4.0;

/// The limit as it stands.
#[derive(Clone, Debug)]
pub struct Limit {
    limit: f64,
    max: f64,
    adaptive: bool,
    median_us: f64,
    best_us: f64,
    /// Writes known since the limit was lowered, or raised.
    since: f64,
    /// Of these, how many were submitted while the limit was used up.
    full: f64,
}

impl Limit {
    /// A limit that never passes `connections`.
    pub fn new(setting: WritesInFlight, connections: u32) -> Limit {
        assert!(connections >= 1, "at least one write may be in flight");
        let max = f64::from(connections);
        let (limit, adaptive) = match setting {
            WritesInFlight::Fixed(writes) => (f64::from(writes.max(1)).min(max), false),
            WritesInFlight::Adaptive => (BEGIN.min(max), true),
        };
        Limit { limit, max, adaptive, median_us: 0.0, best_us: 0.0, since: 0.0, full: 0.0 }
    }

    /// Writes that may be in flight.
    pub fn writes(&self) -> u32 {
        self.limit as u32
    }

    /// A write became known after so many microseconds; `full`: the limit was used up when it was submitted.
    pub fn known(&mut self, latency_us: u64, full: bool) {
        if !self.adaptive {
            return;
        }
        let latency_us = latency_us as f64;
        if self.median_us == 0.0 {
            (self.median_us, self.best_us) = (latency_us, latency_us);
        }
        let step = (self.median_us * MEDIAN_STEP).max(1.0);
        self.median_us = (self.median_us + step * (latency_us - self.median_us).signum()).max(1.0);
        let alone = !full || self.limit < 2.0;
        self.best_us = (if alone { self.best_us * BEST_DECAY } else { self.best_us }).min(self.median_us);
        self.since += 1.0;
        self.full += f64::from(u8::from(full));
        if self.since < self.limit.floor() {
            return;
        }
        if self.median_us > self.best_us * SLOWER + NOISE_US {
            self.limit = (self.limit * 0.9).max(1.0);
        } else if self.full * 2.0 >= self.since {
            self.limit = (self.limit + 1.0).min(self.max);
        }
        (self.since, self.full) = (0.0, 0.0);
    }

    /// A write's outcome is not known: the backend struggles. Counts once a round.
    pub fn unknown(&mut self) {
        if self.adaptive && self.since >= 0.0 {
            self.limit = (self.limit * 2.0 / 3.0).max(1.0);
            self.since = -self.limit;
            self.full = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backend that works on `servers` writes at a time and takes `us` for each; the others wait.
    fn settle(limit: &mut Limit, servers: f64, us: f64, writes: u32) -> u32 {
        for n in 0..writes {
            let waiting = (f64::from(limit.writes()) / servers).max(1.0);
            // Every hundredth write is an outlier.
            let latency = if n % 100 == 99 { 300_000.0 } else { us * waiting };
            limit.known(latency as u64, true);
        }
        limit.writes()
    }

    #[test]
    fn a_fixed_limit_stays_and_never_passes_the_connections() {
        let mut limit = Limit::new(WritesInFlight::Fixed(30), 20);
        assert_eq!(limit.writes(), 20);
        limit.known(1, true);
        limit.unknown();
        assert_eq!(limit.writes(), 20);
    }

    #[test]
    fn it_grows_while_writes_do_not_wait_for_each_other_whatever_outliers_do() {
        let mut limit = Limit::new(WritesInFlight::Adaptive, 20);
        assert_eq!(settle(&mut limit, 100.0, 3_000.0, 2_000), 20);
    }

    #[test]
    fn it_stays_near_twice_what_the_backend_does_at_once() {
        let mut limit = Limit::new(WritesInFlight::Adaptive, 500);
        let settled = settle(&mut limit, 8.0, 3_000.0, 20_000);
        assert!((8..=40).contains(&settled), "{settled}");
    }

    #[test]
    fn a_backend_that_becomes_slow_is_given_less_and_more_again_when_it_recovers() {
        let mut limit = Limit::new(WritesInFlight::Adaptive, 64);
        let before = settle(&mut limit, 32.0, 2_000.0, 5_000);
        let during = settle(&mut limit, 2.0, 2_000.0, 1_000);
        assert!(during < before / 2, "{during} of {before}");
        let after = settle(&mut limit, 32.0, 2_000.0, 10_000);
        assert!(after > during * 2, "{after} after {during}");
    }

    #[test]
    fn it_does_not_grow_while_it_is_not_used_up() {
        let mut limit = Limit::new(WritesInFlight::Adaptive, 64);
        (0..1_000).for_each(|_| limit.known(2_000, false));
        assert_eq!(limit.writes(), 4);
    }

    #[test]
    fn unknown_outcomes_shrink_it_once_a_round_and_never_below_one() {
        let mut limit = Limit::new(WritesInFlight::Adaptive, 64);
        settle(&mut limit, 1_000.0, 2_000.0, 2_000);
        let before = limit.writes();
        (0..10).for_each(|_| limit.unknown());
        assert_eq!(limit.writes(), before * 2 / 3);
        for _ in 0..100 {
            limit.unknown();
            (0..200).for_each(|_| limit.known(2_000, false));
        }
        assert_eq!(limit.writes(), 1);
    }
}
