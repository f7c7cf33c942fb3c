//! The lab: workloads and measurements of the bus, and split plans side by side, in figures, as a table and on a page.
//!
//! It measures; it decides nothing. The plans come from the planners and lenses of `arioso-store`.

pub mod bench;
pub mod merge_bench;
pub mod tip_bench;
mod tip_plot;

mod options;
mod page;
pub mod planners;
#[cfg(test)]
mod targets;
pub mod volumes;

pub use bench::Bench;
pub use options::{LabArgs, LabOptions, run};

use std::path::PathBuf;
use std::time::Duration;

/// What this thread has used of a processor: others on the machine do not count.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Why the lab can't show anything.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that can't be read or written.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A table without a single good line.
    #[error("{}: no line is topic<TAB>messages<TAB>bytes; {first}", file.display())]
    NoVolumes {
        /// The file.
        file: PathBuf,
        /// The first bad line, or that there is none.
        first: String,
    },
    /// A line of recorded subscriptions that is none.
    #[error("{}: line {line}: {why}", file.display())]
    Subscription {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong and what would be right.
        why: String,
    },
    /// What was recorded is asked for and was not given.
    #[error("--over recorded: no subscriptions were given; add --subscriptions FILE")]
    NoSubscriptions,
    /// The planner refused.
    #[error(transparent)]
    Plan(#[from] arioso_store::plan::Error),
    /// The output can't be written.
    #[error("output: {0}")]
    Output(#[from] std::io::Error),
    /// The output can't be made into JSON.
    #[error("output: {0}")]
    Json(#[from] serde_json::Error),
    /// An address that may not be listened on.
    #[error(
        "--http {address}: beyond loopback anyone could read the topics; give a loopback address or add --insecure"
    )]
    NotLoopback {
        /// The address.
        address: std::net::SocketAddr,
    },
    /// An address that can't be listened on.
    #[error("--http {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}
