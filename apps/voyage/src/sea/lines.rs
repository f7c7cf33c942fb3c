//! Networks of others: GeoJSON lines, contracted when they are read.
//!
//! Such a network knows no land. A place begins at the nearest point of a line, however far within the
//! limit, and nothing is straightened. A line with a property `passage` or `pass` can be avoided: its
//! middle is a portal.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::coast::Step;
use super::file::{self, Contents};
use super::network::{Network, PASSAGES_MAX, Passage, PassageKind};
use super::sphere::{Position, Vector};
use crate::build::contract;
use crate::error::{Error, Result};
use crate::input::Input;

/// Most bytes of a file with lines.
const LINES_BYTES_MAX: u64 = 1 << 28;

/// Most portals: distances between all of them are kept for each set of closed passages.
const PORTALS_MAX: usize = 500;

#[derive(Deserialize)]
struct Collection {
    features: Vec<Feature>,
}

#[derive(Deserialize)]
struct Feature {
    #[serde(default)]
    properties: Option<Properties>,
    geometry: Geometry,
}

#[derive(Deserialize, Default)]
struct Properties {
    #[serde(alias = "pass")]
    passage: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "coordinates")]
enum Geometry {
    LineString(Vec<[f64; 2]>),
    MultiLineString(Vec<Vec<[f64; 2]>>),
}

#[derive(Default)]
struct Gathered {
    contents: Contents,
    number: HashMap<Step, u32>,
    portals: Vec<(u32, u32)>,
}

/// Reads the lines of `path`.
pub fn read(path: &Path) -> Result<Network> {
    let bytes = Input::open(path)?.read_all(LINES_BYTES_MAX)?;
    let json = |source| Error::Json { path: path.to_owned(), line: 0, source };
    let collection: Collection = serde_json::from_slice(&bytes).map_err(json)?;
    let mut gathered = Gathered::default();
    for feature in collection.features {
        let passage = feature.properties.unwrap_or_default().passage;
        match feature.geometry {
            Geometry::LineString(line) => gathered.line(&line, passage.as_deref())?,
            Geometry::MultiLineString(lines) => {
                lines.iter().try_for_each(|line| gathered.line(line, passage.as_deref()))?;
            }
        }
    }
    let Gathered { mut contents, portals, .. } = gathered;
    contents.ways.sort_unstable();
    contents.ways.dedup();
    if contents.ways.is_empty() {
        return Err(Error::Network(format!("{} has no lines", path.display())));
    }
    let at: Vec<Vector> = contents.points.iter().map(|(step, _)| Position::from(*step).into()).collect();
    let mut near = vec![Vec::new(); at.len()];
    for (a, b) in &contents.ways {
        let km = at[*a as usize].km_to(at[*b as usize]) as f32;
        near[*a as usize].push((*b, km));
        near[*b as usize].push((*a, km));
    }
    let nodes: Vec<u32> = portals.iter().map(|(node, _)| *node).collect();
    let contraction = contract::contract(&near, &nodes, |_, _, _| ());
    contents.portals = portals.iter().map(|(_, passage)| *passage).collect();
    contents.order = contraction.order;
    contents.shortcuts = contraction.shortcuts;
    file::read(&file::write(&contents, file::FAST)?)
}

impl Gathered {
    fn line(&mut self, line: &[[f64; 2]], passage: Option<&str>) -> Result<()> {
        let mut points: Vec<Position> = line.iter().map(|[lon, lat]| Position::new(*lon, *lat)).collect();
        if let Some(wrong) = points.iter().find(|at| !at.is_valid()) {
            return Err(Error::Position { lon: wrong.lon, lat: wrong.lat });
        }
        if passage.is_some() && points.len() == 2 {
            let middle = Vector::from(points[0]).towards(points[1].into(), 0.5);
            points.insert(1, middle.into());
        }
        let nodes: Vec<u32> = points.iter().map(|at| self.node(*at)).collect();
        let ways = nodes.windows(2).filter(|pair| pair[0] != pair[1]);
        self.contents.ways.extend(ways.map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1]))));
        if let (Some(name), Some(middle)) = (passage, nodes.get(nodes.len() / 2)) {
            let number = self.passage(name, &points)?;
            if !self.portals.iter().any(|(node, _)| node == middle) {
                self.portals.push((*middle, number));
            }
            if self.portals.len() > PORTALS_MAX {
                return Err(Error::Network(format!("more than {PORTALS_MAX} lines are passages")));
            }
        }
        Ok(())
    }

    /// Points of two lines are one if they are the same to a metre; longitudes may be a turn apart.
    fn node(&mut self, at: Position) -> u32 {
        let step = Step::from(Position::from(Vector::from(at)));
        let next = self.contents.points.len() as u32;
        let node = *self.number.entry(step).or_insert(next);
        if node == next {
            self.contents.points.push((step, false));
        }
        node
    }

    fn passage(&mut self, name: &str, line: &[Position]) -> Result<u32> {
        let passages = &mut self.contents.passages;
        if let Some(known) = passages.iter().position(|p| p.name == name) {
            return Ok(known as u32);
        }
        if passages.len() == PASSAGES_MAX {
            return Err(Error::Network(format!("there are more than {PASSAGES_MAX} passages")));
        }
        let passage = Passage { name: name.to_owned(), kind: PassageKind::Canal, closed: false, line: line.to_vec() };
        passages.push(passage);
        Ok(passages.len() as u32 - 1)
    }
}
