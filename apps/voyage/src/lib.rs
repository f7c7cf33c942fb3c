//! The reference application of the bus: vessels report where they are, a model asks whether they can
//! reach a port in time by sea.
//!
//! [`nmea`] turns lines of text into records and hands them to a [`nmea::Sink`], [`feed`] publishes them;
//! [`sea`] finds ways, [`build`] makes the network that it needs, [`check`] judges both.

pub mod answer;
pub mod bench;
pub mod build;
pub mod check;
pub mod error;
pub mod feed;
pub mod input;
pub mod model;
pub mod nmea;
pub mod ports;
pub mod remote;
pub mod sea;
pub mod serve;

pub use error::Error;
