//! What can go wrong for a client.

use arioso_stream::Sequence;
use arioso_stream::record::BadRecord;
use arioso_wire::{Code, ErrorFrame, Text, WireError};

/// What went wrong, with its numbers. Cheap to clone: one error may end many receipts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server refused.
    #[error("refused: {code}: {text}")]
    Refused {
        /// Why.
        code: Code,
        /// In its words.
        text: Text,
        /// By code.
        detail_a: u64,
        /// By code.
        detail_b: u64,
    },
    /// The condition did not hold.
    #[error("condition failed: the newest matching message is {newest}")]
    ConditionFailed {
        /// The newest message that matches, 0 for none.
        newest: Sequence,
    },
    /// Somebody else opened this publisher or cursor, or it was dropped meanwhile.
    #[error("another holder opened {name:?}; open it again to take it back")]
    Fenced {
        /// Its name.
        name: Text,
    },
    /// Whether the message was stored is not known and will not be: its publisher is anonymous.
    #[error("the connection was cut before the answer, an anonymous publisher can't ask again")]
    Unknown,
    /// The publisher's window has no room now.
    #[error("busy: {messages} messages of {bytes} bytes are unanswered, the window is {messages_max} and {bytes_max}")]
    Busy {
        /// Messages unanswered.
        messages: u64,
        /// Bytes of their records.
        bytes: u64,
        /// The window in messages.
        messages_max: u64,
        /// The window in bytes.
        bytes_max: u64,
    },
    /// The client, publisher or subscription was closed. A message that was unanswered then may have been stored or not.
    #[error("closed")]
    Closed,
    /// The server could not be reached for too long.
    #[error("no connection to the server for {ms} ms; last: {last}")]
    Unreachable {
        /// How long.
        ms: u64,
        /// The last thing that went wrong.
        last: Text,
    },
    /// The connection was cut. A request that changes something and was not answered may have been done or not.
    #[error("connection cut: {reason}")]
    Cut {
        /// Why.
        reason: Text,
    },
    /// A filtered read does not come to what the directories tell.
    #[error(
        "sequences {first} to {last}: {messages} messages of {bytes} bytes were delivered, the directory tells of {messages_told} of \
         {bytes_told} bytes{}", if *.messages == *.messages_told && *.bytes == *.bytes_told { ", and their sums differ" } else { "" }
    )]
    Incomplete {
        /// The first sequence of the piece.
        first: Sequence,
        /// Its last.
        last: Sequence,
        /// Messages delivered.
        messages: u64,
        /// Bytes of their records.
        bytes: u64,
        /// Messages the directory tells of.
        messages_told: u64,
        /// Bytes it tells of.
        bytes_told: u64,
    },
    /// The server did what the protocol does not allow.
    #[error("the server broke the protocol: {what}")]
    Protocol {
        /// What it did.
        what: Text,
    },
    /// Bytes that do not parse.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A record that does not parse.
    #[error("delivered record: {0}")]
    Record(#[from] BadRecord),
    /// The server has another stream.
    #[error("the server's stream is {got:032x}, want {want:032x}")]
    WrongStream {
        /// The stream wanted.
        want: u128,
        /// The server's.
        got: u128,
    },
    /// The server speaks no version this client does.
    #[error("the server speaks protocol version {got}, want {min} to {max}")]
    Version {
        /// What the server chose.
        got: u16,
        /// The lowest spoken here.
        min: u16,
        /// The highest spoken here.
        max: u16,
    },
    /// A topic, filter or name of a length it can't have.
    #[error("{what} of {bytes} bytes, want {bytes_min} to {bytes_max}")]
    Length {
        /// What.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// At least.
        bytes_min: usize,
        /// At most.
        bytes_max: usize,
    },
    /// A message or batch over a limit.
    #[error("{what} has {count}, at most {count_max} are taken")]
    TooLarge {
        /// What, and what is counted.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// The limit.
        count_max: u64,
    },
    /// An atomic batch whose messages ask for different things.
    #[error("message {at} of an atomic batch: {what}")]
    Mixed {
        /// Which, from 0.
        at: usize,
        /// What differs.
        what: &'static str,
    },
}

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// From an error frame.
    pub(crate) fn refused(frame: &ErrorFrame) -> Error {
        Error::Refused {
            code: frame.code,
            text: frame.text.detached(),
            detail_a: frame.detail_a,
            detail_b: frame.detail_b,
        }
    }

    /// From a code alone.
    pub(crate) fn code(code: Code) -> Error {
        Error::Refused { code, text: Text::from_static(code.text()), detail_a: 0, detail_b: 0 }
    }

    /// From what the server should not have done.
    pub(crate) fn protocol(what: impl Into<String>) -> Error {
        Error::Protocol { what: Text::from(what.into()) }
    }

    /// Whether dialling again can't help: the next connection would end the same way.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Error::Refused { code, .. } => matches!(
                code,
                Code::BadFrame
                    | Code::FrameTooLarge
                    | Code::UnknownFrame
                    | Code::Version
                    | Code::WrongStream
                    | Code::Unauthorised
            ),
            Error::WrongStream { .. } | Error::Version { .. } | Error::Closed => true,
            _ => false,
        }
    }
}
