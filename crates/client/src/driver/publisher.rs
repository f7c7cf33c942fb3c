//! The handle of a publisher.

use std::sync::Arc;

use arioso_wire::AckLevel;
use tokio::sync::Notify;

use super::client::Handle;
use super::receipt::Receipt;
use crate::machine::PublisherId;
use crate::message::{Message, RecordBlock, TopicId};
use crate::{Error, Result};

/// Records from here on are built outside of the lock.
const LONG_PAYLOAD_BYTES: usize = 64 << 10;

/// Publishes in order; many tasks and threads may use one. Dropped, it closes when everything it sent is answered.
#[derive(Debug)]
pub struct Publisher {
    pub(crate) handle: Arc<Handle>,
    pub(crate) id: PublisherId,
    pub(crate) room: Arc<Notify>,
    /// Not closed yet.
    pub(crate) open: bool,
}

impl Publisher {
    /// Publishes a message as soon as the window has room. The receipt tells what became of it.
    pub async fn send(&self, topic: &str, message: Message<'_>) -> Result<Receipt> {
        self.when_room(|| self.try_send(topic, message)).await
    }

    /// Publishes a message, or refuses with `Busy` when the window is full.
    pub fn try_send(&self, topic: &str, message: Message<'_>) -> Result<Receipt> {
        if message.payload.len() >= LONG_PAYLOAD_BYTES && message.condition.is_none() {
            let mut block = RecordBlock::new(message.level);
            block.push(self.topic(topic)?, &message)?;
            return self.try_send_many(&mut block);
        }
        self.handle.shared.with(|core| {
            core.connection.publish(self.id, topic, &message)?;
            Ok(core.sent(self.id, 1))
        })
    }

    /// Publishes all of the messages or none, as one journal write. Only the first may have a condition; all have one
    /// level.
    pub async fn send_atomic(&self, messages: &[(&str, Message<'_>)]) -> Result<Receipt> {
        self.when_room(|| self.try_send_atomic(messages)).await
    }

    /// As `send_atomic`, or refuses with `Busy` when the window is full.
    pub fn try_send_atomic(&self, messages: &[(&str, Message<'_>)]) -> Result<Receipt> {
        self.handle.shared.with(|core| {
            core.connection.publish_atomic(self.id, messages)?;
            let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
            Ok(core.sent(self.id, count))
        })
    }

    /// An empty block to fill with `RecordBlock::push`.
    pub fn block(&self, level: AckLevel) -> RecordBlock {
        RecordBlock::new(level)
    }

    /// The number under which a block's records name a topic, the same as long as the client lives.
    pub fn topic(&self, topic: &str) -> Result<TopicId> {
        self.handle.shared.with(|core| core.connection.topic(topic))
    }

    /// Publishes a block built beforehand and empties it: one receipt for all of it.
    pub async fn send_many(&self, block: &mut RecordBlock) -> Result<Receipt> {
        self.when_room(|| self.try_send_many(block)).await
    }

    /// As `send_many`, or refuses with `Busy` when the window is full; the block stays as it is then.
    pub fn try_send_many(&self, block: &mut RecordBlock) -> Result<Receipt> {
        if block.is_empty() {
            return Err(Error::TooLarge { what: "an empty block, which can't be sent,", count: 0, count_max: 0 });
        }
        self.handle.shared.with(|core| {
            let messages = block.messages();
            core.connection.publish_block(self.id, block)?;
            Ok(core.sent(self.id, messages))
        })
    }

    /// Waits until everything sent before is answered; what the answers were, the receipts tell.
    pub async fn flush(&self) {
        if let Some(wait) = self.handle.shared.with(|core| core.flush(self.id)) {
            // A sender that is gone means that the publisher is over, with everything answered.
            let _ = wait.await;
        }
    }

    /// The publisher sequence its next message will have.
    pub fn next_number(&self) -> Option<u64> {
        let id = self.id;
        self.handle.shared.with(|core| core.connection.next_number(id))
    }

    /// Closes it: everything sent before is answered when this returns.
    pub async fn close(mut self) -> Result<()> {
        // Its id may stand for another publisher once this one is over.
        self.open = false;
        let wait = self.handle.shared.with(|core| core.close_publisher(self.id));
        match wait.await {
            Ok(Error::Closed) | Err(_) => Ok(()),
            Ok(error) => Err(error),
        }
    }

    async fn when_room(&self, mut attempt: impl FnMut() -> Result<Receipt>) -> Result<Receipt> {
        match attempt() {
            Err(Error::Busy { .. }) => {}
            done => return done,
        }
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            match attempt() {
                Err(Error::Busy { .. }) => room.await,
                done => {
                    // There may be room for the next who waits, too.
                    self.room.notify_one();
                    return done;
                }
            }
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        drop(self.handle.shared.with(|core| core.close_publisher(self.id)));
    }
}
