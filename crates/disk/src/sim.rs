//! A disk in memory that loses, on a crash, what a machine may lose, and fails where it was told to.
//!
//! Everything follows from the seeds and the order of the calls: nothing else is random, and no clock is
//! read. `file.rs` says what a crash may do to bytes, `names.rs` what to names, `plan.rs` counts and fails.
//!
//! A machine that crashed stays so: every call on it, and on every file opened through it, fails with
//! [`Error::Crashed`]. What survived is a new disk, and another seed gives another survivor:
//!
//! ```
//! use arioso_disk::{Disk, SimDisk};
//!
//! let disk = SimDisk::new(1);
//! disk.crash_at_sync(2);
//! let file = disk.create("a")?;
//! disk.sync_dir("")?;
//! file.write_at(b"perhaps", 0)?;
//! assert!(file.sync_data().unwrap_err().is_crashed());
//! for seed in 0..10 {
//!     let survivor = disk.crash(seed);
//!     assert_eq!(survivor.list("")?.len(), 1);
//! }
//! # Ok::<(), arioso_disk::Error>(())
//! ```

mod calls;
mod file;
mod names;
mod plan;
mod rng;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

pub use file::SECTOR_BYTES;
pub use plan::Counts;

use crate::{Error, Operation, Result, Space};
use file::FileNode;
use names::{Names, NodeId, ROOT};
use plan::{Plan, Verdict};
use rng::Rng;

/// The room on a disk that was not told otherwise: files live in memory, so it is modest.
const CAPACITY_BYTES: u64 = 1 << 30;

/// A simulated disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    names: Names,
    files: BTreeMap<NodeId, FileNode>,
    node_next: NodeId,
    locks: BTreeSet<String>,
    capacity: u64,
    used: u64,
    rng: Rng,
    plan: Plan,
    crashed: bool,
}

impl SimDisk {
    /// An empty disk of 1 GiB. The seed decides what failed calls leave behind.
    pub fn new(seed: u64) -> Self {
        SimDisk::with(State {
            names: Names::default(),
            files: BTreeMap::new(),
            node_next: ROOT + 1,
            locks: BTreeSet::new(),
            capacity: CAPACITY_BYTES,
            used: 0,
            rng: Rng::new(seed),
            plan: Plan::default(),
            crashed: false,
        })
    }

    fn with(state: State) -> Self {
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        hold(&self.state)
    }

    /// Stops the machine, if it still runs, and gives the disk that was left: everything synced, and of
    /// the rest what the seed decides. It has no faults planned, no locks, and counts from 0. May be called
    /// again with other seeds.
    pub fn crash(&self, seed: u64) -> SimDisk {
        self.state().crashed = true;
        self.survivor(seed)
    }

    /// The disk that a crash at this moment would leave, while this one goes on.
    pub fn survivor(&self, seed: u64) -> SimDisk {
        let mut state = self.state().left_behind();
        let mut rng = Rng::new(seed);
        state.names.crash(&mut rng);
        for file in state.files.values_mut() {
            file.crash(&mut rng);
        }
        state.rng = rng;
        state.recount();
        SimDisk::with(state)
    }

    /// Ends the process but not the machine: the new disk has everything that was written, synced or not,
    /// and a later crash may still lose what was not.
    pub fn kill(&self) -> SimDisk {
        let mut state = self.state();
        state.crashed = true;
        let mut state = state.left_behind();
        for file in state.files.values_mut() {
            file.opens = 0;
        }
        state.recount();
        SimDisk::with(state)
    }

    /// From the `k`-th sync on, counted from the disk's making, every call fails: `k` is 1 or more and
    /// that sync itself promises nothing.
    pub fn crash_at_sync(&self, k: u64) {
        assert!(k > 0, "syncs are counted from 1");
        self.state().plan.crash_at_sync = Some(k);
    }

    /// From the `k`-th call of any kind on, counted from the disk's making, every call fails.
    pub fn crash_at_call(&self, k: u64) {
        assert!(k > 0, "calls are counted from 1");
        self.state().plan.crash_at_call = Some(k);
    }

    /// Whether the machine has stopped.
    pub fn is_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Fails the `n`-th call of an operation from now on (1 is the next) with an I/O error. A failed write
    /// may leave a part behind; a failed sync leaves the unsynced bytes in doubt for good; whatever else
    /// fails does nothing.
    pub fn fail(&self, operation: Operation, n: u64) {
        assert!(n > 0, "calls are counted from 1");
        let plan = &mut self.state().plan;
        let at = plan.counts.of(operation) + n;
        plan.faults.insert((operation, at));
    }

    /// Turns one bit of a file over, on the device and in the cache, silently.
    pub fn flip(&self, path: &str, offset: u64, bit: u8) -> Result<()> {
        assert!(bit < 8, "a byte has bits 0 to 7");
        let mut state = self.state();
        let refuse = |errno| Error::errno(Operation::Write, path, Some(offset), errno);
        let node = state.names.find_file(path).map_err(refuse)?;
        let place = usize::try_from(offset).unwrap_or(usize::MAX);
        if state.file(node).flip(place, bit) { Ok(()) } else { Err(refuse(Errno::INVAL)) }
    }

    /// Sets the room on the disk; what is over stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// Sets the hook that tells how long an operation on so many bytes would take, in nanoseconds. The
    /// time is added up, not slept.
    pub fn set_latency(&self, latency: impl FnMut(Operation, u64) -> u64 + Send + 'static) {
        self.state().plan.latency = Some(Box::new(latency));
    }

    /// The virtual time that all operations took.
    pub fn virtual_ns(&self) -> u64 {
        self.state().plan.virtual_ns
    }

    /// What was called since the disk was made.
    pub fn counts(&self) -> Counts {
        self.state().plan.counts
    }
}

fn hold(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A thread that panicked inside a call left at worst a half-done simulated write.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Counts a call and tells whether it may go on.
    fn enter(&mut self, operation: Operation, path: &str, offset: Option<u64>, bytes: u64) -> Result<()> {
        match if self.crashed { Verdict::Crash } else { self.plan.judge(operation, bytes) } {
            Verdict::Go => Ok(()),
            Verdict::Fail => Err(Error::errno(operation, path, offset, Errno::IO)),
            Verdict::Crash => {
                self.crashed = true;
                Err(Error::Crashed { operation, path: path.to_owned() })
            }
        }
    }

    /// The file a handle or a name leads to, which is kept as long as either is there.
    fn file(&mut self, node: NodeId) -> &mut FileNode {
        self.files.get_mut(&node).expect("a file with a name or a handle has a node")
    }

    fn space(&self) -> Space {
        Space { total: self.capacity, available: self.capacity.saturating_sub(self.used) }
    }

    /// A copy of what the disk holds, without what belongs to its processes.
    fn left_behind(&self) -> State {
        State {
            names: self.names.clone(),
            files: self.files.clone(),
            node_next: self.node_next,
            locks: BTreeSet::new(),
            capacity: self.capacity,
            used: 0,
            rng: self.rng.clone(),
            plan: Plan::default(),
            crashed: false,
        }
    }

    /// Counts names and room anew, and forgets files that nothing leads to.
    fn recount(&mut self) {
        for file in self.files.values_mut() {
            file.links = 0;
        }
        for node in self.names.files_now() {
            let file = self.files.get_mut(&node).expect("a file with a name has a node");
            file.links += 1;
        }
        self.forget();
        let held = self.files.values().filter(|file| file.links > 0);
        self.used = held.map(|file| file.bytes().len() as u64).sum();
    }

    /// Drops the files that have no name, no handle and no way back through a crash.
    fn forget(&mut self) {
        let remembered = self.names.files_remembered();
        self.files.retain(|node, file| file.links > 0 || file.opens > 0 || remembered.contains(node));
    }

    /// Takes a name, or a handle, from a file; the last one frees its room.
    fn release(&mut self, node: NodeId, take: impl FnOnce(&mut FileNode)) {
        let file = self.file(node);
        take(file);
        if file.links == 0 && file.opens == 0 {
            let bytes = file.bytes().len() as u64;
            self.used -= bytes;
        }
    }
}
