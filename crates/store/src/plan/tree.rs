//! The topic tree: every level of every topic is a node, with what lies at and below it.
//!
//! Nodes stand in preorder, children in byte order of their level, so a subtree is a range of nodes
//! and, in tree order, a range of topics:
//!
//! ```text
//!   0 (root) ── 1 a ── 2 a/b      node 1 covers nodes 1..4, topics 0..2
//!            │      └─ 3 a/c
//!            └─ 4 a-b             byte order would put a-b between a and a/b
//! ```
//!
//! Tree order compares level by level, which is byte order with the slash below every other byte:
//! topics hold no control characters, so nothing else sorts there.

use super::{Error, TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX, TOPICS_MAX};
use std::cmp::Ordering;

/// How much of the stream one topic is.
#[derive(Clone, Copy, Debug)]
pub struct Volume<'a> {
    /// The topic.
    pub topic: &'a [u8],
    /// Its messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A node of the tree; 0 is the root, which stands for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node above all topics.
    pub const ROOT: NodeId = NodeId(0);

    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

const NONE: u32 = u32::MAX;
/// Sums of volumes stay below this, so that differences and sums of two never overflow.
const VOLUME_MAX: u64 = 1 << 63;

#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    /// One past the last node of the subtree.
    end: u32,
    /// The row of the topic that ends here, or NONE.
    row: u32,
    /// First topic of the subtree, in tree order.
    first: u32,
    topics: u32,
    /// The node's name is this much of the topic it was made for.
    name_len: u16,
    depth: u8,
    bytes: u64,
    messages: u64,
}

/// Topics with their volumes, as a tree. Rows are numbered as they were given.
#[derive(Clone, Debug)]
pub struct TopicTree {
    names: Vec<u8>,
    /// Row to where its name starts; one more at the end.
    name_at: Vec<usize>,
    /// Row to (messages, bytes).
    volumes: Vec<(u64, u64)>,
    /// Rows in tree order.
    order: Vec<u32>,
    nodes: Vec<Node>,
}

impl TopicTree {
    /// Builds the tree of volumes that come in ascending byte order of their topics.
    ///
    /// # Errors
    /// A topic that is none, one out of order, or more than can be counted.
    pub fn build<'a>(volumes: impl IntoIterator<Item = Volume<'a>>) -> Result<TopicTree, Error> {
        let mut tree = TopicTree {
            names: Vec::new(),
            name_at: vec![0],
            volumes: Vec::new(),
            order: Vec::new(),
            nodes: Vec::new(),
        };
        let (mut messages, mut bytes) = (0u64, 0u64);
        for (row, volume) in volumes.into_iter().enumerate() {
            TopicTree::check(volume.topic).map_err(|why| Error::Topic { row, topic: text(volume.topic), why })?;
            if row > 0 && tree.topic(row - 1) >= volume.topic {
                return Err(Error::Order { row, topic: text(volume.topic) });
            }
            messages = messages.saturating_add(volume.messages);
            bytes = bytes.saturating_add(volume.bytes);
            if messages >= VOLUME_MAX || bytes >= VOLUME_MAX {
                return Err(Error::TooManyBytes { row });
            }
            tree.names.extend_from_slice(volume.topic);
            tree.name_at.push(tree.names.len());
            tree.volumes.push((volume.messages, volume.bytes));
        }
        if tree.volumes.len() > TOPICS_MAX {
            return Err(Error::TooManyTopics { topics: tree.volumes.len() });
        }
        tree.sort_rows();
        tree.grow();
        Ok(tree)
    }

    /// Whether these bytes can stand in a tree.
    ///
    /// # Errors
    /// What a topic is, where these bytes are none.
    pub fn check(topic: &[u8]) -> Result<(), &'static str> {
        if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX {
            Err("a topic has 1 to 1024 bytes")
        } else if topic.iter().any(|b| *b < 0x20 || *b == 0x7f) {
            Err("a topic holds no control character")
        } else if level_ends(topic).count() > TOPIC_LEVELS_MAX {
            Err("a topic has at most 32 levels")
        } else {
            Ok(())
        }
    }

    fn sort_rows(&mut self) {
        let mut order: Vec<u32> = (0..self.volumes.len() as u32).collect();
        order.sort_by(|a, b| tree_order(self.topic(*a as usize), self.topic(*b as usize)));
        self.order = order;
    }

    /// Makes the nodes, one topic after another; `path` holds the open nodes, root first.
    fn grow(&mut self) {
        let mut nodes = vec![Node {
            parent: 0,
            end: 0,
            row: NONE,
            first: 0,
            topics: 0,
            name_len: 0,
            depth: 0,
            bytes: 0,
            messages: 0,
        }];
        let mut path: Vec<u32> = vec![0];
        let mut before: &[u8] = &[];
        for (place, &row) in self.order.iter().enumerate() {
            let topic = self.topic(row as usize);
            let shared = if place == 0 { 0 } else { levels_shared(before, topic) };
            close(&mut nodes, &mut path, shared + 1);
            for (depth, end) in level_ends(topic).enumerate().skip(shared) {
                let parent = path[depth];
                path.push(nodes.len() as u32);
                nodes.push(Node {
                    parent,
                    end: 0,
                    row: NONE,
                    first: place as u32,
                    topics: 0,
                    name_len: end as u16,
                    depth: depth as u8 + 1,
                    bytes: 0,
                    messages: 0,
                });
            }
            let node = &mut nodes[path[path.len() - 1] as usize];
            node.row = row;
            node.topics += 1;
            (node.messages, node.bytes) = self.volumes[row as usize];
            before = topic;
        }
        close(&mut nodes, &mut path, 0);
        self.nodes = nodes;
    }

    /// Number of topics.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.volumes.len()
    }

    /// Number of nodes, the root among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no topic at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty()
    }

    /// The topic of a row.
    #[must_use]
    pub fn topic(&self, row: usize) -> &[u8] {
        &self.names[self.name_at[row]..self.name_at[row + 1]]
    }

    /// The messages of a row.
    #[must_use]
    pub fn row_messages(&self, row: usize) -> u64 {
        self.volumes[row].0
    }

    /// The bytes of a row.
    #[must_use]
    pub fn row_bytes(&self, row: usize) -> u64 {
        self.volumes[row].1
    }

    /// The node's full name: its levels from the first on. The root's is empty.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &[u8] {
        let node = &self.nodes[node.at()];
        if node.depth == 0 {
            return &[];
        }
        &self.topic(self.order[node.first as usize] as usize)[..node.name_len as usize]
    }

    /// The node's own level, the last part of its name.
    #[must_use]
    pub fn level(&self, node: NodeId) -> &[u8] {
        let name = self.name(node);
        name.iter().rposition(|b| *b == b'/').map_or(name, |slash| &name[slash + 1..])
    }

    /// Levels above and including the node: the root has none.
    #[must_use]
    pub fn depth(&self, node: NodeId) -> usize {
        self.nodes[node.at()].depth as usize
    }

    /// The node above; the root is its own.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> NodeId {
        NodeId(self.nodes[node.at()].parent)
    }

    /// Topics at and below the node.
    #[must_use]
    pub fn topics(&self, node: NodeId) -> u32 {
        self.nodes[node.at()].topics
    }

    /// Bytes at and below the node.
    #[must_use]
    pub fn bytes(&self, node: NodeId) -> u64 {
        self.nodes[node.at()].bytes
    }

    /// Messages at and below the node.
    #[must_use]
    pub fn messages(&self, node: NodeId) -> u64 {
        self.nodes[node.at()].messages
    }

    /// The row of the topic that is the node itself, if messages were published there.
    #[must_use]
    pub fn row(&self, node: NodeId) -> Option<usize> {
        let row = self.nodes[node.at()].row;
        (row != NONE).then_some(row as usize)
    }

    /// Whether nothing lies below the node.
    #[must_use]
    pub fn is_leaf(&self, node: NodeId) -> bool {
        self.end(node).0 == node.0 + 1
    }

    /// One past the last node of the subtree.
    #[must_use]
    pub fn end(&self, node: NodeId) -> NodeId {
        NodeId(self.nodes[node.at()].end)
    }

    /// The rows at and below the node.
    #[must_use]
    pub fn rows_below(&self, node: NodeId) -> &[u32] {
        let node = &self.nodes[node.at()];
        &self.order[node.first as usize..(node.first + node.topics) as usize]
    }

    /// The node's children, in tree order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.end(node).0;
        let mut next = node.0 + 1;
        std::iter::from_fn(move || {
            let child = NodeId(next);
            (next < end).then(|| {
                next = self.end(child).0;
                child
            })
        })
    }

    /// All nodes, every one before what lies below it.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The node of a name; the empty name is the first level if topics start with a slash, never the root.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<NodeId> {
        let place = self.order.partition_point(|row| tree_order(self.topic(*row as usize), name) == Ordering::Less);
        let topic = self.topic(*self.order.get(place)? as usize);
        let levels = level_ends(name).count();
        if levels > TOPIC_LEVELS_MAX || levels_shared(topic, name) < levels {
            return None;
        }
        // That topic opened the node, and every other node that begins with it: one below the other, in a row.
        let top = self.nodes.partition_point(|node| (node.first as usize) < place);
        let node = top + levels - usize::from(self.nodes[top].depth);
        Some(NodeId(node as u32))
    }

    /// The lowest node that covers both.
    pub(super) fn meet(&self, a: NodeId, b: NodeId) -> NodeId {
        let (mut low, high) = (a.max(b), a.min(b));
        while !(high.0 >= low.0 && high.0 < self.end(low).0) {
            low = self.parent(low);
        }
        low
    }
}

/// Ends the open nodes from `keep` on and adds each one's volume to the one above it.
fn close(nodes: &mut [Node], path: &mut Vec<u32>, keep: usize) {
    let end = nodes.len() as u32;
    while path.len() > keep {
        let Some(node) = path.pop() else { break };
        nodes[node as usize].end = end;
        if let Some(above) = path.last() {
            let Node { topics, bytes, messages, .. } = nodes[node as usize];
            let above = &mut nodes[*above as usize];
            above.topics += topics;
            above.bytes += bytes;
            above.messages += messages;
        }
    }
}

/// Where each level of a topic ends.
fn level_ends(topic: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let slashes = topic.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    slashes.chain(std::iter::once(topic.len()))
}

/// How many levels two topics have in common at their start.
fn levels_shared(a: &[u8], b: &[u8]) -> usize {
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let slashes = a[..same].iter().filter(|byte| **byte == b'/').count();
    let ends = |topic: &[u8]| topic.len() == same || topic[same] == b'/';
    slashes + usize::from(ends(a) && ends(b))
}

fn tree_order(a: &[u8], b: &[u8]) -> Ordering {
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    match a.iter().zip(b).find(|(x, y)| x != y) {
        Some((x, y)) => key(x).cmp(&key(y)),
        None => a.len().cmp(&b.len()),
    }
}

fn text(topic: &[u8]) -> String {
    String::from_utf8_lossy(topic).into_owned()
}
