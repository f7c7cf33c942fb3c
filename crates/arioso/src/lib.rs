//! Arioso: an ordered, durable message bus in which reading a slice of the stream costs what the slice weighs.
//!
//! [`Bus::open`] runs the bus inside this process, on a directory; [`Bus::connect`] talks to a server. Both give the same
//! `Bus`. Calls here block; [`Bus::client`] is the same bus for asynchronous code.
//!
//! ```
//! use arioso::{Bus, Begin};
//!
//! # fn main() -> arioso::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! let bus = Bus::open(dir.path())?;
//! bus.publish("orders/eu/4711", b"paid")?;
//! bus.publish("weather/oslo", b"rain")?;
//!
//! let mut orders = bus.subscribe(["orders/**"], Begin::Start, true)?;
//! while let Some(batch) = orders.next_batch()? {
//!     for message in batch.messages() {
//!         let message = message?;
//!         println!("{} {} {:?}", message.sequence(), message.topic(), message.payload());
//!         # assert_eq!(message.payload(), b"paid");
//!     }
//! }
//! bus.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Pulling is the back-pressure: a subscription that is not asked costs nobody anything, and goes on where it was.

mod blocking;
mod bus;
mod error;

/// What a client can meet, by variant; [`Error`] holds it.
pub use arioso_client::Error as ClientError;
pub use arioso_client::{
    Ack, Batch, Client, Completeness, Delivery, Expect, Message, Messages, Options, Proven, Receipt, Received,
    RecordBlock, Snapshot, Subscribe, TopicId,
};
pub use arioso_server::settings::{SettingError, Settings, setting};
pub use arioso_stream::Sequence;
pub use arioso_wire::{AckLevel, BackUpRow, Begin, Code, ExplainRow, StatusRow};
pub use blocking::{CursorInfo, Publisher, PublisherInfo, Subscription, TopicInfo};
pub use bus::Bus;
pub use error::{Error, Result};

/// What a start of an embedded bus found: damage, a torn tail, repairs.
pub use arioso_journal::local::Recovered;
