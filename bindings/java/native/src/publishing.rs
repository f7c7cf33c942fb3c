//! A publisher that Java opened: messages in, receipts to wait for or to answer later.

use std::collections::HashMap;
use std::sync::Arc;

use arioso::{Ack, AckLevel, Expect, Message, Publisher, Receipt, Sequence, TopicId};
use parking_lot::RwLock;

use crate::answers::Lane;
use crate::bus::OpenBus;
use crate::failure::{Failure, Result};
use crate::fields::{Reader, text};

/// Bits that say what a message has besides its payload.
const HAS_EVENT_TIME: u8 = 1;
const HAS_CONDITION: u8 = 2;

/// A publisher that Java opened.
#[derive(Debug)]
pub struct OpenPublisher {
    bus: Arc<OpenBus>,
    publisher: Publisher,
    lane: Arc<Lane>,
    topics: RwLock<Topics>,
}

/// Topics by the number that blocks name them by. The client bounds them (`Options::topics_max`).
#[derive(Debug, Default)]
struct Topics {
    numbers: HashMap<Arc<str>, u32>,
    rows: Vec<(TopicId, Arc<str>)>,
}

/// What a message has besides its payload, as Java wrote it.
#[derive(Debug, Default)]
pub struct Extras<'a> {
    event_time: Option<i64>,
    condition: Option<Expect<'a>>,
    headers: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Extras<'a> {
    /// `flags u8 │ event time i64 │ newest i64, filter │ count u16, key, value …`, each part only if there; none if empty.
    pub fn read(bytes: &'a [u8]) -> Result<Extras<'a>> {
        let mut extras = Extras::default();
        let mut from = Reader::new(bytes);
        if from.is_empty() {
            return Ok(extras);
        }
        let flags = from.u8()?;
        if flags & HAS_EVENT_TIME != 0 {
            extras.event_time = Some(from.i64()?);
        }
        if flags & HAS_CONDITION != 0 {
            let newest = Sequence(from.i64()?.cast_unsigned());
            extras.condition = Some(Expect { filter: text("a condition's filter", from.part()?)?, newest });
        }
        for _ in 0..from.u16()? {
            extras.headers.push((from.part()?, from.part()?));
        }
        Ok(extras)
    }

    fn message(&'a self, payload: &'a [u8], level: AckLevel) -> Message<'a> {
        Message {
            payload,
            headers: &self.headers,
            event_time: self.event_time,
            level,
            condition: self.condition,
            extensions: &[],
        }
    }
}

/// A message of a block: `topic u32 │ payload bytes u32 │ extras bytes u32 │ payload │ extras`.
struct Entry<'a> {
    topic: u32,
    payload: &'a [u8],
    extras: Extras<'a>,
}

fn entries(block: &[u8]) -> Result<Vec<Entry<'_>>> {
    let mut from = Reader::new(block);
    let mut entries = Vec::new();
    while !from.is_empty() {
        let topic = from.u32()?;
        let (payload_bytes, extras_bytes) = (from.u32()?, from.u32()?);
        let payload = from.bytes(payload_bytes as usize)?;
        entries.push(Entry { topic, payload, extras: Extras::read(from.bytes(extras_bytes as usize)?)? });
    }
    Ok(entries)
}

/// The level by its number.
pub fn level(number: i32) -> AckLevel {
    if number == 0 { AckLevel::Durable } else { AckLevel::Sequenced }
}

impl OpenPublisher {
    pub fn new(bus: &Arc<OpenBus>, publisher: Publisher) -> OpenPublisher {
        let lane = Lane::new(bus.answers());
        OpenPublisher { bus: Arc::clone(bus), publisher, lane, topics: RwLock::default() }
    }

    pub fn bus(&self) -> &OpenBus {
        &self.bus
    }

    /// Sends; then, with a token, leaves the answer to the lane, else waits for it.
    fn finish(&self, token: u64, send: impl FnOnce(&Publisher) -> Result<Receipt>) -> Result<Option<Ack>> {
        let _inside = self.bus.enter()?;
        let receipt = send(&self.publisher)?;
        if token == 0 {
            return Ok(Some(receipt.wait()?));
        }
        self.lane.push(token, receipt);
        Ok(None)
    }

    /// Publishes one message.
    pub fn send(
        &self,
        topic: &str,
        payload: &[u8],
        extras: &Extras<'_>,
        level: AckLevel,
        token: u64,
    ) -> Result<Option<Ack>> {
        self.finish(token, |publisher| Ok(publisher.send(topic, extras.message(payload, level))?))
    }

    /// Publishes a block as one frame with one answer.
    pub fn send_block(&self, block: &[u8], level: AckLevel, token: u64) -> Result<Option<Ack>> {
        self.finish(token, |publisher| {
            let mut records = publisher.block(level);
            for entry in entries(block)? {
                let (topic, _) = self.topic_row(entry.topic)?;
                if !records.push(topic, &entry.extras.message(entry.payload, level))? {
                    return Err(Failure::argument("a block is longer than one frame"));
                }
            }
            Ok(publisher.send_many(&mut records)?)
        })
    }

    /// Publishes a block as one journal write: all of its messages or none.
    pub fn send_atomic(&self, block: &[u8], level: AckLevel, token: u64) -> Result<Option<Ack>> {
        self.finish(token, |publisher| {
            let entries = entries(block)?;
            let mut topics = Vec::with_capacity(entries.len());
            for entry in &entries {
                topics.push(self.topic_row(entry.topic)?.1);
            }
            let messages: Vec<(&str, Message<'_>)> = topics
                .iter()
                .zip(&entries)
                .map(|(topic, entry)| (&**topic, entry.extras.message(entry.payload, level)))
                .collect();
            Ok(publisher.send_atomic(&messages)?)
        })
    }

    fn topic_row(&self, number: u32) -> Result<(TopicId, Arc<str>)> {
        let topics = self.topics.read();
        let row = topics.rows.get(number as usize).cloned();
        row.ok_or_else(|| Failure::argument(format!("a block names topic {number}, which this publisher did not give")))
    }

    /// The number by which blocks name a topic.
    pub fn topic(&self, topic: &str) -> Result<u32> {
        if let Some(number) = self.topics.read().numbers.get(topic) {
            return Ok(*number);
        }
        let _inside = self.bus.enter()?;
        let id = self.publisher.topic(topic)?;
        let mut topics = self.topics.write();
        if let Some(number) = topics.numbers.get(topic) {
            return Ok(*number);
        }
        let number = u32::try_from(topics.rows.len()).map_err(|_| Failure::argument("2^32 topics"))?;
        let name: Arc<str> = topic.into();
        topics.rows.push((id, Arc::clone(&name)));
        topics.numbers.insert(name, number);
        Ok(number)
    }

    /// Waits until everything sent before is answered. On a closed bus all is.
    pub fn flush(&self) -> Result<()> {
        if let Ok(_inside) = self.bus.enter() {
            self.publisher.flush();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_cut_anywhere_is_an_error_or_whole_messages_never_a_panic() {
        let mut block = Vec::new();
        for topic in 0..2u32 {
            block.extend_from_slice(&topic.to_le_bytes());
            block.extend_from_slice(&3u32.to_le_bytes());
            block.extend_from_slice(&11u32.to_le_bytes());
            block.extend_from_slice(b"abc");
            block.push(HAS_EVENT_TIME);
            block.extend_from_slice(&9i64.to_le_bytes());
            block.extend_from_slice(&0u16.to_le_bytes());
        }
        let whole = block.len();
        for end in 0..=whole {
            match entries(&block[..end]) {
                Ok(read) => assert_eq!(read.len() * whole / 2, end),
                Err(failure) => assert!(failure.text.contains("cut short"), "{end}: {}", failure.text),
            }
        }
        let read = entries(&block).unwrap();
        assert_eq!((read[1].topic, read[1].payload, read[1].extras.event_time), (1, &b"abc"[..], Some(9)));
    }
}
