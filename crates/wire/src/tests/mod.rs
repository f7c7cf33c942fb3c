//! Tests over all frames: their bytes, and that any bytes are read or refused.

mod golden;
mod random;
mod samples;

use bytes::{Bytes, BytesMut};

use crate::{Frame, FrameReader, WireError};

/// A frame's bytes, header included.
fn bytes_of(channel: u16, frame: &Frame) -> Bytes {
    let mut out = BytesMut::new();
    frame.encode(channel, &mut out);
    out.freeze()
}

/// All frames of these bytes, fed in one piece.
fn frames_of(bytes: &[u8]) -> Result<Vec<(u16, Frame)>, WireError> {
    let mut reader = FrameReader::new(u32::MAX);
    reader.feed(bytes);
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}
