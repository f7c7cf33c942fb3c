//! What a session has to send: small frames gathered in one buffer, records as the slices they are.

use std::collections::VecDeque;

use arioso_stream::Sequence;
use arioso_wire::{Frame, deliver_parts, encode_deliver};
use bytes::{Buf, Bytes, BytesMut};

/// Above this much unsent nothing more is read for subscriptions: two slices of 256 KiB and their frames.
pub const OUTPUT_BYTES_SOFT: usize = 512 << 10;
/// Deliveries up to this size are copied into the buffer: cheaper than a part of a vectored write.
const COPY_BYTES_MAX: usize = 2 << 10;

/// Bytes that wait to be sent.
#[derive(Debug, Default)]
pub struct Output {
    parts: VecDeque<Bytes>,
    parts_bytes: usize,
    buffer: BytesMut,
    scratch: Vec<Bytes>,
}

impl Output {
    /// Bytes waiting.
    pub fn bytes(&self) -> usize {
        self.parts_bytes + self.buffer.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Whether subscriptions may add more.
    pub fn has_room(&self) -> bool {
        self.bytes() < OUTPUT_BYTES_SOFT
    }

    /// Adds a frame.
    pub fn push(&mut self, channel: u16, frame: &Frame) {
        frame.encode(channel, &mut self.buffer);
    }

    /// The buffer that small frames are encoded into.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Adds a deliver frame; its records are not copied unless they are few.
    pub fn deliver(&mut self, channel: u16, through: Sequence, count: u32, slices: &mut Vec<Bytes>) {
        let bytes: usize = slices.iter().map(Bytes::len).sum();
        if bytes <= COPY_BYTES_MAX && slices.len() == 1 {
            encode_deliver(channel, through, count, &slices[0], &mut self.buffer);
            slices.clear();
            return;
        }
        deliver_parts(channel, through, count, slices.drain(..), &mut self.buffer, &mut self.scratch);
        for part in self.scratch.drain(..) {
            self.parts_bytes += part.len();
            self.parts.push_back(part);
        }
    }

    /// What to write next, in order, as many parts as a vectored write takes.
    pub fn front(&mut self, parts_max: usize) -> impl Iterator<Item = &Bytes> {
        if !self.buffer.is_empty() {
            let part = self.buffer.split().freeze();
            self.parts_bytes += part.len();
            self.parts.push_back(part);
        }
        self.parts.iter().take(parts_max)
    }

    /// So much was written.
    pub fn consume(&mut self, mut bytes: usize) {
        self.parts_bytes -= bytes;
        while bytes > 0 {
            let part = self.parts.front_mut().expect("no more is written than there was");
            if part.len() > bytes {
                part.advance(bytes);
                return;
            }
            bytes -= part.len();
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_out_in_the_order_they_came_in_whatever_their_size() {
        let mut output = Output::default();
        let mut expected = BytesMut::new();
        for size in [8usize, 5_000, 16, 100_000, 8] {
            let records = Bytes::from(vec![size as u8; size]);
            encode_deliver(3, Sequence(9), 1, &records, &mut expected);
            output.deliver(3, Sequence(9), 1, &mut vec![records]);
        }
        assert_eq!(output.bytes(), expected.len());
        let mut sent = Vec::new();
        while !output.is_empty() {
            let part: Vec<u8> = output.front(2).flat_map(|part| part.to_vec()).collect();
            let some = part.len().min(777);
            sent.extend_from_slice(&part[..some]);
            output.consume(some);
        }
        assert_eq!(sent, expected);
    }
}
