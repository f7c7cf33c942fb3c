//! Sessions against a bus on the in-memory journal: frames in, frames out, one thread, no clock.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod conditions;
mod connection;
mod cursors;
mod herd;
mod publishing;
mod subscribing;
mod support;
