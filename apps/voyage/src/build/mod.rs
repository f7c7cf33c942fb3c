//! Makes a sea network out of land polygons and the list of passages.
//!
//! ```text
//! land ──▶ simplify ──▶ coast + passages ──▶ sights ──▶ span ──▶ contract ──▶ file
//!          grows only    nodes off corners    who sees   few      order and
//!                        and along canals     whom       ways     shortcuts
//! ```

pub mod contract;
pub mod land;
pub mod passages;
pub mod sights;
pub mod simplify;
pub mod span;

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::sea::barrier::Barrier;
use crate::sea::coast::{self, NO_NODE, OFFING_KM, Step, Tag};
use crate::sea::file::Contents;
use crate::sea::sphere::Position;
use passages::Passages;
use sights::{Node, Shape, Sight};
use simplify::Tolerance;

/// The list of passages that belongs to this crate.
pub const PASSAGES: &str = include_str!("../../data/passages.toml");

/// What a network is made of, and how fine.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Land polygons (GeoJSON).
    pub land: Vec<PathBuf>,
    /// How far a simple coast may leave the true one.
    pub tolerance: Tolerance,
    /// The list of passages.
    pub passages: String,
    /// How much longer than the true distance the way along the network may be, as a share.
    pub slack: f32,
}

/// Coast, passages, nodes, and which see each other: the long part.
#[derive(Debug)]
pub struct Seen {
    rings: Vec<Vec<Step>>,
    passages: Passages,
    nodes: Vec<Node>,
    offings: Vec<u8>,
    /// Ways from sight to sight, shortest first.
    pub sights: Vec<Sight>,
}

/// Builds; `told` hears one line for each step.
pub fn build(recipe: &Recipe, told: &(dyn Fn(&str) + Sync)) -> Result<Contents> {
    let mut seen = prepare(recipe, told)?;
    look(&mut seen, told);
    Ok(finish(seen, recipe.slack, told))
}

/// Coast, passages and nodes.
pub fn prepare(recipe: &Recipe, told: &(dyn Fn(&str) + Sync)) -> Result<Seen> {
    let mut land = Vec::new();
    for path in &recipe.land {
        land.extend(land::rings(path)?);
    }
    if land.is_empty() {
        return Err(Error::Network("there is no land".to_owned()));
    }
    told(&format!("{} coasts, {} points", land.len(), land.iter().map(Vec::len).sum::<usize>()));
    let rings = lattice(&simplify::simplify(&land, recipe.tolerance));
    told(&format!("{} simple coasts, {} points", rings.len(), rings.iter().map(Vec::len).sum::<usize>()));
    let passages = passages::passages(&recipe.passages, &Barrier::new(coast::arcs(&rings)))?;
    let (nodes, offings) = nodes(&passages, &rings, &barrier(&rings, &passages));
    told(&format!("{} passages, {} nodes", passages.list.len(), nodes.len()));
    Ok(Seen { rings, passages, nodes, offings, sights: Vec::new() })
}

fn barrier(rings: &[Vec<Step>], passages: &Passages) -> Barrier {
    let mut arcs = coast::arcs(rings);
    arcs.extend(passages.lines.iter().copied());
    Barrier::new(arcs)
}

/// Which nodes see each other.
pub fn look(seen: &mut Seen, told: &(dyn Fn(&str) + Sync)) {
    let barrier = barrier(&seen.rings, &seen.passages);
    seen.sights = sights::sights(&seen.nodes, &barrier, |at, of| {
        if at % 8192 == 0 {
            told(&format!("looked around from {at} of {of} nodes"));
        }
    });
    told(&format!("{} ways from sight to sight", seen.sights.len()));
}

/// Few ways, their order, shortcuts.
pub fn finish(seen: Seen, slack: f32, told: &(dyn Fn(&str) + Sync)) -> Contents {
    let Seen { rings, passages, mut nodes, mut offings, sights } = seen;
    let fixed: Vec<Sight> = passages.ways.iter().map(|(a, b)| way(&nodes, *a, *b)).collect();
    let mut near = span::span(&nodes, &fixed, &sights, slack).near;
    told(&format!("{} ways kept", near.iter().map(Vec::len).sum::<usize>() / 2));
    let points = passages.nodes.len();
    let lonely = lonely(points, &near);
    told(&format!("{} nodes in waters of their own, left out", lonely.iter().filter(|l| **l).count()));
    drop_nodes(points, &lonely, &mut nodes, &mut offings, &mut near);
    let portals: Vec<u32> = passages.portals.iter().map(|(node, _)| *node).collect();
    let contraction = contract::contract(&near, &portals, |at, of, degree| {
        if at % 10_000 == 0 || of - at < 5000 {
            told(&format!("took out {at} of {of} nodes, the last with {degree} ways"));
        }
    });
    told(&format!("{} shortcuts", contraction.shortcuts.iter().map(Vec::len).sum::<usize>()));
    let ways = (0u32..).zip(&near).flat_map(|(a, near)| near.iter().map(move |(b, _)| (a, *b)));
    Contents {
        points: passages.nodes.iter().map(|n| (Position::from(n.at).into(), n.shape == Shape::Inland)).collect(),
        portals: passages.portals.iter().map(|(_, passage)| *passage).collect(),
        lines: passages.lines.iter().filter_map(piece).collect(),
        passages: passages.list,
        rings,
        offings,
        ways: ways.filter(|(a, b)| a < b).collect(),
        order: contraction.order,
        shortcuts: contraction.shortcuts,
    }
}

fn piece(arc: &crate::sea::barrier::Arc) -> Option<(u32, Step, Step)> {
    let step = |v| Step::from(Position::from(v));
    let strait = coast::strait_of(arc.tag)?;
    debug_assert_eq!(Tag::strait(strait).bits(), arc.tag);
    (step(arc.a) != step(arc.b)).then(|| (strait as u32, step(arc.a), step(arc.b)))
}

fn way(nodes: &[Node], a: u32, b: u32) -> Sight {
    let km = nodes[a as usize].at.km_to(nodes[b as usize].at) as f32;
    Sight { from: a.min(b), to: a.max(b), km }
}

/// Rounds coasts to the lattice.
fn lattice(rings: &[land::Ring]) -> Vec<Vec<Step>> {
    let round = |ring: &land::Ring| {
        let mut steps: Vec<Step> = ring.iter().map(|at| Step::from(*at)).collect();
        steps.dedup();
        while steps.len() > 1 && steps.first() == steps.last() {
            steps.pop();
        }
        steps
    };
    rings.iter().map(round).filter(|ring| ring.len() >= 3).collect()
}

/// The nodes of the passages, then one off each corner that has room; and how far off each is.
fn nodes(passages: &Passages, rings: &[Vec<Step>], barrier: &Barrier) -> (Vec<Node>, Vec<u8>) {
    let mut nodes = passages.nodes.clone();
    let mut offings = Vec::new();
    for corner in coast::corners(rings) {
        // Twice the offing is free, so that the node is nearer to its own coast than to another.
        let free = |km: f64| !barrier.crosses(corner.off(km * 0.01), corner.off(2.0 * km), |_| true);
        let offing = OFFING_KM.iter().position(|km| free(*km));
        if let Some(at) = offing {
            nodes.push(Node { at: corner.off(OFFING_KM[at]), shape: Shape::Corner(corner), strait: None });
        }
        offings.push(offing.map_or(NO_NODE, |at| at as u8));
    }
    (nodes, offings)
}

/// Waters with fewer nodes are ponds behind the coast's rounding, unless there is no larger one; the
/// Caspian Sea has some hundred.
const WATERS_NODES_MIN: usize = 100;

/// Corner nodes that hang together with few others only.
fn lonely(points: usize, near: &[Vec<(u32, f32)>]) -> Vec<bool> {
    let mut water = vec![usize::MAX; near.len()];
    let mut sizes = Vec::new();
    for first in 0..near.len() {
        if water[first] != usize::MAX {
            continue;
        }
        let mut later = vec![first];
        water[first] = sizes.len();
        sizes.push(0);
        while let Some(v) = later.pop() {
            sizes[water[first]] += 1;
            for (w, _) in &near[v] {
                if water[*w as usize] == usize::MAX {
                    water[*w as usize] = water[first];
                    later.push(*w as usize);
                }
            }
        }
    }
    let least = sizes.iter().copied().max().unwrap_or(0).min(WATERS_NODES_MIN);
    (0..near.len()).map(|node| node >= points && sizes[water[node]] < least).collect()
}

/// Takes out `drop` among the corner nodes: numbers close up.
fn drop_nodes(
    points: usize,
    drop: &[bool],
    nodes: &mut Vec<Node>,
    offings: &mut [u8],
    near: &mut Vec<Vec<(u32, f32)>>,
) {
    let mut number = vec![0u32; nodes.len()];
    let mut kept = 0;
    for (node, number) in number.iter_mut().enumerate() {
        *number = kept;
        kept += u32::from(!drop[node]);
    }
    let with_node = offings.iter_mut().filter(|offing| **offing != NO_NODE);
    for (offing, drop) in with_node.zip(&drop[points..]) {
        if *drop {
            *offing = NO_NODE;
        }
    }
    let mut at = drop.iter();
    nodes.retain(|_| at.next() == Some(&false));
    let mut at = drop.iter();
    near.retain(|_| at.next() == Some(&false));
    for (to, _) in near.iter_mut().flatten() {
        *to = number[*to as usize];
    }
}
