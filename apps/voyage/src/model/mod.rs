//! Where is each vessel going? The model reads positions and voyage reports, keeps what it knows of every vessel,
//! and asks the path finder for each port that comes into question whether the vessel can be there in time.
//!
//! ```text
//! ais/** ──▶ input ──▶ fleet (pool 1, a vessel always on the same thread) ──▶ judge (pool 2) ──▶ in order ──▶ predictions/<mmsi>
//!                      state of each vessel                                   ports ranked
//! ```
//!
//! Everything that decides comes out of the messages, their event times included: a run over history and a run
//! that follows live give the same predictions, however many threads there are.

pub mod fleet;
pub mod follow;
pub mod input;
pub mod judge;
pub mod run;
pub mod score;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::sea::router::{Router, Verdict, Voyage};
use crate::sea::sphere::Position;

/// What answers whether a voyage is feasible.
pub trait Feasible: Sync {
    /// The verdict on a voyage, through passages that are open by default.
    fn feasible(&self, voyage: &Voyage) -> Result<Verdict>;
}

impl Feasible for Router {
    fn feasible(&self, voyage: &Voyage) -> Result<Verdict> {
        Router::feasible(self, voyage, &self.options())
    }
}

/// What is asked about a vessel under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The message that it follows from.
    pub sequence: u64,
    /// The vessel.
    pub mmsi: u32,
    /// When, in unix seconds.
    pub time: f64,
    /// Where the vessel is.
    pub at: Position,
    /// Where it was last at rest, or first seen.
    pub origin: Position,
    /// How far it has come since.
    pub travelled_km: f64,
    /// The fastest that it was seen at.
    pub max_knots: f64,
    /// By when it should be there, in unix seconds.
    pub arrival: f64,
    /// Whether that was reported, and not assumed.
    pub arrival_reported: bool,
    /// What it reports as its destination; may be wrong, old or missing.
    pub destination: String,
}

/// A port and what speaks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its number in the list of ports.
    pub port: u32,
    /// Its name.
    pub name: String,
    /// Whether the vessel can be there in time.
    pub feasible: bool,
    /// The way by sea, in kilometres.
    pub km: f64,
    /// The earliest arrival at the fastest speed, in unix seconds.
    pub earliest_arrival: f64,
    /// The higher, the likelier.
    pub score: f64,
}

/// What the model says of a vessel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The message that it follows from.
    pub after: u64,
    /// The vessel.
    pub mmsi: u32,
    /// When, in unix seconds.
    pub time: f64,
    /// Where the vessel is.
    pub position: Position,
    /// What it reports as its destination.
    pub reported: String,
    /// By when it should be there, in unix seconds.
    pub arrival: f64,
    /// The likeliest ports, best first.
    pub ports: Vec<Candidate>,
}
