//! The client of Arioso.

mod batch;
mod driver;
mod error;
mod machine;
mod message;
mod names;
mod options;

pub use batch::{Batch, Headers, Messages, Received};
pub use driver::{Client, Delivery, Page, Publisher, Receipt, Route, Subscription};
pub use error::{Error, Result};
pub use machine::{Ack, Connection, Event, PublisherId, RequestId, Started, Subscribe, SubscriptionId};
pub use message::{Expect, Message, RecordBlock, TopicId};
pub use names::Names;
pub use options::{
    ATOMIC_BYTES_MAX, ATOMIC_MESSAGES_MAX, FRAME_BYTES_MAX, NAME_BYTES_MAX, Options, PAGE_ROWS_MAX, TOPIC_BYTES_MAX,
};
