//! The tables from an id to its index node and from a node to its chain of cells, as readers see them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::pool::Address;

/// Ids above this are not in the index: their messages are found by scanning.
const IDS_MAX: usize = 1 << 26;
/// Ids a leaf of a map covers.
const LEAF_IDS: usize = 1024;
/// Leaves a branch of a map covers.
const BRANCH_LEAVES: usize = 256;
/// Nodes the table grows by.
const GROUP_NODES: usize = 1024;

type Leaf = Box<[AtomicU32]>;
type Branch = Box<[OnceLock<Leaf>]>;

/// Maps small ids to node numbers; zero is none. Takes memory where ids are in use.
pub(super) struct IdMap {
    branches: Box<[OnceLock<Branch>]>,
    bytes: AtomicU64,
}

impl IdMap {
    pub(super) fn new() -> IdMap {
        let branches = IDS_MAX / LEAF_IDS / BRANCH_LEAVES;
        IdMap {
            branches: (0..branches).map(|_| OnceLock::new()).collect(),
            bytes: AtomicU64::new((branches * size_of::<OnceLock<Branch>>()) as u64),
        }
    }

    pub(super) fn get(&self, id: u32) -> u32 {
        let id = id as usize;
        let branch = self.branches.get(id / LEAF_IDS / BRANCH_LEAVES);
        let leaf = branch.and_then(OnceLock::get);
        let leaf = leaf.and_then(|leaves| leaves[id / LEAF_IDS % BRANCH_LEAVES].get());
        leaf.map_or(0, |leaf| leaf[id % LEAF_IDS].load(Ordering::Acquire))
    }

    /// False if the id is too high.
    pub(super) fn set(&self, id: u32, value: u32) -> bool {
        let id = id as usize;
        let Some(branch) = self.branches.get(id / LEAF_IDS / BRANCH_LEAVES) else {
            return false;
        };
        let leaves = branch.get_or_init(|| {
            let bytes = BRANCH_LEAVES * size_of::<OnceLock<Leaf>>();
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            (0..BRANCH_LEAVES).map(|_| OnceLock::new()).collect()
        });
        let leaf = leaves[id / LEAF_IDS % BRANCH_LEAVES].get_or_init(|| {
            self.bytes.fetch_add(LEAF_IDS as u64 * 4, Ordering::Relaxed);
            (0..LEAF_IDS).map(|_| AtomicU32::new(0)).collect()
        });
        leaf[id % LEAF_IDS].store(value, Ordering::Release);
        true
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }
}

/// A node's chain of cells, oldest first.
#[derive(Default)]
pub(super) struct Node {
    /// First word of the oldest cell.
    pub(super) first: AtomicU32,
    /// First word of the newest cell.
    pub(super) last: AtomicU32,
    /// Entries in its cells. Of a directory: a number no other directory has or had.
    pub(super) entries: AtomicU32,
}

impl Node {
    pub(super) fn first(&self) -> Address {
        self.first.load(Ordering::Acquire)
    }

    pub(super) fn last(&self) -> Address {
        self.last.load(Ordering::Acquire)
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries.load(Ordering::Relaxed)
    }
}

/// All nodes, numbered from 1 on.
pub(super) struct Nodes {
    groups: Box<[OnceLock<Box<[Node]>>]>,
}

impl Nodes {
    pub(super) fn new(nodes_max: usize) -> Nodes {
        let groups = nodes_max.div_ceil(GROUP_NODES);
        Nodes { groups: (0..groups).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Node> {
        let at = (number as usize).checked_sub(1)?;
        let group = self.groups.get(at / GROUP_NODES)?.get()?;
        group.get(at % GROUP_NODES)
    }

    /// The node, its memory made where needed; none if there are too many.
    pub(super) fn make(&self, number: u32) -> Option<&Node> {
        let at = (number as usize).checked_sub(1)?;
        let group = self.groups.get(at / GROUP_NODES)?;
        let group = group.get_or_init(|| (0..GROUP_NODES).map(|_| Node::default()).collect());
        group.get(at % GROUP_NODES)
    }

    /// Bytes of the tables for `count` nodes.
    pub(super) fn bytes(&self, count: usize) -> usize {
        let groups = self.groups.len() * size_of::<OnceLock<Box<[Node]>>>();
        groups + count.next_multiple_of(GROUP_NODES) * size_of::<Node>()
    }
}
