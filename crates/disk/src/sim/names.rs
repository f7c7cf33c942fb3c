//! The names of the simulated disk: which there are now, and which a crash leaves.
//!
//! A change to the names waits until the directory is synced. A crash keeps or loses each waiting change
//! by itself, with two bonds: a rename is one change, also between two directories; and changes to one
//! name keep their order (who finds `b` created after `a` was renamed away finds `a` renamed).

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use super::rng::{Mood, Rng};

pub type NodeId = u64;

/// The data directory.
pub const ROOT: NodeId = 0;

/// A name in a directory.
type Key = (NodeId, String);

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    File(NodeId),
    Dir(NodeId),
}

#[derive(Debug, Clone, Default)]
pub struct Names {
    now: BTreeMap<Key, Target>,
    durable: BTreeMap<Key, Target>,
    waiting: Vec<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    removed: Option<Key>,
    added: Option<(Key, Target)>,
}

impl Change {
    fn keys(&self) -> impl Iterator<Item = &Key> {
        self.removed.iter().chain(self.added.iter().map(|(key, _)| key))
    }
}

impl Names {
    /// What a path leads to; `""` is the data directory.
    pub fn find(&self, path: &str) -> Result<Target, Errno> {
        if path.is_empty() {
            return Ok(Target::Dir(ROOT));
        }
        self.now.get(&self.key(path)?).copied().ok_or(Errno::NOENT)
    }

    pub fn find_file(&self, path: &str) -> Result<NodeId, Errno> {
        match self.find(path)? {
            Target::File(node) => Ok(node),
            Target::Dir(_) => Err(Errno::ISDIR),
        }
    }

    pub fn find_dir(&self, path: &str) -> Result<NodeId, Errno> {
        match self.find(path)? {
            Target::Dir(node) => Ok(node),
            Target::File(_) => Err(Errno::NOTDIR),
        }
    }

    /// The directory a path lies in, and its name there.
    fn key(&self, path: &str) -> Result<Key, Errno> {
        let mut dir = ROOT;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let key = (dir, part.to_owned());
            if parts.peek().is_none() {
                return Ok(key);
            }
            match self.now.get(&key) {
                Some(Target::Dir(node)) => dir = *node,
                Some(Target::File(_)) => return Err(Errno::NOTDIR),
                None => return Err(Errno::NOENT),
            }
        }
        Err(Errno::NOENT)
    }

    pub fn entries(&self, dir: NodeId) -> impl Iterator<Item = (&str, Target)> {
        entries(&self.now, dir)
    }

    /// Gives a node a name that is free.
    pub fn add(&mut self, path: &str, target: Target) -> Result<(), Errno> {
        let key = self.key(path)?;
        if self.now.contains_key(&key) {
            return Err(Errno::EXIST);
        }
        self.change(Change { removed: None, added: Some((key, target)) });
        Ok(())
    }

    /// Takes a name away, and tells what it led to.
    pub fn remove(&mut self, path: &str) -> Result<Target, Errno> {
        let target = self.find(path)?;
        if let Target::Dir(node) = target
            && self.entries(node).next().is_some()
        {
            return Err(Errno::NOTEMPTY);
        }
        self.change(Change { removed: Some(self.key(path)?), added: None });
        Ok(target)
    }

    /// Moves a file's name, and tells which file lost the target name.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<Option<NodeId>, Errno> {
        let node = self.find_file(from)?;
        let (source, target) = (self.key(from)?, self.key(to)?);
        let replaced = match self.now.get(&target) {
            Some(Target::Dir(_)) => return Err(Errno::ISDIR),
            // Two names of one file: nothing happens, says POSIX.
            Some(Target::File(other)) if *other == node => return Ok(None),
            Some(Target::File(other)) => Some(*other),
            None => None,
        };
        self.change(Change { removed: Some(source), added: Some((target, Target::File(node))) });
        Ok(replaced)
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.waiting.push(change);
    }

    /// Makes every change that touches a directory durable.
    pub fn sync(&mut self, dir: NodeId) {
        self.keep(|change| change.keys().any(|(at, _)| *at == dir));
    }

    /// What a crash leaves.
    pub fn crash(&mut self, rng: &mut Rng) {
        match Mood::draw(rng) {
            Mood::Lost => {}
            Mood::Kept => self.keep(|_| true),
            Mood::Mixed => self.keep(|_| rng.coin()),
        }
        self.waiting.clear();
        self.drop_unreachable();
        self.now.clone_from(&self.durable);
    }

    /// Makes the chosen changes durable, and those they are bound to; the others go on waiting.
    fn keep(&mut self, mut chosen: impl FnMut(&Change) -> bool) {
        let mut bound: BTreeSet<&Key> = BTreeSet::new();
        let mut kept = vec![false; self.waiting.len()];
        for (kept, change) in kept.iter_mut().zip(&self.waiting).rev() {
            // Every change is asked, so that the dice are thrown equally often.
            *kept = chosen(change) | change.keys().any(|key| bound.contains(key));
            if *kept {
                bound.extend(change.keys());
            }
        }
        let mut kept = kept.into_iter();
        let durable = &mut self.durable;
        self.waiting.retain(|change| {
            let kept = kept.next() == Some(true);
            if kept {
                apply(durable, change);
            }
            !kept
        });
    }

    /// A directory whose own name was lost takes everything in it along.
    fn drop_unreachable(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut next = vec![ROOT];
        while let Some(dir) = next.pop() {
            for (_, target) in entries(&self.durable, dir) {
                if let Target::Dir(node) = target
                    && reached.insert(node)
                {
                    next.push(node);
                }
            }
        }
        self.durable.retain(|(dir, _), _| reached.contains(dir));
    }

    /// The files that have a name now, once for each name.
    pub fn files_now(&self) -> impl Iterator<Item = NodeId> {
        self.now.values().filter_map(file)
    }

    /// The files a crash may still bring back, though they may have no name now.
    pub fn files_remembered(&self) -> BTreeSet<NodeId> {
        let waiting = self.waiting.iter().filter_map(|change| change.added.as_ref().map(|(_, target)| target));
        self.durable.values().chain(waiting).filter_map(file).collect()
    }
}

fn file(target: &Target) -> Option<NodeId> {
    match target {
        Target::File(node) => Some(*node),
        Target::Dir(_) => None,
    }
}

fn entries(names: &BTreeMap<Key, Target>, dir: NodeId) -> impl Iterator<Item = (&str, Target)> {
    let row = names.range((dir, String::new())..(dir + 1, String::new()));
    row.map(|((_, name), target)| (name.as_str(), *target))
}

fn apply(names: &mut BTreeMap<Key, Target>, change: &Change) {
    if let Some(key) = &change.removed {
        names.remove(key);
    }
    if let Some((key, target)) = &change.added {
        names.insert(key.clone(), *target);
    }
}
