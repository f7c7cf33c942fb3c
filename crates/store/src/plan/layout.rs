//! A plan: stores, the parts of the tree each one holds, and the store of every topic.

use super::{NodeId, TopicTree};
use std::ops::Range;

/// The number of a store in its plan, from 0, in tree order of each store's first topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u32);

/// How much of a node's subtree a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extent {
    /// All of it.
    Subtree,
    /// Only the messages of the node's own topic; what lies below it is elsewhere.
    Own,
    /// What the parts below it have not taken. Only cut points make such stores.
    Rest,
}

/// A piece of the tree in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// Where the piece begins.
    pub node: NodeId,
    /// How far it goes.
    pub extent: Extent,
}

/// What one store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    parts: Range<usize>,
    /// Number of topics.
    pub topics: u32,
    /// Their messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which topic goes where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    stores: Vec<Store>,
    parts: Vec<Part>,
    store_of: Vec<StoreId>,
}

impl Plan {
    /// Makes the plan of bundles, each a list of parts that together cover every topic once. Bundles
    /// without topics make no store.
    ///
    /// A topic in several parts goes to the deepest. What planners make is held to more by [`Plan::check`].
    ///
    /// # Panics
    /// If a topic lies in no part.
    #[must_use]
    pub fn of(tree: &TopicTree, mut bundles: Vec<Vec<Part>>) -> Plan {
        let mut store_of = vec![NOWHERE; tree.rows()];
        let mut all: Vec<(Part, u32)> = Vec::new();
        for (number, bundle) in bundles.iter_mut().enumerate() {
            bundle.sort_unstable();
            all.extend(bundle.iter().map(|part| (*part, number as u32)));
        }
        // Nodes stand in preorder: a deeper part comes later and takes its rows from the one above.
        all.sort_unstable();
        for (part, number) in all {
            let own;
            let rows = match part.extent {
                Extent::Own => {
                    own = [tree.row(part.node).map_or(u32::MAX, |row| row as u32)];
                    &own[..]
                }
                Extent::Subtree | Extent::Rest => tree.rows_below(part.node),
            };
            for row in rows {
                store_of[*row as usize] = StoreId(number);
            }
        }
        assert!(store_of.iter().all(|store| *store != NOWHERE), "a plan covers every topic");
        Plan::number(tree, &bundles, store_of)
    }

    /// Numbers the stores by their first topic and adds them up.
    fn number(tree: &TopicTree, bundles: &[Vec<Part>], mut store_of: Vec<StoreId>) -> Plan {
        let mut number = vec![NOWHERE; bundles.len()];
        let mut plan = Plan { stores: Vec::new(), parts: Vec::new(), store_of: Vec::new() };
        for row in tree.rows_below(NodeId::ROOT) {
            let row = *row as usize;
            let bundle = store_of[row].0 as usize;
            if number[bundle] == NOWHERE {
                number[bundle] = StoreId(plan.stores.len() as u32);
                let from = plan.parts.len();
                plan.parts.extend_from_slice(&bundles[bundle]);
                plan.stores.push(Store { parts: from..plan.parts.len(), topics: 0, messages: 0, bytes: 0 });
            }
            store_of[row] = number[bundle];
            let store = &mut plan.stores[number[bundle].0 as usize];
            store.topics += 1;
            store.messages += tree.row_messages(row);
            store.bytes += tree.row_bytes(row);
        }
        plan.store_of = store_of;
        plan
    }

    /// The stores, by number.
    #[must_use]
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// What a store is made of, in tree order.
    #[must_use]
    pub fn parts(&self, store: StoreId) -> &[Part] {
        &self.parts[self.stores[store.0 as usize].parts.clone()]
    }

    /// The store of a row's topic.
    #[must_use]
    pub fn store_of(&self, row: usize) -> StoreId {
        self.store_of[row]
    }

    /// The stores that hold something of a subtree, ascending.
    #[must_use]
    pub fn stores_below(&self, tree: &TopicTree, node: NodeId) -> Vec<StoreId> {
        let mut stores: Vec<StoreId> = tree.rows_below(node).iter().map(|row| self.store_of(*row as usize)).collect();
        stores.sort_unstable();
        stores.dedup();
        stores
    }

    /// Says what keeps this from being a plan of bundles: every topic in exactly one part, the parts of
    /// a store siblings, none of them a rest.
    ///
    /// # Errors
    /// The first thing found, in words.
    pub fn check(&self, tree: &TopicTree) -> Result<(), String> {
        let mut times = vec![0u32; tree.rows()];
        for (number, store) in self.stores.iter().enumerate() {
            let parts = self.parts(StoreId(number as u32));
            let mut bytes = 0;
            for part in parts {
                if part.extent == Extent::Rest {
                    return Err(format!("store {number} holds a rest, which is no sibling"));
                }
                if scope(tree, *part) != scope(tree, parts[0]) {
                    return Err(format!("store {number} holds parts that are no siblings"));
                }
                let mut row_in = |row: usize| {
                    times[row] += 1;
                    bytes += tree.row_bytes(row);
                    self.store_of(row) == StoreId(number as u32)
                };
                let agreed = match part.extent {
                    Extent::Own => tree.row(part.node).is_some_and(&mut row_in),
                    _ => tree.rows_below(part.node).iter().all(|row| row_in(*row as usize)),
                };
                if !agreed {
                    return Err(format!("store {number} and the list of topics disagree"));
                }
            }
            if bytes != store.bytes {
                return Err(format!("store {number} counts {} bytes, its topics {bytes}", store.bytes));
            }
        }
        match times.iter().position(|times| *times != 1) {
            Some(row) => Err(format!("the topic of row {row} lies in {} parts", times[row])),
            None => Ok(()),
        }
    }
}

const NOWHERE: StoreId = StoreId(u32::MAX);

/// The node whose split made the part; the root, unsplit, has none.
fn scope(tree: &TopicTree, part: Part) -> Option<NodeId> {
    match part.extent {
        Extent::Own => Some(part.node),
        _ => (part.node != NodeId::ROOT).then(|| tree.parent(part.node)),
    }
}
