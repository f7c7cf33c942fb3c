//! Rows for Java: topics, publishers and cursors page by page, what a subscription would read, how the stream stands.

use arioso::{Begin, Bus, ClientError, Sequence};

use crate::failure::Result;
use crate::fields::Writer;
use crate::wait::block_on;

/// Rows of one page.
const PAGE_ROWS: u32 = 10_000;

/// Whether there is more behind it, then the rows.
fn page(is_last: bool) -> Writer {
    Writer(vec![u8::from(is_last)])
}

/// A page of topics behind `after`: name, messages, bytes, last.
pub fn topics(bus: &Bus, filter: &str, after: &str) -> Result<Vec<u8>> {
    let rows = block_on(bus.client().topics(filter, after, PAGE_ROWS))?;
    let mut out = page(rows.is_last());
    for row in rows.iter() {
        out.text(row.topic);
        out.numbers([row.messages, row.bytes, row.last.0]);
    }
    Ok(out.0)
}

/// A page of named publishers: name, id, epoch, last consumed, last used.
pub fn publishers(bus: &Bus, after: &str) -> Result<Vec<u8>> {
    let rows = block_on(bus.client().publishers(after, PAGE_ROWS))?;
    let mut out = page(rows.is_last());
    for row in rows.iter() {
        out.text(row.name);
        out.numbers([row.id.into(), row.epoch.into(), row.last_consumed, row.last_used.cast_unsigned()]);
    }
    Ok(out.0)
}

/// A page of cursors: name, next, committed at, filters behind their count.
pub fn cursors(bus: &Bus, after: &str) -> Result<Vec<u8>> {
    let rows = block_on(bus.client().cursors(after, PAGE_ROWS))?;
    let mut out = page(rows.is_last());
    for row in rows.iter() {
        out.text(row.name);
        out.numbers([row.next.0, row.committed_at.cast_unsigned(), row.filters.iter().count() as u64]);
        row.filters.iter().for_each(|filter| out.text(filter));
    }
    Ok(out.0)
}

/// What a subscription would read.
pub fn explain(bus: &Bus, begin: Begin, filters: &[String]) -> Result<Vec<u8>> {
    let row = block_on(bus.client().explain(begin, filters.iter().map(String::as_str)))?;
    let mut out = Writer::default();
    out.numbers([row.segments, row.stores, row.bytes_to_read, row.bytes_useful, row.messages, row.tip_messages]);
    Ok(out.0)
}

/// How the stream stands, and its name and id.
pub fn status(bus: &Bus) -> Result<Vec<u8>> {
    let row = block_on(bus.client().status())?;
    let welcome = bus.client().welcome().ok_or(ClientError::Closed)?;
    let mut out = Writer::default();
    out.numbers([row.next_sequence.0, row.settled.0, row.first_kept.0, row.topics, row.tip_bytes, row.tip_first.0]);
    out.numbers([(welcome.stream_id >> 64) as u64, welcome.stream_id as u64]);
    out.text(&welcome.stream_name);
    Ok(out.0)
}

/// Forgets a named publisher.
pub fn drop_publisher(bus: &Bus, name: &str) -> Result<()> {
    Ok(block_on(bus.client().drop_publisher(name))?)
}

/// Makes or moves a cursor.
pub fn set_cursor(bus: &Bus, name: &str, next: Sequence, filters: &[String]) -> Result<()> {
    Ok(block_on(bus.client().set_cursor(name, next, filters.iter().map(String::as_str)))?)
}

/// Forgets a cursor.
pub fn drop_cursor(bus: &Bus, name: &str) -> Result<()> {
    Ok(block_on(bus.client().drop_cursor(name))?)
}
