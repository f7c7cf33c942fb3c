//! The whole bus by seed: clients, sessions, engine, journal and readers in one thread under virtual time, on a network that
//! cuts and a disk that loses what was not synced.
//!
//! ```text
//!  clients (the real state machine) ⇄ pipes ⇄ sessions ⇄ engine ⇄ log ⇄ SimDisk or the journal in memory
//!     │ what was sent, told, delivered                                        │ kill, power loss, errors, restart
//!     ▼                                                                       ▼
//!   model ◀──────────────────────────── full reads after every start ─────────┘
//! ```
//!
//! Everything random comes from the seed, all time is virtual, and nothing waits: the same seed gives the same trace, byte for
//! byte. [`model`] and [`follow`] say what must hold; [`plant`] makes mistakes on purpose, which they must find.

pub mod follow;
pub mod model;
pub mod pipe;
pub mod plan;
pub mod plant;
pub mod rng;
pub mod run;
pub mod sync_points;
pub mod trace;
pub mod world;

pub use plan::{Options, Plan, Plant};
pub use run::{Outcome, run};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

/// Whether all is well.
pub type Check = Result<(), Violation>;

/// It is not.
pub fn violated<T>(what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation(what.into()))
}

/// A hash of bytes, the same on every machine.
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot_with_seed(seed, bytes)
}
