//! The list of canals, straits, shoals and rivers, and what the graph gets of it: points, ways, lines across.

use serde::Deserialize;

use super::sights::{Node, Shape};
use crate::error::{Error, Result};
use crate::sea::barrier::{Arc, Barrier};
use crate::sea::coast::{self, Step, Tag};
use crate::sea::network::{PASSAGES_MAX, Passage, PassageKind};
use crate::sea::sphere::{EARTH_KM, Position, Vector};

/// Farthest that neighbouring points of a canal or river are apart, so that a port beside it finds one.
const POINTS_KM: f64 = 5.0;

/// A strait has one portal for so many kilometres of its width, and four at most in one stretch of
/// water. Of lines across a whole sea, one for each twentieth.
const PORTAL_KM: f64 = 6.0;
const PORTALS_MAX: usize = 4;
const PORTAL_SHARE: f64 = 1.0 / 20.0;

/// Stretches of water narrower than this, or than this share of the line, have no portal: nothing
/// passes there.
const STRETCH_KM_MIN: f64 = 0.2;
const STRETCH_SHARE_MIN: f64 = 1.0 / 120.0;

/// How far nodes lie off the ends and bends of a clearance, in kilometres.
const CLEAR_KM: f64 = 1.5;

/// The nearest coast is within this many kilometres of any point: half the globe's girth.
const REACH_KM: f64 = 3.2 * EARTH_KM;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    canal: Vec<Way>,
    #[serde(default)]
    strait: Vec<Across>,
    #[serde(default)]
    river: Vec<Way>,
    #[serde(default)]
    shoal: Vec<Shoal>,
    #[serde(default)]
    clearance: Vec<Shoal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    name: String,
    #[serde(default)]
    closed: bool,
    along: Vec<[f64; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Across {
    name: String,
    #[serde(default)]
    closed: bool,
    across: [[f64; 2]; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shoal {
    name: String,
    line: Vec<[f64; 2]>,
}

/// What the list gives to the graph.
#[derive(Debug, Default)]
pub struct Passages {
    /// In the order of their numbers.
    pub list: Vec<Passage>,
    /// Nodes of their own.
    pub nodes: Vec<Node>,
    /// Ways between these nodes, by their places in `nodes`, that land does not stop.
    pub ways: Vec<(u32, u32)>,
    /// Nodes that count as going through a passage: place in `nodes`, number of the passage.
    pub portals: Vec<(u32, u32)>,
    /// Lines across straits.
    pub lines: Vec<Arc>,
}

/// Reads the list `text` and lays it over the coast.
pub fn passages(text: &str, coast: &Barrier) -> Result<Passages> {
    let document: Document = toml::from_str(text).map_err(|e| Error::Passages(e.to_string()))?;
    let mut out = Passages::default();
    for canal in &document.canal {
        out.way(canal, PassageKind::Canal, coast)?;
    }
    for strait in &document.strait {
        out.strait(strait, coast)?;
    }
    for shoal in &document.shoal {
        let number = out.add(&shoal.name, PassageKind::Shoal, true, &shoal.line)?;
        let points: Vec<Vector> = shoal.line.iter().map(|[lon, lat]| Position::new(*lon, *lat).into()).collect();
        points.windows(2).for_each(|pair| out.line(number, pair[0], pair[1]));
    }
    for clearance in &document.clearance {
        out.clearance(clearance, coast)?;
    }
    for river in &document.river {
        out.way(river, PassageKind::River, coast)?;
    }
    Ok(out)
}

impl Passages {
    fn add(&mut self, name: &str, kind: PassageKind, closed: bool, line: &[[f64; 2]]) -> Result<u32> {
        if line.len() < 2 {
            return Err(Error::Passages(format!("{name:?} has fewer than two points")));
        }
        if self.list.len() == PASSAGES_MAX {
            return Err(Error::Passages(format!("there are more than {PASSAGES_MAX}")));
        }
        if self.list.iter().any(|p| p.name == name) {
            return Err(Error::Passages(format!("the name {name:?} stands twice")));
        }
        let line = line.iter().map(|[lon, lat]| Position::new(*lon, *lat)).collect();
        self.list.push(Passage { name: name.to_owned(), kind, closed, line });
        Ok(self.list.len() as u32 - 1)
    }

    fn node(&mut self, at: Vector, coast: &Barrier) -> u32 {
        let step = Step::from(Position::from(at));
        let at = Vector::from(Position::from(step));
        // Ways that share a point meet there.
        if let Some(same) = self.nodes.iter().position(|node| node.at == at) {
            return same as u32;
        }
        let on_land = coast::shore(coast, at, REACH_KM).is_some_and(|shore| shore.on_land);
        let shape = if on_land { Shape::Inland } else { Shape::Free };
        self.nodes.push(Node { at, shape, strait: None });
        self.nodes.len() as u32 - 1
    }

    fn way(&mut self, way: &Way, kind: PassageKind, coast: &Barrier) -> Result<()> {
        let number = self.add(&way.name, kind, way.closed, &way.along)?;
        let points: Vec<Vector> = way.along.iter().map(|[lon, lat]| Position::new(*lon, *lat).into()).collect();
        let mut line = vec![self.node(points[0], coast)];
        for pair in points.windows(2) {
            let pieces = (pair[0].km_to(pair[1]) / POINTS_KM).ceil().max(1.0);
            for i in 1..=pieces as u32 {
                line.push(self.node(pair[0].towards(pair[1], f64::from(i) / pieces), coast));
            }
        }
        self.ways.extend(line.windows(2).map(|pair| (pair[0], pair[1])));
        if kind == PassageKind::Canal {
            self.portals.push((line[line.len() / 2], number));
            for end in [line[0], line[line.len() - 1]] {
                if self.nodes[end as usize].shape == Shape::Inland {
                    let at = Position::from(self.nodes[end as usize].at);
                    return Err(Error::Passages(format!(
                        "an end of {:?} is not in the sea: {:.3},{:.3}",
                        way.name, at.lon, at.lat
                    )));
                }
            }
        }
        Ok(())
    }

    fn strait(&mut self, strait: &Across, coast: &Barrier) -> Result<()> {
        let number = self.add(&strait.name, PassageKind::Strait, strait.closed, &strait.across)?;
        let [from, to] = strait.across.map(|[lon, lat]| Vector::from(Position::new(lon, lat)));
        let total = from.km_to(to);
        let mut shores = Vec::new();
        coast.crossed(from, to, |arc| {
            let plane = from.cross(to).cross(arc.a.cross(arc.b)).unit();
            let cut = if plane.dot(arc.a) < 0.0 { plane * -1.0 } else { plane };
            shores.push(from.km_to(cut));
        });
        shores.sort_by(f64::total_cmp);
        let starts_on_land = coast::shore(coast, from, REACH_KM).is_some_and(|shore| shore.on_land);
        let mut edges = if starts_on_land { shores } else { [vec![0.0], shores].concat() };
        if edges.len() % 2 == 1 {
            edges.push(total);
        }
        let mut portals = Vec::new();
        for water in edges.chunks(2) {
            let width = water[1] - water[0];
            if width < STRETCH_KM_MIN.max(total * STRETCH_SHARE_MIN) {
                continue;
            }
            let count = ((width / PORTAL_KM.max(total * PORTAL_SHARE)) as usize).clamp(1, PORTALS_MAX);
            portals.extend((0..count).map(|i| water[0] + width * (i as f64 + 0.5) / count as f64));
        }
        if portals.is_empty() {
            return Err(Error::Passages(format!("the line across {:?} crosses no water", strait.name)));
        }
        for km in portals {
            let node = self.node(from.towards(to, km / total), coast);
            self.nodes[node as usize].strait = Some(number);
            self.portals.push((node, number));
        }
        self.line(number, from, to);
        Ok(())
    }

    /// A line that ships go around: it has nodes beyond its ends at sea, and on both sides of the points between.
    fn clearance(&mut self, clearance: &Shoal, coast: &Barrier) -> Result<()> {
        let number = self.add(&clearance.name, PassageKind::Shoal, true, &clearance.line)?;
        let points: Vec<Vector> = clearance.line.iter().map(|[lon, lat]| Position::new(*lon, *lat).into()).collect();
        points.windows(2).for_each(|pair| self.line(number, pair[0], pair[1]));
        let off = CLEAR_KM / EARTH_KM;
        for three in points.windows(3) {
            let side = (three[2] - three[0]).cross(three[1]).unit();
            for side in [side, side * -1.0] {
                self.node((three[1] + side * off).unit(), coast);
            }
        }
        for (end, before) in [(points[0], points[1]), (points[points.len() - 1], points[points.len() - 2])] {
            if coast::shore(coast, end, REACH_KM).is_none_or(|shore| !shore.on_land) {
                self.node((end + (end - before).unit() * off).unit(), coast);
            }
        }
        Ok(())
    }

    fn line(&mut self, number: u32, from: Vector, to: Vector) {
        let pieces = (from.km_to(to) / (0.05 * EARTH_KM)).ceil().max(1.0);
        for i in 0..pieces as u32 {
            let (a, b) = (f64::from(i) / pieces, f64::from(i + 1) / pieces);
            let tag = Tag::strait(number as usize).bits();
            self.lines.push(Arc { a: from.towards(to, a), b: from.towards(to, b), tag });
        }
    }
}
