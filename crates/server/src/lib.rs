//! The engine and what feeds it. In reading order: [`node`] is what a bus's parts share; a message comes in at [`session`], is
//! numbered and settled in [`engine`], made durable by [`log`], and goes out through [`subscription`].

pub mod node;

pub mod engine;

pub mod log;

pub mod session;

pub mod subscription;

pub mod newest;

pub mod reader;

pub mod history;

pub mod rows;

pub mod hub;

pub mod mailbox;

pub mod output;

pub mod selecting;

pub mod settings;

pub mod metrics;

pub mod clock;

pub mod connection;

pub mod http;

pub mod assemble;

pub mod admission;

pub mod explain;

pub mod splitter;

pub mod threads;

pub mod opening;

pub mod cursor_replay;

#[cfg(feature = "postgres")]
pub mod database;

pub mod serving;

pub mod backup;

pub mod snapshots;

pub mod refill;

pub mod retention;
