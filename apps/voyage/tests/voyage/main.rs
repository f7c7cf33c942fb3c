//! The whole application on real data.
//!
//! Shared data is found through `ARIOSO_SHARED` (default: `../shared` beside the workspace). Where it
//! is missing these tests fail under `CI` and are counted as left out elsewhere.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod feed;
mod http;
mod map;
mod model;
mod nmea;
mod sea;
mod serve;
mod shared;
