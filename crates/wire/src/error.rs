//! What can be wrong with bytes that should be a frame.

use crate::Code;

/// Bytes that do not parse: frame, field, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame's length is over the receiver's maximum.
    #[error("frame of type {kind} has {bytes} bytes, at most {bytes_max} are taken")]
    TooLarge {
        /// Type of the frame.
        kind: u8,
        /// Bytes its header tells.
        bytes: u32,
        /// The receiver's maximum.
        bytes_max: u32,
    },
    /// A type nobody knows, without the bit that says it may be passed over.
    #[error("frame type {kind} is not known")]
    Unknown {
        /// Type of the frame.
        kind: u8,
    },
    /// The body ends within a field.
    #[error("frame {frame} ends within {field}: {need} bytes wanted, {have} there")]
    Short {
        /// Name of the frame.
        frame: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Bytes the field needs.
        need: usize,
        /// Bytes left.
        have: usize,
    },
    /// The body goes on behind its last field.
    #[error("frame {frame} has {bytes} bytes behind its last field")]
    Trailing {
        /// Name of the frame.
        frame: &'static str,
        /// Bytes too many.
        bytes: usize,
    },
    /// A field has a value it can't have.
    #[error("frame {frame}: {field} is {value}, want {want}")]
    Value {
        /// Name of the frame.
        frame: &'static str,
        /// Name of the field.
        field: &'static str,
        /// What stands there.
        value: u64,
        /// What would be right.
        want: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("frame {frame}: {field} is not UTF-8 from its byte {at} on")]
    Text {
        /// Name of the frame.
        frame: &'static str,
        /// Name of the field.
        field: &'static str,
        /// First byte that is wrong, counted from the string's start.
        at: usize,
    },
}

impl WireError {
    /// The number to tell the other side.
    pub fn code(&self) -> Code {
        match self {
            WireError::TooLarge { .. } => Code::FrameTooLarge,
            WireError::Unknown { .. } => Code::UnknownFrame,
            _ => Code::BadFrame,
        }
    }
}
