//! The adaptive planner's other aims: no read worse than a limit, and the lowest such limit.
//!
//! For a given limit it goes up the tree as for a sum: a node within the limit goes up whole, since that
//! never takes more stores than splitting it; any other is split, and its parts are packed into as few
//! bundles within the limit as first-fit finds. Binary search finds the lowest limit that keeps the
//! number of stores. What is left of the budget cuts where the sum gains most, which makes no read worse.

use super::bundles::Bundle;
use super::pack::{Item, items_of};
use super::polish::Polish;
use super::{Aim, Budget, Demand, Extent, NodeId, TopicTree};
use std::ops::Range;

/// Bisections of the limit; each halves its logarithm, so that 2^64 comes down to 1/1000.
const LIMIT_STEPS: u32 = 80;
const LIMIT_PRECISION: f64 = 1.001;
/// Bundles that are still open to later items.
const OPEN_MAX: usize = 24;
/// Small items are packed together up to this part of a bundle.
const STRETCH: u64 = 64;
/// Several orders of packing are tried with up to this many items.
const ORDERS_ITEMS_MAX: usize = 256;
/// So few items are packed exactly, in trees so small that the 3^n steps for n items do not matter.
const EXACT_ITEMS_MAX: usize = 8;
const EXACT_NODES_MAX: usize = 10_000;

/// The bundles for an aim, at the lowest limit the budget allows.
pub(super) fn bundles(tree: &TopicTree, demand: &Demand, budget: &Budget, aim: Aim) -> Vec<Bundle> {
    let mut search =
        Search { tree, demand, aim, limit: 0.0, bytes_max: budget.store_bytes_max, orders: vec![None; tree.len()] };
    let most = budget.stores_max;
    // No read is beyond this limit, so that only the largest size makes stores.
    let loosest = tree.bytes(NodeId::ROOT) as f64 * 2.0 + 2.0;
    search.limit = loosest;
    while search.bytes_max < tree.bytes(NodeId::ROOT) && search.stores(most) > most {
        // The number of stores goes before their largest size.
        search.bytes_max += search.bytes_max / 16 + 1;
    }
    let (mut good, mut bad) = (loosest, if aim == Aim::RatioWorst { 0.99 } else { 0.25 });
    for _ in 0..LIMIT_STEPS {
        if good <= bad * LIMIT_PRECISION {
            break;
        }
        search.limit = (good * bad).sqrt();
        if search.stores(most) <= most { good = search.limit } else { bad = search.limit }
    }
    search.limit = good;
    let bundles = search.collect();
    let budget = Budget { store_bytes_max: search.bytes_max, ..*budget };
    Polish::new(tree, demand, &budget, bundles).fill_only()
}

struct Search<'a> {
    tree: &'a TopicTree,
    demand: &'a Demand,
    aim: Aim,
    limit: f64,
    bytes_max: u64,
    /// The items of every node looked at so far, in the orders they are packed in.
    orders: Vec<Option<Vec<Box<[Entry]>>>>,
}

/// An item with what packing needs of it at hand: lists of a million are gone through many times.
#[derive(Clone, Copy)]
struct Entry {
    item: Item,
    fill: Fill,
}

/// A packing: the number of bundles, and the bundle of stretches of the items in one of their orders.
#[derive(Default)]
struct Packed {
    bundles: u32,
    order: usize,
    placed: Vec<(Range<usize>, u32)>,
}

/// A bundle being filled: bytes, and the fewest that a read of it wants.
#[derive(Clone, Copy)]
struct Fill {
    bytes: u64,
    least: u64,
}

impl Fill {
    fn with(self, other: Fill) -> Fill {
        Fill { bytes: self.bytes + other.bytes, least: self.least.min(other.least) }
    }
}

impl Search<'_> {
    /// Whether a store of these bytes keeps the limit for its hardest read.
    fn keeps(&self, fill: Fill) -> bool {
        if fill.bytes > self.bytes_max {
            return false;
        }
        if fill.least >= fill.bytes {
            return true;
        }
        match self.aim {
            Aim::RatioWorst => fill.bytes as f64 <= self.limit * fill.least.max(1) as f64,
            _ => (fill.bytes - fill.least) as f64 <= self.limit,
        }
    }

    fn is_split(&self, node: NodeId) -> bool {
        let whole = Fill { bytes: self.tree.bytes(node), least: self.demand.least(node) };
        !self.tree.is_leaf(node) && !self.keeps(whole)
    }

    fn is_whole(&self, item: &Item) -> bool {
        !item.inner().is_some_and(|child| self.is_split(child))
    }

    fn fill_of(&self, item: &Item) -> Fill {
        let node = item.part.node;
        match item.part.extent {
            Extent::Own => {
                let bytes = self.tree.row(node).map_or(0, |row| self.tree.row_bytes(row));
                Fill { bytes, least: self.demand.least_own(self.tree, node) }
            }
            _ => Fill { bytes: self.tree.bytes(node), least: self.demand.least(node) },
        }
    }

    /// Number of stores at the limit; stops counting beyond `most`.
    fn stores(&mut self, most: u32) -> u32 {
        let mut stores = 0;
        self.walk(&mut |_, bundles| {
            stores += bundles;
            stores <= most
        });
        stores
    }

    fn collect(&mut self) -> Vec<Bundle> {
        let mut split = Vec::new();
        self.walk(&mut |node, _| {
            split.push(node);
            true
        });
        if split.is_empty() {
            return vec![Bundle::new(None, vec![Item::whole(self.tree, self.demand, NodeId::ROOT)])];
        }
        let mut bundles = Vec::new();
        for node in split {
            let packed = self.pack(node);
            let mut lists = vec![Vec::new(); packed.bundles as usize];
            for (places, bundle) in packed.placed {
                let entries = &self.items(node, packed.order)[places];
                lists[bundle as usize].extend(entries.iter().map(|entry| entry.item));
            }
            bundles.extend(lists.into_iter().map(|mut items| {
                super::pack::sort_items(&mut items);
                Bundle::new(Some(node), items)
            }));
        }
        bundles
    }

    /// Calls back with every split node and the number of bundles it makes, until told to stop.
    fn walk(&mut self, found: &mut dyn FnMut(NodeId, u32) -> bool) {
        if !self.is_split(NodeId::ROOT) {
            return;
        }
        let mut open = vec![NodeId::ROOT];
        while let Some(node) = open.pop() {
            let bundles = self.pack(node).bundles;
            if !found(node, bundles) {
                return;
            }
            let below: Vec<NodeId> = self.items(node, 0).iter().filter_map(|entry| entry.item.inner()).collect();
            open.extend(below.into_iter().filter(|child| self.is_split(*child)));
        }
    }

    /// Packs the whole parts of a node into bundles: the best of the orders tried.
    fn pack(&mut self, node: NodeId) -> Packed {
        self.order(node);
        if self.tree.len() <= EXACT_NODES_MAX {
            let items = self.items(node, 0).iter().enumerate();
            let whole = items.filter(|(_, entry)| self.is_whole(&entry.item)).map(|(place, _)| place);
            let whole: Vec<usize> = whole.take(EXACT_ITEMS_MAX + 1).collect();
            if whole.len() <= EXACT_ITEMS_MAX {
                return self.pack_exactly(node, &whole);
            }
        }
        let tries = self.orders[node.at()].as_ref().map_or(0, Vec::len);
        let packed = (0..tries).map(|order| self.pack_in(node, order));
        packed.min_by_key(|packed| packed.bundles).unwrap_or_default()
    }

    /// The fewest bundles there can be, by trying all sets of the items at the places.
    fn pack_exactly(&self, node: NodeId, places: &[usize]) -> Packed {
        let sets = 1usize << places.len();
        let mut fill = vec![Fill { bytes: 0, least: u64::MAX }; sets];
        // The number of bundles a set needs, and the last of them.
        let mut best = vec![(0u32, 0usize); sets];
        for set in 1..sets {
            let lowest = set & set.wrapping_neg();
            let item = self.items(node, 0)[places[lowest.trailing_zeros() as usize]].fill;
            fill[set] = fill[set ^ lowest].with(item);
            best[set] = (best[set ^ lowest].0 + 1, lowest);
            let others = set ^ lowest;
            let mut part = others;
            while part > 0 {
                let bundles = best[set ^ lowest ^ part].0 + 1;
                if bundles < best[set].0 && self.keeps(fill[part].with(item)) {
                    best[set] = (bundles, part | lowest);
                }
                part = (part - 1) & others;
            }
        }
        let mut packed = Packed { bundles: best[sets - 1].0, ..Packed::default() };
        let (mut set, mut bundle) = (sets - 1, 0);
        while set > 0 {
            let taken = best[set].1;
            let chosen = (0..places.len()).filter(|at| taken >> at & 1 == 1);
            packed.placed.extend(chosen.map(|at| (places[at]..places[at] + 1, bundle)));
            set ^= taken;
            bundle += 1;
        }
        packed
    }

    fn pack_in(&self, node: NodeId, order: usize) -> Packed {
        let mut open: Vec<(Fill, u32)> = Vec::new();
        let mut packed = Packed { order, ..Packed::default() };
        for (places, fill) in self.stretches(self.items(node, order)) {
            let small = self.keeps(Fill { bytes: fill.bytes.saturating_mul(STRETCH), ..fill });
            if small {
                // What has no room for a small stretch is as good as full.
                open.retain(|(open, _)| self.keeps(open.with(fill)));
            }
            let bundle = match open.iter_mut().find(|(open, _)| self.keeps(open.with(fill))) {
                Some((open, bundle)) => {
                    *open = open.with(fill);
                    *bundle
                }
                None => {
                    if open.len() == OPEN_MAX {
                        open.remove(0);
                    }
                    open.push((fill, packed.bundles));
                    packed.bundles += 1;
                    packed.bundles - 1
                }
            };
            packed.placed.push((places, bundle));
        }
        packed
    }

    /// The whole items of a list, small ones together: a few at a time are as good as one by one, and
    /// there may be a million.
    fn stretches(&self, entries: &[Entry]) -> Vec<(Range<usize>, Fill)> {
        let mut stretches: Vec<(Range<usize>, Fill)> = Vec::new();
        for (place, Entry { item, fill }) in entries.iter().enumerate() {
            if !self.is_whole(item) {
                continue;
            }
            if let Some((places, last)) = stretches.last_mut() {
                let both = last.with(*fill);
                let many = Fill { bytes: both.bytes.saturating_mul(STRETCH), ..both };
                if places.end == place && self.keeps(many) {
                    *last = both;
                    places.end += 1;
                    continue;
                }
            }
            stretches.push((place..place + 1, *fill));
        }
        stretches
    }

    fn items(&self, node: NodeId, order: usize) -> &[Entry] {
        self.orders[node.at()].as_ref().and_then(|orders| orders.get(order)).map_or(&[], |items| items)
    }

    /// Sorts the items as they are packed: largest first for bytes; for a ratio by what their hardest
    /// read wants, fewest first, because that read decides how much its bundle may hold. With few items
    /// the order matters more than it costs, so all are tried.
    fn order(&mut self, node: NodeId) {
        if self.orders[node.at()].is_some() {
            return;
        }
        let entries: Vec<Entry> = items_of(self.tree, self.demand, node)
            .into_iter()
            .map(|item| Entry { item, fill: self.fill_of(&item) })
            .collect();
        let sorted = |by: fn(&Fill) -> (u64, u64)| {
            let mut sorted: Box<[Entry]> = entries.as_slice().into();
            sorted.sort_unstable_by_key(|entry| (by(&entry.fill), entry.item.part));
            sorted
        };
        let by_bytes = |fill: &Fill| (u64::MAX - fill.bytes, fill.least);
        let by_least = |fill: &Fill| (fill.least, fill.bytes);
        let orders = match self.aim {
            _ if entries.len() <= ORDERS_ITEMS_MAX => {
                vec![sorted(by_bytes), sorted(by_least), sorted(|fill| (u64::MAX - fill.least, fill.bytes))]
            }
            Aim::RatioWorst => vec![sorted(by_least)],
            _ => vec![sorted(by_bytes)],
        };
        self.orders[node.at()] = Some(orders);
    }
}
