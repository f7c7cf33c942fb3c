//! Which subscriptions a topic matches.
//!
//! ```text
//!   topic id ──▶ remembered slots ──▶ each slot's list of subscriptions
//!                    │ not remembered, or not valid any more
//!                    └──▶ filter trie, level by level
//! ```
//!
//! Subscriptions with the same filter share its slot in the trie; each slot heads a list of them. So a change costs
//! the filters of its subscription and never looks at a topic, and what is remembered of a topic is the *slots* that
//! match it, not the subscriptions: it stays valid when one more subscription takes a filter that is known.
//!
//! When a filter comes to be or goes for good, what is remembered of the topics it matches must not be used again,
//! and of all others should. Versions do that: the literal levels a filter begins with (at most
//! [`VERSION_LEVELS`]) hash to one of [`VERSIONS`] counters, which the change adds one to. A topic's counters are those of
//! all its prefixes: every filter that matches it begins with one of them. With a topic the sum of its counters
//! is remembered; counters only grow, so an equal sum means that none changed. Two prefixes that share a counter cost a
//! look into the trie, never a wrong answer. If nothing at all changed since the last look, that is one comparison.

use smallvec::SmallVec;

use crate::Result;
use crate::error::Error;
use crate::filter::{Filter, FilterSet, Part};
use crate::grow::{Index, NONE, Paged, SHARDS_LARGE, mix};
use crate::names::Names;
use crate::topic::TopicId;
use crate::trie::{FilterSlot, FilterTrie};

/// How many levels of a prefix tell versions apart; real streams have five levels, the last ones shared by few.
pub const VERSION_LEVELS: usize = 6;
/// Counters of versions, 256 KiB: at 10,000 changes a second one counter is hit by others every three seconds.
pub const VERSIONS: usize = 1 << 15;
/// The filters of all subscriptions together by default: 300,000 subscriptions of a dozen filters each.
pub const FILTERS_HELD_MAX_DEFAULT: usize = 1 << 22;
/// What is remembered of topics takes at most this much memory by default: about 100,000 topics.
pub const CACHE_BYTES_MAX_DEFAULT: usize = 16 << 20;

const _: () = assert!(VERSIONS.is_power_of_two() && VERSIONS <= 1 << 16);
/// Filters are counted in 32 bits, and one number means none.
const _: () = assert!(FILTERS_HELD_MAX_DEFAULT < NONE as usize);

/// A subscription's number, chosen by whoever keeps subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u32);

/// The ceilings of a matcher.
#[derive(Clone, Copy, Debug)]
pub struct MatcherLimits {
    /// The filters of all subscriptions together.
    pub filters_held_max: usize,
    /// The memory of what is remembered of topics.
    pub cache_bytes_max: usize,
}

impl Default for MatcherLimits {
    fn default() -> MatcherLimits {
        MatcherLimits { filters_held_max: FILTERS_HELD_MAX_DEFAULT, cache_bytes_max: CACHE_BYTES_MAX_DEFAULT }
    }
}

/// How often a topic id was asked for, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatcherCounts {
    /// Answered from what was remembered.
    pub remembered: u64,
    /// Looked up in the trie.
    pub looked_up: u64,
}

/// One filter of one subscription: in the list of its slot, and in the list of its subscription.
#[derive(Debug)]
struct Entry {
    subscription: SubscriptionId,
    slot: FilterSlot,
    /// Neighbours in the slot's list. Of a free entry: `next` is the next free one.
    previous: u32,
    next: u32,
    next_of_subscription: u32,
    version: Version,
}

/// The number of a counter.
#[derive(Clone, Copy, Debug, Default)]
struct Version(u16);

/// All subscriptions, asked by topic.
#[derive(Debug)]
pub struct Matcher {
    limits: MatcherLimits,
    trie: FilterTrie,
    entries: Paged<Entry>,
    entries_free: u32,
    entries_used: usize,
    /// The first entry of each subscription, by subscription.
    subscriptions: Index,
    subscriptions_used: usize,
    versions: Box<[u64]>,
    /// How many times any counter changed.
    generation: u64,
    remembered: Remembered,
    counts: MatcherCounts,
    name: String,
}

impl Matcher {
    /// A matcher without subscriptions. The seed keeps filters from being chosen to collide.
    pub fn new(limits: MatcherLimits, hash_seed: u64) -> Matcher {
        assert!(limits.filters_held_max < NONE as usize, "filters are counted in 32 bits");
        Matcher {
            limits,
            trie: FilterTrie::new(hash_seed, SHARDS_LARGE),
            entries: Paged::new(),
            entries_free: NONE,
            entries_used: 0,
            subscriptions: Index::new(SHARDS_LARGE),
            subscriptions_used: 0,
            versions: vec![0; VERSIONS].into(),
            generation: 0,
            remembered: Remembered::default(),
            counts: MatcherCounts::default(),
            name: String::new(),
        }
    }

    /// Adds a subscription; costs its filters. It must not be there; one that does not fit changes nothing.
    pub fn subscribe(&mut self, subscription: SubscriptionId, filters: &FilterSet) -> Result<()> {
        assert!(self.first_entry(subscription).is_none(), "{subscription:?} is there already");
        let filters_max = self.limits.filters_held_max;
        if self.entries_used + filters.len() > filters_max {
            return Err(Error::MatcherFull { filters: filters.len(), filters_held: self.entries_used, filters_max });
        }
        let mut first = NONE;
        for filter in filters {
            first = self.add_entry(subscription, filter, first);
        }
        if first != NONE {
            let Matcher { subscriptions, entries, .. } = self;
            subscriptions
                .insert(subscription_hash(subscription), first, |entry| subscription_hash(entries[entry].subscription));
            self.subscriptions_used += 1;
        }
        Ok(())
    }

    /// Ends a subscription; costs its filters. False if it is not there (or has no filters).
    pub fn unsubscribe(&mut self, subscription: SubscriptionId) -> bool {
        let Some(mut entry) = self.first_entry(subscription) else {
            return false;
        };
        let Matcher { subscriptions, entries, .. } = self;
        subscriptions
            .remove(subscription_hash(subscription), entry, |entry| subscription_hash(entries[entry].subscription));
        self.subscriptions_used -= 1;
        while entry != NONE {
            let next = self.entries[entry].next_of_subscription;
            self.remove_entry(entry);
            entry = next;
        }
        if self.entries_used == 0 {
            self.entries.truncate(0);
            self.entries_free = NONE;
        }
        true
    }

    /// Puts the subscriptions a topic matches into `out`, in place of what is there, each once. The order is that of
    /// earlier calls and the same in every run; if several filters match, that of the numbers.
    pub fn matches_topic(&self, topic: &str, out: &mut Vec<SubscriptionId>) {
        self.put_subscriptions(&self.matching_slots(topic), out);
    }

    /// The same for a topic that has a name: known topics cost one look-up.
    pub fn matches_id(&mut self, names: &Names, topic: TopicId, out: &mut Vec<SubscriptionId>) {
        if let Some(place) = self.remembered.find(topic, self.generation, &self.versions) {
            self.counts.remembered += 1;
            self.put_subscriptions(&self.remembered.topics[place].slots, out);
            return;
        }
        self.counts.looked_up += 1;
        let mut name = std::mem::take(&mut self.name);
        assert!(names.name_into(topic, &mut name), "topic {topic} has no name");
        let slots = self.matching_slots(&name);
        self.put_subscriptions(&slots, out);
        let versions = topic_versions(&self.trie, &name);
        let sum = versions_sum(&versions, &self.versions);
        let remembered = RememberedTopic { topic, generation: self.generation, sum, versions, slots };
        self.remembered.put(remembered, self.limits.cache_bytes_max);
        self.name = name;
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.subscriptions_used
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.subscriptions_used == 0
    }

    /// How many filters all subscriptions have together.
    pub fn filters_held(&self) -> usize {
        self.entries_used
    }

    /// What asking by id took so far.
    pub fn counts(&self) -> MatcherCounts {
        self.counts
    }

    /// The bytes of memory this takes, from the capacities of its parts.
    pub fn memory_bytes(&self) -> usize {
        self.trie.memory_bytes()
            + self.entries.memory_bytes()
            + self.subscriptions.memory_bytes()
            + size_of_val(&*self.versions)
            + self.remembered.bytes()
            + size_of::<Matcher>()
    }

    fn matching_slots(&self, topic: &str) -> Slots {
        let mut slots = Slots::new();
        self.trie.any_match(topic, |slot| {
            slots.push(slot);
            false
        });
        slots
    }

    fn put_subscriptions(&self, slots: &Slots, out: &mut Vec<SubscriptionId>) {
        out.clear();
        for &slot in slots {
            let mut entry = self.trie.value(slot).unwrap_or(NONE);
            while entry != NONE {
                let Entry { subscription, next, .. } = self.entries[entry];
                out.push(subscription);
                entry = next;
            }
        }
        // Within one list each is there once: a set holds a filter once.
        if slots.len() > 1 {
            out.sort_unstable();
            out.dedup();
        }
    }

    fn first_entry(&self, subscription: SubscriptionId) -> Option<u32> {
        let is = |entry: u32| self.entries[entry].subscription == subscription;
        self.subscriptions.find(subscription_hash(subscription), is)
    }

    fn add_entry(&mut self, subscription: SubscriptionId, filter: &Filter, next_of_subscription: u32) -> u32 {
        let slot = self.trie.slot(filter);
        let head = self.trie.value(slot);
        let version = match head {
            Some(head) => self.entries[head].version,
            None => filter_version(&self.trie, filter),
        };
        let next = head.unwrap_or(NONE);
        let entry = Entry { subscription, slot, previous: NONE, next, next_of_subscription, version };
        let number = if self.entries_free == NONE {
            self.entries.push(entry)
        } else {
            let number = self.entries_free;
            self.entries_free = self.entries[number].next;
            self.entries[number] = entry;
            number
        };
        self.entries_used += 1;
        match head {
            Some(head) => self.entries[head].previous = number,
            None => self.bump(version),
        }
        self.trie.set(slot, number);
        number
    }

    fn remove_entry(&mut self, number: u32) {
        let Entry { slot, previous, next, version, .. } = self.entries[number];
        if next != NONE {
            self.entries[next].previous = previous;
        }
        match (previous, next) {
            (NONE, NONE) => {
                self.trie.clear(slot);
                self.bump(version);
            }
            (NONE, _) => self.trie.set(slot, next),
            _ => self.entries[previous].next = next,
        }
        self.entries[number].next = self.entries_free;
        self.entries_free = number;
        self.entries_used -= 1;
    }

    fn bump(&mut self, Version(version): Version) {
        self.versions[usize::from(version)] += 1;
        self.generation += 1;
    }
}

type Slots = SmallVec<[FilterSlot; 4]>;
type TopicVersions = SmallVec<[Version; VERSION_LEVELS]>;

/// The counter of a prefix of no levels.
const VERSION_OF_ALL: Version = Version(0);

/// The counter of the next longer prefix, and the hash to go on with.
fn longer(hash: u64, level_hash: u64) -> (u64, Version) {
    let hash = mix(hash, level_hash);
    (hash, Version((hash >> 48) as u16 & (VERSIONS - 1) as u16))
}

/// The counter of the literal levels a filter begins with.
fn filter_version(trie: &FilterTrie, filter: &Filter) -> Version {
    let (mut hash, mut version) = (0, VERSION_OF_ALL);
    for part in filter.parts().take(VERSION_LEVELS) {
        let Part::Level(level) = part else { break };
        (hash, version) = longer(hash, trie.level_hash(level));
    }
    version
}

/// The counters of all prefixes of a topic but the one of no levels.
fn topic_versions(trie: &FilterTrie, topic: &str) -> TopicVersions {
    let mut hash = 0;
    let mut versions = TopicVersions::new();
    for level in crate::topic::levels(topic).take(VERSION_LEVELS) {
        let version;
        (hash, version) = longer(hash, trie.level_hash(level));
        versions.push(version);
    }
    versions
}

fn versions_sum(versions: &[Version], counters: &[u64]) -> u64 {
    let count = |&Version(version): &Version| counters[usize::from(version)];
    versions.iter().chain([&VERSION_OF_ALL]).map(count).sum()
}

fn subscription_hash(SubscriptionId(subscription): SubscriptionId) -> u64 {
    mix(u64::from(subscription), 3)
}

#[derive(Debug)]
struct RememberedTopic {
    topic: TopicId,
    /// When it was last known to be valid.
    generation: u64,
    sum: u64,
    versions: TopicVersions,
    slots: Slots,
}

impl RememberedTopic {
    const NOTHING_TOPIC: TopicId = TopicId(NONE);

    fn nothing() -> RememberedTopic {
        RememberedTopic {
            topic: RememberedTopic::NOTHING_TOPIC,
            generation: 0,
            sum: 0,
            versions: SmallVec::new(),
            slots: SmallVec::new(),
        }
    }

    fn spilled_bytes(&self) -> usize {
        if self.slots.spilled() { self.slots.capacity() * size_of::<FilterSlot>() } else { 0 }
    }
}

/// What is remembered of topics: a table in which a topic has one place, by its id. It doubles while it may; after
/// that a newcomer takes the place of another. Ids are given one after the other, so few share a place.
#[derive(Debug, Default)]
struct Remembered {
    topics: Vec<RememberedTopic>,
    spilled_bytes: usize,
}

impl Remembered {
    const TOPICS_MIN: usize = 64;

    fn bytes(&self) -> usize {
        self.topics.capacity() * size_of::<RememberedTopic>() + self.spilled_bytes
    }

    fn place(&self, TopicId(topic): TopicId) -> usize {
        topic as usize & (self.topics.len() - 1)
    }

    /// The place of a topic that is remembered and valid.
    fn find(&mut self, topic: TopicId, generation: u64, counters: &[u64]) -> Option<usize> {
        if self.topics.is_empty() {
            return None;
        }
        let place = self.place(topic);
        let remembered = &mut self.topics[place];
        if remembered.topic != topic {
            return None;
        }
        if remembered.generation != generation {
            if remembered.sum != versions_sum(&remembered.versions, counters) {
                return None;
            }
            remembered.generation = generation;
        }
        Some(place)
    }

    fn put(&mut self, remembered: RememberedTopic, bytes_max: usize) {
        let taken = |table: &Remembered| {
            let other = table.topics[table.place(remembered.topic)].topic;
            other != RememberedTopic::NOTHING_TOPIC && other != remembered.topic
        };
        while self.topics.is_empty() || taken(self) {
            let len = (self.topics.len() * 2).max(Remembered::TOPICS_MIN);
            if len * size_of::<RememberedTopic>() + self.spilled_bytes > bytes_max {
                break;
            }
            self.resize(len);
        }
        if self.topics.is_empty() {
            return;
        }
        let place = self.place(remembered.topic);
        self.spilled_bytes -= self.topics[place].spilled_bytes();
        self.topics[place] = RememberedTopic::nothing();
        if self.bytes() + remembered.spilled_bytes() <= bytes_max {
            self.spilled_bytes += remembered.spilled_bytes();
            self.topics[place] = remembered;
        }
    }

    fn resize(&mut self, len: usize) {
        let mut larger = Vec::with_capacity(len);
        larger.resize_with(len, RememberedTopic::nothing);
        for remembered in std::mem::replace(&mut self.topics, larger) {
            // Two topics of one place have two in a table that doubles: nothing is lost.
            if remembered.topic != RememberedTopic::NOTHING_TOPIC {
                let place = self.place(remembered.topic);
                self.topics[place] = remembered;
            }
        }
    }
}

#[cfg(test)]
mod tests;
