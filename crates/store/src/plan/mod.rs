//! Split plans: which topic of a span goes into which subtree store.
//!
//! ```text
//!  volumes ──▶ TopicTree ──┐
//!  (sorted)                ├──▶ Planner ──▶ Plan ──▶ Lens
//!  what is read ──▶ Demand ┘      ▲
//!                               Budget
//! ```
//!
//! In a plan a node of the topic tree is either whole in one store, or split among its children and its
//! own messages; a store is a bundle of siblings. From this follows what makes plans easy to judge: a
//! subtree lies inside one store, or is made of whole stores. Reading a split subtree ignores nothing;
//! reading anything else ignores the rest of one store.
//!
//! Everything here is plain computation and deterministic: the same volumes give the same plan.

mod adaptive;
mod bundles;
mod demand;
mod layout;
mod lens;
mod optimum;
mod pack;
mod polish;
mod rivals;
mod tree;
mod worst;

pub use adaptive::Adaptive;
pub use demand::Demand;
pub use layout::{Extent, Part, Plan, Store, StoreId};
pub use lens::{Lens, Read, Reads, Worst};
pub use optimum::{Optimum, wasted_sum_bound};
pub use rivals::{CutPoints, Cuts, Greedy, PerTopic, PrefixRule};
pub use tree::{NodeId, TopicTree, Volume};

/// Longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 1024;
/// Most levels of a topic. Walks up and down the tree are bounded by it, so they may recurse.
pub const TOPIC_LEVELS_MAX: usize = 32;
/// Most topics of one tree: rows and nodes are numbered with 32 bits, and a topic makes at most
/// [`TOPIC_LEVELS_MAX`] nodes.
pub const TOPICS_MAX: usize = (u32::MAX as usize - 1) / TOPIC_LEVELS_MAX;

/// What a planner tries to make small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Aim {
    /// The sum, over everything that is read, of the bytes that must be ignored.
    #[default]
    WastedSum,
    /// The most bytes that any one read must ignore.
    WastedWorst,
    /// The worst ratio of bytes read to bytes useful.
    RatioWorst,
}

/// What a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most stores. Always kept by planners that have a choice; a rule makes as many as it makes.
    pub stores_max: u32,
    /// Stores below this are joined with their siblings where there are any.
    pub store_bytes_min: u64,
    /// No store of more than one topic is larger, unless `stores_max` asks for it; then the limit is
    /// raised as little as needed.
    pub store_bytes_max: u64,
}

impl Budget {
    /// A number of stores, of any size.
    #[must_use]
    pub fn stores(stores_max: u32) -> Budget {
        Budget { stores_max, store_bytes_min: 0, store_bytes_max: u64::MAX }
    }
}

/// Anything that makes a plan out of a topic tree.
pub trait Planner {
    /// The name in tables and on the command line.
    fn name(&self) -> &'static str;

    /// Makes the plan.
    ///
    /// # Errors
    /// A budget that can't be meant, or a tree that is too big for this planner.
    fn plan(&self, tree: &TopicTree, demand: &Demand, budget: &Budget) -> Result<Plan, Error>;
}

/// Why there is no tree, no demand or no plan.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A topic outside what topics may be.
    #[error("row {row}: topic {topic:?}: {why}")]
    Topic {
        /// Place in the input, from 0.
        row: usize,
        /// The topic, as text.
        topic: String,
        /// What is wrong and what would be right.
        why: &'static str,
    },
    /// The volumes are not in ascending order of topic bytes, each topic once.
    #[error("row {row}: topic {topic:?} does not follow the row before it in byte order")]
    Order {
        /// Place in the input, from 0.
        row: usize,
        /// The topic, as text.
        topic: String,
    },
    /// More topics than a tree can number.
    #[error("{topics} topics, a tree holds at most {TOPICS_MAX}")]
    TooManyTopics {
        /// How many there were.
        topics: usize,
    },
    /// The volumes add up to more than can be counted.
    #[error("row {row}: the volumes add up to more than 2^63 bytes or messages")]
    TooManyBytes {
        /// The row that passed the limit, from 0.
        row: usize,
    },
    /// A budget of no stores, or with its limits crossed.
    #[error(
        "a budget of {stores_max} stores of {store_bytes_min} to {store_bytes_max} bytes: wanted are 1 store or more and a minimum up to the maximum"
    )]
    Budget {
        /// The budget's number of stores.
        stores_max: u32,
        /// Its smallest store.
        store_bytes_min: u64,
        /// Its largest store.
        store_bytes_max: u64,
    },
    /// A filter that is none.
    #[error("filter {filter:?}: {why}")]
    Filter {
        /// The filter, as text.
        filter: String,
        /// What is wrong and what would be right.
        why: &'static str,
    },
    /// The optimum is searched exhaustively, on small trees only.
    #[error("{what} is {got}, the optimum is searched up to {most}")]
    TooBigForOptimum {
        /// What is too big.
        what: &'static str,
        /// How big it is.
        got: u64,
        /// What can be done.
        most: u64,
    },
}

/// Refuses budgets that can't be meant.
fn check_budget(budget: &Budget) -> Result<(), Error> {
    if budget.stores_max == 0 || budget.store_bytes_min > budget.store_bytes_max {
        let Budget { stores_max, store_bytes_min, store_bytes_max } = *budget;
        return Err(Error::Budget { stores_max, store_bytes_min, store_bytes_max });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
