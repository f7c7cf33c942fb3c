//! The engine and what feeds it.

pub mod settings;
