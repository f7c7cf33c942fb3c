//! `arioso sub`.

use std::io::{self, BufWriter, Write};

use arioso::{Begin, Delivery, Sequence};
use jiff::Timestamp;

use crate::args::{Format, SubArgs};
use crate::connect::{connect, failed};
use crate::fail::{Done, Failure};
use crate::jsonl;

/// Where to begin, as typed.
pub fn begin(text: &str) -> Result<Begin, Failure> {
    match text {
        "start" => return Ok(Begin::Start),
        "live" => return Ok(Begin::Live),
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
        Err(_) => Err(Failure::Use(format!("--from {text:?}: start, live, a sequence or @TIME is wanted"))),
    }
}

/// Prints what is delivered.
pub fn run(arguments: &SubArgs) -> Done {
    let begin = begin(&arguments.from)?;
    for filter in &arguments.filters {
        arioso_stream::filter::Filter::new(filter).map_err(|error| Failure::Use(error.to_string()))?;
    }
    let bus = connect(&arguments.at)?;
    let fail = failed(&arguments.at, "following");
    let filters = arguments.filters.iter().map(String::as_str);
    let mut subscription = bus.subscribe(filters, begin, arguments.until_end).map_err(&fail)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 {
        match subscription.next().map_err(&fail)? {
            None => break,
            Some(Delivery::Batch(batch)) => {
                for message in batch.messages().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                    let message = message.map_err(|error| fail(error.into()))?;
                    left -= 1;
                    match arguments.format {
                        Format::Json => {
                            let (sequence, timestamp) = (message.sequence().0, message.timestamp());
                            let (topic, payload) = (message.topic(), message.payload());
                            jsonl::write(&mut out, sequence, timestamp, topic, payload, message.event_time())?;
                        }
                        Format::Raw => {
                            out.write_all(message.payload())?;
                            out.write_all(b"\n")?;
                        }
                    }
                }
                if arguments.marks && left > 0 {
                    writeln!(out, "{{\"through\":{}}}", batch.through())?;
                }
            }
            Some(Delivery::Mark { through }) => {
                if arguments.marks {
                    writeln!(out, "{{\"through\":{through}}}")?;
                }
            }
            Some(Delivery::Trimmed { wanted, first }) => {
                out.flush()?;
                return Err(Failure::new(format!(
                    "sequence {wanted} is not kept any more, {first} is the first that is: --from {first} goes on there"
                )));
            }
        }
        out.flush()?;
    }
    out.flush()?;
    drop(subscription);
    bus.close().map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_begin_is_understood_or_refused_with_what_would_be_right() {
        assert_eq!(begin("start").unwrap(), Begin::Start);
        assert_eq!(begin("17").unwrap(), Begin::Sequence(Sequence(17)));
        assert_eq!(begin("@1970-01-01T00:00:01.5Z").unwrap(), Begin::Time(1_500_000_000));
        for text in ["", "last", "-1", "@yesterday", "1.5"] {
            assert!(matches!(begin(text), Err(Failure::Use(why)) if why.contains("is wanted")), "{text}");
        }
    }
}
