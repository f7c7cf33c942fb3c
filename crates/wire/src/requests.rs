//! Requests and their answers: docs/protocol.md section 5.

use arioso_stream::Sequence;
use bytes::{BufMut, Bytes, BytesMut};

use crate::body::{Field, Fields, put_str};
use crate::list::{Filters, Kind, List};
use crate::{Begin, Blob, Body, Text, WireError};

/// A question; its channel has the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Topics that match, a page.
    Topics {
        /// Which.
        filter: Text,
        /// The page begins behind this topic.
        after: Text,
        /// Rows of a page.
        rows_max: u32,
    },
    /// Named publishers, a page.
    Publishers {
        /// The page begins behind this name.
        after: Text,
        /// Rows of a page.
        rows_max: u32,
    },
    /// Forgets a publisher.
    DropPublisher {
        /// Its name.
        name: Text,
    },
    /// What a subscription would read.
    Explain {
        /// Where it would begin.
        begin: Begin,
        /// Its filters.
        filters: List<Filters>,
    },
    /// Cursors, a page.
    Cursors {
        /// The page begins behind this name.
        after: Text,
        /// Rows of a page.
        rows_max: u32,
    },
    /// Makes or moves a cursor.
    SetCursor {
        /// Its name.
        name: Text,
        /// The next message it wants.
        next: Sequence,
        /// Its filters.
        filters: List<Filters>,
    },
    /// Forgets a cursor.
    DropCursor {
        /// Its name.
        name: Text,
    },
    /// Moves a cursor on by its holder.
    Commit {
        /// Its name.
        name: Text,
        /// The holder's epoch.
        holder_epoch: u32,
        /// The next message it wants.
        next: Sequence,
    },
    /// How the stream stands.
    Status,
    /// Copies the stream to a folder of the server's.
    BackUp {
        /// An absolute path; made if missing, else empty.
        folder: Text,
    },
    /// Stores a piece of an application's snapshot; the last one keeps it.
    PutSnapshot {
        /// Its name.
        name: Text,
        /// Everything up to this sequence is in it.
        as_of: Sequence,
        /// Bytes of the whole.
        total: u64,
        /// XXH3 of the whole.
        hash: u64,
        /// Where the piece begins.
        offset: u64,
        /// The piece.
        bytes: Blob,
    },
    /// Reads a piece of an application's snapshot.
    GetSnapshot {
        /// Its name.
        name: Text,
        /// Which; 0: the newest.
        as_of: Sequence,
        /// Where the piece begins.
        offset: u64,
        /// Its bytes at most.
        bytes_max: u32,
    },
    /// What directories tell of a stretch of the stream, piece by piece.
    Sums {
        /// Pieces that begin at or above this,
        first: Sequence,
        /// and end at or below this.
        last: Sequence,
        /// Of which topics.
        filters: List<Filters>,
    },
    /// A kind this version doesn't know; the server answers `not offered`.
    Other {
        /// The kind's number.
        kind: u16,
        /// What follows.
        body: Bytes,
    },
}

/// Kinds of requests, by number.
mod kind {
    pub(super) const TOPICS: u16 = 1;
    pub(super) const PUBLISHERS: u16 = 2;
    pub(super) const DROP_PUBLISHER: u16 = 3;
    pub(super) const EXPLAIN: u16 = 4;
    pub(super) const CURSORS: u16 = 5;
    pub(super) const SET_CURSOR: u16 = 6;
    pub(super) const DROP_CURSOR: u16 = 7;
    pub(super) const COMMIT: u16 = 8;
    pub(super) const STATUS: u16 = 9;
    pub(super) const BACK_UP: u16 = 10;
    pub(super) const PUT_SNAPSHOT: u16 = 11;
    pub(super) const GET_SNAPSHOT: u16 = 12;
    pub(super) const SUMS: u16 = 13;
}

impl Request {
    /// The kind's number.
    pub fn kind(&self) -> u16 {
        match self {
            Request::Topics { .. } => kind::TOPICS,
            Request::Publishers { .. } => kind::PUBLISHERS,
            Request::DropPublisher { .. } => kind::DROP_PUBLISHER,
            Request::Explain { .. } => kind::EXPLAIN,
            Request::Cursors { .. } => kind::CURSORS,
            Request::SetCursor { .. } => kind::SET_CURSOR,
            Request::DropCursor { .. } => kind::DROP_CURSOR,
            Request::Commit { .. } => kind::COMMIT,
            Request::Status => kind::STATUS,
            Request::BackUp { .. } => kind::BACK_UP,
            Request::PutSnapshot { .. } => kind::PUT_SNAPSHOT,
            Request::GetSnapshot { .. } => kind::GET_SNAPSHOT,
            Request::Sums { .. } => kind::SUMS,
            Request::Other { kind, .. } => *kind,
        }
    }

    /// Whether it only asks, so that asking twice does no harm.
    pub fn only_asks(&self) -> bool {
        matches!(
            self,
            Request::Topics { .. }
                | Request::Publishers { .. }
                | Request::Explain { .. }
                | Request::Cursors { .. }
                | Request::GetSnapshot { .. }
                | Request::Status
                | Request::Sums { .. }
        )
    }
}

impl Body for Request {
    const KIND: u8 = 48;
    const NAME: &'static str = "request";

    fn put(&self, out: &mut BytesMut) {
        out.put_u16_le(self.kind());
        out.put_u16_le(0);
        match self {
            Request::Topics { filter, after, rows_max } => {
                filter.put(out);
                after.put(out);
                rows_max.put(out);
            }
            Request::Publishers { after, rows_max } | Request::Cursors { after, rows_max } => {
                after.put(out);
                rows_max.put(out);
            }
            Request::DropPublisher { name } | Request::DropCursor { name } => name.put(out),
            Request::Explain { begin, filters } => {
                let (kind, value) = begin.parts();
                out.put_u8(kind);
                out.put_bytes(0, 7);
                out.put_u64_le(value);
                filters.put(out);
            }
            Request::SetCursor { name, next, filters } => {
                name.put(out);
                next.put(out);
                filters.put(out);
            }
            Request::Commit { name, holder_epoch, next } => {
                name.put(out);
                holder_epoch.put(out);
                next.put(out);
            }
            Request::Status => {}
            Request::BackUp { folder } => folder.put(out),
            Request::PutSnapshot { name, as_of, total, hash, offset, bytes } => {
                name.put(out);
                as_of.put(out);
                total.put(out);
                hash.put(out);
                offset.put(out);
                bytes.put(out);
            }
            Request::GetSnapshot { name, as_of, offset, bytes_max } => {
                name.put(out);
                as_of.put(out);
                offset.put(out);
                bytes_max.put(out);
            }
            Request::Sums { first, last, filters } => {
                first.put(out);
                last.put(out);
                filters.put(out);
            }
            Request::Other { body, .. } => body.put(out),
        }
    }

    fn get(from: &mut Fields<'_>) -> Result<Self, WireError> {
        let kind = u16::get(from, "kind")?;
        from.skip(2)?;
        Ok(match kind {
            kind::TOPICS => Request::Topics {
                filter: Text::get(from, "filter")?,
                after: Text::get(from, "after")?,
                rows_max: u32::get(from, "rows max")?,
            },
            kind::PUBLISHERS => {
                Request::Publishers { after: Text::get(from, "after")?, rows_max: u32::get(from, "rows max")? }
            }
            kind::DROP_PUBLISHER => Request::DropPublisher { name: Text::get(from, "name")? },
            kind::EXPLAIN => Request::Explain { begin: Begin::read(from, 7)?, filters: List::get(from, "filters")? },
            kind::CURSORS => {
                Request::Cursors { after: Text::get(from, "after")?, rows_max: u32::get(from, "rows max")? }
            }
            kind::SET_CURSOR => Request::SetCursor {
                name: Text::get(from, "name")?,
                next: Sequence::get(from, "next")?,
                filters: List::get(from, "filters")?,
            },
            kind::DROP_CURSOR => Request::DropCursor { name: Text::get(from, "name")? },
            kind::COMMIT => Request::Commit {
                name: Text::get(from, "name")?,
                holder_epoch: u32::get(from, "holder epoch")?,
                next: Sequence::get(from, "next")?,
            },
            kind::STATUS => Request::Status,
            kind::BACK_UP => Request::BackUp { folder: Text::get(from, "folder")? },
            kind::PUT_SNAPSHOT => Request::PutSnapshot {
                name: Text::get(from, "name")?,
                as_of: Sequence::get(from, "as of")?,
                total: u64::get(from, "total")?,
                hash: u64::get(from, "hash")?,
                offset: u64::get(from, "offset")?,
                bytes: Blob::get(from, "bytes")?,
            },
            kind::GET_SNAPSHOT => Request::GetSnapshot {
                name: Text::get(from, "name")?,
                as_of: Sequence::get(from, "as of")?,
                offset: u64::get(from, "offset")?,
                bytes_max: u32::get(from, "bytes max")?,
            },
            kind::SUMS => Request::Sums {
                first: Sequence::get(from, "first")?,
                last: Sequence::get(from, "last")?,
                filters: List::get(from, "filters")?,
            },
            kind => Request::Other { kind, body: from.rest() },
        })
    }
}

/// A row as docs/protocol.md has it: fields in order.
macro_rules! row {
    (
        $(#[$doc:meta])*
        $name:ident $(<$life:lifetime>)? of $rows:ident, $text:literal {
            $($(#[$field_doc:meta])* $field:ident: $of:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_doc])* pub $field: $of,)*
        }

        /// Rows of this kind.
        #[derive(Debug)]
        pub enum $rows {}

        impl $rows {
            fn read_row<'a>(
                from: &mut Fields<'a>,
            ) -> Result<<$rows as Kind>::Item<'a>, WireError> {
                Ok($name { $($field: RowField::read(from, stringify!($field))?,)* })
            }

            fn write_row(row: &<$rows as Kind>::Item<'_>, out: &mut BytesMut) {
                $(RowField::write(&row.$field, out);)*
            }
        }
    };
}

/// A value in a row: like a field, but strings stay borrowed.
trait RowField<'a>: Sized {
    fn read(from: &mut Fields<'a>, field: &'static str) -> Result<Self, WireError>;
    fn write(&self, out: &mut BytesMut);
}

impl<'a> RowField<'a> for &'a str {
    fn read(from: &mut Fields<'a>, field: &'static str) -> Result<Self, WireError> {
        from.str(field)
    }

    fn write(&self, out: &mut BytesMut) {
        put_str(self, out);
    }
}

macro_rules! row_fields {
    ($($of:ty),*) => {$(
        impl<'a> RowField<'a> for $of {
            fn read(from: &mut Fields<'a>, field: &'static str) -> Result<Self, WireError> {
                Field::get(from, field)
            }

            fn write(&self, out: &mut BytesMut) {
                Field::put(self, out);
            }
        }
    )*};
}

row_fields!(u32, u64, i64, Sequence, Blob, List<Filters>);

macro_rules! rows_kind {
    ($rows:ident, $item:ty, $text:literal) => {
        impl Kind for $rows {
            type Item<'a> = $item;
            const NAME: &'static str = $text;

            fn read<'a>(from: &mut Fields<'a>) -> Result<Self::Item<'a>, WireError> {
                Self::read_row(from)
            }

            fn write(item: &Self::Item<'_>, out: &mut BytesMut) {
                Self::write_row(item, out);
            }
        }
    };
}

row! {
    /// A topic and what it holds.
    TopicRow<'a> of TopicRows, "topic rows" {
        /// The topic.
        topic: &'a str,
        /// Messages kept.
        messages: u64,
        /// Bytes of their records.
        bytes: u64,
        /// Its newest message.
        last: Sequence,
    }
}
rows_kind!(TopicRows, TopicRow<'a>, "topic rows");

row! {
    /// A named publisher.
    PublisherRow<'a> of PublisherRows, "publisher rows" {
        /// Its name.
        name: &'a str,
        /// Its stream-wide id.
        id: u32,
        /// Its epoch.
        epoch: u32,
        /// The last publisher sequence consumed.
        last_consumed: u64,
        /// When it was last used, unix ns.
        last_used: i64,
    }
}
rows_kind!(PublisherRows, PublisherRow<'a>, "publisher rows");

row! {
    /// What a subscription would read.
    ExplainRow of ExplainRows, "explain row" {
        /// Segments touched.
        segments: u64,
        /// Stores touched.
        stores: u64,
        /// Bytes to read.
        bytes_to_read: u64,
        /// Bytes of messages that match.
        bytes_useful: u64,
        /// Messages that match on disk.
        messages: u64,
        /// Messages that match in the tip.
        tip_messages: u64,
    }
}
rows_kind!(ExplainRows, ExplainRow, "explain row");

row! {
    /// A cursor.
    CursorRow<'a> of CursorRows, "cursor rows" {
        /// Its name.
        name: &'a str,
        /// The next message it wants.
        next: Sequence,
        /// When that was committed, unix ns.
        committed_at: i64,
        /// Its filters.
        filters: List<Filters>,
    }
}
rows_kind!(CursorRows, CursorRow<'a>, "cursor rows");

row! {
    /// How the stream stands.
    StatusRow of StatusRows, "status row" {
        /// The next number the sequencer will give.
        next_sequence: Sequence,
        /// Everything at or below is settled or void.
        settled: Sequence,
        /// The first message kept.
        first_kept: Sequence,
        /// Topics.
        topics: u64,
        /// Bytes in the tip.
        tip_bytes: u64,
        /// The first message in the tip.
        tip_first: Sequence,
    }
}
rows_kind!(StatusRows, StatusRow, "status row");

row! {
    /// What a backup came to.
    BackUpRow of BackUpRows, "backup row" {
        /// Every message acknowledged up to here that is kept is in it.
        through: Sequence,
        /// Files copied.
        files: u64,
        /// Their bytes.
        bytes: u64,
    }
}
rows_kind!(BackUpRows, BackUpRow, "backup row");

row! {
    /// A piece of an application's snapshot.
    SnapshotRow of SnapshotRows, "snapshot row" {
        /// Everything up to this sequence is in it.
        as_of: Sequence,
        /// Bytes of the whole.
        total: u64,
        /// XXH3 of the whole.
        hash: u64,
        /// The piece.
        bytes: Blob,
    }
}
rows_kind!(SnapshotRows, SnapshotRow, "snapshot row");

row! {
    /// What a directory tells of a piece of the stream.
    SumRow of SumRows, "sum rows" {
        /// The piece's first sequence.
        first: Sequence,
        /// Its last.
        last: Sequence,
        /// Messages in it that match.
        messages: u64,
        /// Bytes of their records.
        bytes: u64,
        /// The sum mod 2^64 of the XXH3 of each record.
        sum: u64,
    }
}
rows_kind!(SumRows, SumRow, "sum rows");

/// What an answer holds, by the request's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Of a topics request.
    Topics(List<TopicRows>),
    /// Of a publishers request.
    Publishers(List<PublisherRows>),
    /// Of an explain request.
    Explain(ExplainRow),
    /// Of a cursors request.
    Cursors(List<CursorRows>),
    /// Of a status request.
    Status(StatusRow),
    /// Of a backup request.
    BackUp(BackUpRow),
    /// Of a get snapshot request.
    Snapshot(SnapshotRow),
    /// Of a sums request.
    Sums(List<SumRows>),
    /// Of a request that changes something: it is done.
    Done {
        /// The request's kind.
        kind: u16,
    },
    /// Of a kind this version doesn't know.
    Other {
        /// The request's kind.
        kind: u16,
        /// Rows.
        count: u32,
        /// Their bytes.
        rows: Bytes,
    },
}

/// The answer to a request, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether further answers follow.
    pub more: bool,
    /// The rows.
    pub rows: Rows,
}

impl Rows {
    /// The request's kind.
    pub fn kind(&self) -> u16 {
        match self {
            Rows::Topics(_) => kind::TOPICS,
            Rows::Publishers(_) => kind::PUBLISHERS,
            Rows::Explain(_) => kind::EXPLAIN,
            Rows::Cursors(_) => kind::CURSORS,
            Rows::Status(_) => kind::STATUS,
            Rows::BackUp(_) => kind::BACK_UP,
            Rows::Snapshot(_) => kind::GET_SNAPSHOT,
            Rows::Sums(_) => kind::SUMS,
            Rows::Done { kind } | Rows::Other { kind, .. } => *kind,
        }
    }

    /// Rows there are.
    pub fn len(&self) -> usize {
        match self {
            Rows::Topics(rows) => rows.len(),
            Rows::Publishers(rows) => rows.len(),
            Rows::Cursors(rows) => rows.len(),
            Rows::Sums(rows) => rows.len(),
            Rows::Explain(_) | Rows::Status(_) | Rows::BackUp(_) | Rows::Snapshot(_) => 1,
            Rows::Done { .. } => 0,
            Rows::Other { count, .. } => *count as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Body for Answer {
    const KIND: u8 = 49;
    const NAME: &'static str = "answer";

    fn put(&self, out: &mut BytesMut) {
        out.put_u16_le(self.rows.kind());
        out.put_u8(self.more.into());
        out.put_u8(0);
        out.put_u32_le(u32::try_from(self.rows.len()).expect("a frame holds fewer rows"));
        match &self.rows {
            Rows::Topics(rows) => rows.put_rows(out),
            Rows::Publishers(rows) => rows.put_rows(out),
            Rows::Explain(row) => ExplainRows::write(row, out),
            Rows::Cursors(rows) => rows.put_rows(out),
            Rows::Status(row) => StatusRows::write(row, out),
            Rows::BackUp(row) => BackUpRows::write(row, out),
            Rows::Snapshot(row) => SnapshotRows::write(row, out),
            Rows::Sums(rows) => rows.put_rows(out),
            Rows::Done { .. } => {}
            Rows::Other { rows, .. } => out.put_slice(rows),
        }
    }

    fn get(from: &mut Fields<'_>) -> Result<Self, WireError> {
        let kind = u16::get(from, "kind")?;
        let more = u8::get(from, "more")?;
        if more > 1 {
            return Err(from.wrong("more", more.into(), "0 or 1"));
        }
        from.skip(1)?;
        let count = u32::get(from, "rows")?;
        let want = |from: &Fields<'_>, rows: u32, text| {
            let wrong = from.wrong("rows", count.into(), text);
            if count == rows { Ok(()) } else { Err(wrong) }
        };
        let rows = match kind {
            kind::TOPICS => Rows::Topics(List::read_rows(from, count)?),
            kind::PUBLISHERS => Rows::Publishers(List::read_rows(from, count)?),
            kind::CURSORS => Rows::Cursors(List::read_rows(from, count)?),
            kind::SUMS => Rows::Sums(List::read_rows(from, count)?),
            kind::EXPLAIN => {
                want(from, 1, "1")?;
                Rows::Explain(ExplainRows::read(from)?)
            }
            kind::STATUS => {
                want(from, 1, "1")?;
                Rows::Status(StatusRows::read(from)?)
            }
            kind::BACK_UP => {
                want(from, 1, "1")?;
                Rows::BackUp(BackUpRows::read(from)?)
            }
            kind::GET_SNAPSHOT => {
                want(from, 1, "1")?;
                Rows::Snapshot(SnapshotRows::read(from)?)
            }
            kind::DROP_PUBLISHER | kind::SET_CURSOR | kind::DROP_CURSOR | kind::COMMIT | kind::PUT_SNAPSHOT => {
                want(from, 0, "0")?;
                Rows::Done { kind }
            }
            kind => Rows::Other { kind, count, rows: from.rest() },
        };
        Ok(Answer { more: more == 1, rows })
    }
}
