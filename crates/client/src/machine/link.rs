//! The connection itself: when to dial, how long to wait, whether it is alive.

use std::time::Duration;

use crate::options::{GOOD_CONNECTION, Options, WELCOME_WAIT};
use crate::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stage {
    /// No socket; the next is wanted at this time.
    Down { dial_at: Duration },
    /// The driver opens a socket.
    Dialling,
    /// A socket; hello is to be sent, or sent.
    Opening { hello_sent: bool, deadline: Duration },
    /// Welcomed.
    Up { since: Duration },
    /// For good.
    Over(Error),
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stage: Stage,
    backoff_min: Duration,
    backoff_max: Duration,
    unreachable_after: Option<Duration>,
    connect_timeout: Duration,
    random: u64,
    /// Tries since the last good connection.
    tries: u32,
    /// Since when there is no connection.
    down_since: Duration,
    was_up: bool,
    last_error: Option<Error>,
    heartbeat: Option<Duration>,
    last_heard: Duration,
    last_sent: Duration,
    /// A ping is to be sent.
    pub(crate) ping: bool,
}

impl Link {
    pub(crate) fn new(options: &Options, seed: u64, now: Duration) -> Link {
        Link {
            stage: Stage::Down { dial_at: now },
            backoff_min: options.backoff_min,
            backoff_max: options.backoff_max,
            unreachable_after: options.unreachable_after,
            connect_timeout: options.connect_timeout,
            random: seed,
            tries: 0,
            down_since: now,
            was_up: false,
            last_error: None,
            heartbeat: None,
            last_heard: now,
            last_sent: now,
            ping: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.stage, Stage::Up { .. })
    }

    pub(crate) fn has_socket(&self) -> bool {
        matches!(self.stage, Stage::Up { .. } | Stage::Opening { .. })
    }

    pub(crate) fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    pub(crate) fn socket_opened(&mut self, now: Duration) {
        self.last_heard = now;
        self.last_sent = now;
        self.ping = false;
        self.heartbeat = None;
        self.stage = Stage::Opening { hello_sent: false, deadline: now + WELCOME_WAIT };
    }

    pub(crate) fn welcomed(&mut self, now: Duration, heartbeat_ms: u32) {
        self.heartbeat = (heartbeat_ms > 0).then(|| Duration::from_millis(heartbeat_ms.into()));
        self.was_up = true;
        self.last_error = None;
        self.stage = Stage::Up { since: now };
    }

    pub(crate) fn heard(&mut self, now: Duration) {
        self.last_heard = now;
    }

    pub(crate) fn sent(&mut self, now: Duration) {
        self.last_sent = now;
        self.ping = false;
    }

    /// The connection is gone, or could not be made; says when to try again.
    pub(crate) fn lost(&mut self, now: Duration, reason: &Error, retry_after_ms: u32) {
        if let Stage::Up { since } = self.stage {
            self.down_since = now;
            if now.saturating_sub(since) >= GOOD_CONNECTION {
                self.tries = 0;
            }
        }
        self.last_error = Some(reason.clone());
        self.stage = match reason.is_final() {
            true => Stage::Over(reason.clone()),
            false => Stage::Down { dial_at: now + self.pause(retry_after_ms) },
        };
    }

    /// Somewhere between nothing and a bound that doubles with each try; never before the server said.
    fn pause(&mut self, retry_after_ms: u32) -> Duration {
        let bound = self.backoff_min.saturating_mul(1 << self.tries.min(16));
        let bound = bound.min(self.backoff_max);
        self.tries = self.tries.saturating_add(1);
        let share = (self.next_random() >> 11) as f64 / (1u64 << 53) as f64;
        let told = Duration::from_millis(retry_after_ms.into());
        told + bound.max(told).mul_f64(share)
    }

    /// One step of SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// When it is given up.
    fn give_up_at(&self) -> Option<Duration> {
        let after = match self.was_up {
            true => self.unreachable_after?,
            false => self.connect_timeout,
        };
        Some(self.down_since.saturating_add(after))
    }

    /// What time brings. `Ok(true)`: dial now. `Err`: the connection is lost or given up.
    pub(crate) fn on_time(&mut self, now: Duration) -> Result<bool> {
        if let Stage::Up { .. } = self.stage {
            let Some(heartbeat) = self.heartbeat else {
                return Ok(false);
            };
            let silent = now.saturating_sub(self.last_heard);
            if silent >= heartbeat * 3 {
                let ms = silent.as_millis();
                let what = format!("nothing heard for {ms} ms");
                return Err(Error::Cut { reason: what.into() });
            }
            self.ping |= now.saturating_sub(self.last_sent) >= heartbeat;
            return Ok(false);
        }
        if matches!(self.stage, Stage::Over(_)) {
            return Ok(false);
        }
        if self.give_up_at().is_some_and(|at| now >= at) {
            let down = now.saturating_sub(self.down_since);
            let last = self.last_error.as_ref().map(Error::to_string);
            let error = Error::Unreachable {
                ms: u64::try_from(down.as_millis()).unwrap_or(u64::MAX),
                last: last.unwrap_or_else(|| "no answer".into()).into(),
            };
            self.stage = Stage::Over(error.clone());
            return Err(error);
        }
        match self.stage {
            Stage::Down { dial_at } if now >= dial_at => {
                self.stage = Stage::Dialling;
                Ok(true)
            }
            Stage::Opening { deadline, .. } if now >= deadline => {
                Err(Error::Cut { reason: "no welcome in time".into() })
            }
            _ => Ok(false),
        }
    }

    /// When `on_time` is wanted next.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let own = match self.stage {
            Stage::Over(_) => return None,
            Stage::Up { .. } => {
                let heartbeat = self.heartbeat?;
                let dead_at = self.last_heard + heartbeat * 3;
                return Some(match self.ping {
                    true => dead_at,
                    false => dead_at.min(self.last_sent + heartbeat),
                });
            }
            Stage::Down { dial_at } => Some(dial_at),
            Stage::Dialling => None,
            Stage::Opening { deadline, .. } => Some(deadline),
        };
        own.into_iter().chain(self.give_up_at()).min()
    }
}
