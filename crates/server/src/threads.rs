//! The threads of a bus: one for the log, one for the work behind the writer's back (the next segment, footers,
//! checkpoints), one that splits history into stores. The only places where a bus waits.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use arioso_journal::local::{Job, JobDone, Local, Notice};
use arioso_journal::{Error, Room};
use arioso_store::stores::{SpanInfo, Split};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::{Clock, wall};
use crate::log::Log;
use crate::metrics::add;
use crate::node::Node;
use crate::refill::{Refill, RefillJob, Refilled};
use crate::retention::LOOK_EVERY_NS;
use crate::splitter;

/// How long after the last batch an empty one carries `synced_to` forward; half of what docs/format.md allows.
const MARK_AFTER: Duration = Duration::from_millis(50);
/// How often it is looked for what is too old.
const LOOK_EVERY: Duration = Duration::from_nanos(LOOK_EVERY_NS.unsigned_abs());
/// How often what failed, a full disk asked for room for one, is tried again.
const RETRY: Duration = Duration::from_millis(500);
const RETRY_NS: i64 = 500_000_000;
const _: () = assert!(RETRY.as_nanos() == RETRY_NS as u128);
/// The journal's jobs handed out at the same time: one of each kind.
const JOBS_MAX: usize = 4;

/// What log and jobs share.
#[derive(Default)]
struct Desk {
    stop: AtomicBool,
    /// There are results.
    news: AtomicBool,
    done: Mutex<VecDeque<Finished>>,
}

/// Work behind the writer's back.
enum Task {
    Journal(Job),
    Refill(RefillJob),
}

/// Its result.
enum Finished {
    Journal(JobDone),
    Refill(Refilled),
    Split(Result<SpanInfo, arioso_store::Error>),
}

/// Where tasks are handed out.
struct Hands {
    tasks: SyncSender<Task>,
    splits: SyncSender<Split>,
}

/// The threads of a bus with the journal `local`.
pub struct Threads {
    node: Arc<Node>,
    desk: Arc<Desk>,
    log: JoinHandle<Result<Log<Local>, Error>>,
    jobs: JoinHandle<()>,
    splitter: JoinHandle<()>,
}

impl Threads {
    /// Starts them. `lost` turns true when the journal is lost.
    pub fn start(log: Log<Local>, refill: Refill, node: Arc<Node>, lost: watch::Sender<bool>) -> io::Result<Threads> {
        let desk = Arc::new(Desk::default());
        let (hand, take) = sync_channel(JOBS_MAX + 1);
        let (own, shared) = (Arc::clone(&node), Arc::clone(&desk));
        let jobs = std::thread::Builder::new().name("arioso-jobs".into()).spawn(move || work(&take, &own, &shared))?;
        let (give, split) = sync_channel(1);
        let (own, shared) = (Arc::clone(&node), Arc::clone(&desk));
        let splitter = std::thread::Builder::new().name("arioso-split".into()).spawn(move || {
            splitter::work(&split, &own, &shared.stop, &|result| finish(Finished::Split(result), &own, &shared));
        })?;
        let hand = Hands { tasks: hand, splits: give };
        let (own, shared) = (Arc::clone(&node), Arc::clone(&desk));
        let log = std::thread::Builder::new().name("arioso-log".into()).spawn(move || {
            let ended = run(log, refill, &own, &shared, &hand);
            if let Err(error) = &ended {
                tracing::error!("{error}");
                own.engine.lock().lose();
                own.history.lose();
                lost.send_replace(true);
            }
            ended
        })?;
        Ok(Threads { node, desk, log, jobs, splitter })
    }

    /// Makes durable what waits, writes the mark of a clean stop, ends.
    pub fn stop(self) -> Result<(), Error> {
        {
            let _engine = self.node.engine.lock();
            self.desk.stop.store(true, Ordering::Release);
        }
        self.node.work.notify_all();
        self.splitter.thread().unpark();
        let ended = self.log.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.jobs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.splitter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Nobody tells readers of the table any more.
        self.node.history.lose();
        let log = ended?;
        let (next, timestamp) = {
            let engine = self.node.engine.lock();
            (engine.order().next_sequence(), engine.order().timestamp())
        };
        log.into_backend().close(next.0, timestamp)
    }
}

/// The jobs' thread: ends when the log's does.
fn work(take: &Receiver<Task>, node: &Node, desk: &Desk) {
    while let Ok(task) = take.recv() {
        let done = match task {
            Task::Journal(job) => Finished::Journal(job.run()),
            Task::Refill(job) => Finished::Refill(job.run()),
        };
        finish(done, node, desk);
    }
}

/// Tells the log of a result.
fn finish(done: Finished, node: &Node, desk: &Desk) {
    desk.done.lock().push_back(done);
    {
        let _engine = node.engine.lock();
        desk.news.store(true, Ordering::Release);
    }
    node.work.notify_all();
}

fn run(mut log: Log<Local>, mut refill: Refill, node: &Node, desk: &Desk, hand: &Hands) -> Result<Log<Local>, Error> {
    let mut out = Out::default();
    let clock = Clock::new();
    let mut tried_at = 0;
    loop {
        attend(&mut log, &mut refill, node, desk, hand, &mut out);
        let waited = wait(node, desk, log.has_held(), log.backend().has_failed());
        // Whoever publishes on a full disk asks again and again: time counts, not quiet.
        let due = log.backend().has_failed() && clock.mono() - tried_at >= RETRY_NS;
        if waited == Waited::Failed || due {
            log.backend().retry();
            tried_at = clock.mono();
        }
        if waited == Waited::Age {
            log.retain(wall());
        }
        let wrote = log.step(wall(), waited == Waited::Idle)?;
        log.publish_table(false);
        if !wrote && desk.stop.load(Ordering::Acquire) && !log.has_held() && !node.engine.lock().has_pending() {
            return Ok(log);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Waited {
    Work,
    /// Nothing came for a while and a mark is wanted.
    Idle,
    /// The disk was full, or a job failed, a while ago.
    Failed,
    /// Nothing came for a while: messages have grown old.
    Age,
}

/// Waits until the log has something to do. `held`: batches wait for room, which a job makes. `failed`: a job is to be tried
/// again.
fn wait(node: &Node, desk: &Desk, held: bool, failed: bool) -> Waited {
    let retains_by_age = node.settings.retention_age_s > 0;
    let mut engine = node.engine.lock();
    loop {
        let stop = desk.stop.load(Ordering::Acquire);
        if engine.has_pending() || (stop && !held) || desk.news.load(Ordering::Acquire) || engine.has_wanted() {
            return Waited::Work;
        }
        if engine.wants_sync_mark() {
            if node.work.wait_for(&mut engine, MARK_AFTER).timed_out() {
                return Waited::Idle;
            }
        } else if failed || (stop && held) {
            if node.work.wait_for(&mut engine, RETRY).timed_out() {
                return Waited::Failed;
            }
        } else if retains_by_age {
            if node.work.wait_for(&mut engine, LOOK_EVERY).timed_out() {
                return Waited::Age;
            }
        } else {
            node.work.wait(&mut engine);
        }
    }
}

/// Tasks handed out and not finished.
#[derive(Default)]
struct Out {
    journal: usize,
    refilling: bool,
}

/// Takes results in, hands tasks out, and tells the engine how much room there is.
fn attend(log: &mut Log<Local>, refill: &mut Refill, node: &Node, desk: &Desk, hand: &Hands, out: &mut Out) {
    let wanted = node.engine.lock().take_wanted();
    // How much there is of it is told below.
    let full = wanted.is_some_and(|bytes| {
        let most = arioso_store::batch::BATCH_BYTES_MAX as u64;
        matches!(log.backend().room_for(bytes.min(most)), Err(Room::DiskFull { .. }))
    });
    desk.news.store(false, Ordering::Release);
    while let Some(done) = { desk.done.lock().pop_front() } {
        match done {
            Finished::Journal(done) => {
                out.journal -= 1;
                if let Some(notice) = log.backend().done(done) {
                    if matches!(notice, Notice::Split { .. }) {
                        add(&node.counters.split_spans, 1);
                    }
                    tell(&notice);
                }
                log.publish_table(true);
                log.retain(wall());
            }
            Finished::Split(result) => {
                // A stop abandons it: that is no failure.
                if !(result.is_err() && desk.stop.load(Ordering::Acquire))
                    && let Some(notice) = log.backend().split_done(result)
                {
                    tell(&notice);
                }
            }
            Finished::Refill(refilled) => {
                out.refilling = false;
                refill.done(refilled, log.tip(), &node.names.read());
            }
        }
    }
    let give = |task| assert!(hand.tasks.send(task).is_ok(), "the jobs' thread ends after the log's");
    while out.journal < JOBS_MAX
        && let Some(job) = log.next_job()
    {
        out.journal += 1;
        give(Task::Journal(job));
    }
    if !out.refilling
        && let Some(job) = refill.next_job()
    {
        out.refilling = true;
        give(Task::Refill(job));
    }
    if !desk.stop.load(Ordering::Acquire)
        && let Some(split) = log.backend().next_split()
    {
        assert!(hand.splits.send(split).is_ok(), "the splitter's thread ends after the log's");
    }
    let room: Room = log.room();
    let mut engine = node.engine.lock();
    engine.set_room(room);
    if full {
        engine.note_disk_full();
    }
}

fn tell(notice: &Notice) {
    match notice {
        Notice::Sealed { segment, damage } => {
            for damage in damage {
                tracing::error!("{damage}");
            }
            tracing::debug!(segment, "sealed");
        }
        Notice::Checkpointed { upto } => tracing::debug!(upto, "checkpoint written"),
        Notice::Split { info } => {
            let SpanInfo { span, first_segment, last_segment, stores, messages, bytes, .. } = **info;
            tracing::info!(span, first_segment, last_segment, stores, messages, bytes, "split into subtree stores");
        }
        Notice::Retired { first_segment, first_sequence } => tracing::info!(first_segment, first_sequence, "retired"),
        Notice::Failed { what, segment, error } => tracing::warn!(segment, "{what}: {error}"),
    }
}
