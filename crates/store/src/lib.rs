//! Segments and what describes them: batches, segment headers, footers, checkpoints, the manifest, and the
//! readers over them. No clock, no socket, no thread; files only through `arioso-disk`.

pub mod batch;

pub use batch::{
    BadBatch, BatchHeader, BatchParts, Name, NameKind, NamesBuilder, NamesPart, Place, Run,
};
