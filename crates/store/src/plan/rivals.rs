//! Other ways to divide a topic tree, to be judged by the same lenses.

use super::bundles::{Bundle, into_plan};
use super::pack::{Item, items_of};
use super::{Budget, Demand, Error, Extent, NodeId, Part, Plan, Planner, TopicTree, check_budget};
use std::collections::BinaryHeap;

/// A store for every distinct prefix of so many levels; topics with fewer stand for themselves.
/// It makes as many stores as there are, whatever the budget says.
#[derive(Clone, Copy, Debug)]
pub struct PrefixRule {
    /// Levels of the prefix.
    pub levels: usize,
}

impl PrefixRule {
    /// The three-level rule.
    pub const THREE_LEVELS: PrefixRule = PrefixRule { levels: 3 };
    /// A store per partition.
    pub const PARTITIONS: PrefixRule = PrefixRule { levels: 2 };
}

impl Planner for PrefixRule {
    fn name(&self) -> &'static str {
        match self.levels {
            2 => "partition",
            3 => "three-level",
            _ => "prefix",
        }
    }

    fn plan(&self, tree: &TopicTree, _: &Demand, budget: &Budget) -> Result<Plan, Error> {
        check_budget(budget)?;
        let part = |node: NodeId| {
            let whole = tree.depth(node) == self.levels || (tree.depth(node) < self.levels && tree.is_leaf(node));
            let own = tree.depth(node) < self.levels && tree.row(node).is_some();
            if whole {
                Some(vec![Part { node, extent: Extent::Subtree }])
            } else {
                own.then(|| vec![Part { node, extent: Extent::Own }])
            }
        };
        Ok(Plan::of(tree, tree.nodes().filter(|node| *node != NodeId::ROOT).filter_map(part).collect()))
    }
}

/// One store per topic: nothing is wasted, and nothing is bounded. It pays no heed to the budget.
#[derive(Clone, Copy, Debug)]
pub struct PerTopic;

impl Planner for PerTopic {
    fn name(&self) -> &'static str {
        "per-topic"
    }

    fn plan(&self, tree: &TopicTree, _: &Demand, budget: &Budget) -> Result<Plan, Error> {
        check_budget(budget)?;
        let with_messages = tree.nodes().filter(|node| tree.row(*node).is_some());
        let part = |node| {
            let extent = if tree.is_leaf(node) { Extent::Subtree } else { Extent::Own };
            vec![Part { node, extent }]
        };
        Ok(Plan::of(tree, with_messages.map(part).collect()))
    }
}

/// The plain form of bundles: siblings clustered up the tree under one size limit for all, largest
/// first into the first bundle with room; the limit by binary search.
#[derive(Clone, Copy, Debug)]
pub struct Greedy;

impl Planner for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn plan(&self, tree: &TopicTree, demand: &Demand, budget: &Budget) -> Result<Plan, Error> {
        check_budget(budget)?;
        if tree.is_empty() {
            return Ok(Plan::of(tree, Vec::new()));
        }
        let (mut low, mut high) = (0, tree.bytes(NodeId::ROOT).min(budget.store_bytes_max));
        let mut best = greedy_bundles(tree, demand, high, usize::MAX);
        while high - low > 1 + low / 1024 {
            let middle = low.midpoint(high);
            let bundles = greedy_bundles(tree, demand, middle, budget.stores_max as usize);
            if bundles.len() <= budget.stores_max as usize {
                (best, high) = (bundles, middle);
            } else {
                low = middle;
            }
        }
        Ok(into_plan(tree, &best))
    }
}

/// The bundles under a size limit; gives up beyond `most` of them.
fn greedy_bundles(tree: &TopicTree, demand: &Demand, limit: u64, most: usize) -> Vec<Bundle> {
    let splits = |node: NodeId| tree.bytes(node) > limit && !tree.is_leaf(node);
    if !splits(NodeId::ROOT) {
        return vec![Bundle::new(None, vec![Item::whole(tree, demand, NodeId::ROOT)])];
    }
    let mut bundles = Vec::new();
    let mut open = vec![NodeId::ROOT];
    while let Some(node) = open.pop().filter(|_| bundles.len() <= most) {
        let (split, mut whole): (Vec<Item>, Vec<Item>) =
            items_of(tree, demand, node).into_iter().partition(|item| item.inner().is_some_and(splits));
        open.extend(split.iter().map(|item| item.part.node));
        whole.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.part.cmp(&b.part)));
        // Bundles with room left, by number; the first that fits is looked for among a few.
        let mut roomy: Vec<(f64, usize)> = Vec::new();
        let mut lists: Vec<Vec<Item>> = Vec::new();
        for item in whole {
            match roomy.iter_mut().find(|(bytes, _)| bytes.to_owned() + item.bytes <= limit as f64) {
                Some((bytes, at)) => {
                    *bytes += item.bytes;
                    lists[*at].push(item);
                }
                None => {
                    if roomy.len() == ROOMY_MAX {
                        roomy.remove(0);
                    }
                    roomy.push((item.bytes, lists.len()));
                    lists.push(vec![item]);
                }
            }
        }
        bundles.extend(lists.into_iter().map(|items| Bundle::new(Some(node), items)));
    }
    bundles
}

/// Bundles kept open while siblings are clustered.
const ROOMY_MAX: usize = 24;

/// Which cuts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// A node is cut off where what lies below it and is not cut off yet reaches a limit; the limit by
    /// binary search.
    Heaviest,
    /// One cut after another, each where it saves the demand most bytes.
    BestGain,
}

/// Cut points: a store is a subtree less the deeper cuts.
#[derive(Clone, Copy, Debug)]
pub struct CutPoints {
    /// Which cuts are made.
    pub cuts: Cuts,
}

impl Planner for CutPoints {
    fn name(&self) -> &'static str {
        match self.cuts {
            Cuts::Heaviest => "cut-heaviest",
            Cuts::BestGain => "cut-best",
        }
    }

    fn plan(&self, tree: &TopicTree, demand: &Demand, budget: &Budget) -> Result<Plan, Error> {
        check_budget(budget)?;
        if tree.is_empty() {
            return Ok(Plan::of(tree, Vec::new()));
        }
        let mut cuts = match self.cuts {
            Cuts::Heaviest => heaviest_cuts(tree, budget.stores_max as usize),
            Cuts::BestGain => best_cuts(tree, demand, budget.stores_max as usize),
        };
        // The root's store holds what no cut took; it may be nothing.
        cuts.push(NodeId::ROOT);
        Ok(Plan::of(tree, cuts.into_iter().map(|node| vec![Part { node, extent: Extent::Rest }]).collect()))
    }
}

fn heaviest_cuts(tree: &TopicTree, stores_max: usize) -> Vec<NodeId> {
    let cuts_at = |limit: u64| {
        let mut rest: Vec<u64> = tree.nodes().map(|node| own_bytes(tree, node)).collect();
        let mut topics: Vec<bool> = tree.nodes().map(|node| tree.row(node).is_some()).collect();
        let mut cuts = Vec::new();
        for node in tree.nodes().rev().filter(|node| *node != NodeId::ROOT) {
            if rest[node.at()] >= limit {
                cuts.push(node);
            } else {
                rest[tree.parent(node).at()] += rest[node.at()];
                topics[tree.parent(node).at()] |= topics[node.at()];
            }
        }
        // The root's store may hold topics without bytes only.
        let stores = cuts.len() + usize::from(topics[0]);
        (cuts, stores)
    };
    let (mut low, mut high) = (0, tree.bytes(NodeId::ROOT) + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if cuts_at(middle).1 <= stores_max { high = middle } else { low = middle }
    }
    cuts_at(high).0
}

fn own_bytes(tree: &TopicTree, node: NodeId) -> u64 {
    tree.row(node).map_or(0, |row| tree.row_bytes(row))
}

/// What lies below every node and is not cut off.
struct Rests {
    weight: Vec<f64>,
    bytes: Vec<f64>,
    cut: Vec<bool>,
}

/// A cut and what it saves.
#[derive(Clone, Copy, PartialEq)]
struct Gain {
    bytes: f64,
    node: NodeId,
    store: NodeId,
}

impl Eq for Gain {}
impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Gain) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Gain {
    fn cmp(&self, other: &Gain) -> std::cmp::Ordering {
        self.bytes.total_cmp(&other.bytes).then(other.node.cmp(&self.node)).then(other.store.cmp(&self.store))
    }
}

fn best_cuts(tree: &TopicTree, demand: &Demand, stores_max: usize) -> Vec<NodeId> {
    let mut rests = Rests {
        weight: tree.nodes().map(|node| demand.all(node)).collect(),
        bytes: tree.nodes().map(|node| tree.bytes(node) as f64).collect(),
        cut: vec![false; tree.len()],
    };
    let mut gains: BinaryHeap<Gain> = best_cut(tree, &rests, NodeId::ROOT).into_iter().collect();
    let mut cuts = Vec::new();
    while cuts.len() + 1 < stores_max {
        let Some(Gain { node, store, .. }) = gains.pop() else {
            break;
        };
        let (weight, bytes) = (rests.weight[node.at()], rests.bytes[node.at()]);
        let mut above = node;
        while above != store {
            above = tree.parent(above);
            rests.weight[above.at()] -= weight;
            rests.bytes[above.at()] -= bytes;
        }
        rests.cut[node.at()] = true;
        cuts.push(node);
        gains.extend(best_cut(tree, &rests, store));
        gains.extend(best_cut(tree, &rests, node));
    }
    cuts
}

/// The best cut inside the store that begins at a node.
fn best_cut(tree: &TopicTree, rests: &Rests, store: NodeId) -> Option<Gain> {
    let (weight, bytes) = (rests.weight[store.at()], rests.bytes[store.at()]);
    let mut best: Option<Gain> = None;
    let mut node = NodeId(store.0 + 1);
    while node < tree.end(store) {
        if rests.cut[node.at()] {
            node = tree.end(node);
            continue;
        }
        let (weight_cut, bytes_cut) = (rests.weight[node.at()], rests.bytes[node.at()]);
        let gain = weight_cut * (bytes - bytes_cut) + (weight - weight_cut) * bytes_cut;
        if gain > best.map_or(0.0, |best| best.bytes) {
            best = Some(Gain { bytes: gain, node, store });
        }
        node = NodeId(node.0 + 1);
    }
    best
}
