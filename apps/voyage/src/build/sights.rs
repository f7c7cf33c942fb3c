//! Which nodes see each other.
//!
//! Of two nodes at corners only those ways are kept that touch both corners: a way that would cut into a
//! corner's land if it went on is part of no shortest way. All pairs are asked, so the two cheap
//! questions come first: does the way touch both corners; is the direction not blocked by coast nearby.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sea::barrier::Barrier;
use crate::sea::coast::{self, Corner};
use crate::sea::sphere::{Vector, chord_of_km};

/// Coast within this distance makes the horizon of a node, in kilometres.
const HORIZON_KM: f64 = 60.0;

/// Directions of a horizon.
const DIRECTIONS: usize = 720;

/// Longest way between two nodes, in kilometres: a third of the globe's girth.
const SIGHT_KM_MAX: f64 = 13_000.0;

/// A way may cut into the direction of an edge by this sine, and by the share that the offings of both
/// nodes have of its length: nodes lie off their corners, so directions between them are not quite those
/// between corners.
const PASSING_SLACK: f64 = 0.1;

/// Threads that look around. The outcome does not depend on their number.
const THREADS_MAX: usize = 16;

/// Nodes that a thread takes at once.
const NODES_AT_ONCE: usize = 256;

/// What a node is beside a point.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Off a corner of the coast.
    Corner(Corner),
    /// In open water.
    Free,
    /// In a river or canal, with land around.
    Inland,
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// A point of the graph.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// Where it is.
    pub at: Vector,
    /// What is around it.
    pub shape: Shape,
    /// The strait whose portal it is: it lies on the line across, so that this line does not stop ways
    /// to it.
    pub strait: Option<u32>,
}

/// A way between two nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight {
    /// The node with the lower number.
    pub from: u32,
    /// The other one.
    pub to: u32,
    /// Its length.
    pub km: f32,
}

struct Horizon {
    north: Vector,
    east: Vector,
    blocked: [u64; DIRECTIONS.div_ceil(64)],
}

/// All ways between nodes that see each other, shortest first. `told` hears how far it is.
pub fn sights(nodes: &[Node], barrier: &Barrier, told: impl Fn(usize, usize) + Sync) -> Vec<Sight> {
    let horizons: Vec<Horizon> = nodes.iter().map(|node| Horizon::new(node.at, barrier)).collect();
    let edges: Vec<Edges> = nodes.iter().map(Edges::new).collect();
    let look = Look { nodes, barrier, horizons: &horizons, edges: &edges };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS_MAX));
    let next = AtomicUsize::new(0);
    let mut sights = Vec::new();
    std::thread::scope(|scope| {
        let work = || {
            let mut found = Vec::new();
            loop {
                let first = next.fetch_add(NODES_AT_ONCE, Ordering::Relaxed);
                if first >= nodes.len() {
                    return found;
                }
                told(first, nodes.len());
                (first..nodes.len().min(first + NODES_AT_ONCE)).for_each(|i| look.from(i, &mut found));
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            sights.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    sights.sort_unstable_by(|a, b| a.km.total_cmp(&b.km).then(a.from.cmp(&b.from)).then(a.to.cmp(&b.to)));
    sights
}

struct Look<'a> {
    nodes: &'a [Node],
    barrier: &'a Barrier,
    horizons: &'a [Horizon],
    edges: &'a [Edges],
}

impl Look<'_> {
    /// Appends the ways from node `i` to those after it.
    fn from(&self, i: usize, found: &mut Vec<Sight>) {
        let u = &self.nodes[i];
        if u.shape == Shape::Inland {
            return;
        }
        let far2 = chord_of_km(SIGHT_KM_MAX).powi(2);
        let near2 = chord_of_km(HORIZON_KM + 1.0).powi(2);
        for (j, w) in self.nodes.iter().enumerate().skip(i + 1) {
            let chord2 = u.at.chord2(w.at);
            if chord2 > far2 || chord2 == 0.0 || w.shape == Shape::Inland {
                continue;
            }
            let normal = u.at.cross(w.at);
            let slack = PASSING_SLACK * normal.length() + self.edges[i].offing + self.edges[j].offing;
            if !self.edges[i].touched(normal, slack) || !self.edges[j].touched(normal, slack) {
                continue;
            }
            if chord2 > near2 && (self.horizons[i].blocks(w.at) || self.horizons[j].blocks(u.at)) {
                continue;
            }
            let own = |tag: u32| {
                let strait = coast::strait_of(tag).map(|n| n as u32);
                strait.is_some() && (strait == u.strait || strait == w.strait)
            };
            let along = u.strait.is_some() && u.strait == w.strait;
            if !along && !self.barrier.crosses(u.at, w.at, |tag| !own(tag)) {
                found.push(Sight { from: i as u32, to: j as u32, km: u.at.km_to(w.at) as f32 });
            }
        }
    }
}

/// The directions of the two edges at a corner, none at other nodes; how far off the corner the node is,
/// in radii.
struct Edges {
    at_corner: Option<[Vector; 2]>,
    offing: f64,
}

impl Edges {
    fn new(node: &Node) -> Self {
        let Shape::Corner(c) = &node.shape else { return Self { at_corner: None, offing: 0.0 } };
        let edges = [(c.before - c.at).unit(), (c.after - c.at).unit()];
        Self { at_corner: Some(edges), offing: node.at.chord2(c.at).sqrt() }
    }

    /// Whether a way in the plane of `normal` has both edges on one side, or nearly, so that it passes by.
    fn touched(&self, normal: Vector, slack: f64) -> bool {
        let Some([before, after]) = &self.at_corner else { return true };
        let (before, after) = (normal.dot(*before), normal.dot(*after));
        before * after >= 0.0 || before.abs().min(after.abs()) < slack
    }
}

impl Horizon {
    fn new(at: Vector, barrier: &Barrier) -> Self {
        let east = Vector { x: -at.y, y: at.x, z: 0.0 }.unit();
        let mut horizon = Self { north: at.cross(east), east, blocked: [0; DIRECTIONS.div_ceil(64)] };
        barrier.within(at, HORIZON_KM, |arc| {
            let (a, b) = (horizon.direction(arc.a), horizon.direction(arc.b));
            // From the lower to the higher direction, the short way round, whole directions only.
            let (low, high) = if (b - a).rem_euclid(DIRECTIONS as f64) <= DIRECTIONS as f64 / 2.0 {
                (a, (b - a).rem_euclid(DIRECTIONS as f64))
            } else {
                (b, (a - b).rem_euclid(DIRECTIONS as f64))
            };
            let first = low.ceil();
            let count = (low + high).floor() - first;
            for i in 0..count.max(0.0) as usize {
                let direction = (first as usize + i) % DIRECTIONS;
                horizon.blocked[direction / 64] |= 1 << (direction % 64);
            }
        });
        horizon
    }

    fn direction(&self, p: Vector) -> f64 {
        let turn = p.dot(self.east).atan2(p.dot(self.north)) / std::f64::consts::TAU;
        turn.rem_euclid(1.0) * DIRECTIONS as f64
    }

    fn blocks(&self, p: Vector) -> bool {
        let direction = (self.direction(p) as usize).min(DIRECTIONS - 1);
        self.blocked[direction / 64] >> (direction % 64) & 1 == 1
    }
}
