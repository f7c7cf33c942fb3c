//! Distances of other tools and what they went over.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::input::Input;
use crate::sea::sphere::Position;

const FILE_BYTES_MAX: u64 = 1 << 28;

/// A port of a pair.
#[derive(Debug, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    #[serde(flatten)]
    /// Where it is.
    pub at: Position,
}

/// A distance by a tool, with what it tells about it.
#[derive(Debug, Deserialize)]
pub struct Told {
    /// Kilometres along the network.
    pub km: f64,
    /// With the ways from and to the ports.
    pub km_with_legs: Option<f64>,
}

/// A pair of ports.
#[derive(Debug, Deserialize)]
pub struct Pair {
    /// Its number.
    pub id: u32,
    /// A port.
    pub from: Port,
    /// A port.
    pub to: Port,
    /// Great circle.
    pub gc_km: f64,
    /// By searoute.
    pub searoute: Told,
    /// By scgraph.
    pub scgraph_marnet: Option<Told>,
}

/// A pair with a published distance.
#[derive(Debug, Deserialize)]
pub struct Published {
    /// A port.
    pub from: Port,
    /// A port.
    pub to: Port,
    /// Nautical miles.
    pub nm: f64,
    /// The other way round.
    pub nm_reverse: Option<f64>,
    /// What it says of its way.
    pub via: Option<String>,
}

/// Reads JSON Lines.
pub fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let mut input = Input::open(path)?;
    let (mut line, mut all) = (Vec::new(), Vec::new());
    while input.next_line(&mut line)?.is_some() {
        let json = |source| Error::Json { path: path.to_owned(), line: all.len() as u64 + 1, source };
        all.push(serde_json::from_slice(&line).map_err(json)?);
    }
    Ok(all)
}

#[derive(Deserialize)]
struct Lines {
    features: Vec<Feature>,
}

#[derive(Deserialize)]
struct Feature {
    properties: Properties,
    geometry: Geometry,
}

#[derive(Deserialize)]
struct Properties {
    id: u32,
}

#[derive(Deserialize)]
struct Geometry {
    coordinates: Vec<[f64; 2]>,
}

/// Reads lines of GeoJSON by their `id`.
pub fn geometries(path: &Path) -> Result<HashMap<u32, Vec<Position>>> {
    let bytes = Input::open(path)?.read_all(FILE_BYTES_MAX)?;
    let json = |source| Error::Json { path: path.to_owned(), line: 0, source };
    let lines: Lines = serde_json::from_slice(&bytes).map_err(json)?;
    let line = |f: Feature| {
        let points = f.geometry.coordinates.iter().map(|[lon, lat]| Position::new(*lon, *lat));
        (f.properties.id, points.collect())
    };
    Ok(lines.features.into_iter().map(line).collect())
}

/// A tool's own network.
#[derive(Debug)]
pub struct PeerNetwork {
    at: Vec<Position>,
    near: Vec<Vec<(u32, f64)>>,
}

impl PeerNetwork {
    /// Reads `NAME.nodes.csv.zst` and `NAME.edges.csv.zst`.
    pub fn read(dir: &Path, name: &str) -> Result<Self> {
        let mut at: Vec<Position> = Vec::new();
        let mut number = HashMap::new();
        rows(&dir.join(format!("{name}.nodes.csv.zst")), |row| {
            let [id, lon, lat, ..] = row else { return false };
            let (Ok(lon), Ok(lat)) = (lon.parse(), lat.parse()) else { return false };
            number.insert((*id).to_owned(), at.len() as u32);
            at.push(Position::new(lon, lat));
            true
        })?;
        let mut near = vec![Vec::new(); at.len()];
        rows(&dir.join(format!("{name}.edges.csv.zst")), |row| {
            let [a, b, km, ..] = row else { return false };
            let (Some(a), Some(b), Ok(km)) = (number.get(*a), number.get(*b), km.parse()) else { return false };
            near[*a as usize].push((*b, km));
            near[*b as usize].push((*a, km));
            true
        })?;
        Ok(Self { at, near })
    }

    fn nearest(&self, to: Position) -> Option<usize> {
        let km = |i: &usize| self.at[*i].km_to(to);
        (0..self.at.len()).min_by(|i, j| km(i).total_cmp(&km(j)))
    }

    /// The shortest way between two positions by way of their nearest nodes: kilometres with the legs to
    /// them, points.
    #[must_use]
    pub fn route(&self, from: Position, to: Position) -> Option<(f64, Vec<Position>)> {
        let (start, end) = (self.nearest(from)?, self.nearest(to)?);
        let mut best = vec![(f64::MAX, u32::MAX); self.at.len()];
        let mut heap = BinaryHeap::new();
        best[end].0 = 0.0;
        heap.push((Reverse(0), end));
        while let Some((Reverse(key), v)) = heap.pop() {
            if v == start {
                break;
            }
            let here = f64::from_bits(key);
            for (w, km) in &self.near[v] {
                let slot = &mut best[*w as usize];
                if here + km < slot.0 {
                    *slot = (here + km, v as u32);
                    heap.push((Reverse((here + km).to_bits()), *w as usize));
                }
            }
        }
        if best[start].0 == f64::MAX {
            return None;
        }
        let mut points = vec![from];
        let mut at = start;
        loop {
            points.push(self.at[at]);
            if at == end {
                break;
            }
            at = best[at].1 as usize;
        }
        points.push(to);
        let km = best[start].0 + from.km_to(self.at[start]) + to.km_to(self.at[end]);
        Some((km, points))
    }
}

fn rows(path: &Path, mut row: impl FnMut(&[&str]) -> bool) -> Result<()> {
    let mut input = Input::open(path)?;
    let mut line = Vec::new();
    let mut number = 0;
    while input.next_line(&mut line)?.is_some() {
        number += 1;
        let text = String::from_utf8_lossy(&line);
        let fields: Vec<&str> = text.split(',').collect();
        if number > 1 && !row(&fields) {
            return Err(Error::Table { path: path.to_owned(), line: number });
        }
    }
    Ok(())
}

/// Continuous longitudes: no step is wider than half a turn.
pub fn unroll(line: &mut [Position]) {
    for i in 1..line.len() {
        let turn = ((line[i - 1].lon - line[i].lon) / 360.0).round() * 360.0;
        line[i].lon += turn;
    }
}
