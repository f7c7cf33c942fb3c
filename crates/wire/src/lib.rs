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
//! # The interface
//!
//! ```text
//! Frame        one variant a frame, both directions: encode(&self, channel, &mut BytesMut), parse(kind, &Bytes), kind(), name()
//! Body         trait of each frame type: KIND, NAME, encode(&self, channel, &mut BytesMut), parse(&Bytes)
//! FrameReader  new(frame_bytes_max), feed(&[u8]) or spare() -> &mut BytesMut, next_frame() -> Result<Option<(u16, Frame)>, WireError>
//! List<K>      a list in place: collect(items), iter(), len(), is_empty(), bytes();  K: Filters, TopicNames, ReplyRows,
//!              TopicRows, PublisherRows, CursorRows
//! ListWriter   begin::<F>(channel, &mut BytesMut), push(&item), bytes(), finish() -> rows;  F: Topics, Replies, Names
//! publish_prefix(channel, first, messages, level, atomic, condition, record_bytes, out), publish_prefix_bytes(condition)
//! encode_deliver(channel, through, count, &records, out)               records copied behind their head
//! deliver_parts(channel, through, count, slices, scratch, &mut Vec<Bytes>)    head and slices for a vectored write
//! encode_subscribe(channel, &Subscribe, filters, out)                  in as many frames as the filters need
//! FilterPieces begin(Subscribe), add(&MoreFilters), is_complete(), into_parts() -> (Subscribe, Vec<Text>)
//! Text, Blob   UTF-8, and bytes, in a shared buffer
//! Code         number(), from_number(u16), name(), text(), retry() -> Retry, keeps_number();  WireError::code()
//! negotiate(theirs) -> Option<u16>, VERSION, VERSION_MIN, MAGIC
//! ```

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
    Answer, BackUpRow, BackUpRows, CursorRow, CursorRows, ExplainRow, ExplainRows, PublisherRow, PublisherRows,
    Request, Rows, SnapshotRow, SnapshotRows, StatusRow, StatusRows, SumRow, SumRows, TopicRow, TopicRows,
};
pub use subscribing::{
    Begin, Block, Credit, Deliver, Ended, GoOn, MoreFilters, Names, Safe, Subscribe, Subscribed, Trimmed, Unsubscribe,
    deliver_parts, encode_deliver,
};
pub use text::{Blob, Text};

#[cfg(test)]
mod tests;
