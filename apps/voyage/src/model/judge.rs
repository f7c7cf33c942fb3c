//! Ports ranked for one vessel.
//!
//! A vessel rarely makes a detour: what it has come, and the way still to go, should add up to the way from its
//! origin. That share, the size of the port, how far it is, whether the vessel says so itself and whether it can
//! be there in time make the score.

use super::{Candidate, Feasible, Prediction, Question};
use crate::error::{Error, Result};
use crate::ports::{Port, Size};
use crate::sea::router::Voyage;
use crate::sea::sphere::{Position, Vector};

/// Ports for which the path finder is asked, the best by great circles.
pub const CANDIDATES: usize = 96;

/// Ports told in a prediction.
const PORTS_TOLD: usize = 10;

/// What a port that is reported gains; what one loses that cannot be reached in time.
const REPORTED: f64 = 6.0;
const TOO_LATE: f64 = 8.0;

/// What speaks against a port.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// What a detour of the whole way costs.
    pub detour: f64,
    /// The distance that costs one.
    pub far_km: f64,
}

/// Chosen by trial on recorded tracks; docs/decisions/voyage.md tells how they do on tracks that had no part in it.
pub const WEIGHTS: Weights = Weights { detour: 120.0, far_km: 500.0 };

/// Names shorter than this say nothing.
const NAME_LETTERS_MIN: usize = 3;

/// Ports with what is needed of them again and again.
#[derive(Debug)]
pub struct Ports {
    list: Vec<(Port, Vector, String)>,
    weights: Weights,
}

fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_uppercase()).collect()
}

fn weight(size: Size) -> f64 {
    [0.0, 0.4, 0.9, 1.2][size as usize]
}

impl Ports {
    /// Of a list of ports.
    #[must_use]
    pub fn new(ports: Vec<Port>, weights: Weights) -> Self {
        Self {
            weights,
            list: ports.into_iter().map(|p| (p.at.into(), letters(&p.name), p)).map(|(v, l, p)| (p, v, l)).collect(),
        }
    }

    /// Ranks ports for a vessel.
    pub fn predict(&self, finder: &impl Feasible, q: &Question) -> Result<Prediction> {
        let wanted = letters(&q.destination);
        let mut ports: Vec<Candidate> = Vec::with_capacity(CANDIDATES);
        for place in self.likely(q, &wanted) {
            let (port, _, name) = &self.list[place];
            let voyage = |from: Position, time: f64, arrival: f64| Voyage {
                position: from,
                time,
                destination: port.at,
                arrival,
                max_knots: q.max_knots,
            };
            let verdict = match finder.feasible(&voyage(q.at, q.time, q.arrival)) {
                Ok(verdict) => verdict,
                Err(Error::Inland { .. } | Error::Enclosed { .. } | Error::NoRoute { .. }) => continue,
                Err(error) => return Err(error),
            };
            // From its origin the vessel has all the time in the world.
            let whole = match finder.feasible(&voyage(q.origin, 0.0, f64::MAX)) {
                Ok(verdict) => verdict.km,
                Err(Error::Inland { .. } | Error::Enclosed { .. } | Error::NoRoute { .. }) => verdict.km,
                Err(error) => return Err(error),
            };
            let mut score = score(self.weights, port.size, whole, q.travelled_km, verdict.km, is_wanted(&wanted, name));
            if !verdict.feasible {
                score -= TOO_LATE;
            }
            ports.push(Candidate {
                port: port.number,
                name: port.name.clone(),
                feasible: verdict.feasible,
                km: rounded(verdict.km),
                earliest_arrival: rounded(verdict.earliest_arrival),
                score: rounded(score),
            });
        }
        ports.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.port.cmp(&b.port)));
        ports.truncate(PORTS_TOLD);
        let Question { sequence: after, mmsi, time, at: position, arrival, .. } = *q;
        Ok(Prediction { after, mmsi, time, position, reported: q.destination.clone(), arrival, ports })
    }

    /// The best ports by great circles, in the order of the list.
    fn likely(&self, q: &Question, wanted: &str) -> Vec<usize> {
        let (at, origin) = (Vector::from(q.at), Vector::from(q.origin));
        let mut all: Vec<(f64, usize)> = self
            .list
            .iter()
            .enumerate()
            .map(|(i, (port, v, name))| {
                (
                    score(
                        self.weights,
                        port.size,
                        origin.km_to(*v),
                        q.travelled_km,
                        at.km_to(*v),
                        is_wanted(wanted, name),
                    ),
                    i,
                )
            })
            .collect();
        let count = CANDIDATES.min(all.len());
        if count < all.len() {
            all.select_nth_unstable_by(count, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        let mut best: Vec<usize> = all[..count].iter().map(|(_, i)| *i).collect();
        best.sort_unstable();
        best
    }
}

fn is_wanted(wanted: &str, name: &str) -> bool {
    wanted.len() >= NAME_LETTERS_MIN
        && name.len() >= NAME_LETTERS_MIN
        && (wanted.contains(name) || name.contains(wanted))
}

fn score(weights: Weights, size: Size, whole_km: f64, travelled_km: f64, left_km: f64, wanted: bool) -> f64 {
    let straight = (whole_km / (travelled_km + left_km).max(1.0)).min(1.0);
    let reported = if wanted { REPORTED } else { 0.0 };
    weights.detour * (straight - 1.0) + weight(size) + reported - left_km / weights.far_km
}

/// To the hundredth: predictions are compared byte by byte, and HTTP carries fewer digits.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
