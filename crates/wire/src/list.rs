//! Lists that stay where they were received: checked once when read, walked in place afterwards.

use std::fmt;
use std::marker::PhantomData;

use bytes::{BufMut, Bytes, BytesMut};

use crate::body::{Field, Fields, begin_frame, end_frame, put_str};
use crate::{Body, WireError};

/// What a list holds.
pub trait Kind {
    /// One row, seen in place.
    type Item<'a>: fmt::Debug;
    /// Its name in an error.
    const NAME: &'static str;
    /// Zero bytes between the count and the first row.
    const PAD: usize = 0;

    /// Reads one row.
    fn read<'a>(from: &mut Fields<'a>) -> Result<Self::Item<'a>, WireError>;
    /// Appends one row.
    fn write(item: &Self::Item<'_>, out: &mut BytesMut);
}

/// Rows of one kind: a count and their bytes.
pub struct List<K> {
    count: u32,
    rows: Bytes,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> List<K> {
    /// No rows.
    pub const EMPTY: List<K> = List { count: 0, rows: Bytes::new(), kind: PhantomData };

    /// A list of these rows.
    pub fn collect<'a>(items: impl IntoIterator<Item = K::Item<'a>>) -> List<K> {
        let mut rows = BytesMut::new();
        let mut count = 0;
        for item in items {
            K::write(&item, &mut rows);
            count += 1;
        }
        List { count, rows: rows.freeze(), kind: PhantomData }
    }

    /// Rows there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the rows.
    pub fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = K::Item<'_>> {
        let mut fields = Fields::new(K::NAME, &self.rows);
        // Every row was read once already; the walk can't fail.
        (0..self.count).map_while(move |_| K::read(&mut fields).ok())
    }

    pub(crate) fn read_rows(from: &mut Fields<'_>, count: u32) -> Result<List<K>, WireError> {
        let start = from.at();
        for _ in 0..count {
            K::read(from)?;
        }
        Ok(List { count, rows: from.since(start), kind: PhantomData })
    }

    pub(crate) fn put_rows(&self, out: &mut BytesMut) {
        out.put_slice(&self.rows);
    }
}

impl<K: Kind> Field for List<K> {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.count);
        out.put_bytes(0, K::PAD);
        self.put_rows(out);
    }

    fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError> {
        let count = u32::get(from, field)?;
        from.skip(K::PAD)?;
        List::read_rows(from, count)
    }
}

impl<K> Clone for List<K> {
    fn clone(&self) -> Self {
        List { count: self.count, rows: self.rows.clone(), kind: PhantomData }
    }
}

impl<K> PartialEq for List<K> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.rows == other.rows
    }
}

impl<K> Eq for List<K> {}

impl<K: Kind> Default for List<K> {
    fn default() -> Self {
        List::EMPTY
    }
}

impl<K: Kind> fmt::Debug for List<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Filters, each a string.
#[derive(Debug)]
pub enum Filters {}

impl Kind for Filters {
    type Item<'a> = &'a str;
    const NAME: &'static str = "filters";

    fn read<'a>(from: &mut Fields<'a>) -> Result<&'a str, WireError> {
        from.str("filter")
    }

    fn write(item: &&str, out: &mut BytesMut) {
        put_str(item, out);
    }
}

/// Writes a frame whose body is one list, row by row, straight into the output.
///
/// ```
/// use arioso_wire::{ListWriter, Topics};
/// let mut out = bytes::BytesMut::new();
/// let mut topics = ListWriter::begin::<Topics>(0, &mut out);
/// topics.push(&(1, "a/b"));
/// assert_eq!(topics.finish(), 1);
/// ```
pub struct ListWriter<'o, K> {
    out: &'o mut BytesMut,
    start: usize,
    count: u32,
    kind: PhantomData<fn() -> K>,
}

/// A frame whose body is one list.
pub trait ListBody: Body {
    /// What the list holds.
    type Rows: Kind;
}

impl<'o, K: Kind> ListWriter<'o, K> {
    /// Begins the frame.
    pub fn begin<F: ListBody<Rows = K>>(channel: u16, out: &'o mut BytesMut) -> ListWriter<'o, K> {
        let start = begin_frame(F::KIND, channel, out);
        out.put_bytes(0, 4 + K::PAD);
        ListWriter { out, start, count: 0, kind: PhantomData }
    }

    /// Appends a row.
    pub fn push(&mut self, item: &K::Item<'_>) {
        K::write(item, self.out);
        self.count += 1;
    }

    /// Bytes of the frame so far, header included.
    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Fills in count and length; returns the rows written. A frame without rows is taken back.
    pub fn finish(self) -> u32 {
        if self.count == 0 {
            self.out.truncate(self.start);
            return 0;
        }
        let at = self.start + crate::FRAME_HEADER_BYTES;
        self.out[at..at + 4].copy_from_slice(&self.count.to_le_bytes());
        end_frame(self.start, self.out);
        self.count
    }
}
