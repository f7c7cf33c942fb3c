//! What the climb is from each of the highest nodes, computed when a network is made.
//!
//! Most of a climb is spent among the few thousand nodes of highest rank, which all climbs share. So these are climbed
//! once: a search from a place stops where it reaches one, and takes the rest from here.
//!
//! ```text
//!   place ── search below the tops ──▶ a few tops ── lists of these, merged ──▶ climb
//! ```
//!
//! A list leaves out what another way reaches sooner, so it is short.

use super::network::{NONE, Network};

/// How many nodes are tops: from here on a search below them settles some ten nodes, and the lists take some megabytes.
const TOPS_MAX: u32 = 6144;

/// A way by less than this share longer is no longer: sums of rounded lengths.
const SAME: f32 = 1.000_001;

/// A top above another one.
#[derive(Debug, Clone, Copy)]
pub struct Above {
    /// Its place among the tops.
    pub top: u32,
    /// The node before it on the way up.
    pub from: u32,
    /// Its distance.
    pub km: f32,
}

/// The highest nodes that are no portals.
#[derive(Debug, Default)]
pub struct Tops {
    /// The first of them, by its rank.
    pub first: u32,
    /// What is above top `i` is `above[start[i]..start[i + 1]]`, by rank.
    start: Vec<u32>,
    above: Vec<Above>,
}

impl Tops {
    /// Climbs from the tops of `network`, the highest first: what is above a node is what is above those next to it.
    #[must_use]
    pub fn new(network: &Network) -> Self {
        let first = network.first_portal.saturating_sub(TOPS_MAX);
        let count = (network.first_portal - first) as usize;
        let mut lists: Vec<Vec<Above>> = vec![Vec::new(); count];
        let mut best = vec![(f32::MAX, NONE); count];
        let mut found: Vec<u32> = Vec::new();
        for at in (0..count).rev() {
            for up in network.up(first + at as u32) {
                let next = up.to - first;
                let mut reach = |top: u32, km: f32, from: u32| {
                    let known = &mut best[top as usize];
                    if known.0 == f32::MAX {
                        found.push(top);
                    }
                    if km < known.0 {
                        *known = (km, from);
                    }
                };
                reach(next, up.km, first + at as u32);
                lists[next as usize].iter().for_each(|above| reach(above.top, up.km + above.km, above.from));
            }
            lists[at] = sooner(&lists, &best, &mut found, first + at as u32, first);
            found.drain(..).for_each(|top| best[top as usize] = (f32::MAX, NONE));
        }
        let mut start = vec![0];
        for list in &lists {
            start.push(start[start.len() - 1] + list.len() as u32);
        }
        Self { first, start, above: lists.concat() }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.start.len().saturating_sub(1)
    }

    /// What is above the top `node`.
    #[must_use]
    pub fn above(&self, node: u32) -> &[Above] {
        let at = (node - self.first) as usize;
        &self.above[self.start[at] as usize..self.start[at + 1] as usize]
    }
}

/// Those of `found` that no other way reaches sooner, over a top that it shares with them. What is above one left out is
/// left out too: the way there leads over others.
fn sooner(lists: &[Vec<Above>], best: &[(f32, u32)], found: &mut [u32], own: u32, first: u32) -> Vec<Above> {
    found.sort_unstable();
    let mut kept: Vec<Above> = Vec::with_capacity(found.len());
    for top in found {
        let (km, from) = best[*top as usize];
        let over = |above: &Above| (best[above.top as usize].0 + above.km) * SAME < km;
        let begins = from == own || kept.binary_search_by_key(&(from - first), |above| above.top).is_ok();
        if begins && !lists[*top as usize].iter().any(over) {
            kept.push(Above { top: *top, from, km });
        }
    }
    kept
}
