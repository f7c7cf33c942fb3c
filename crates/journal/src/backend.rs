//! What makes batches durable. One trait, as few methods as the promise needs.
//!
//! ```text
//! engine ── submit(5) submit(6) submit(7) ──▶ backend
//!        ◀─ advance: 6 durable, 5 unknown ───           in any order
//!        ◀─ advance: 7 durable, 5 durable ───           5 was written again under the same number
//! ```
//!
//! **Order.** Batches are submitted in the order of their numbers, which are consecutive; they become known in any order.
//!
//! **Outcome.** `Durable` and `Failed` are told exactly once for each batch. `Failed` means known not to be written, now
//! and later: no write of it is under way anywhere. While that is not known the backend tells `Unknown`, as often as it likes,
//! and goes on writing the same bytes under the same key, so that being stored twice is impossible. A backend that can't find
//! out any more returns [`Error::Lost`](crate::Error::Lost) or [`Error::Fenced`](crate::Error::Fenced) and is finished:
//! everything open is answered `unknown`.
//!
//! | | `local` | `postgres` |
//! |---|---|---|
//! | `submit` | kept for the next `advance` | handed to a free connection: one insert of one batch, keyed by its number and its first sequence, holding the epoch row `FOR SHARE` |
//! | `advance` | writes all that was submitted, one `fdatasync`: all `Durable` together. Any error is `Lost` | tells what became known; a broken connection or a time-out is `Unknown`, and the insert is sent again: "already there" is `Durable` |
//! | `Failed` | never | the statement was refused for a reason that trying again does not mend, and its number is noted as a gap |
//! | `room` | the free bytes of the disk above its reserve | the bytes that may be in flight, less those that are; full as long as the database says so |
//! | `confirm` | nothing to do: the directory's lock is held | reads the epoch row; another epoch is `Fenced` |
//! | `stop` | writes `epoch` with the clean mark | the same in the epoch row |
//! | `replay` | scans segments by docs/format.md section 3.1, removes the clean mark | bumps the epoch row `FOR UPDATE` and reads the rows; the transaction stays open until the first write, which holds the void records and the number floor, is committed with it |

use std::ops::RangeInclusive;
use std::sync::Arc;

use arioso_stream::Sequence;
use bytes::Bytes;

use crate::entry::BatchNumber;
use crate::error::Error;

/// One batch to be made durable.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its number.
    pub number: BatchNumber,
    /// Fixed part, names and runs (docs/format.md section 3). What tells the place is zero and written by the backend:
    /// segment incarnation, file offset, the header checksum of the batch before, and the header's own checksum. A void
    /// record is a record as any other.
    pub header: Bytes,
    /// The records, without the padding behind them.
    pub records: Bytes,
}

impl Write {
    /// Bytes of header and records.
    pub fn bytes(&self) -> u64 {
        (self.header.len() + self.records.len()) as u64
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It survives.
    Durable,
    /// It is known not to be written.
    Failed,
    /// Not known yet; told for information, a later completion tells which.
    Unknown,
}

/// What became of which write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub number: BatchNumber,
    /// What.
    pub outcome: Outcome,
}

/// What can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A write of up to this many bytes.
    Bytes(u64),
    /// Nothing until a write completes.
    Busy,
    /// Nothing until there is room on the disk: publishes are answered `disk full`.
    DiskFull {
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be free.
        need: u64,
    },
}

/// What a replay found wrong. Told for the operator; what it means is settled by docs/format.md section 3.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file (or table) and the place in it.
    pub place: String,
    /// Batches that are missing; `None` for a torn tail, of which nothing is known.
    pub batches: Option<RangeInclusive<u64>>,
    /// Bytes that are not read.
    pub bytes: u64,
}

/// Sees a journal as it is replayed, in the order of the batches.
pub trait Replay {
    /// A good batch: its header (fixed part, names, runs) and its records.
    fn batch(&mut self, header: &[u8], records: &[u8]) -> Result<(), Error>;

    /// A place that can't be read; what follows is behind it.
    fn damage(&mut self, damage: Damage) -> Result<(), Error>;
}

/// Where a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayEnd {
    /// The newest batch seen, if any: the next one has the number after it.
    pub newest_batch: Option<BatchNumber>,
    /// The first number that may be handed out: where numbering ended after a clean stop, else the highest durable
    /// `reserved_to` plus one.
    pub next_sequence: Sequence,
    /// No record is stamped below it (unix nanoseconds).
    pub timestamp_floor: i64,
    /// This server's epoch, above every epoch seen.
    pub server_epoch: u64,
}

/// What a backend calls when there is something new; from any thread, with no lock held.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// From where on stored batches are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The batch that holds this sequence, or the first behind it.
    Sequence(Sequence),
    /// The batch of this number, or the first behind it.
    Number(u64),
}

/// A batch as a journal gives it back.
#[derive(Clone, Debug)]
pub struct StoredBatch {
    /// Its number.
    pub number: u64,
    /// Fixed part, names and runs, checksums tested; empty: nothing is stored under this number, and nothing will be.
    pub header: Bytes,
    /// The records.
    pub records: Bytes,
    /// Batches before it whose numbers are missing were written once, as far as is known: they are lost.
    pub damage_before: Option<Damage>,
}

/// Gives batches back that lie in no files: the history of a journal that is a database. Used from any thread; blocks.
pub trait Stored: Send + Sync {
    /// Batches in the order of their numbers, until so many bytes are reached; none where the journal ends.
    fn read(&self, from: From, bytes: usize) -> Result<Vec<StoredBatch>, Error>;
}

/// Makes batches durable.
pub trait Backend: Send {
    /// Reads back what is durable: every good batch whose last sequence is at or above `from`. Called once, before the first
    /// `submit`. When it returns, the mark of a clean stop is gone, durably; the first write after it is durable together with
    /// whatever makes this server the only one.
    fn replay(&mut self, from: Sequence, replay: &mut dyn Replay) -> Result<ReplayEnd, Error>;

    /// Whether a write can fail: then what was numbered may have to be taken back.
    fn fails(&self) -> bool {
        true
    }

    /// Whether another server may take the stream over while this one runs: then answers that depend on being the newest wait
    /// for a commit.
    fn is_shared(&self) -> bool {
        false
    }

    /// What can be taken now. A promise until the next `submit`.
    fn room(&self) -> Room;

    /// Writes that may be submitted now. What waits for a slot waits where it is, and what comes meanwhile may share its write.
    fn slots(&self) -> u32 {
        u32::MAX
    }

    /// Called by a backend whose writes end elsewhere, whenever something became known or room came free; `advance` of such a
    /// backend never blocks. Others need no such call.
    fn wake_by(&mut self, wake: Wake) {
        drop(wake);
    }

    /// Takes a write in. It fits in what `room` told; the caller's mistake otherwise.
    fn submit(&mut self, write: Write);

    /// Does the work that blocks, until at least one write became known or its outcome is reported unknown; returns at once
    /// when nothing is submitted. What became known goes behind what is in `out`.
    fn advance(&mut self, out: &mut Vec<Completion>) -> Result<(), Error>;

    /// Proves, by something begun after the call, that no other server took the stream over. Answers that depend on being
    /// the newest (a refusal, a publisher's last number, the end of a subscription) leave after it or after a commit begun
    /// as late.
    fn confirm(&mut self) -> Result<(), Error>;

    /// Marks a clean stop: numbering goes on at `next`, stamps at `timestamp`. Called last, with no write in flight.
    fn stop(&mut self, next: Sequence, timestamp: i64) -> Result<(), Error>;
}
