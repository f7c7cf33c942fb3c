//! Bytes as they arrive, frames as they are whole.
//!
//! ```text
//! buffer: [ header | body ][ header | body ][ header | bo
//!          └── next_frame takes it off, nothing is copied ──┘ the rest waits
//! ```

use bytes::{Buf, BytesMut};

use crate::{FRAME_HEADER_BYTES, Frame, WireError};

/// What a reader reserves at first: a quiet connection costs this much.
const SPARE_BYTES_MIN: usize = 4 << 10;
/// What a busy one reserves for a read.
const SPARE_BYTES_MAX: usize = 256 << 10;
/// Up to here a body's room is reserved when its header is seen; beyond, when this much of it has arrived, so that a
/// header alone can't make the receiver reserve megabytes.
const TRUST_BYTES: usize = 64 << 10;

/// Takes bytes in any pieces, gives frames out.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    frame_bytes_max: u32,
    spare_bytes: usize,
    offered: bool,
    error: Option<WireError>,
}

impl FrameReader {
    /// A reader that takes bodies up to this length.
    pub fn new(frame_bytes_max: u32) -> FrameReader {
        FrameReader {
            buffer: BytesMut::new(),
            frame_bytes_max,
            spare_bytes: SPARE_BYTES_MIN,
            offered: false,
            error: None,
        }
    }

    /// Appends bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer, with room for a good read behind what it has: read a socket straight into it.
    pub fn spare(&mut self) -> &mut BytesMut {
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare == 0 && self.offered {
            // The last read filled all there was.
            self.spare_bytes = (self.spare_bytes * 2).min(SPARE_BYTES_MAX);
        }
        let missing = self.missing_bytes();
        if spare < missing.max(SPARE_BYTES_MIN) {
            self.buffer.reserve(missing.max(self.spare_bytes));
        }
        self.offered = true;
        &mut self.buffer
    }

    /// Bytes that wait for the rest of their frame.
    pub fn waiting_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// What the frame at the front still needs, as far as it is trusted.
    fn missing_bytes(&self) -> usize {
        let Some((_, body_bytes, _)) = self.header() else {
            return FRAME_HEADER_BYTES.saturating_sub(self.buffer.len());
        };
        if body_bytes > self.frame_bytes_max {
            return 0;
        }
        let whole = FRAME_HEADER_BYTES + body_bytes as usize;
        let missing = whole.saturating_sub(self.buffer.len());
        if self.buffer.len() < TRUST_BYTES { missing.min(TRUST_BYTES) } else { missing }
    }

    fn header(&self) -> Option<(u8, u32, u16)> {
        let header = self.buffer.get(..FRAME_HEADER_BYTES)?;
        let body_bytes = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let channel = u16::from_le_bytes([header[6], header[7]]);
        Some((header[4], body_bytes, channel))
    }

    /// The next whole frame and its channel; `None` when more bytes are needed. After an error nothing more is read:
    /// where the next frame begins can't be trusted.
    pub fn next_frame(&mut self) -> Result<Option<(u16, Frame)>, WireError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let frame = self.read();
        if let Err(error) = &frame {
            self.error = Some(error.clone());
            self.buffer = BytesMut::new();
        }
        frame
    }

    fn read(&mut self) -> Result<Option<(u16, Frame)>, WireError> {
        loop {
            let Some((kind, body_bytes, channel)) = self.header() else {
                return Ok(None);
            };
            if body_bytes > self.frame_bytes_max {
                return Err(WireError::TooLarge { kind, bytes: body_bytes, bytes_max: self.frame_bytes_max });
            }
            let body_bytes = body_bytes as usize;
            if self.buffer.len() - FRAME_HEADER_BYTES < body_bytes {
                return Ok(None);
            }
            self.buffer.advance(FRAME_HEADER_BYTES);
            let body = self.buffer.split_to(body_bytes).freeze();
            if let Some(frame) = Frame::parse(kind, &body)? {
                return Ok(Some((channel, frame)));
            }
        }
    }
}
