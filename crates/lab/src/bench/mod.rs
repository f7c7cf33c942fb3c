//! `arioso bench`: what the bus does on this machine, beside what the machine itself can do in the same run.
//!
//! Each bench starts its own server (the same binary, `serve`) in a process of its own, checks what came back (counts, order,
//! sums), prints its parameters, tables, and last one JSON line. Budgets are ratios within one run: absolute times are not
//! stable on a machine that others use too, which is why the JSON line tells how much of it they used.

pub mod herd;
pub mod limits;
pub mod load;
pub mod machine;
pub mod peers;
pub mod publish;
pub mod recycled;
pub mod replay;
pub mod replies;
pub mod report;
pub mod server;
pub mod slow;
pub mod subscribers;
pub mod topics;
pub mod workload;

use std::fmt;
use std::path::Path;

use clap::Subcommand;

/// Why a bench has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bus refused or could not be reached.
    #[error("{doing}: {source}")]
    Bus {
        /// What was being done.
        doing: String,
        /// What is wrong.
        source: Box<arioso::Error>,
    },
    /// A file, socket or process.
    #[error("{what}: {source}")]
    Io {
        /// Which.
        what: String,
        /// What is wrong.
        source: std::io::Error,
    },
    /// The server did not start or ended early.
    #[error("the server {what}; it said: {said}")]
    Server {
        /// What it did.
        what: String,
        /// The end of its log.
        said: String,
    },
    /// What came back is not what was sent: no figure of such a run counts.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// The bench was asked for something it can't do.
    #[error("{0}")]
    Use(String),
}

/// What a step of a bench comes to.
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn io(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { what: what.to_string(), source }
}

pub(crate) fn io_at(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<'_> {
    move |source| Error::Io { what: path.display().to_string(), source }
}

/// Says what was being done when the bus refused.
pub(crate) trait Doing<T> {
    /// The result, or the error with what was being done.
    fn doing(self, doing: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<arioso::Error>> Doing<T> for std::result::Result<T, E> {
    #[inline]
    fn doing(self, doing: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Error::Bus { doing: doing.to_string(), source: Box::new(error.into()) })
    }
}

/// Refuses a result unless it is what it must be.
pub(crate) fn check<T: PartialEq + fmt::Debug>(what: &str, got: T, want: T) -> Result<()> {
    if got == want { Ok(()) } else { Err(Error::Wrong(format!("{what}: {got:?}, {want:?} is right"))) }
}

/// The benches.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Durable publishing against an append + fdatasync loop on the same disk
    #[command(
        after_help = "Examples:\n  arioso bench publish\n  arioso bench publish --data /mnt/fast --seconds 10 --runs 5\n  \
                            arioso bench publish --publishers 1 --window 64 --messages 1000000"
    )]
    Publish(publish::PublishArgs),
    /// Reading everything and parts of it, from memory and from disk, against a raw loopback copy
    #[command(
        after_help = "Examples:\n  arioso bench replay\n  arioso bench replay --messages 2000000 --many-topics 1000000 --runs 5\n  \
                            arioso bench replay --data /mnt/slow --set segment-bytes=256MiB"
    )]
    Replay(replay::ReplayArgs),
    /// Replies when some writes are slow: what ordering groups do, against the exact rule
    #[command(
        after_help = "Examples:\n  arioso bench replies\n  arioso bench replies --loop closed --slow-percent 1 --groups 1,16 --runs 5\n  \
                            arioso bench replies --backend local --rate 2000 --json"
    )]
    Replies(replies::RepliesArgs),
    /// 99 fast subscribers with and without one that is stuck
    #[command(
        after_help = "Examples:\n  arioso bench slow\n  arioso bench slow --fast 20 --messages 200000 --rounds 9"
    )]
    Slow(slow::SlowArgs),
    /// Many clients recover at once while publishing goes on
    #[command(
        after_help = "Examples:\n  arioso bench herd\n  arioso bench herd --clients 1000 --messages 2000000 --rate 2000"
    )]
    Herd(herd::HerdArgs),
    /// Very many filters, very many subscriptions, and what those cost that match little
    #[command(
        after_help = "Examples:\n  arioso bench subscribers\n  arioso bench subscribers --idle 30000 --connections 100 --growth 4,400"
    )]
    Subscribers(subscribers::SubscribersArgs),
    /// Very many topics: memory, restart after kill -9, first message of one topic
    #[command(
        after_help = "Examples:\n  arioso bench topics\n  arioso bench topics --topics 1000000 --messages 10000000"
    )]
    Topics(topics::TopicsArgs),
    /// Merging many rows of positions: every implementation, in slices with stop and resume
    Merge(crate::merge_bench::Args),
    /// Reading a slice of the tip: CPU, index memory, entries tested, against an honest linear scan
    Tip(crate::tip_bench::Args),
    /// For a runner that measures other systems too: publishes its data set
    #[command(hide = true)]
    PeerLoad(peers::PeerLoadArgs),
    /// For a runner that measures other systems too: reads a scenario of its data set
    #[command(hide = true)]
    PeerReplay(peers::PeerReplayArgs),
    /// For a runner that measures other systems too: publishes for a while
    #[command(hide = true)]
    PeerPub(peers::PeerPubArgs),
}

impl Bench {
    /// Runs it and prints what it found; merge and tip print as they go.
    pub fn run(&self) -> Result<()> {
        let report = match self {
            Bench::Merge(arguments) => {
                return printed(crate::merge_bench::run(arguments, &mut std::io::stdout().lock()));
            }
            Bench::Tip(arguments) => return printed(crate::tip_bench::run(arguments, &mut std::io::stdout().lock())),
            Bench::Publish(arguments) => publish::run(arguments)?,
            Bench::Replay(arguments) => replay::run(arguments)?,
            Bench::Replies(arguments) => replies::run(arguments)?,
            Bench::Slow(arguments) => slow::run(arguments)?,
            Bench::Herd(arguments) => herd::run(arguments)?,
            Bench::Subscribers(arguments) => subscribers::run(arguments)?,
            Bench::Topics(arguments) => topics::run(arguments)?,
            Bench::PeerLoad(arguments) => peers::load(arguments)?,
            Bench::PeerReplay(arguments) => peers::replay(arguments)?,
            Bench::PeerPub(arguments) => peers::publish(arguments)?,
        };
        printed(report.print())
    }
}

/// Whoever reads no further has what it wanted.
fn printed(printed: std::io::Result<()>) -> Result<()> {
    printed.or_else(|error| {
        let quiet = error.kind() == std::io::ErrorKind::BrokenPipe;
        if quiet { Ok(()) } else { Err(io("standard output")(error)) }
    })
}
