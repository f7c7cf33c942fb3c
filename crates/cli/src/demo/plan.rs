//! What the demo is going to do with a tree: how much there is, and which of its subtrees are followed and recovered.

use std::collections::BTreeMap;

use super::tree::{ROOT_LEVEL, Walk};

/// Subtrees that are counted at most, so that a tree of nothing but directories takes no more memory than one of files.
const SUBTREES_MAX: usize = 100_000;
/// Levels below the root that a subtree may begin at.
const LEVELS_MAX: usize = 6;
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

/// How much of a tree lies below one of its directories, and from where to where on the way through the tree.
struct Found {
    files: u64,
    first: u64,
    last: u64,
}

impl Found {
    /// Whether it goes through all of the stream, so that some of it is new and some of it is old.
    fn is_spread(&self, files: u64) -> bool {
        self.first <= files / 2 && self.last >= files - files * 3 / 10
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
        let mut subtrees: BTreeMap<String, Found> = BTreeMap::new();
        while let Some(found) = walk.next(&mut left) {
            for (at, _) in found.topic.match_indices('/').skip(1).take(LEVELS_MAX) {
                let subtree = &found.topic[..at];
                if let Some(known) = subtrees.get_mut(subtree) {
                    (known.files, known.last) = (known.files + 1, files);
                } else if subtrees.len() < SUBTREES_MAX {
                    subtrees.insert(subtree.to_owned(), Found { files: 1, first: files, last: files });
                }
            }
            files += 1;
            bytes += found.bytes;
        }
        let off = |found: &Found, part: f64| (found.files as f64 / (files as f64 * part)).ln().abs();
        let several = || subtrees.iter().filter(|(_, found)| found.files > 1 && found.first <= files / 2);
        let live = several().min_by(|a, b| off(a.1, LIVE_PART).total_cmp(&off(b.1, LIVE_PART)));
        let slice = several().min_by(|a, b| {
            let apart = |found: &Found| !found.is_spread(files);
            apart(a.1).cmp(&apart(b.1)).then(off(a.1, SLICE_PART).total_cmp(&off(b.1, SLICE_PART)))
        });
        let subtree = |found: Option<(&String, &Found)>| Subtree::new(found.map_or(ROOT_LEVEL, |(topic, _)| topic));
        let (live, slice) = (subtree(live), subtree(slice));
        Plan { files, bytes, was_cut: walk.was_cut(), live, slice }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::demo::tree::{LeftOut, Limits};

    fn plan(parts: &[(&str, u64)]) -> Plan {
        let dir = tempfile::tempdir().unwrap();
        for (sub, count) in parts {
            fs::create_dir_all(dir.path().join(sub)).unwrap();
            (0..*count).for_each(|n| fs::write(dir.path().join(format!("{sub}/{n}")), "x").unwrap());
        }
        Plan::of(Walk::new(dir.path(), Path::new(""), Limits::new(false), &mut LeftOut::default()))
    }

    #[test]
    fn a_slice_is_a_small_part_that_goes_through_all_of_the_stream() {
        // The brief one has the right size, but all of it comes at the beginning.
        let plan = plan(&[("most", 90), ("third", 85), ("slice", 80), ("brief", 8)]);
        assert_eq!((plan.files, plan.bytes, plan.was_cut), (263, 263, false));
        assert_eq!((plan.live.filter(), plan.slice.filter()), ("files/slice/**".into(), "files/slice/**".into()));
        assert!(plan.slice.has("files/slice/1") && !plan.slice.has("files/slices"));
    }

    #[test]
    fn without_directories_it_is_everything() {
        let plan = plan(&[("", 10)]);
        assert_eq!((plan.live.filter(), plan.slice.filter()), ("files/**".into(), "files/**".into()));
    }
}
