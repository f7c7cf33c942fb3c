//! Strings and long bytes that stay where they were received.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

/// UTF-8 in a shared buffer: a `str` that costs no allocation to read from a frame or to clone.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Bytes);

impl Text {
    /// No characters.
    pub const EMPTY: Text = Text(Bytes::new());

    /// The bytes as a string, or how far they are UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<Text, usize> {
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Text(bytes)),
            Err(wrong) => Err(wrong.valid_up_to()),
        }
    }

    /// From a string that lives as long as the program.
    pub const fn from_static(text: &'static str) -> Text {
        Text(Bytes::from_static(text.as_bytes()))
    }

    /// As a string.
    pub fn as_str(&self) -> &str {
        // Checked when made. Checking again is cheap beside what is done with a name, and needs no unsafe code.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The same text in a buffer of its own, so that it doesn't keep a large receive buffer alive.
    pub fn detached(&self) -> Text {
        Text(Bytes::copy_from_slice(&self.0))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Bytes::from(text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Bytes with a `u32` length in front of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob(pub Bytes);
