//! One file of the simulated disk: what the page cache shows and what the device holds.
//!
//! ```text
//! now      |################################----|   what every read sees
//! pending   w1      w2   cut   w3                    changes since the last sync, in order
//! durable  |################????####|               what a crash leaves, once the dice are thrown
//! owed       sector 16: [bytes of a write the device never got]
//! ```
//!
//! Writing back goes by sectors, for that is what a device does at once. A sector holds the bytes of one
//! moment: if a write reached a sector, then so did every earlier write to that sector. Length changes
//! of one file keep their order; data and length are independent, so zeros may appear where an append
//! was lost.
//!
//! A failed sync throws the dice too, and marks what was lost as clean: it stays visible to reads, is
//! *owed* to the device, and no later sync brings it there, unless its sector is written again.

use std::collections::BTreeMap;
use std::ops::Range;

use super::rng::{Mood, Rng};

/// What a device writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

#[derive(Debug, Clone, Default)]
pub struct FileNode {
    now: Vec<u8>,
    /// May be longer than the length that is durable: bytes arrived, their length did not.
    durable: Vec<u8>,
    durable_len: usize,
    pending: Vec<Change>,
    /// By sector, oldest first.
    owed: BTreeMap<usize, Vec<Fragment>>,
    /// Names that lead here now.
    pub links: u32,
    /// Handles that are open.
    pub opens: u32,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8>, lengthens_to: Option<usize> },
    SetLen { from: usize, to: usize },
}

/// A part of one sector.
#[derive(Debug, Clone)]
struct Fragment {
    offset: usize,
    bytes: Vec<u8>,
}

/// What becomes of one change.
struct Fate {
    sectors: Sectors,
    length: bool,
}

enum Sectors {
    All,
    None,
    Some(Rng),
}

impl FileNode {
    /// An empty file that has one name.
    pub fn named() -> Self {
        FileNode { links: 1, ..FileNode::default() }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.now
    }

    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        let lengthens_to = (end > self.now.len()).then_some(end);
        overwrite(&mut self.now, offset, bytes);
        self.pending.push(Change::Write { offset, bytes: bytes.to_vec(), lengthens_to });
    }

    pub fn set_len(&mut self, to: usize) {
        let from = self.now.len();
        if from != to {
            self.now.resize(to, 0);
            self.pending.push(Change::SetLen { from, to });
        }
    }

    /// Turns one bit over, in the cache and on the device, and nobody is told.
    pub fn flip(&mut self, offset: usize, bit: u8) -> bool {
        let Some(byte) = self.now.get_mut(offset) else {
            return false;
        };
        *byte ^= 1 << bit;
        // A write on its way to this place carries the turned bit, or it would turn back.
        for change in &mut self.pending {
            if let Change::Write { offset: start, bytes, .. } = change
                && let Some(byte) = offset.checked_sub(*start).and_then(|at| bytes.get_mut(at))
            {
                *byte ^= 1 << bit;
            }
        }
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte ^= 1 << bit;
        }
        true
    }

    /// A sync that works: everything is durable, but for what an earlier failed sync owes.
    pub fn sync(&mut self) {
        self.write_back(None);
        // The length is not data: it was never owed.
        self.durable_len = self.now.len();
        self.durable.resize(self.durable_len, 0);
    }

    /// A sync that fails: some of it is durable, nobody knows what, and all of it counts as clean.
    pub fn sync_failed(&mut self, rng: &mut Rng) {
        self.write_back(Some(rng));
    }

    /// What is left of the file after a crash.
    pub fn crash(&mut self, rng: &mut Rng) {
        self.write_back(Some(rng));
        self.owed.clear();
        self.durable.resize(self.durable_len, 0);
        self.now.clone_from(&self.durable);
        self.opens = 0;
    }

    /// Carries the pending changes to the device: all of them, or what the dice leave.
    fn write_back(&mut self, dice: Option<&mut Rng>) {
        let changes = std::mem::take(&mut self.pending);
        let mut fates = fates(&changes, dice);
        // A length that is durable makes the lengths before it durable.
        let lengths_kept = fates.iter().rposition(|fate| fate.length).map_or(0, |at| at + 1);
        for (at, change) in changes.iter().enumerate() {
            let length_kept = at < lengths_kept;
            match change {
                Change::Write { offset, bytes, lengthens_to } => {
                    self.write_back_sectors(*offset, bytes, &mut fates[at].sectors);
                    if let (true, Some(to)) = (length_kept, *lengthens_to) {
                        self.durable_len = to;
                    }
                }
                Change::SetLen { from, to } => {
                    if to < from {
                        self.write_back_cut(*from, *to, length_kept);
                    }
                    if length_kept {
                        self.durable_len = *to;
                    }
                }
            }
        }
    }

    fn write_back_sectors(&mut self, offset: usize, bytes: &[u8], sectors: &mut Sectors) {
        if self.owed.is_empty() && matches!(sectors, Sectors::All) {
            return overwrite(&mut self.durable, offset, bytes);
        }
        for (sector, range) in by_sector(offset..offset + bytes.len()) {
            let part = &bytes[range.start - offset..range.end - offset];
            let kept = match sectors {
                Sectors::All => true,
                Sectors::None => false,
                Sectors::Some(rng) => rng.coin(),
            };
            if kept {
                // The sector as it was in the cache at that moment: older bytes go with it.
                for fragment in self.owed.remove(&sector).unwrap_or_default() {
                    overwrite(&mut self.durable, fragment.offset, &fragment.bytes);
                }
                overwrite(&mut self.durable, range.start, part);
            } else {
                let fragment = Fragment { offset: range.start, bytes: part.to_vec() };
                self.owed.entry(sector).or_default().push(fragment);
            }
        }
    }

    fn write_back_cut(&mut self, from: usize, to: usize, kept: bool) {
        if kept {
            self.durable.truncate(to);
            self.owed.split_off(&to.div_ceil(SECTOR_BYTES));
            for fragment in self.owed.get_mut(&(to / SECTOR_BYTES)).into_iter().flatten() {
                fragment.bytes.truncate(to.saturating_sub(fragment.offset));
            }
        } else {
            // The cache shows zeros where the device still has the old bytes.
            for (sector, range) in by_sector(to..from) {
                let fragment = Fragment { offset: range.start, bytes: vec![0; range.len()] };
                self.owed.entry(sector).or_default().push(fragment);
            }
        }
    }
}

/// One fate for each change; without dice everything is kept.
fn fates(changes: &[Change], dice: Option<&mut Rng>) -> Vec<Fate> {
    let all = |_| Fate { sectors: Sectors::All, length: true };
    let Some(rng) = dice else {
        return changes.iter().map(all).collect();
    };
    match Mood::draw(rng) {
        Mood::Kept => changes.iter().map(all).collect(),
        Mood::Lost => changes.iter().map(|_| Fate { sectors: Sectors::None, length: false }).collect(),
        Mood::Mixed => {
            let draw = |_| match rng.below(3) {
                0 => Fate { sectors: Sectors::All, length: true },
                1 => Fate { sectors: Sectors::Some(Rng::new(rng.next())), length: rng.coin() },
                _ => Fate { sectors: Sectors::None, length: rng.below(4) == 0 },
            };
            changes.iter().map(draw).collect()
        }
    }
}

/// The sectors a stretch touches, each with the part of the stretch in it.
fn by_sector(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
    sectors.map(move |sector| {
        let start = range.start.max(sector * SECTOR_BYTES);
        (sector, start..range.end.min((sector + 1) * SECTOR_BYTES))
    })
}

/// Writes into a vector that grows with zeros up to the place.
fn overwrite(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[offset..end].copy_from_slice(bytes);
}
