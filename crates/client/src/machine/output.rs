//! Bytes on their way to the socket: small frames gather in one buffer, long records stay where they are.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::options::COPY_BYTES;

#[derive(Debug, Default)]
pub(crate) struct Output {
    small: BytesMut,
    parts: VecDeque<Bytes>,
    parts_bytes: usize,
}

impl Output {
    /// Where frames are encoded.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.small
    }

    /// Records that follow what is in the buffer.
    pub(crate) fn push_records(&mut self, records: Bytes) {
        if records.len() <= COPY_BYTES {
            self.small.extend_from_slice(&records);
            return;
        }
        self.seal();
        self.parts_bytes += records.len();
        self.parts.push_back(records);
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.small.len() + self.parts_bytes
    }

    /// The next bytes to write.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        self.seal();
        let part = self.parts.pop_front()?;
        self.parts_bytes -= part.len();
        Some(part)
    }

    /// Forgets what waits: its connection is gone.
    pub(crate) fn clear(&mut self) {
        *self = Output::default();
    }

    fn seal(&mut self) {
        if !self.small.is_empty() {
            self.parts_bytes += self.small.len();
            self.parts.push_back(self.small.split().freeze());
        }
    }
}
