//! How a client behaves, and the limits it keeps.

use std::time::Duration;

/// How a client behaves. `Options::default()` is meant to be right.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the client calls itself.
    pub name: String,
    /// The stream it wants, 0 for any. Once connected it stays with the stream it found.
    pub stream_id: u128,
    /// How long the first connection may take, tries included.
    pub connect_timeout: Duration,
    /// How long it tries to get back a connection that was cut, before everything ends with `Unreachable`. `None`: for ever.
    pub unreachable_after: Option<Duration>,
    /// The longest pause before the second try; it doubles with each try.
    pub backoff_min: Duration,
    /// The longest pause of all.
    pub backoff_max: Duration,
    /// Where the jitter of the pauses begins. `None`: each client its own.
    pub seed: Option<u64>,
    /// Messages a publisher may have unanswered, if the server allows as many.
    pub window_messages: u32,
    /// Bytes of records a publisher may have unanswered, if the server allows as many.
    pub window_bytes: u32,
    /// Topics this client may publish on. They are announced again with every connection.
    pub topics_max: u32,
    /// Names of topics the server may send on one connection.
    pub names_max: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: String::from("arioso"),
            stream_id: 0,
            connect_timeout: Duration::from_secs(5),
            unreachable_after: Some(Duration::from_secs(60)),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            seed: None,
            window_messages: 65_536,
            window_bytes: 16 << 20,
            topics_max: 1 << 20,
            names_max: 16 << 20,
        }
    }
}

/// The longest frame taken: the longest payload, its extensions and its head, with room to spare.
pub const FRAME_BYTES_MAX: u32 = (16 << 20) + (1 << 20);
/// Messages that wait together go into one publish frame up to here: enough that the frame's head weighs nothing, little
/// enough that another publisher's turn comes soon.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// What is handed out for writing before the socket is asked again.
pub(crate) const TRANSMIT_BYTES: usize = 1 << 20;
/// What a publish frame without a condition has in front of its records.
const PUBLISH_HEAD_BYTES: usize = 24;
/// Every server takes frames at least this long (docs/protocol.md section 1), so all control frames fit.
pub(crate) const FRAME_BYTES_MIN: usize = 128 << 10;
/// Shorter blocks that come back refused, message by message perhaps, are joined again to blocks of this size.
pub(crate) const JOIN_BYTES: usize = 64 << 10;
const _: () = assert!(JOIN_BYTES + PUBLISH_HEAD_BYTES <= FRAME_BYTES_MIN);
/// Records up to here are copied behind their frame's head; longer ones are handed out as they are.
pub(crate) const COPY_BYTES: usize = 8 << 10;
/// Messages of an atomic batch.
pub const ATOMIC_MESSAGES_MAX: usize = 4_096;
/// Bytes of an atomic batch's records.
pub const ATOMIC_BYTES_MAX: usize = 16 << 20;
/// Bytes of a topic.
pub const TOPIC_BYTES_MAX: usize = 1_024;
/// Bytes of a publisher's, cursor's or client's name.
pub const NAME_BYTES_MAX: usize = 1_024;
/// Rows of one page.
pub const PAGE_ROWS_MAX: u32 = 10_000;
/// How long the server may take for welcome.
pub(crate) const WELCOME_WAIT: Duration = Duration::from_secs(5);
/// The shortest pause before something refused is sent again.
pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_millis(5);
/// A connection that lasted this long counts as good: the pauses begin at the shortest again.
pub(crate) const GOOD_CONNECTION: Duration = Duration::from_secs(1);
/// How long a closing client waits for its last answers.
pub(crate) const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Answers of one request: rows come many to an answer.
pub(crate) const ANSWERS_MAX: usize = 4_096;

/// What holds on this connection: the smaller of what the options and the server allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) window_messages: u64,
    pub(crate) window_bytes: u64,
    pub(crate) payload_bytes: usize,
    pub(crate) frame_bytes: usize,
    /// Records of one frame that need not be there together.
    pub(crate) block_bytes: usize,
}

impl Limits {
    /// Before the server told its own.
    pub(crate) fn of(options: &Options) -> Limits {
        Limits {
            window_messages: options.window_messages.into(),
            window_bytes: options.window_bytes.into(),
            payload_bytes: arioso_stream::record::PAYLOAD_BYTES_MAX,
            frame_bytes: FRAME_BYTES_MAX as usize,
            block_bytes: BLOCK_BYTES,
        }
    }

    /// With the frames a server takes.
    pub(crate) fn with_frames(self, frame_bytes: usize) -> Limits {
        Limits { frame_bytes, block_bytes: BLOCK_BYTES.min(frame_bytes - PUBLISH_HEAD_BYTES), ..self }
    }
}
