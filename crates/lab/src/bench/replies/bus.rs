//! A bus inside this process whose writes are watched: the engine, log and sessions that ship, on a backend in real time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use arioso_client::Route;
use arioso_disk::{Disk, RealDisk, SimDisk};
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
use arioso_store::voids::Voids;
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
    /// Segments in a directory.
    Local(&'a Path),
}

/// The bus.
pub struct WatchedBus {
    node: Arc<Node>,
    stop: Arc<AtomicBool>,
    sessions: watch::Sender<bool>,
    log: JoinHandle<std::result::Result<(), arioso_journal::Error>>,
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
            Durable::Local(folder) => {
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
                WatchedBus::run(settings, disk, found, local, began)
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
        let log = Log::new(Arc::clone(&node), backend, tip);
        let stop = Arc::new(AtomicBool::new(false));
        let (own, shared) = (Arc::clone(&node), Arc::clone(&stop));
        let log = std::thread::Builder::new().name("bench-log".into()).spawn(move || write(log, &own, &shared));
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

    /// Ends it; the writes it made.
    pub fn end(self) -> Result<Vec<Written>> {
        self.sessions.send_replace(true);
        {
            let _engine = self.node.engine.lock();
            self.stop.store(true, Ordering::Release);
        }
        self.node.work.notify_all();
        let ended = self.log.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map_err(journal)?;
        let mut written = self.written.lock();
        Ok(std::mem::take(&mut *written))
    }
}

fn journal(error: arioso_journal::Error) -> Error {
    Error::Wrong(format!("the journal: {error}"))
}

fn found(resume: Resume, table: SegmentTable) -> Found {
    Found {
        identity: Identity { stream_id: 1, stream_name: "bench".into(), server_epoch: 1 },
        last_batch: resume.batch - 1,
        settled_to: Sequence(resume.next.0 - 1),
        resume,
        names: Names::new(TOPICS_MAX, 1),
        topics: Vec::new(),
        topic_floor: 1,
        publishers: Vec::new(),
        table,
        voids: Voids::default(),
        rows: None,
    }
}

/// The log's thread: steps when something waits or a write is due.
fn write<B: Paced>(
    mut log: Log<Watched<B>>,
    node: &Node,
    stop: &AtomicBool,
) -> std::result::Result<(), arioso_journal::Error> {
    loop {
        log.backend().attend();
        let wait = log.backend().wait();
        {
            let mut engine = node.engine.lock();
            let idle = !engine.has_pending() && !stop.load(Ordering::Acquire);
            match wait {
                Some(wait) if idle && !wait.is_zero() => {
                    node.work.wait_for(&mut engine, wait);
                }
                None if idle => node.work.wait(&mut engine),
                _ => {}
            }
        }
        log.step(wall(), false)?;
        if stop.load(Ordering::Acquire) && !node.engine.lock().has_pending() && log.backend().wait().is_none() {
            return Ok(());
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
