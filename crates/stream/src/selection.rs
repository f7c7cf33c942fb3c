//! What one subscription selects, for its recovery.
//!
//! A [`Selection`] is a set of filters made ready to be asked about many messages by topic id, and about partitions, which
//! are what the tip indexes first. Topics and partitions that come to be later are judged when first met:
//!
//! - a set with `**` selects every topic that is not the bus's, without a look;
//! - a set of topics only is a hash set of their ids;
//! - any other remembers its verdict of each topic, two bits, in pages of 4,096 topics made on demand. Beyond
//!   [`VERDICT_PAGES_MAX`] the oldest page is used again, and its topics are judged anew.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::filter::{Filter, FilterSet, Part};
use crate::grow::mix;
use crate::names::{Names, NodeId, PartitionId};
use crate::topic::{TopicId, is_reserved};
use crate::trie::{Cover, FilterTrie};

/// Topics in a page of verdicts, 1 KiB.
pub const VERDICT_PAGE_TOPICS: usize = 4_096;
/// Pages of verdicts a selection keeps: 4 million topics, 1 MiB.
pub const VERDICT_PAGES_MAX: usize = 1_024;

const VERDICTS_A_WORD: usize = u64::BITS as usize / 2;

/// A partition that can hold topics of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectedPartition {
    /// Which.
    pub partition: PartitionId,
    /// Whether every topic it has or will get is selected: nothing is left to test.
    pub whole: bool,
}

/// The compiled view of one subscription.
#[derive(Debug)]
pub struct Selection {
    trie: FilterTrie,
    /// The set has `**`.
    everything: bool,
    /// Filters by how they begin, for finding partitions.
    starts: Starts,
    kind: Kind,
    name: String,
}

#[derive(Debug)]
enum Kind {
    Exact(ExactTopics),
    Patterns(Verdicts),
}

impl Selection {
    /// Compiles a set of filters. All later questions are about the same `names`.
    pub fn new(filters: &FilterSet, names: &Names) -> Selection {
        let mut trie = FilterTrie::new(names.hash_seed(), 1);
        for filter in filters {
            let slot = trie.slot(filter);
            trie.set(slot, 0);
        }
        let exact = filters.iter().all(Filter::is_exact);
        Selection {
            trie,
            everything: filters.iter().any(Filter::is_everything),
            starts: Starts::new(filters),
            kind: if exact {
                Kind::Exact(ExactTopics::new(filters, names))
            } else {
                Kind::Patterns(Verdicts::default())
            },
            name: String::new(),
        }
    }

    /// Whether every topic there is is selected, so that messages need no test: the set has `**`, and the bus has no topics of
    /// its own in `names`.
    pub fn is_everything(&self, names: &Names) -> bool {
        self.everything && names.reserved_topics() == 0
    }

    /// Whether a topic is selected. The topic has a name.
    pub fn selects(&mut self, names: &Names, topic: TopicId) -> bool {
        if self.is_everything(names) {
            return true;
        }
        match &mut self.kind {
            Kind::Exact(exact) => exact.selects(names, topic, &mut self.name),
            Kind::Patterns(verdicts) => verdicts.get_or_judge(topic, || {
                assert!(names.name_into(topic, &mut self.name), "topic {topic} has no name");
                self.trie.any_match(&self.name, |_| true)
            }),
        }
    }

    /// Puts the partitions numbered `from` and above that can hold selected topics into `out`, in place of what is there,
    /// ascending; returns the number to go on from when there are more partitions.
    ///
    /// From 0 this costs what the filters lead to; later it costs the new partitions.
    pub fn partitions(&self, names: &Names, from: PartitionId, out: &mut Vec<SelectedPartition>) -> PartitionId {
        out.clear();
        let end = names.partition_count();
        let new = end.saturating_sub(from.0);
        if self.starts.cost(names) < u64::from(new) {
            let mut found: Vec<PartitionId> = Vec::new();
            self.starts.find(names, &mut found);
            found.sort_unstable();
            found.dedup();
            let found = found.into_iter().filter(|partition| *partition >= from);
            out.extend(found.filter_map(|partition| self.judge_partition(names, partition)));
        } else {
            out.extend((from.0..end).filter_map(|number| self.judge_partition(names, PartitionId(number))));
        }
        PartitionId(end.max(from.0))
    }

    /// What is selected of one partition; none if no topic it has or may get is.
    pub fn judge_partition(&self, names: &Names, partition: PartitionId) -> Option<SelectedPartition> {
        let node = names.partition_node(partition);
        assert!(node.is_some(), "{partition:?} does not exist");
        let node = node?;
        let first = names.parent(node)?;
        let cover = match first {
            NodeId::ROOT => self.trie.cover(names.level(node), None),
            _ => self.trie.cover(names.level(first), Some(names.level(node))),
        };
        match cover {
            Cover::Nothing => None,
            Cover::Part => Some(SelectedPartition { partition, whole: false }),
            Cover::Whole => Some(SelectedPartition { partition, whole: true }),
        }
    }

    /// The bytes of memory this takes, from the capacities of its parts.
    pub fn memory_bytes(&self) -> usize {
        let kind = match &self.kind {
            Kind::Exact(exact) => exact.memory_bytes(),
            Kind::Patterns(verdicts) => verdicts.memory_bytes(),
        };
        self.trie.memory_bytes() + self.starts.memory_bytes() + kind + size_of::<Selection>()
    }
}

/// The first two levels of the filters, by what it takes to find their partitions.
#[derive(Debug)]
struct Starts {
    /// `a/b…`, and `a` with no second level.
    both: Vec<(Box<str>, Option<Box<str>>)>,
    /// `a/*…` and `a/**`.
    firsts: Vec<Box<str>>,
    /// `*/b…`.
    seconds: Vec<Box<str>>,
    /// `*`: the topics of one level.
    singles: bool,
    /// `**`, `*/**` and `*/*…`.
    all: bool,
}

impl Starts {
    fn new(filters: &FilterSet) -> Starts {
        let mut starts = Starts { both: vec![], firsts: vec![], seconds: vec![], singles: false, all: false };
        for filter in filters {
            let mut parts = filter.parts();
            match (parts.next(), parts.next()) {
                (Some(Part::Level(first)), Some(Part::Level(second))) => {
                    starts.both.push((first.into(), Some(second.into())));
                }
                (Some(Part::Level(first)), None) => starts.both.push((first.into(), None)),
                (Some(Part::Level(first)), Some(Part::One | Part::Rest)) => starts.firsts.push(first.into()),
                (Some(Part::One), Some(Part::Level(second))) => starts.seconds.push(second.into()),
                (Some(Part::One), None) => starts.singles = true,
                (Some(Part::One | Part::Rest), _) => starts.all = true,
                (None, _) => {}
            }
        }
        starts.both.sort_unstable();
        starts.both.dedup();
        starts.firsts.sort_unstable();
        starts.firsts.dedup();
        starts.seconds.sort_unstable();
        starts.seconds.dedup();
        starts
    }

    /// How many look-ups finding all partitions takes, at least.
    fn cost(&self, names: &Names) -> u64 {
        if self.all {
            return u64::MAX;
        }
        let wild = self.seconds.len() as u64 + u64::from(self.singles);
        (self.both.len() + self.firsts.len()) as u64 + wild * u64::from(names.first_levels())
    }

    /// Finds the partitions they lead to; some may not be selected after all, some may be there twice.
    fn find(&self, names: &Names, found: &mut Vec<PartitionId>) {
        let first = |level: &str| names.child(NodeId::ROOT, level);
        for (one, two) in &self.both {
            let node = first(one).and_then(|node| two.as_deref().map_or(Some(node), |two| names.child(node, two)));
            found.extend(node.and_then(|node| names.partition_at(node)));
        }
        for node in self.firsts.iter().filter_map(|level| first(level)) {
            found.extend(names.partition_at(node));
            found.extend(names.children(node).filter_map(|child| names.partition_at(child)));
        }
        if self.seconds.is_empty() && !self.singles {
            return;
        }
        for node in names.children(NodeId::ROOT).filter(|&node| !is_reserved(names.level(node))) {
            if self.singles {
                found.extend(names.partition_at(node));
            }
            let seconds = self.seconds.iter().filter_map(|level| names.child(node, level));
            found.extend(seconds.filter_map(|child| names.partition_at(child)));
        }
    }

    fn memory_bytes(&self) -> usize {
        let text = |level: &str| level.len() + size_of::<Box<str>>();
        let both: usize = self.both.iter().map(|(one, two)| text(one) + text(two.as_deref().unwrap_or(""))).sum();
        both + self.firsts.iter().chain(&self.seconds).map(|level| text(level)).sum::<usize>()
    }
}

/// A set of topics by name, of which those that exist are known by id.
#[derive(Debug)]
struct ExactTopics {
    ids: HashSet<TopicId, FixedState>,
    /// Names that no topic had up to `judged`.
    missing: HashSet<Box<str>, FixedState>,
    /// All topics up to this one were looked at.
    judged: Option<TopicId>,
}

impl ExactTopics {
    fn new(filters: &FilterSet, names: &Names) -> ExactTopics {
        let mut exact = ExactTopics {
            ids: HashSet::with_hasher(FixedState::with_seed(0)),
            missing: HashSet::with_hasher(FixedState::with_seed(mix(names.hash_seed(), 4))),
            judged: names.last_id(),
        };
        for filter in filters {
            match names.get(filter.as_str()) {
                Some(id) => exact.ids.insert(id),
                None => exact.missing.insert(filter.as_str().into()),
            };
        }
        exact
    }

    fn selects(&mut self, names: &Names, topic: TopicId, name: &mut String) -> bool {
        if Some(topic) > self.judged && !self.missing.is_empty() {
            self.judge_new(names, name);
        }
        self.ids.contains(&topic)
    }

    /// Looks at the topics that came to be, or for the names that were missing, whichever are fewer.
    fn judge_new(&mut self, names: &Names, name: &mut String) {
        let new = names.topics_after(self.judged);
        if new.size_hint().1.is_some_and(|new| new < self.missing.len()) {
            for topic in new {
                names.name_into(topic, name);
                if self.missing.remove(name.as_str()) {
                    self.ids.insert(topic);
                }
            }
        } else {
            let ids = &mut self.ids;
            self.missing.retain(|name| names.get(name).is_none_or(|id| !ids.insert(id)));
        }
        self.judged = names.last_id();
    }

    fn memory_bytes(&self) -> usize {
        let text: usize = self.missing.iter().map(|name| name.len()).sum();
        self.ids.allocation_size() + self.missing.allocation_size() + text
    }
}

/// Two bits a topic: judged, selected.
#[derive(Debug, Default)]
struct Verdicts {
    pages: Vec<Option<Box<Page>>>,
    /// The pages there are, the oldest first.
    order: VecDeque<u32>,
}

type Page = [u64; VERDICT_PAGE_TOPICS / VERDICTS_A_WORD];

impl Verdicts {
    fn get_or_judge(&mut self, TopicId(topic): TopicId, judge: impl FnOnce() -> bool) -> bool {
        let number = topic as usize / VERDICT_PAGE_TOPICS;
        let within = topic as usize % VERDICT_PAGE_TOPICS;
        let (word, shift) = (within / VERDICTS_A_WORD, within % VERDICTS_A_WORD * 2);
        let page = match self.pages.get(number) {
            Some(Some(page)) => page,
            _ => self.make_page(number),
        };
        match page[word] >> shift & 0b11 {
            0b00 => {}
            verdict => return verdict == 0b11,
        }
        let selected = judge();
        if let Some(Some(page)) = self.pages.get_mut(number) {
            page[word] |= (if selected { 0b11 } else { 0b01 }) << shift;
        }
        selected
    }

    fn make_page(&mut self, number: usize) -> &Page {
        let mut page = if self.order.len() >= VERDICT_PAGES_MAX {
            self.order.pop_front().and_then(|oldest| self.pages[oldest as usize].take())
        } else {
            None
        }
        .unwrap_or_else(|| Box::new([0; VERDICT_PAGE_TOPICS / VERDICTS_A_WORD]));
        page.fill(0);
        if self.pages.len() <= number {
            self.pages.resize_with(number + 1, || None);
        }
        self.order.push_back(number as u32);
        self.pages[number].insert(page)
    }

    fn memory_bytes(&self) -> usize {
        self.order.len() * size_of::<Page>()
            + self.pages.capacity() * size_of::<Option<Box<Page>>>()
            + self.order.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests;
