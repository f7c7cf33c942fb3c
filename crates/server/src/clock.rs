//! The time, as the machines are told it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Unix nanoseconds, for timestamps; may jump.
    pub wall: i64,
    /// Nanoseconds since some moment, for waiting; never jumps.
    pub mono: i64,
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// Begins at zero now.
    pub fn new() -> Clock {
        Clock { began: Instant::now() }
    }

    /// This moment.
    pub fn now(&self) -> Now {
        Now { wall: wall(), mono: self.mono() }
    }

    /// Nanoseconds since the clock was made.
    pub fn mono(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Unix nanoseconds.
pub fn wall() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}
