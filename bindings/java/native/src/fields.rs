//! The small encodings in which arguments and rows cross: little-endian fields, one behind the other.

use crate::failure::{Failure, Result};

/// Reads fields that Java wrote; whatever the bytes, it ends with a value or an error.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let left = self.0.len();
        let split = self.0.split_at_checked(count);
        let (head, rest) = split.ok_or_else(|| {
            Failure::argument(format!("an argument is cut short: {left} bytes left, {count} are wanted"))
        })?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<usize> {
        Ok(u16::from_le_bytes(self.array()?).into())
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Bytes behind their count.
    pub fn part(&mut self) -> Result<&'a [u8]> {
        let count = self.u16()?;
        self.bytes(count)
    }
}

/// Text, or an error that says which.
pub fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| Failure::argument(format!("{what} is not UTF-8: {error}")))
}

/// Rows for Java.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        for number in numbers {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub fn text(&mut self, text: &str) {
        // Names, topics and filters have at most 1,024 bytes, which the wire holds.
        let bytes = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
        self.0.extend_from_slice(&u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_is_an_error_never_a_panic() {
        let mut out = Writer::default();
        out.text("a/b");
        out.numbers([7]);
        for end in 0..out.0.len() {
            let mut from = Reader::new(&out.0[..end]);
            assert!(from.part().and_then(|_| from.i64()).is_err(), "{end}");
        }
        let mut from = Reader::new(&out.0);
        assert_eq!((from.part().unwrap(), from.i64().unwrap()), (&b"a/b"[..], 7));
        assert!(from.is_empty());
    }
}
