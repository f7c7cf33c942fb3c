//! The index: for each node the slots of its messages, oldest first.
//!
//! ```text
//! partition or topic ──▶ node ──▶ cell ──▶ cell ──▶ cell        entry = slot, topic (8 bytes)
//!                                 e e e →  e e e →  e e . .     the last word of a cell is for the link
//! ```
//!
//! A node starts as a partition. One that holds more than its share of the tip splits: new messages go to a node for
//! each topic, which the partition's *directory* lists (a chain of the same kind), and the old entries leave with
//! their chunks. When all are gone the partition is whole again.
//!
//! **Readers take no lock.** The writer appends entries while they look: an entry is one word, a new cell is filled
//! before it is linked. Memory is taken back in one place only, when a chunk is evicted, and that makes the version odd
//! before and even, two higher, afterwards. A reader notes the version, copies the entries it wants, and keeps the copy
//! if the version is still the same: then nothing it went through was taken back or handed out again. If not, it tries
//! again or scans the chunk. A place in a chain that a reader keeps between looks is good as long as the entry there has
//! not been evicted, because a cell lives as long as one of its entries.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::nodes::{IdMap, Nodes};
use super::pool::{Address, BLOCK_BYTES, Blocks, CELL_SHIFT_MAX, CELL_SHIFT_MIN, Pool};
use super::words::{Key, ahead, entry, link, slot_of, topic_of};
use super::{PartitionId, TipConfig};
use crate::record::CONTROL_TOPIC;

/// What stands in the topics' map for a topic that its partition's directory lists and that has no node.
const LISTED: u32 = u32::MAX;

/// A reader's place in one node's chain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// An entry the reader has seen: the next one wanted, or the last one passed. Zero: none yet.
    pub(super) at: Address,
    /// That entry's slot.
    pub(super) slot: u32,
}

/// The version changed: what was looked at may have been taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed;

/// A state of the index in which nothing is taken back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    version: u64,
    /// The oldest slot the index has: every entry from here on is in place.
    pub(super) oldest: u64,
}

/// The index as readers see it.
pub(super) struct Index {
    blocks: Arc<Blocks>,
    nodes: Nodes,
    partitions: IdMap,
    topics: IdMap,
    directories: IdMap,
    version: AtomicU64,
    oldest: AtomicU64,
    bytes: AtomicU64,
    pub(super) nodes_used: AtomicU64,
    pub(super) blocks_used: AtomicU64,
    pub(super) entries: AtomicU64,
    pub(super) partitions_split: AtomicU64,
}

impl Index {
    /// Begins a look; none while the writer takes memory back.
    pub(super) fn look(&self) -> Result<Look, Changed> {
        let version = self.version.load(Ordering::Acquire);
        match version.is_multiple_of(2) {
            true => Ok(Look { version, oldest: self.oldest.load(Ordering::Acquire) }),
            false => Err(Changed),
        }
    }

    /// Whether everything seen since the look began was in place.
    pub(super) fn holds(&self, look: Look) -> Result<(), Changed> {
        fence(Ordering::Acquire);
        match self.version.load(Ordering::Relaxed) == look.version {
            true => Ok(()),
            false => Err(Changed),
        }
    }

    /// Bytes of blocks, nodes and maps.
    pub(super) fn bytes(&self) -> usize {
        let maps = self.partitions.bytes() + self.topics.bytes() + self.directories.bytes();
        self.bytes.load(Ordering::Relaxed) as usize + maps
    }

    fn number(&self, key: Key) -> u32 {
        match key.is_topic() {
            true => match self.topics.get(key.id()) {
                LISTED => 0,
                number => number,
            },
            false => self.partitions.get(key.id()),
        }
    }

    /// Entries of a node, evicted ones that share a cell with others included.
    pub(super) fn entries_of(&self, key: Key) -> u32 {
        let node = self.nodes.get(self.number(key));
        node.map_or(0, |node| node.entries())
    }

    /// Moves a place to the node's first entry at or above `slot`: true. To its last one if there is none: false.
    pub(super) fn seat(&self, key: Key, place: &mut Place, slot: u64, look: Look) -> Result<bool, Changed> {
        let is_known = place.at != 0 && ahead(place.slot, look.oldest) >= 0;
        if is_known && ahead(place.slot, slot) >= 0 {
            // It is the first at or above where the reader was, and the reader has not passed it.
            return Ok(true);
        }
        if !is_known {
            let Some(node) = self.nodes.get(self.number(key)) else {
                place.at = 0;
                return Ok(false);
            };
            let last = node.last();
            let newest = self.blocks.cell_from(last).first();
            let begins = newest.map_or(0, |word| word.load(Ordering::Acquire));
            let from_last = topic_of(begins) != 0 && ahead(slot_of(begins), slot) <= 0;
            place.at = if from_last { last } else { node.first() };
        }
        self.skip(place, slot, look)
    }

    /// From `place.at` on along the chain.
    fn skip(&self, place: &mut Place, slot: u64, look: Look) -> Result<bool, Changed> {
        let behind = |word: u64| topic_of(word) != CONTROL_TOPIC && ahead(slot_of(word), slot) < 0;
        loop {
            let words = self.blocks.cell_from(place.at);
            let Some(last) = words.last() else {
                place.at = 0;
                return Ok(false);
            };
            let last = last.load(Ordering::Acquire);
            let newest = words.len().checked_sub(2).map(|at| words[at].load(Ordering::Acquire));
            if last != 0 && newest.is_some_and(behind) {
                place.at = slot_of(last);
                self.holds(look)?;
                continue;
            }
            let found = words.partition_point(|word| behind(word.load(Ordering::Acquire)));
            let word = words.get(found).map_or(0, |word| word.load(Ordering::Acquire));
            if topic_of(word) == CONTROL_TOPIC && word != 0 {
                place.at = slot_of(word);
                self.holds(look)?;
                continue;
            }
            if word != 0 {
                place.at += found as Address;
                place.slot = slot_of(word);
                return Ok(true);
            }
            // The chain ends here; what was seen last is the word before. A cell just made has none.
            let Some(seen) = found.checked_sub(1) else {
                place.at = 0;
                return Ok(false);
            };
            place.at += seen as Address;
            place.slot = slot_of(words[seen].load(Ordering::Relaxed));
            return Ok(false);
        }
    }

    /// Hands every entry below `limit` to `taken`, from a seated place on, and moves the place to the entry after them:
    /// true. To the last one if the chain ends: false.
    #[inline]
    pub(super) fn take(
        &self,
        place: &mut Place,
        limit: u64,
        look: Look,
        mut taken: impl FnMut(u64),
    ) -> Result<bool, Changed> {
        loop {
            let mut link = 0;
            for (at, word) in (place.at..).zip(self.blocks.words_from(place.at)) {
                let word = word.load(Ordering::Acquire);
                if topic_of(word) == CONTROL_TOPIC {
                    link = slot_of(word);
                    break;
                }
                place.at = at;
                place.slot = slot_of(word);
                if ahead(place.slot, limit) >= 0 {
                    return Ok(true);
                }
                taken(word);
            }
            if link == 0 {
                return Ok(false);
            }
            place.at = link;
            self.holds(look)?;
        }
    }

    /// The word at an address: asking for many of them first lets the memory fetch them side by side.
    #[inline]
    pub(super) fn peek(&self, at: Address) -> u64 {
        let word = self.blocks.words_from(at).first();
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Moves a place from its entry to the next one: true, or there is none yet: false. For merging lane against lane
    /// while nothing is evicted.
    pub(super) fn step(&self, place: &mut Place) -> bool {
        let mut at = place.at + 1;
        loop {
            let word = self.peek(at);
            if topic_of(word) != CONTROL_TOPIC {
                place.at = at;
                place.slot = slot_of(word);
                return true;
            }
            if word == 0 {
                return false;
            }
            at = slot_of(word);
        }
    }

    /// The number of a split partition's directory; zero if the partition is whole.
    pub(super) fn directory(&self, partition: PartitionId) -> u32 {
        let node = self.nodes.get(self.directories.get(partition.0));
        node.map_or(0, |node| node.entries())
    }

    /// Hands the topics a directory lists to `listed`, those after `seen` (an address this returned before, or zero).
    pub(super) fn list(
        &self,
        partition: PartitionId,
        seen: Address,
        look: Look,
        mut listed: impl FnMut(u32),
    ) -> Result<Address, Changed> {
        let Some(node) = self.nodes.get(self.directories.get(partition.0)) else {
            return Ok(0);
        };
        let at = if seen == 0 { node.first() } else { seen };
        let mut place = Place { at, slot: 0 };
        if place.at == 0 {
            return Ok(0);
        }
        // Directory entries stand in slot 0: all of them lie below slot 1.
        let mut is_seen = seen != 0;
        self.take(&mut place, 1, look, |word| {
            if !std::mem::take(&mut is_seen) {
                listed(topic_of(word));
            }
        })?;
        Ok(place.at)
    }
}

/// What the writer knows about a node.
#[derive(Clone, Copy)]
struct Owner {
    key: Key,
    partition: u32,
    /// The next node to look at when the same chunk is evicted.
    next_due: u32,
    /// Words of the newest cell in use.
    tail_words: u16,
    cell_shift: u8,
}

/// The nodes to look at when a chunk is evicted.
struct Due {
    first_slot: u64,
    head: u32,
}

/// A split partition.
struct Split {
    /// Node that holds its directory.
    directory: u32,
    listed: u32,
    /// Topic nodes it has.
    nodes: u32,
}

/// The writing side of the index.
pub(super) struct IndexWriter {
    index: Arc<Index>,
    pool: Pool,
    owners: Vec<Owner>,
    free_nodes: Vec<u32>,
    splits: hashbrown::HashMap<u32, Split, foldhash::fast::FixedState>,
    /// One for each chunk, in order.
    due: VecDeque<Due>,
    entries: u64,
    directories_made: u32,
    split_share: u64,
    split_entries_min: u32,
}

impl IndexWriter {
    pub(super) fn new(config: &TipConfig) -> (IndexWriter, Arc<Index>) {
        let pool_bytes_max = config.pool_bytes_max;
        let (pool, blocks) = Pool::new(pool_bytes_max);
        // Every node has a cell; a directory may have none yet, and has a split node beside it.
        let nodes_max = pool_bytes_max / (8 << CELL_SHIFT_MIN) * 2;
        let index = Arc::new(Index {
            blocks,
            nodes: Nodes::new(nodes_max),
            partitions: IdMap::new(),
            topics: IdMap::new(),
            directories: IdMap::new(),
            version: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nodes_used: AtomicU64::new(0),
            blocks_used: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            partitions_split: AtomicU64::new(0),
        });
        let mut writer = IndexWriter {
            index: index.clone(),
            pool,
            owners: Vec::new(),
            free_nodes: Vec::new(),
            splits: hashbrown::HashMap::default(),
            due: VecDeque::new(),
            entries: 0,
            directories_made: 0,
            split_share: config.split_share.max(1),
            split_entries_min: config.split_entries_min,
        };
        writer.tell();
        (writer, index)
    }

    /// A new newest chunk begins.
    pub(super) fn begin_chunk(&mut self, first_slot: u64) {
        if self.due.is_empty() {
            self.index.oldest.store(first_slot, Ordering::Release);
        }
        self.due.push_back(Due { first_slot, head: 0 });
    }

    /// A new oldest chunk, of which nothing is in the index.
    pub(super) fn prepend_chunk(&mut self, first_slot: u64) {
        self.index.oldest.store(first_slot, Ordering::Release);
        self.due.push_front(Due { first_slot, head: 0 });
    }

    /// Adds a message. False if there was no room: it must be found by scanning.
    pub(super) fn push(&mut self, slot: u64, topic: u32, partition: PartitionId) -> bool {
        let directory = self.index.directories.get(partition.0);
        let number = match directory {
            0 => self.partition_node(partition, slot),
            _ => self.topic_node(topic, partition, slot),
        };
        let Some(number) = number else {
            return false;
        };
        let entries = self.index.nodes.get(number).map_or(0, |node| node.entries());
        if !self.push_word(number, entry(slot, topic), entries) {
            return false;
        }
        if let Some(node) = self.index.nodes.get(number) {
            node.entries.store(entries + 1, Ordering::Relaxed);
        }
        self.entries += 1;
        let share = (self.entries / self.split_share).max(u64::from(self.split_entries_min));
        if directory == 0 && u64::from(entries) >= share {
            self.split(partition);
        }
        true
    }

    /// Makes the counts readers see true.
    pub(super) fn tell(&mut self) {
        let nodes = self.owners.len() - self.free_nodes.len();
        let owners = self.owners.capacity() * size_of::<Owner>();
        let lists = (self.due.capacity() * size_of::<Due>()) + self.free_nodes.capacity() * 4;
        let splits = self.splits.capacity() * (size_of::<Split>() + 5);
        let tables = self.index.nodes.bytes(self.owners.len());
        let bytes = self.pool.bytes() + tables + owners + lists + splits;
        self.index.bytes.store(bytes as u64, Ordering::Relaxed);
        self.index.nodes_used.store(nodes as u64, Ordering::Relaxed);
        let blocks = self.pool.blocks_used() as u64;
        self.index.blocks_used.store(blocks, Ordering::Relaxed);
        self.index.entries.store(self.entries, Ordering::Relaxed);
        let split = self.splits.len() as u64;
        self.index.partitions_split.store(split, Ordering::Relaxed);
    }

    fn partition_node(&mut self, partition: PartitionId, slot: u64) -> Option<u32> {
        match self.index.partitions.get(partition.0) {
            0 => self.add_node(Key::partition(partition), partition, slot),
            number => Some(number),
        }
    }

    fn topic_node(&mut self, topic: u32, partition: PartitionId, slot: u64) -> Option<u32> {
        let known = self.index.topics.get(topic);
        if known != 0 && known != LISTED {
            return Some(known);
        }
        if known == 0 && !self.list_topic(topic, partition) {
            return None;
        }
        let number = self.add_node(Key::topic(topic), partition, slot)?;
        if let Some(split) = self.splits.get_mut(&partition.0) {
            split.nodes += 1;
        }
        Some(number)
    }

    /// Notes in the directory that the topic may have a node.
    fn list_topic(&mut self, topic: u32, partition: PartitionId) -> bool {
        let Some(split) = self.splits.get(&partition.0) else {
            return false;
        };
        let (directory, listed) = (split.directory, split.listed);
        if !self.index.topics.set(topic, LISTED) {
            return false;
        }
        if !self.push_word(directory, entry(0, topic), listed) {
            self.index.topics.set(topic, 0);
            return false;
        }
        if let Some(split) = self.splits.get_mut(&partition.0) {
            split.listed += 1;
        }
        true
    }

    /// A node with one empty cell, due when the newest chunk is evicted.
    fn add_node(&mut self, key: Key, partition: PartitionId, slot: u64) -> Option<u32> {
        let cell = self.pool.take(CELL_SHIFT_MIN)?;
        let Some(number) = self.new_number(key, partition) else {
            self.pool.give(cell);
            return None;
        };
        let node = self.index.nodes.get(number)?;
        node.entries.store(0, Ordering::Relaxed);
        node.first.store(cell, Ordering::Release);
        node.last.store(cell, Ordering::Release);
        let map = match key.is_topic() {
            true => &self.index.topics,
            false => &self.index.partitions,
        };
        if !map.set(key.id(), number) {
            self.pool.give(cell);
            self.free_nodes.push(number);
            return None;
        }
        self.make_due(number, slot as u32);
        Some(number)
    }

    fn new_number(&mut self, key: Key, partition: PartitionId) -> Option<u32> {
        let owner = Owner { key, partition: partition.0, next_due: 0, tail_words: 0, cell_shift: CELL_SHIFT_MIN };
        if let Some(number) = self.free_nodes.pop() {
            self.owners[number as usize - 1] = owner;
            return Some(number);
        }
        let number = self.owners.len() as u32 + 1;
        self.index.nodes.make(number)?;
        if self.owners.len() == self.owners.capacity() {
            // An eighth at a time: doubling would leave half of it empty.
            self.owners.reserve_exact((self.owners.len() / 8).max(256));
        }
        self.owners.push(owner);
        Some(number)
    }

    /// Appends a word to a chain of `length` entries.
    fn push_word(&mut self, number: u32, word: u64, length: u32) -> bool {
        let Some(node) = self.index.nodes.get(number) else {
            return false;
        };
        let owner = &mut self.owners[number as usize - 1];
        let last = node.last.load(Ordering::Relaxed);
        let words = self.index.blocks.words_from(last);
        // The cell's last word is the link's.
        if last != 0 && owner.tail_words + 1 < 1 << owner.cell_shift {
            words[owner.tail_words as usize].store(word, Ordering::Release);
            owner.tail_words += 1;
            return true;
        }
        let cell_shift = cell_shift_for(length);
        let Some(cell) = self.pool.take(cell_shift) else {
            return false;
        };
        self.index.blocks.words_from(cell)[0].store(word, Ordering::Release);
        match last {
            0 => node.first.store(cell, Ordering::Release),
            _ => words[owner.tail_words as usize].store(link(cell), Ordering::Release),
        }
        node.last.store(cell, Ordering::Release);
        owner.cell_shift = cell_shift;
        owner.tail_words = 1;
        true
    }

    /// From now on the partition's messages go to a node for each topic.
    fn split(&mut self, partition: PartitionId) {
        let Some(directory) = self.new_number(Key::partition(partition), partition) else {
            return;
        };
        let Some(node) = self.index.nodes.get(directory) else {
            return;
        };
        self.directories_made = self.directories_made.wrapping_add(1).max(1);
        node.entries.store(self.directories_made, Ordering::Relaxed);
        node.first.store(0, Ordering::Relaxed);
        node.last.store(0, Ordering::Relaxed);
        if !self.index.directories.set(partition.0, directory) {
            self.free_nodes.push(directory);
            return;
        }
        let split = Split { directory, listed: 0, nodes: 0 };
        self.splits.insert(partition.0, split);
    }

    fn make_due(&mut self, number: u32, slot: u32) {
        let newest = self.due.back().map_or(0, |due| due.first_slot);
        let at = match ahead(slot, newest) >= 0 {
            true => self.due.len(),
            false => self.due.partition_point(|due| ahead(slot, due.first_slot) >= 0),
        };
        let Some(due) = at.checked_sub(1).and_then(|at| self.due.get_mut(at)) else {
            panic!("slot {slot} lies before every chunk");
        };
        self.owners[number as usize - 1].next_due = due.head;
        due.head = number;
    }

    /// The oldest chunk leaves; `oldest` is the first slot that stays.
    pub(super) fn evict_chunk(&mut self, oldest: u64) {
        let version = self.index.version.load(Ordering::Relaxed);
        self.index.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.index.oldest.store(oldest, Ordering::Relaxed);
        let mut number = self.due.pop_front().map_or(0, |due| due.head);
        while number != 0 {
            let next = self.owners[number as usize - 1].next_due;
            self.take_back(number, oldest);
            number = next;
        }
        self.index.version.store(version + 2, Ordering::Release);
        self.tell();
    }

    /// Takes back the cells of a node all of whose entries have left, and the node with the last one.
    fn take_back(&mut self, number: u32, oldest: u64) {
        let Some(node) = self.index.nodes.get(number) else {
            return;
        };
        let index = self.index.clone();
        loop {
            let (first, last) = (node_load(&node.first), node_load(&node.last));
            let words = index.blocks.cell_from(first);
            let owner = self.owners[number as usize - 1];
            let entries = match first == last {
                true => owner.tail_words as usize,
                false => words.len() - 1,
            };
            let newest = slot_of(words[entries - 1].load(Ordering::Relaxed));
            if ahead(newest, oldest) >= 0 {
                self.make_due(number, newest);
                return;
            }
            self.pool.give(first);
            let left = node.entries().saturating_sub(entries as u32);
            node.entries.store(left, Ordering::Relaxed);
            self.entries -= entries as u64;
            if first == last {
                self.drop_node(number, owner);
                return;
            }
            let next = slot_of(words[entries].load(Ordering::Relaxed));
            node.first.store(next, Ordering::Release);
        }
    }

    fn drop_node(&mut self, number: u32, owner: Owner) {
        self.free_nodes.push(number);
        if owner.key.is_topic() {
            self.index.topics.set(owner.key.id(), LISTED);
            if let Some(split) = self.splits.get_mut(&owner.partition) {
                split.nodes -= 1;
            }
        } else {
            self.index.partitions.set(owner.key.id(), 0);
        }
        let whole_again = self.splits.get(&owner.partition).is_some_and(|split| split.nodes == 0)
            && self.index.partitions.get(owner.partition) == 0;
        if whole_again && let Some(split) = self.splits.remove(&owner.partition) {
            self.drop_directory(owner.partition, &split);
        }
    }

    fn drop_directory(&mut self, partition: u32, split: &Split) {
        self.index.directories.set(partition, 0);
        self.free_nodes.push(split.directory);
        let Some(node) = self.index.nodes.get(split.directory) else {
            return;
        };
        let mut cell = node_load(&node.first);
        while cell != 0 {
            let mut next = 0;
            for word in self.index.blocks.cell_from(cell) {
                let word = word.load(Ordering::Relaxed);
                match topic_of(word) {
                    CONTROL_TOPIC if word == 0 => {}
                    CONTROL_TOPIC => next = slot_of(word),
                    topic => {
                        self.index.topics.set(topic, 0);
                    }
                }
            }
            self.pool.give(cell);
            cell = next;
        }
    }
}

fn node_load(address: &std::sync::atomic::AtomicU32) -> Address {
    address.load(Ordering::Relaxed)
}

/// Words of the next cell for a chain of this length: about an eighth of it, so that the empty end and the evicted
/// beginning stay small beside what is between; never a cell whose link is worth more than it holds.
fn cell_shift_for(length: u32) -> u8 {
    match length {
        0..24 => CELL_SHIFT_MIN,
        24..128 => CELL_SHIFT_MIN + 1,
        _ => ((length / 8).ilog2() as u8).min(CELL_SHIFT_MAX),
    }
}

const _: () = assert!(BLOCK_BYTES == 8 << CELL_SHIFT_MAX);
