//! The only door to files.
//!
//! Everything above sees one data directory through two traits, [`Disk`] and [`File`], and is handed
//! an implementation: [`RealDisk`] on a file system, or [`SimDisk`] in memory, which loses exactly what
//! a machine may lose and fails on request. This crate does not know what the files contain.
//!
//! What a caller may rely on, and no more, on both:
//!
//! - bytes are durable after `sync_data` or `sync_all` returned without an error;
//! - a name (created, renamed, removed, linked) is durable after `sync_dir` of its directory;
//! - after a failed sync the unsynced bytes of that file are in doubt for good: a later sync that
//!   succeeds says nothing about them;
//! - a rename is seen whole or not at all.

mod disk;
mod error;
mod path;
mod real;
mod sim;
mod small;

pub use disk::{Access, Advice, Disk, Entry, File, Lock, Space};
pub use error::{Error, Operation, Result};
pub use real::RealDisk;
pub use sim::{Counts, SECTOR_BYTES, SimDisk};
pub use small::{read_small, replace, temporary};
