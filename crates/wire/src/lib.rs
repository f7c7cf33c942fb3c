//! Frames: what stands in docs/protocol.md, as plain types that are written to and read from bytes.
//!
//! Nothing here knows a socket, a clock or a rule of the bus; it knows where each field lies. Reading is total:
//! whatever the bytes, the answer is a frame or an error that names frame, field and value. Reading never allocates for
//! what it read (strings, lists and records stay slices of the receive buffer), writing allocates nothing per message.
//!
//! ```text
//! bytes ──▶ FrameReader ──▶ (channel, Frame)          read: one frame after another, whatever the pieces
//! Body::encode(channel, &mut BytesMut)                write: any frame
//! ListWriter<ReplyRows>, deliver_parts                write: the two hot ones, without building a value first
//! ```
//!
//! # In short
//!
//! - [`Frame`]: one variant a frame of the protocol; [`Body`]: what each frame type has (`KIND`, `NAME`, `encode`).
//! - [`FrameReader`]: `feed`, `spare` + `next_frame`; checks lengths before it reserves anything.
//! - [`Text`], [`Blob`], [`List`], [`ListWriter`]: strings, long bytes and lists in place.
//! - [`Code`], [`Retry`]: the error numbers. [`WireError`]: bytes that do not parse; it tells its `Code`.
//! - [`negotiate`], [`VERSION`], [`MAGIC`]: the opening.
//! - [`encode_subscribe`], [`FilterPieces`]: a long filter set in several frames, and put together again.
//! - [`publish_prefix`], [`deliver_parts`], [`encode_deliver`]: heads of frames whose records lie elsewhere.

mod body;
mod code;
mod error;
mod filters;
mod frame;
mod list;
mod opening;
mod publishing;
mod reader;
mod requests;
mod subscribing;
mod text;

pub use body::{Body, CHANNEL_CONNECTION, CHANNEL_MAX, CHANNEL_TOPICS, FRAME_HEADER_BYTES, Fields};
pub use code::{Code, Retry};
pub use error::WireError;
pub use filters::{FILTER_BYTES_MAX, FILTERS_MAX, FilterPieces, encode_subscribe};
pub use frame::Frame;
pub use list::{Filters, Kind, List, ListBody, ListWriter};
pub use opening::{ErrorFrame, Goodbye, Hello, MAGIC, Ping, Pong, VERSION, VERSION_MIN, Welcome, negotiate};
pub use publishing::{
    AckLevel, ClosePublisher, Closed, Condition, OpenPublisher, Publish, PublisherOpened, Replies, Reply, ReplyRows,
    Skip, TopicNames, Topics, publish_prefix, publish_prefix_bytes,
};
pub use reader::FrameReader;
pub use requests::{
    Answer, CursorRow, CursorRows, ExplainRow, ExplainRows, PublisherRow, PublisherRows, Request, Rows, StatusRow,
    StatusRows, TopicRow, TopicRows,
};
pub use subscribing::{
    Begin, Block, Credit, Deliver, Ended, GoOn, MoreFilters, Names, Safe, Subscribe, Subscribed, Trimmed, Unsubscribe,
    deliver_parts, encode_deliver,
};
pub use text::{Blob, Text};

#[cfg(test)]
mod tests;
