//! The journal: makes batches durable, tells when a message is settled, and lets replies out in the order they are
//! owed. What is here knows no clock, socket or thread; backends do, behind one trait.

pub mod backend;
pub mod delayed;
pub mod entry;
mod error;
mod flight;
pub mod groups;
pub mod ledger;
pub mod limit;
pub mod local;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod replay;
pub mod settings;
pub mod void;
pub mod write_slots;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod scenario_tests;

pub use backend::{Backend, Completion, Outcome, Room, Stored, StoredBatch, Wake, Write};
pub use entry::{BatchNumber, Entry, Kind, Level, NO_PUBLISHER, Reply, SequenceRange, Ticket, Verdict};
pub use error::Error;
pub use groups::{Group, Groups, group_of};
pub use ledger::{Busy, Ledger};
pub use local::{Local, LocalOptions, LocalReplay, Recovered};
pub use void::{Judgement, Rejudge, VoidSet};
