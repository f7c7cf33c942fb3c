//! A walk over the topics a filter matches.
//!
//! It goes through the topic tree from the root, in pre-order, only along levels the filter allows: an exact filter
//! costs its levels, `a/b/**` that subtree, `a/*/c` the children of `a`. All it remembers is the node it stands at,
//! so it stops after any number of steps and goes on later, while topics are being added; one added meanwhile is
//! met or not.

use smallvec::SmallVec;

use crate::filter::{Filter, Part};
use crate::levels::LevelId;
use crate::names::{Names, NodeId};
use crate::topic::{TopicId, is_reserved};

/// One level of the filter; texts become level numbers once and for all when the level exists.
#[derive(Clone, Copy, Debug)]
enum Step {
    Level(Option<LevelId>),
    One,
}

/// What a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// A topic that matches.
    Topic(TopicId),
    /// The end of its steps; it can go on.
    Paused,
    /// The end.
    Done,
}

/// A walk that can stop and go on.
#[derive(Clone, Debug)]
pub struct TopicWalk {
    filter: Filter,
    steps: SmallVec<[Step; 8]>,
    rest: bool,
    /// How many levels the tree knew when the steps were last looked up.
    levels_seen: Option<u32>,
    at: Option<NodeId>,
}

impl TopicWalk {
    /// A walk that stands at the root.
    pub fn new(filter: &Filter) -> TopicWalk {
        let parts = filter.parts().filter(|part| *part != Part::Rest);
        TopicWalk {
            filter: filter.clone(),
            steps: parts.map(|part| if part == Part::One { Step::One } else { Step::Level(None) }).collect(),
            rest: filter.parts().any(|part| part == Part::Rest),
            levels_seen: None,
            at: Some(NodeId::ROOT),
        }
    }

    /// Goes on to the next topic, over at most `steps` nodes, which it counts down.
    pub fn advance(&mut self, names: &Names, steps: &mut u64) -> Walked {
        self.look_up_levels(names);
        while let Some(at) = self.at {
            let Some(left) = steps.checked_sub(1) else {
                return Walked::Paused;
            };
            *steps = left;
            self.at = self.down(names, at).or_else(|| self.across(names, at));
            let Some(node) = self.at else { break };
            let depth = names.level_count(node);
            let ends = depth == self.steps.len() || (self.rest && depth > self.steps.len());
            if ends && let Some(topic) = names.topic_at(node) {
                return Walked::Topic(topic);
            }
        }
        Walked::Done
    }

    fn look_up_levels(&mut self, names: &Names) {
        if self.levels_seen == Some(names.levels_len()) {
            return;
        }
        self.levels_seen = Some(names.levels_len());
        for (step, part) in self.steps.iter_mut().zip(self.filter.parts()) {
            if let (Step::Level(level @ None), Part::Level(text)) = (step, part) {
                *level = names.level_id(text);
            }
        }
    }

    /// The first node below that the filter allows.
    fn down(&self, names: &Names, node: NodeId) -> Option<NodeId> {
        match self.steps.get(names.level_count(node)) {
            Some(Step::Level(level)) => names.child_by_level(node, (*level)?),
            Some(Step::One) => first_wild(names, names.first_child(node)),
            None if self.rest => first_wild(names, names.first_child(node)),
            None => None,
        }
    }

    /// The next node beside this one, or beside one above, that the filter allows.
    fn across(&self, names: &Names, mut node: NodeId) -> Option<NodeId> {
        loop {
            let parent = names.parent(node)?;
            let wild = !matches!(self.steps.get(names.level_count(parent)), Some(Step::Level(_)));
            if wild && let Some(next) = first_wild(names, names.next_sibling(node)) {
                return Some(next);
            }
            node = parent;
        }
    }
}

/// The first of a node and its later siblings that a wildcard matches: a first level of the bus is passed over.
fn first_wild(names: &Names, mut node: Option<NodeId>) -> Option<NodeId> {
    while let Some(candidate) = node {
        if names.level_count(candidate) > 1 || !is_reserved(names.level(candidate)) {
            break;
        }
        node = names.next_sibling(candidate);
    }
    node
}
