//! What both disks promise, and what the simulated one may lose.

#![expect(clippy::unwrap_used, reason = "a test that meets an error stops")]

mod behaviour;
mod crash;
mod faults;
