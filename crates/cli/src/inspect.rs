//! `arioso inspect`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use arioso_disk::{Access, Disk, RealDisk};
use arioso_store::identity::STREAM_FILE;
use arioso_store::inspect::{BaseRow, Finding, SegmentRow, State, Totals, inspect};
use arioso_store::segment::JOURNAL_DIR;
use arioso_store::stores::inspect::SpanRow;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::InspectArgs;
use crate::fail::{Done, Failure};

/// Inspects a directory that no server has open; fails if anything in it is wrong.
pub fn run(arguments: &InspectArgs) -> Done {
    let dir = &arguments.dir;
    let shown = dir.display();
    let wrong = |error: &dyn std::fmt::Display| Failure::new(format!("{shown}: {error}"));
    let disk = RealDisk::open(dir).map_err(|error| Failure::new(error.to_string()))?;
    if is_empty(&disk, dir)? {
        return Err(wrong(&"there is no stream in it; arioso serve --data makes one"));
    }
    let open = |error| wrong(&format!("{error}; a server has it open, stop it first"));
    let _held = disk.lock_unchanged("lock").map_err(|error| match error {
        error @ arioso_disk::Error::Locked { .. } => open(error),
        error => wrong(&error),
    })?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written: io::Result<()> = Ok(());
    let mut headed = false;
    let totals = inspect(&disk, &mut |finding| {
        if written.is_ok() {
            written =
                if arguments.json { line_json(&mut out, &finding) } else { line(&mut out, &finding, &mut headed) };
        }
    });
    written?;
    let totals = totals.map_err(|error| wrong(&error))?;
    if arguments.json {
        write_json(&mut out, &totals_json(&totals))?
    } else {
        write_totals(&mut out, &totals)?
    }
    out.flush()?;
    if totals.is_healthy() {
        return Ok(());
    }
    let (damaged, repairable) = (totals.damaged, totals.repairable);
    Err(wrong(&format!(
        "{damaged} stretches of the stream can't be read, {repairable} other things are wrong and made good by the next start; \
         each is named above"
    )))
}

fn is_empty(disk: &RealDisk, dir: &Path) -> Result<bool, Failure> {
    let missing = |error: &arioso_disk::Error| error.is_not_found();
    match (disk.open(STREAM_FILE, Access::Read), disk.list(JOURNAL_DIR)) {
        (Err(a), Err(b)) if missing(&a) && missing(&b) => Ok(true),
        (Err(error), _) if !missing(&error) => Err(Failure::new(format!("{}: {error}", dir.display()))),
        _ => Ok(false),
    }
}

fn when(timestamp: i64) -> String {
    match Timestamp::from_nanosecond(i128::from(timestamp)) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => timestamp.to_string(),
    }
}

const HEAD: &str = "segment             state     sequences                    batches    messages         bytes  from                      to";

fn line(out: &mut impl Write, finding: &Finding, headed: &mut bool) -> io::Result<()> {
    match finding {
        Finding::Stream(identity) => {
            let (name, id, made) = (&identity.name, identity.stream, when(identity.made_at));
            writeln!(out, "stream {name:?}, id {id:032x}, made {made}")
        }
        Finding::Base(BaseRow { file, segment, topics, messages, publishers }) => writeln!(
            out,
            "{file}: all through segment {segment:x}: {topics} topics, {messages} messages, {publishers} named publishers"
        ),
        Finding::Span(row) => {
            let SpanRow { file, first_sequence, last_sequence, stores, topics, messages, bytes, file_bytes, .. } = row;
            let (state, from, to) = (row.state.word(), row.first_segment, row.last_segment);
            writeln!(
                out,
                "{file}: {state}, sequences {first_sequence}-{last_sequence} of segments {from:x}-{to:x} in {stores} stores: \
                 {topics} topics, {messages} messages, {bytes} bytes of records in {file_bytes}"
            )
        }
        Finding::Segment(row) => {
            if !std::mem::replace(headed, true) {
                writeln!(out, "{HEAD}")?;
            }
            segment(out, row)
        }
        Finding::Damage(damage) => writeln!(out, "DAMAGED   {damage}"),
        Finding::Repairable { file, what } => writeln!(out, "WRONG     {file}: {what}"),
        Finding::Torn(torn) => writeln!(out, "torn      {torn}; nothing of it was acknowledged"),
        Finding::Note { file, what } => writeln!(out, "note      {file}: {what}"),
    }
}

fn segment(out: &mut impl Write, row: &SegmentRow) -> io::Result<()> {
    let name = row.file.rsplit('/').next().unwrap_or_default().trim_end_matches(".seg");
    let state = row.state.word();
    let sequences =
        if row.first_sequence > 0 { format!("{}-{}", row.first_sequence, row.last_sequence) } else { "-".into() };
    match row.state {
        State::Prepared | State::Free | State::Retired => {
            writeln!(out, "{name:<21} {state:<9} {} bytes of file", row.file_bytes)
        }
        State::Missing => writeln!(out, "{name:<21} {state:<9} {sequences}"),
        State::Sealed | State::Unsealed | State::Damaged => {
            let times = |time| if row.first_sequence > 0 { when(time) } else { "-".into() };
            let (from, to) = (times(row.first_timestamp), times(row.last_timestamp));
            let (batches, messages, bytes) = (row.batches, row.messages, row.bytes);
            writeln!(
                out,
                "{name:<21} {state:<9} {sequences:<24} {batches:>9} {messages:>11} {bytes:>13}  {from:<24}  {to}"
            )
        }
    }
}

fn write_totals(out: &mut impl Write, totals: &Totals) -> io::Result<()> {
    let Totals {
        segments,
        spans,
        stores,
        batches,
        messages,
        bytes,
        first_kept,
        last_sequence,
        epoch,
        damaged,
        repairable,
        ..
    } = totals;
    let stop = if totals.clean { "clean" } else { "not clean" };
    writeln!(
        out,
        "{spans} spans of {stores} stores, {segments} segments, {batches} batches, {messages} messages, {bytes} bytes of records, kept from {first_kept}, last number \
         {last_sequence}; server epoch {epoch}, the last stop was {stop}"
    )?;
    if totals.is_healthy() {
        return writeln!(out, "every checksum holds, nothing is missing");
    }
    writeln!(out, "{damaged} damaged, {repairable} wrong")
}

fn line_json(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let value = match finding {
        Finding::Stream(identity) => json!({
            "kind": "stream", "name": identity.name, "id": format!("{:032x}", identity.stream), "made_at": identity.made_at,
        }),
        Finding::Base(base) => json!({
            "kind": "base", "file": base.file, "segment": base.segment, "topics": base.topics, "messages": base.messages,
            "publishers": base.publishers,
        }),
        Finding::Span(row) => json!({
            "kind": "span", "file": row.file, "state": row.state.word(), "first": row.first_sequence,
            "last": row.last_sequence, "first_segment": row.first_segment, "last_segment": row.last_segment,
            "tier": row.tier, "stores": row.stores, "topics": row.topics, "messages": row.messages, "bytes": row.bytes,
            "file_bytes": row.file_bytes,
        }),
        Finding::Segment(row) => json!({
            "kind": "segment", "file": row.file, "number": row.number, "state": row.state.word(),
            "first": row.first_sequence, "last": row.last_sequence, "first_ts": row.first_timestamp,
            "last_ts": row.last_timestamp, "batches": row.batches, "messages": row.messages, "bytes": row.bytes,
            "topics": row.topics, "file_bytes": row.file_bytes,
        }),
        Finding::Damage(damage) => json!({
            "kind": "damage", "file": damage.file, "segment": damage.segment, "offset": damage.offset, "bytes": damage.bytes,
            "first": damage.first, "last": damage.last,
        }),
        Finding::Repairable { file, what } => json!({ "kind": "wrong", "file": file, "what": what }),
        Finding::Torn(torn) => json!({ "kind": "torn", "file": torn.file, "offset": torn.offset, "bytes": torn.bytes }),
        Finding::Note { file, what } => json!({ "kind": "note", "file": file, "what": what }),
    };
    write_json(out, &value)
}

fn totals_json(totals: &Totals) -> Value {
    json!({
        "kind": "total", "spans": totals.spans, "stores": totals.stores, "segments": totals.segments, "batches": totals.batches, "messages": totals.messages,
        "bytes": totals.bytes, "first_kept": totals.first_kept, "last": totals.last_sequence, "epoch": totals.epoch,
        "clean": totals.clean, "damaged": totals.damaged, "wrong": totals.repairable, "healthy": totals.is_healthy(),
    })
}

fn write_json(out: &mut impl Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
