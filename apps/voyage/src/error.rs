//! What can go wrong outside the programme's own logic: files, lines and numbers given by others.

use std::path::PathBuf;

/// A misfortune, with its place and its value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Output could not be written.
    #[error("cannot write the output: {0}")]
    Write(#[source] std::io::Error),
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
