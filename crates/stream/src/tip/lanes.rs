//! A cursor's places in the nodes its selection wants, and gathering what they have in a stretch.
//!
//! A *lane* is one node's place: 16 bytes, all that is kept of a node between reads. The wheel says which lanes have an
//! entry in the next stretch; only those are visited. A lane whose node has nothing more is in no list: it is looked
//! at again when the wheel is turned to what was appended since.
//!
//! Entries of a stretch come lane by lane. They are brought into order by a set of slots, or by sorting where they are
//! few in a wide stretch; docs/decisions/merge.md compares that with merging lane against lane.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Selector;
use super::index::{Changed, Index, Key, Look, NodeAt, ahead, topic_of};
use super::runs::{Runs, SlotSet};
use super::wheel::Wheel;
use std::sync::atomic::Ordering;

/// Messages a stretch should hold: about a read's worth, and much more work than visiting its lanes.
const STRETCH_ENTRIES: u64 = 2048;
/// Fewer entries than one in this many slots are sorted rather than put into a set.
const SLOTS_PER_ENTRY_MAX: u64 = 512;
/// Lanes whose entries are counted to estimate those of all.
const SAMPLE_LANES: usize = 64;
/// Slots are told apart while they are less than 2^31 apart; places older than half of that are found anew.
const PLACE_AGE_MAX: u64 = 1 << 30;

/// What a reader lends for one read.
#[derive(Default)]
pub(super) struct Scratch {
    /// The lanes of a gather, each as it was before.
    visited: Vec<(u32, NodeAt)>,
    words: Vec<u64>,
    set: SlotSet,
    /// What a gather found, as slots counted from its start.
    pub(super) runs: Runs,
}

/// What to gather.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Entries that are to be expected.
    pub(super) expected: u64,
}

/// A split partition's directory, as far as it was read.
#[derive(Clone, Copy)]
struct Listed {
    /// The directory's own number: another one is another list.
    directory: u32,
    seen: u32,
}

/// One cursor's lanes.
#[derive(Default)]
pub(super) struct Lanes {
    places: Vec<NodeAt>,
    partitions_known: u32,
    has_exact: bool,
    listed: HashMap<u32, Listed, FixedState>,
    wheel: Wheel,
    /// Every entry of a lane below it and not read yet is in the wheel.
    known_to: u64,
    /// Where the reader was when the lanes were last seated.
    seated_at: u64,
    /// The stretch of the wheel a gather took out, and where the gather ended.
    taken: Option<(usize, u64)>,
}

impl Lanes {
    pub(super) fn known_to(&self) -> u64 {
        self.known_to
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Gets to know partitions and topics that came since.
    pub(super) fn discover(&mut self, index: &Index, selector: &mut dyn Selector) -> Result<(), Changed> {
        let mut partitions = Vec::new();
        self.partitions_known = selector.partitions(self.partitions_known, &mut partitions);
        for partition in partitions {
            let key = Key::partition(partition);
            let whole = selector.whole_partition(partition);
            self.places.push(NodeAt::new(if whole { key.whole() } else { key }));
        }
        if let Some(topics) = selector.exact_topics() {
            if !self.has_exact {
                let mut topics = topics.to_vec();
                topics.sort_unstable();
                topics.dedup();
                let keys = topics.iter().map(|topic| Key::topic(*topic).whole());
                self.places.extend(keys.map(NodeAt::new));
                self.has_exact = true;
            }
            return Ok(());
        }
        if index.partitions_split.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.discover_listed(index, selector)
    }

    /// Adds a lane for each wanted topic that a split partition's directory lists.
    fn discover_listed(&mut self, index: &Index, selector: &mut dyn Selector) -> Result<(), Changed> {
        let look = index.look()?;
        for lane in 0..self.places.len() {
            let Some(partition) = self.places[lane].key.as_partition() else {
                continue;
            };
            let directory = index.directory(partition);
            if directory == 0 {
                continue;
            }
            let listed = self.listed.get(&partition.0).copied();
            let seen = listed.map_or(0, |listed| listed.seen);
            if listed.is_some_and(|listed| listed.directory != directory) {
                // Split once more: what was listed then may be listed again.
                *self = Lanes::default();
                return Err(Changed);
            }
            let mut fresh = Vec::new();
            let seen = index.list(partition, seen, look, |topic| fresh.push(topic))?;
            index.holds(look)?;
            self.listed.insert(partition.0, Listed { directory, seen });
            fresh.retain(|topic| selector.selects(*topic));
            let keys = fresh.iter().map(|topic| Key::topic(*topic).whole());
            self.places.extend(keys.map(NodeAt::new));
        }
        Ok(())
    }

    /// The share of all entries that lie in the lanes, by a sample.
    pub(super) fn density(&self, index: &Index) -> f64 {
        let step = self.places.len().div_ceil(SAMPLE_LANES).max(1);
        let sample = self.places.iter().step_by(step);
        let entries: u64 = sample.map(|place| u64::from(index.entries_of(place.key))).sum();
        let all = index.entries.load(Ordering::Relaxed).max(1);
        ((entries * step as u64) as f64 / all as f64).min(1.0)
    }

    /// Forgets what is in the wheel; the places stay.
    pub(super) fn rest(&mut self) {
        self.wheel.clear();
        self.known_to = 0;
        self.taken = None;
    }

    /// Seats every lane at `from` and puts those with an entry below `to` into the wheel.
    pub(super) fn turn(&mut self, index: &Index, (from, to): (u64, u64), density: f64) -> Result<(), Changed> {
        self.rest();
        if from.saturating_sub(self.seated_at) > PLACE_AGE_MAX {
            self.places.iter_mut().for_each(|place| place.at = 0);
        }
        let expected = (density * (to - from) as f64) as u64;
        self.wheel.turn(from, to, expected / STRETCH_ENTRIES);
        let seated = self.seat(index, from, to);
        if seated.is_err() {
            // Where a place got to may be memory of another node's.
            self.places.iter_mut().for_each(|place| place.at = 0);
            return seated;
        }
        self.seated_at = from;
        self.known_to = to;
        Ok(())
    }

    fn seat(&mut self, index: &Index, from: u64, to: u64) -> Result<(), Changed> {
        let look = index.look()?;
        if from < look.oldest {
            return Err(Changed);
        }
        for lane in 0..self.places.len() {
            let place = &mut self.places[lane];
            if index.seat(place, from, look)? && ahead(place.slot, to) < 0 {
                self.wheel.put(&mut self.places, lane);
            }
        }
        index.holds(look)
    }

    /// The stretch with the next entries; none if there are no more below `known_to`.
    pub(super) fn stretch(&self) -> Option<(u64, u64)> {
        let (start, end) = self.wheel.slots(self.wheel.first()?);
        Some((start, end.min(self.known_to)))
    }

    /// Puts the wanted entries of the stretch, which lies within the wheel's next one, into `scratch.runs`. Returns how
    /// many entries were tested. Unless it fails, [`Lanes::settle`] follows before the next.
    pub(super) fn gather(
        &mut self,
        index: &Index,
        selector: &mut dyn Selector,
        stretch: Stretch,
        scratch: &mut Scratch,
    ) -> Result<u64, Changed> {
        assert!(self.taken.is_none(), "a gather is settled before the next");
        scratch.visited.clear();
        scratch.words.clear();
        scratch.runs.clear();
        let Some(next) = self.wheel.first() else {
            return Ok(0);
        };
        let look = index.look()?;
        if stretch.from < look.oldest {
            return Err(Changed);
        }
        let width = stretch.to - stretch.from;
        let is_dense = stretch.expected * SLOTS_PER_ENTRY_MAX >= width;
        scratch.set.fit(if is_dense { width } else { 0 });
        let first = self.wheel.take(next);
        let is_single = first == 0 || self.places[first as usize - 1].next == 0;
        self.taken = Some((next, stretch.to));
        let into_set = is_dense && !is_single;
        let tested = self.visit(index, selector, first, stretch, look, scratch, into_set);
        let tested = tested.and_then(|tested| index.holds(look).map(|()| tested));
        if tested.is_err() {
            scratch.set.clear();
            self.settle(scratch, true);
            return tested;
        }
        if into_set {
            scratch.set.drain(&mut scratch.runs);
        } else {
            if !is_single {
                scratch.words.sort_unstable();
            }
            for word in &scratch.words {
                scratch.runs.push((word >> 32) as u32);
            }
        }
        tested
    }

    fn visit(
        &mut self,
        index: &Index,
        selector: &mut dyn Selector,
        first: u32,
        stretch: Stretch,
        look: Look,
        scratch: &mut Scratch,
        into_set: bool,
    ) -> Result<u64, Changed> {
        let Stretch { from, to, .. } = stretch;
        // Slots counted from `from` on compare as numbers, whatever the tip's slots wrap to.
        let base = u64::from(from as u32) << 32;
        let mut tested = 0;
        let mut lane = first;
        while lane != 0 {
            let at = lane as usize - 1;
            let place = &mut self.places[at];
            lane = place.next;
            scratch.visited.push((at as u32, *place));
        }
        for visit in 0..scratch.visited.len() {
            let place = &mut self.places[scratch.visited[visit].0 as usize];
            if ahead(place.slot, from) < 0 && !index.seat(place, from, look)? {
                continue;
            }
            if ahead(place.slot, to) >= 0 {
                continue;
            }
            if into_set && place.key.is_whole() {
                let set = &mut scratch.set;
                index.take(place, to, look, |word| {
                    tested += 1;
                    set.add((word.wrapping_sub(base) >> 32) as u32);
                })?;
                continue;
            }
            let words = &mut scratch.words;
            let begin = words.len();
            index.take(place, to, look, |word| words.push(word.wrapping_sub(base)))?;
            tested += (words.len() - begin) as u64;
            if !place.key.is_whole() {
                keep_wanted(words, begin, selector);
            }
            if into_set {
                let slots = words.drain(..).map(|word| (word >> 32) as u32);
                slots.for_each(|slot| scratch.set.add(slot));
            }
        }
        Ok(tested)
    }

    /// Puts the lanes of a gather back into the wheel. If not everything it found was delivered, they stay as they were:
    /// the next gather passes over what was.
    pub(super) fn settle(&mut self, scratch: &mut Scratch, is_short: bool) {
        let Some((stretch, to)) = self.taken.take() else {
            return;
        };
        for (lane, before) in scratch.visited.drain(..) {
            let lane = lane as usize;
            if is_short {
                self.places[lane] = before;
                self.wheel.put_in(&mut self.places, lane, stretch);
                continue;
            }
            let place = &self.places[lane];
            let has_next = place.at != 0 && ahead(place.slot, to) >= 0;
            if has_next && ahead(place.slot, self.known_to) < 0 {
                self.wheel.put(&mut self.places, lane);
            }
        }
    }
}

/// Takes out the words from `begin` on whose topics the selector does not want.
fn keep_wanted(words: &mut Vec<u64>, begin: usize, selector: &mut dyn Selector) {
    let mut topics = [0; 64];
    let (mut at, mut kept) = (begin, begin);
    while at < words.len() {
        let count = (words.len() - at).min(64);
        for (topic, word) in topics.iter_mut().zip(&words[at..at + count]) {
            *topic = topic_of(*word);
        }
        let mut wanted = selector.selects_each(&topics[..count]);
        while wanted != 0 {
            words[kept] = words[at + wanted.trailing_zeros() as usize];
            kept += 1;
            wanted &= wanted - 1;
        }
        at += count;
    }
    words.truncate(kept);
}
