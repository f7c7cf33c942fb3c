//! Backups taken while the bus runs, a round at a time, and what is on them: each is opened as a server of its own.
//!
//! ```text
//!   round ── the bus goes on: seals, splits, retention ── round ──▶ finish ──▶ its machine stops ──▶ inspected, opened, read
//! ```

use std::sync::Arc;

use arioso_disk::{Disk, SimDisk};
use arioso_server::backup::{BackedUp, Backup};
use arioso_server::node::Node;
use arioso_server::opening::{self, Chance};
use arioso_store::inspect::{Finding, inspect};
use arioso_stream::Sequence;

use super::memory::STREAM_ID;
use super::process::AnyLog;
use super::queue::Event;
use super::readback::Probe;
use super::{MS, World};
use crate::rng::Rng;
use crate::{Check, Violation, violated};

/// Rounds before the last one.
const ROUNDS_MAX: u64 = 4;
/// The bus goes on for so long between two rounds.
const PAUSE_NS_MAX: u64 = 80 * MS;

/// The run's backups.
pub(super) struct Backups {
    rng: Rng,
    /// One begins when so many steps are left.
    due: Vec<u64>,
    going: Option<Going>,
}

/// A backup of one life.
struct Going {
    life: u32,
    backup: Backup,
    disk: SimDisk,
    rounds_left: u64,
}

impl Backups {
    /// So many, at any time of a run of so many steps.
    pub(super) fn draw(seed: u64, count: u64, steps: u64) -> Backups {
        // Dice of their own: what clients and faults do is the same with and without.
        let mut rng = Rng::new(seed ^ 0x0BAC_C0B5);
        let mut due: Vec<u64> = (0..count).map(|_| rng.below(steps)).collect();
        due.sort_unstable();
        Backups { rng, due, going: None }
    }

    /// Whether one begins now.
    pub(super) fn begins(&mut self, steps_left: u64) -> bool {
        self.due.pop_if(|at| *at >= steps_left).is_some()
    }
}

impl World {
    /// A round of a backup. One whose server ended begins anew.
    pub(super) fn back_up(&mut self) -> Check {
        let Some(process) = self.process.as_mut().filter(|process| !process.lost && !process.stopping) else {
            self.queue.push(self.now + 30 * MS, Event::BackUp);
            return Ok(());
        };
        let (life, node) = (process.life, Arc::clone(&process.node));
        let mut going = match self.backups.going.take().filter(|going| going.life == life) {
            Some(going) => going,
            None => Going::begin(life, &mut self.backups.rng)?,
        };
        let round = if going.rounds_left > 0 {
            going.rounds_left -= 1;
            going.backup.gather(&node).map(|_| None)
        } else {
            match (&mut process.log, process.writing) {
                (AnyLog::Local(log, _), false) => {
                    let through = node.engine.lock().settled_to();
                    log.publish_table(true);
                    going.backup.finish(&node, through)
                }
                // What is being written is not known to be durable.
                _ => Ok(None),
            }
        };
        if self.is_crashed() {
            self.queue.push(self.now + 30 * MS, Event::BackUp);
            return self.die(true);
        }
        match round {
            Ok(Some(done)) => self.check_backup(&going.disk, done, &node),
            Ok(None) => {
                self.backups.going = Some(going);
                let pause = self.backups.rng.within(1, PAUSE_NS_MAX);
                self.queue.push(self.now + pause, Event::BackUp);
                Ok(())
            }
            Err(error) => violated(format!("a backup can't be taken: {error}")),
        }
    }

    /// Everything acknowledged until now is on it, and what it holds is the stream.
    fn check_backup(&mut self, disk: &SimDisk, done: BackedUp, node: &Node) -> Check {
        self.counts.backups += 1;
        let first_kept = node.history.first_kept();
        self.trace.note(self.now, format_args!("backup of {} through {}", first_kept, done.through), &[]);
        let disk = disk.crash(self.backups.rng.draw());
        is_sound(&disk)?;
        let chance = Chance { stream_id: STREAM_ID, hash_seed: self.backups.rng.draw(), now: self.wall() };
        let opened = opening::open(self.plan.settings.clone(), Arc::new(disk) as Arc<dyn Disk>, chance)
            .map_err(|error| Violation(format!("a backup can't be opened: {error}")))?;
        let mut probe = Probe::new(&opened.node, self.clock())?;
        // The run's own model learns nothing from a copy.
        let mut model = self.model.clone();
        let read = probe.read_all(&mut model)?;
        if Sequence(read.first_kept) > first_kept {
            return violated(format!("a backup begins at {}, {first_kept} was kept", read.first_kept));
        }
        let (of, through) = (read.kept.len(), read.through);
        model.all_answered_within(through)?;
        model.read_back(read).map_err(|Violation(what)| {
            Violation(format!("on a backup of {of} messages through {}, read through {through}: {what}", done.through))
        })
    }
}

impl Going {
    fn begin(life: u32, rng: &mut Rng) -> Result<Going, Violation> {
        let disk = SimDisk::new(rng.draw());
        let backup = Backup::begin(Arc::new(disk.clone()))
            .map_err(|error| Violation(format!("a backup can't be begun: {error}")))?;
        Ok(Going { life, backup, disk, rounds_left: rng.within(1, ROUNDS_MAX) })
    }
}

/// An inspection finds nothing wrong.
fn is_sound(disk: &SimDisk) -> Check {
    let mut wrong = Vec::new();
    let totals = inspect(disk, &mut |finding| {
        if matches!(finding, Finding::Damage(_) | Finding::Repairable { .. }) {
            wrong.push(format!("{finding:?}"));
        }
    });
    match totals {
        Ok(totals) if totals.is_healthy() => Ok(()),
        Ok(_) => violated(format!("an inspection of a backup finds {wrong:?}")),
        Err(error) => violated(format!("a backup can't be inspected: {error}")),
    }
}
