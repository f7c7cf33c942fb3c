//! From a place up the ranks: what a query needs to know of one of its ends.
//!
//! A climb holds every node that is reached over ways up only, with its distance. The way between two
//! places leads over the node in both climbs at which the sum is least, so a distance is one walk along
//! two sorted lists.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::network::{NONE, Network, Portals};

/// A node reached.
#[derive(Debug, Clone, Copy)]
pub struct Reached {
    /// The node.
    pub node: u32,
    /// Distance from the place.
    pub km: f32,
    /// The node before it on the way up, or [`NONE`] if it is linked to the place itself.
    pub from: u32,
}

/// All nodes reached from a place, by rank.
#[derive(Debug, Default)]
pub struct Climb {
    /// Nodes that are no portals.
    pub nodes: Box<[Reached]>,
    /// Portals linked to the place itself: place among the portals, distance.
    pub linked: Box<[(u32, f32)]>,
}

#[derive(Debug, Default)]
struct Scratch {
    km: Vec<f32>,
    from: Vec<u32>,
    touched: Vec<u32>,
    /// Bits of the distance, then the node.
    waiting: BinaryHeap<Reverse<u64>>,
    reached: Vec<Reached>,
    /// Distance and node before it of each top.
    tops: Vec<(f32, u32)>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Climb {
    /// Climbs from `links`: nodes seen from the place, with their distances.
    #[must_use]
    pub fn new(network: &Network, links: &[(u32, f32)]) -> Self {
        let portal = |(node, km): &(u32, f32)| Some((network.portal(*node)? as u32, *km));
        let nodes = SCRATCH.with_borrow_mut(|scratch| scratch.climb(network, links));
        Self { nodes, linked: links.iter().filter_map(portal).collect() }
    }

    fn find(&self, node: u32) -> Option<&Reached> {
        self.nodes.binary_search_by_key(&node, |r| r.node).ok().map(|at| &self.nodes[at])
    }

    /// Appends the nodes on the way from the place up to `node`, `node` included.
    pub fn way_to(&self, network: &Network, node: u32, out: &mut Vec<u32>) {
        let start = out.len();
        self.way_from(network, node, out);
        out[start..].reverse();
    }

    /// The same, from `node` down to the place.
    pub fn way_from(&self, network: &Network, node: u32, out: &mut Vec<u32>) {
        let mut at = node;
        while let Some(reached) = self.find(at) {
            out.push(at);
            if reached.from == NONE {
                break;
            }
            if let Some(up) = network.find(reached.from, at) {
                network.unfold_back(up, out);
            }
            at = reached.from;
        }
    }

    /// The node over which two climbs meet, and the sum of their distances.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Option<(u32, f32)> {
        let (mut a, mut b) = (&self.nodes[..], &other.nodes[..]);
        let mut best = (NONE, f32::MAX);
        while let ([x, a_rest @ ..], [y, b_rest @ ..]) = (a, b) {
            if x.node == y.node && x.km + y.km < best.1 {
                best = (x.node, x.km + y.km);
            }
            if x.node <= y.node {
                a = a_rest;
            }
            if y.node <= x.node {
                b = b_rest;
            }
        }
        (best.0 != NONE).then_some(best)
    }

    /// Distances to all portals, through no other.
    #[must_use]
    pub fn to_portals(&self, portals: &Portals) -> Vec<f32> {
        let count = portals.passages.len();
        let mut best = vec![f32::MAX; count];
        for reached in &self.nodes {
            let row = portals.hub[reached.node as usize];
            if row == NONE {
                continue;
            }
            let first = row as usize * count;
            for (best, km) in best.iter_mut().zip(&portals.from_hub[first..first + count]) {
                *best = best.min(reached.km + km);
            }
        }
        for (portal, km) in &self.linked {
            let best = &mut best[*portal as usize];
            *best = best.min(*km);
        }
        best
    }
}

impl Scratch {
    fn climb(&mut self, network: &Network, links: &[(u32, f32)]) -> Box<[Reached]> {
        if self.km.len() < network.at.len() {
            self.km.resize(network.at.len(), f32::MAX);
            self.from.resize(network.at.len(), NONE);
        }
        for (node, km) in links.iter().filter(|(node, _)| network.portal(*node).is_none()) {
            self.reach(*node, *km, NONE, network.tops.first);
        }
        while let Some(Reverse(next)) = self.waiting.pop() {
            let (key, v) = ((next >> 32) as u32, next as u32);
            let here = self.km[v as usize];
            if f32::from_bits(key) > here {
                continue;
            }
            // A node that is reached sooner from one above it is on no shortest way up.
            let ups = network.up(v);
            if ups.iter().any(|up| self.km[up.to as usize] + up.km < here) {
                continue;
            }
            self.reached.push(Reached { node: v, km: here, from: self.from[v as usize] });
            for up in ups {
                self.reach(up.to, here + up.km, v, network.tops.first);
            }
        }
        self.reached.sort_unstable_by_key(|r| r.node);
        self.take_tops(network);
        for v in self.touched.drain(..) {
            self.km[v as usize] = f32::MAX;
        }
        let reached = self.reached[..].into();
        self.reached.clear();
        reached
    }

    /// Appends the tops, by rank: those that the search has reached, and what is above these.
    fn take_tops(&mut self, network: &Network) {
        let tops = &network.tops;
        self.tops.clear();
        self.tops.resize(tops.count(), (f32::MAX, NONE));
        for v in self.touched.iter().filter(|v| **v >= tops.first) {
            let km = self.km[*v as usize];
            let own = &mut self.tops[(*v - tops.first) as usize];
            if km >= own.0 {
                continue; // over another top it is reached sooner
            }
            *own = (km, self.from[*v as usize]);
            for above in tops.above(*v) {
                let known = &mut self.tops[above.top as usize];
                if km + above.km < known.0 {
                    *known = (km + above.km, above.from);
                }
            }
        }
        let found = (tops.first..).zip(&self.tops).filter(|(_, (km, _))| *km < f32::MAX);
        self.reached.extend(found.map(|(node, (km, from))| Reached { node, km: *km, from: *from }));
    }

    fn reach(&mut self, node: u32, km: f32, from: u32, first_top: u32) {
        let best = &mut self.km[node as usize];
        if km < *best {
            if *best == f32::MAX {
                self.touched.push(node);
            }
            *best = km;
            self.from[node as usize] = from;
            if node >= first_top {
                return; // climbed already
            }
            // Distances are above 0, so their bits sort as they do.
            self.waiting.push(Reverse(u64::from(km.to_bits()) << 32 | u64::from(node)));
        }
    }
}
