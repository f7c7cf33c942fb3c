//! Segments and subtree stores as they lie in files. No clock, no socket, no thread; files only through
//! `arioso-disk`.

pub mod directory;
pub mod error;

pub use error::{Error, Result};
