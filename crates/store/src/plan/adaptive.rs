//! The adaptive planner: bundles of siblings, made up the tree at a price for every store.
//!
//! For a given price it goes up the tree. A node that wastes less than the price goes up whole; any
//! other is split if its parts, packed into bundles at that price, come cheaper. The cost of a plan is
//! the bytes read from stores by everything in the demand, plus the price of its stores; a higher price
//! makes fewer stores. Binary search finds the lowest price whose plan keeps the budget, and `polish`
//! spends what is left of the budget and trades stores between places.
//!
//! A price in place of a size limit for all bundles is what makes them adapt: a bundle of 1,000 small
//! topics must be small, a bundle of two large ones may be large.

use super::bundles::{Bundle, into_plan, scope_of};
use super::pack::{Item, Packed, Packer, items_of};
use super::polish::Polish;
use super::{Aim, Budget, Demand, Error, NodeId, Plan, Planner, TopicTree, check_budget, worst};

/// Bundles of siblings that adapt to the volumes; the planner of the splitter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adaptive {
    /// What it makes small.
    pub aim: Aim,
}

/// Bisections of the price: from the largest waste in 64 bits to less than a byte, to 1/1000.
const PRICE_STEPS: u32 = 80;
const PRICE_PRECISION: f64 = 1.001;
/// A price that leaves this part of the budget is near enough; filling does the rest.
const NEAR: u32 = 512;

impl Planner for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn plan(&self, tree: &TopicTree, demand: &Demand, budget: &Budget) -> Result<Plan, Error> {
        check_budget(budget)?;
        if tree.is_empty() {
            return Ok(Plan::of(tree, Vec::new()));
        }
        let bundles = match self.aim {
            Aim::WastedSum => Search::new(tree, demand).run(budget),
            Aim::WastedWorst | Aim::RatioWorst => worst::bundles(tree, demand, budget, self.aim),
        };
        Ok(into_plan(tree, &bundles))
    }
}

/// Where a node's sorted items lie.
#[derive(Clone, Copy)]
struct Span {
    items: (u32, u32),
    inner: (u32, u32),
}

/// What splitting a node comes to, in the latest pass.
#[derive(Clone, Copy, Default)]
struct Split {
    cost: f64,
    stores: u32,
}

struct Search<'a> {
    tree: &'a TopicTree,
    demand: &'a Demand,
    price: f64,
    bytes_max: f64,
    packer: Packer,
    /// Sorted items of every node looked at so far, and those of them that can be split.
    spans: Vec<Option<Span>>,
    items: Vec<Item>,
    inner: Vec<NodeId>,
    split: Vec<Split>,
}

impl<'a> Search<'a> {
    fn new(tree: &'a TopicTree, demand: &'a Demand) -> Search<'a> {
        Search {
            tree,
            demand,
            price: 0.0,
            bytes_max: f64::INFINITY,
            packer: Packer::default(),
            spans: vec![None; tree.len()],
            items: Vec::new(),
            inner: Vec::new(),
            split: vec![Split::default(); tree.len()],
        }
    }

    fn run(mut self, budget: &Budget) -> Vec<Bundle> {
        // At this price nothing is split for the readers' sake.
        let dearest = self.demand.waste_alone(self.tree, NodeId::ROOT) * 2.0 + 1.0;
        let store_bytes_max = self.feasible_bytes_max(dearest, budget);
        // Waste comes in whole bytes, so a price below one asks for no waste at all.
        let (mut few, mut low) = (dearest, 0.5);
        let (mut many, mut left) = (None, None);
        for _ in 0..PRICE_STEPS {
            if few <= low * PRICE_PRECISION {
                break;
            }
            let price = (few * low).sqrt();
            let stores = self.pass(price);
            if stores <= budget.stores_max {
                few = price;
            } else {
                (low, many) = (price, Some(price));
            }
            left = budget.stores_max.checked_sub(stores).or(left);
            if left.is_some_and(|left| left <= budget.stores_max / NEAR) {
                break;
            }
        }
        let budget = Budget { store_bytes_max, ..*budget };
        let under = self.polished(few, &budget);
        if left.is_some_and(|left| left <= budget.stores_max / NEAR) {
            return under.0;
        }
        // The next cheaper price makes too many stores; merging them down may end better.
        match many.map(|price| self.polished(price, &budget)) {
            Some(over) if over.1 < under.1 => over.0,
            _ => under.0,
        }
    }

    /// The bundles at a price, brought within the budget and improved, and their cost.
    fn polished(&mut self, price: f64, budget: &Budget) -> (Vec<Bundle>, f64) {
        self.pass(price);
        let bundles = self.bundles();
        Polish::new(self.tree, self.demand, budget, bundles).run()
    }

    /// The budget's largest store, raised as little as its number of stores asks for.
    fn feasible_bytes_max(&mut self, dearest: f64, budget: &Budget) -> u64 {
        let (mut low, mut high) = (budget.store_bytes_max, self.tree.bytes(NodeId::ROOT));
        let mut fits = |bytes_max: u64| {
            self.bytes_max = bytes_max as f64;
            self.pass(dearest) <= budget.stores_max
        };
        if low >= high || fits(low) {
            self.bytes_max = low as f64;
            return low;
        }
        while high - low > 1 + low / 1024 {
            let middle = low.midpoint(high);
            if fits(middle) { high = middle } else { low = middle }
        }
        self.bytes_max = high as f64;
        high
    }

    /// Prices every node that may be split; returns the number of stores of the whole plan.
    fn pass(&mut self, price: f64) -> u32 {
        self.price = price;
        if self.may_split(NodeId::ROOT) {
            self.visit(NodeId::ROOT);
            if self.is_split(NodeId::ROOT) {
                return self.split[0].stores;
            }
        }
        1
    }

    fn visit(&mut self, node: NodeId) {
        let span = self.span(node);
        for at in span.inner.0..span.inner.1 {
            let child = self.inner[at as usize];
            if self.may_split(child) {
                self.visit(child);
            }
        }
        let (packed, apart) = self.pack(span);
        let fixed = self.demand.subtree(node) as f64 * self.tree.bytes(node) as f64;
        self.split[node.at()] = Split { cost: fixed + packed.cost + apart.cost, stores: packed.bundles + apart.stores };
    }

    /// Packs the parts of a node; those that are split themselves are added up.
    fn pack(&mut self, span: Span) -> (Packed, Split) {
        let mut apart = Split::default();
        self.packer.begin(self.price, self.bytes_max);
        for at in span.items.0..span.items.1 {
            let item = self.items[at as usize];
            match item.inner().filter(|child| self.is_split(*child)) {
                Some(child) => {
                    apart.cost += self.split[child.at()].cost;
                    apart.stores += self.split[child.at()].stores;
                }
                None => self.packer.push((at - span.items.0) as usize, &item),
            }
        }
        (self.packer.finish(), apart)
    }

    /// Whether splitting could pay: into two stores at least, it saves no more than all the waste.
    fn may_split(&self, node: NodeId) -> bool {
        !self.tree.is_leaf(node)
            && (self.demand.waste_alone(self.tree, node) > self.price || self.tree.bytes(node) as f64 > self.bytes_max)
    }

    /// Whether a node is split in the latest pass.
    fn is_split(&self, node: NodeId) -> bool {
        if !self.may_split(node) {
            return false;
        }
        let bytes = self.tree.bytes(node) as f64;
        let whole = self.price + self.demand.all(node) * bytes;
        let Split { cost, stores } = self.split[node.at()];
        bytes > self.bytes_max || cost + self.price * f64::from(stores) < whole
    }

    /// The bundles of the latest pass.
    fn bundles(&mut self) -> Vec<Bundle> {
        let mut bundles = Vec::new();
        let mut open = vec![NodeId::ROOT];
        if !self.is_split(NodeId::ROOT) {
            bundles.push(Bundle::new(None, vec![Item::whole(self.tree, self.demand, NodeId::ROOT)]));
            open.clear();
        }
        while let Some(node) = open.pop() {
            let span = self.span(node);
            let (packed, _) = self.pack(span);
            let items = &self.items[span.items.0 as usize..span.items.1 as usize];
            let is_split = |item: &&Item| item.inner().is_some_and(|child| self.is_split(child));
            open.extend(items.iter().filter(is_split).map(|item| item.part.node));
            let mut runs = vec![Vec::new(); packed.bundles as usize + 1];
            for (run, places) in self.packer.runs() {
                runs[run as usize].extend(items[places].iter().filter(|item| !is_split(item)));
            }
            runs.retain(|run| !run.is_empty());
            bundles.extend(runs.into_iter().map(|run| Bundle::new(Some(node), run)));
        }
        debug_assert!(bundles.iter().all(|bundle| {
            bundle.items.iter().all(|item| {
                item.part.extent == super::Extent::Own || scope_of(self.tree, item.part.node) == bundle.scope
            })
        }));
        bundles
    }

    /// The sorted items of a node, made when it is first looked at.
    fn span(&mut self, node: NodeId) -> Span {
        if let Some(span) = self.spans[node.at()] {
            return span;
        }
        let (items_from, inner_from) = (self.items.len() as u32, self.inner.len() as u32);
        let items = items_of(self.tree, self.demand, node);
        self.inner.extend(items.iter().filter_map(|item| item.inner()));
        self.items.extend(items);
        let span = Span { items: (items_from, self.items.len() as u32), inner: (inner_from, self.inner.len() as u32) };
        self.spans[node.at()] = Some(span);
        span
    }
}
