//! The text of levels: each distinct one once, numbered, never forgotten.
//!
//! Texts lie one behind the other in chunks that do not move; a level ends where the next one begins.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::grow::{Index, Paged, SHARDS_LARGE};

/// A chunk holds 1 MiB; a place is a chunk's number and an offset in 32 bits.
const CHUNK_BITS: u32 = 20;
const CHUNK_BYTES: usize = 1 << CHUNK_BITS;
/// All the text there can be: 4,095 full chunks.
pub(crate) const TEXT_BYTES_MAX: u64 = ((1 << (32 - CHUNK_BITS)) - 1) << CHUNK_BITS;

/// The number of a level's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelId(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Levels {
    hash: FixedState,
    chunks: Vec<String>,
    /// Where each level begins.
    places: Paged<u32>,
    index: Index,
    text_bytes: u64,
}

impl Levels {
    pub(crate) fn new(hash: FixedState) -> Levels {
        Levels { hash, chunks: Vec::new(), places: Paged::new(), index: Index::new(SHARDS_LARGE), text_bytes: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.places.len()
    }

    /// The bytes of all texts, with what was left unused at the end of chunks.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    pub(crate) fn text(&self, LevelId(number): LevelId) -> &str {
        text(&self.chunks, &self.places, number)
    }

    pub(crate) fn find(&self, level: &str) -> Option<LevelId> {
        self.index.find(self.hash.hash_one(level), |number| self.text(LevelId(number)) == level).map(LevelId)
    }

    /// Finds a level or adds it. The caller has seen to it that there is room.
    pub(crate) fn find_or_add(&mut self, level: &str) -> LevelId {
        if let Some(known) = self.find(level) {
            return known;
        }
        // A place is always inside its chunk, also that of an empty level.
        if self.chunks.last().is_none_or(|chunk| chunk.len() + level.len() >= CHUNK_BYTES) {
            if let Some(last) = self.chunks.last_mut() {
                last.shrink_to_fit();
                self.text_bytes += (CHUNK_BYTES - last.len()) as u64;
            }
            self.chunks.push(String::new());
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        assert!(number < 1 << (32 - CHUNK_BITS), "level text is full");
        let id = self.places.push((number as u32) << CHUNK_BITS | chunk.len() as u32);
        chunk.push_str(level);
        self.text_bytes += level.len() as u64;
        let Levels { hash, chunks, places, index, .. } = self;
        index.insert(hash.hash_one(level), id, |number| hash.hash_one(text(chunks, places, number)));
        LevelId(id)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let text: usize = self.chunks.iter().map(String::capacity).sum();
        text + self.chunks.capacity() * size_of::<String>() + self.places.memory_bytes() + self.index.memory_bytes()
    }
}

fn text<'a>(chunks: &'a [String], places: &Paged<u32>, number: u32) -> &'a str {
    let place = places[number];
    let chunk = &chunks[(place >> CHUNK_BITS) as usize];
    let begin = place as usize % CHUNK_BYTES;
    let end = match places.get(number + 1) {
        Some(&next) if next >> CHUNK_BITS == place >> CHUNK_BITS => next as usize % CHUNK_BYTES,
        _ => chunk.len(),
    };
    &chunk[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_keep_their_text_across_chunks() {
        let mut levels = Levels::new(FixedState::with_seed(1));
        let long = "ü".repeat(400);
        let text = |number: u32| {
            if number == 700 { String::new() } else { format!("{long}{number}") }
        };
        for number in 0..4_000 {
            assert_eq!(levels.find(&text(number)), None);
            assert_eq!(levels.find_or_add(&text(number)), LevelId(number));
        }
        assert!(levels.chunks.len() > 2);
        for number in 0..4_000 {
            assert_eq!(levels.text(LevelId(number)), text(number));
            assert_eq!(levels.find_or_add(&text(number)), LevelId(number));
        }
        assert_eq!(levels.len(), 4_000);
        assert!(levels.memory_bytes() as u64 > levels.text_bytes());
    }

    #[test]
    fn an_empty_level_at_the_end_of_a_chunk_is_empty() {
        let mut levels = Levels::new(FixedState::with_seed(1));
        let filler = "x".repeat(CHUNK_BYTES - 1);
        levels.find_or_add(&filler);
        for text in ["x", "", "next"] {
            let id = levels.find_or_add(text);
            assert_eq!(levels.text(id), text);
        }
        assert_eq!(levels.text(LevelId(0)), filler);
    }
}
