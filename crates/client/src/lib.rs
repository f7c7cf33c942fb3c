//! The client of Arioso: publish, subscribe, ask, over as many connections as it takes.
//!
//! Two layers. [`Connection`] is the whole behaviour without I/O: bytes and time in, bytes, wake-ups and events out; the
//! simulator drives it. [`Client`] and its handles put it on tokio: one task and one socket a client, one short lock that
//! is never held across I/O.
//!
//! ```no_run
//! # async fn example() -> arioso_client::Result<()> {
//! use arioso_client::{Begin, Client, Delivery, Message, Options, Subscribe};
//!
//! let client = Client::connect("127.0.0.1:7420", Options::default()).await?;
//! let publisher = client.publisher(Some("orders")).await?;
//! let receipt = publisher.send("shop/1/orders", Message::new(b"two pairs")).await?;
//! println!("stored as {}", receipt.await?.sequence);
//!
//! let wanted = Subscribe::new(["shop/**"]).from(Begin::Start).until_end();
//! let mut subscription = client.subscribe(wanted).await?;
//! while let Some(delivery) = subscription.next().await? {
//!     match delivery {
//!         Delivery::Batch(batch) => {
//!             for message in batch.messages() {
//!                 let message = message?;
//!                 println!("{} {} {:?}", message.sequence(), message.topic(), message.payload());
//!             }
//!         }
//!         Delivery::Mark { through } => println!("all through {through} is done"),
//!         // Going on is for the caller to decide: messages are gone.
//!         Delivery::Trimmed { first, .. } => assert!(subscription.go_on(first)),
//!     }
//! }
//! client.close().await
//! # }
//! ```
//!
//! # What it promises
//!
//! - A publisher's window, in messages and in bytes, is exact however many tasks and threads send. `send` waits for it,
//!   `try_send` refuses with [`Error::Busy`].
//! - What waits together travels in one frame and one write.
//! - `busy`, `disk full` and the like are not shown to the caller: the message and all behind it are sent again, in order,
//!   when the server said. After `failed` or `reopen` the publisher is opened again and the same is done.
//! - After a cut a named publisher sends what is unanswered again under the same publisher sequences; an anonymous one's
//!   messages under way end with [`Error::Unknown`].
//! - After a cut a subscription goes on behind the last mark it got: each message once, in order. A new subscription for
//!   the newest of each topic (`Begin::Last`) may get more than the newest when it is cut before these are delivered; one
//!   `until_end` ends behind what was acknowledged when it was resumed, unless it had reached its end.
//! - A name or cursor somebody else opened during a cut is not taken back: [`Error::Fenced`].
//! - Memory is bounded: messages by the window, deliveries by the credit and one message, topics and names by the options.
//!   Receipts belong to the caller.
//!
//! # The interface
//!
//! ```text
//! Client    connect(address, Options) -> Result<Client>             async; Clone
//!           publisher(Option<&str>), publisher_at(&str, first) -> Result<Publisher>            async
//!           subscribe(Subscribe) -> Result<Subscription>            async
//!           topics(filter, after, rows_max) -> Result<Page<TopicRows>>                         async
//!           publishers(after, rows_max), cursors(after, rows_max) -> Result<Page<…>>           async
//!           completeness(first, last, filters) -> Result<Completeness>                         async
//!           explain(Begin, filters) -> Result<ExplainRow>, status() -> Result<StatusRow>       async
//!           drop_publisher(name), drop_cursor(name), set_cursor(name, next, filters)           async
//!           welcome() -> Option<Welcome>, is_up() -> bool, close() -> Result<()>
//! Publisher send(topic, Message), send_atomic(&[(topic, Message)]), send_many(&mut RecordBlock) -> Result<Receipt>   async
//!           try_send, try_send_atomic, try_send_many                the same without waiting
//!           topic(&str) -> Result<TopicId>, block(AckLevel) -> RecordBlock
//!           flush(), close() -> Result<()>                          async
//!           next_number() -> Option<u64>
//! Receipt   await -> Result<Ack>, wait() blocks a thread, try_wait() -> Result<Result<Ack>, Receipt>
//! RecordBlock  push(TopicId, &Message) -> Result<bool>, messages(), bytes(), is_empty()
//! Subscription next() -> Result<Option<Delivery>>                   async; poll_next by hand
//!           started() -> Started, go_on(Sequence) -> bool, commit(next) async
//! Delivery  Batch(Batch), Mark { through }, Trimmed { wanted, first }
//! Batch     messages() of Result<Received>, through(), len(), records(), topic(id)
//! Received  sequence(), timestamp(), topic(), payload(), event_time(), headers(), record()
//! Completeness  add(&Batch), check() -> Result<Proven>
//! Page      iter(), len(), is_last()
//!
//! Connection   new(Options, seed, now)
//!           connected(now), connect_failed(now, reason), disconnected(now, reason)
//!           receive(now, &[u8])  or  receive_frame(now, channel, Frame), receive_broken(now, Error)
//!           poll_transmit(now) -> Option<Bytes>, poll_event() -> Option<Event>
//!           on_time(now), next_deadline() -> Option<Duration>
//!           open_publisher(name, start), publish(id, topic, &Message), publish_atomic, publish_block, topic, close_publisher
//!           subscribe(Subscribe), consumed(id, &Batch), go_on(id, begin), unsubscribe(id), holder(id)
//!           request(Request) -> RequestId, close(now), abort(Error)
//! ```

mod batch;
mod completeness;
mod driver;
mod error;
mod machine;
mod message;
mod names;
mod options;

pub use arioso_stream::Sequence;
pub use arioso_wire::{
    AckLevel, BackUpRow, Begin, Code, CursorRow, CursorRows, ExplainRow, PublisherRow, PublisherRows, Request,
    StatusRow, Text, TopicRow, TopicRows, Welcome,
};

pub use batch::{Batch, Headers, Messages, Received};
pub use completeness::{Completeness, Proven};
pub use driver::{Client, Delivery, Page, Publisher, Receipt, Route, Snapshot, Subscription};
pub use error::{Error, Result};
pub use machine::{Ack, Connection, Event, PublisherId, RequestId, Started, Subscribe, SubscriptionId};
pub use message::{Expect, Message, RecordBlock, TopicId};
pub use names::Names;
pub use options::{
    ATOMIC_BYTES_MAX, ATOMIC_MESSAGES_MAX, FRAME_BYTES_MAX, NAME_BYTES_MAX, Options, PAGE_ROWS_MAX, TOPIC_BYTES_MAX,
};
