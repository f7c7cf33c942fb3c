//! The reference application of the bus: vessels report where they are, a model asks whether they can
//! reach a port in time by sea.
//!
//! It knows nothing of the bus yet: [`nmea`] turns lines of text into records and hands them to a
//! [`nmea::Sink`].

pub mod error;
pub mod input;
pub mod nmea;

pub use error::Error;
