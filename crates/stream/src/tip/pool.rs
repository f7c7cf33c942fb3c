//! The index's memory: blocks of 1,024 words of 8 bytes from one pool with a ceiling.
//!
//! ```text
//!  block, whole            [ 1024 words                                    ]
//!  block, cut into cells   [ 16 ][ 16 ][ 16 ]…       cells of one size, a power of two
//! ```
//!
//! A large index node takes whole blocks, a small one takes cells, so that it does not pin a block of its own. A block
//! all of whose cells are free goes back to the pool. Words are atomics: readers look at them without a lock while the
//! writer goes on, and find out afterwards whether what they looked at was taken back meanwhile (index.rs).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Words in a block.
pub(super) const BLOCK_WORDS: usize = 1024;
/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = BLOCK_WORDS * 8;
/// A cell has 4 words at least, as a power of two.
pub(super) const CELL_SHIFT_MIN: u8 = 2;
/// A cell is a whole block at most, as a power of two.
pub(super) const CELL_SHIFT_MAX: u8 = 10;
const _: () = assert!(1 << CELL_SHIFT_MAX == BLOCK_WORDS);
/// A block is named in the upper 22 bits of an address.
const BLOCKS_MAX: usize = (1 << 22) - 1;
const CELLS_MAX: usize = BLOCK_WORDS >> CELL_SHIFT_MIN;
const FREE_WORDS: usize = CELLS_MAX / 64;

/// Where a word is: block and place in it. Zero is nowhere.
pub(super) type Address = u32;

type Block = Box<[AtomicU64; BLOCK_WORDS]>;

/// The blocks as readers see them. Memory once allocated stays.
pub(super) struct Blocks {
    words: Box<[OnceLock<Block>]>,
    cell_shifts: Box<[AtomicU8]>,
}

impl Blocks {
    fn new(bytes_max: usize) -> Blocks {
        let blocks = (bytes_max / BLOCK_BYTES).min(BLOCKS_MAX);
        Blocks {
            words: (0..blocks).map(|_| OnceLock::new()).collect(),
            cell_shifts: (0..blocks).map(|_| AtomicU8::new(CELL_SHIFT_MAX)).collect(),
        }
    }

    /// Words from an address to the end of its block. A chain in a cell ends before the cell does.
    #[inline]
    pub(super) fn words_from(&self, at: Address) -> &[AtomicU64] {
        let block = (at as usize / BLOCK_WORDS).wrapping_sub(1);
        match self.words.get(block).and_then(OnceLock::get) {
            Some(words) => &words[at as usize % BLOCK_WORDS..],
            None => &[],
        }
    }

    /// Words from an address to the end of its cell.
    pub(super) fn cell_from(&self, at: Address) -> &[AtomicU64] {
        let block = (at as usize / BLOCK_WORDS).wrapping_sub(1);
        let Some(words) = self.words.get(block).and_then(OnceLock::get) else {
            return &[];
        };
        let from = at as usize % BLOCK_WORDS;
        let cell_words = 1 << self.cell_shifts[block].load(Ordering::Relaxed);
        let end = (from + 1).next_multiple_of(cell_words);
        &words[from..end.min(BLOCK_WORDS)]
    }

    /// Bytes of the tables over the blocks.
    fn table_bytes(&self) -> usize {
        self.words.len() * (size_of::<OnceLock<Block>>() + 1)
    }
}

/// What the writer knows about a block.
struct BlockUse {
    /// Bit set: the cell is free.
    free: [u64; FREE_WORDS],
    free_cells: u16,
    cell_shift: u8,
    /// Its place among the blocks of its cell size that have free cells.
    listed_at: u32,
}

/// Hands out cells; the writer's.
pub(super) struct Pool {
    blocks: Arc<Blocks>,
    uses: Vec<BlockUse>,
    /// Blocks that are allocated and not in use.
    spare: Vec<u32>,
    /// By cell size: blocks with free cells.
    listed: [Vec<u32>; CELL_SHIFT_MAX as usize + 1],
    blocks_used: usize,
}

const NOT_LISTED: u32 = u32::MAX;

impl Pool {
    /// A pool that never takes more than `bytes_max` for its blocks.
    pub(super) fn new(bytes_max: usize) -> (Pool, Arc<Blocks>) {
        let blocks = Arc::new(Blocks::new(bytes_max));
        let pool = Pool {
            blocks: blocks.clone(),
            uses: Vec::new(),
            spare: Vec::new(),
            listed: Default::default(),
            blocks_used: 0,
        };
        (pool, blocks)
    }

    /// Blocks that hold a cell in use.
    pub(super) fn blocks_used(&self) -> usize {
        self.blocks_used
    }

    /// Bytes of the blocks in use and of the tables over all.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.blocks.table_bytes() + self.uses.len() * size_of::<BlockUse>();
        self.blocks_used * BLOCK_BYTES + tables
    }

    /// A zeroed cell of `1 << cell_shift` words; none at the ceiling.
    pub(super) fn take(&mut self, cell_shift: u8) -> Option<Address> {
        assert!((CELL_SHIFT_MIN..=CELL_SHIFT_MAX).contains(&cell_shift));
        let block = match self.listed[cell_shift as usize].last() {
            Some(block) => *block,
            None => self.cut_block(cell_shift)?,
        };
        let of = &mut self.uses[block as usize];
        let word = of.free.iter().position(|bits| *bits != 0).expect("it is listed");
        let cell = word * 64 + of.free[word].trailing_zeros() as usize;
        of.free[word] &= of.free[word] - 1;
        of.free_cells -= 1;
        if of.free_cells == 0 {
            self.unlist(block);
        }
        let at = ((block + 1) as usize * BLOCK_WORDS + (cell << cell_shift)) as Address;
        for word in self.blocks.cell_from(at) {
            word.store(0, Ordering::Relaxed);
        }
        Some(at)
    }

    /// Takes a cell back, by the address of its first word.
    pub(super) fn give(&mut self, at: Address) {
        let block = (at as usize / BLOCK_WORDS - 1) as u32;
        let of = &mut self.uses[block as usize];
        let cell = (at as usize % BLOCK_WORDS) >> of.cell_shift;
        let bit = 1 << (cell % 64);
        assert!(of.free[cell / 64] & bit == 0, "a cell is given back once");
        of.free[cell / 64] |= bit;
        of.free_cells += 1;
        if of.free_cells as usize == BLOCK_WORDS >> of.cell_shift {
            self.unlist(block);
            self.spare.push(block);
            self.blocks_used -= 1;
        } else if of.listed_at == NOT_LISTED {
            self.list(block);
        }
    }

    /// Cuts a spare block, or a new one, into cells.
    fn cut_block(&mut self, cell_shift: u8) -> Option<u32> {
        let block = match self.spare.pop() {
            Some(block) => block,
            None => self.new_block()?,
        };
        let cells = BLOCK_WORDS >> cell_shift;
        let of = &mut self.uses[block as usize];
        for (at, bits) in of.free.iter_mut().enumerate() {
            let here = cells.saturating_sub(at * 64).min(64);
            *bits = u64::MAX.checked_shr(64 - here as u32).unwrap_or(0);
        }
        of.free_cells = cells as u16;
        of.cell_shift = cell_shift;
        self.blocks.cell_shifts[block as usize].store(cell_shift, Ordering::Relaxed);
        self.blocks_used += 1;
        self.list(block);
        Some(block)
    }

    fn new_block(&mut self) -> Option<u32> {
        let block = self.uses.len();
        let place = self.blocks.words.get(block)?;
        place.get_or_init(|| Box::new([const { AtomicU64::new(0) }; BLOCK_WORDS]));
        self.uses.push(BlockUse {
            free: [0; FREE_WORDS],
            free_cells: 0,
            cell_shift: CELL_SHIFT_MAX,
            listed_at: NOT_LISTED,
        });
        Some(block as u32)
    }

    fn list(&mut self, block: u32) {
        let of = &mut self.uses[block as usize];
        let listed = &mut self.listed[of.cell_shift as usize];
        of.listed_at = listed.len() as u32;
        listed.push(block);
    }

    fn unlist(&mut self, block: u32) {
        let of = &mut self.uses[block as usize];
        let at = std::mem::replace(&mut of.listed_at, NOT_LISTED);
        if at == NOT_LISTED {
            return;
        }
        let listed = &mut self.listed[of.cell_shift as usize];
        listed.swap_remove(at as usize);
        if let Some(moved) = listed.get(at as usize) {
            self.uses[*moved as usize].listed_at = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_cut_into_small_cells_comes_back_whole() {
        let (mut pool, blocks) = Pool::new(2 * BLOCK_BYTES);
        let small: Vec<Address> = (0..300).map(|_| pool.take(2).unwrap()).collect();
        assert_eq!(pool.blocks_used(), 2);
        assert_eq!(pool.take(CELL_SHIFT_MAX), None, "the ceiling holds");
        let mut words: Vec<Address> = small.iter().flat_map(|at| *at..*at + 4).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 1200, "cells do not overlap");
        for at in small {
            assert_eq!(blocks.cell_from(at).len(), 4);
            assert_eq!(blocks.cell_from(at + 3).len(), 1);
            pool.give(at);
        }
        assert_eq!(pool.blocks_used(), 0);
        let whole = pool.take(CELL_SHIFT_MAX).unwrap();
        assert_eq!(blocks.cell_from(whole).len(), BLOCK_WORDS);
    }

    #[test]
    fn a_cell_handed_out_again_is_zero() {
        let (mut pool, blocks) = Pool::new(BLOCK_BYTES);
        let at = pool.take(3).unwrap();
        blocks.cell_from(at)[7].store(5, Ordering::Relaxed);
        let other = pool.take(3).unwrap();
        pool.give(at);
        assert_eq!(pool.take(3), Some(at));
        assert_eq!(blocks.cell_from(at)[7].load(Ordering::Relaxed), 0);
        pool.give(at);
        pool.give(other);
    }
}
