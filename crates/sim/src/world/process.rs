//! One life of the server: opened, its log driven as `threads` drives it, its jobs, its end.

use std::collections::VecDeque;
use std::sync::Arc;

use arioso_disk::{Disk, SimDisk};
use arioso_journal::local::{Job, JobDone, Local, Notice};
use arioso_journal::memory::MemoryBackend;
use arioso_journal::{Backend, BatchNumber, Outcome, Room};
use arioso_server::log::Log;
use arioso_server::node::Node;
use arioso_server::opening::{self, Chance};
use arioso_server::refill::{Refill, RefillJob, Refilled};
use arioso_store::batch::BATCH_BYTES_MAX;
use arioso_store::stores::{SpanInfo, Split, SplitProgress};

use super::memory;
use crate::plan::{Journal, Plan, Plant};
use crate::plant::LyingDisk;
use crate::rng::Rng;
use crate::{Violation, violated};

/// Jobs handed out at the same time, as `threads` does.
const JOBS_MAX: usize = 4;
/// The disk's size when it is not full.
pub const DISK_BYTES: u64 = 1 << 30;
/// Tries to open a disk that crashes again and again.
const OPENS_MAX: u32 = 20;

/// What the journal left when the last life ended.
pub enum Left {
    /// A disk.
    Disk(SimDisk),
    /// The journal in memory.
    Memory(Option<Box<MemoryBackend>>),
}

/// Work behind the writer's back.
pub enum Task {
    /// Of the journal.
    Journal(Job),
    /// Fills the tip after a start.
    Refill(RefillJob),
    /// Splits segments into stores, a step at a time.
    Split(Box<Split>),
}

/// Its result.
pub enum Finished {
    /// Of the journal.
    Journal(JobDone),
    /// A segment's records.
    Refill(Refilled),
    /// A span, or why there is none.
    Split(Result<SpanInfo, arioso_store::Error>),
}

/// How a task goes on.
pub enum Ran {
    /// It is over.
    Over(Finished),
    /// It wants to be run again.
    Goes(Task),
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Finished::Journal(_) => "Journal",
            Finished::Refill(_) => "Refill",
            Finished::Split(_) => "Split",
        })
    }
}

impl Task {
    /// Does it, or a step of it.
    pub fn run(self) -> Ran {
        match self {
            Task::Journal(job) => Ran::Over(Finished::Journal(job.run())),
            Task::Refill(job) => Ran::Over(Finished::Refill(job.run())),
            Task::Split(mut split) => match split.step() {
                Ok(SplitProgress::Working { .. }) => Ran::Goes(Task::Split(split)),
                Ok(SplitProgress::Done(info)) => Ran::Over(Finished::Split(Ok(*info))),
                Err(error) => {
                    // What stays is removed by the next start.
                    let _ = split.clean_up();
                    Ran::Over(Finished::Split(Err(error)))
                }
            },
        }
    }

    /// What it is.
    pub fn name(&self) -> &'static str {
        match self {
            Task::Journal(Job::Prepare(_)) => "prepare",
            Task::Journal(Job::Seal(_)) => "seal",
            Task::Journal(Job::Checkpoint(_)) => "checkpoint",
            Task::Journal(Job::Retire(_)) => "retire",
            Task::Journal(Job::Switch(_)) => "switch",
            Task::Journal(Job::GiveBack(_)) => "give back",
            Task::Refill(_) => "refill",
            Task::Split(_) => "split",
        }
    }
}

/// The log over either journal.
pub enum AnyLog {
    /// Segments, and what is left to fill the tip with.
    Local(Box<Log<Local>>, Box<Refill>),
    /// Memory.
    Memory(Box<Log<MemoryBackend>>),
}

/// One life of the server.
pub struct Process {
    /// Its number.
    pub life: u32,
    /// What its parts share.
    pub node: Arc<Node>,
    /// Its log.
    pub log: AnyLog,
    /// A round of the log is between its halves (segments only).
    pub writing: bool,
    /// A round is on the schedule.
    pub log_due: bool,
    /// Jobs handed out, by number.
    pub jobs: Vec<(u32, Task)>,
    /// The journal's jobs that are out, those that ran and were not given back included.
    pub jobs_out: usize,
    /// The tip is being filled.
    pub refilling: bool,
    /// Results to be given back.
    pub done: VecDeque<Finished>,
    /// It is being stopped cleanly.
    pub stopping: bool,
    /// Its journal is lost: it is about to end.
    pub lost: bool,
    failed: bool,
    jobs_count: u32,
}

/// A journal that was opened.
pub struct Opened {
    /// The life.
    pub process: Process,
    /// How often the machine stopped while it was opened.
    pub crashes: u32,
}

impl Process {
    /// Opens what the last life left.
    pub fn open(
        life: u32,
        plan: &Plan,
        plant: Option<Plant>,
        left: &mut Left,
        rng: &mut Rng,
        now: i64,
    ) -> Result<Opened, Violation> {
        let hash_seed = rng.draw();
        let mut crashes = 0;
        let (node, log) = match left {
            Left::Memory(journal) => {
                let journal = *journal.take().expect("a life that ended leaves its journal");
                let reuse = plant == Some(Plant::NumbersReused);
                let (node, log) = memory::open(journal, &plan.settings, (hash_seed, now), reuse)?;
                (node, AnyLog::Memory(Box::new(log)))
            }
            Left::Disk(disk) => loop {
                if crashes < OPENS_MAX && rng.percent(plan.crash_percent) {
                    disk.crash_at_call(disk.counts().all() + 1 + rng.below(80));
                }
                let behind: Arc<dyn Disk> = match plant {
                    Some(Plant::SyncLies) => Arc::new(LyingDisk::new(disk.clone())),
                    _ => Arc::new(disk.clone()),
                };
                let chance = Chance { stream_id: memory::STREAM_ID, hash_seed, now };
                match opening::open(plan.settings.clone(), behind, chance) {
                    Ok(opened) => break (opened.node, AnyLog::Local(Box::new(opened.log), Box::new(opened.refill))),
                    Err(_) if disk.is_crashed() => {
                        crashes += 1;
                        *disk = disk.crash(rng.draw());
                    }
                    // Without room nothing can begin; somebody makes some.
                    Err(_) if disk.space().is_ok_and(|space| space.total == 0) => disk.set_capacity(DISK_BYTES),
                    Err(error) => return violated(format!("life {life} can't be opened: {error}")),
                }
            },
        };
        let process = Process {
            life,
            node,
            log,
            writing: false,
            log_due: false,
            jobs: Vec::new(),
            jobs_out: 0,
            refilling: false,
            done: VecDeque::new(),
            stopping: false,
            lost: false,
            failed: false,
            jobs_count: 0,
        };
        Ok(Opened { process, crashes })
    }

    /// Whether a round of the log has something to do.
    pub fn log_wants(&self) -> bool {
        let engine = self.node.engine.lock();
        let work = engine.has_pending() || engine.has_wanted() || !self.done.is_empty();
        drop(engine);
        // In memory a write that completes makes room; on the disk a job does, whose result is told.
        let freed = match &self.log {
            AnyLog::Memory(log) => log.has_held() && log.has_room(),
            AnyLog::Local(..) => false,
        };
        !self.lost && !self.writing && (work || freed)
    }

    /// Whether batches wait for room in the journal.
    pub fn has_held(&self) -> bool {
        match &self.log {
            AnyLog::Memory(log) => log.has_held(),
            AnyLog::Local(log, _) => log.has_held(),
        }
    }

    /// Whether a job of the journal is to be tried again.
    pub fn has_failed(&mut self) -> bool {
        match &mut self.log {
            AnyLog::Memory(_) => false,
            AnyLog::Local(log, _) => log.backend().has_failed(),
        }
    }

    /// What `threads` does before each round: results taken in, jobs handed out, the engine told of the room. Gives the numbers
    /// of new jobs, and what jobs told.
    pub fn attend(&mut self, now: i64) -> (Vec<u32>, Vec<Notice>) {
        let (mut new, mut notices) = (Vec::new(), Vec::new());
        let wanted = self.node.engine.lock().take_wanted();
        let mut full = false;
        let room: Room = match &mut self.log {
            AnyLog::Memory(log) => log.room(),
            AnyLog::Local(log, refill) => {
                if let Some(bytes) = wanted {
                    let room = log.backend().room_for(bytes.min(BATCH_BYTES_MAX as u64));
                    full = matches!(room, Err(Room::DiskFull { .. }));
                }
                while let Some(done) = self.done.pop_front() {
                    match done {
                        Finished::Journal(done) => {
                            self.jobs_out -= 1;
                            notices.extend(log.backend().done(done));
                            log.publish_table(true);
                            log.retain(now);
                        }
                        Finished::Split(result) => notices.extend(log.backend().split_done(result)),
                        Finished::Refill(refilled) => {
                            self.refilling = false;
                            refill.done(refilled, log.tip(), &self.node.names.read());
                        }
                    }
                }
                while self.jobs_out < JOBS_MAX
                    && let Some(job) = log.next_job()
                {
                    self.jobs_out += 1;
                    self.jobs_count += 1;
                    self.jobs.push((self.jobs_count, Task::Journal(job)));
                    new.push(self.jobs_count);
                }
                if let Some(split) = log.backend().next_split() {
                    self.jobs_count += 1;
                    self.jobs.push((self.jobs_count, Task::Split(Box::new(split))));
                    new.push(self.jobs_count);
                }
                if !self.refilling
                    && let Some(job) = refill.next_job()
                {
                    self.refilling = true;
                    self.jobs_count += 1;
                    self.jobs.push((self.jobs_count, Task::Refill(job)));
                    new.push(self.jobs_count);
                }
                log.room()
            }
        };
        let mut engine = self.node.engine.lock();
        engine.set_room(room);
        if full {
            engine.note_disk_full();
        }
        drop(engine);
        (new, notices)
    }

    /// The first half of a round. Gives the writes in flight that were not before (memory only), and whether anything was
    /// written.
    pub fn begin(&mut self, now: i64, mark: bool) -> (Vec<BatchNumber>, bool) {
        match &mut self.log {
            AnyLog::Local(log, _) => {
                let wrote = log.begin(now, mark);
                self.writing = wrote;
                (Vec::new(), wrote)
            }
            AnyLog::Memory(log) => {
                let before: Vec<BatchNumber> = log.backend().flying().collect();
                let wrote = log.begin(now, mark);
                let new = log.backend().flying().filter(|number| !before.contains(number)).collect();
                (new, wrote)
            }
        }
    }

    /// The second half of a round. After an error the journal is lost.
    pub fn finish(&mut self, now: i64) -> Result<(), arioso_journal::Error> {
        self.writing = false;
        let ended = match &mut self.log {
            AnyLog::Local(log, _) => log.finish(now).map(|()| log.publish_table(false)),
            AnyLog::Memory(log) => log.finish(now),
        };
        self.failed |= ended.is_err();
        ended
    }

    /// Whether a round failed: nothing more is promised.
    pub fn is_over(&self) -> bool {
        self.failed
    }

    /// A write in memory became known.
    pub fn complete(&mut self, number: BatchNumber, outcome: Outcome) {
        if let AnyLog::Memory(log) = &mut self.log
            && log.backend().flying().any(|flying| flying == number)
        {
            log.backend().complete(number, outcome);
        }
    }

    /// Writes in flight (memory only).
    pub fn flying(&self) -> usize {
        match &self.log {
            AnyLog::Memory(log) => log.backend_ref().flying().count(),
            AnyLog::Local(..) => 0,
        }
    }

    /// Their numbers.
    pub fn flying_numbers(&self) -> Vec<BatchNumber> {
        match &self.log {
            AnyLog::Memory(log) => log.backend_ref().flying().collect(),
            AnyLog::Local(..) => Vec::new(),
        }
    }

    /// Takes a job that was handed out.
    pub fn take_job(&mut self, number: u32) -> Option<Task> {
        let at = self.jobs.iter().position(|(known, _)| *known == number)?;
        Some(self.jobs.remove(at).1)
    }

    /// The journal is lost at the next round (memory only).
    pub fn lose(&mut self) {
        if let AnyLog::Memory(log) = &mut self.log {
            log.backend().lose();
        }
    }

    /// Another server takes the stream over: what it finds (memory only).
    pub fn take_over(&self, seed: u64) -> Option<MemoryBackend> {
        match &self.log {
            AnyLog::Memory(log) => Some(log.backend_ref().take_over(seed)),
            AnyLog::Local(..) => None,
        }
    }

    /// Ends cleanly: everything was written. Gives whether the mark of that was.
    pub fn close(self, left: &mut Left) -> Result<bool, Violation> {
        let mut clean = true;
        let fault = |error: arioso_journal::Error| Violation(format!("a clean stop failed: {error}"));
        let (next, timestamp) = {
            let engine = self.node.engine.lock();
            (engine.order().next_sequence(), engine.order().timestamp())
        };
        match (self.log, left) {
            (AnyLog::Local(log, _), Left::Disk(disk)) => {
                for (_, job) in self.jobs {
                    // The jobs' thread is waited for; what it tells is not listened to. A split is abandoned.
                    if !matches!(job, Task::Split(_)) {
                        drop(job.run());
                    }
                }
                clean = !disk.is_crashed();
                if clean {
                    // Without the mark the next start takes the stop for an unclean one.
                    clean = log.into_backend().close(next.0, timestamp).is_ok();
                }
            }
            (AnyLog::Memory(log), Left::Memory(left)) => {
                let mut journal = log.into_backend();
                journal.stop(next, timestamp).map_err(fault)?;
                *left = Some(Box::new(journal));
            }
            _ => panic!("a life has the journal it was opened on"),
        }
        Ok(clean)
    }

    /// Ends anyhow. Memory: what was in flight is there or not, by chance.
    pub fn abandon(self, left: &mut Left, seed: u64) {
        if let (AnyLog::Memory(log), Left::Memory(left)) = (self.log, left) {
            *left = Some(Box::new(log.into_backend().crash(seed)));
        }
    }
}

/// What there is before the first life.
pub fn nothing(plan: &Plan, seed: u64) -> Left {
    match plan.journal {
        Journal::Local => Left::Disk(SimDisk::new(seed)),
        Journal::Memory => {
            let journal = MemoryBackend::on_demand(1 << 30, plan.writes_max);
            let journal = if plan.shared { journal.shared() } else { journal };
            Left::Memory(Some(Box::new(journal)))
        }
    }
}
