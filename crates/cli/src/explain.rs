//! `arioso explain`.

use std::io::{self, Write};

use serde_json::json;

use crate::args::ExplainArgs;
use crate::connect::{connect, failed};
use crate::fail::{Done, Failure};
use crate::subscribe::begin;

/// Tells what a subscription would read.
pub fn run(arguments: &ExplainArgs) -> Done {
    let begin = begin(&arguments.from)?;
    for filter in &arguments.filters {
        arioso_stream::filter::Filter::new(filter).map_err(|error| Failure::Use(error.to_string()))?;
    }
    let bus = connect(&arguments.at)?;
    let filters = arguments.filters.iter().map(String::as_str);
    let row = bus.explain(filters, begin).map_err(failed(&arguments.at, "explaining"))?;
    let (segments, stores, messages, tip) = (row.segments, row.stores, row.messages, row.tip_messages);
    let (read, useful) = (row.bytes_to_read, row.bytes_useful);
    let mut out = io::stdout().lock();
    if arguments.json {
        let told = json!({
            "segments": segments, "stores": stores, "bytes_to_read": read, "bytes_useful": useful, "messages": messages,
            "tip_messages": tip,
        });
        writeln!(out, "{told}")?;
    } else {
        writeln!(out, "{stores} stores and {segments} segments: {read} bytes to read on disk")?;
        writeln!(out, "{messages} messages in them match: {useful} bytes of records")?;
        writeln!(out, "{tip} messages that match are in memory")?;
    }
    bus.close().map_err(failed(&arguments.at, "explaining"))
}
