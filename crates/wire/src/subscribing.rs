//! Subscribing: docs/protocol.md section 4.

use arioso_stream::Sequence;
use bytes::{BufMut, Bytes, BytesMut};

use crate::body::{Field, Fields, frame, put_header};
use crate::list::{List, ListBody};
use crate::{Body, Code, Filters, Text, TopicNames, WireError};

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// At the first message kept.
    Start,
    /// With the next message.
    #[default]
    Live,
    /// At the first message at or above this sequence.
    Sequence(Sequence),
    /// At the first message whose timestamp (unix ns) is not below this one.
    Time(i64),
    /// With the newest message of every matching topic.
    Last,
}

impl Begin {
    /// Kind and value as they lie in a frame.
    pub(crate) fn parts(self) -> (u8, u64) {
        match self {
            Begin::Start => (0, 0),
            Begin::Live => (1, 0),
            Begin::Sequence(sequence) => (2, sequence.0),
            Begin::Time(time) => (3, time.cast_unsigned()),
            Begin::Last => (4, 0),
        }
    }

    /// From kind and value, with the zeros between.
    pub(crate) fn read(from: &mut Fields<'_>, zeros: usize) -> Result<Begin, WireError> {
        let kind = u8::get(from, "from kind")?;
        from.skip(zeros)?;
        let value = u64::get(from, "from value")?;
        match kind {
            0 => Ok(Begin::Start),
            1 => Ok(Begin::Live),
            2 => Ok(Begin::Sequence(Sequence(value))),
            3 => Ok(Begin::Time(value.cast_signed())),
            4 => Ok(Begin::Last),
            other => Err(from.wrong("from kind", other.into(), "0 to 4")),
        }
    }
}

/// Flag of subscribe and more filters: the next frame goes on.
const FILTERS_MORE: u8 = 1;
/// Flag of subscribe: end behind what was acknowledged when it began.
const SUBSCRIBE_UNTIL_END: u8 = 2;
/// Flag of subscribe: blocks of a store may be sent as they lie.
const SUBSCRIBE_BLOCKS: u8 = 4;

/// Makes the channel a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// Whether more filters follow in frames of their own.
    pub more: bool,
    /// Whether it ends behind what was acknowledged when it began.
    pub until_end: bool,
    /// Whether blocks of a store may be sent as they lie.
    pub blocks: bool,
    /// Lanes; 1 today.
    pub lanes: u8,
    /// Where it begins.
    pub begin: Begin,
    /// Bytes of deliver and block bodies that may be sent.
    pub credit_bytes: u64,
    /// The position's stream, 0 for none.
    pub stream_id: u128,
    /// The cursor it holds, empty for none.
    pub cursor: Text,
    /// The filters, or the first of them.
    pub filters: List<Filters>,
}

impl Body for Subscribe {
    const KIND: u8 = 32;
    const NAME: &'static str = "subscribe";

    fn put(&self, out: &mut BytesMut) {
        let mut flags = 0;
        for (set, flag) in
            [(self.more, FILTERS_MORE), (self.until_end, SUBSCRIBE_UNTIL_END), (self.blocks, SUBSCRIBE_BLOCKS)]
        {
            if set {
                flags |= flag;
            }
        }
        out.put_u8(flags);
        out.put_u8(self.lanes);
        out.put_u16_le(0);
        let (kind, value) = self.begin.parts();
        out.put_u8(kind);
        out.put_bytes(0, 3);
        out.put_u64_le(value);
        out.put_u64_le(self.credit_bytes);
        out.put_u128_le(self.stream_id);
        self.cursor.put(out);
        self.filters.put(out);
    }

    fn get(from: &mut Fields<'_>) -> Result<Self, WireError> {
        let flags = u8::get(from, "flags")?;
        if flags & !(FILTERS_MORE | SUBSCRIBE_UNTIL_END | SUBSCRIBE_BLOCKS) != 0 {
            return Err(from.wrong("flags", flags.into(), "a sum of 1, 2 and 4"));
        }
        let lanes = u8::get(from, "lanes")?;
        from.skip(2)?;
        Ok(Subscribe {
            more: flags & FILTERS_MORE != 0,
            until_end: flags & SUBSCRIBE_UNTIL_END != 0,
            blocks: flags & SUBSCRIBE_BLOCKS != 0,
            lanes,
            begin: Begin::read(from, 3)?,
            credit_bytes: u64::get(from, "credit bytes")?,
            stream_id: u128::get(from, "stream id")?,
            cursor: Text::get(from, "cursor name")?,
            filters: List::get(from, "filters")?,
        })
    }
}

/// Goes on with a subscribe's filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoreFilters {
    /// Whether still more follow.
    pub more: bool,
    /// The next filters.
    pub filters: List<Filters>,
}

impl Body for MoreFilters {
    const KIND: u8 = 33;
    const NAME: &'static str = "more filters";

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(if self.more { FILTERS_MORE } else { 0 });
        out.put_bytes(0, 3);
        self.filters.put(out);
    }

    fn get(from: &mut Fields<'_>) -> Result<Self, WireError> {
        let flags = u8::get(from, "flags")?;
        if flags & !FILTERS_MORE != 0 {
            return Err(from.wrong("flags", flags.into(), "0 or 1 (still more)"));
        }
        from.skip(3)?;
        Ok(MoreFilters { more: flags & FILTERS_MORE != 0, filters: List::get(from, "filters")? })
    }
}

frame! {
    /// The subscription began.
    Subscribed = 34, "subscribed" {
        /// The first sequence that can be delivered.
        starts_at: Sequence,
        /// The newest settled message when it began.
        newest_settled: Sequence,
        /// The first message kept.
        first_kept: Sequence,
        /// The epoch under which it holds its cursor, 0 without one.
        holder_epoch: u32; 4 zeros,
    }
}

frame! {
    /// More may be sent.
    Credit = 35, "credit" {
        /// Bytes more.
        bytes: u64,
    }
}

frame! {
    /// Ends the subscription.
    Unsubscribe = 36, "unsubscribe" {}
}

frame! {
    /// Names of topics, on channel 0, before the first record on this connection that uses them.
    Names = 37, "names" {
        /// Stream-wide id and topic.
        topics: List<TopicNames>,
    }
}

impl ListBody for Names {
    type Rows = TopicNames;
}

frame! {
    /// Records as they lie.
    Deliver = 38, "deliver" {
        /// Everything selected up to here is delivered, this frame included.
        through: Sequence,
        /// Records.
        count: u32; 4 zeros,
        /// The records end to end.
        records: Bytes,
    }
}

/// Bytes of a deliver body before the records.
const DELIVER_FIXED_BYTES: usize = 16;

/// Appends a deliver frame with the records copied behind its head: cheapest for few bytes.
pub fn encode_deliver(channel: u16, through: Sequence, count: u32, records: &[u8], out: &mut BytesMut) {
    put_deliver_head(channel, through, count, records.len(), out);
    out.put_slice(records);
}

/// A deliver frame as parts for a vectored write: the head, then the slices as they are, nothing copied. `scratch` lends
/// the head its bytes, so that a head costs no allocation of its own.
pub fn deliver_parts(
    channel: u16,
    through: Sequence,
    count: u32,
    slices: impl IntoIterator<Item = Bytes>,
    scratch: &mut BytesMut,
    parts: &mut Vec<Bytes>,
) {
    let head = parts.len();
    parts.push(Bytes::new());
    let mut record_bytes = 0;
    for slice in slices {
        record_bytes += slice.len();
        parts.push(slice);
    }
    // What was begun before stays in front of the head.
    put_deliver_head(channel, through, count, record_bytes, scratch);
    parts[head] = scratch.split().freeze();
}

fn put_deliver_head(channel: u16, through: Sequence, count: u32, record_bytes: usize, out: &mut BytesMut) {
    put_header(DELIVER_FIXED_BYTES + record_bytes, Deliver::KIND, channel, out);
    through.put(out);
    out.put_u32_le(count);
    out.put_u32_le(0);
}

frame! {
    /// Everything selected up to here is delivered.
    Safe = 39, "safe" {
        /// The mark.
        through: Sequence,
    }
}

frame! {
    /// A block of a store as it lies; may hold records outside the selection and below the position.
    Block = 40, "block" {
        /// The lane it belongs to.
        lane: u16,
        /// How the bytes are packed (docs/format.md section 9).
        encoding: u8; 1 zeros,
        /// Bytes of records once unpacked.
        record_bytes: u32,
        /// The first sequence in it.
        first: Sequence,
        /// The last sequence in it.
        last: Sequence,
        /// The packed records.
        packed: Bytes,
    }
}

frame! {
    /// The position is behind retention; nothing follows until `go on`.
    Trimmed = 41, "trimmed" {
        /// The first message wanted.
        wanted: Sequence,
        /// The first message kept.
        first: Sequence,
    }
}

frame! {
    /// Go on here after `trimmed`.
    GoOn = 42, "go on" {
        /// The first message wanted now.
        begin: Sequence,
    }
}

frame! {
    /// The subscription is over.
    Ended = 43, "ended" {
        /// Everything selected up to here was delivered.
        through: Sequence,
        /// `ok`: as asked.
        code: Code; 2 zeros,
    }
}
