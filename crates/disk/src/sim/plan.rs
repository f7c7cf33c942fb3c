//! What the simulated disk counts, what it was told to fail, and when it stops.

use std::collections::BTreeSet;
use std::fmt;

use crate::Operation;

/// How often each operation was called, those that failed included, and how many bytes it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    calls: [u64; Operation::ALL.len()],
    /// Bytes that reads returned.
    pub bytes_read: u64,
    /// Bytes that writes were asked to write.
    pub bytes_written: u64,
}

impl Counts {
    /// Calls of one operation.
    pub fn of(&self, operation: Operation) -> u64 {
        self.calls[operation as usize]
    }

    /// Calls of every operation.
    pub fn all(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// Calls that wait for the device.
    pub fn syncs(&self) -> u64 {
        Operation::ALL.into_iter().filter(|operation| operation.is_sync()).map(|operation| self.of(operation)).sum()
    }
}

/// Tells how many virtual nanoseconds an operation on so many bytes takes.
pub type Latency = Box<dyn FnMut(Operation, u64) -> u64 + Send>;

#[derive(Default)]
pub struct Plan {
    pub counts: Counts,
    /// Calls that fail, by operation and its count.
    pub faults: BTreeSet<(Operation, u64)>,
    /// The sync, and the call, from which on nothing works.
    pub crash_at_sync: Option<u64>,
    pub crash_at_call: Option<u64>,
    pub latency: Option<Latency>,
    pub virtual_ns: u64,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Go,
    Fail,
    Crash,
}

impl Plan {
    pub fn judge(&mut self, operation: Operation, bytes: u64) -> Verdict {
        self.counts.calls[operation as usize] += 1;
        if operation == Operation::Write {
            self.counts.bytes_written += bytes;
        }
        if let Some(latency) = &mut self.latency {
            self.virtual_ns += latency(operation, bytes);
        }
        let reached = |at: Option<u64>, count: u64| at.is_some_and(|at| count >= at);
        let crash = operation.is_sync() && reached(self.crash_at_sync, self.counts.syncs())
            || reached(self.crash_at_call, self.counts.all());
        if crash {
            Verdict::Crash
        } else if self.faults.remove(&(operation, self.counts.of(operation))) {
            Verdict::Fail
        } else {
            Verdict::Go
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({:?})", self.counts)
    }
}
