//! What is known of every vessel, report by report.

use std::collections::HashMap;

use super::Question;
use super::input::{Report, Says};
use crate::sea::sphere::Position;

/// Most vessels kept; beyond it the one not heard of for longest goes.
const VESSELS_MAX: usize = 200_000;

/// A vessel under way is asked about once in so many seconds.
const EVERY_S: f64 = 1800.0;

/// Below this speed a vessel is at rest, above the second one under way.
const REST_KNOTS: f64 = 0.5;
const WAY_KNOTS: f64 = 2.0;

/// A vessel at rest for so long begins a new voyage, in seconds.
const REST_S: f64 = 3600.0;

/// No vessel goes as fast: the position is wrong.
const JUMP_KNOTS: f64 = 60.0;

/// Slowest that a vessel is taken to be able to go.
const MAX_KNOTS_LEAST: f64 = 8.0;

/// A vessel that tells no arrival is given so many seconds.
const HORIZON_S: f64 = 20.0 * 86_400.0;

/// A reported arrival farther ahead is old or wrong.
const AHEAD_S_MAX: f64 = 60.0 * 86_400.0;

const KM_PER_KNOT_SECOND: f64 = 1.852 / 3600.0;

#[derive(Debug)]
struct Vessel {
    time: f64,
    at: Position,
    origin: Position,
    travelled_km: f64,
    max_knots: f64,
    rests_since: Option<f64>,
    asked: f64,
    destination: String,
    eta: Option<[u32; 4]>,
}

/// All vessels.
#[derive(Debug, Default)]
pub struct Fleet {
    vessels: HashMap<u32, Vessel>,
    /// Voyages reported by vessels that have told no position yet.
    early: HashMap<u32, (String, Option<[u32; 4]>)>,
}

impl Fleet {
    /// Takes a report; gives a question when it is time for one.
    pub fn take(&mut self, report: &Report) -> Option<Question> {
        match &report.says {
            Says::Voyage(destination, eta) => {
                if let Some(vessel) = self.vessels.get_mut(&report.mmsi) {
                    vessel.destination.clone_from(destination);
                    vessel.eta = *eta;
                } else if self.early.len() < VESSELS_MAX {
                    self.early.insert(report.mmsi, (destination.clone(), *eta));
                }
                None
            }
            Says::Position(at, knots) => self.position(report, *at, *knots),
        }
    }

    fn position(&mut self, report: &Report, at: Position, knots: Option<f64>) -> Option<Question> {
        let Some(vessel) = self.vessels.get_mut(&report.mmsi) else {
            self.make_room();
            let (destination, eta) = self.early.remove(&report.mmsi).unwrap_or_default();
            let max_knots = knots.unwrap_or(0.0).clamp(MAX_KNOTS_LEAST, JUMP_KNOTS);
            let vessel = Vessel {
                time: report.time,
                at,
                origin: at,
                travelled_km: 0.0,
                max_knots,
                rests_since: None,
                asked: f64::NEG_INFINITY,
                destination,
                eta,
            };
            self.vessels.insert(report.mmsi, vessel);
            return None;
        };
        let (seconds, km) = (report.time - vessel.time, vessel.at.km_to(at));
        if seconds <= 0.0 || km > seconds * JUMP_KNOTS * KM_PER_KNOT_SECOND {
            return None;
        }
        let knots = knots.unwrap_or(km / seconds / KM_PER_KNOT_SECOND);
        vessel.travelled_km += km;
        (vessel.time, vessel.at) = (report.time, at);
        if knots < REST_KNOTS {
            let since = *vessel.rests_since.get_or_insert(report.time);
            if report.time - since >= REST_S {
                (vessel.origin, vessel.travelled_km) = (at, 0.0);
            }
            return None;
        }
        vessel.rests_since = None;
        vessel.max_knots = vessel.max_knots.max(knots.min(JUMP_KNOTS));
        if knots < WAY_KNOTS || report.time - vessel.asked < EVERY_S {
            return None;
        }
        vessel.asked = report.time;
        let reported = vessel.eta.and_then(|eta| arrival(eta, report.time));
        Some(Question {
            sequence: report.sequence,
            mmsi: report.mmsi,
            time: report.time,
            at,
            origin: vessel.origin,
            travelled_km: vessel.travelled_km,
            max_knots: vessel.max_knots,
            arrival: reported.unwrap_or(report.time + HORIZON_S),
            arrival_reported: reported.is_some(),
            destination: vessel.destination.clone(),
        })
    }

    fn make_room(&mut self) {
        if self.vessels.len() < VESSELS_MAX {
            return;
        }
        let oldest = self.vessels.iter().min_by(|a, b| a.1.time.total_cmp(&b.1.time).then(a.0.cmp(b.0)));
        if let Some(mmsi) = oldest.map(|(mmsi, _)| *mmsi) {
            self.vessels.remove(&mmsi);
        }
    }
}

/// The next time after `now` at which it is this month, day, hour and minute; nothing if that is too far ahead
/// to be meant.
fn arrival([month, day, hour, minute]: [u32; 4], now: f64) -> Option<f64> {
    let today = (now / 86_400.0).floor();
    (0..=(AHEAD_S_MAX / 86_400.0) as u32).find_map(|ahead| {
        let at = today + f64::from(ahead);
        let time = at * 86_400.0 + f64::from(hour * 3600 + minute * 60);
        (month_and_day(at as i64) == (month, day) && time > now).then_some(time)
    })
}

/// Month and day of a day counted from 1 January 1970.
fn month_and_day(days: i64) -> (u32, u32) {
    // Years begin in March here, so that the day that a leap year has more is the last one.
    let day_of_era = (days + 719_468).rem_euclid(146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    (if month < 10 { month + 3 } else { month - 9 } as u32, (day - (153 * month + 2) / 5 + 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(time: f64, lon: f64, knots: f64) -> Report {
        let says = Says::Position(Position::new(lon, 0.0), Some(knots));
        Report { sequence: time as u64, time, mmsi: 1, says }
    }

    #[test]
    fn a_vessel_under_way_is_asked_about_every_half_hour() {
        let mut fleet = Fleet::default();
        let asked: Vec<u64> = (0..100)
            .filter_map(|i| fleet.take(&report(f64::from(i) * 300.0, f64::from(i) * 0.0139, 10.0)))
            .map(|q| q.sequence)
            .collect();
        assert_eq!(asked[..4], [300, 2100, 3900, 5700]);
    }

    #[test]
    fn a_jump_is_left_out_and_a_rest_begins_a_new_voyage() {
        let mut fleet = Fleet::default();
        fleet.take(&report(0.0, 0.0, 10.0));
        assert_eq!(fleet.take(&report(600.0, 40.0, 10.0)), None);
        let question = fleet.take(&report(3600.0, 0.2, 10.0)).unwrap();
        assert!((question.travelled_km - 22.2).abs() < 0.1 && question.origin == Position::new(0.0, 0.0));
        fleet.take(&report(7200.0, 0.2, 0.0));
        fleet.take(&report(10_900.0, 0.2, 0.0));
        let question = fleet.take(&report(14_500.0, 0.3, 9.0)).unwrap();
        assert!(question.origin == Position::new(0.2, 0.0) && question.max_knots == 10.0);
    }

    #[test]
    fn a_reported_arrival_is_the_next_such_day_and_an_old_one_is_none() {
        let now = 1_406_851_727.0; // 2014-08-01T00:08:47Z
        assert_eq!(arrival([8, 9, 6, 0], now), Some(1_407_564_000.0));
        assert_eq!(arrival([7, 30, 6, 0], now), None);
        assert_eq!(month_and_day(0), (1, 1));
        assert_eq!(month_and_day(11_016), (2, 29));
    }
}
