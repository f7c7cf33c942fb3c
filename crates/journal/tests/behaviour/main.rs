//! What every backend does, and what the database does to the one that uses it.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod stream;
mod suite;

#[cfg(feature = "postgres")]
mod database;
#[cfg(feature = "postgres")]
mod faults;
