//! The sea network: where ways turn, how they hang together, what stops them.
//!
//! ```text
//!      capes        ▲ highest rank    each node knows its ways and shortcuts to nodes of higher rank
//!      bays         │                 only, so that a search from a place is a short climb
//!      creeks       │ lowest rank
//! ```
//!
//! Portals (the middle of a canal, points on the line across a strait) stand aside: no way up leads
//! through one, so a query can close them. Each has a climb of its own.
//!
//! A network is built once and never changes; any number of threads may ask it.

use serde::{Deserialize, Serialize};

use super::barrier::Barrier;
use super::climb::Climb;
use super::nearby::Nearby;
use super::sphere::{Position, Vector};
use super::tops::Tops;

/// What a passage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassageKind {
    /// A way through land that can be avoided.
    Canal,
    /// A line from land to land; every way through it can be avoided.
    Strait,
    /// A way through land to ports far from the sea.
    River,
    /// A line over water that no ship can pass.
    Shoal,
}

/// A canal, strait or river.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// Its name in options and results.
    pub name: String,
    /// What it is.
    pub kind: PassageKind,
    /// Not used unless it is allowed.
    pub closed: bool,
    /// Its points; of a strait, the ends of the line across.
    pub line: Vec<Position>,
}

impl Passage {
    /// Whether it is a canal or a strait.
    #[must_use]
    pub fn can_be_avoided(&self) -> bool {
        matches!(self.kind, PassageKind::Canal | PassageKind::Strait)
    }
}

/// There are at most this many passages: a set of them is one word.
pub const PASSAGES_MAX: usize = 128;

/// A set of passages, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PassageSet(pub u128);

impl PassageSet {
    /// Whether `number` is in the set.
    #[must_use]
    pub fn has(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }

    /// Puts `number` in or out.
    pub fn set(&mut self, number: u32, is_in: bool) {
        let bit = 1 << number;
        self.0 = if is_in { self.0 | bit } else { self.0 & !bit };
    }
}

/// No node, no way.
pub const NONE: u32 = u32::MAX;

/// A way to a node of higher rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Up {
    /// That node.
    pub to: u32,
    /// Length in kilometres.
    pub km: f32,
    /// The node of lower rank that a shortcut leads over, or [`NONE`].
    pub via: u32,
    /// Of a shortcut: the ways up from `via` to its lower and to its higher end, by their places among
    /// all ways up.
    pub halves: [u32; 2],
}

/// What is around a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Around {
    /// A corner of the coast, and the direction away from it.
    Corner(Vector),
    /// Open water.
    Free,
    /// A canal or river.
    Inland,
}

/// Canals and straits as a query sees them.
#[derive(Debug, Default)]
pub struct Portals {
    /// The passage that each belongs to.
    pub passages: Vec<u32>,
    /// The network from each, as from a place.
    pub climbs: Vec<Climb>,
    /// Distances from each to each through no other, row by row.
    pub km: Vec<f32>,
    /// For each node its row in `from_hub`, or [`NONE`].
    pub hub: Vec<u32>,
    /// Distances from the nodes that climbs of portals reach, to all portals, row by row.
    pub from_hub: Vec<f32>,
}

/// A network. Nodes are numbered by rank.
#[derive(Debug)]
pub struct Network {
    /// All passages.
    pub passages: Vec<Passage>,
    /// Coast and the lines across straits.
    pub barrier: Barrier,
    /// Whether there is a coast at all: networks of lines have none, and only their lines are ways.
    pub knows_land: bool,
    /// Where the nodes are.
    pub at: Vec<Vector>,
    /// The ways up of node `v` are `ups[first_up[v]..first_up[v + 1]]`, sorted by their ends.
    pub first_up: Vec<u32>,
    /// Ways up.
    pub ups: Vec<Up>,
    /// The first portal; all nodes from here on are portals.
    pub first_portal: u32,
    /// The highest nodes below the portals, climbed already.
    pub tops: Tops,
    /// The portals, in order.
    pub portals: Portals,
    /// What is around each node.
    pub around: Vec<Around>,
    /// Nodes in open water, to be found by place.
    pub open: Nearby,
    /// Nodes of canals and rivers, to be found by place.
    pub inland: Nearby,
}

impl Network {
    /// The ways up of `v`.
    #[must_use]
    pub fn up(&self, v: u32) -> &[Up] {
        let v = v as usize;
        &self.ups[self.first_up[v] as usize..self.first_up[v + 1] as usize]
    }

    /// The place of node `v` among the portals, if it is one.
    #[must_use]
    pub fn portal(&self, v: u32) -> Option<usize> {
        v.checked_sub(self.first_portal).map(|at| at as usize)
    }

    /// The passage of node `v`, if it is a portal.
    #[must_use]
    pub fn passage_of(&self, v: u32) -> Option<u32> {
        self.portal(v).and_then(|at| self.portals.passages.get(at)).copied()
    }

    /// The number of the passage `name`.
    #[must_use]
    pub fn passage(&self, name: &str) -> Option<u32> {
        self.passages.iter().position(|p| p.name == name).map(|n| n as u32)
    }

    /// Whether passage `number` is a canal or a strait.
    #[must_use]
    pub fn can_be_avoided(&self, number: u32) -> bool {
        self.passages.get(number as usize).is_some_and(Passage::can_be_avoided)
    }

    /// The names of canals and straits.
    pub fn avoidable(&self) -> impl Iterator<Item = &str> {
        self.passages.iter().filter(|p| p.can_be_avoided()).map(|p| p.name.as_str())
    }

    /// Those not used unless they are allowed.
    #[must_use]
    pub fn closed(&self) -> PassageSet {
        let mut set = PassageSet::default();
        for (number, passage) in (0..).zip(&self.passages) {
            if passage.closed {
                set.set(number, true);
            }
        }
        set
    }

    /// Appends the nodes between the ends of `up`, from the lower one's side, without either.
    pub fn unfold(&self, up: &Up, out: &mut Vec<u32>) {
        if up.via == NONE {
            return;
        }
        let [lower, higher] = up.halves.map(|half| &self.ups[half as usize]);
        self.unfold_back(lower, out);
        out.push(up.via);
        self.unfold(higher, out);
    }

    /// The same from the higher one's side.
    pub fn unfold_back(&self, up: &Up, out: &mut Vec<u32>) {
        if up.via == NONE {
            return;
        }
        let [lower, higher] = up.halves.map(|half| &self.ups[half as usize]);
        self.unfold_back(higher, out);
        out.push(up.via);
        self.unfold(lower, out);
    }

    /// The way up from `v` to `to`.
    #[must_use]
    pub fn find(&self, v: u32, to: u32) -> Option<&Up> {
        let ups = self.up(v);
        ups.binary_search_by_key(&to, |up| up.to).ok().map(|at| &ups[at])
    }
}
