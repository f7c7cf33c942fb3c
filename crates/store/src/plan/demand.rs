//! What is read: how often each topic and each subtree is asked for.
//!
//! A plan is judged by what its readers must ignore, so the planner needs to know what they read. With
//! `own` and `subtree` counts at every node one model serves all lenses: as long as a node is whole in a
//! store, everything asked at and below it reads that store; once it is split, its subtree is made of
//! whole stores and wastes nothing.

use super::{Error, NodeId, TopicTree};

/// How often topics and subtrees are read, with the sums that planners need.
#[derive(Clone, Debug)]
pub struct Demand {
    own: Vec<u64>,
    subtree: Vec<u64>,
    /// Everything asked at and below the node.
    all: Vec<f64>,
    /// What these reads would cost if each read only its own bytes.
    useful: Vec<f64>,
    /// The fewest bytes that any one of them wants; `u64::MAX` if nothing is asked.
    least: Vec<u64>,
}

impl Demand {
    /// Every topic is read once.
    #[must_use]
    pub fn topics(tree: &TopicTree) -> Demand {
        let own = tree.nodes().map(|node| u64::from(tree.row(node).is_some())).collect();
        Demand::sum_up(tree, own, vec![0; tree.len()])
    }

    /// Every subtree of two topics or more is read once.
    #[must_use]
    pub fn subtrees(tree: &TopicTree) -> Demand {
        let subtree = tree.nodes().map(|node| u64::from(tree.topics(node) > 1)).collect();
        Demand::sum_up(tree, vec![0; tree.len()], subtree)
    }

    /// What subscribers asked for: filters, each with how often. A filter with `*` counts once for each
    /// topic or subtree it matches; a filter that matches nothing counts for nothing.
    ///
    /// # Errors
    /// A filter that is none.
    pub fn recorded<'a>(tree: &TopicTree, filters: impl IntoIterator<Item = (&'a [u8], u64)>) -> Result<Demand, Error> {
        let (mut own, mut subtree) = (vec![0u64; tree.len()], vec![0u64; tree.len()]);
        for (filter, times) in filters {
            Demand::check_filter(filter)?;
            let levels: Vec<&[u8]> = filter.split(|b| *b == b'/').collect();
            let (deep, levels) = match levels.split_last() {
                Some((last, above)) if *last == b"**" => (true, above),
                _ => (false, &levels[..]),
            };
            visit(tree, NodeId::ROOT, levels, &mut |node| {
                let count = if deep { &mut subtree } else { &mut own };
                if deep || tree.row(node).is_some() {
                    count[node.at()] = count[node.at()].saturating_add(times);
                }
            });
        }
        Ok(Demand::sum_up(tree, own, subtree))
    }

    /// Whether these bytes are a filter.
    ///
    /// # Errors
    /// What a filter is, where these bytes are none.
    pub fn check_filter(filter: &[u8]) -> Result<(), Error> {
        let levels: Vec<&[u8]> = filter.split(|b| *b == b'/').collect();
        let starred = |level: &&[u8]| level.contains(&b'*') && **level != *b"*" && **level != *b"**";
        let why = if filter.is_empty() {
            "a filter is not empty"
        } else if filter.starts_with(b"!") {
            "filters that start with ! are reserved"
        } else if levels.iter().any(starred) {
            "a star stands for a whole level"
        } else if levels[..levels.len() - 1].iter().any(|level| *level == b"**") {
            "** stands at the end only"
        } else {
            return Ok(());
        };
        Err(Error::Filter { filter: String::from_utf8_lossy(filter).into_owned(), why })
    }

    fn sum_up(tree: &TopicTree, own: Vec<u64>, subtree: Vec<u64>) -> Demand {
        let mut demand = Demand {
            all: vec![0.0; own.len()],
            useful: vec![0.0; own.len()],
            least: vec![u64::MAX; own.len()],
            own,
            subtree,
        };
        for node in tree.nodes().rev() {
            let at = node.at();
            let (own, subtree) = (demand.own[at], demand.subtree[at]);
            let mut asked = |times: u64, bytes: u64| {
                if times > 0 {
                    demand.all[at] += times as f64;
                    demand.useful[at] += times as f64 * bytes as f64;
                    demand.least[at] = demand.least[at].min(bytes);
                }
            };
            asked(own, tree.row(node).map_or(0, |row| tree.row_bytes(row)));
            asked(subtree, tree.bytes(node));
            if node != NodeId::ROOT {
                let up = tree.parent(node).at();
                demand.all[up] += demand.all[at];
                demand.useful[up] += demand.useful[at];
                demand.least[up] = demand.least[up].min(demand.least[at]);
            }
        }
        demand
    }

    /// How often the node's own topic is read.
    #[must_use]
    pub fn own(&self, node: NodeId) -> u64 {
        self.own[node.at()]
    }

    /// How often the node's whole subtree is read.
    #[must_use]
    pub fn subtree(&self, node: NodeId) -> u64 {
        self.subtree[node.at()]
    }

    /// How often the node or anything below it is read.
    pub(super) fn all(&self, node: NodeId) -> f64 {
        self.all[node.at()]
    }

    /// What the node would waste, alone in a store of its own.
    pub(super) fn waste_alone(&self, tree: &TopicTree, node: NodeId) -> f64 {
        self.all[node.at()] * tree.bytes(node) as f64 - self.useful[node.at()]
    }

    /// What all reads together find useful: cost less this is waste.
    pub(super) fn useful(&self, node: NodeId) -> f64 {
        self.useful[node.at()]
    }

    pub(super) fn least(&self, node: NodeId) -> u64 {
        self.least[node.at()]
    }

    /// The fewest bytes that a read of the node's own topic wants.
    pub(super) fn least_own(&self, tree: &TopicTree, node: NodeId) -> u64 {
        if self.own(node) == 0 {
            return u64::MAX;
        }
        tree.row(node).map_or(u64::MAX, |row| tree.row_bytes(row))
    }
}

/// Calls `found` with every node that the levels lead to; `*` leads to every child.
fn visit(tree: &TopicTree, node: NodeId, levels: &[&[u8]], found: &mut dyn FnMut(NodeId)) {
    let Some((level, rest)) = levels.split_first() else {
        found(node);
        return;
    };
    if *level == b"*" {
        for child in tree.children(node) {
            // Topics of the bus itself are not matched by a wildcard at the first level.
            if node != NodeId::ROOT || !tree.level(child).starts_with(b"$") {
                visit(tree, child, rest, found);
            }
        }
        return;
    }
    let mut name = tree.name(node).to_vec();
    if node != NodeId::ROOT {
        name.push(b'/');
    }
    name.extend_from_slice(level);
    if let Some(child) = tree.find(&name) {
        visit(tree, child, rest, found);
    }
}
