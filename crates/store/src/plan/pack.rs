//! Packing siblings into bundles, at a price for each bundle.
//!
//! A bundle costs (how often its items are read) × (its bytes). Siblings are sorted by bytes per read,
//! and bundles are runs of that order: readers of an item pay for the other bytes of its bundle, and
//! the other readers pay for its bytes, so what is small and often read keeps away from what is big and
//! rarely read. When every item is read equally often, runs of this order are optimal (swapping two
//! items across runs never helps); else they are a good start that `polish` works on.
//!
//! The cost of a run, (W[j] − W[i]) × (B[j] − B[i]) over prefix sums, obeys the quadrangle inequality.
//! So the best start of the last run moves to the right only, and the cheapest division is found in
//! O(n log n) with a queue of candidate starts (Hirschberg and Larmore 1987; Galil and Giancarlo 1989).

use super::{Demand, Extent, NodeId, Part, TopicTree};
use std::collections::VecDeque;

/// A sibling: a whole child, or the own messages of the node that is split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub part: Part,
    /// How often it or something in it is read.
    pub weight: f64,
    pub bytes: f64,
    /// Whether something lies below it, by which it can be split.
    splits: bool,
}

impl Item {
    pub fn whole(tree: &TopicTree, demand: &Demand, node: NodeId) -> Item {
        let part = Part { node, extent: Extent::Subtree };
        Item { part, weight: demand.all(node), bytes: tree.bytes(node) as f64, splits: !tree.is_leaf(node) }
    }

    fn own(tree: &TopicTree, demand: &Demand, node: NodeId, row: usize) -> Item {
        let part = Part { node, extent: Extent::Own };
        Item { part, weight: demand.own(node) as f64, bytes: tree.row_bytes(row) as f64, splits: false }
    }

    /// The node, if the item is one that can be split.
    pub fn inner(&self) -> Option<NodeId> {
        self.splits.then_some(self.part.node)
    }

    /// Bytes per read; what nobody reads comes last.
    pub fn density(&self) -> f64 {
        if self.weight > 0.0 { self.bytes / self.weight } else { f64::INFINITY }
    }
}

/// What a split node is split into, by bytes per read.
pub(super) fn items_of(tree: &TopicTree, demand: &Demand, node: NodeId) -> Vec<Item> {
    let own = tree.row(node).map(|row| Item::own(tree, demand, node, row));
    let mut items: Vec<Item> =
        own.into_iter().chain(tree.children(node).map(|child| Item::whole(tree, demand, child))).collect();
    sort_items(&mut items);
    items
}

pub(super) fn sort_items(items: &mut [Item]) {
    items.sort_unstable_by(|a, b| {
        a.density().total_cmp(&b.density()).then(a.bytes.total_cmp(&b.bytes)).then(a.part.cmp(&b.part))
    });
}

/// Items this cheap together, in parts of the price of a bundle, are not worth a border between them.
/// A bundle at the optimum costs about its price, so a border is placed to about 1/8 of a bundle.
const GLUE: f64 = 1.0 / 64.0;
/// Items dearer than this share of the price may stand alone while the run goes on around them.
const ALONE: [f64; 3] = [1.0, f64::INFINITY, 0.25];
/// Lists of more chunks try the first share only: one item makes little difference to them.
const CHUNKS_MANY: usize = 8192;

/// A stretch of items that is not divided: places in the sorted list.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    from: u32,
    to: u32,
    weight: f64,
    bytes: f64,
}

/// The outcome of a packing: its cost, the price of the bundles not included, and their number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    pub cost: f64,
    pub bundles: u32,
}

/// Finds the cheapest packing of one list of siblings at a time; keeps its memory between lists.
#[derive(Debug, Default)]
pub(super) struct Packer {
    price: f64,
    bytes_max: f64,
    chunks: Vec<Chunk>,
    /// The run of every chunk in the best packing, by number.
    run_of: Vec<u32>,
    // Scratch of one division: prefix sums, best cost up to here, where its last run starts.
    weights: Vec<f64>,
    bytes: Vec<f64>,
    best: Vec<f64>,
    start: Vec<u32>,
    queue: VecDeque<(u32, u32)>,
}

impl Packer {
    /// Begins a list, with bundles at this price and no larger than this where there is a choice.
    pub fn begin(&mut self, price: f64, bytes_max: f64) {
        self.price = price;
        self.bytes_max = bytes_max;
        self.chunks.clear();
    }

    /// Adds the item at a place of the sorted list; places ascend.
    pub fn push(&mut self, place: usize, item: &Item) {
        let place = place as u32;
        if let Some(last) = self.chunks.last_mut() {
            let (weight, bytes) = (last.weight + item.weight, last.bytes + item.bytes);
            if weight * bytes <= self.price * GLUE && bytes <= self.bytes_max * GLUE {
                *last = Chunk { from: last.from, to: place + 1, weight, bytes };
                return;
            }
        }
        self.chunks.push(Chunk { from: place, to: place + 1, weight: item.weight, bytes: item.bytes });
    }

    /// Finds the cheapest packing of what was pushed.
    pub fn finish(&mut self) -> Packed {
        let mut best: Option<Packed> = None;
        let mut alone_before = usize::MAX;
        let tries = if self.chunks.len() > CHUNKS_MANY { 1 } else { ALONE.len() };
        for share in &ALONE[..tries] {
            let limit = self.price * share;
            let alone = self.chunks.iter().filter(|chunk| self.stands_alone(chunk, limit)).count();
            if alone == alone_before {
                continue;
            }
            alone_before = alone;
            let packed = self.divide(limit);
            let better = best.is_none_or(|best| {
                packed.cost + self.price * f64::from(packed.bundles) < best.cost + self.price * f64::from(best.bundles)
            });
            if better {
                best = Some(packed);
                self.mark(limit);
            }
        }
        best.unwrap_or(Packed { cost: 0.0, bundles: 0 })
    }

    /// The exact packing of topics that are read once each, given by size, smallest first.
    pub fn runs_of(&mut self, sizes: &[f64], price: f64) -> Packed {
        self.begin(price, f64::INFINITY);
        let chunk = |(at, bytes): (usize, &f64)| {
            let at = at as u32;
            Chunk { from: at, to: at + 1, weight: 1.0, bytes: *bytes }
        };
        self.chunks.extend(sizes.iter().enumerate().map(chunk));
        self.divide(f64::INFINITY)
    }

    /// The bundle and the places of each chunk of the packing found last; places between that were not
    /// pushed are among them, and left to the caller, who knows them.
    pub fn runs(&self) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> + '_ {
        self.chunks.iter().zip(&self.run_of).map(|(chunk, run)| (*run, chunk.from as usize..chunk.to as usize))
    }

    fn stands_alone(&self, chunk: &Chunk, limit: f64) -> bool {
        chunk.weight * chunk.bytes > limit || chunk.bytes > self.bytes_max
    }

    /// Divides the chunks that do not stand alone into runs.
    fn divide(&mut self, limit: f64) -> Packed {
        self.weights.clear();
        self.bytes.clear();
        self.weights.push(0.0);
        self.bytes.push(0.0);
        let (mut weight, mut bytes, mut cost, mut bundles) = (0.0, 0.0, 0.0, 0);
        for chunk in &self.chunks {
            if self.stands_alone(chunk, limit) {
                cost += chunk.weight * chunk.bytes;
                bundles += 1;
            } else {
                weight += chunk.weight;
                bytes += chunk.bytes;
                self.weights.push(weight);
                self.bytes.push(bytes);
            }
        }
        let count = self.weights.len() - 1;
        self.best_runs(count);
        let mut at = count;
        while at > 0 {
            bundles += 1;
            at = self.start[at] as usize;
        }
        let runs = bundles - (self.chunks.len() - count) as u32;
        cost += self.best[count] - self.price * f64::from(runs);
        Packed { cost, bundles }
    }

    fn best_runs(&mut self, count: usize) {
        self.best.clear();
        self.start.clear();
        self.best.resize(count + 1, 0.0);
        self.start.resize(count + 1, 0);
        self.queue.clear();
        self.queue.push_back((0, 1));
        for end in 1..=count {
            while self.queue.get(1).is_some_and(|next| next.1 as usize <= end) {
                self.queue.pop_front();
            }
            let start = self.queue.front().map_or(0, |first| first.0 as usize);
            self.best[end] = self.value(start, end);
            self.start[end] = start as u32;
            self.enqueue(end, count);
        }
    }

    /// Takes the start behind `at` into the queue, from where on it beats the last one there.
    fn enqueue(&mut self, at: usize, count: usize) {
        while let Some(&(start, from)) = self.queue.back() {
            let beaten =
                from as usize > at && self.value(at, from as usize) <= self.value(start as usize, from as usize);
            if !beaten {
                break;
            }
            self.queue.pop_back();
        }
        let Some(&(start, from)) = self.queue.back() else {
            self.queue.push_back((at as u32, at as u32 + 1));
            return;
        };
        let (mut low, mut high) = ((from as usize).max(at) + 1, count + 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.value(at, middle) <= self.value(start as usize, middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        if low <= count {
            self.queue.push_back((at as u32, low as u32));
        }
    }

    fn value(&self, start: usize, end: usize) -> f64 {
        let bytes = self.bytes[end] - self.bytes[start];
        if bytes > self.bytes_max && end > start + 1 {
            return f64::INFINITY;
        }
        self.best[start] + self.price + (self.weights[end] - self.weights[start]) * bytes
    }

    /// Notes the run of every chunk, as `divide` found them.
    fn mark(&mut self, limit: f64) {
        let mut ends = vec![self.weights.len() - 1];
        while let Some(end) = ends.last().copied().filter(|end| *end > 0) {
            ends.push(self.start[end] as usize);
        }
        let runs = ends.len() as u32;
        let (mut seen, mut alone) = (0, 0);
        let mut marks = Vec::with_capacity(self.chunks.len());
        ends.pop();
        for chunk in &self.chunks {
            if self.stands_alone(chunk, limit) {
                marks.push(runs + alone);
                alone += 1;
            } else {
                if ends.last().is_some_and(|end| *end <= seen) {
                    ends.pop();
                }
                seen += 1;
                marks.push(ends.len() as u32);
            }
        }
        self.run_of = marks;
    }
}
