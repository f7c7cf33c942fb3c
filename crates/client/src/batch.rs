//! Delivered messages: records as they arrived, walked in place.

use std::sync::Arc;

use arioso_stream::record::EXTENSION_HEADERS;
use arioso_stream::{Record, Records, Sequence};
use bytes::Bytes;

use crate::names::Names;
use crate::{Error, Result};

/// Messages delivered together, in order. Cheap to clone and to keep: it shares the receive buffer.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) through: Sequence,
    pub(crate) count: u32,
    pub(crate) records: Bytes,
    pub(crate) body_bytes: u64,
    pub(crate) names: Arc<Names>,
}

impl Batch {
    /// Everything the subscription selects up to here is delivered, this batch included.
    pub fn through(&self) -> Sequence {
        self.through
    }

    /// Messages in it.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The records end to end, as they lie.
    pub fn records(&self) -> &Bytes {
        &self.records
    }

    /// The name of a topic by the stream-wide id in a record.
    pub fn topic(&self, id: u32) -> Option<&str> {
        self.names.get(id)
    }

    /// The messages in order. An error is the last item: what follows it can't be told apart.
    pub fn messages(&self) -> Messages<'_> {
        Messages { records: Records::new(&self.records), names: &self.names, left: self.count, over: false }
    }
}

/// Walks a batch.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    records: Records<'a>,
    names: &'a Names,
    left: u32,
    over: bool,
}

impl<'a> Messages<'a> {
    fn read(&mut self) -> Option<Result<Received<'a>>> {
        let record = match (self.records.next(), self.left) {
            (None, 0) => return None,
            (Some(Err(bad)), _) => return Some(Err(bad.into())),
            (None, left) => {
                let what = format!("a batch has {left} records less than it says");
                return Some(Err(Error::protocol(what)));
            }
            (Some(Ok(_)), 0) => {
                let what = "a batch has more records than it says";
                return Some(Err(Error::protocol(what)));
            }
            (Some(Ok(record)), _) => record,
        };
        self.left -= 1;
        match self.names.get(record.topic()) {
            Some(topic) => Some(Ok(Received { record, topic })),
            None => {
                let (topic, sequence) = (record.topic(), record.sequence());
                let what = format!("message {sequence} is of topic {topic}, which has no name");
                Some(Err(Error::protocol(what)))
            }
        }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Received<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.read();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// A delivered message, seen in place.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    record: Record<'a>,
    topic: &'a str,
}

impl<'a> Received<'a> {
    /// Its place in the stream.
    pub fn sequence(&self) -> Sequence {
        self.record.sequence()
    }

    /// When it got its number, unix ns.
    pub fn timestamp(&self) -> i64 {
        self.record.timestamp()
    }

    /// Its topic.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// Its topic's stream-wide id.
    pub fn topic_id(&self) -> u32 {
        self.record.topic()
    }

    /// Its payload.
    pub fn payload(&self) -> &'a [u8] {
        self.record.payload()
    }

    /// Its event time, unix ns, where given.
    pub fn event_time(&self) -> Option<i64> {
        self.record.event_time()
    }

    /// Its headers: key and value.
    pub fn headers(&self) -> Headers<'a> {
        Headers(self.record.extension(EXTENSION_HEADERS).unwrap_or_default())
    }

    /// The record itself.
    pub fn record(&self) -> Record<'a> {
        self.record
    }
}

/// Walks a message's headers; what does not parse ends the walk.
#[derive(Clone, Debug)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    fn part(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_at_checked(2)?;
        let length = u16::from_le_bytes([length[0], length[1]]) as usize;
        let (part, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.part().and_then(|key| Some((key, self.part()?)));
        if pair.is_none() {
            self.0 = &[];
        }
        pair
    }
}
