//! AIS as it comes out of a receiver: NMEA 0183 sentences, one a line, in; records out.
//!
//! ```text
//! line ──▶ sentence ──▶ assemble ──▶ message ──▶ record ──▶ sink
//!          what it says  parts joined  bits into    one for each message or rejected line,
//!          checksum                    fields       in order of the line that completes it
//! ```
//!
//! A bad line is counted and told as a record of its own; nothing a line can hold stops the reading.

pub mod assemble;
pub mod bits;
pub mod clock;
pub mod fields;
pub mod import;
pub mod message;
pub mod record;
pub mod sentence;

pub use import::{Counts, JsonLines, Sink, import};
pub use message::{Message, Undecodable, Value};
pub use record::{Heard, Outcome, Record};
pub use sentence::Sentence;
