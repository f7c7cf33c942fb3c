//! Requests that ask: answers go out in frames of bounded size, as the connection takes them.

use std::sync::Arc;

use arioso_store::history::{Explained, PieceSum};
use arioso_stream::Sequence;
use arioso_stream::filter::{FILTERS_MAX, Filter};
use arioso_stream::topic::TopicId;
use arioso_wire::{
    Answer, Code, ErrorFrame, ExplainRow, Frame, List, PublisherRow, Request, Rows, StatusRow, SumRow, Text, TopicRow,
};

use super::Read;
use crate::explain;
use crate::history::{ReadRequest, Supplied};
use crate::node::Node;
use crate::output::Output;

/// Rows in one frame.
const ROWS_PER_FRAME: usize = 1_024;
/// Listings of one session at the same time.
const LISTINGS_MAX: usize = 16;

/// A list of topics on its way out: ids, four bytes each, so that a million topics cost four megabytes while they are listed.
struct Listing {
    channel: u16,
    topics: Vec<u32>,
    at: usize,
}

#[derive(Default)]
pub(super) struct Listings {
    open: Vec<Listing>,
    ready: Vec<(u16, Rows)>,
    /// Explanations that are being made where reading may block.
    explaining: Vec<u16>,
    asks: Vec<Read>,
    /// What could not be explained, and why.
    failed: Vec<(u16, String)>,
}

impl Listings {
    pub fn begin(&mut self, channel: u16, request: Request, node: &Node) -> Result<(), (Code, String)> {
        if self.open.len() + self.ready.len() + self.explaining.len() >= LISTINGS_MAX {
            return Err((Code::Busy, format!("{LISTINGS_MAX} requests are being answered on this connection")));
        }
        match request {
            Request::Topics { filter, after, rows_max } => {
                let topics = topics(node, &filter, &after, rows_max)?;
                self.open.push(Listing { channel, topics, at: 0 });
            }
            Request::Publishers { after, rows_max } => {
                self.ready.push((channel, publishers(node, &after, rows_max)));
            }
            Request::Explain { begin, filters } => {
                let filters = tested(&filters)?;
                let next = explain::first(node, begin)?;
                self.ask(channel, ReadRequest::Explain { next, filters });
            }
            Request::Sums { first, last, filters } => {
                let filters = tested(&filters)?;
                self.ask(channel, ReadRequest::Sums { first, last, filters });
            }
            Request::Status => self.ready.push((channel, status(node))),
            other => {
                return Err((Code::NotOffered, format!("request kind {} is not offered by this server", other.kind())));
            }
        }
        Ok(())
    }

    fn ask(&mut self, channel: u16, request: ReadRequest) {
        self.explaining.push(channel);
        self.asks.push(Read { channel, request });
    }

    /// Takes what came back for a request that asked the disk; anything else is given back.
    pub fn supply(&mut self, channel: u16, read: Result<Supplied, String>) -> Option<Result<Supplied, String>> {
        let Some(at) = self.explaining.iter().position(|known| *known == channel) else { return Some(read) };
        match read {
            Ok(Supplied::Explained(told)) => self.ready.push((channel, Rows::Explain(explain_row(&told)))),
            Ok(Supplied::Summed(pieces)) => self.ready.push((channel, Rows::Sums(sum_rows(&pieces)))),
            Err(error) => self.failed.push((channel, error)),
            // A subscription's on the same channel, begun when the request was answered.
            other => return Some(other),
        }
        self.explaining.swap_remove(at);
        None
    }

    pub fn turn(&mut self, node: &Node, out: &mut Output, reads: &mut Vec<Read>) {
        reads.append(&mut self.asks);
        for (channel, error) in self.failed.drain(..) {
            let (code, text) = (Code::Damaged, Text::from(error.as_str()));
            let frame = ErrorFrame { code, retry_after_ms: 0, detail_a: 0, detail_b: 0, text };
            out.push(channel, &Frame::Error(frame));
        }
        for (channel, rows) in self.ready.drain(..) {
            out.push(channel, &Frame::Answer(Answer { more: false, rows }));
        }
        while out.has_room()
            && let Some(listing) = self.open.first_mut()
        {
            let end = (listing.at + ROWS_PER_FRAME).min(listing.topics.len());
            let rows = topic_rows(node, &listing.topics[listing.at..end]);
            listing.at = end;
            let more = end < listing.topics.len();
            out.push(listing.channel, &Frame::Answer(Answer { more, rows: Rows::Topics(rows) }));
            if !more {
                self.open.remove(0);
            }
        }
    }
}

/// Filters as they are handed on.
fn tested(filters: &List<arioso_wire::Filters>) -> Result<Arc<[Box<str>]>, (Code, String)> {
    let mut texts: Vec<Box<str>> = Vec::new();
    for text in filters.iter() {
        texts.push(Filter::new(text).map_err(|bad| (Code::BadFilter, bad.to_string()))?.as_str().into());
    }
    if texts.is_empty() || texts.len() > FILTERS_MAX {
        return Err((Code::TooManyFilters, format!("{} filters, 1 to {FILTERS_MAX} are wanted", texts.len())));
    }
    Ok(texts.into())
}

fn sum_rows(pieces: &[PieceSum]) -> List<arioso_wire::SumRows> {
    List::collect(pieces.iter().map(|piece| SumRow {
        first: Sequence(piece.first),
        last: Sequence(piece.last),
        messages: piece.messages,
        bytes: piece.bytes,
        sum: piece.sum,
    }))
}

fn explain_row(told: &Explained) -> ExplainRow {
    let Explained { segments, stores, bytes_to_read, bytes_useful, messages, tip_messages } = *told;
    ExplainRow { segments, stores, bytes_to_read, bytes_useful, messages, tip_messages }
}

fn topics(node: &Node, filter: &str, after: &str, rows_max: u32) -> Result<Vec<u32>, (Code, String)> {
    let filter = Filter::new(if filter.is_empty() { "**" } else { filter });
    let filter = filter.map_err(|bad| (Code::BadFilter, bad.to_string()))?;
    let names = node.names.read();
    let after = match after {
        "" => 0,
        after => names.get(after).ok_or_else(|| (Code::BadPosition, format!("no topic {after:?} to go on behind")))?.0,
    };
    let mut found = Vec::new();
    names.visit(&filter, |id| {
        if id.0 > after {
            found.push(id.0);
        }
    });
    drop(names);
    found.sort_unstable();
    let engine = node.engine.lock();
    found.retain(|id| engine.order().topic(*id).messages > 0);
    found.truncate(rows_max as usize);
    Ok(found)
}

fn topic_rows(node: &Node, topics: &[u32]) -> List<arioso_wire::TopicRows> {
    let counts: Vec<_> = {
        let engine = node.engine.lock();
        topics.iter().map(|topic| engine.order().topic(*topic)).collect()
    };
    let names = node.names.read();
    let named: Vec<String> = topics.iter().map(|topic| names.name(TopicId(*topic)).unwrap_or_default()).collect();
    drop(names);
    List::collect(named.iter().zip(counts).map(|(topic, counts)| TopicRow {
        topic,
        messages: counts.messages,
        bytes: counts.bytes,
        last: counts.last,
    }))
}

fn publishers(node: &Node, after: &str, rows_max: u32) -> Rows {
    let engine = node.engine.lock();
    let mut found: Vec<_> = engine.order().publishers().filter(|publisher| &*publisher.name > after).collect();
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Rows::Publishers(List::collect(found.into_iter().take(rows_max as usize).map(|publisher| PublisherRow {
        name: &publisher.name,
        id: publisher.id,
        epoch: publisher.epoch,
        last_consumed: publisher.last,
        last_used: publisher.last_used,
    })))
}

fn status(node: &Node) -> Rows {
    let next_sequence = node.engine.lock().order().next_sequence();
    Rows::Status(StatusRow {
        next_sequence,
        settled: node.tip.settled_to(),
        first_kept: node.history.first_kept(),
        topics: node.names.read().len() as u64,
        tip_bytes: node.tip.bytes() as u64,
        tip_first: node.tip.first_sequence(),
    })
}
