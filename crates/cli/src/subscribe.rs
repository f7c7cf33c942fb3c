//! `arioso sub`.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use arioso::{Batch, Begin, Delivery, Sequence, Subscribe, Subscription};
use jiff::Timestamp;

use crate::args::{Format, SubArgs};
use crate::connect::{connect, failed};
use crate::fail::{Done, Failure};
use crate::jsonl;

/// A cursor is moved on not more often than this.
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// Where only marks came. A commit is a record of its own, which the next mark tells of: it must not feed itself.
const COMMIT_MARKS_EVERY: Duration = Duration::from_secs(60);

/// Where to begin, as typed.
pub fn begin(text: &str) -> Result<Begin, Failure> {
    match text {
        "start" => return Ok(Begin::Start),
        "live" => return Ok(Begin::Live),
        "last" => return Ok(Begin::Last),
        _ => {}
    }
    if let Some(time) = text.strip_prefix('@') {
        let time: Timestamp = time.parse().map_err(|error| {
            Failure::Use(format!("--from {text:?}: {error}; such as @2026-01-31T08:00:00Z is wanted"))
        })?;
        return i64::try_from(time.as_nanosecond())
            .map(Begin::Time)
            .map_err(|_| Failure::Use(format!("--from {text:?}: years 1678 to 2261 can be told in nanoseconds")));
    }
    match text.parse() {
        Ok(sequence) => Ok(Begin::Sequence(Sequence(sequence))),
        Err(_) => Err(Failure::Use(format!("--from {text:?}: start, live, last, a sequence or @TIME is wanted"))),
    }
}

/// Moves the cursor behind what was printed, not more often than needed: a crash in between prints that much again.
struct Commits {
    printed: Option<Sequence>,
    committed_at: Instant,
    wanted: bool,
}

impl Commits {
    /// Everything selected up to here was printed and flushed.
    fn printed(&mut self, through: Sequence, pause: Duration, subscription: &Subscription) -> arioso::Result<()> {
        self.printed = Some(through);
        if self.committed_at.elapsed() >= pause { self.commit(subscription) } else { Ok(()) }
    }

    fn commit(&mut self, subscription: &Subscription) -> arioso::Result<()> {
        self.committed_at = Instant::now();
        match self.printed.take().filter(|_| self.wanted) {
            Some(through) => subscription.commit(through.next()),
            None => Ok(()),
        }
    }
}

/// Prints what is delivered.
pub fn run(arguments: &SubArgs) -> Done {
    let from = arguments.from.as_deref().unwrap_or(if arguments.cursor.is_some() { "start" } else { "live" });
    let begin = begin(from)?;
    if arguments.cursor.is_some() && arguments.from.is_some() && matches!(begin, Begin::Sequence(_)) {
        return Err(Failure::Use("--from SEQ does not go with --cursor: arioso cursors set moves a cursor".into()));
    }
    for filter in &arguments.filters {
        arioso_stream::filter::Filter::new(filter).map_err(|error| Failure::Use(error.to_string()))?;
    }
    let bus = connect(&arguments.at)?;
    let fail = failed(&arguments.at, "following");
    let mut subscribe = Subscribe::new(arguments.filters.iter().map(String::as_str)).from(begin);
    subscribe.until_end = arguments.until_end;
    if let Some(cursor) = &arguments.cursor {
        subscribe = subscribe.cursor(cursor.as_str());
    }
    let mut subscription = bus.subscribe_with(subscribe).map_err(&fail)?;
    let mut commits = Commits { printed: None, committed_at: Instant::now(), wanted: arguments.cursor.is_some() };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 {
        let (printed, pause) = match subscription.next().map_err(&fail)? {
            None => break,
            Some(Delivery::Batch(batch)) => {
                let through = print(&mut out, arguments.format, &batch, &mut left, &fail)?;
                if arguments.marks && left > 0 {
                    writeln!(out, "{{\"through\":{}}}", batch.through())?;
                }
                (through, COMMIT_EVERY)
            }
            Some(Delivery::Mark { through }) => {
                if arguments.marks {
                    writeln!(out, "{{\"through\":{through}}}")?;
                }
                (through, COMMIT_MARKS_EVERY)
            }
            Some(Delivery::Trimmed { wanted, first }) => {
                out.flush()?;
                commits.commit(&subscription).map_err(&fail)?;
                let how = match &arguments.cursor {
                    Some(name) => format!("arioso cursors set {name} {first} goes on there"),
                    None => format!("--from {first} goes on there"),
                };
                return Err(Failure::new(format!(
                    "sequence {wanted} is not kept any more, {first} is the first that is: {how}"
                )));
            }
        };
        out.flush()?;
        commits.printed(printed, pause, &subscription).map_err(&fail)?;
    }
    out.flush()?;
    commits.commit(&subscription).map_err(&fail)?;
    drop(subscription);
    bus.close().map_err(fail)
}

/// Prints messages, as many as are left; gives up to where everything was printed.
fn print(
    out: &mut impl Write,
    format: Format,
    batch: &Batch,
    left: &mut u64,
    fail: &impl Fn(arioso::Error) -> Failure,
) -> Result<Sequence, Failure> {
    let mut last = Sequence::ZERO;
    for message in batch.messages() {
        if *left == 0 {
            return Ok(last);
        }
        let message = message.map_err(|error| fail(error.into()))?;
        *left -= 1;
        last = message.sequence();
        match format {
            Format::Json => {
                jsonl::write(out, &message)?;
            }
            Format::Raw => {
                out.write_all(message.payload())?;
                out.write_all(b"\n")?;
            }
        }
    }
    Ok(batch.through())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_begin_is_understood_or_refused_with_what_would_be_right() {
        assert_eq!(begin("start").unwrap(), Begin::Start);
        assert_eq!(begin("17").unwrap(), Begin::Sequence(Sequence(17)));
        assert_eq!(begin("@1970-01-01T00:00:01.5Z").unwrap(), Begin::Time(1_500_000_000));
        assert_eq!(begin("last").unwrap(), Begin::Last);
        for text in ["", "first", "-1", "@yesterday", "1.5"] {
            assert!(matches!(begin(text), Err(Failure::Use(why)) if why.contains("is wanted")), "{text}");
        }
    }
}
