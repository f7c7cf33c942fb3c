//! Storage that grows in small steps.
//!
//! A vector of a million entries that doubles copies them all while everybody waits, and is half empty afterwards.
//! [`Paged`] adds a page instead; [`Index`] is a hash table in shards, which double one at a time.

use std::ops;

use hashbrown::HashTable;

/// Stands for "no number" in links.
pub(crate) const NONE: u32 = u32::MAX;

const PAGE_BITS: u32 = 12;
const PAGE: usize = 1 << PAGE_BITS;
/// Shards of an index that may get large: at a million entries one doubling moves about 16,000.
pub(crate) const SHARDS_LARGE: usize = 64;

/// A vector in pages of 4,096 entries.
#[derive(Debug)]
pub(crate) struct Paged<T> {
    pages: Vec<Vec<T>>,
    len: u32,
}

impl<T> Paged<T> {
    pub(crate) fn new() -> Paged<T> {
        Paged { pages: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds an entry and returns its number.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        assert!(self.len < NONE, "a paged vector is full");
        let number = self.len;
        if (number as usize).is_multiple_of(PAGE) {
            self.pages.push(Vec::new());
        }
        // The last page doubles up to its size: a small vector stays small.
        self.pages[(number >> PAGE_BITS) as usize].push(value);
        self.len += 1;
        number
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.pages.get((number >> PAGE_BITS) as usize)?.get(number as usize % PAGE)
    }

    /// Forgets all but the first `len` entries and gives their memory back.
    pub(crate) fn truncate(&mut self, len: u32) {
        if len < self.len {
            let pages = (len as usize).div_ceil(PAGE);
            self.pages.truncate(pages);
            self.pages.shrink_to_fit();
            if let Some(last) = self.pages.last_mut() {
                last.truncate(len as usize - (pages - 1) * PAGE);
                last.shrink_to_fit();
            }
            self.len = len;
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let entries: usize = self.pages.iter().map(Vec::capacity).sum();
        entries * size_of::<T>() + self.pages.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> ops::Index<u32> for Paged<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.pages[(number >> PAGE_BITS) as usize][number as usize % PAGE]
    }
}

impl<T> ops::IndexMut<u32> for Paged<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.pages[(number >> PAGE_BITS) as usize][number as usize % PAGE]
    }
}

/// A hash table of numbers whose keys lie elsewhere.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[HashTable<u32>]>,
}

impl Index {
    /// An index of `shards` tables, a power of two: 1 for a small one, [`SHARDS_LARGE`] for one that may get large.
    pub(crate) fn new(shards: usize) -> Index {
        assert!(shards.is_power_of_two());
        Index { shards: (0..shards).map(|_| HashTable::new()).collect() }
    }

    /// The table uses a hash's lowest and highest bits, the shard the ones between.
    fn shard(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.shards[self.shard(hash)].find(hash, |&number| is(number)).copied()
    }

    /// Adds a number known to be absent; `hash_of` hashes the numbers that move.
    pub(crate) fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let shard = self.shard(hash);
        self.shards[shard].insert_unique(hash, number, |&number| hash_of(number));
    }

    /// Takes a number out. A table that got three quarters empty gives memory back.
    pub(crate) fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let shard = self.shard(hash);
        let table = &mut self.shards[shard];
        let found = table.find_entry(hash, |&other| other == number);
        assert!(found.is_ok(), "number {number} is not in its index");
        if let Ok(entry) = found {
            entry.remove();
        }
        if table.capacity() > 64 && table.len() * 4 < table.capacity() {
            table.shrink_to(table.len() * 2, |&number| hash_of(number));
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let tables: usize = self.shards.iter().map(HashTable::allocation_size).sum();
        tables + self.shards.len() * size_of::<HashTable<u32>>()
    }
}

/// Mixes two numbers into a hash: the two halves of a product, folded.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paged_vector_returns_what_was_pushed_and_gives_memory_back() {
        let mut paged = Paged::new();
        for number in 0..10_000u32 {
            assert_eq!(paged.push(number * 3), number);
        }
        assert!((0..10_000).all(|number| paged[number] == number * 3));
        assert_eq!(paged.get(10_000), None);
        let before = paged.memory_bytes();
        paged.truncate(5);
        assert_eq!((paged.len(), paged.get(4), paged.get(5)), (5, Some(&12), None));
        assert!(paged.memory_bytes() * 100 < before);
        assert_eq!(paged.push(1), 5);
        paged.truncate(0);
        assert_eq!((paged.len(), paged.push(9)), (0, 0));
    }

    #[test]
    fn an_index_finds_what_it_holds_and_shrinks() {
        let mut index = Index::new(4);
        let hash = |number: u32| mix(u64::from(number), 7);
        for number in 0..20_000 {
            index.insert(hash(number), number, hash);
        }
        let before = index.memory_bytes();
        assert!((0..20_000).all(|number| index.find(hash(number), |other| other == number) == Some(number)));
        for number in 0..19_900 {
            index.remove(hash(number), number, hash);
        }
        assert!((0..20_000).all(|n| index.find(hash(n), |other| other == n).is_some() == (n >= 19_900)));
        assert!(index.memory_bytes() * 20 < before);
    }
}
