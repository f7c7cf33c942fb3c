//! What the demo tells as it goes: steps in plain words, figures, and checks that hold or do not.

use std::io::{self, Write};
use std::time::Duration;

/// Lines on standard output, and how the checks came out.
#[derive(Debug, Default)]
pub struct Say {
    steps: u32,
    held: u32,
    failed: Vec<String>,
}

impl Say {
    /// A step begins.
    pub fn step(&mut self, title: &str) -> io::Result<()> {
        self.steps += 1;
        write(&format!("\n{}. {title}\n", self.steps))
    }

    /// Something about it.
    pub fn line(&self, text: &str) -> io::Result<()> {
        write(&format!("   {text}\n"))
    }

    /// Something that must hold.
    pub fn check(&mut self, holds: bool, what: &str) -> io::Result<()> {
        if holds {
            self.held += 1;
            return write(&format!("   ok      {what}\n"));
        }
        self.failed.push(what.to_owned());
        write(&format!("   FAILED  {what}\n"))
    }

    /// As [`Say::check`]: nothing may be wrong.
    pub fn check_none(&mut self, problem: Option<String>, what: &str) -> io::Result<()> {
        match problem {
            None => self.check(true, what),
            Some(problem) => self.check(false, &format!("{what}: {problem}")),
        }
    }

    /// Checks that held.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Checks that did not.
    pub fn failed(&self) -> &[String] {
        &self.failed
    }
}

/// Writes and shows at once: who reads along wants to see the step while it runs.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A count with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in the unit in which they are easy to take in.
pub fn bytes(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", number as f64 / *unit as f64),
        None => format!("{number} B"),
    }
}

/// A time, to three digits or so.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 10.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.2} ms", s * 1e3),
    }
}

/// How much a second.
pub fn rate(number: u64, time: Duration) -> u64 {
    (number as f64 / time.as_secs_f64().max(1e-6)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_easily() {
        assert_eq!([count(0), count(999), count(1_000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([bytes(12), bytes(1_500), bytes(2_000_000_000)], ["12 B", "1.5 kB", "2.0 GB"]);
        let times = [12_300, 1_230, 45, 1].map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(times, ["12 s", "1.2 s", "45 ms", "1.00 ms"]);
    }
}
