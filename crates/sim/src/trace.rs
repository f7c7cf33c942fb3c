//! What happened, as a running hash of every event with its bytes, and the last lines of it.
//!
//! Two runs of a seed are the same run if their hashes are: that is the first thing to be proved of a simulator.

use std::collections::VecDeque;
use std::fmt;

use crate::hash;

/// Lines kept for whoever looks for the reason of a failure.
const LINES_KEPT: usize = 60;

/// The trace of one run.
#[derive(Debug)]
pub struct Trace {
    digest: u64,
    events: u64,
    lines: VecDeque<String>,
    print: bool,
}

impl Trace {
    /// An empty one. `print`: every line goes to the standard output as well.
    pub fn new(print: bool) -> Trace {
        Trace { digest: 0, events: 0, lines: VecDeque::new(), print }
    }

    /// Notes an event and the bytes that belong to it.
    pub fn note(&mut self, now: u64, what: fmt::Arguments<'_>, bytes: &[u8]) {
        let mut line =
            if self.lines.len() >= LINES_KEPT { self.lines.pop_front().unwrap_or_default() } else { String::new() };
        line.clear();
        let seconds = now / 1_000_000_000;
        let micros = now / 1_000 % 1_000_000;
        let written = fmt::write(&mut line, format_args!("{seconds:3}.{micros:06} {what}"));
        written.expect("a string takes everything");
        self.digest = hash(hash(self.digest, &now.to_le_bytes()), line.as_bytes());
        if !bytes.is_empty() {
            self.digest = hash(self.digest, bytes);
        }
        self.events += 1;
        if self.print {
            println!("{line}");
        }
        self.lines.push_back(line);
    }

    /// The hash of everything so far.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
