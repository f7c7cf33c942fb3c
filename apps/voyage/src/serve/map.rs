//! The map page and what it draws: coast, ports; the description of the interface.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use super::State;
use crate::error::{Error, Result};
use crate::ports;
use crate::sea::coast;
use crate::sea::network::Network;
use crate::sea::sphere::{Position, Vector};

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("map.js");
const API_PAGE: &str = include_str!("api.html");
const OPENAPI: &str = include_str!("openapi.json");

/// The map draws to a hundredth of a degree.
const STEPS_PER_DEGREE: f64 = 100.0;

/// Latitudes beyond have no longitude worth drawing.
const POLE_LAT: f64 = 89.9;

pub(super) async fn page() -> Html<&'static str> {
    Html(PAGE)
}

pub(super) async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response()
}

pub(super) async fn api_page() -> Html<&'static str> {
    Html(API_PAGE)
}

fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "max-age=3600")], text).into_response()
}

pub(super) async fn openapi() -> Response {
    json_text(OPENAPI.to_owned())
}

pub(super) async fn get_coast(Shared(state): Shared<Arc<State>>) -> Response {
    json_text(state.coast.clone())
}

pub(super) async fn get_ports(Shared(state): Shared<Arc<State>>) -> Response {
    json_text(state.ports.clone())
}

/// The ports of the map: name, country, size, longitude, latitude.
pub fn ports() -> Result<String> {
    let rows: Vec<_> = ports::ports()?.iter().map(|p| json!([p.name, p.country, p.size, p.at.lon, p.at.lat])).collect();
    serde_json::to_string(&rows).map_err(|e| Error::Write(e.into()))
}

/// The rings of the coast, each a row of longitudes and latitudes in steps; longitudes go on beyond ±180.
pub fn coast(network: &Network) -> Result<String> {
    let arcs: Vec<_> = network.barrier.arcs().iter().filter(|arc| coast::is_coast(arc.tag)).collect();
    let bits = |v: Vector| [v.x.to_bits(), v.y.to_bits(), v.z.to_bits()];
    let begins: HashMap<_, usize> = arcs.iter().enumerate().map(|(i, arc)| (bits(arc.a), i)).collect();
    let mut seen = vec![false; arcs.len()];
    let mut rings: Vec<Vec<i32>> = Vec::new();
    for first in 0..arcs.len() {
        let mut ring = Vec::new();
        let mut next = Some(first);
        while let Some(at) = next.filter(|at| !std::mem::replace(&mut seen[*at], true)) {
            ring.push(arcs[at].a);
            next = begins.get(&bits(arcs[at].b)).copied();
        }
        let ring = drawn(&ring);
        if ring.len() >= 6 {
            rings.push(ring);
        }
    }
    serde_json::to_string(&rings).map_err(|e| Error::Write(e.into()))
}

fn drawn(ring: &[Vector]) -> Vec<i32> {
    let mut line: Vec<Position> =
        ring.iter().map(|v| Position::from(*v)).filter(|at| at.lat.abs() < POLE_LAT).collect();
    for i in 1..line.len() {
        let turn = ((line[i - 1].lon - line[i].lon) / 360.0).round() * 360.0;
        line[i].lon += turn;
    }
    if let (Some(first), Some(last)) = (line.first().copied(), line.last().copied())
        && (first.lon - last.lon).abs() > 180.0
    {
        let pole = 90f64.copysign(first.lat);
        line.extend([Position::new(last.lon, pole), Position::new(first.lon, pole)]);
    }
    let step = |degrees: f64| (degrees * STEPS_PER_DEGREE).round() as i32;
    let mut points: Vec<[i32; 2]> = line.iter().map(|at| [step(at.lon), step(at.lat)]).collect();
    points.dedup();
    points.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coast_of_the_map_is_rings_of_the_whole_globe() {
        let network = crate::sea::oceans().unwrap();
        let rings: Vec<Vec<i32>> = serde_json::from_str(&coast(&network).unwrap()).unwrap();
        let points: usize = rings.iter().map(|ring| ring.len() / 2).sum();
        assert!(rings.len() > 500 && points > 30_000, "{} rings, {points} points", rings.len());
        let longest = rings.iter().map(Vec::len).max().unwrap();
        assert!(longest > 5_000, "the old world hangs together");
        assert!(rings.iter().all(|ring| ring.len() % 2 == 0));
    }
}
