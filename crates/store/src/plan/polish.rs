//! Improving bundles one store at a time: cutting, merging, moving.
//!
//! The price of a store jumps over budgets: below it too many nodes are split at once, above it too few.
//! Starting from either side, this brings the bundles to the budget and then trades: where merging two
//! bundles adds less than cutting another one saves, both are done.

use super::bundles::{Bundle, scope_of};
use super::pack::{Item, items_of, sort_items};
use super::{Budget, Demand, NodeId, TopicTree};
use std::collections::{BTreeMap, BinaryHeap};

/// Every pair is tried for a merge among this many siblings; beyond, only neighbours by density.
const PAIRS_MAX: usize = 48;
const NEIGHBOURS: usize = 3;
/// Trades stop after this many looked-at pairs, so that a million stores take about a second.
const WORK_MAX: u64 = 30_000_000;
/// Items are offered to every sibling bundle up to this many offers, then to neighbours only.
const OFFERS_MAX: usize = 4_000_000;
/// Items are exchanged between bundles up to this many siblings.
const SWAP_ITEMS_MAX: usize = 256;
const SETTLE_ROUNDS: u32 = 3;

/// A heap entry: what it changes, where, and for which version of that place it was reckoned.
#[derive(Clone, Copy, Debug)]
struct Offer {
    gain: f64,
    at: usize,
    version: u32,
}

impl PartialEq for Offer {
    fn eq(&self, other: &Offer) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Offer {}
impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Offer) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Offer {
    fn cmp(&self, other: &Offer) -> std::cmp::Ordering {
        // Equal gains go to the lower place, so that the result is one and the same.
        self.gain.total_cmp(&other.gain).then(other.at.cmp(&self.at)).then(self.version.cmp(&other.version))
    }
}

/// What was made of one split node, or of the tree as a whole.
#[derive(Debug, Default)]
struct Scope {
    bundles: Vec<usize>,
    /// Children that are split themselves.
    split: usize,
    version: u32,
}

/// How a bundle is best cut in two.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Items below the place, and the rest.
    Before(usize),
    /// The item at the place, and the rest.
    Out(usize),
}

pub(super) struct Polish<'a> {
    tree: &'a TopicTree,
    demand: &'a Demand,
    budget: &'a Budget,
    bundles: Vec<Bundle>,
    versions: Vec<u32>,
    live: usize,
    scopes: BTreeMap<Option<NodeId>, Scope>,
    /// Cuts of bundles by gain, and merges within scopes by loss, of which some are out of date.
    cuts: BinaryHeap<Offer>,
    merges: BinaryHeap<Offer>,
    work: u64,
}

impl<'a> Polish<'a> {
    pub fn new(tree: &'a TopicTree, demand: &'a Demand, budget: &'a Budget, bundles: Vec<Bundle>) -> Polish<'a> {
        let mut scopes: BTreeMap<Option<NodeId>, Scope> = BTreeMap::new();
        for (at, bundle) in bundles.iter().enumerate() {
            scopes.entry(bundle.scope).or_default().bundles.push(at);
        }
        let mut pending: Vec<NodeId> = scopes.keys().flatten().copied().collect();
        while let Some(node) = pending.pop() {
            let above = scope_of(tree, node);
            if !scopes.contains_key(&above) {
                pending.extend(above);
            }
            scopes.entry(above).or_default().split += 1;
        }
        let versions = vec![0; bundles.len()];
        let live = bundles.len();
        Polish {
            tree,
            demand,
            budget,
            bundles,
            versions,
            live,
            scopes,
            cuts: BinaryHeap::new(),
            merges: BinaryHeap::new(),
            work: 0,
        }
    }

    /// Brings the bundles within the budget, improves them, and returns them with what they cost.
    pub fn run(mut self) -> (Vec<Bundle>, f64) {
        self.join_small();
        for scope in self.scopes.keys().copied().collect::<Vec<_>>() {
            self.offer_merge(scope);
        }
        while self.live > self.budget.stores_max as usize {
            let Some((_, scope)) = self.best_merge() else {
                break;
            };
            self.merge(scope);
        }
        self.settle();
        for at in 0..self.bundles.len() {
            self.offer_cut(at);
        }
        self.fill();
        self.trade();
        self.settle();
        let cost = self.cost();
        self.bundles.retain(|bundle| !bundle.items.is_empty());
        (self.bundles, cost)
    }

    /// Only cuts, which make no read worse.
    pub fn fill_only(mut self) -> Vec<Bundle> {
        self.join_small();
        for at in 0..self.bundles.len() {
            self.offer_cut(at);
        }
        self.fill();
        self.bundles.retain(|bundle| !bundle.items.is_empty());
        self.bundles
    }

    fn cost(&self) -> f64 {
        let fixed = |node: &NodeId| self.demand.subtree(*node) as f64 * self.tree.bytes(*node) as f64;
        self.scopes.keys().flatten().map(fixed).sum::<f64>() + self.bundles.iter().map(Bundle::cost).sum::<f64>()
    }

    fn fill(&mut self) {
        while self.live < self.budget.stores_max as usize {
            let Some((_, at)) = self.best_cut() else {
                break;
            };
            self.cut(at);
        }
    }

    fn trade(&mut self) {
        while self.live == self.budget.stores_max as usize && self.work < WORK_MAX {
            let (Some((gain, at)), Some((loss, scope))) = (self.best_cut(), self.best_merge()) else {
                break;
            };
            // A trade must be worth more than rounding, or two of them could go round in circles.
            if gain <= loss + self.demand.useful(NodeId::ROOT) * 1e-12 {
                break;
            }
            // Merging the very bundle that would be cut gains nothing.
            if self.best_pair(scope).is_some_and(|(_, a, b)| a == at || b == at) {
                break;
            }
            self.cut(at);
            if let Some((_, scope)) = self.best_merge() {
                self.merge(scope);
            }
        }
    }

    // Cuts.

    fn best_cut(&mut self) -> Option<(f64, usize)> {
        while let Some(offer) = self.cuts.peek() {
            if self.versions[offer.at] == offer.version && !self.bundles[offer.at].items.is_empty() {
                return Some((offer.gain, offer.at));
            }
            self.cuts.pop();
        }
        None
    }

    fn offer_cut(&mut self, at: usize) {
        let items = self.opened(at).0;
        if let Some((gain, _)) = self.find_cut(&items) {
            self.cuts.push(Offer { gain, at, version: self.versions[at] });
        }
    }

    /// The items that a cut would divide, with the nodes to be split for it, top first: a bundle that
    /// is one whole node is divided below it.
    fn opened(&self, at: usize) -> (Vec<Item>, Vec<NodeId>) {
        let mut items = self.bundles[at].items.clone();
        let mut nodes = Vec::new();
        while let [item] = &items[..] {
            let Some(node) = item.inner() else {
                break;
            };
            nodes.push(node);
            items = items_of(self.tree, self.demand, node);
        }
        (items, nodes)
    }

    fn find_cut(&self, items: &[Item]) -> Option<(f64, Cut)> {
        let weight: f64 = items.iter().map(|item| item.weight).sum();
        let bytes: f64 = items.iter().map(|item| item.bytes).sum();
        let least = self.budget.store_bytes_min as f64;
        let mut best: Option<(f64, Cut)> = None;
        let mut consider = |weight_a: f64, bytes_a: f64, cut: Cut| {
            let gain = weight_a * (bytes - bytes_a) + (weight - weight_a) * bytes_a;
            if gain > best.map_or(0.0, |best| best.0) && bytes_a >= least && bytes - bytes_a >= least {
                best = Some((gain, cut));
            }
        };
        let (mut weight_a, mut bytes_a) = (0.0, 0.0);
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                consider(weight_a, bytes_a, Cut::Before(place));
            }
            if items.len() > 1 {
                consider(item.weight, item.bytes, Cut::Out(place));
            }
            weight_a += item.weight;
            bytes_a += item.bytes;
        }
        best
    }

    fn cut(&mut self, at: usize) {
        let (mut items, nodes) = self.opened(at);
        let Some((_, cut)) = self.find_cut(&items) else {
            return;
        };
        if let Some(bottom) = nodes.last() {
            let scope = self.scope(self.bundles[at].scope);
            scope.bundles.retain(|other| *other != at);
            for node in &nodes {
                let above = scope_of(self.tree, *node);
                self.scope(above).split += 1;
                self.scope(Some(*node));
            }
            self.scope(Some(*bottom)).bundles.push(at);
            self.bundles[at].scope = Some(*bottom);
            self.touch_scope(scope_of(self.tree, nodes[0]));
        }
        let rest = match cut {
            Cut::Before(place) => items.split_off(place),
            Cut::Out(place) => vec![items.remove(place)],
        };
        let scope = self.bundles[at].scope;
        self.bundles[at] = Bundle::new(scope, items);
        self.bundles.push(Bundle::new(scope, rest));
        self.versions.push(0);
        let new = self.bundles.len() - 1;
        self.scope(scope).bundles.push(new);
        self.live += 1;
        self.touch(at);
        self.touch(new);
        self.touch_scope(scope);
    }

    // Merges.

    fn best_merge(&mut self) -> Option<(f64, Option<NodeId>)> {
        while let Some(offer) = self.merges.peek() {
            let scope = place_scope(offer.at);
            if self.scopes.get(&scope).is_some_and(|scope| scope.version == offer.version) {
                return Some((-offer.gain, scope));
            }
            self.merges.pop();
        }
        None
    }

    fn offer_merge(&mut self, scope: Option<NodeId>) {
        let Some(version) = self.scopes.get(&scope).map(|scope| scope.version) else {
            return;
        };
        let pairs = self.scopes.get(&scope).map_or(0, |scope| scope.bundles.len()) as u64;
        self.work += pairs * pairs.min(PAIRS_MAX as u64);
        if let Some((loss, _, _)) = self.best_pair(scope) {
            self.merges.push(Offer { gain: -loss, at: scope_place(scope), version });
        }
    }

    /// The two siblings whose merger adds least.
    fn best_pair(&self, scope: Option<NodeId>) -> Option<(f64, usize, usize)> {
        let mut order = self.scopes.get(&scope)?.bundles.clone();
        let reach = if order.len() <= PAIRS_MAX { order.len() } else { NEIGHBOURS };
        order.sort_unstable_by(|a, b| self.by_density(*a, *b));
        let mut best: Option<(f64, usize, usize)> = None;
        for (place, a) in order.iter().enumerate() {
            for b in order.iter().skip(place + 1).take(reach) {
                let (first, second) = (&self.bundles[*a], &self.bundles[*b]);
                let loss = first.strain(second);
                let fits = first.bytes + second.bytes <= self.budget.store_bytes_max as f64;
                if fits && best.is_none_or(|best| loss < best.0) {
                    best = Some((loss, *a, *b));
                }
            }
        }
        best
    }

    fn by_density(&self, a: usize, b: usize) -> std::cmp::Ordering {
        let density = |at: usize| {
            let Bundle { weight, bytes, .. } = self.bundles[at];
            if weight > 0.0 { bytes / weight } else { f64::INFINITY }
        };
        density(a).total_cmp(&density(b)).then(a.cmp(&b))
    }

    fn merge(&mut self, scope: Option<NodeId>) {
        if let Some((_, a, b)) = self.best_pair(scope) {
            self.merge_pair(scope, a, b);
        }
    }

    fn merge_pair(&mut self, scope: Option<NodeId>, a: usize, b: usize) {
        let mut items = std::mem::take(&mut self.bundles[b].items);
        items.append(&mut self.bundles[a].items);
        sort_items(&mut items);
        self.bundles[a] = Bundle::new(scope, items);
        self.bundles[b] = Bundle::new(scope, Vec::new());
        self.scope(scope).bundles.retain(|other| *other != b);
        self.live -= 1;
        self.versions[b] += 1;
        self.close(a);
        self.touch(a);
    }

    /// A split node that has come to be in one bundle is whole again, and an item among its siblings.
    fn close(&mut self, at: usize) {
        while let Some(node) = self.bundles[at].scope {
            let scope = self.scope(Some(node));
            if scope.bundles.len() > 1 || scope.split > 0 {
                break;
            }
            let above = scope_of(self.tree, node);
            self.scopes.remove(&Some(node));
            let scope = self.scope(above);
            scope.split -= 1;
            scope.bundles.push(at);
            self.bundles[at] = Bundle::new(above, vec![Item::whole(self.tree, self.demand, node)]);
        }
        self.touch_scope(self.bundles[at].scope);
    }

    /// Merges bundles below the smallest size, each with the sibling where it adds least.
    fn join_small(&mut self) {
        let least = self.budget.store_bytes_min as f64;
        let mut small: Vec<usize> = (0..self.bundles.len()).filter(|at| self.bundles[*at].bytes < least).collect();
        while let Some(at) = small.pop() {
            if self.bundles[at].items.is_empty() || self.bundles[at].bytes >= least {
                continue;
            }
            let scope = self.bundles[at].scope;
            let siblings = self.scopes.get(&scope).map_or(&[][..], |scope| &scope.bundles);
            let strain = |other: &usize| self.bundles[at].strain(&self.bundles[*other]);
            let fits = |other: &usize| {
                self.bundles[at].bytes + self.bundles[*other].bytes <= self.budget.store_bytes_max as f64
            };
            let best = siblings.iter().copied().filter(|other| *other != at && fits(other));
            if let Some(other) = best.min_by(|a, b| strain(a).total_cmp(&strain(b)).then(a.cmp(b))) {
                self.merge_pair(scope, at, other);
                small.push(at);
            }
        }
    }

    // Moves.

    /// Moves single items to the sibling bundle where they cost least.
    fn settle(&mut self) {
        for scope in self.scopes.keys().copied().collect::<Vec<_>>() {
            for _ in 0..SETTLE_ROUNDS {
                if !self.settle_scope(scope) {
                    break;
                }
            }
        }
    }

    fn settle_scope(&mut self, scope: Option<NodeId>) -> bool {
        let mut order = self.scope(scope).bundles.clone();
        if order.len() < 2 {
            return false;
        }
        order.sort_unstable_by(|a, b| self.by_density(*a, *b));
        let items: usize = order.iter().map(|at| self.bundles[*at].items.len()).sum();
        let reach = if items.saturating_mul(order.len()) <= OFFERS_MAX { order.len() } else { NEIGHBOURS };
        let mut changed = vec![false; order.len()];
        for place in 0..order.len() {
            let near = place.saturating_sub(reach)..(place + reach + 1).min(order.len());
            self.settle_bundle(&order, place, near, &mut changed);
        }
        for (place, _) in changed.iter().enumerate().filter(|(_, changed)| **changed) {
            let at = order[place];
            sort_items(&mut self.bundles[at].items);
            self.bundles[at] = Bundle::new(scope, std::mem::take(&mut self.bundles[at].items));
            self.touch(at);
        }
        let swapped = items <= SWAP_ITEMS_MAX && self.swap_in(&order);
        if changed.contains(&true) || swapped {
            self.touch_scope(scope);
        }
        changed.contains(&true) || swapped
    }

    /// Exchanges two items between sibling bundles where that costs less; for few items only.
    fn swap_in(&mut self, order: &[usize]) -> bool {
        let mut swapped = false;
        for (place, a) in order.iter().enumerate() {
            for b in &order[place + 1..] {
                while let Some((i, j)) = self.find_swap(*a, *b) {
                    let (one, two) = (self.bundles[*a].items[i], self.bundles[*b].items[j]);
                    self.bundles[*a].items[i] = two;
                    self.bundles[*b].items[j] = one;
                    for at in [*a, *b] {
                        sort_items(&mut self.bundles[at].items);
                        self.bundles[at] =
                            Bundle::new(self.bundles[at].scope, std::mem::take(&mut self.bundles[at].items));
                        self.touch(at);
                    }
                    swapped = true;
                }
            }
        }
        swapped
    }

    fn find_swap(&self, a: usize, b: usize) -> Option<(usize, usize)> {
        let (a, b) = (&self.bundles[a], &self.bundles[b]);
        let (least, most) = (self.budget.store_bytes_min as f64, self.budget.store_bytes_max as f64);
        let within = |bytes: f64| bytes >= least && bytes <= most;
        let mut best = (a.cost() + b.cost()) * (1.0 - 1e-9);
        let mut found = None;
        for (i, one) in a.items.iter().enumerate() {
            for (j, two) in b.items.iter().enumerate() {
                let (weight, bytes) = (two.weight - one.weight, two.bytes - one.bytes);
                let cost = (a.weight + weight) * (a.bytes + bytes) + (b.weight - weight) * (b.bytes - bytes);
                if cost < best && within(a.bytes + bytes) && within(b.bytes - bytes) {
                    best = cost;
                    found = Some((i, j));
                }
            }
        }
        found
    }

    fn settle_bundle(&mut self, order: &[usize], place: usize, near: std::ops::Range<usize>, changed: &mut [bool]) {
        let source = order[place];
        let (least, most) = (self.budget.store_bytes_min as f64, self.budget.store_bytes_max as f64);
        let mut index = 0;
        while index < self.bundles[source].items.len() && self.bundles[source].items.len() > 1 {
            let item = self.bundles[source].items[index];
            let pull = |weight: f64, bytes: f64| weight * item.bytes + bytes * item.weight;
            let Bundle { weight, bytes, .. } = self.bundles[source];
            let mut best = (pull(weight - item.weight, bytes - item.bytes), place);
            for other in near.clone().filter(|other| *other != place) {
                let target = &self.bundles[order[other]];
                let cost = pull(target.weight, target.bytes);
                // By more than rounding, or an item could wander between equals for ever.
                if cost < best.0 * (1.0 - 1e-9) && target.bytes + item.bytes <= most {
                    best = (cost, other);
                }
            }
            if best.1 == place || bytes - item.bytes < least {
                index += 1;
                continue;
            }
            let source = &mut self.bundles[source];
            source.items.swap_remove(index);
            source.weight -= item.weight;
            source.bytes -= item.bytes;
            let target = &mut self.bundles[order[best.1]];
            target.items.push(item);
            target.weight += item.weight;
            target.bytes += item.bytes;
            changed[place] = true;
            changed[best.1] = true;
        }
    }

    // Bookkeeping.

    fn scope(&mut self, scope: Option<NodeId>) -> &mut Scope {
        self.scopes.entry(scope).or_default()
    }

    /// A bundle has changed: what was reckoned for it is out of date.
    fn touch(&mut self, at: usize) {
        self.versions[at] += 1;
        self.work += self.bundles[at].items.len() as u64;
        self.offer_cut(at);
    }

    fn touch_scope(&mut self, scope: Option<NodeId>) {
        self.scope(scope).version += 1;
        self.offer_merge(scope);
    }
}

/// Scopes as places in a heap: the tree as a whole, then the nodes.
fn scope_place(scope: Option<NodeId>) -> usize {
    scope.map_or(0, |node| node.0 as usize + 1)
}

fn place_scope(place: usize) -> Option<NodeId> {
    place.checked_sub(1).map(|node| NodeId(node as u32))
}
