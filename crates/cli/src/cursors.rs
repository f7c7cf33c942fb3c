//! `arioso cursors`.

use std::io::{self, Write};

use arioso::Sequence;
use serde_json::json;

use crate::args::{CursorsArgs, CursorsVerb};
use crate::connect::{connect, failed};
use crate::fail::{Done, Failure};

/// Lists, sets or drops cursors.
pub fn run(arguments: &CursorsArgs) -> Done {
    if let CursorsVerb::Set { filters, .. } = &arguments.verb {
        for filter in filters {
            arioso_stream::filter::Filter::new(filter).map_err(|error| Failure::Use(error.to_string()))?;
        }
    }
    let bus = connect(&arguments.at)?;
    let mut out = io::stdout().lock();
    match &arguments.verb {
        CursorsVerb::List { json } => {
            let all = bus.cursors().map_err(failed(&arguments.at, "listing cursors"))?;
            if !json {
                writeln!(out, "name\tnext\tlast used (unix ns)\tfilters")?;
            }
            for cursor in all {
                let (name, next, used) = (cursor.name, cursor.next.0, cursor.committed_at);
                if *json {
                    let line = json!({ "name": name, "next": next, "last_used": used, "filters": cursor.filters });
                    writeln!(out, "{line}")?;
                } else {
                    writeln!(out, "{name}\t{next}\t{used}\t{}", cursor.filters.join(" "))?;
                }
            }
        }
        CursorsVerb::Set { name, next, filters } => {
            let filters = filters.iter().map(String::as_str);
            let set = bus.set_cursor(name, Sequence(*next), filters);
            set.map_err(failed(&arguments.at, &format!("setting cursor {name:?}")))?;
            writeln!(out, "{}", json!({ "set": name, "next": next }))?;
        }
        CursorsVerb::Drop { name } => {
            bus.drop_cursor(name).map_err(failed(&arguments.at, &format!("dropping cursor {name:?}")))?;
            writeln!(out, "{}", json!({ "dropped": name }))?;
        }
    }
    bus.close().map_err(failed(&arguments.at, "cursors"))
}
