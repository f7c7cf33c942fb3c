//! Messages of the bus as the model reads them, and recorded tracks as such messages.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::error::{Error, Result};
use crate::input::Input as File;
use crate::sea::sphere::Position;

/// Most bytes of a file with tracks: they are sorted by time, in memory.
const TRACKS_BYTES_MAX: u64 = 1 << 26;

/// A message that says something of a vessel.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its sequence.
    pub sequence: u64,
    /// When it was received, in unix seconds.
    pub time: f64,
    /// The vessel.
    pub mmsi: u32,
    /// What it says.
    pub says: Says,
}

/// What a report says.
#[derive(Debug, Clone, PartialEq)]
pub enum Says {
    /// Where the vessel is, and its speed in knots, where known.
    Position(Position, Option<f64>),
    /// Where it says that it is going, and when it wants to be there: month, day, hour, minute.
    Voyage(String, Option<[u32; 4]>),
}

#[derive(Deserialize)]
struct Payload {
    msg_type: u8,
    mmsi: u32,
    lon: Option<f64>,
    lat: Option<f64>,
    speed: Option<f64>,
    destination: Option<String>,
    month: Option<u32>,
    day: Option<u32>,
    hour: Option<u32>,
    minute: Option<u32>,
}

/// AIS says "not available" with this speed.
const NO_KNOTS: f64 = 102.3;

/// Reads a payload; nothing where the message is of no use to the model.
#[must_use]
pub fn report(sequence: u64, time_ns: i64, payload: &[u8]) -> Option<Report> {
    let p: Payload = serde_json::from_slice(payload).ok()?;
    let says = match p.msg_type {
        1..=3 | 18 | 19 | 27 => {
            let at = Position::new(p.lon?, p.lat?);
            if at.lon.abs() > 180.0 || at.lat.abs() > 90.0 {
                return None;
            }
            Says::Position(at, p.speed.filter(|knots| *knots < NO_KNOTS))
        }
        5 => {
            let eta = [p.month?, p.day?, p.hour?, p.minute?];
            let told = (1..=12).contains(&eta[0]) && (1..=31).contains(&eta[1]) && eta[2] < 24 && eta[3] < 60;
            Says::Voyage(p.destination.unwrap_or_default(), told.then_some(eta))
        }
        _ => return None,
    };
    Some(Report { sequence, time: time_ns as f64 / 1e9, mmsi: p.mmsi, says })
}

/// A position of a track as a message: topic, event time in unix nanoseconds, payload.
pub type TrackMessage = (String, i64, Vec<u8>);

/// Reads tracks (CSV with a head: `mmsi,unix_s,lat,lon,speed_kn,course_deg`), all vessels by time.
pub fn tracks(path: &Path) -> Result<Vec<TrackMessage>> {
    let bytes = File::open(path)?.read_all(TRACKS_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut messages = Vec::new();
    for (at, line) in text.lines().enumerate().skip(1) {
        let wrong = || Error::Table { path: path.to_owned(), line: at as u64 + 1 };
        let [mmsi, time, lat, lon, speed, course] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(wrong());
        };
        let (Ok(mmsi), Ok(time)) = (mmsi.parse::<u32>(), time.parse::<i64>()) else { return Err(wrong()) };
        let (Ok(lat), Ok(lon)) = (lat.parse::<f64>(), lon.parse::<f64>()) else { return Err(wrong()) };
        let time = time.checked_mul(1_000_000_000).ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<f64>().ok();
        let (speed, course) = (number(speed).unwrap_or(NO_KNOTS), number(course).unwrap_or(360.0));
        let payload = json!({ "msg_type": 1, "mmsi": mmsi, "speed": speed, "lon": lon, "lat": lat, "course": course });
        messages.push((format!("ais/1/{mmsi}"), time, payload.to_string().into_bytes()));
    }
    messages.sort_by_key(|(_, time, _)| *time);
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_voyages_are_read_and_everything_else_is_not() {
        let says = |payload: &str| report(7, 2_000_000_000, payload.as_bytes()).map(|r| r.says);
        let position = Says::Position(Position::new(3.0, 51.0), Some(9.5));
        assert_eq!(says(r#"{"msg_type": 1, "mmsi": 5, "lon": 3, "lat": 51, "speed": 9.5}"#), Some(position));
        let unknown = r#"{"msg_type": 18, "mmsi": 5, "lon": 181, "lat": 91, "speed": 102.3}"#;
        assert_eq!(says(unknown), None);
        let voyage =
            r#"{"msg_type": 5, "mmsi": 5, "destination": "BANJUL", "month": 8, "day": 9, "hour": 24, "minute": 60}"#;
        assert_eq!(says(voyage), Some(Says::Voyage("BANJUL".to_owned(), None)));
        assert_eq!(says(r#"{"msg_type": 4, "mmsi": 5, "lon": 3, "lat": 51}"#), None);
        assert_eq!(says("nonsense"), None);
    }
}
