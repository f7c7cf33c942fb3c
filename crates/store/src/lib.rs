//! Segments as they lie in files: batches, segment headers and footers, topic directories, checkpoints, the manifest, and the
//! readers over them; and subtree stores, the plans they are split by, and the splitting. No clock, no socket, no thread; files only through
//! `arioso-disk`.

pub mod batch;
pub mod checkpoint;
pub mod control;
pub mod cursors;
pub mod directory;
pub mod error;
pub mod head;
pub mod history;
pub mod identity;
pub mod inspect;
pub mod manifest;
pub mod part;
pub mod places;
pub mod plan;
pub mod publishers;
pub mod segment;
pub mod snapshot;
pub mod stores;
pub mod voids;

pub use batch::{BadBatch, BatchHeader, BatchParts, Name, NamesBuilder, NamesPart, Place};
pub use error::{Damage, Error, Result};
pub use head::BadPart;

#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod parser_tests;
