//! Publishing: docs/protocol.md section 3.

use arioso_stream::Sequence;
use bytes::{BufMut, Bytes, BytesMut};

use crate::body::{Field, Fields, frame, put_header, put_str};
use crate::list::{Kind, List, ListBody};
use crate::{Body, Code, FRAME_HEADER_BYTES, Text, WireError};

/// When a message is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AckLevel {
    /// When it is durable and settled.
    #[default]
    Durable,
    /// When it has its number.
    Sequenced,
}

impl Field for AckLevel {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(*self as u8);
    }

    fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError> {
        match u8::get(from, field)? {
            0 => Ok(AckLevel::Durable),
            1 => Ok(AckLevel::Sequenced),
            other => Err(from.wrong(field, other.into(), "0 (durable) or 1 (sequenced)")),
        }
    }
}

/// Ids and names of topics, in frames of either direction.
#[derive(Debug)]
pub enum TopicNames {}

impl Kind for TopicNames {
    type Item<'a> = (u32, &'a str);
    const NAME: &'static str = "topic names";

    fn read<'a>(from: &mut Fields<'a>) -> Result<(u32, &'a str), WireError> {
        Ok((u32::get(from, "topic id")?, from.str("topic")?))
    }

    fn write(item: &(u32, &str), out: &mut BytesMut) {
        out.put_u32_le(item.0);
        put_str(item.1, out);
    }
}

frame! {
    /// Announces topics by the connection's own ids, dense from 1.
    Topics = 16, "topics" {
        /// Id and topic.
        topics: List<TopicNames>,
    }
}

impl ListBody for Topics {
    type Rows = TopicNames;
}

frame! {
    /// Makes the channel a publisher; on a channel that is one, opens its next epoch.
    OpenPublisher = 17, "open publisher" {
        /// The next publisher sequence it will send; 0: go on after the last stored.
        next: u64,
        /// Empty: anonymous, which starts at 1.
        name: Text,
    }
}

frame! {
    /// The publisher is open.
    PublisherOpened = 18, "publisher opened" {
        /// The stream's id for it.
        publisher: u32,
        /// Its epoch.
        epoch: u32,
        /// The last publisher sequence consumed.
        last_consumed: u64,
    }
}

/// What the newest matching message must be for the first message of a frame to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The newest matching message's sequence, 0 for none.
    pub sequence: Sequence,
    /// Exact topic or subtree.
    pub filter: Text,
}

impl Condition {
    fn bytes(&self) -> usize {
        8 + self.filter.len()
    }
}

/// Messages of one publisher with consecutive publisher sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// Publisher sequence of the first message.
    pub first: u64,
    /// Messages.
    pub messages: u32,
    /// When to answer.
    pub level: AckLevel,
    /// Whether the messages are one atomic batch.
    pub atomic: bool,
    /// What the first message is conditioned on.
    pub condition: Option<Condition>,
    /// The records end to end, not looked at yet.
    pub records: Bytes,
}

/// Flag: one atomic batch.
const PUBLISH_ATOMIC: u8 = 1;
/// Bytes of the body before the condition.
const PUBLISH_FIXED_BYTES: usize = 16;

/// Bytes [`publish_prefix`] writes.
pub fn publish_prefix_bytes(condition: Option<&Condition>) -> usize {
    let condition_bytes = condition.map_or(0, Condition::bytes);
    FRAME_HEADER_BYTES + (PUBLISH_FIXED_BYTES + condition_bytes).next_multiple_of(8)
}

/// Appends a publish frame up to its records, which follow as they are, `record_bytes` of them.
pub fn publish_prefix(
    channel: u16,
    first: u64,
    messages: u32,
    level: AckLevel,
    atomic: bool,
    condition: Option<&Condition>,
    record_bytes: usize,
    out: &mut BytesMut,
) {
    let body_bytes = publish_prefix_bytes(condition) - FRAME_HEADER_BYTES + record_bytes;
    put_header(body_bytes, Publish::KIND, channel, out);
    put_publish_fixed(first, messages, level, atomic, condition, out);
}

fn put_publish_fixed(
    first: u64,
    messages: u32,
    level: AckLevel,
    atomic: bool,
    condition: Option<&Condition>,
    out: &mut BytesMut,
) {
    out.put_u64_le(first);
    out.put_u32_le(messages);
    level.put(out);
    out.put_u8(if atomic { PUBLISH_ATOMIC } else { 0 });
    let condition_bytes = condition.map_or(0, Condition::bytes);
    out.put_u16_le(u16::try_from(condition_bytes).expect("a filter is shorter than 64 KiB"));
    if let Some(condition) = condition {
        condition.sequence.put(out);
        out.put_slice(condition.filter.as_bytes());
        out.put_bytes(0, condition_bytes.next_multiple_of(8) - condition_bytes);
    }
}

impl Body for Publish {
    const KIND: u8 = 19;
    const NAME: &'static str = "publish";

    fn put(&self, out: &mut BytesMut) {
        let condition = self.condition.as_ref();
        put_publish_fixed(self.first, self.messages, self.level, self.atomic, condition, out);
        out.put_slice(&self.records);
    }

    fn get(from: &mut Fields<'_>) -> Result<Self, WireError> {
        let first = u64::get(from, "first publisher sequence")?;
        let messages = u32::get(from, "messages")?;
        let level = AckLevel::get(from, "ack level")?;
        let flags = u8::get(from, "flags")?;
        if flags & !PUBLISH_ATOMIC != 0 {
            return Err(from.wrong("flags", flags.into(), "0 or 1 (atomic)"));
        }
        let condition_bytes = u16::get(from, "condition bytes")? as usize;
        let mut condition = None;
        if condition_bytes > 0 {
            let Some(filter_bytes) = condition_bytes.checked_sub(8) else {
                let value = condition_bytes as u64;
                return Err(from.wrong("condition bytes", value, "0, or 8 and a filter"));
            };
            let sequence = Sequence::get(from, "condition's sequence")?;
            let filter = from.take(filter_bytes, "condition's filter")?;
            let filter = from.utf8(filter, "condition's filter")?;
            from.skip(condition_bytes.next_multiple_of(8) - condition_bytes)?;
            condition = Some(Condition { sequence, filter: from.text(filter) });
        }
        Ok(Publish { first, messages, level, atomic: flags & PUBLISH_ATOMIC != 0, condition, records: from.rest() })
    }
}

frame! {
    /// Names the publisher's next number; what lies between is not stored for ever.
    Skip = 20, "skip" {
        /// The next publisher sequence.
        next: u64,
    }
}

/// One outcome for consecutive messages of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Publisher sequence of the first message.
    pub first: u64,
    /// Messages with this outcome.
    pub messages: u32,
    /// The outcome.
    pub code: Code,
    /// The level it was reached at.
    pub level: AckLevel,
    /// Sequence of the first message, the others follow (for `expected`: the publisher sequence that is due; for
    /// `condition failed`: the newest matching sequence).
    pub sequence: Sequence,
    /// When to try again; 0: don't.
    pub retry_after_ms: u32,
}

/// Rows of [`Replies`].
#[derive(Debug)]
pub enum ReplyRows {}

impl Kind for ReplyRows {
    type Item<'a> = Reply;
    const NAME: &'static str = "replies";
    const PAD: usize = 4;

    fn read<'a>(from: &mut Fields<'a>) -> Result<Reply, WireError> {
        let first = u64::get(from, "first publisher sequence")?;
        let messages = u32::get(from, "messages")?;
        let code = Code::get(from, "code")?;
        let level = AckLevel::get(from, "ack level")?;
        from.skip(1)?;
        let sequence = Sequence::get(from, "first sequence")?;
        let retry_after_ms = u32::get(from, "retry after ms")?;
        from.skip(4)?;
        Ok(Reply { first, messages, code, level, sequence, retry_after_ms })
    }

    fn write(item: &Reply, out: &mut BytesMut) {
        let mut row = [0; 32];
        row[..8].copy_from_slice(&item.first.to_le_bytes());
        row[8..12].copy_from_slice(&item.messages.to_le_bytes());
        row[12..14].copy_from_slice(&item.code.number().to_le_bytes());
        row[14] = item.level as u8;
        row[16..24].copy_from_slice(&item.sequence.0.to_le_bytes());
        row[24..28].copy_from_slice(&item.retry_after_ms.to_le_bytes());
        out.put_slice(&row);
    }
}

frame! {
    /// Outcomes of one publisher's messages, in its order.
    Replies = 21, "replies" {
        /// The outcomes.
        replies: List<ReplyRows>,
    }
}

impl ListBody for Replies {
    type Rows = ReplyRows;
}

frame! {
    /// Ends a publisher when everything before is answered.
    ClosePublisher = 22, "close publisher" {}
}

frame! {
    /// The publisher is closed.
    Closed = 23, "closed" {}
}
