//! One end of a route: where a ship really begins or ends, and what the network is from there.
//!
//! ```text
//! asked ──▶ in the sea?      ──────────────▶ sees nodes around ──▶ climb
//!           on land, sea near ──▶ put to sea ─▲
//!           on land, river nearer ──────────▶ joins the river ───▶ climb
//!           too far from both ──▶ refused
//! ```

use super::climb::Climb;
use super::coast::{self, OFFING_KM};
use super::nearby::Found;
use super::network::Network;
use super::sphere::{EARTH_KM, Position, Vector, chord_of_km};
use crate::error::{Error, Result};

/// Nodes looked at around a place, in two rounds: the second only if the first finds too few links.
const LOOK_AT: [usize; 2] = [24, 400];

/// How far nodes are looked for, in kilometres.
const LOOK_KM: f64 = 13_000.0;

/// Links of a place: at most so many, at most so many in one direction, at least so many.
const LINKS_MAX: usize = 10;
const LINKS_IN_SECTOR_MAX: usize = 2;
const LINKS_MIN: usize = 2;

/// Directions around a place.
const SECTORS: usize = 8;

/// Directions tried to leave a corner of the coast.
const TURNS: u32 = 12;

/// Nodes of a river that a place beside it is linked to.
const RIVER_LINKS: usize = 2;

/// A place, joined to the network.
#[derive(Debug)]
pub struct Place {
    /// What was asked for.
    pub asked: Position,
    /// Where the way begins.
    pub at: Vector,
    /// How far that is from what was asked for, in kilometres; 0 in the sea.
    pub snap_km: f64,
    /// Whether it begins in a river or canal.
    pub inland: bool,
    /// The network from here.
    pub climb: Climb,
    /// Distances to all portals, through no other.
    pub to_portals: Vec<f32>,
}

/// Where a way may begin.
struct Start {
    at: Vector,
    snap_km: f64,
    inland: bool,
}

impl Place {
    /// Joins `asked` to `network`; refuses what is farther than `snap_km_max` from water.
    pub fn new(network: &Network, asked: Position, snap_km_max: f64) -> Result<Self> {
        if !asked.is_valid() {
            return Err(Error::Position { lon: asked.lon, lat: asked.lat });
        }
        if !network.knows_land {
            return on_line(network, asked, snap_km_max);
        }
        let Start { mut at, mut snap_km, inland } = start(network, asked, snap_km_max)?;
        let mut links = Vec::with_capacity(LINKS_MAX);
        if inland {
            join_river(network, at, &mut links);
        } else {
            look_around(network, at, &mut links);
        }
        if links.is_empty() {
            // In a creek from which no node is seen: begin at the nearest one.
            let mut found = Found::default();
            network.open.nearest(at, 1, chord_of_km(snap_km_max), &mut found);
            let Some((_, node)) = found.points.first() else {
                return Err(Error::Enclosed { lon: asked.lon, lat: asked.lat });
            };
            at = network.at[*node as usize];
            snap_km = at.km_to(asked.into());
            links.push((*node, 0.0));
        }
        Ok(Self::linked(network, asked, Start { at, snap_km, inland }, &links))
    }

    fn linked(network: &Network, asked: Position, start: Start, links: &[(u32, f32)]) -> Self {
        let climb = Climb::new(network, links);
        let to_portals = climb.to_portals(&network.portals);
        let Start { at, snap_km, inland } = start;
        Self { asked, at, snap_km, inland, climb, to_portals }
    }
}

/// In a network of lines: at its nearest node.
fn on_line(network: &Network, asked: Position, snap_km_max: f64) -> Result<Place> {
    let from = Vector::from(asked);
    let mut found = Found::default();
    network.open.nearest(from, 1, 2.0, &mut found);
    let Some((_, node)) = found.points.first() else {
        return Err(Error::Enclosed { lon: asked.lon, lat: asked.lat });
    };
    let at = network.at[*node as usize];
    let snap_km = at.km_to(from);
    if snap_km > snap_km_max {
        return Err(Error::Inland { lon: asked.lon, lat: asked.lat, km: snap_km, km_max: snap_km_max });
    }
    Ok(Place::linked(network, asked, Start { at, snap_km, inland: true }, &[(*node, 0.0)]))
}

fn start(network: &Network, asked: Position, snap_km_max: f64) -> Result<Start> {
    let at = Vector::from(asked);
    // Far from all coasts the nearest one still tells land from sea.
    let near = coast::shore(&network.barrier, at, snap_km_max.max(1.0));
    let shore = near.or_else(|| coast::shore(&network.barrier, at, EARTH_KM * 3.2));
    let Some(shore) = shore.filter(|shore| shore.on_land) else {
        return Ok(Start { at, snap_km: 0.0, inland: false });
    };
    let mut found = Found::default();
    network.inland.nearest(at, 1, chord_of_km(snap_km_max.min(shore.km)), &mut found);
    if let Some((_, node)) = found.points.first() {
        let to = network.at[*node as usize];
        return Ok(Start { at: to, snap_km: to.km_to(at), inland: true });
    }
    if shore.km > snap_km_max {
        return Err(Error::Inland { lon: asked.lon, lat: asked.lat, km: shore.km, km_max: snap_km_max });
    }
    let to = put_to_sea(network, at, shore.at);
    Ok(Start { at: to, snap_km: to.km_to(at), inland: false })
}

/// A point in the sea beside `shore`, the point of the coast nearest to `at` on land: straight on, or, in
/// a corner of the coast, in the direction in which most room is.
fn put_to_sea(network: &Network, at: Vector, shore: Vector) -> Vector {
    let ahead = (shore - at).unit();
    let aside = ahead.cross(shore).unit();
    for km in OFFING_KM {
        let off = |turn: f64| (shore + (ahead * turn.cos() + aside * turn.sin()) * (km / EARTH_KM)).unit();
        let room = |p: Vector| {
            let found = coast::shore(&network.barrier, p, 2.0 * km);
            found.map_or(2.0 * km, |shore| if shore.on_land { 0.0 } else { shore.km })
        };
        if room(off(0.0)) >= km / 2.0 {
            return off(0.0);
        }
        let turns = (1..TURNS).map(|i| off(f64::from(i) * std::f64::consts::TAU / f64::from(TURNS)));
        let widest = turns.map(|p| (room(p), p)).max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, p)) = widest.filter(|(room, _)| *room >= km / 4.0) {
            return p;
        }
    }
    shore
}

fn join_river(network: &Network, at: Vector, links: &mut Vec<(u32, f32)>) {
    let mut found = Found::default();
    network.inland.nearest(at, RIVER_LINKS, chord_of_km(1.0), &mut found);
    links.extend(found.points.iter().map(|(_, node)| (*node, network.at[*node as usize].km_to(at) as f32)));
}

/// Links to nodes that are seen from `at`, near ones first, some in every direction. Ways through a
/// strait are linked by its portals only, so that a query can close it.
fn look_around(network: &Network, at: Vector, links: &mut Vec<(u32, f32)>) {
    let east = Vector { x: -at.y, y: at.x, z: 0.0 }.unit();
    let north = at.cross(east);
    let mut found = Found::default();
    for count in LOOK_AT {
        links.clear();
        let mut sectors = [0usize; SECTORS];
        network.open.nearest(at, count, chord_of_km(LOOK_KM), &mut found);
        for (_, node) in &found.points {
            let to = network.at[*node as usize];
            let (x, y) = (to.dot(east), to.dot(north));
            let sector = usize::from(x > 0.0) | usize::from(y > 0.0) << 1 | usize::from(x.abs() > y.abs()) << 2;
            if sectors[sector] == LINKS_IN_SECTOR_MAX {
                continue;
            }
            // A portal lies on the line across its strait: that line does not stop the way to it.
            let own = network.passage_of(*node);
            let stops = |tag: u32| coast::strait_of(tag).is_none_or(|strait| Some(strait as u32) != own);
            if network.barrier.crosses(at, to, stops) {
                continue;
            }
            sectors[sector] += 1;
            links.push((*node, at.km_to(to) as f32));
            if links.len() == LINKS_MAX {
                return;
            }
        }
        if links.len() >= LINKS_MIN {
            return;
        }
    }
}
