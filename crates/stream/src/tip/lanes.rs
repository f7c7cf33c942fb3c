//! A cursor's places in the nodes its selection wants, and gathering what they have in a stretch.
//!
//! ```text
//! slots    [ 71 ][ 902 ][ 75 ][ 3341 ]…      the next entry of each lane
//! gather 70..80:   lanes 0 and 2 are visited, their entries below 80 taken
//!          set of slots or sort  ──▶  71 75 78 79  ──▶  delivered, or kept in `rest` for the next read
//! ```
//!
//! A *lane* is one node's place: its key, an address and a slot, 12 bytes. A lane is visited only in stretches where it
//! has an entry: the array of slots tells, and to look through it costs a fraction of a visit. What was gathered and
//! did not fit the read is kept as slots, no more than 4 bytes a lane and 4 KiB a cursor. That lets a gather take enough
//! entries to be worth its while, whatever the read still has room for.
//!
//! docs/decisions/merge.md compares this with merging lane against lane.

use std::ops::Range;
use std::sync::atomic::Ordering;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Selector;
use super::index::{Changed, Index, Look, Place};
use super::pool::Address;
use super::runs::{Runs, SlotSet, sort_slots};
use super::words::{Key, slot_of, topic_of};

/// A gather goes for this many messages at least …
const GATHER_MESSAGES_MIN: u64 = 512;
/// … and for so many a lane, as far as they may be kept: a visit costs as much as a few entries.
const GATHER_MESSAGES_PER_LANE: u64 = 4;
/// … but tests about so many entries at most: where few of them are wanted a gather ends before it has found enough.
const GATHER_TESTED_MAX: u64 = 1 << 14;
/// A gather goes through so many slots at least.
const GATHER_SLOTS_MIN: u64 = 64;
/// Runs kept from one read to the next, besides one for two lanes: 4 KiB, and 4 bytes a lane.
const REST_RUNS_MAX: usize = 512;
/// A set of slots is no wider than this, so that it takes 128 KiB.
const SET_SLOTS_MAX: u64 = 1 << 20;
/// Fewer entries than one in this many slots are sorted rather than put into a set: each would touch a cache line of
/// its own.
const SLOTS_PER_ENTRY_MAX: u64 = 128;
/// Lanes whose slots are compared at once.
const LANES_AT_ONCE: usize = 16;
/// Lanes that are visited together, about: their entries stay in the first cache from when they are asked for.
const VISITS_AT_ONCE: usize = 64;
/// Lanes whose entries are counted to estimate those of all.
const SAMPLE_LANES: usize = 64;
/// Slots are told apart while they are less than 2^31 apart; places older than half of that are found anew.
const PLACE_AGE_MAX: u64 = 1 << 30;

/// How a gather's entries are brought into order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The better one.
    Chosen,
    /// Sorting: where they are few in a wide stretch.
    Sort,
    /// A set of slots.
    Set,
}

/// What a reader lends for one read.
#[derive(Default)]
pub(super) struct Scratch {
    /// Entries of one lane that are to be tested.
    words: Vec<u64>,
    /// What was found, as slots counted from where the gather began: in one or the other.
    slots: Vec<u32>,
    set: SlotSet,
    /// The other side when slots are sorted.
    spare: Vec<u32>,
    /// What was found, in order.
    pub(super) runs: Runs,
}

/// What a gather came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gathered {
    /// Entries looked at.
    pub(super) tested: u64,
    /// Entries wanted.
    found: u64,
}

/// A gather under way.
struct Visits<'a> {
    index: &'a Index,
    look: Look,
    from: u64,
    to: u64,
    /// What is found goes to the set rather than the list.
    in_set: bool,
    lanes: usize,
    gathered: Gathered,
}

impl Visits<'_> {
    /// Takes a lane's entries of the stretch; all are wanted.
    #[inline]
    fn take_whole(&mut self, place: &mut Place, scratch: &mut Scratch) -> Result<(), Changed> {
        let base = self.from as u32;
        let mut found = 0;
        if self.in_set {
            let set = &mut scratch.set;
            self.index.take(place, self.to, self.look, |word| {
                found += 1;
                set.add(slot_of(word).wrapping_sub(base));
            })?;
        } else {
            let slots = &mut scratch.slots;
            let before = slots.len();
            self.index.take(place, self.to, self.look, |word| {
                slots.push(slot_of(word).wrapping_sub(base));
            })?;
            found = (slots.len() - before) as u64;
        }
        self.gathered.tested += found;
        self.gathered.found += found;
        Ok(())
    }

    /// Takes those of a lane's entries of the stretch that the selector wants.
    fn take_wanted(
        &mut self,
        place: &mut Place,
        selector: &mut dyn Selector,
        scratch: &mut Scratch,
    ) -> Result<(), Changed> {
        let base = self.from as u32;
        let words = &mut scratch.words;
        words.clear();
        self.index.take(place, self.to, self.look, |word| words.push(word))?;
        self.gathered.tested += words.len() as u64;
        keep_wanted(words, selector);
        self.gathered.found += words.len() as u64;
        let slots = words.iter().map(|word| slot_of(*word).wrapping_sub(base));
        match self.in_set {
            true => slots.for_each(|slot| scratch.set.add(slot)),
            false => scratch.slots.extend(slots),
        }
        Ok(())
    }
}

/// A split partition's directory, as far as it was read.
#[derive(Clone, Copy)]
struct Listed {
    /// The directory's own number: another one is another list.
    directory: u32,
    seen: Address,
}

/// One cursor's lanes.
#[derive(Default)]
pub(super) struct Lanes {
    keys: Vec<Key>,
    /// An entry of the lane that was seen: the next one wanted, or the last one passed. Zero: none.
    ats: Vec<Address>,
    /// Its slot.
    slots: Vec<u32>,
    partitions_known: u32,
    has_exact: bool,
    listed: HashMap<u32, Listed, FixedState>,
    /// No entry of a lane that is below it and not gathered yet is unknown.
    known_to: u64,
    /// Everything below is gathered.
    gathered_to: u64,
    /// Gathered and not delivered, from `rest_at` on: runs of slots counted from `rest_base`.
    rest: Vec<Range<u32>>,
    rest_at: usize,
    rest_base: u64,
    /// Where the reader was when the lanes were last seated.
    seated_at: u64,
    /// The share of the slots that is found, as seen of late, and the share that is tested for that.
    density: f64,
    tested_density: f64,
}

impl Lanes {
    /// Lanes at given places.
    pub(super) fn of(keys: Vec<Key>, ats: Vec<Address>, slots: Vec<u32>) -> Lanes {
        Lanes { keys, ats, slots, seated_at: u64::MAX, ..Lanes::default() }
    }

    pub(super) fn known_to(&self) -> u64 {
        self.known_to
    }

    pub(super) fn gathered_to(&self) -> u64 {
        self.gathered_to
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    fn add(&mut self, key: Key) {
        self.keys.push(key);
        self.ats.push(0);
        self.slots.push(0);
    }

    /// Gets to know partitions and topics that came since.
    pub(super) fn discover(&mut self, index: &Index, selector: &mut dyn Selector) -> Result<(), Changed> {
        let mut partitions = Vec::new();
        self.partitions_known = selector.partitions(self.partitions_known, &mut partitions);
        for partition in partitions {
            let key = Key::partition(partition);
            let whole = selector.whole_partition(partition);
            self.add(if whole { key.whole() } else { key });
        }
        if let Some(topics) = selector.exact_topics() {
            if !self.has_exact {
                let mut topics = topics.to_vec();
                topics.sort_unstable();
                topics.dedup();
                topics.into_iter().for_each(|topic| self.add(Key::topic(topic).whole()));
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
        for lane in 0..self.keys.len() {
            let Some(partition) = self.keys[lane].as_partition() else {
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
            for topic in fresh {
                if selector.selects(topic) {
                    self.add(Key::topic(topic).whole());
                }
            }
        }
        Ok(())
    }

    /// The share of all entries that lie in the lanes, by a sample.
    pub(super) fn density(&self, index: &Index) -> f64 {
        let step = self.keys.len().div_ceil(SAMPLE_LANES).max(1);
        let sample = self.keys.iter().step_by(step);
        let entries: u64 = sample.map(|key| u64::from(index.entries_of(*key))).sum();
        let all = index.entries.load(Ordering::Relaxed).max(1);
        ((entries * step as u64) as f64 / all as f64).min(1.0)
    }

    /// Forgets what lies ahead: the reader goes on another way. The places stay, unless they are ahead of the reader.
    pub(super) fn leave(&mut self) {
        if !self.rest.is_empty() {
            self.ats.fill(0);
        }
        self.known_to = 0;
        self.gathered_to = 0;
        self.rest.clear();
        self.rest_at = 0;
    }

    /// Frees what only a reader under way needs.
    pub(super) fn shrink(&mut self) {
        if self.rest_at == self.rest.len() {
            self.rest = Vec::new();
            self.rest_at = 0;
        }
    }

    /// Seats every lane at `from`, to gather up to `to`.
    pub(super) fn turn(&mut self, index: &Index, (from, to): (u64, u64), density: f64) -> Result<(), Changed> {
        self.leave();
        if from.saturating_sub(self.seated_at) > PLACE_AGE_MAX {
            self.ats.fill(0);
        }
        let seated = self.seat(index, from);
        if seated.is_err() {
            // Where a place got to may be memory of another node's.
            self.ats.fill(0);
            return seated;
        }
        self.seated_at = from;
        self.known_to = to;
        self.gathered_to = from;
        self.density = density;
        self.tested_density = density;
        Ok(())
    }

    fn seat(&mut self, index: &Index, from: u64) -> Result<(), Changed> {
        let look = index.look()?;
        if from < look.oldest {
            return Err(Changed);
        }
        let lanes = self.keys.iter().zip(&mut self.ats).zip(&mut self.slots);
        for ((key, at), slot) in lanes {
            let mut place = Place { at: *at, slot: *slot };
            index.seat(*key, &mut place, from, look)?;
            // A lane that has nothing lies behind.
            *slot = if place.at == 0 { (from as u32).wrapping_sub(1) } else { place.slot };
            *at = place.at;
        }
        index.holds(look)
    }

    /// What was gathered before and not delivered: runs of slots counted from the base.
    pub(super) fn rest(&self) -> (u64, &[Range<u32>]) {
        (self.rest_base, &self.rest[self.rest_at..])
    }

    /// So many runs of the rest were delivered.
    pub(super) fn pass_rest(&mut self, runs: usize) {
        self.rest_at += runs;
        if self.rest_at == self.rest.len() {
            self.rest.clear();
            self.rest_at = 0;
        }
    }

    /// Keeps runs, counted from `base`, for the next read. What is more than may be kept is let go of: it is gathered
    /// again, from places found anew.
    pub(super) fn keep(&mut self, base: u64, runs: &[Range<u32>]) {
        assert!(self.rest.is_empty(), "the rest is delivered first");
        let most = REST_RUNS_MAX + self.keys.len() / 2;
        let kept = &runs[..runs.len().min(most)];
        self.rest.extend_from_slice(kept);
        self.rest_at = 0;
        self.rest_base = base;
        if let (Some(last), true) = (kept.last(), kept.len() < runs.len()) {
            self.gathered_to = base + u64::from(last.end);
            // The lanes stand further on: they are seated again where the rest ends.
            self.known_to = self.gathered_to;
            self.ats.fill(0);
        }
    }

    /// Gathers on, below `limit`, about as many messages as `wanted` or some more, into `scratch.runs`, counted from where
    /// it began. There is no rest from before; what is not delivered now is to be kept. If it fails, the lanes are to be
    /// turned again.
    pub(super) fn gather(
        &mut self,
        index: &Index,
        selector: &mut dyn Selector,
        (limit, wanted): (u64, u64),
        order: Order,
        scratch: &mut Scratch,
    ) -> Result<Gathered, Changed> {
        assert!(self.rest.is_empty(), "the rest is delivered first");
        let from = self.gathered_to;
        let to = self.stretch_to(from, limit.min(self.known_to), wanted);
        let look = index.look()?;
        if from < look.oldest {
            return Err(Changed);
        }
        let width = to - from;
        let expected = (self.density * width as f64) as u64;
        let is_dense = match order {
            Order::Chosen => expected * SLOTS_PER_ENTRY_MAX >= width,
            Order::Sort => false,
            Order::Set => true,
        };
        let mut visits = Visits {
            index,
            look,
            from,
            to,
            // A lane by itself is in order.
            in_set: is_dense && width <= SET_SLOTS_MAX && self.keys.len() > 1,
            lanes: 0,
            gathered: Gathered::default(),
        };
        scratch.slots.clear();
        if visits.in_set {
            scratch.set.fit(width);
        }
        let visited = self.visit(&mut visits, selector, scratch);
        if visited.and_then(|()| index.holds(look)).is_err() {
            scratch.set.clear();
            self.ats.fill(0);
            self.leave();
            return Err(Changed);
        }
        let gathered = visits.gathered;
        self.density += (gathered.found as f64 / width as f64 - self.density) / 4.0;
        self.tested_density += (gathered.tested as f64 / width as f64 - self.tested_density) / 4.0;
        self.gathered_to = match gathered.tested {
            0 => self.next_entry(to).min(limit),
            _ => to,
        };
        scratch.runs.clear();
        if visits.in_set {
            scratch.set.drain(|run| scratch.runs.push_run(run));
        } else {
            if visits.lanes > 1 {
                sort_slots(&mut scratch.slots, &mut scratch.spare, width);
            }
            scratch.slots.iter().for_each(|slot| scratch.runs.push(*slot));
        }
        Ok(gathered)
    }

    /// Where a gather for so many messages should end.
    fn stretch_to(&self, from: u64, limit: u64, wanted: u64) -> u64 {
        let lanes = self.keys.len() as u64;
        // A little less than may be kept: the density is an estimate.
        let room = (REST_RUNS_MAX as u64 + lanes / 2) * 3 / 4;
        let worth = GATHER_MESSAGES_MIN.max(lanes * GATHER_MESSAGES_PER_LANE);
        let messages = wanted.max(worth).min(wanted + room);
        let by_found = messages as f64 / self.density.max(1e-9);
        let by_tested = GATHER_TESTED_MAX as f64 / self.tested_density.max(1e-9);
        let mut slots = (by_found.min(by_tested) as u64).max(GATHER_SLOTS_MIN);
        if self.density * SLOTS_PER_ENTRY_MAX as f64 >= 1.0 {
            slots = slots.min(SET_SLOTS_MAX);
        }
        limit.min(from.saturating_add(slots)).max(from + 1)
    }

    /// Visits the lanes whose next entry lies in the stretch, a few at a time.
    fn visit(
        &mut self,
        visits: &mut Visits,
        selector: &mut dyn Selector,
        scratch: &mut Scratch,
    ) -> Result<(), Changed> {
        let base = visits.from as u32;
        let width = (visits.to - visits.from).min(u64::from(u32::MAX)) as u32;
        let is_in = |slot: &u32| slot.wrapping_sub(base) < width;
        let mut chosen = [0; VISITS_AT_ONCE + LANES_AT_ONCE];
        let mut count = 0;
        for from in (0..self.slots.len()).step_by(LANES_AT_ONCE) {
            let to = self.slots.len().min(from + LANES_AT_ONCE);
            let slots = &self.slots[from..to];
            if !slots.iter().fold(false, |any, slot| any | is_in(slot)) {
                continue;
            }
            for (lane, slot) in (from..).zip(slots) {
                chosen[count] = lane as u32;
                count += usize::from(is_in(slot));
            }
            if count >= VISITS_AT_ONCE {
                self.visit_some(&chosen[..count], visits, selector, scratch)?;
                count = 0;
            }
        }
        self.visit_some(&chosen[..count], visits, selector, scratch)
    }

    fn visit_some(
        &mut self,
        chosen: &[u32],
        visits: &mut Visits,
        selector: &mut dyn Selector,
        scratch: &mut Scratch,
    ) -> Result<(), Changed> {
        // All entries are asked for before the first is looked at: memory fetches them side by side.
        let entries = chosen.iter().map(|lane| visits.index.peek(self.ats[*lane as usize]));
        std::hint::black_box(entries.fold(0, |all, word| all ^ word));
        for lane in chosen {
            let lane = *lane as usize;
            let mut place = Place { at: self.ats[lane], slot: self.slots[lane] };
            match self.keys[lane].is_whole() {
                true => visits.take_whole(&mut place, scratch)?,
                false => visits.take_wanted(&mut place, selector, scratch)?,
            }
            self.ats[lane] = place.at;
            self.slots[lane] = place.slot;
        }
        visits.lanes += chosen.len();
        Ok(())
    }

    /// The slot of the next entry of any lane at or above `from`; `known_to` if there is none below.
    fn next_entry(&self, from: u64) -> u64 {
        let base = from as u32;
        let nearest = self.slots.iter().fold(u32::MAX, |least, slot| least.min(slot.wrapping_sub(base)));
        self.known_to.min(from + u64::from(nearest)).max(from)
    }
}

/// Takes out the words whose topics the selector does not want.
fn keep_wanted(words: &mut Vec<u64>, selector: &mut dyn Selector) {
    let mut topics = [0; 64];
    let (mut at, mut kept) = (0, 0);
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
