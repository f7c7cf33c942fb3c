//! The engine and what feeds it. In reading order: [`node`] is what a bus's parts share; a message comes in at [`session`], is
//! numbered and settled in [`engine`], made durable by [`log`], and goes out through [`subscription`].

pub mod node;

pub mod engine;

pub mod log;

pub mod session;

pub mod subscription;

pub mod reader;

pub mod history;

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

pub mod serving;

pub mod refill;
