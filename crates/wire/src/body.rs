//! A frame's body, field by field, and the macro in which the frames are written down.

use arioso_stream::Sequence;
use bytes::{BufMut, Bytes, BytesMut};

use crate::{Blob, Code, Text, WireError};

/// Bytes of the header every frame begins with.
pub const FRAME_HEADER_BYTES: usize = 8;
/// The connection itself.
pub const CHANNEL_CONNECTION: u16 = 0;
/// The highest channel a client chooses.
pub const CHANNEL_MAX: u16 = 0xfffe;
/// Where refused topics are told.
pub const CHANNEL_TOPICS: u16 = 0xffff;

/// What every type of frame has.
pub trait Body: Sized {
    /// The type's number in the header.
    const KIND: u8;
    /// The type's name in docs/protocol.md.
    const NAME: &'static str;

    /// Appends the body.
    fn put(&self, out: &mut BytesMut);

    /// Reads the body up to its last field.
    fn get(from: &mut Fields<'_>) -> Result<Self, WireError>;

    /// Appends the whole frame, header included.
    fn encode(&self, channel: u16, out: &mut BytesMut) {
        let start = begin_frame(Self::KIND, channel, out);
        self.put(out);
        end_frame(start, out);
    }

    /// Reads a whole body; nothing may stand behind the last field.
    fn parse(body: &Bytes) -> Result<Self, WireError> {
        let mut fields = Fields::new(Self::NAME, body);
        let parsed = Self::get(&mut fields)?;
        fields.finish()?;
        Ok(parsed)
    }
}

/// Appends a header whose length is not known yet; returns where it stands.
pub(crate) fn begin_frame(kind: u8, channel: u16, out: &mut BytesMut) -> usize {
    let start = out.len();
    put_header(0, kind, channel, out);
    start
}

/// Appends a header.
pub(crate) fn put_header(body_bytes: usize, kind: u8, channel: u16, out: &mut BytesMut) {
    out.put_u32_le(u32::try_from(body_bytes).expect("a frame's body fits the length field"));
    out.put_u8(kind);
    out.put_u8(0);
    out.put_u16_le(channel);
}

/// Fills the length of the frame that began at `start` and ends here.
pub(crate) fn end_frame(start: usize, out: &mut BytesMut) {
    let body_bytes = out.len() - start - FRAME_HEADER_BYTES;
    let body_bytes = u32::try_from(body_bytes).expect("a frame's body fits the length field");
    out[start..start + 4].copy_from_slice(&body_bytes.to_le_bytes());
}

/// A body while it is read.
#[derive(Debug)]
pub struct Fields<'a> {
    frame: &'static str,
    body: &'a Bytes,
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(frame: &'static str, body: &'a Bytes) -> Fields<'a> {
        Fields { frame, body, at: 0 }
    }

    /// The next bytes.
    pub(crate) fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let left = &self.body[self.at..];
        let Some(taken) = left.get(..count) else {
            return Err(WireError::Short { frame: self.frame, field, need: count, have: left.len() });
        };
        self.at += count;
        Ok(taken)
    }

    /// Passes over bytes that are written zero and not looked at.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), WireError> {
        self.take(count, "zeros").map(|_| ())
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    /// A string with its length in two bytes, in place.
    pub(crate) fn str(&mut self, field: &'static str) -> Result<&'a str, WireError> {
        let count = u16::get(self, field)? as usize;
        let bytes = self.take(count, field)?;
        self.utf8(bytes, field)
    }

    /// Bytes as a string.
    pub(crate) fn utf8(&self, bytes: &'a [u8], field: &'static str) -> Result<&'a str, WireError> {
        std::str::from_utf8(bytes).map_err(|wrong| WireError::Text {
            frame: self.frame,
            field,
            at: wrong.valid_up_to(),
        })
    }

    /// A slice of the body as a shared slice, without copying.
    pub(crate) fn share(&self, part: &'a [u8]) -> Bytes {
        self.body.slice_ref(part)
    }

    /// A string of the body as shared text, without copying.
    pub(crate) fn text(&self, part: &'a str) -> Text {
        Text::from_utf8(self.share(part.as_bytes())).unwrap_or_default()
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> Bytes {
        let rest = self.body.slice(self.at..);
        self.at = self.body.len();
        rest
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// What was read since `from`, shared.
    pub(crate) fn since(&self, from: usize) -> Bytes {
        self.body.slice(from..self.at)
    }

    /// An error about a field's value.
    pub(crate) fn wrong(&self, field: &'static str, value: u64, want: &'static str) -> WireError {
        WireError::Value { frame: self.frame, field, value, want }
    }

    fn finish(&self) -> Result<(), WireError> {
        match self.body.len() - self.at {
            0 => Ok(()),
            bytes => Err(WireError::Trailing { frame: self.frame, bytes }),
        }
    }
}

/// A value that lies in a body.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut BytesMut);
    fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError>;
}

macro_rules! number_fields {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut BytesMut) {
                out.put_slice(&self.to_le_bytes());
            }

            fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError> {
                from.array(field).map(<$number>::from_le_bytes)
            }
        }
    )*};
}

number_fields!(u8, u16, u32, u64, u128, i64);

impl Field for Sequence {
    fn put(&self, out: &mut BytesMut) {
        self.0.put(out);
    }

    fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError> {
        u64::get(from, field).map(Sequence)
    }
}

impl Field for Code {
    fn put(&self, out: &mut BytesMut) {
        self.number().put(out);
    }

    fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError> {
        u16::get(from, field).map(Code::from_number)
    }
}

/// A string; its length was bounded by whoever made it.
pub(crate) fn put_str(text: &str, out: &mut BytesMut) {
    out.put_u16_le(u16::try_from(text.len()).expect("a name on the wire is shorter than 64 KiB"));
    out.put_slice(text.as_bytes());
}

impl Field for Text {
    fn put(&self, out: &mut BytesMut) {
        put_str(self, out);
    }

    fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError> {
        let text = from.str(field)?;
        Ok(from.text(text))
    }
}

impl Field for Blob {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(u32::try_from(self.0.len()).expect("a frame's field fits its length"));
        out.put_slice(&self.0);
    }

    fn get(from: &mut Fields<'_>, field: &'static str) -> Result<Self, WireError> {
        let count = u32::get(from, field)? as usize;
        let bytes = from.take(count, field)?;
        Ok(Blob(from.share(bytes)))
    }
}

/// The rest of the body: records as they lie.
impl Field for Bytes {
    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self);
    }

    fn get(from: &mut Fields<'_>, _field: &'static str) -> Result<Self, WireError> {
        Ok(from.rest())
    }
}

/// A frame as docs/protocol.md has it: name, type, then the fields in order; `; n zeros` says what follows a field.
macro_rules! frame {
    (
        $(#[$doc:meta])*
        $name:ident = $kind:literal, $text:literal {
            $($(#[$field_doc:meta])* $field:ident: $of:ty $(; $pad:literal zeros)?,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $of,)*
        }

        impl $crate::Body for $name {
            const KIND: u8 = $kind;
            const NAME: &'static str = $text;

            #[allow(unused_variables)]
            fn put(&self, out: &mut bytes::BytesMut) {
                $(
                    $crate::body::Field::put(&self.$field, out);
                    $(bytes::BufMut::put_bytes(out, 0, $pad);)?
                )*
            }

            #[allow(unused_variables)]
            fn get(from: &mut $crate::Fields<'_>) -> Result<Self, $crate::WireError> {
                $(
                    let $field = $crate::body::Field::get(from, stringify!($field))?;
                    $(from.skip($pad)?;)?
                )*
                Ok($name { $($field,)* })
            }
        }
    };
}

pub(crate) use frame;
