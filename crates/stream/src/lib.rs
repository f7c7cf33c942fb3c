//! The order in memory: records, topics, filters, names, who wants which message, and the sequencer.
//!
//! Everything here is plain computation. The crate knows no clock, no socket, no file and no thread; it is
//! handed what it needs, seeds for its hash tables included, so that the simulator drives the code that ships.
//!
//! In reading order:
//!
//! - [`error`]: what can go wrong, each with its numbers.
//! - [`record`]: one message's bytes, the same in memory, on disk and on the wire.
//! - [`topic`]: what a topic is; its levels, its partition; the ids of topics and publishers.
//! - [`filter`]: what a filter is, the plain rule of what it matches, and sets of filters.
//! - [`names`]: the topic tree and dictionary of one stream, with its partitions.
//! - [`walk`]: a resumable walk over the topics a filter matches, without touching others.
//! - [`publishers`]: the names of publishers.
//! - `trie` (private): many filters in one tree, so that a topic is matched against all at once.
//! - [`matcher`]: which subscriptions a topic matches, remembered per topic.
//! - [`selection`]: which topics and partitions one subscription selects, for recovery.
//! - [`order`]: the sequencer: numbers, timestamps, once-only publishing, batches.
//! - `levels`, `grow` (private): the text of levels; storage that grows in small steps.

pub mod error;
pub mod record;
pub mod tip;

pub mod topic;

pub mod filter;

pub mod names;

pub mod walk;

pub mod publishers;

mod trie;

pub mod matcher;

pub mod selection;

pub mod order;

mod levels;

mod grow;

#[cfg(test)]
mod shared;

pub use error::Error;
pub use record::{Record, Records, Sequence};

/// What a call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;
