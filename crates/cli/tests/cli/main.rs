//! The command line as a user has it: the binary, its exit status, its output, real servers.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod config;
mod crash;
mod demo;
mod inspect;
mod keeping;
#[cfg(feature = "postgres")]
mod postgres;
mod split;
mod support;
mod talking;
mod upgrade;
