//! Many filters in one tree, so that a topic is matched against all of them at once.
//!
//! ```text
//!   a/b/**   a/*/c   **           root ── a ─┬─ b         each node has two slots: a filter ending here,
//!                                  rest: **  │  rest      and one ending here with `**`
//!                                            └─ * ── c
//! ```
//!
//! A topic is matched level by level with the set of nodes reached so far: of each, the child with that level and
//! the child `*`. A slot holds a number of the owner's; a filter whose slot holds none is not in the tree.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::filter::{Filter, Part};
use crate::grow::{Index, NONE, Paged, mix};
use crate::topic::is_reserved;

const ROOT: u32 = 0;

/// The place of one filter: twice its node, and one more if it ends with `**`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterSlot(pub(crate) u32);

/// How much of a partition a set of filters matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// No topic it has or may get.
    Nothing,
    /// Perhaps some topics.
    Part,
    /// Every topic it has or may get.
    Whole,
}

#[derive(Debug)]
struct Node {
    /// Of a free node: the next free one.
    parent: u32,
    /// Children found through the index, by level.
    literals: u32,
    /// The child `*`.
    star: u32,
    /// What the owner put into the two slots.
    values: [u32; 2],
    level: Box<str>,
    level_hash: u64,
}

impl Node {
    fn is_unused(&self) -> bool {
        self.literals == 0 && self.star == NONE && self.values == [NONE; 2]
    }
}

#[derive(Debug)]
pub(crate) struct FilterTrie {
    hash: FixedState,
    nodes: Paged<Node>,
    free: u32,
    nodes_used: u32,
    children: Index,
    level_bytes: usize,
}

impl FilterTrie {
    pub(crate) fn new(hash_seed: u64, shards: usize) -> FilterTrie {
        let mut trie = FilterTrie {
            hash: FixedState::with_seed(hash_seed),
            nodes: Paged::new(),
            free: NONE,
            nodes_used: 0,
            children: Index::new(shards),
            level_bytes: 0,
        };
        trie.take_node(NONE, "", 0);
        trie
    }

    pub(crate) fn level_hash(&self, level: &str) -> u64 {
        self.hash.hash_one(level)
    }

    pub(crate) fn value(&self, FilterSlot(slot): FilterSlot) -> Option<u32> {
        Some(self.nodes[slot / 2].values[slot as usize % 2]).filter(|&value| value != NONE)
    }

    /// Finds the slot of a filter and makes the way to it. A caller that leaves it empty prunes it.
    pub(crate) fn slot(&mut self, filter: &Filter) -> FilterSlot {
        let mut node = ROOT;
        for part in filter.parts() {
            node = match part {
                Part::Rest => return FilterSlot(node * 2 + 1),
                Part::One => self.star_child(node),
                Part::Level(level) => self.literal_child(node, level),
            };
        }
        FilterSlot(node * 2)
    }

    pub(crate) fn set(&mut self, FilterSlot(slot): FilterSlot, value: u32) {
        assert!(value != NONE, "an empty slot is made by clearing it");
        self.nodes[slot / 2].values[slot as usize % 2] = value;
    }

    /// Empties a slot and frees the nodes that only it needed.
    pub(crate) fn clear(&mut self, FilterSlot(slot): FilterSlot) {
        self.nodes[slot / 2].values[slot as usize % 2] = NONE;
        let mut node = slot / 2;
        while node != ROOT && self.nodes[node].is_unused() {
            let parent = self.nodes[node].parent;
            if self.nodes[parent].star == node {
                self.nodes[parent].star = NONE;
            } else {
                let hash = child_hash(parent, self.nodes[node].level_hash);
                let FilterTrie { nodes, children, .. } = self;
                children.remove(hash, node, |number| child_hash(nodes[number].parent, nodes[number].level_hash));
                self.nodes[parent].literals -= 1;
            }
            self.free_node(node);
            node = parent;
        }
        if self.nodes_used == 1 {
            // Only the root is left: the memory of what was goes back.
            self.nodes.truncate(1);
            self.free = NONE;
        }
    }

    /// Calls with the slot of every filter that matches, each once, and stops when it returns true; whether it did.
    pub(crate) fn any_match(&self, topic: &str, mut stop: impl FnMut(FilterSlot) -> bool) -> bool {
        let mut wild = !is_reserved(topic);
        let mut reached: SmallVec<[u32; 16]> = SmallVec::from_slice(&[ROOT]);
        let mut below: SmallVec<[u32; 16]> = SmallVec::new();
        for level in crate::topic::levels(topic) {
            let hash = self.level_hash(level);
            for &number in &reached {
                let node = &self.nodes[number];
                if wild && node.values[1] != NONE && stop(FilterSlot(number * 2 + 1)) {
                    return true;
                }
                self.push_children(number, level, hash, wild, &mut below);
            }
            std::mem::swap(&mut reached, &mut below);
            below.clear();
            if reached.is_empty() {
                return false;
            }
            wild = true;
        }
        reached.iter().any(|&number| {
            let node = &self.nodes[number];
            (node.values[0] != NONE && stop(FilterSlot(number * 2)))
                || (node.values[1] != NONE && stop(FilterSlot(number * 2 + 1)))
        })
    }

    /// How much the filters match of a partition: of the one topic `first`, or of `first/second` and all below it.
    pub(crate) fn cover(&self, first: &str, second: Option<&str>) -> Cover {
        let wild = !is_reserved(first);
        let has_rest = |reached: &[u32]| reached.iter().any(|&number| self.nodes[number].values[1] != NONE);
        let mut reached: SmallVec<[u32; 4]> = SmallVec::new();
        self.push_children(ROOT, first, self.level_hash(first), wild, &mut reached);
        if (wild && has_rest(&[ROOT])) || has_rest(&reached) {
            return Cover::Whole;
        }
        let Some(second) = second else {
            let ends = reached.iter().any(|&number| self.nodes[number].values[0] != NONE);
            return if ends { Cover::Whole } else { Cover::Nothing };
        };
        let mut below: SmallVec<[u32; 4]> = SmallVec::new();
        let hash = self.level_hash(second);
        for &number in &reached {
            self.push_children(number, second, hash, true, &mut below);
        }
        match below.is_empty() {
            true => Cover::Nothing,
            false if has_rest(&below) => Cover::Whole,
            false => Cover::Part,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.children.memory_bytes() + self.level_bytes
    }

    fn push_children<A: smallvec::Array<Item = u32>>(
        &self,
        number: u32,
        level: &str,
        level_hash: u64,
        wild: bool,
        below: &mut SmallVec<A>,
    ) {
        let node = &self.nodes[number];
        if node.literals > 0
            && let Some(child) = self.find_literal(number, level, level_hash)
        {
            below.push(child);
        }
        if wild && node.star != NONE {
            below.push(node.star);
        }
    }

    fn find_literal(&self, parent: u32, level: &str, level_hash: u64) -> Option<u32> {
        self.children.find(child_hash(parent, level_hash), |number| {
            let node = &self.nodes[number];
            node.parent == parent && node.level_hash == level_hash && &*node.level == level
        })
    }

    fn literal_child(&mut self, parent: u32, level: &str) -> u32 {
        let level_hash = self.level_hash(level);
        if let Some(known) = self.find_literal(parent, level, level_hash) {
            return known;
        }
        let child = self.take_node(parent, level, level_hash);
        let FilterTrie { nodes, children, .. } = self;
        children.insert(child_hash(parent, level_hash), child, |number| {
            child_hash(nodes[number].parent, nodes[number].level_hash)
        });
        self.nodes[parent].literals += 1;
        child
    }

    fn star_child(&mut self, parent: u32) -> u32 {
        if self.nodes[parent].star == NONE {
            let child = self.take_node(parent, "*", 0);
            self.nodes[parent].star = child;
        }
        self.nodes[parent].star
    }

    fn take_node(&mut self, parent: u32, level: &str, level_hash: u64) -> u32 {
        self.nodes_used += 1;
        self.level_bytes += level.len();
        let node = Node { parent, literals: 0, star: NONE, values: [NONE; 2], level: level.into(), level_hash };
        if self.free == NONE {
            let number = self.nodes.push(node);
            assert!(number < NONE / 2, "slots are counted in 32 bits");
            return number;
        }
        let number = self.free;
        self.free = self.nodes[number].parent;
        self.nodes[number] = node;
        number
    }

    fn free_node(&mut self, number: u32) {
        self.nodes_used -= 1;
        let node = &mut self.nodes[number];
        self.level_bytes -= node.level.len();
        node.level = Box::default();
        node.parent = self.free;
        self.free = number;
    }
}

// The level's hash is seeded; the parent is a number from inside.
fn child_hash(parent: u32, level_hash: u64) -> u64 {
    mix(u64::from(parent), level_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_filter_leaves_nothing_behind() {
        let mut trie = FilterTrie::new(3, 1);
        let filters: Vec<Filter> =
            ["a/b/c", "a/b/**", "a/*/c", "a/b", "**", "*"].map(|text| Filter::new(text).unwrap()).into();
        let slots: Vec<FilterSlot> = filters.iter().map(|filter| trie.slot(filter)).collect();
        for (value, &slot) in slots.iter().enumerate() {
            trie.set(slot, value as u32);
        }
        let nodes = trie.nodes_used;
        let mut matched = Vec::new();
        assert!(!trie.any_match("a/b/c", |slot| {
            matched.push(trie.value(slot).unwrap());
            false
        }));
        matched.sort_unstable();
        assert_eq!(matched, [0, 1, 2, 4]);

        trie.clear(slots[0]);
        assert_eq!(trie.nodes_used, nodes - 1, "only the node c under a/b goes");
        for &slot in &slots[1..] {
            trie.clear(slot);
        }
        assert_eq!((trie.nodes_used, trie.nodes.len(), trie.level_bytes), (1, 1, 0));
        assert!(!trie.any_match("a/b/c", |_| true));
    }

    #[test]
    fn freed_nodes_are_used_again() {
        let mut trie = FilterTrie::new(3, 1);
        let kept = trie.slot(&Filter::new("kept").unwrap());
        trie.set(kept, 1);
        for round in 0..100 {
            let slot = trie.slot(&Filter::new(&format!("a/{round}/**")).unwrap());
            trie.set(slot, 2);
            trie.clear(slot);
        }
        assert_eq!((trie.nodes_used, trie.nodes.len()), (2, 4));
    }
}
