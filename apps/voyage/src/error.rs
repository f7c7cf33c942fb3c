//! What can go wrong outside the programme's own logic: files, lines and numbers given by others.

use std::path::PathBuf;

use crate::sea::sphere::Position;

/// A misfortune, with its place and its value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not the JSON that it should be.
    #[error("{} line {line}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Its line, from 1; 0 where the file is one value.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The list of passages does not fit the coast.
    #[error("list of passages: {0}")]
    Passages(String),
    /// A sea network cannot be read.
    #[error("sea network: {0}")]
    Network(String),
    /// A position is not on the globe.
    #[error("no position: {lon},{lat} (longitude -180 to 180, latitude -90 to 90)")]
    Position {
        /// Longitude.
        lon: f64,
        /// Latitude.
        lat: f64,
    },
    /// A position is too far from water.
    #[error("{lon},{lat} is {km:.1} km from water that ships use; at most {km_max:.1} km are allowed")]
    Inland {
        /// Longitude.
        lon: f64,
        /// Latitude.
        lat: f64,
        /// Distance to the sea.
        km: f64,
        /// What is allowed.
        km_max: f64,
    },
    /// From a position nothing of the network is seen.
    #[error("{lon},{lat} is in water that has no way out")]
    Enclosed {
        /// Longitude.
        lon: f64,
        /// Latitude.
        lat: f64,
    },
    /// There is no way between two positions.
    #[error("no way by sea from {},{} to {},{} through passages that are open", from.lon, from.lat, to.lon, to.lat)]
    NoRoute {
        /// Where from.
        from: Position,
        /// Where to.
        to: Position,
    },
    /// No passage has this name.
    #[error("no passage is called {name:?}; there are {known}")]
    Passage {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A speed at which no ship goes.
    #[error("a speed of {knots} knots leads nowhere; it must be above 0")]
    Speed {
        /// What was asked for.
        knots: f64,
    },
    /// A table has a row that is not what its head says.
    #[error("{} line {line}: not a row of numbers", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The web service stopped.
    #[error("the web service failed: {0}")]
    Serve(std::io::Error),
    /// The bus.
    #[error(transparent)]
    Bus(#[from] arioso::Error),
    /// A question that is not one.
    #[error("{0}")]
    Ask(String),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Output could not be written.
    #[error("cannot write the output: {0}")]
    Write(#[source] std::io::Error),
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
