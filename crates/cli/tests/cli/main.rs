//! The command line as a user has it: the binary, its exit status, its output, real servers.

mod config;
mod crash;
mod demo;
mod inspect;
mod support;
mod talking;
