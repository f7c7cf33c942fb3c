//! Answers as JSON and as text, the same on the command line and over HTTP.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::sea::route::Route;
use crate::sea::router::{Options, Router};
use crate::sea::sphere::Position;

/// A route, told.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    /// Kilometres.
    pub km: f64,
    /// Nautical miles.
    pub nm: f64,
    /// Canals and straits that it leads through, in order.
    pub passages: Vec<&'a str>,
    /// Kilometres from what was asked for to water, at both ends.
    pub snap_km: [f64; 2],
    /// Hours at the speed asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<f64>,
    /// The way: longitude and latitude.
    pub points: Vec<[f64; 2]>,
}

/// Whether a ship can go at this speed.
#[must_use]
pub fn is_speed(knots: f64) -> bool {
    knots > 0.0 && knots.is_finite()
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

impl<'a> Answer<'a> {
    /// Tells `route`; with its duration if a speed is given.
    #[must_use]
    pub fn new(router: &'a Router, route: &Route, knots: Option<f64>) -> Self {
        let passages = &router.network().passages;
        let point = |at: Position| [rounded(at.lon, 5), rounded(at.lat, 5)];
        Self {
            km: rounded(route.km, 3),
            nm: rounded(route.nm(), 3),
            passages: route.passages.iter().map(|n| passages[*n as usize].name.as_str()).collect(),
            snap_km: route.snap_km.map(|km| rounded(km, 3)),
            hours: knots.map(|knots| rounded(route.hours(knots), 3)),
            points: route.points().into_iter().map(point).collect(),
        }
    }
}

impl std::fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:.1} km, {:.1} nm", self.km, self.nm)?;
        if let Some(hours) = self.hours {
            writeln!(f, "{hours:.1} hours")?;
        }
        if !self.passages.is_empty() {
            writeln!(f, "through {}", self.passages.join(", "))?;
        }
        for (end, km) in ["begins", "ends"].iter().zip(self.snap_km).filter(|(_, km)| *km > 0.0) {
            writeln!(f, "{end} {km:.1} km from the position asked for")?;
        }
        Ok(())
    }
}

fn end(object: &Map<String, Value>, name: &str) -> Result<Position> {
    let wrong = || Error::Ask(format!("{name:?} must be {{\"lon\": …, \"lat\": …}} in degrees"));
    let degrees = |axis| object.get(name)?.get(axis)?.as_f64();
    Ok(Position::new(degrees("lon").ok_or_else(wrong)?, degrees("lat").ok_or_else(wrong)?))
}

fn asked(
    router: &Router,
    options: &Options,
    knots: Option<f64>,
    object: &Map<String, Value>,
) -> Result<Map<String, Value>> {
    let route = router.route(end(object, "from")?, end(object, "to")?, options)?;
    match serde_json::to_value(Answer::new(router, &route, knots)) {
        Ok(Value::Object(answer)) => Ok(answer),
        _ => unreachable!("an answer is an object of numbers and text"),
    }
}

/// Answers one line of JSON: what it holds, and the route, or `error`.
#[must_use]
pub fn line(router: &Router, options: &Options, knots: Option<f64>, line: &[u8]) -> Value {
    let told = |error: String| Map::from_iter([("error".to_owned(), Value::String(error))]);
    let mut object = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return told("not an object".to_owned()).into(),
        Err(error) => return told(error.to_string()).into(),
    };
    let answer = asked(router, options, knots, &object).unwrap_or_else(|error| told(error.to_string()));
    object.extend(answer);
    object.into()
}
