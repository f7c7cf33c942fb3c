//! Workloads and measurements.

pub mod bench;

pub use bench::{Bench, Error};
