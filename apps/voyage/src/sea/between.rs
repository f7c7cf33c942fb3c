//! From portal to portal: distances through those passages that are open, and which portals lie on the
//! way.

use super::climb::Climb;
use super::network::{NONE, Network, PassageSet, Portals};

impl Portals {
    /// Climbs from each portal over its own ways (`aside`: lower node, higher node, kilometres), and the
    /// distances that follow.
    #[must_use]
    pub fn new(network: &Network, passages: Vec<u32>, aside: &[(u32, u32, f32)]) -> Self {
        let count = passages.len();
        let links = |portal: usize| -> Vec<(u32, f32)> {
            let node = network.first_portal + portal as u32;
            let of = |(a, b, km): &(u32, u32, f32)| match (*a == node, *b == node) {
                (true, _) => Some((*b, *km)),
                (_, true) => Some((*a, *km)),
                _ => None,
            };
            aside.iter().filter_map(of).collect()
        };
        let climbs: Vec<Climb> = (0..count).map(|portal| Climb::new(network, &links(portal))).collect();
        let mut km = vec![f32::MAX; count * count];
        let mut hub = vec![NONE; network.at.len()];
        let mut from_hub = Vec::new();
        for (i, climb) in climbs.iter().enumerate() {
            for reached in &climb.nodes {
                let row = &mut hub[reached.node as usize];
                if *row == NONE {
                    *row = (from_hub.len() / count) as u32;
                    from_hub.resize(from_hub.len() + count, f32::MAX);
                }
                from_hub[*row as usize * count + i] = reached.km;
            }
            for (j, other) in climbs.iter().enumerate() {
                km[i * count + j] = climb.meet(other).map_or(f32::MAX, |(_, km)| km);
            }
            for (j, direct) in &climb.linked {
                let best = &mut km[i * count + *j as usize];
                *best = best.min(*direct);
            }
            km[i * count + i] = 0.0;
        }
        Self { passages, climbs, km, hub, from_hub }
    }

    /// Appends the nodes from portal `i` to portal `j` through no other, without either.
    pub fn hop(&self, network: &Network, i: usize, j: usize, out: &mut Vec<u32>) {
        let (from, to) = (&self.climbs[i], &self.climbs[j]);
        let direct = from.linked.iter().find(|(portal, _)| *portal as usize == j);
        if let Some((node, km)) = from.meet(to)
            && direct.is_none_or(|(_, direct)| km < *direct)
        {
            from.way_to(network, node, out);
            out.pop(); // the node comes again as the first of the second half
            to.way_from(network, node, out);
        }
    }
}

/// Distances between all portals for one set of closed passages.
#[derive(Debug)]
pub struct Between {
    count: usize,
    km: Vec<f32>,
    /// The portal after the first on the way.
    next: Vec<u32>,
}

impl Between {
    /// Computes them: each portal of an open passage may be passed (Floyd and Warshall).
    #[must_use]
    pub fn new(portals: &Portals, closed: PassageSet) -> Self {
        let count = portals.passages.len();
        let open: Vec<bool> = portals.passages.iter().map(|passage| !closed.has(*passage)).collect();
        let mut between = Self { count, km: portals.km.clone(), next: vec![NONE; count * count] };
        for (at, km) in between.km.iter_mut().enumerate() {
            let (i, j) = (at / count, at % count);
            if open[i] && open[j] {
                between.next[at] = j as u32;
            } else {
                *km = f32::MAX;
            }
        }
        for over in (0..count).filter(|over| open[*over]) {
            for i in 0..count {
                let to_over = between.km[i * count + over];
                if to_over == f32::MAX {
                    continue;
                }
                for j in 0..count {
                    let km = to_over + between.km[over * count + j];
                    if km < between.km[i * count + j] {
                        between.km[i * count + j] = km;
                        between.next[i * count + j] = between.next[i * count + over];
                    }
                }
            }
        }
        between
    }

    /// How much memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        8 * self.km.len()
    }

    /// The distances from portal `i` to all.
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.km[i * self.count..(i + 1) * self.count]
    }

    /// The portal that follows `i` on the way to `j`.
    #[must_use]
    pub fn next(&self, i: usize, j: usize) -> usize {
        self.next[i * self.count + j] as usize
    }
}
