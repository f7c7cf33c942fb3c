//! The topic tree and dictionary of one stream.
//!
//! ```text
//!   root ─┬─ ais ─┬─ ship ─┬─ 219 ── 219000123   node = parent, level, first child, next sibling, topic
//!         │       │        └─ 220 ── …
//!         │       └─ coast ── …                  ais/ship and ais/coast are partitions
//!         └─ log                                 and so is log, once it is a topic itself
//! ```
//!
//! Every node has a topic at it or below it. Children are found through one hash table over (parent, level), so an
//! insert and a look-up cost the topic's levels, whatever the tree's size. Topic ids come ascending, possibly with
//! gaps: topics lie in that order, and each run of consecutive ids remembers where it begins. Nothing is ever
//! removed: a stream's ids are never reused.
//!
//! Measured at a million topics (`examples/names.rs`): 44 bytes a topic of 35 whose levels repeat, 101 a topic of 31
//! that brings a level of its own and two nodes. A node takes 24 bytes, a topic 8, the tables 10 a node and a level.

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::Result;
use crate::error::{Error, Shown, Text};
use crate::filter::Filter;
use crate::grow::{Index, NONE, Paged, SHARDS_LARGE, mix};
use crate::levels::{LevelId, Levels, TEXT_BYTES_MAX};
use crate::topic::{LEVELS_MAX, PARTITION_LEVELS, Topic, TopicId, is_reserved};
use crate::walk::{TopicWalk, Walked};

/// The most topics `topics-max` may be set to: with every level of each new, nodes are still counted in 32 bits.
pub const TOPICS_LIMIT: u32 = 1 << 26;
/// The tree may have this many nodes a topic of `topics-max`: real trees have 1.0 to 1.6; only an attack has 32.
pub const NODES_PER_TOPIC_MAX: u32 = 8;
/// New level text a topic of `topics-max`, on average; real streams need 5 to 40 bytes.
pub const TEXT_BYTES_PER_TOPIC_MAX: u64 = 256;
/// However small `topics-max`, the tree may have this many nodes and this much text: a few topics of the largest kind.
const NODES_MAX_MIN: u32 = 4_096;
const TEXT_BYTES_MAX_MIN: u64 = 4 << 20;

const _: () = assert!((TOPICS_LIMIT as u64) * (LEVELS_MAX as u64) < NONE as u64);

/// A node of the topic tree: the root, a topic, or a prefix of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node above all first levels.
    pub const ROOT: NodeId = NodeId(0);
}

/// A partition's number: 0, 1, 2 … in the order in which partitions came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

#[derive(Debug)]
struct Node {
    parent: u32,
    level: LevelId,
    first_child: u32,
    next_sibling: u32,
    topic: u32,
    depth: u8,
}

#[derive(Debug)]
struct TopicEntry {
    node: u32,
    partition: u32,
}

/// Consecutive ids from `first_id` lie one behind the other from place `first`.
#[derive(Debug)]
struct Run {
    first_id: u32,
    first: u32,
}

/// The names of a stream's topics.
#[derive(Debug)]
pub struct Names {
    topics_max: u32,
    hash_seed: u64,
    levels: Levels,
    nodes: Paged<Node>,
    children: Index,
    topics: Paged<TopicEntry>,
    runs: Vec<Run>,
    /// The node of each partition, and the way back.
    partitions: Paged<u32>,
    partition_index: Index,
    first_levels: u32,
    reserved_topics: u32,
}

impl Names {
    /// A tree without topics that takes up to `topics_max`. The seed keeps names from being chosen to collide.
    pub fn new(topics_max: u32, hash_seed: u64) -> Names {
        assert!(topics_max <= TOPICS_LIMIT, "topics_max {topics_max} is above {TOPICS_LIMIT}");
        let mut nodes = Paged::new();
        nodes.push(Node {
            parent: NONE,
            level: LevelId(NONE),
            first_child: NONE,
            next_sibling: NONE,
            topic: NONE,
            depth: 0,
        });
        Names {
            topics_max,
            hash_seed,
            levels: Levels::new(FixedState::with_seed(hash_seed)),
            nodes,
            children: Index::new(SHARDS_LARGE),
            topics: Paged::new(),
            runs: Vec::new(),
            partitions: Paged::new(),
            partition_index: Index::new(SHARDS_LARGE),
            first_levels: 0,
            reserved_topics: 0,
        }
    }

    /// Names a topic. New ids come ascending; the same id and name again is fine and changes nothing. What is refused
    /// changes nothing either.
    pub fn insert(&mut self, id: TopicId, name: &str) -> Result<()> {
        let topic = Topic::new(name)?;
        let (mut node, found) = self.locate(topic);
        let missing = topic.level_count() - found;
        let known = self.nodes[node].topic;
        if missing == 0 && known == id.0 {
            return Ok(());
        }
        let value = Shown::new(name);
        if missing == 0 && known != NONE {
            return Err(Error::NameTaken { what: Text::Topic, id: id.0, value, known });
        }
        self.check_new(id, topic, missing)?;

        for level in topic.levels().skip(found) {
            node = self.add_child(node, level);
        }
        self.nodes[node].topic = id.0;
        let partition = self.find_or_add_partition(node);
        let place = self.topics.push(TopicEntry { node, partition });
        let follows = self.runs.last().is_some_and(|run| id.0 - run.first_id == place - run.first);
        if !follows {
            self.runs.push(Run { first_id: id.0, first: place });
        }
        self.reserved_topics += u32::from(is_reserved(name));
        Ok(())
    }

    /// Whether a topic that has no id yet may get this one, and has room.
    fn check_new(&self, id: TopicId, topic: Topic<'_>, missing: usize) -> Result<()> {
        let value = Shown::new(topic.as_str());
        if let Some(known) = self.name(id) {
            return Err(Error::IdTaken { what: Text::Topic, id: id.0, value, known: Shown::new(&known) });
        }
        match self.last_id() {
            Some(last) if id <= last => {
                return Err(Error::IdOrder { id: id.0, value, last: last.0 });
            }
            last if id.0 == NONE => {
                return Err(Error::IdOrder { id: id.0, value, last: last.map_or(0, |last| last.0) });
            }
            _ => {}
        }
        let nodes_max = (self.topics_max * NODES_PER_TOPIC_MAX).max(NODES_MAX_MIN);
        let text_max =
            (u64::from(self.topics_max) * TEXT_BYTES_PER_TOPIC_MAX).clamp(TEXT_BYTES_MAX_MIN, TEXT_BYTES_MAX);
        let ceilings = [
            (u64::from(self.topics.len()) + 1, u64::from(self.topics_max), "topics (topics-max)"),
            (
                u64::from(self.nodes.len()) + missing as u64,
                u64::from(nodes_max),
                "levels in its topic tree (8 × topics-max)",
            ),
            (
                self.levels.text_bytes() + topic.as_str().len() as u64,
                text_max,
                "bytes of level text (256 × topics-max)",
            ),
        ];
        match ceilings.into_iter().find(|(would_be, max, _)| would_be > max) {
            Some((_, max, of)) => Err(Error::NamesFull { what: Text::Topic, value, max, of }),
            None => Ok(()),
        }
    }

    /// The deepest node on the way to a topic, and how many of its levels that is.
    fn locate(&self, topic: Topic<'_>) -> (u32, usize) {
        let mut node = NodeId::ROOT;
        for (depth, level) in topic.levels().enumerate() {
            match self.child(node, level) {
                Some(child) => node = child,
                None => return (node.0, depth),
            }
        }
        (node.0, topic.level_count())
    }

    fn add_child(&mut self, parent: u32, level: &str) -> u32 {
        let level = self.levels.find_or_add(level);
        let Node { first_child: next_sibling, depth, .. } = self.nodes[parent];
        let depth = depth + 1;
        let child = self.nodes.push(Node { parent, level, first_child: NONE, next_sibling, topic: NONE, depth });
        self.nodes[parent].first_child = child;
        let Names { nodes, children, .. } = self;
        children.insert(child_hash(parent, level), child, |number| {
            let node = &nodes[number];
            child_hash(node.parent, node.level)
        });
        self.first_levels += u32::from(depth == 1);
        child
    }

    fn find_or_add_partition(&mut self, mut node: u32) -> u32 {
        while usize::from(self.nodes[node].depth) > PARTITION_LEVELS {
            node = self.nodes[node].parent;
        }
        if let Some(PartitionId(known)) = self.partition_at(NodeId(node)) {
            return known;
        }
        let partition = self.partitions.push(node);
        let Names { partitions, partition_index, .. } = self;
        partition_index.insert(node_hash(node), partition, |number| node_hash(partitions[number]));
        partition
    }

    // Topics.

    /// The id of a topic.
    pub fn get(&self, name: &str) -> Option<TopicId> {
        self.topic_at(self.find(name)?)
    }

    /// The name of a topic.
    pub fn name(&self, id: TopicId) -> Option<String> {
        let mut name = String::new();
        self.name_into(id, &mut name).then_some(name)
    }

    /// Puts a topic's name into a buffer, in place of what is there; false, and an empty buffer, if there is none.
    pub fn name_into(&self, id: TopicId, name: &mut String) -> bool {
        name.clear();
        match self.node(id) {
            Some(node) => {
                self.path_into(node, name);
                true
            }
            None => false,
        }
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.topics.len() as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The highest id given.
    pub fn last_id(&self) -> Option<TopicId> {
        let run = self.runs.last()?;
        Some(TopicId(run.first_id + (self.topics.len() - 1 - run.first)))
    }

    /// All topics with an id above `after` (of none: all) in the order of their ids.
    pub fn topics_after(&self, after: Option<TopicId>) -> impl Iterator<Item = TopicId> {
        let first = match after {
            Some(TopicId(after)) => {
                let run = self.runs.partition_point(|run| run.first_id <= after);
                let end = self.runs.get(run).map_or(self.topics.len(), |next| next.first);
                run.checked_sub(1).map_or(0, |run| {
                    self.runs[run].first.saturating_add(after - self.runs[run].first_id).saturating_add(1).min(end)
                })
            }
            None => 0,
        };
        (first..self.topics.len()).map(|place| TopicId(self.nodes[self.topics[place].node].topic))
    }

    /// How many topics belong to the bus (`$`).
    pub fn reserved_topics(&self) -> usize {
        self.reserved_topics as usize
    }

    /// Calls with every topic a filter matches, in no particular order. Only nodes are looked at that the filter's
    /// levels lead to; to stop and go on use a [`TopicWalk`].
    pub fn visit(&self, filter: &Filter, mut each: impl FnMut(TopicId)) {
        let mut walk = TopicWalk::new(filter);
        let mut steps = u64::MAX;
        while let Walked::Topic(topic) = walk.advance(self, &mut steps) {
            each(topic);
        }
    }

    // Partitions.

    /// The partition of a topic.
    pub fn partition_of(&self, id: TopicId) -> Option<PartitionId> {
        Some(PartitionId(self.topics[self.place(id)?].partition))
    }

    /// The node of a partition: a node of two levels with all below it, or a topic of one level alone.
    pub fn partition_node(&self, PartitionId(partition): PartitionId) -> Option<NodeId> {
        self.partitions.get(partition).copied().map(NodeId)
    }

    /// The partition whose node this is. A node of one level has none until it is a topic.
    pub fn partition_at(&self, NodeId(node): NodeId) -> Option<PartitionId> {
        self.partition_index.find(node_hash(node), |number| self.partitions[number] == node).map(PartitionId)
    }

    /// How many partitions there are: the next one's number.
    pub fn partition_count(&self) -> u32 {
        self.partitions.len()
    }

    // Nodes.

    /// The node of a topic.
    pub fn node(&self, id: TopicId) -> Option<NodeId> {
        Some(NodeId(self.topics[self.place(id)?].node))
    }

    /// The node of a topic or a prefix of levels.
    pub fn find(&self, path: &str) -> Option<NodeId> {
        crate::topic::levels(path).try_fold(NodeId::ROOT, |node, level| self.child(node, level))
    }

    /// The topic at a node; a mere prefix has none.
    pub fn topic_at(&self, NodeId(node): NodeId) -> Option<TopicId> {
        let topic = self.nodes[node].topic;
        (topic != NONE).then_some(TopicId(topic))
    }

    /// The node one level up; the root has none.
    pub fn parent(&self, NodeId(node): NodeId) -> Option<NodeId> {
        let parent = self.nodes[node].parent;
        (parent != NONE).then_some(NodeId(parent))
    }

    /// How many levels a node has: 0 the root, 1 a first level.
    pub fn level_count(&self, NodeId(node): NodeId) -> usize {
        usize::from(self.nodes[node].depth)
    }

    /// The last level of a node; the root has none.
    pub fn level(&self, node: NodeId) -> &str {
        assert!(node != NodeId::ROOT, "the root has no level");
        self.levels.text(self.nodes[node.0].level)
    }

    /// The child with this level.
    pub fn child(&self, node: NodeId, level: &str) -> Option<NodeId> {
        self.child_by_level(node, self.levels.find(level)?)
    }

    /// The children of a node, the youngest first.
    pub fn children(&self, NodeId(node): NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.nodes[node].first_child;
        let after = |&node: &u32| Some(self.nodes[node].next_sibling).filter(|&next| next != NONE);
        std::iter::successors(Some(first).filter(|&first| first != NONE), after).map(NodeId)
    }

    /// Appends a node's levels, with slashes between, to a buffer.
    pub fn path_into(&self, NodeId(mut node): NodeId, path: &mut String) {
        let mut levels: SmallVec<[LevelId; LEVELS_MAX]> = SmallVec::new();
        while node != NodeId::ROOT.0 {
            let Node { level, parent, .. } = self.nodes[node];
            levels.push(level);
            node = parent;
        }
        for (index, &level) in levels.iter().rev().enumerate() {
            if index > 0 {
                path.push('/');
            }
            path.push_str(self.levels.text(level));
        }
    }

    /// The bytes of memory this takes, from the capacities of all its parts.
    pub fn memory_bytes(&self) -> usize {
        self.levels.memory_bytes()
            + self.nodes.memory_bytes()
            + self.children.memory_bytes()
            + self.topics.memory_bytes()
            + self.runs.capacity() * size_of::<Run>()
            + self.partitions.memory_bytes()
            + self.partition_index.memory_bytes()
            + size_of::<Names>()
    }

    /// The seed of its hash tables, for tables that hold the same names.
    pub(crate) fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    pub(crate) fn first_levels(&self) -> u32 {
        self.first_levels
    }

    pub(crate) fn level_id(&self, level: &str) -> Option<LevelId> {
        self.levels.find(level)
    }

    pub(crate) fn levels_len(&self) -> u32 {
        self.levels.len()
    }

    pub(crate) fn child_by_level(&self, NodeId(node): NodeId, level: LevelId) -> Option<NodeId> {
        let is = |number: u32| self.nodes[number].parent == node && self.nodes[number].level == level;
        self.children.find(child_hash(node, level), is).map(NodeId)
    }

    pub(crate) fn first_child(&self, NodeId(node): NodeId) -> Option<NodeId> {
        Some(NodeId(self.nodes[node].first_child)).filter(|child| child.0 != NONE)
    }

    pub(crate) fn next_sibling(&self, NodeId(node): NodeId) -> Option<NodeId> {
        Some(NodeId(self.nodes[node].next_sibling)).filter(|next| next.0 != NONE)
    }

    /// Where a topic lies: ids are ascending, so its run tells.
    fn place(&self, TopicId(id): TopicId) -> Option<u32> {
        let last = self.runs.last()?;
        let (run, end) = if id >= last.first_id {
            (last, self.topics.len())
        } else {
            let next = self.runs.partition_point(|run| run.first_id <= id);
            (self.runs.get(next.checked_sub(1)?)?, self.runs[next].first)
        };
        run.first.checked_add(id - run.first_id).filter(|&place| place < end)
    }
}

// Numbers from inside need no seed: only names can be chosen from outside.
fn child_hash(parent: u32, level: LevelId) -> u64 {
    mix(u64::from(parent) << 32 | u64::from(level.0), 1)
}

fn node_hash(node: u32) -> u64 {
    mix(u64::from(node), 2)
}

#[cfg(test)]
mod tests;
