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

/// A cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorInfo {
    /// Its name.
    pub name: String,
    /// The next message it wants.
    pub next: Sequence,
    /// When it was opened, set or committed last, unix nanoseconds.
    pub committed_at: i64,
    /// Its filters.
    pub filters: Vec<String>,
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
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// use arioso::{Code, Expect, Message, Sequence};
    /// let orders = bus.publisher(None)?;
    /// let first = orders.publish("orders/1", Message::new(b"new"))?.sequence;
    /// // Only if nobody wrote in between.
    /// let expect = |newest| Message { condition: Some(Expect { filter: "orders/1", newest }), ..Message::new(b"paid") };
    /// orders.publish("orders/1", expect(first))?;
    /// assert!(orders.publish("orders/1", expect(first)).is_err());
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn publish(&self, topic: &str, message: Message<'_>) -> Result<Ack> {
        Ok(self.send(topic, message)?.wait()?)
    }

    /// Publishes a message; waits only for the window. The receipt tells what became of it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// use arioso::Message;
    /// let publisher = bus.publisher(None)?;
    /// let message = Message { headers: &[(b"trace", b"4711")], event_time: Some(1_700_000_000_000_000_000), ..Message::new(b"x") };
    /// let receipt = publisher.send("a", message)?;
    /// assert_eq!(receipt.wait()?.messages, 1);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn send(&self, topic: &str, message: Message<'_>) -> Result<Receipt> {
        match self.publisher.try_send(topic, message) {
            Err(arioso_client::Error::Busy { .. }) => Ok(self.runtime.block_on(self.publisher.send(topic, message))?),
            sent => Ok(sent?),
        }
    }

    /// Publishes a message, or refuses with `Busy` when the window is full.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let receipt = bus.publisher(None)?.try_send("a", arioso::Message::new(b"1"))?;
    /// receipt.wait()?;
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn try_send(&self, topic: &str, message: Message<'_>) -> Result<Receipt> {
        Ok(self.publisher.try_send(topic, message)?)
    }

    /// Publishes all of the messages or none, as one journal write.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// use arioso::Message;
    /// let publisher = bus.publisher(None)?;
    /// let receipt = publisher.send_atomic(&[("from", Message::new(b"-5")), ("to", Message::new(b"+5"))])?;
    /// assert_eq!(receipt.wait()?.messages, 2);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn send_atomic(&self, messages: &[(&str, Message<'_>)]) -> Result<Receipt> {
        Ok(self.runtime.block_on(self.publisher.send_atomic(messages))?)
    }

    /// An empty block: the bulk way to publish many small messages.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// use arioso::{AckLevel, Message};
    /// let publisher = bus.publisher(None)?;
    /// let topic = publisher.topic("a")?;
    /// let mut block = publisher.block(AckLevel::Durable);
    /// while block.messages() < 100 && block.push(topic, &Message::new(b"1"))? {}
    /// assert_eq!(publisher.send_many(&mut block)?.wait()?.messages, 100);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn block(&self, level: AckLevel) -> RecordBlock {
        self.publisher.block(level)
    }

    /// The number under which a block's records name a topic.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let publisher = bus.publisher(None)?;
    /// assert_eq!(publisher.topic("a")?, publisher.topic("a")?);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn topic(&self, topic: &str) -> Result<TopicId> {
        Ok(self.publisher.topic(topic)?)
    }

    /// Publishes a block and empties it: one receipt for all of it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// use arioso::{AckLevel, Message};
    /// let publisher = bus.publisher(None)?;
    /// let mut block = publisher.block(AckLevel::Durable);
    /// block.push(publisher.topic("a")?, &Message::new(b"1"))?;
    /// publisher.send_many(&mut block)?.wait()?;
    /// assert!(block.is_empty());
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn send_many(&self, block: &mut RecordBlock) -> Result<Receipt> {
        match self.publisher.try_send_many(block) {
            Err(arioso_client::Error::Busy { .. }) => Ok(self.runtime.block_on(self.publisher.send_many(block))?),
            sent => Ok(sent?),
        }
    }

    /// Waits until everything sent before is answered.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let publisher = bus.publisher(None)?;
    /// let receipt = publisher.send("a", arioso::Message::new(b"1"))?;
    /// publisher.flush();
    /// assert!(receipt.try_wait().is_ok(), "it is answered");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn flush(&self) {
        self.runtime.block_on(self.publisher.flush());
    }

    /// Closes it: everything sent before is answered when this returns.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let publisher = bus.publisher(Some("p"))?;
    /// publisher.send("a", arioso::Message::new(b"1"))?;
    /// publisher.close()?;
    /// # Ok::<(), arioso::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// use arioso::{Begin, Delivery};
    /// bus.publish("a", b"1")?;
    /// let mut subscription = bus.subscribe(["a"], Begin::Start, true)?;
    /// while let Some(delivery) = subscription.next()? {
    ///     match delivery {
    ///         Delivery::Batch(batch) => println!("{} messages", batch.len()),
    ///         Delivery::Mark { through } => println!("all through {through} is done"),
    ///         Delivery::Trimmed { first, .. } => assert!(subscription.go_on(first)),
    ///     }
    /// }
    /// # Ok::<(), arioso::Error>(())
    /// ```
    #[expect(clippy::should_implement_trait, reason = "an iterator can't tell an error from the end")]
    pub fn next(&mut self) -> Result<Option<Delivery>> {
        Ok(self.runtime.block_on(self.subscription.next())?)
    }

    /// The next messages; passes over marks. [`Error::Trimmed`] tells that retention has passed the position: what lies between
    /// is gone, [`Subscription::go_on`] goes on.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.publish("a", b"1")?;
    /// let mut subscription = bus.subscribe(["a"], arioso::Begin::Start, false)?;
    /// let batch = subscription.next_batch()?.expect("it follows live");
    /// assert_eq!(batch.messages().next().expect("a message")?.topic(), "a");
    /// # Ok::<(), arioso::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let subscription = bus.subscribe(["a"], arioso::Begin::Start, false)?;
    /// assert!(!subscription.go_on(arioso::Sequence(1)), "it was not trimmed");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn go_on(&self, begin: Sequence) -> bool {
        self.subscription.go_on(begin)
    }

    /// Moves its cursor: `next` is the first message it still wants. Durable when this returns. To be called when what came
    /// before is handled: after a crash the cursor goes on there, so that nothing is missed and what was handled since comes
    /// again. Not for every mark: a commit is a record in the stream, which the next mark tells of. [`Error::is_fenced`] tells that another holder took the cursor.
    ///
    /// ```
    /// use arioso::{Bus, Subscribe};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = Bus::open(dir.path())?;
    /// bus.publish("orders/1", b"paid")?;
    /// let mut orders = bus.subscribe_with(Subscribe::new(["orders/**"]).from(arioso::Begin::Start).cursor("billing"))?;
    /// let batch = orders.next_batch()?.expect("it follows live");
    /// for message in batch.messages() {
    ///     println!("{}", message?.sequence());
    /// }
    /// orders.commit(batch.through().next())?;
    /// assert_eq!(bus.cursors()?[0].next, batch.through().next());
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn commit(&self, next: Sequence) -> Result<()> {
        Ok(self.runtime.block_on(self.subscription.commit(next))?)
    }

    /// The first sequence that could be delivered when it began.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let next = bus.publish("a", b"1")?.sequence.next();
    /// assert_eq!(bus.subscribe(["a"], arioso::Begin::Live, false)?.starts_at(), next);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn starts_at(&self) -> Sequence {
        self.subscription.started().starts_at
    }
}
