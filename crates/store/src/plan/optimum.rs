//! The best plan there is, for small trees, and a bound that holds for any plan.

use super::pack::{Item, items_of};
use super::{Aim, Budget, Demand, Error, Extent, NodeId, Part, Plan, Planner, TopicTree, check_budget};

/// Searches all plans of bundles. The number of ways to bundle n siblings grows as 3^n, so only small
/// trees are taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Optimum {
    /// What it makes small.
    pub aim: Aim,
}

/// Most parts of one node.
const PARTS_MAX: usize = 10;
/// Most stores.
const STORES_MAX: u32 = 64;
/// Most nodes that can be split: each is searched by itself.
const SPLITS_MAX: usize = 4096;

impl Planner for Optimum {
    fn name(&self) -> &'static str {
        "optimum"
    }

    fn plan(&self, tree: &TopicTree, demand: &Demand, budget: &Budget) -> Result<Plan, Error> {
        check_budget(budget)?;
        if tree.is_empty() {
            return Ok(Plan::of(tree, Vec::new()));
        }
        check_size(tree, budget)?;
        let search = Search { tree, demand, aim: self.aim, stores: budget.stores_max as usize };
        let whole = Part { node: NodeId::ROOT, extent: Extent::Subtree };
        let mut best =
            Found { cost: search.price(&[Item::whole(tree, demand, NodeId::ROOT)]), bundles: vec![vec![whole]] };
        for found in search.split(NodeId::ROOT).into_iter().flatten() {
            if found.cost < best.cost {
                best = found;
            }
        }
        Ok(Plan::of(tree, best.bundles))
    }
}

fn check_size(tree: &TopicTree, budget: &Budget) -> Result<(), Error> {
    let too_big = |what, got: usize, most: usize| {
        if got > most { Err(Error::TooBigForOptimum { what, got: got as u64, most: most as u64 }) } else { Ok(()) }
    };
    too_big("the number of stores", budget.stores_max as usize, STORES_MAX as usize)?;
    let inner: Vec<NodeId> = tree.nodes().filter(|node| !tree.is_leaf(*node)).collect();
    too_big("the number of nodes with children", inner.len(), SPLITS_MAX)?;
    for node in inner {
        let parts = tree.children(node).count() + usize::from(tree.row(node).is_some());
        too_big("the number of parts of one node", parts, PARTS_MAX)?;
    }
    Ok(())
}

/// The best bundles found for something, and their cost.
#[derive(Clone, Debug)]
struct Found {
    cost: f64,
    bundles: Vec<Vec<Part>>,
}

struct Search<'a> {
    tree: &'a TopicTree,
    demand: &'a Demand,
    aim: Aim,
    stores: usize,
}

impl Search<'_> {
    /// The best way to split a node into each number of stores; entry 0 stays empty.
    fn split(&self, node: NodeId) -> Vec<Option<Found>> {
        let items = items_of(self.tree, self.demand, node);
        let sets = 1usize << items.len();
        let below: Vec<Vec<Option<Found>>> =
            items.iter().map(|item| item.inner().map_or(Vec::new(), |child| self.split(child))).collect();
        let together = self.partitions(&items);
        // Children in a set, each split: the set without its first, and the first.
        let mut apart: Vec<Vec<Option<Found>>> = vec![vec![None; self.stores + 1]; sets];
        apart[0][0] = Some(Found { cost: 0.0, bundles: Vec::new() });
        for set in 1..sets {
            let first = set.trailing_zeros() as usize;
            apart[set] = self.join(&apart[set & (set - 1)], &below[first]);
        }
        let mut best = vec![None; self.stores + 1];
        for set in 0..sets {
            let both = self.join(&apart[set], &together[sets - 1 - set]);
            for (slot, found) in best.iter_mut().zip(both) {
                keep(slot, found);
            }
        }
        let fixed = self.demand.subtree(node) as f64 * self.tree.bytes(node) as f64;
        if self.aim == Aim::WastedSum {
            best.iter_mut().flatten().for_each(|found: &mut Found| found.cost += fixed);
        }
        best
    }

    /// The best way to bundle each set of items into each number of stores.
    fn partitions(&self, items: &[Item]) -> Vec<Vec<Option<Found>>> {
        let sets = 1usize << items.len();
        let chosen = |set: usize| -> Vec<Item> {
            items.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, item)| *item).collect()
        };
        let bundle: Vec<Found> = (0..sets)
            .map(|set| {
                let items = chosen(set);
                Found { cost: self.price(&items), bundles: vec![items.iter().map(|item| item.part).collect()] }
            })
            .collect();
        let mut best: Vec<Vec<Option<Found>>> = vec![vec![None; self.stores + 1]; sets];
        best[0][0] = Some(Found { cost: 0.0, bundles: Vec::new() });
        for set in 1..sets {
            let lowest = set & set.wrapping_neg();
            let others = set & !lowest;
            // Every bundle with the lowest item in it: all subsets of the others.
            let mut part = others;
            loop {
                let taken = part | lowest;
                for stores in 1..=self.stores {
                    let rest = best[set & !taken][stores - 1].as_ref();
                    let cost = rest.map(|rest| self.sum(rest.cost, bundle[taken].cost));
                    let better = |cost: &f64| best[set][stores].as_ref().is_none_or(|found| *cost < found.cost);
                    if let Some(cost) = cost.filter(better) {
                        let mut bundles = rest.map_or_else(Vec::new, |rest| rest.bundles.clone());
                        bundles.extend(bundle[taken].bundles.iter().cloned());
                        best[set][stores] = Some(Found { cost, bundles });
                    }
                }
                if part == 0 {
                    break;
                }
                part = (part - 1) & others;
            }
        }
        best
    }

    fn join(&self, a: &[Option<Found>], b: &[Option<Found>]) -> Vec<Option<Found>> {
        let mut joined = vec![None; self.stores + 1];
        for (i, first) in a.iter().enumerate() {
            for (j, second) in b.iter().enumerate().take(self.stores + 1 - i) {
                if let (Some(first), Some(second)) = (first, second) {
                    let cost = self.sum(first.cost, second.cost);
                    if joined[i + j].as_ref().is_none_or(|found: &Found| cost < found.cost) {
                        let bundles = first.bundles.iter().chain(&second.bundles).cloned().collect();
                        joined[i + j] = Some(Found { cost, bundles });
                    }
                }
            }
        }
        joined
    }

    fn sum(&self, a: f64, b: f64) -> f64 {
        if self.aim == Aim::WastedSum { a + b } else { a.max(b) }
    }

    /// What one bundle costs.
    fn price(&self, items: &[Item]) -> f64 {
        let bytes: f64 = items.iter().map(|item| item.bytes).sum();
        let least = |item: &Item| match item.part.extent {
            Extent::Own => self.demand.least_own(self.tree, item.part.node),
            _ => self.demand.least(item.part.node),
        };
        let least = items.iter().map(least).min().unwrap_or(u64::MAX) as f64;
        match self.aim {
            Aim::WastedSum => bytes * items.iter().map(|item| item.weight).sum::<f64>(),
            Aim::WastedWorst => (bytes - least).max(0.0),
            Aim::RatioWorst if least >= bytes => 1.0,
            Aim::RatioWorst => bytes / least.max(1.0),
        }
    }
}

fn keep(slot: &mut Option<Found>, found: Option<Found>) {
    if let Some(found) = found
        && slot.as_ref().is_none_or(|slot| found.cost < slot.cost)
    {
        *slot = Some(found);
    }
}

/// Bytes that reading every topic once must ignore at least, with so many stores of any shape.
///
/// Free of the tree, the best stores are runs of the topics sorted by size: for given numbers of topics
/// a sum of products is least when the larger topics are in the smaller stores. For any price p of a
/// store, the cheapest division at that price less p × stores is a bound; the best p is searched for.
#[must_use]
pub fn wasted_sum_bound(tree: &TopicTree, stores: u32) -> f64 {
    let mut sizes: Vec<f64> = (0..tree.rows()).map(|row| tree.row_bytes(row) as f64).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let useful: f64 = sizes.iter().sum();
    let mut packer = super::pack::Packer::default();
    let (mut low, mut high) = (0.0, useful * sizes.len() as f64 + 1.0);
    let mut bound: f64 = 0.0;
    for _ in 0..BOUND_STEPS {
        let price = if low == 0.0 { high / 4096.0 } else { f64::sqrt(low * high) };
        let packed = packer.runs_of(&sizes, price);
        let stores_left = f64::from(packed.bundles) - f64::from(stores);
        bound = bound.max((packed.cost + price * stores_left) * (1.0 - 1e-9) - useful);
        if packed.bundles > stores {
            low = price
        } else {
            high = price
        }
        if price < 0.5 || packed.bundles == stores || high <= low * 1.0005 {
            break;
        }
    }
    bound
}

/// Bisections of the price: each takes 12 bits while it is too high, then halves what is left.
const BOUND_STEPS: u32 = 40;
