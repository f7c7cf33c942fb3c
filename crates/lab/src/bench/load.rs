//! Fills a server for the benches that read: one publisher, blocks of records, so that the numbers in the payloads rise with
//! the stream; and reads a part of it back, checking every message.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Instant;

use arioso::{AckLevel, Begin, Bus, Message, Options, RecordBlock, TopicId};
use serde::Serialize;

use super::workload::{Draws, Payload, Topics, number_of};
use super::{Doing, Error, Result, check};

/// Unanswered messages of the one publisher that fills.
pub const LOAD_WINDOW: u32 = 65_536;

/// What was published.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Messages of each topic.
    pub counts: Vec<u64>,
    /// Sums of the numbers in their payloads.
    pub sums: Vec<u64>,
    /// Seconds it took until all were durable.
    pub wall_s: f64,
}

impl Loaded {
    /// Messages and number sum of the topics of which `wanted` is true.
    pub fn part(&self, wanted: impl Fn(u32) -> bool) -> Wanted {
        let mut part = Wanted::default();
        for (topic, (count, sum)) in (0u32..).zip(self.counts.iter().zip(&self.sums)) {
            if wanted(topic) {
                part.messages += count;
                part.sum = part.sum.wrapping_add(*sum);
            }
        }
        part
    }
}

/// What a reader must get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// Messages.
    pub messages: u64,
    /// Sum of the numbers in their payloads.
    pub sum: u64,
}

/// Connects, with a window for filling.
pub fn connect(server: &str) -> Result<Bus> {
    let options = Options { name: "bench".into(), window_messages: LOAD_WINDOW, ..Options::default() };
    Bus::connect_with(server, options).doing(format!("connecting to {server}"))
}

/// Publishes the messages of these numbers; `topic_of` tells the topic of each.
pub fn load(
    server: &str,
    topics: &Topics,
    numbers: RangeInclusive<u64>,
    payload_bytes: usize,
    topic_of: impl Fn(u64) -> u32,
) -> Result<Loaded> {
    let server_bus = connect(server)?;
    let doing = "loading";
    let publisher = server_bus.publisher(Some("bench-load")).doing(doing)?;
    let mut ids: Vec<Option<TopicId>> = vec![None; topics.len()];
    let mut loaded = Loaded { counts: vec![0; topics.len()], sums: vec![0; topics.len()], wall_s: 0.0 };
    let mut payload = Payload::new(payload_bytes);
    let mut block: RecordBlock = publisher.block(AckLevel::Durable);
    let mut receipts = VecDeque::new();
    let began = Instant::now();
    for number in numbers {
        let topic = topic_of(number);
        let at = topic as usize;
        let id = match ids[at] {
            Some(id) => id,
            None => *ids[at].insert(publisher.topic(topics.name(topic)).doing(doing)?),
        };
        loaded.counts[at] += 1;
        loaded.sums[at] = loaded.sums[at].wrapping_add(number);
        let message = Message::new(payload.numbered(number));
        if !block.push(id, &message).doing(doing)? {
            receipts.push_back(publisher.send_many(&mut block).doing(doing)?);
            block.push(id, &message).doing(doing)?;
        }
        // The window bounds what is unanswered; whatever is answered is looked at.
        while receipts.len() > 1_024
            && let Some(receipt) = receipts.pop_front()
        {
            receipt.wait().doing(doing)?;
        }
    }
    if !block.is_empty() {
        receipts.push_back(publisher.send_many(&mut block).doing(doing)?);
    }
    for receipt in receipts {
        receipt.wait().doing(doing)?;
    }
    loaded.wall_s = began.elapsed().as_secs_f64();
    drop(publisher);
    server_bus.close().doing(doing)?;
    Ok(loaded)
}

/// As [`load`], topics drawn by their shares.
pub fn load_drawn(server: &str, topics: &Topics, messages: u64, payload_bytes: usize) -> Result<Loaded> {
    let draws = Draws::of(topics, 11);
    load(server, topics, 1..=messages, payload_bytes, |number| draws.get(number))
}

/// What a reader got.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Read {
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
    /// Seconds from before the subscription was asked for until its end.
    pub wall_s: f64,
    /// Seconds until the first message.
    pub first_s: f64,
}

/// Reads everything that matches, from the start to the end there was, over a connection that exists; checks count, sum and
/// order.
pub fn read(from: &Bus, filters: &[&str], wanted: Wanted) -> Result<Read> {
    let doing = "reading";
    let mut read = Read { first_s: f64::NAN, ..Read::default() };
    let (mut sum, mut last) = (0u64, 0u64);
    let began = Instant::now();
    let mut subscription = from.subscribe(filters.iter().copied(), Begin::Start, true).doing(doing)?;
    while let Some(batch) = subscription.next_batch().doing(doing)? {
        if read.messages == 0 {
            read.first_s = began.elapsed().as_secs_f64();
        }
        for message in batch.messages() {
            let message = message.doing(doing)?;
            let number = number_of(message.payload()).unwrap_or(0);
            if number <= last {
                return Err(Error::Wrong(format!("message {number} came behind message {last}")));
            }
            last = number;
            sum = sum.wrapping_add(number);
            read.messages += 1;
        }
        read.record_bytes += batch.records().len() as u64;
    }
    read.wall_s = began.elapsed().as_secs_f64();
    check(&format!("messages of {filters:?}"), Wanted { messages: read.messages, sum }, wanted)?;
    Ok(read)
}
