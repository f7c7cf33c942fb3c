//! Progress of long work: a bar on a terminal, a line now and then elsewhere, both on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is printed when there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress of some work.
pub struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    total: Option<u64>,
    next_line: Instant,
}

impl Progress {
    /// Of work on so many units, if known.
    pub fn new(what: &'static str, total: Option<u64>) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let template = match total {
                Some(_) => "{msg} {wide_bar} {percent}% {binary_bytes_per_sec} eta {eta}",
                None => "{msg} {spinner} {human_pos} {elapsed}",
            };
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_style(style);
            bar.set_message(what);
            bar
        });
        Progress { bar, what, total, next_line: Instant::now() + LINE_EVERY }
    }

    /// So many units are done.
    pub fn set(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if Instant::now() >= self.next_line {
            self.next_line = Instant::now() + LINE_EVERY;
            match self.total {
                Some(total) if total > 0 => eprintln!("{}: {} %", self.what, done * 100 / total),
                _ => eprintln!("{}: {done}", self.what),
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
