//! `arioso topics` and `arioso publishers`.

use std::io::{self, BufWriter, Write};

use serde_json::json;

use crate::args::{PublishersArgs, PublishersVerb, TopicsArgs};
use crate::connect::{connect, failed};
use crate::fail::{Done, Failure};

/// Lists topics.
pub fn topics(arguments: &TopicsArgs) -> Done {
    arioso_stream::filter::Filter::new(&arguments.filter).map_err(|error| Failure::Use(error.to_string()))?;
    let bus = connect(&arguments.at)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    if !arguments.json {
        writeln!(out, "topic\tmessages\tbytes\tlast")?;
    }
    let listed = bus.topics(&arguments.filter, |row| {
        if written.is_err() {
            return;
        }
        let (topic, messages, bytes, last) = (row.topic, row.messages, row.bytes, row.last.0);
        written = if arguments.json {
            writeln!(out, "{}", json!({ "topic": topic, "messages": messages, "bytes": bytes, "last": last }))
        } else {
            writeln!(out, "{topic}\t{messages}\t{bytes}\t{last}")
        };
    });
    written?;
    listed.map_err(failed(&arguments.at, "listing topics"))?;
    out.flush()?;
    bus.close().map_err(failed(&arguments.at, "listing topics"))
}

/// Lists or drops publishers.
pub fn publishers(arguments: &PublishersArgs) -> Done {
    let bus = connect(&arguments.at)?;
    let mut out = io::stdout().lock();
    match &arguments.verb {
        PublishersVerb::List { json } => {
            let all = bus.publishers().map_err(failed(&arguments.at, "listing publishers"))?;
            if !json {
                writeln!(out, "name\tid\tepoch\tlast\tlast used (unix ns)")?;
            }
            for publisher in all {
                let (name, id, epoch) = (publisher.name, publisher.id, publisher.epoch);
                let (last, used) = (publisher.last, publisher.last_used);
                if *json {
                    writeln!(
                        out,
                        "{}",
                        json!({ "name": name, "id": id, "epoch": epoch, "last": last, "last_used": used })
                    )?;
                } else {
                    writeln!(out, "{name}\t{id}\t{epoch}\t{last}\t{used}")?;
                }
            }
        }
        PublishersVerb::Drop { name } => {
            bus.drop_publisher(name).map_err(failed(&arguments.at, &format!("dropping publisher {name:?}")))?;
            writeln!(out, "{}", json!({ "dropped": name }))?;
        }
    }
    bus.close().map_err(failed(&arguments.at, "publishers"))
}
