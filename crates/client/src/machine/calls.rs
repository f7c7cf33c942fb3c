//! What a caller asks of a connection: publish, subscribe, request.

use arioso_stream::Sequence;
use arioso_wire::{Request as RequestFrame, Text};

use super::channels::{Channels, Role};
use super::publisher::{Publisher, check_frame};
use super::request::Request;
use super::subscription::{Subscription, check_length};
use super::{Connection, PublisherId, RequestId, Subscribe, SubscriptionId};
use crate::message::{Message, RecordBlock, TopicId};
use crate::options::{ATOMIC_BYTES_MAX, ATOMIC_MESSAGES_MAX, Limits, NAME_BYTES_MAX};
use crate::{Error, Result};

impl Connection {
    /// Opens a publisher; an empty name makes an anonymous one. `start`: the publisher sequence of its first message, by
    /// the caller's own count; 0: after the last one stored.
    pub fn open_publisher(&mut self, name: &str, start: u64) -> Result<PublisherId> {
        self.check_open()?;
        check_length("a publisher's name", name, 0, NAME_BYTES_MAX)?;
        let start = if name.is_empty() { 1 } else { start };
        let publisher = |channel| {
            let id = PublisherId(channel);
            Role::Publisher(Publisher::new(id, name.into(), start))
        };
        let channel = self.channels.add(publisher)?;
        self.reschedule(channel);
        Ok(PublisherId(channel))
    }

    /// Publishes one message, unless the window is full.
    pub fn publish(&mut self, id: PublisherId, topic: &str, message: &Message<'_>) -> Result<()> {
        let limits = self.limits;
        let record_bytes = message.record_bytes(limits.payload_bytes)?;
        let filter = message.condition.map(|condition| condition.filter);
        if let Some(filter) = filter {
            check_length("a condition's filter", filter, 1, arioso_wire::FILTER_BYTES_MAX)?;
        }
        check_frame(record_bytes, filter, &limits)?;
        let publisher = publisher_of(&mut self.channels, id)?;
        publisher.check_window(1, record_bytes, &limits)?;
        let topic = self.topics.id(topic)?;
        publisher.push(topic, message, record_bytes, limits.block_bytes);
        self.reschedule(id.0);
        Ok(())
    }

    /// Publishes all or none; only the first may have a condition, all have one level.
    pub fn publish_atomic(&mut self, id: PublisherId, messages: &[(&str, Message<'_>)]) -> Result<()> {
        let limits = self.limits;
        let (bytes, filter) = check_atomic(messages, &limits)?;
        check_frame(bytes, filter, &limits)?;
        let count = messages.len() as u64;
        let publisher = publisher_of(&mut self.channels, id)?;
        publisher.check_window(count, bytes, &limits)?;
        let mut records = Vec::with_capacity(messages.len());
        for (topic, message) in messages {
            let record_bytes = message.record_bytes(limits.payload_bytes)?;
            records.push((self.topics.id(topic)?, *message, record_bytes));
        }
        publisher.push_atomic(&records);
        self.reschedule(id.0);
        Ok(())
    }

    /// Publishes records built beforehand and empties the block, unless the window is full.
    pub fn publish_block(&mut self, id: PublisherId, block: &mut RecordBlock) -> Result<()> {
        let limits = self.limits;
        assert!(!block.is_empty(), "an empty block is not published");
        check_frame(block.record_bytes_max, None, &limits)?;
        let publisher = publisher_of(&mut self.channels, id)?;
        publisher.check_window(block.messages.into(), block.bytes(), &limits)?;
        let level = block.level;
        let (messages, records) = block.take();
        publisher.push_block(messages, level, records);
        self.reschedule(id.0);
        Ok(())
    }

    /// The number under which records of a block name this topic.
    pub fn topic(&mut self, topic: &str) -> Result<TopicId> {
        self.topics.id(topic)
    }

    /// Messages of a publisher that are not answered yet.
    pub fn unanswered(&self, id: PublisherId) -> u64 {
        match self.channels.get(id.0) {
            Some(Role::Publisher(publisher)) => publisher.unanswered(),
            _ => 0,
        }
    }

    /// The publisher sequence its next message will have; `None` before it is first open.
    pub fn next_number(&self, id: PublisherId) -> Option<u64> {
        match self.channels.get(id.0) {
            Some(Role::Publisher(publisher)) => publisher.next_number(),
            _ => None,
        }
    }

    /// Closes a publisher when everything it sent is answered. Its id is not used again by the caller.
    pub fn close_publisher(&mut self, id: PublisherId) {
        if let Some(Role::Publisher(publisher)) = self.channels.get_mut(id.0) {
            publisher.close(&mut self.events);
            self.reschedule(id.0);
        }
    }

    /// Subscribes.
    pub fn subscribe(&mut self, wanted: Subscribe) -> Result<SubscriptionId> {
        self.check_open()?;
        wanted.check()?;
        let subscription = |channel| Role::Subscription(Subscription::new(SubscriptionId(channel), wanted));
        let channel = self.channels.add(subscription)?;
        self.reschedule(channel);
        Ok(SubscriptionId(channel))
    }

    /// A delivered batch was taken: its bytes may be sent again. Each batch once.
    pub fn consumed(&mut self, id: SubscriptionId, batch: &crate::Batch) {
        if let Some(Role::Subscription(subscription)) = self.channels.get_mut(id.0) {
            subscription.consumed(batch.body_bytes);
            self.reschedule(id.0);
        }
    }

    /// Goes on at `begin` after `trimmed`. `false`: it was not trimmed.
    pub fn go_on(&mut self, id: SubscriptionId, begin: Sequence) -> bool {
        let went_on = match self.channels.get_mut(id.0) {
            Some(Role::Subscription(subscription)) => subscription.go_on(begin),
            _ => false,
        };
        if went_on {
            self.reschedule(id.0);
        }
        went_on
    }

    /// The cursor a subscription holds and the epoch it holds it under.
    pub fn holder(&self, id: SubscriptionId) -> Option<(Text, u32)> {
        match self.channels.get(id.0) {
            Some(Role::Subscription(subscription)) => Some(subscription.holder()),
            _ => None,
        }
    }

    /// Ends a subscription. Its id is not used again by the caller.
    pub fn unsubscribe(&mut self, id: SubscriptionId) {
        if let Some(Role::Subscription(subscription)) = self.channels.get_mut(id.0) {
            subscription.release(&mut self.events);
            self.reschedule(id.0);
        }
    }

    /// Asks something; the answer is an event.
    pub fn request(&mut self, frame: RequestFrame) -> Result<RequestId> {
        self.check_open()?;
        let request = |channel| Role::Request(Request::new(RequestId(channel), frame));
        let channel = self.channels.add(request)?;
        self.reschedule(channel);
        Ok(RequestId(channel))
    }
}

fn publisher_of(channels: &mut Channels, id: PublisherId) -> Result<&mut Publisher> {
    match channels.get_mut(id.0) {
        Some(Role::Publisher(publisher)) => Ok(publisher),
        _ => Err(Error::Closed),
    }
}

/// Bytes of an atomic batch's records, and the filter of its condition.
fn check_atomic<'a>(messages: &[(&str, Message<'a>)], limits: &Limits) -> Result<(usize, Option<&'a str>)> {
    let count = messages.len();
    let Some((_, first)) = messages.first() else {
        return Err(Error::Mixed { at: 0, what: "an atomic batch has at least one message" });
    };
    if count > ATOMIC_MESSAGES_MAX {
        return Err(Error::TooLarge {
            what: "an atomic batch, in messages,",
            count: count as u64,
            count_max: ATOMIC_MESSAGES_MAX as u64,
        });
    }
    let mut bytes = 0;
    for (at, (_, message)) in messages.iter().enumerate() {
        if message.level != first.level {
            let what = "its ack level differs from the first one's";
            return Err(Error::Mixed { at, what });
        }
        if at > 0 && message.condition.is_some() {
            let what = "only the first may have a condition";
            return Err(Error::Mixed { at, what });
        }
        bytes += message.record_bytes(limits.payload_bytes)?;
    }
    if bytes > ATOMIC_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "an atomic batch, in bytes of records,",
            count: bytes as u64,
            count_max: ATOMIC_BYTES_MAX as u64,
        });
    }
    let filter = first.condition.map(|condition| condition.filter);
    if let Some(filter) = filter {
        check_length("a condition's filter", filter, 1, arioso_wire::FILTER_BYTES_MAX)?;
    }
    Ok((bytes, filter))
}
