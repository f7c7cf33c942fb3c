//! `arioso demo`: the whole bus in one process, on real files, explained as it goes.
//!
//! ```text
//! tree ──▶ publish (this process) ──▶ followed live ──▶ recovered from the tip
//!      ──▶ publish (a server of its own, by a named publisher) ──▶ SIGKILL under load
//!      ──▶ started again (this process, a small tip) ──▶ retried once only, the rest published
//!      ──▶ recovered from disk ──▶ left and resumed at a mark ──▶ read whole ──▶ inspected offline
//! ```
//!
//! Of what was published only a hash a file is held in memory ([`table`]); everything delivered is held against it.

mod home;
mod plan;
mod reading;
mod say;
mod table;
mod tree;
mod writing;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arioso::{Bus, Settings};
use arioso_disk::{Disk, RealDisk};

use crate::args::DemoArgs;
use crate::fail::{Done, Failure};
use home::Home;
use plan::Plan;
use say::{Say, bytes, count, time};
use table::Table;
use tree::{LeftOut, Limits, Walk};

/// The tip of the first bus: most of what is published stays in it.
const LARGE_TIP_BYTES: u64 = 256 << 20;
/// The tip after the kill: as small as it can be set, so that history is read from disk.
const SMALL_TIP_BYTES: u64 = 8 << 20;
/// Segments of a small tree are small too, so that there are several of them.
const SEGMENT_BYTES: [u64; 2] = [4 << 20, 64 << 20];
/// With fewer there is nothing to kill under load.
const FILES_MIN: u64 = 8;
/// Room that the bus needs beside what is published: segments are written in full before use.
const ROOM_BYTES: u64 = 512 << 20;

/// Everything the steps share.
struct Demo {
    say: Say,
    home: Home,
    walk: Walk,
    left: LeftOut,
    plan: Plan,
    table: Arc<Mutex<Table>>,
}

/// Runs it; fails if a check did not hold.
pub fn run(arguments: &DemoArgs) -> Done {
    let began = Instant::now();
    let tree = arguments.tree.clone().unwrap_or_else(tree::default_tree);
    if !tree.is_dir() {
        return Err(Failure::new(format!("{}: a directory is wanted, --tree DIR names one", tree.display())));
    }
    let home = Home::new(arguments.keep)?;
    let mut demo = Demo::new(tree, home, arguments.all)?;
    let done = demo.steps();
    if done.is_err() && demo.home.is_kept() {
        say::write("\n")?;
    }
    done?;
    demo.summary(began)
}

impl Demo {
    fn new(tree: PathBuf, home: Home, all: bool) -> Result<Demo, Failure> {
        let mut say = Say::default();
        say::write(
            "Arioso keeps messages in one order, on disk before they are acknowledged, and gives any part of them back.\n",
        )?;
        say.step("The files")?;
        let began = Instant::now();
        let limits = Limits::new(all);
        let mut left = LeftOut::default();
        let plan = Plan::of(Walk::new(&tree, home.path(), limits, &mut LeftOut::default()));
        let walk = Walk::new(&tree, home.path(), limits, &mut left);
        if plan.files < FILES_MIN {
            let files = plan.files;
            return Err(Failure::new(format!(
                "{}: {files} files that fit a message; at least {FILES_MIN} are wanted, --tree names another directory",
                tree.display()
            )));
        }
        let cut = if plan.was_cut { " (there are more: --all takes them)" } else { "" };
        say.line(&format!(
            "{}: {} files, {}{cut}. Each becomes a message on the topic of its path.",
            tree.display(),
            count(plan.files),
            bytes(plan.bytes)
        ))?;
        say.line(&format!("The data directory is {}. Looked at in {}.", home.path().display(), time(began.elapsed())))?;
        let space = RealDisk::open(home.path()).and_then(|disk| disk.space()).map_err(Failure::new)?;
        let need = plan.bytes + plan.bytes / 8 + ROOM_BYTES;
        if space.available < need {
            return Err(Failure::new(format!(
                "{}: {} are free, {} are needed; TMPDIR names another place, --tree a smaller directory",
                home.path().display(),
                bytes(space.available),
                bytes(need)
            )));
        }
        Ok(Demo { say, home, walk, left, plan, table: Arc::default() })
    }

    fn steps(&mut self) -> Done {
        let bus = self.open(LARGE_TIP_BYTES)?;
        self.publish_and_follow(&bus)?;
        self.recover_from_tip(&bus)?;
        bus.close().map_err(Failure::new)?;
        let sent = self.kill_under_load()?;
        let bus = self.start_again()?;
        self.retry(&bus, sent)?;
        self.recover_from_disk(&bus)?;
        self.resume(&bus)?;
        self.read_whole(&bus)?;
        bus.close().map_err(Failure::new)?;
        self.inspect()
    }

    fn open(&self, tip_bytes: u64) -> Result<Bus, Failure> {
        let data = self.home.path().to_owned();
        let segment_bytes = self.segment_bytes();
        let settings = Settings { data, tip_bytes, segment_bytes, ..Settings::default() };
        Bus::open_with(settings).map_err(Failure::new)
    }

    fn segment_bytes(&self) -> u64 {
        let [least, most] = SEGMENT_BYTES;
        (self.plan.bytes / 8).clamp(least, most)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    fn summary(&mut self, began: Instant) -> Done {
        let (acknowledged, published_bytes) = self.table().totals();
        say::write("\nSummary\n")?;
        for (why, number, names) in self.left.iter() {
            let more = number - names.len() as u64;
            let more = if more > 0 { format!(" and {} more", count(more)) } else { String::new() };
            self.say.line(&format!("left out: {} {}: {}{more}", count(number), why.words(), names.join(", ")))?;
        }
        self.say.line(&format!(
            "{} files published and acknowledged, {}, {} left out; {}{}.",
            count(acknowledged),
            bytes(published_bytes),
            count(self.left.count()),
            time(began.elapsed()),
            memory().map_or(String::new(), |most| format!(", at most {} of memory", bytes(most)))
        ))?;
        let (held, failed) = (self.say.held(), self.say.failed().len());
        self.say.line(&format!("{held} checks held, {failed} did not."))?;
        match self.say.failed().first() {
            None => Ok(()),
            Some(first) => Err(Failure::new(format!("demo: {failed} checks did not hold, the first: {first}"))),
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most memory this process had, where the system tells.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
