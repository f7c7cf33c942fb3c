//! What the demo is going to do with a tree: how much there is, and which of its subtrees are followed and recovered.

use std::collections::BTreeMap;

use super::tree::{ROOT_LEVEL, Walk};

/// Subtrees that are counted at most, so that a tree of nothing but directories takes no more memory than one of files.
const SUBTREES_MAX: usize = 100_000;
/// Levels below the root that a subtree may begin at.
const LEVELS_MAX: usize = 3;
/// The part of all files that the subtree followed live should have.
const LIVE_PART: f64 = 0.3;
/// The part of all files that the subtree recovered should have: a slice, of which nearly everything else is to be passed over.
const SLICE_PART: f64 = 0.03;

/// A subtree of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtree {
    topic: String,
}

impl Subtree {
    fn new(topic: &str) -> Subtree {
        Subtree { topic: topic.to_owned() }
    }

    /// The filter that selects it.
    pub fn filter(&self) -> String {
        format!("{}/**", self.topic)
    }

    /// Whether a topic lies in it.
    pub fn has(&self, topic: &str) -> bool {
        topic.strip_prefix(&self.topic).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// What there is to do.
#[derive(Debug)]
pub struct Plan {
    /// Files found.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the tree has more.
    pub was_cut: bool,
    /// Followed live.
    pub live: Subtree,
    /// Recovered from the tip, from disk, from a mark.
    pub slice: Subtree,
}

impl Plan {
    /// Walks a tree to its end.
    pub fn of(mut walk: Walk) -> Plan {
        // What is left out is told when the files are read.
        let mut left = super::tree::LeftOut::default();
        let (mut files, mut bytes) = (0, 0);
        let mut subtrees: BTreeMap<String, u64> = BTreeMap::new();
        while let Some(found) = walk.next(&mut left) {
            files += 1;
            bytes += found.bytes;
            for (at, _) in found.topic.match_indices('/').skip(1).take(LEVELS_MAX) {
                let subtree = &found.topic[..at];
                if let Some(count) = subtrees.get_mut(subtree) {
                    *count += 1;
                } else if subtrees.len() < SUBTREES_MAX {
                    subtrees.insert(subtree.to_owned(), 1);
                }
            }
        }
        let nearest = |part: f64| {
            let wanted = files as f64 * part;
            let off = |count: u64| (count as f64 / wanted).ln().abs();
            let best = subtrees.iter().filter(|(_, count)| **count > 1).min_by(|a, b| off(*a.1).total_cmp(&off(*b.1)));
            Subtree::new(best.map_or(ROOT_LEVEL, |(subtree, _)| subtree))
        };
        Plan { files, bytes, was_cut: walk.was_cut(), live: nearest(LIVE_PART), slice: nearest(SLICE_PART) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::demo::tree::{LeftOut, Limits};

    #[test]
    fn a_slice_is_a_few_percent_and_what_is_followed_about_a_third() {
        let dir = tempfile::tempdir().unwrap();
        for (sub, count) in [("big", 60), ("third", 35), ("small", 4)] {
            fs::create_dir(dir.path().join(sub)).unwrap();
            (0..count).for_each(|n| fs::write(dir.path().join(format!("{sub}/{n}")), "x").unwrap());
        }
        let plan = Plan::of(Walk::new(dir.path(), Path::new(""), Limits::new(false), &mut LeftOut::default()));
        assert_eq!((plan.files, plan.bytes, plan.was_cut), (99, 99, false));
        assert_eq!((plan.live.filter(), plan.slice.filter()), ("files/third/**".into(), "files/small/**".into()));
        assert!(plan.slice.has("files/small/1") && !plan.slice.has("files/smaller"));
    }
}
