//! A bus inside this process whose writes are watched: the engine, log and sessions that ship, on a backend in real time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use arioso_client::Route;
use arioso_disk::{Disk, RealDisk, SimDisk};
use arioso_journal::Backend;
use arioso_journal::delayed::{Delayed, Delays};
use arioso_journal::local::{Local, LocalOptions, LocalReplay, NewStream, RecoveredTopic};
use arioso_journal::memory::{MemoryBackend, Schedule};
use arioso_server::assemble::{Found, assemble};
use arioso_server::clock::{Clock, wall};
use arioso_server::connection;
use arioso_server::log::Log;
use arioso_server::node::{Identity, Node};
use arioso_server::settings::Settings;
use arioso_store::publishers::Publishers;
use arioso_store::segment::SegmentTable;
use arioso_stream::Sequence;
use arioso_stream::names::Names;
use arioso_stream::order::{PublisherState, RESERVE_AHEAD, Resume};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::super::{Error, Result, io};
use super::backend::{Paced, Watched};
use super::rule::Written;

/// Bytes of a pipe between client and session.
const PIPE_BYTES: usize = 256 << 10;
/// What the backend in memory holds: far more than a run writes.
const CAPACITY_BYTES: u64 = 1 << 40;
/// Topics.
const TOPICS_MAX: u32 = 100_000;

/// What makes batches durable.
#[derive(Clone, Debug)]
pub enum Durable<'a> {
    /// Nothing: writes take as long as a schedule says, up to so many at a time.
    Memory(Schedule, usize),
    /// Segments in a directory, some writes delayed.
    Local(&'a Path, Delays),
    /// A database, some writes delayed.
    #[cfg(feature = "postgres")]
    Postgres(&'a arioso_journal::postgres::PostgresOptions, Delays),
}

/// What the bus had open at its end: connections, and writes that might be in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Connections to a database for writing.
    pub connections: u32,
    /// Writes that might be in flight.
    pub writes: u32,
}

/// The bus.
pub struct WatchedBus {
    node: Arc<Node>,
    stop: Arc<AtomicBool>,
    sessions: watch::Sender<bool>,
    log: JoinHandle<std::result::Result<Used, arioso_journal::Error>>,
    written: Arc<Mutex<Vec<Written>>>,
}

impl WatchedBus {
    /// Starts one; times count from `began`.
    pub fn start(durable: &Durable<'_>, groups: &str, began: Instant) -> Result<WatchedBus> {
        let settings = Settings { write_reply_ordering_groups: groups.into(), ..Settings::default() };
        match durable {
            Durable::Memory(schedule, writes_max) => {
                let backend = MemoryBackend::scheduled(CAPACITY_BYTES, *writes_max, schedule.clone());
                let resume = Resume {
                    next: Sequence(1),
                    reserved_to: Sequence(RESERVE_AHEAD),
                    timestamp: 0,
                    batch: 1,
                    publisher: 1,
                };
                let found = found(resume, SegmentTable::new(1));
                WatchedBus::run(settings, Arc::new(SimDisk::new(1)), found, backend, began)
            }
            Durable::Local(folder, delays) => {
                let disk = RealDisk::create(*folder).map_err(|error| journal(error.into()))?;
                let disk: Arc<dyn Disk> = Arc::new(disk);
                let new_stream = NewStream { id: 1, name: "bench".into(), now: wall() };
                let options = LocalOptions { new_stream: Some(new_stream), ..LocalOptions::default() };
                let (local, recovered) = Local::open(Arc::clone(&disk), &options, &mut Nothing).map_err(journal)?;
                let resume = Resume {
                    next: recovered.next_sequence,
                    reserved_to: recovered.reserved_to,
                    timestamp: recovered.timestamp,
                    batch: recovered.next_batch,
                    publisher: recovered.next_publisher,
                };
                let found = found(resume, local.table().clone());
                WatchedBus::run(settings, disk, found, Delayed::new(local, delays.clone()), began)
            }
            #[cfg(feature = "postgres")]
            Durable::Postgres(options, delays) => {
                let mut backend = arioso_journal::postgres::Postgres::open(options).map_err(journal)?;
                let taken = backend.take_over().map_err(journal)?;
                let resume = Resume {
                    next: taken.end.next_sequence,
                    // The first batch reserves.
                    reserved_to: Sequence(taken.end.next_sequence.0 - 1),
                    timestamp: taken.end.timestamp_floor,
                    batch: taken.end.newest_batch.map_or(1, |newest| newest.0 + 1),
                    publisher: 1,
                };
                let found = found(resume, SegmentTable::new(1));
                let backend = Delayed::new(backend, delays.clone());
                WatchedBus::run(settings, Arc::new(SimDisk::new(1)), found, backend, began)
            }
        }
    }

    fn run<B: Paced + 'static>(
        settings: Settings,
        disk: Arc<dyn Disk>,
        found: Found,
        backend: B,
        began: Instant,
    ) -> Result<WatchedBus> {
        let (node, tip) = assemble(settings, disk, 1, found).map_err(journal)?;
        let written = Arc::new(Mutex::new(Vec::new()));
        let backend = Watched::new(backend, began, Arc::clone(&written));
        let mut log = Log::new(Arc::clone(&node), backend, tip);
        let news = Arc::new(AtomicBool::new(false));
        let (own, told) = (Arc::downgrade(&node), Arc::clone(&news));
        log.backend().wake_by(Arc::new(move || {
            let Some(node) = own.upgrade() else { return };
            {
                let _engine = node.engine.lock();
                told.store(true, Ordering::Release);
            }
            node.work.notify_all();
        }));
        if log.has_slots() && log.backend_ref().slots() == 1 {
            // A database that was just taken over: its first batch is written alone.
            log.mark(wall());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (own, shared) = (Arc::clone(&node), Arc::clone(&stop));
        let log = std::thread::Builder::new().name("bench-log".into()).spawn(move || write(log, &own, &shared, &news));
        let (sessions, _) = watch::channel(false);
        Ok(WatchedBus { node, stop, sessions, log: log.map_err(io("a thread"))?, written })
    }

    /// A way for clients to reach it.
    pub fn route(&self, runtime: Handle) -> Route {
        let (node, stop) = (Arc::clone(&self.node), self.sessions.clone());
        Route::pipe(move || {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            runtime.spawn(connection::serve(theirs, Arc::clone(&node), Clock::new(), stop.subscribe()));
            Ok(ours)
        })
    }

    /// Ends it; the writes it made, and what it had open.
    pub fn end(self) -> Result<(Vec<Written>, Used)> {
        self.sessions.send_replace(true);
        {
            let _engine = self.node.engine.lock();
            self.stop.store(true, Ordering::Release);
        }
        self.node.work.notify_all();
        let ended = self.log.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let used = ended.map_err(journal)?;
        let mut written = self.written.lock();
        Ok((std::mem::take(&mut *written), used))
    }
}

fn journal(error: arioso_journal::Error) -> Error {
    Error::Wrong(format!("the journal: {error}"))
}

fn found(resume: Resume, table: SegmentTable) -> Found {
    let identity = Identity { stream_id: 1, stream_name: "bench".into(), server_epoch: 1 };
    Found { table, ..Found::empty(identity, resume, Names::new(TOPICS_MAX, 1)) }
}

/// The log's thread: steps when something waits and can be written, became known, or is due.
fn write<B: Paced>(
    mut log: Log<Watched<B>>,
    node: &Node,
    stop: &AtomicBool,
    news: &AtomicBool,
) -> std::result::Result<Used, arioso_journal::Error> {
    let mut used = Used::default();
    loop {
        log.backend().attend();
        {
            let mut engine = node.engine.lock();
            let wait = log.backend_ref().wait();
            let writes = engine.has_pending() && log.has_slots();
            let ends = stop.load(Ordering::Acquire) && !engine.has_in_flight();
            match wait {
                _ if writes || ends || news.swap(false, Ordering::AcqRel) => {}
                Some(wait) if !wait.is_zero() => drop(node.work.wait_for(&mut engine, wait)),
                None => node.work.wait(&mut engine),
                Some(_) => {}
            }
        }
        log.step(wall(), false)?;
        let (connections, writes) = log.backend_ref().connections();
        used.connections = used.connections.max(connections);
        used.writes = writes;
        let engine = node.engine.lock();
        if stop.load(Ordering::Acquire) && !engine.has_pending() && !engine.has_in_flight() && !log.has_held() {
            return Ok(used);
        }
    }
}

/// An empty directory has nothing to tell.
struct Nothing;

impl LocalReplay for Nothing {
    fn cursor(&mut self, _: &[u8]) {}

    fn batch(&mut self, _: &[u8], _: &[u8]) {}

    fn voids(&mut self, _: &Publishers, _: u64, _: Sequence) -> Vec<(u64, u64)> {
        Vec::new()
    }

    fn publisher(&mut self, _: PublisherState) {}

    fn topic(&mut self, _: &RecoveredTopic<'_>) {}
}
