//! Subtree stores: which topics go into which file.

pub mod plan;
