//! The backend `postgres`: a row a batch, written concurrently over a pool of connections (docs/format.md section 11).
//!
//! ```text
//!  submit ──▶ a task a write: lease a connection ─▶ one insert ─▶ known ──▶ wake ──▶ advance
//!                    ▲ again under the same number      │ broken, timed out, refused for now
//!                    └───────────── back off ◀──────────┘
//! ```
//!
//! The backend has a runtime of its own with one thread; nothing of it is seen outside. The engine's side never waits for the
//! database but in `replay`, `confirm` and `stop`.

pub mod cluster;
pub mod proxy;

mod pool;
mod reader;
mod schema;
mod session;
mod takeover;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arioso_store::batch::{BATCH_BYTES_MAX, BatchHeader, Place, place_header};
use arioso_stream::Sequence;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::backend::{Backend, Completion, Outcome, Replay, ReplayEnd, Room, Wake, Write};
use crate::entry::BatchNumber;
use crate::error::Error;
use crate::limit::{Limit, WritesInFlight};
use crate::local::NewStream;
use pool::Pool;
pub use reader::Reader;
pub use schema::StreamRow;
use session::Connector;
use takeover::Takeover;
pub use takeover::{Scan, TakenOver};
use write::Row;

/// Connections that batches are written over.
pub const CONNECTIONS_DEFAULT: u32 = 20;
/// So many writes known to have failed in a row, and the database refuses everything: void records can't be written either.
const FAILED_IN_ROW_MAX: u32 = 16;

/// What can be set.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// The schema that holds the stream.
    pub schema: String,
    /// Connections that batches are written over.
    pub connections: u32,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long a statement, an idle transaction and a silent network are borne.
    pub write_timeout: Duration,
    /// A PEM file with the authorities that vouch for the server: with it, connections are encrypted and the server is known.
    pub authorities: Option<PathBuf>,
    /// Writes in flight.
    pub writes: WritesInFlight,
    /// Bytes of writes in flight.
    pub in_flight_bytes_max: u64,
    /// Made where there is none; `None`: refused.
    pub new_stream: Option<NewStream>,
}

impl PostgresOptions {
    /// The defaults for an address.
    pub fn new(url: impl Into<String>) -> PostgresOptions {
        PostgresOptions {
            url: url.into(),
            schema: "arioso".into(),
            connections: CONNECTIONS_DEFAULT,
            connect_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            authorities: None,
            writes: WritesInFlight::Fixed(8),
            in_flight_bytes_max: 64 << 20,
            new_stream: None,
        }
    }
}

/// Why nothing more is promised.
#[derive(Clone, Debug)]
enum Ended {
    Fenced { theirs: u64 },
    Lost { batch: u64, text: String },
}

/// What tasks and the engine's side both write down.
struct Books {
    /// The first write, which ends the takeover, is not known: nothing may go beside it.
    taking: bool,
    known: Vec<Completion>,
    limit: Limit,
    in_flight: u32,
    bytes: u64,
    /// The database said it has no room, and nothing was written since.
    full: bool,
    failed_in_row: u32,
    unknown: u64,
    trouble: Option<String>,
    ended: Option<Ended>,
}

/// What tasks and the engine's side share.
struct Shared {
    pool: Pool,
    epoch: AtomicU64,
    books: Mutex<Books>,
    wake: Mutex<Option<Wake>>,
}

/// What a journal is doing, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Connections open for writing.
    pub connections: u32,
    /// Writes that are not known.
    pub in_flight: u32,
    /// Writes that may be in flight as things stand.
    pub limit: u32,
    /// Tries since the start whose outcome was not known.
    pub unknown: u64,
    /// A write had to be tried again, and none was durable since.
    pub is_troubled: bool,
}

/// The backend `postgres`.
pub struct Postgres {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
    stream: StreamRow,
    bytes_max: u64,
    /// Told to readers when the runtime ends.
    closed: Arc<AtomicBool>,
    /// The transaction that takes the stream over: open until the first write is committed with it.
    takeover: Option<Takeover>,
    taken: bool,
}

impl Shared {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn wake(&self) {
        let wake = self.wake.lock().clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// A write is not known; it will be tried again.
    fn unknown(&self, number: u64, trouble: &session::Trouble) {
        {
            let mut books = self.books.lock();
            books.known.push(Completion { number: BatchNumber(number), outcome: Outcome::Unknown });
            books.unknown += 1;
            books.full |= matches!(trouble, session::Trouble::Full(_));
            books.limit.unknown();
            books.trouble = Some(trouble.text().to_string());
        }
        self.wake();
    }

    /// A write is known.
    fn known(&self, number: u64, outcome: Outcome, bytes: u64, latency: Duration, was_full: bool) {
        {
            let mut books = self.books.lock();
            books.known.push(Completion { number: BatchNumber(number), outcome });
            books.in_flight -= 1;
            books.bytes -= bytes;
            books.limit.known(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX), was_full);
            if outcome == Outcome::Durable {
                (books.full, books.failed_in_row) = (false, 0);
                (books.trouble, books.taking) = (None, false);
            } else {
                books.failed_in_row += 1;
                if books.failed_in_row >= FAILED_IN_ROW_MAX {
                    let text = books.trouble.clone().unwrap_or_default();
                    books.ended.get_or_insert(Ended::Lost { batch: number, text });
                }
            }
        }
        self.wake();
    }

    fn end(&self, ended: Ended) {
        self.books.lock().ended.get_or_insert(ended);
        self.wake();
    }

    fn error(&self, ended: Ended) -> Error {
        match ended {
            Ended::Fenced { theirs } => Error::Fenced { ours: self.epoch(), theirs },
            Ended::Lost { batch, text } => Error::Lost {
                batch,
                doing: "writing to",
                path: self.pool.connector.place.clone().into(),
                source: std::io::Error::other(text),
            },
        }
    }
}

impl Postgres {
    /// Connects, and finds or makes the tables. Nothing is taken over yet: that is [`Postgres::take_over`], or `replay`.
    pub fn open(options: &PostgresOptions) -> Result<Postgres, Error> {
        let connector = Arc::new(Connector::new(options)?);
        let built = Builder::new_multi_thread().worker_threads(1).thread_name("arioso-postgres").enable_all().build();
        let runtime = built.map_err(|error| connector.error("starting a thread", error.to_string()))?;
        let limit = Limit::new(options.writes, options.connections);
        let books = Books {
            taking: true,
            known: Vec::new(),
            limit,
            in_flight: 0,
            bytes: 0,
            full: false,
            failed_in_row: 0,
            unknown: 0,
            trouble: None,
            ended: None,
        };
        let pool = Pool::new(Arc::clone(&connector), options.connections);
        let shared = Shared { pool, epoch: AtomicU64::new(0), books: Mutex::new(books), wake: Mutex::new(None) };
        let mut journal = Postgres {
            runtime: Some(runtime),
            shared: Arc::new(shared),
            stream: StreamRow { id: 0, name: String::new(), made: false },
            bytes_max: options.in_flight_bytes_max,
            closed: Arc::new(AtomicBool::new(false)),
            takeover: None,
            taken: false,
        };
        journal.stream = journal.block_on(async {
            let failed = |trouble: session::Trouble| connector.error("connecting", trouble.text());
            let mut link = connector.connect().await.map_err(failed)?;
            schema::stream(&connector, &mut link.client, options.new_stream.as_ref()).await
        })?;
        Ok(journal)
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("the runtime lasts as long as the journal").block_on(work)
    }

    /// Whose stream it is.
    pub fn stream(&self) -> &StreamRow {
        &self.stream
    }

    /// This server's epoch.
    pub fn epoch(&self) -> u64 {
        self.shared.epoch()
    }

    /// What it is doing.
    pub fn load(&self) -> Load {
        let books = self.shared.books.lock();
        Load {
            connections: self.shared.pool.open(),
            in_flight: books.in_flight,
            limit: books.limit.writes(),
            unknown: books.unknown,
            is_troubled: books.trouble.is_some(),
        }
    }

    /// Connections open for writing.
    pub fn connections(&self) -> u32 {
        self.shared.pool.open()
    }

    /// Writes that may be in flight as things stand.
    pub fn limit(&self) -> u32 {
        self.shared.books.lock().limit.writes()
    }

    /// What the last write that had to be tried again ran into; none since one was durable.
    pub fn trouble(&self) -> Option<String> {
        self.shared.books.lock().trouble.clone()
    }

    /// Gives batches back to readers, from any thread, as long as this journal lasts.
    pub fn reader(&self) -> Reader {
        let handle = self.runtime.as_ref().expect("the runtime lasts as long as the journal").handle().clone();
        Reader::new(Arc::clone(&self.shared.pool.connector), handle, Arc::clone(&self.closed))
    }

    /// Becomes the one server of the stream, or as good as: it is when the first write is durable.
    pub fn take_over(&mut self) -> Result<TakenOver, Error> {
        assert!(!self.taken, "a journal takes over once");
        let connector = Arc::clone(&self.shared.pool.connector);
        let (takeover, taken) = self.block_on(takeover::begin(&connector))?;
        self.shared.epoch.store(taken.end.server_epoch, Ordering::Release);
        (self.takeover, self.taken) = (Some(takeover), true);
        Ok(taken)
    }

    /// Shows batches as the takeover finds them; before the first write.
    pub fn scan(&mut self, scan: Scan, replay: &mut dyn Replay) -> Result<(), Error> {
        let connector = Arc::clone(&self.shared.pool.connector);
        let takeover = self.takeover.take().expect("a scan comes between taking over and the first write");
        let (takeover, done) = self.block_on(async move {
            let mut takeover = takeover;
            let done = takeover.scan(&connector, scan, replay).await;
            (takeover, done)
        });
        self.takeover = Some(takeover);
        done
    }

    fn settle_ended(&self) -> Result<(), Error> {
        let ended = self.shared.books.lock().ended.clone();
        ended.map_or(Ok(()), |ended| Err(self.shared.error(ended)))
    }

    /// The epoch that may write: another than ours is the end.
    fn check_epoch(&self, theirs: u64) -> Result<(), Error> {
        if theirs == self.epoch() { Ok(()) } else { Err(self.shared.error(Ended::Fenced { theirs })) }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        if let Some(runtime) = self.runtime.take() {
            // Writes on their way end with their connections; waiting for them is not worth a stalled network.
            runtime.shutdown_background();
        }
    }
}

impl Backend for Postgres {
    fn replay(&mut self, from: Sequence, replay: &mut dyn Replay) -> Result<ReplayEnd, Error> {
        let taken = self.take_over()?;
        self.scan(Scan::From(from), replay)?;
        Ok(taken.end)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn room(&self) -> Room {
        let books = self.shared.books.lock();
        if books.full {
            return Room::DiskFull { free: 0, need: books.bytes.max(1) };
        }
        if books.in_flight == 0 {
            // Whatever the ceiling, the largest batch can be written alone.
            return Room::Bytes(self.bytes_max.max(BATCH_BYTES_MAX as u64));
        }
        Room::Bytes(self.bytes_max.saturating_sub(books.bytes))
    }

    fn slots(&self) -> u32 {
        let books = self.shared.books.lock();
        if books.taking {
            return u32::from(self.takeover.is_some());
        }
        books.limit.writes().saturating_sub(books.in_flight)
    }

    fn wake_by(&mut self, wake: Wake) {
        *self.shared.wake.lock() = Some(wake);
    }

    fn submit(&mut self, write: Write) {
        assert!(self.taken, "a journal is taken over before it is written to");
        let mut header = write.header.to_vec();
        place_header(&mut header, Place { incarnation: 0, offset: 0, previous_checksum: 0 });
        let bytes = write.bytes();
        let row = Row::new(&BatchHeader::trusted(&header), header.clone().into(), write.records);
        assert_eq!(row.number, write.number.0);
        let was_full = {
            let mut books = self.shared.books.lock();
            books.in_flight += 1;
            books.bytes += bytes;
            books.in_flight >= books.limit.writes()
        };
        let shared = Arc::clone(&self.shared);
        let runtime = self.runtime.as_ref().expect("the runtime lasts as long as the journal");
        match self.takeover.take() {
            Some(takeover) => drop(runtime.spawn(write::first(shared, takeover, row, bytes))),
            None => drop(runtime.spawn(write::write(shared, row, bytes, was_full))),
        }
    }

    fn advance(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        let ended = {
            let mut books = self.shared.books.lock();
            let told = !books.known.is_empty();
            out.append(&mut books.known);
            // What is known to be durable is told before the end.
            if told && books.ended.is_some() {
                drop(books);
                self.shared.wake();
                return Ok(());
            }
            books.ended.clone()
        };
        ended.map_or(Ok(()), |ended| Err(self.shared.error(ended)))
    }

    fn confirm(&mut self) -> Result<(), Error> {
        self.settle_ended()?;
        let connector = &self.shared.pool.connector;
        let theirs = self
            .block_on(write::epoch(&self.shared.pool))
            .map_err(|trouble| connector.error("asking who may write", trouble.text()))?;
        self.check_epoch(theirs)
    }

    fn stop(&mut self, next: Sequence, timestamp: i64) -> Result<(), Error> {
        self.settle_ended()?;
        assert!(self.shared.books.lock().in_flight == 0, "writes are in flight at a clean stop");
        let stopped = self.block_on(write::stop(&self.shared, next, timestamp));
        match stopped {
            Ok(None) => Ok(()),
            Ok(Some(theirs)) => Err(self.shared.error(Ended::Fenced { theirs })),
            Err(trouble) => Err(self.shared.pool.connector.error("marking the clean stop", trouble.text())),
        }
    }
}
