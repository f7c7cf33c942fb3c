//! How often the model was right: where did the vessels really go?

use std::collections::{BTreeMap, HashMap};

use super::Prediction;
use super::input::{Report, Says};
use crate::ports::Port;
use crate::sea::sphere::Position;

/// A call: at rest for so many seconds, below so many knots, within so many kilometres of a port.
const CALL_S: f64 = 2.0 * 3600.0;
const CALL_KNOTS: f64 = 0.5;
const CALL_KM: f64 = 15.0;

/// Ports this near to the port called at are the same place: harbours have several entries.
const SAME_KM: f64 = 20.0;

/// The port calls of vessels, by time.
#[derive(Debug, Default)]
pub struct Calls {
    resting: HashMap<u32, (f64, Position)>,
    calls: BTreeMap<u32, Vec<(f64, Position, String)>>,
}

/// What came of all predictions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Score {
    /// Predictions after which a call followed.
    pub followed: u64,
    /// The true port was ranked first.
    pub first: u64,
    /// It was among those told.
    pub told: u64,
    /// It was among those told and judged feasible.
    pub feasible: u64,
    /// Predictions after which no call is known: nothing can be said.
    pub unknown: u64,
}

impl Calls {
    /// Hears a report.
    pub fn hear(&mut self, report: &Report, ports: &[Port]) {
        let Says::Position(at, knots) = report.says else { return };
        if knots.is_none_or(|knots| knots >= CALL_KNOTS) {
            self.resting.remove(&report.mmsi);
            return;
        }
        let (since, _) = *self.resting.entry(report.mmsi).or_insert((report.time, at));
        if report.time - since < CALL_S {
            return;
        }
        let calls = self.calls.entry(report.mmsi).or_default();
        if calls.last().is_some_and(|(_, last, _)| last.km_to(at) < CALL_KM) {
            return;
        }
        let near = ports.iter().map(|p| (p.at.km_to(at), p)).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, port)) = near.filter(|(km, _)| *km <= CALL_KM) {
            calls.push((since, port.at, port.name.clone()));
        }
    }

    /// The calls, by vessel: time, port.
    pub fn all(&self) -> impl Iterator<Item = (u32, f64, &str)> {
        self.calls.iter().flat_map(|(mmsi, calls)| calls.iter().map(|(time, _, name)| (*mmsi, *time, name.as_str())))
    }

    /// When and where a vessel called next after `time`.
    #[must_use]
    pub fn next(&self, mmsi: u32, time: f64) -> Option<(f64, Position)> {
        let (time, at, _) = self.calls.get(&mmsi)?.iter().find(|(call, ..)| *call > time)?;
        Some((*time, *at))
    }

    /// Judges predictions.
    #[must_use]
    pub fn score(&self, predictions: &[Prediction], ports: &[Port]) -> Score {
        let place: HashMap<u32, Position> = ports.iter().map(|p| (p.number, p.at)).collect();
        let mut score = Score::default();
        for p in predictions {
            let Some((_, at)) = self.next(p.mmsi, p.time) else {
                score.unknown += 1;
                continue;
            };
            score.followed += 1;
            let is_it = |port: u32| place.get(&port).is_some_and(|p| p.km_to(at) <= SAME_KM);
            if let Some(rank) = p.ports.iter().position(|c| is_it(c.port)) {
                score.told += 1;
                score.first += u64::from(rank == 0);
                score.feasible += u64::from(p.ports[rank].feasible);
            }
        }
        score
    }
}
