//! The order in memory: records, topics, the sequencer's rules, the tip. No clock, no socket, no thread, no file.

pub mod record;
pub mod tip;

pub use record::{Record, Records, Sequence};
