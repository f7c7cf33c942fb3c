//! Opening, keeping alive and ending a connection: docs/protocol.md section 2.

use std::ops::RangeInclusive;

use arioso_stream::Sequence;

use crate::body::frame;
use crate::{Blob, Code, Text};

/// First field of hello.
pub const MAGIC: u32 = u32::from_le_bytes(*b"ARIO");
/// The protocol version this build speaks best.
pub const VERSION: u16 = 1;
/// The oldest it still speaks.
pub const VERSION_MIN: u16 = 1;
// A server speaks version N and N-1.
const _: () = assert!(VERSION_MIN + 1 >= VERSION);

/// The highest version both sides speak.
pub fn negotiate(theirs: RangeInclusive<u16>) -> Option<u16> {
    let version = VERSION.min(*theirs.end());
    (version >= VERSION_MIN && version >= *theirs.start()).then_some(version)
}

frame! {
    /// The client's first frame.
    Hello = 1, "hello" {
        /// [`MAGIC`]; whether it is right is for the server to say.
        magic: u32,
        /// The lowest version the client speaks.
        version_min: u16,
        /// The highest version the client speaks.
        version_max: u16,
        /// What else it can; none is defined yet.
        capabilities: u64,
        /// The longest frame it takes.
        frame_bytes_max: u32,
        /// The stream it wants, 0 for any.
        stream_id: u128,
        /// What it calls itself.
        client_name: Text,
        /// Empty today.
        auth: Blob,
    }
}

frame! {
    /// The server's answer to hello.
    Welcome = 2, "welcome" {
        /// The version spoken from here on.
        version: u16; 2 zeros,
        /// What else the server can; none is defined yet.
        capabilities: u64,
        /// The longest frame it takes.
        frame_bytes_max: u32,
        /// After this much silence each side sends ping.
        heartbeat_ms: u32,
        /// The stream's id.
        stream_id: u128,
        /// The server's epoch.
        server_epoch: u64,
        /// Bytes of records a publisher may have unanswered.
        publish_window_bytes: u32,
        /// Messages a publisher may have unanswered.
        publish_window_messages: u32,
        /// The longest payload taken.
        payload_bytes_max: u32,
        /// The next number the sequencer will give.
        next_sequence: Sequence,
        /// The stream's name.
        stream_name: Text,
    }
}

frame! {
    /// A sign of life that is answered.
    Ping = 3, "ping" {
        /// Any; pong has the same.
        value: u64,
    }
}

frame! {
    /// The answer to ping.
    Pong = 4, "pong" {
        /// Ping's value.
        value: u64,
    }
}

frame! {
    /// Something went wrong. On channel 0 the connection ends, elsewhere only what the channel stands for.
    ErrorFrame = 5, "error" {
        /// What.
        code: Code; 2 zeros,
        /// When to try again; 0: don't.
        retry_after_ms: u32,
        /// By code.
        detail_a: u64,
        /// By code.
        detail_b: u64,
        /// For people.
        text: Text,
    }
}

frame! {
    /// The sender sends nothing more.
    Goodbye = 6, "goodbye" {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_taken() {
        assert_eq!(negotiate(1..=1), Some(1));
        assert_eq!(negotiate(1..=9), Some(1));
        assert_eq!(negotiate(0..=0), None);
        assert_eq!(negotiate(2..=9), None);
        #[expect(clippy::reversed_empty_ranges, reason = "what a broken peer may say")]
        let reversed = 9..=1;
        assert_eq!(negotiate(reversed), None);
    }
}
