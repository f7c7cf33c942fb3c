//! A route between two places.
//!
//! The network gives a way from node to node that is at most its slack too long. Then it is pulled
//! straight: a node is left out where the way past it is free.

use super::barrier::Barrier;
use super::between::Between;
use super::coast;
use super::network::{Around, Network, PassageSet};
use super::place::Place;
use super::sphere::{KM_PER_NM, Position, Vector};
use crate::error::{Error, Result};

/// A way by sea.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its length in kilometres, with the ways from and to what was asked for.
    pub km: f64,
    /// Where it turns, from what was asked for to what was asked for.
    pub turns: Vec<Vector>,
    /// The passages that it leads through, in order, by number.
    pub passages: Vec<u32>,
    /// How far its ends are from water.
    pub snap_km: [f64; 2],
}

impl Route {
    /// Its length in nautical miles.
    #[must_use]
    pub fn nm(&self) -> f64 {
        self.km / KM_PER_NM
    }

    /// Hours that it takes at `knots`.
    #[must_use]
    pub fn hours(&self, knots: f64) -> f64 {
        self.nm() / knots
    }

    /// Points so close that straight lines in degrees between them stay within a hundred metres of the
    /// great circles. Longitudes go on beyond ±180 instead of jumping.
    #[must_use]
    pub fn points(&self) -> Vec<Position> {
        let mut points: Vec<Position> = Vec::with_capacity(self.turns.len() * 4);
        let mut push = |v: Vector| {
            let mut at = Position::from(v);
            if let Some(last) = points.last() {
                at.lon += ((last.lon - at.lon) / 360.0).round() * 360.0;
            }
            if points.last() != Some(&at) {
                points.push(at);
            }
        };
        let Some(first) = self.turns.first() else { return points };
        push(*first);
        for leg in self.turns.windows(2) {
            // A line of d km strays d² tan(latitude) / 8 R from the great circle.
            let steep = (leg[0].z.abs().max(leg[1].z.abs())).clamp(0.3, 0.995);
            let step_km = 60.0 / (steep / (1.0 - steep * steep).sqrt()).sqrt();
            let pieces = (leg[0].km_to(leg[1]) / step_km).ceil().max(1.0);
            for i in 1..pieces as u32 {
                push(leg[0].towards(leg[1], f64::from(i) / pieces));
            }
            push(leg[1]);
        }
        points
    }
}

/// The shortest way from one place to another through passages that are not `closed`.
pub fn route(network: &Network, from: &Place, to: &Place, closed: PassageSet, between: &Between) -> Result<Route> {
    let stops = |tag: u32| coast::strait_of(tag).is_none_or(|strait| closed.has(strait as u32));
    let mut passages = Vec::new();
    let mut nodes = Vec::new();
    let inland = from.inland || to.inland;
    if !inland && !network.barrier.crosses(from.at, to.at, stops) {
        network.barrier.crossed(from.at, to.at, |arc| passages.extend(coast::strait_of(arc.tag).map(|n| n as u32)));
    } else {
        over_network(network, from, to, between, &mut nodes)?;
        let through = nodes.iter().filter_map(|node| network.passage_of(*node));
        through.for_each(|passage| push_new(&mut passages, passage));
    }
    let mut turns = Vec::with_capacity(nodes.len() + 2);
    turns.push(Turn { at: from.at, around: end(from) });
    turns.extend(
        nodes.iter().map(|node| Turn { at: network.at[*node as usize], around: network.around[*node as usize] }),
    );
    turns.push(Turn { at: to.at, around: end(to) });
    if network.knows_land {
        pull(&network.barrier, &mut turns, stops);
    }
    let asked = |place: &Place| (place.snap_km > 0.0).then(|| Vector::from(place.asked));
    let turns: Vec<Vector> = asked(from).into_iter().chain(turns.iter().map(|turn| turn.at)).chain(asked(to)).collect();
    let km = turns.windows(2).map(|leg| leg[0].km_to(leg[1])).sum();
    Ok(Route { km, turns, passages, snap_km: [from.snap_km, to.snap_km] })
}

fn push_new(passages: &mut Vec<u32>, passage: u32) {
    if passages.last() != Some(&passage) {
        passages.push(passage);
    }
}

fn over_network(network: &Network, from: &Place, to: &Place, between: &Between, out: &mut Vec<u32>) -> Result<()> {
    let (a, b) = (&from.climb, &to.climb);
    let open_sea = a.meet(b);
    let mut best = open_sea.map_or(f32::MAX, |(_, km)| km);
    let mut through = None;
    for (i, from_i) in from.to_portals.iter().enumerate() {
        if *from_i >= best {
            continue;
        }
        for (j, (between, to_j)) in between.row(i).iter().zip(&to.to_portals).enumerate() {
            let km = from_i + between + to_j;
            if km < best {
                best = km;
                through = Some((i, j));
            }
        }
    }
    let Some((first, last)) = through else {
        let (node, _) = open_sea.ok_or(Error::NoRoute { from: from.asked, to: to.asked })?;
        a.way_to(network, node, out);
        out.pop(); // it comes again as the first of the second half
        b.way_from(network, node, out);
        return Ok(());
    };
    to_portal(network, from, first, out);
    let mut at = first;
    loop {
        out.push(network.first_portal + at as u32);
        if at == last {
            break;
        }
        let next = between.next(at, last);
        network.portals.hop(network, at, next, out);
        at = next;
    }
    let start = out.len();
    to_portal(network, to, last, out);
    out[start..].reverse();
    Ok(())
}

/// Appends the nodes from a place to a portal, without it.
fn to_portal(network: &Network, place: &Place, portal: usize, out: &mut Vec<u32>) {
    let climb = &network.portals.climbs[portal];
    let linked = place.climb.linked.iter().find(|(at, _)| *at as usize == portal);
    if let Some((node, km)) = place.climb.meet(climb)
        && linked.is_none_or(|(_, linked)| km < *linked)
    {
        place.climb.way_to(network, node, out);
        out.pop(); // it comes again as the first of the second half
        climb.way_from(network, node, out);
    }
}

/// A turn while the way is pulled straight.
#[derive(Debug, Clone, Copy)]
struct Turn {
    at: Vector,
    around: Around,
}

fn end(place: &Place) -> Around {
    if place.inland { Around::Inland } else { Around::Free }
}

impl Turn {
    /// Whether the way bends around the corner here, so that it is tight already. In canals and rivers
    /// coast does not show where water is: they count as tight.
    fn is_tight(&self, before: &Self, after: &Self) -> bool {
        if [before, self, after].iter().any(|turn| turn.around == Around::Inland) {
            return true;
        }
        let Around::Corner(seaward) = self.around else { return false };
        let inward = (before.at - self.at).unit() + (after.at - self.at).unit();
        seaward.dot(inward) < 0.0
    }
}

/// Leaves out turns where the way is slack and the way past them is free. A way that is tight at every
/// turn is the shortest on its side of every coast.
fn pull(barrier: &Barrier, turns: &mut Vec<Turn>, stops: impl Fn(u32) -> bool + Copy) {
    let mut kept: Vec<Turn> = Vec::with_capacity(turns.len());
    for turn in turns.iter() {
        // The last one kept may be slack now that it is known what follows.
        while let [.., before, last] = &kept[..] {
            if last.is_tight(before, turn) || barrier.crosses(before.at, turn.at, stops) {
                break;
            }
            kept.pop();
        }
        kept.push(*turn);
    }
    *turns = kept;
}
