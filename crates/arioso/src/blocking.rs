//! Publishers and subscriptions that block.

use std::sync::Arc;

use arioso_client::{Ack, Batch, Delivery, Message, Receipt, RecordBlock, TopicId};
use arioso_stream::Sequence;
use arioso_wire::AckLevel;
use tokio::runtime::Runtime;

use crate::error::{Error, Result};

/// A topic and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicInfo<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Messages kept.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Sequence of the newest.
    pub last: Sequence,
}

/// A named publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherInfo {
    /// Its name.
    pub name: String,
    /// Its stream-wide id.
    pub id: u32,
    /// Its newest epoch.
    pub epoch: u32,
    /// The last publisher sequence consumed.
    pub last: u64,
    /// When it was last used, unix nanoseconds.
    pub last_used: i64,
}

/// Publishes in order. Any number of threads may share one.
#[derive(Debug)]
pub struct Publisher {
    publisher: arioso_client::Publisher,
    runtime: Arc<Runtime>,
}

impl Publisher {
    pub(crate) fn new(publisher: arioso_client::Publisher, runtime: Arc<Runtime>) -> Publisher {
        Publisher { publisher, runtime }
    }

    /// Publishes a message and waits for its answer.
    pub fn publish(&self, topic: &str, message: Message<'_>) -> Result<Ack> {
        Ok(self.send(topic, message)?.wait()?)
    }

    /// Publishes a message; waits only for the window. The receipt tells what became of it.
    pub fn send(&self, topic: &str, message: Message<'_>) -> Result<Receipt> {
        match self.publisher.try_send(topic, message) {
            Err(arioso_client::Error::Busy { .. }) => Ok(self.runtime.block_on(self.publisher.send(topic, message))?),
            sent => Ok(sent?),
        }
    }

    /// Publishes a message, or refuses with `Busy` when the window is full.
    pub fn try_send(&self, topic: &str, message: Message<'_>) -> Result<Receipt> {
        Ok(self.publisher.try_send(topic, message)?)
    }

    /// Publishes all of the messages or none, as one journal write.
    pub fn send_atomic(&self, messages: &[(&str, Message<'_>)]) -> Result<Receipt> {
        Ok(self.runtime.block_on(self.publisher.send_atomic(messages))?)
    }

    /// An empty block: the bulk way to publish many small messages.
    pub fn block(&self, level: AckLevel) -> RecordBlock {
        self.publisher.block(level)
    }

    /// The number under which a block's records name a topic.
    pub fn topic(&self, topic: &str) -> Result<TopicId> {
        Ok(self.publisher.topic(topic)?)
    }

    /// Publishes a block and empties it: one receipt for all of it.
    pub fn send_many(&self, block: &mut RecordBlock) -> Result<Receipt> {
        match self.publisher.try_send_many(block) {
            Err(arioso_client::Error::Busy { .. }) => Ok(self.runtime.block_on(self.publisher.send_many(block))?),
            sent => Ok(sent?),
        }
    }

    /// Waits until everything sent before is answered.
    pub fn flush(&self) {
        self.runtime.block_on(self.publisher.flush());
    }

    /// Closes it: everything sent before is answered when this returns.
    pub fn close(self) -> Result<()> {
        Ok(self.runtime.block_on(self.publisher.close())?)
    }
}

/// Delivers what was subscribed to, exactly once and in order, when asked.
#[derive(Debug)]
pub struct Subscription {
    subscription: arioso_client::Subscription,
    runtime: Arc<Runtime>,
}

impl Subscription {
    pub(crate) fn new(subscription: arioso_client::Subscription, runtime: Arc<Runtime>) -> Subscription {
        Subscription { subscription, runtime }
    }

    /// What comes next: messages, a mark, or that the position was trimmed; `None` at its end. Blocks.
    #[expect(clippy::should_implement_trait, reason = "an iterator can't tell an error from the end")]
    pub fn next(&mut self) -> Result<Option<Delivery>> {
        Ok(self.runtime.block_on(self.subscription.next())?)
    }

    /// The next messages; passes over marks. [`Error::Trimmed`] tells that retention has passed the position: what lies between
    /// is gone, [`Subscription::go_on`] goes on.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        loop {
            match self.next()? {
                None => return Ok(None),
                Some(Delivery::Batch(batch)) => return Ok(Some(batch)),
                Some(Delivery::Mark { .. }) => {}
                Some(Delivery::Trimmed { wanted, first }) => return Err(Error::Trimmed { wanted, first }),
            }
        }
    }

    /// The same subscription for asynchronous code, or for polling by hand.
    pub fn client(&mut self) -> &mut arioso_client::Subscription {
        &mut self.subscription
    }

    /// Goes on at `begin` after `Trimmed`. `false`: it was not trimmed.
    pub fn go_on(&self, begin: Sequence) -> bool {
        self.subscription.go_on(begin)
    }

    /// The first sequence that could be delivered when it began.
    pub fn starts_at(&self) -> Sequence {
        self.subscription.started().starts_at
    }
}
