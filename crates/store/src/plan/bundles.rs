//! Bundles in the making: what planners build and `polish` works on.

use super::pack::Item;
use super::{NodeId, Part, Plan, TopicTree};

/// Siblings that share a store.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    /// The split node they come from; none for the whole tree in one store.
    pub scope: Option<NodeId>,
    pub items: Vec<Item>,
    /// How often it is read.
    pub weight: f64,
    pub bytes: f64,
}

impl Bundle {
    pub fn new(scope: Option<NodeId>, items: Vec<Item>) -> Bundle {
        let weight = items.iter().map(|item| item.weight).sum();
        let bytes = items.iter().map(|item| item.bytes).sum();
        Bundle { scope, items, weight, bytes }
    }

    /// Bytes read from it by all its readers.
    pub fn cost(&self) -> f64 {
        self.weight * self.bytes
    }

    /// What merging two bundles adds to their cost.
    pub fn strain(&self, other: &Bundle) -> f64 {
        self.weight * other.bytes + other.weight * self.bytes
    }
}

/// The scope of a node that is whole: its parent, none for the root.
pub(super) fn scope_of(tree: &TopicTree, node: NodeId) -> Option<NodeId> {
    (node != NodeId::ROOT).then(|| tree.parent(node))
}

pub(super) fn into_plan(tree: &TopicTree, bundles: &[Bundle]) -> Plan {
    let parts = |bundle: &Bundle| -> Vec<Part> { bundle.items.iter().map(|item| item.part).collect() };
    Plan::of(tree, bundles.iter().map(parts).collect())
}
