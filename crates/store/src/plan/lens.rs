//! What a plan costs its readers: the bytes they must read and ignore.

use super::{Demand, NodeId, Plan, StoreId, TopicTree};
use std::borrow::Cow;

/// The bytes of all stores that each topic and each subtree touches, under one plan.
#[derive(Clone, Debug)]
pub struct Reads<'a> {
    tree: &'a TopicTree,
    plan: &'a Plan,
    /// Per node, for its subtree.
    touched: Cow<'a, [u64]>,
}

/// One thing that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The topic, or where the subtree begins.
    pub node: NodeId,
    /// A subtree, not a single topic.
    pub deep: bool,
    /// How often it is read.
    pub times: u64,
    /// The bytes wanted.
    pub useful: u64,
    /// The bytes of all stores that hold some of them.
    pub read: u64,
}

impl Read {
    /// Bytes read for nothing.
    #[must_use]
    pub fn wasted(&self) -> u64 {
        self.read - self.useful
    }

    /// Bytes read for each useful one; an empty topic counts as one byte.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.read == self.useful { 1.0 } else { self.read as f64 / self.useful.max(1) as f64 }
    }
}

/// The worst of all reads under one lens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst<T> {
    /// How bad.
    pub value: T,
    /// Where; `None` if nothing was read.
    pub node: Option<NodeId>,
}

/// A plan in three figures, over all topics, all subtrees or what was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lens {
    /// Number of reads, each as often as it is done.
    pub reads: u128,
    /// Bytes wanted.
    pub useful: u128,
    /// Bytes read and ignored.
    pub wasted: u128,
    /// The read that ignores most bytes.
    pub wasted_worst: Worst<u64>,
    /// The read with the worst ratio of bytes read to bytes useful.
    pub ratio_worst: Worst<f64>,
}

impl<'a> Reads<'a> {
    /// Adds up what every subtree touches.
    ///
    /// A store counts once for a subtree, however many of its topics lie in it: every topic brings its
    /// store's bytes, and where two neighbours of one store meet they are taken off again.
    #[must_use]
    pub fn new(tree: &'a TopicTree, plan: &'a Plan) -> Reads<'a> {
        let mut sums = vec![0i128; tree.len()];
        let mut last: Vec<Option<NodeId>> = vec![None; plan.stores().len()];
        for node in tree.nodes() {
            let Some(row) = tree.row(node) else { continue };
            let store = plan.store_of(row);
            let bytes = i128::from(plan.stores()[store.0 as usize].bytes);
            sums[node.at()] += bytes;
            if let Some(before) = last[store.0 as usize].replace(node) {
                sums[tree.meet(before, node).at()] -= bytes;
            }
        }
        for node in tree.nodes().rev().filter(|node| *node != NodeId::ROOT) {
            sums[tree.parent(node).at()] += sums[node.at()];
        }
        let touched = sums.into_iter().map(|sum| u64::try_from(sum).unwrap_or(u64::MAX)).collect();
        Reads { tree, plan, touched: Cow::Owned(touched) }
    }

    /// The same from what [`Reads::touched`] gave earlier for this tree and plan.
    ///
    /// # Panics
    /// If it was given for another tree.
    #[must_use]
    pub fn again(tree: &'a TopicTree, plan: &'a Plan, touched: &'a [u64]) -> Reads<'a> {
        assert_eq!(touched.len(), tree.len(), "one sum for each node");
        Reads { tree, plan, touched: Cow::Borrowed(touched) }
    }

    /// What every node's subtree touches, to be kept beside the plan.
    #[must_use]
    pub fn touched(&self) -> &[u64] {
        &self.touched
    }

    /// Reading one topic.
    #[must_use]
    pub fn topic(&self, row: usize) -> (u64, StoreId) {
        let store = self.plan.store_of(row);
        (self.plan.stores()[store.0 as usize].bytes, store)
    }

    /// Bytes of all stores that a subtree touches.
    #[must_use]
    pub fn subtree(&self, node: NodeId) -> u64 {
        self.touched[node.at()]
    }

    /// Everything that is read, in tree order.
    pub fn of<'b>(&'b self, demand: &'b Demand) -> impl Iterator<Item = Read> + 'b {
        self.tree.nodes().flat_map(move |node| {
            let own = (demand.own(node) > 0).then(|| self.tree.row(node)).flatten().map(|row| Read {
                node,
                deep: false,
                times: demand.own(node),
                useful: self.tree.row_bytes(row),
                read: self.topic(row).0,
            });
            let deep = (demand.subtree(node) > 0).then(|| Read {
                node,
                deep: true,
                times: demand.subtree(node),
                useful: self.tree.bytes(node),
                read: self.subtree(node),
            });
            own.into_iter().chain(deep)
        })
    }

    /// The figures of everything that is read.
    #[must_use]
    pub fn lens(&self, demand: &Demand) -> Lens {
        let mut lens = Lens {
            reads: 0,
            useful: 0,
            wasted: 0,
            wasted_worst: Worst { value: 0, node: None },
            ratio_worst: Worst { value: 1.0, node: None },
        };
        for read in self.of(demand) {
            lens.reads += u128::from(read.times);
            lens.useful += u128::from(read.times) * u128::from(read.useful);
            lens.wasted += u128::from(read.times) * u128::from(read.wasted());
            if lens.wasted_worst.node.is_none() || read.wasted() > lens.wasted_worst.value {
                lens.wasted_worst = Worst { value: read.wasted(), node: Some(read.node) };
            }
            if lens.ratio_worst.node.is_none() || read.ratio() > lens.ratio_worst.value {
                lens.ratio_worst = Worst { value: read.ratio(), node: Some(read.node) };
            }
        }
        lens
    }
}
