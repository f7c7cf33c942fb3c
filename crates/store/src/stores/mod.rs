//! Subtree stores: a span of the stream, split by topic (docs/format.md section 9).
//!
//! ```text
//!  stores/S.span      every topic of the span: figures, store, where its runs are listed
//!  stores/S-0000.sto  | header | group | group | ... | runs | groups | directory | trailer |
//!  stores/S-0001.sto            └ blocks: records by topic, each topic's run in sequence order
//! ```
//!
//! The writer of a span holds one group a store; a reader holds, of one group a store, what it asked for.

pub mod block;
pub mod cursor;
pub mod inspect;
pub mod runs;
pub mod span;
pub mod split;
pub mod store;
pub mod verify;
pub mod view;
pub mod writer;

#[cfg(test)]
mod tests;

pub use cursor::{GroupRequest, SpanCursor, SpanStep};
pub use span::{SpanFile, SpanInfo, list_stores};
pub use split::{Split, SplitInput, SplitProgress};
pub use store::StoreFile;
pub use view::View;

/// The directory of stores.
pub const STORES_DIR: &str = "stores";

/// What a writer of a span, and a reader of everything in it, holds of records: one group a store.
pub const SPAN_MEMORY_BYTES: usize = 128 << 20;
/// A smaller group has too little of each topic.
pub const GROUP_BYTES_MIN: usize = 256 << 10;
/// A larger one gains little.
pub const GROUP_BYTES_MAX: usize = 8 << 20;
/// Stores of a span: what is merged at once.
pub const STORES_MAX: u32 = 512;
const _: () = assert!(GROUP_BYTES_MIN * STORES_MAX as usize <= SPAN_MEMORY_BYTES);

/// The size of groups where a span has so many stores.
pub fn group_bytes(stores: usize) -> usize {
    (SPAN_MEMORY_BYTES / stores.max(1)).clamp(GROUP_BYTES_MIN, GROUP_BYTES_MAX)
}

/// The path of a span's file.
pub fn span_path(span: u64) -> String {
    format!("{STORES_DIR}/{span:016x}.span")
}

/// The path of a store.
pub fn store_path(span: u64, store: u32) -> String {
    format!("{STORES_DIR}/{span:016x}-{store:04x}.sto")
}
