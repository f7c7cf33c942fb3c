//! Bringing the entries of many index nodes into one order: what the tip does, and its rivals, as rows of one benchmark.
//!
//! Two families. *Lane against lane*: a heap or a tree of the lanes' next entries, one entry (or one run) comes out at a
//! time. *Stretch by stretch*: the wheel says which lanes have an entry in the next stretch, all of theirs are taken
//! and brought into order together (lanes.rs). Either stops after any message and goes on from there.
//!
//! docs/decisions/merge.md has the figures and why the tip goes stretch by stretch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::sync::Arc;

use super::index::{Index, IndexWriter, Place};
use super::lanes::{Lanes, Order, Scratch};
use super::pool::Address;
use super::runs::Runs;
use super::words::{Key, ahead};
use super::{PartitionId, Selector, TipConfig};

/// Index nodes filled for a measurement, some of them selected.
pub struct MergeField {
    index: Arc<Index>,
    keys: Vec<Key>,
    from: u64,
    to: u64,
    /// Entries in the selected nodes.
    selected: u64,
    _writer: IndexWriter,
}

impl MergeField {
    /// Puts slot after slot into the node each belongs to; the first `selected` nodes are selected.
    pub fn new(nodes: impl Iterator<Item = u32>, selected: u32) -> MergeField {
        let config = TipConfig { pool_bytes_max: 1 << 30, split_entries_min: u32::MAX, ..TipConfig::default() };
        let (mut writer, index) = IndexWriter::new(&config);
        let from = 1 << 33;
        writer.begin_chunk(from);
        let mut to = from;
        let mut count = 0;
        for node in nodes {
            let fits = writer.push(to, node + 1, PartitionId(node));
            assert!(fits, "a pool of 1 GiB holds the nodes of a measurement");
            count += u64::from(node < selected);
            to += 1;
        }
        writer.tell();
        let keys = (0..selected).map(|node| Key::partition(PartitionId(node)).whole());
        MergeField { index, keys: keys.collect(), from, to, selected: count, _writer: writer }
    }

    /// Entries in the selected nodes.
    pub fn selected(&self) -> u64 {
        self.selected
    }

    /// The first entry of every selected node that has one: where every way begins.
    pub fn seated(&self) -> Seated {
        let (mut keys, mut places, mut heads) = (Vec::new(), Vec::new(), Vec::new());
        let look = self.index.look().expect("nothing is evicted in a measurement");
        for key in &self.keys {
            let mut place = Place::default();
            let seated = self.index.seat(*key, &mut place, self.from, look);
            if seated.expect("nothing is evicted in a measurement") {
                let slot = ahead(place.slot, self.from) as u32;
                heads.push((slot, places.len() as u32));
                places.push(place);
                keys.push(*key);
            }
        }
        Seated {
            keys,
            ats: places.iter().map(|place: &Place| place.at).collect(),
            slots: places.iter().map(|place| place.slot).collect(),
            places,
            heads,
        }
    }

    /// The lane's next entry.
    fn step(&self, place: &mut Place) -> Option<u32> {
        let next = self.index.step(place);
        next.then(|| ahead(place.slot, self.from) as u32)
    }
}

/// Where the selected nodes begin.
pub struct Seated {
    keys: Vec<Key>,
    places: Vec<Place>,
    /// The same places, as the lanes have them.
    ats: Vec<Address>,
    slots: Vec<u32>,
    /// Slot, counted from the field's first, and lane.
    heads: Vec<(u32, u32)>,
}

/// One way to bring the selected nodes' entries into order, slice by slice.
pub trait Merge {
    /// What it is.
    fn name(&self) -> &'static str;

    /// Begins at the first entry.
    fn begin(&mut self, field: &MergeField, seated: Seated);

    /// Appends the next slots, counted from the field's first, `slots_max` at most. False when there are no more.
    fn slice(&mut self, field: &MergeField, slots_max: u64, out: &mut Runs) -> bool;
}

/// All ways; the first is the baseline, the last is what the tip does.
pub fn merges() -> Vec<Box<dyn Merge>> {
    vec![
        Box::new(StdHeap::default()),
        Box::new(PackedHeap::default()),
        Box::new(WideHeap::default()),
        Box::new(LoserTree::default()),
        Box::new(RunTree::default()),
        Box::new(ByStretch::new("stretch, sorted", Order::Sort)),
        Box::new(ByStretch::new("stretch, set of slots", Order::Set)),
        Box::new(ByStretch::new("stretch, chosen (the tip)", Order::Chosen)),
    ]
}

/// Slot and lane in one word, slot first.
fn packed((slot, lane): (u32, u32)) -> u64 {
    u64::from(slot) << 32 | u64::from(lane)
}

fn slot_of(head: u64) -> u32 {
    (head >> 32) as u32
}

fn lane_of(head: u64) -> usize {
    head as u32 as usize
}

/// No lane: above every head.
const NONE: u64 = u64::MAX;

/// The standard library's heap of pairs of slot and lane: pop, then push.
#[derive(Default)]
struct StdHeap {
    places: Vec<Place>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Merge for StdHeap {
    fn name(&self) -> &'static str {
        "std heap, pop and push"
    }

    fn begin(&mut self, _field: &MergeField, seated: Seated) {
        let Seated { places, heads, .. } = seated;
        self.places = places;
        let heads = heads.into_iter().map(|(slot, lane)| (u64::from(slot), lane));
        self.heap = heads.map(Reverse).collect();
    }

    fn slice(&mut self, field: &MergeField, slots_max: u64, out: &mut Runs) -> bool {
        for _ in 0..slots_max {
            let Some(Reverse((slot, lane))) = self.heap.pop() else {
                return false;
            };
            out.push(slot as u32);
            if let Some(next) = field.step(&mut self.places[lane as usize]) {
                self.heap.push(Reverse((u64::from(next), lane)));
            }
        }
        !self.heap.is_empty()
    }
}

/// The same heap of packed words, the top replaced in place.
#[derive(Default)]
struct PackedHeap {
    places: Vec<Place>,
    heap: BinaryHeap<Reverse<u64>>,
}

impl Merge for PackedHeap {
    fn name(&self) -> &'static str {
        "std heap, packed, replaced in place"
    }

    fn begin(&mut self, _field: &MergeField, seated: Seated) {
        let Seated { places, heads, .. } = seated;
        self.places = places;
        self.heap = heads.into_iter().map(packed).map(Reverse).collect();
    }

    fn slice(&mut self, field: &MergeField, slots_max: u64, out: &mut Runs) -> bool {
        for _ in 0..slots_max {
            let Some(mut top) = self.heap.peek_mut() else {
                return false;
            };
            let head = top.0;
            out.push(slot_of(head));
            match field.step(&mut self.places[lane_of(head)]) {
                Some(next) => top.0 = packed((next, lane_of(head) as u32)),
                None => {
                    PeekMut::pop(top);
                }
            }
        }
        !self.heap.is_empty()
    }
}

/// A heap of packed words with eight children a node: one cache line each.
#[derive(Default)]
struct WideHeap {
    places: Vec<Place>,
    heap: Vec<u64>,
}

const CHILDREN: usize = 8;

impl WideHeap {
    /// Sinks the word at the root.
    fn sink(&mut self, mut at: usize) {
        let word = self.heap[at];
        loop {
            let first = at * CHILDREN + 1;
            let last = self.heap.len().min(first + CHILDREN);
            let Some(least) = (first..last).min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if self.heap[least] >= word {
                break;
            }
            self.heap[at] = self.heap[least];
            at = least;
        }
        self.heap[at] = word;
    }
}

impl Merge for WideHeap {
    fn name(&self) -> &'static str {
        "heap of eight children, replaced in place"
    }

    fn begin(&mut self, _field: &MergeField, seated: Seated) {
        let Seated { places, heads, .. } = seated;
        self.places = places;
        self.heap = heads.into_iter().map(packed).collect();
        // Ascending order is a heap of any width.
        self.heap.sort_unstable();
    }

    fn slice(&mut self, field: &MergeField, slots_max: u64, out: &mut Runs) -> bool {
        for _ in 0..slots_max {
            let Some(head) = self.heap.first().copied() else {
                return false;
            };
            out.push(slot_of(head));
            match field.step(&mut self.places[lane_of(head)]) {
                Some(next) => self.heap[0] = packed((next, lane_of(head) as u32)),
                None => {
                    self.heap.swap_remove(0);
                }
            }
            if !self.heap.is_empty() {
                self.sink(0);
            }
        }
        !self.heap.is_empty()
    }
}

/// A tournament: each inner node keeps the loser, the winner goes up.
#[derive(Default)]
struct Tournament {
    places: Vec<Place>,
    /// `losers[1..width]` are the inner nodes; lane `l` enters at `width + l`.
    losers: Vec<u64>,
    width: usize,
    winner: u64,
}

impl Tournament {
    fn begin(&mut self, seated: Seated) {
        let Seated { places, heads, .. } = seated;
        self.width = places.len().next_power_of_two().max(2);
        self.places = places;
        let mut players = vec![NONE; 2 * self.width];
        for head in heads {
            players[self.width + head.1 as usize] = packed(head);
        }
        self.losers = vec![NONE; self.width];
        for at in (1..self.width).rev() {
            let (left, right) = (players[2 * at], players[2 * at + 1]);
            players[at] = left.min(right);
            self.losers[at] = left.max(right);
        }
        self.winner = players[1];
    }

    /// A lane's next word plays its way up.
    #[inline]
    fn replay(&mut self, lane: usize, word: u64) {
        let mut winner = word;
        let mut at = (self.width + lane) / 2;
        while at > 0 {
            let loser = self.losers[at];
            self.losers[at] = loser.max(winner);
            winner = winner.min(loser);
            at /= 2;
        }
        self.winner = winner;
    }

    /// The best word of the other lanes than the winner's.
    fn runner_up(&self) -> u64 {
        let mut best = NONE;
        let mut at = (self.width + lane_of(self.winner)) / 2;
        while at > 0 {
            best = best.min(self.losers[at]);
            at /= 2;
        }
        best
    }
}

/// A loser tree of packed words.
#[derive(Default)]
struct LoserTree(Tournament);

impl Merge for LoserTree {
    fn name(&self) -> &'static str {
        "loser tree"
    }

    fn begin(&mut self, _field: &MergeField, seated: Seated) {
        self.0.begin(seated);
    }

    fn slice(&mut self, field: &MergeField, slots_max: u64, out: &mut Runs) -> bool {
        let tree = &mut self.0;
        for _ in 0..slots_max {
            if tree.winner == NONE {
                return false;
            }
            out.push(slot_of(tree.winner));
            let lane = lane_of(tree.winner);
            let next = field.step(&mut tree.places[lane]);
            tree.replay(lane, next.map_or(NONE, |next| packed((next, lane as u32))));
        }
        tree.winner != NONE
    }
}

/// A loser tree that lets the winner run until it meets the runner-up.
#[derive(Default)]
struct RunTree(Tournament);

impl Merge for RunTree {
    fn name(&self) -> &'static str {
        "loser tree, copies runs"
    }

    fn begin(&mut self, _field: &MergeField, seated: Seated) {
        self.0.begin(seated);
    }

    fn slice(&mut self, field: &MergeField, slots_max: u64, out: &mut Runs) -> bool {
        let tree = &mut self.0;
        let mut left = slots_max;
        while left > 0 {
            if tree.winner == NONE {
                return false;
            }
            let lane = lane_of(tree.winner);
            let limit = tree.runner_up();
            let mut head = tree.winner;
            while left > 0 && head < limit {
                out.push(slot_of(head));
                left -= 1;
                let next = field.step(&mut tree.places[lane]);
                head = next.map_or(NONE, |next| packed((next, lane as u32)));
            }
            tree.replay(lane, head);
        }
        tree.winner != NONE
    }
}

/// Lanes of a measurement are wanted whole: nobody is asked.
struct Whole;

impl Selector for Whole {
    fn selects(&mut self, _topic: u32) -> bool {
        true
    }

    fn everything(&self) -> bool {
        false
    }

    fn partitions(&mut self, from_count: u32, _out: &mut Vec<PartitionId>) -> u32 {
        from_count
    }

    fn exact_topics(&self) -> Option<&[u32]> {
        None
    }
}

/// What the tip does, its order chosen or given.
struct ByStretch {
    name: &'static str,
    order: Order,
    lanes: Lanes,
    scratch: Scratch,
    density: f64,
    /// Everything below it was put out.
    next: u64,
}

impl ByStretch {
    fn new(name: &'static str, order: Order) -> ByStretch {
        ByStretch { name, order, lanes: Lanes::default(), scratch: Scratch::default(), density: 0.0, next: 0 }
    }
}

impl Merge for ByStretch {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&mut self, field: &MergeField, seated: Seated) {
        self.lanes = Lanes::of(seated.keys, seated.ats, seated.slots);
        self.next = field.from;
        self.density = field.selected as f64 / (field.to - field.from) as f64;
        let turned = self.lanes.turn(&field.index, (field.from, field.to), self.density);
        turned.expect("nothing is evicted in a measurement");
    }

    fn slice(&mut self, field: &MergeField, slots_max: u64, out: &mut Runs) -> bool {
        let mut part = Part { from: field.from, next: self.next, left: slots_max, out };
        let (base, rest) = self.lanes.rest();
        let mut whole = part.put(base, rest);
        let mut goes_on = whole < rest.len();
        self.lanes.pass_rest(whole);
        while !goes_on && part.left > 0 && self.lanes.gathered_to() < field.to {
            let from = self.lanes.gathered_to();
            if from == self.lanes.known_to() {
                let turned = self.lanes.turn(&field.index, (from, field.to), self.density);
                turned.expect("nothing is evicted in a measurement");
            }
            let (ahead, scratch) = ((field.to, part.left), &mut self.scratch);
            let lanes = &mut self.lanes;
            let gathered = lanes.gather(&field.index, &mut Whole, ahead, self.order, scratch);
            gathered.expect("nothing is evicted in a measurement");
            let runs = scratch.runs.as_slice();
            whole = part.put(from, runs);
            goes_on = whole < runs.len();
            lanes.keep(from, &runs[whole..]);
        }
        self.next = part.next;
        goes_on || self.lanes.gathered_to() < field.to
    }
}

/// What a slice still takes.
struct Part<'a> {
    from: u64,
    /// Everything below it was put out.
    next: u64,
    left: u64,
    out: &'a mut Runs,
}

impl Part<'_> {
    /// Puts out what still fits of runs counted from `base`; how many of them are through.
    fn put(&mut self, base: u64, runs: &[Range<u32>]) -> usize {
        for (at, run) in runs.iter().enumerate() {
            let start = (base + u64::from(run.start)).max(self.next);
            let end = base + u64::from(run.end);
            self.next = end.min(start + self.left);
            self.left -= self.next - start;
            let to = (self.next - self.from) as u32;
            self.out.push_run((start - self.from) as u32..to);
            if self.next < end {
                return at;
            }
        }
        runs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_same_order_whatever_the_slices() {
        let mut seed = 7u64;
        let cases = [(3, 1, 500), (40, 7, 5000), (900, 300, 6000), (5, 5, 64), (30_000, 1000, 30_000)];
        for (nodes, selected, slots) in cases {
            let mut chosen = Vec::new();
            for _ in 0..slots {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                chosen.push((seed >> 33) as u32 % nodes);
            }
            let field = MergeField::new(chosen.iter().copied(), selected);
            let mut expected = Runs::default();
            for (slot, node) in chosen.iter().enumerate() {
                if *node < selected {
                    expected.push(slot as u32);
                }
            }
            assert_eq!(field.selected(), expected.slots());
            for slots_max in [1, 7, 100, u64::from(u32::MAX)] {
                for mut merge in merges() {
                    let mut got = Runs::default();
                    merge.begin(&field, field.seated());
                    let mut before = 0;
                    while merge.slice(&field, slots_max, &mut got) {
                        let slice = got.slots() - before;
                        before = got.slots();
                        assert!(slice <= slots_max, "{}: a slice of {slice}", merge.name());
                    }
                    assert!(got == expected, "{} in slices of {slots_max}", merge.name());
                }
            }
        }
    }
}
