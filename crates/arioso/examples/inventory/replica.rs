//! A state machine on a stream: where aircraft are. Each message on `flight/ORIGIN/DESTINATION` ("delay,distance") moves one.
//! Its state is a function of the messages up to a sequence, so any number of replicas agree, byte for byte.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use arioso::{Bus, Delivery, Result, Sequence};

/// The name its snapshots are kept under.
pub const SNAPSHOT: &str = "inventory";

/// What an airport has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Airport {
    /// Aircraft that came, less those that left.
    pub aircraft: i64,
    /// Flights that left.
    pub departures: u64,
    /// Minutes they were late, early ones taken off.
    pub delay_minutes: i64,
}

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// By airport.
    pub airports: BTreeMap<String, Airport>,
    /// Every message up to here is in it.
    pub as_of: u64,
}

impl Inventory {
    /// Takes a message in. What is no flight changes nothing.
    pub fn apply(&mut self, sequence: Sequence, topic: &str, payload: &[u8]) {
        self.as_of = sequence.0;
        let Some((origin, destination)) = topic.strip_prefix("flight/").and_then(|route| route.split_once('/')) else {
            return;
        };
        let text = String::from_utf8_lossy(payload);
        let delay = text.split(',').next().and_then(|delay| delay.parse::<i64>().ok()).unwrap_or(0);
        let from = self.airports.entry(origin.to_owned()).or_default();
        (from.aircraft, from.departures, from.delay_minutes) =
            (from.aircraft - 1, from.departures + 1, from.delay_minutes + delay);
        self.airports.entry(destination.to_owned()).or_default().aircraft += 1;
    }

    /// As a snapshot keeps it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = String::new();
        for (name, airport) in &self.airports {
            let Airport { aircraft, departures, delay_minutes } = airport;
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name}\t{aircraft}\t{departures}\t{delay_minutes}");
        }
        out.into_bytes()
    }

    /// From a snapshot.
    pub fn decode(as_of: Sequence, bytes: &[u8]) -> Option<Inventory> {
        let mut airports = BTreeMap::new();
        for line in std::str::from_utf8(bytes).ok()?.lines() {
            let mut fields = line.split('\t');
            let name = fields.next()?.to_owned();
            let aircraft = fields.next()?.parse().ok()?;
            let departures = fields.next()?.parse().ok()?;
            let delay_minutes = fields.next()?.parse().ok()?;
            airports.insert(name, Airport { aircraft, departures, delay_minutes });
        }
        Some(Inventory { airports, as_of: as_of.0 })
    }
}

/// Runs a replica from the newest snapshot until it has handled everything up to `until`, keeping a snapshot every so many
/// messages. `lives` is asked after each message: false, and it stops there as a crash would stop it.
pub fn run(
    bus: &Bus,
    until: Sequence,
    snapshot_every: u64,
    lives: &mut dyn FnMut() -> bool,
) -> Result<Option<Inventory>> {
    let (snapshot, mut flights) = bus.resume(SNAPSHOT, ["flight/**"])?;
    let kept = snapshot.and_then(|kept| Inventory::decode(kept.as_of, &kept.bytes));
    let mut state = kept.unwrap_or_default();
    let mut handled = 0;
    let mut through = Sequence(state.as_of);
    while through < until {
        through = match flights.next()? {
            None => break,
            Some(Delivery::Mark { through }) => through,
            Some(Delivery::Trimmed { wanted, first }) => return Err(arioso::Error::Trimmed { wanted, first }),
            Some(Delivery::Batch(batch)) => {
                for message in batch.messages() {
                    let message = message?;
                    if message.sequence() > until {
                        break;
                    }
                    state.apply(message.sequence(), message.topic(), message.payload());
                    handled += 1;
                    if handled % snapshot_every == 0 {
                        bus.store_snapshot(SNAPSHOT, message.sequence(), &state.encode())?;
                    }
                    if !lives() {
                        return Ok(None);
                    }
                }
                batch.through()
            }
        };
    }
    Ok(Some(state))
}
