//! The tree under a plan, as much of it as fits a picture.
//!
//! The picture shows what is large: the heaviest node not yet opened is opened next, until there are
//! enough. Of a node's parts, those too small to be seen are put together by store, so that a million
//! siblings in 64 stores are 64 boxes and not one.

use arioso_store::plan::{NodeId, Plan, StoreId, TopicTree};
use serde::Serialize;
use std::collections::{BTreeMap, BinaryHeap};

/// Boxes of one picture.
const BOXES_MAX: usize = 1500;
/// Boxes for one node's small parts.
const GROUPS_MAX: usize = 96;
/// What is smaller than this part of the picture can't be seen: about a pixel of a wide window.
const SEEN_MIN: f64 = 1.0 / 1200.0;

/// What gives a box its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Size {
    Bytes,
    Messages,
    Topics,
}

/// A box: a node, a node's own messages, or small parts together.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shape {
    /// The node, if the box is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    pub kind: Kind,
    pub label: String,
    pub size: u64,
    pub bytes: u64,
    pub topics: u64,
    /// The store, if all of it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<u32>,
    /// Whether there is more below than is shown.
    pub more: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Shape>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Node,
    Own,
    Group,
}

/// Makes pictures of one plan.
pub(super) struct Viewer<'a> {
    pub tree: &'a TopicTree,
    pub plan: &'a Plan,
    pub size: Size,
}

impl Viewer<'_> {
    /// The picture of a node.
    pub fn view(&self, root: NodeId) -> Shape {
        let whole = self.size_of(root).max(1);
        let seen = ((whole as f64 * SEEN_MIN) as u64).max(1);
        let mut opened: BTreeMap<NodeId, Vec<Shape>> = BTreeMap::new();
        let mut heap = BinaryHeap::from([(self.size_of(root), std::cmp::Reverse(root))]);
        let mut boxes = 1;
        while let Some((_, std::cmp::Reverse(node))) = heap.pop().filter(|_| boxes < BOXES_MAX) {
            if self.tree.is_leaf(node) {
                continue;
            }
            let parts = self.parts(node, seen);
            boxes += parts.len();
            heap.extend(parts.iter().filter_map(|part| {
                part.node.filter(|_| part.kind == Kind::Node).map(|node| (part.size, std::cmp::Reverse(NodeId(node))))
            }));
            opened.insert(node, parts);
        }
        let mut shape = self.node(root);
        fill(&mut shape, &mut opened);
        shape
    }

    /// A node's parts: those that are seen, in tree order, and the others by store.
    fn parts(&self, node: NodeId, seen: u64) -> Vec<Shape> {
        let mut parts = Vec::new();
        let mut groups: BTreeMap<Option<u32>, Shape> = BTreeMap::new();
        let own = self.tree.row(node).map(|row| self.own(node, row));
        for part in own.into_iter().chain(self.tree.children(node).map(|child| self.node(child))) {
            if part.size >= seen {
                parts.push(part);
                continue;
            }
            let group = groups.entry(part.store).or_insert_with(|| Shape {
                node: None,
                kind: Kind::Group,
                label: String::new(),
                size: 0,
                bytes: 0,
                topics: 0,
                ..part.clone()
            });
            group.size += part.size;
            group.bytes += part.bytes;
            group.topics += part.topics;
        }
        parts.extend(fewer(groups.into_values().collect()));
        parts
    }

    fn node(&self, node: NodeId) -> Shape {
        Shape {
            node: Some(node.0),
            kind: Kind::Node,
            label: String::from_utf8_lossy(self.tree.level(node)).into_owned(),
            size: self.size_of(node),
            bytes: self.tree.bytes(node),
            topics: u64::from(self.tree.topics(node)),
            store: self.store_of(node),
            more: !self.tree.is_leaf(node),
            parts: Vec::new(),
        }
    }

    fn own(&self, node: NodeId, row: usize) -> Shape {
        let size = match self.size {
            Size::Bytes => self.tree.row_bytes(row),
            Size::Messages => self.tree.row_messages(row),
            Size::Topics => 1,
        };
        Shape {
            kind: Kind::Own,
            label: "own messages".to_owned(),
            size,
            bytes: self.tree.row_bytes(row),
            topics: 1,
            store: Some(self.plan.store_of(row).0),
            more: false,
            ..self.node(node)
        }
    }

    fn size_of(&self, node: NodeId) -> u64 {
        match self.size {
            Size::Bytes => self.tree.bytes(node),
            Size::Messages => self.tree.messages(node),
            Size::Topics => u64::from(self.tree.topics(node)),
        }
    }

    /// The store of a node that lies in one store.
    fn store_of(&self, node: NodeId) -> Option<u32> {
        let rows = self.tree.rows_below(node);
        let StoreId(first) = self.plan.store_of(*rows.first()? as usize);
        rows.iter().all(|row| self.plan.store_of(*row as usize) == StoreId(first)).then_some(first)
    }
}

/// The largest groups; the others become one of several stores.
fn fewer(mut groups: Vec<Shape>) -> Vec<Shape> {
    groups.sort_by_key(|group| std::cmp::Reverse(group.size));
    if groups.len() > GROUPS_MAX {
        let rest = groups.split_off(GROUPS_MAX - 1);
        let sum = |of: fn(&Shape) -> u64| rest.iter().map(of).sum::<u64>();
        let (size, bytes, topics) = (sum(|group| group.size), sum(|group| group.bytes), sum(|group| group.topics));
        groups.push(Shape { size, bytes, topics, store: None, ..rest[0].clone() });
    }
    for group in &mut groups {
        group.label = if group.topics == 1 { "1 topic".to_owned() } else { format!("{} topics", group.topics) };
        group.more = false;
    }
    groups
}

fn fill(shape: &mut Shape, opened: &mut BTreeMap<NodeId, Vec<Shape>>) {
    if shape.kind != Kind::Node {
        return;
    }
    if let Some(parts) = shape.node.and_then(|node| opened.remove(&NodeId(node))) {
        shape.more = false;
        shape.parts = parts;
        for part in &mut shape.parts {
            fill(part, opened);
        }
    }
}
