//! Answers questions: routes, distances, whether a ship can be there in time.
//!
//! A router is shared by all threads that ask; it starts none. What was computed is kept in one cache
//! with a ceiling in bytes: joined places (a port is asked for again and again), routes, and distances
//! between portals for a set of closed passages.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::between::Between;
use super::network::{Network, PassageSet};
use super::place::Place;
use super::route::{Route, route};
use super::sphere::{KM_PER_NM, Position};
use crate::error::{Error, Result};

/// Farthest that a point may be from water if nothing else is asked for, in kilometres. Ports in river
/// mouths that coastlines leave out are up to 20 km inland.
pub const SNAP_KM_MAX: f64 = 30.0;

/// Ceiling of the cache if nothing else is asked for, in bytes: some ten thousand places or routes.
pub const CACHE_BYTES: u64 = 64 << 20;

/// Entries that the cache makes room for at first.
const CACHE_ENTRIES: usize = 10_000;

/// Positions are told apart to this many steps a degree (a step is 11 m at most).
const STEPS_PER_DEGREE: f64 = 10_000.0;

/// How a route may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Passages that are not used.
    pub closed: PassageSet,
    /// Farthest that an end may be from water, in kilometres.
    pub snap_km_max: f64,
}

/// A voyage that is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Voyage {
    /// Where the ship is.
    pub position: Position,
    /// When, in seconds of Unix time.
    pub time: f64,
    /// Where it should be.
    pub destination: Position,
    /// At the latest, in seconds of Unix time.
    pub arrival: f64,
    /// How fast it can go.
    pub max_knots: f64,
}

/// Whether a ship can be there in time.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// Yes or no.
    pub feasible: bool,
    /// The earliest arrival at full speed, in seconds of Unix time. Where the great circle alone is too
    /// long this is a lower bound.
    pub earliest_arrival: f64,
    /// Seconds to spare; below 0 when late.
    pub margin: f64,
    /// The distance that it rests on.
    pub km: f64,
    /// Whether the great circle settled it, without a route.
    pub by_great_circle: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Place([i32; 2], u64),
    Route([i32; 4], u64, PassageSet),
    Between(PassageSet),
}

#[derive(Debug, Clone)]
enum Kept {
    Place(Arc<Place>),
    Route(Arc<Route>),
    Between(Arc<Between>),
}

#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<Key, Kept> for Bytes {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        let inner = match kept {
            Kept::Place(place) => 12 * place.climb.nodes.len() + 4 * place.to_portals.len(),
            Kept::Route(route) => 24 * route.turns.len(),
            Kept::Between(between) => between.bytes(),
        };
        inner as u64 + 200
    }
}

/// A network and what was asked of it.
#[derive(Debug)]
pub struct Router {
    network: Network,
    /// Distances between portals as most questions want them, outside of the cache.
    usual: (PassageSet, Arc<Between>),
    cache: Cache<Key, Kept, Bytes>,
}

impl Router {
    /// A router over `network` that keeps at most `cache_bytes` of answers.
    #[must_use]
    pub fn new(network: Network, cache_bytes: u64) -> Self {
        let closed = network.closed();
        let usual = (closed, Arc::new(Between::new(&network.portals, closed)));
        Self { network, usual, cache: Cache::with_weighter(CACHE_ENTRIES, cache_bytes, Bytes) }
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What is used if nothing else is asked for.
    #[must_use]
    pub fn options(&self) -> Options {
        Options { closed: self.network.closed(), snap_km_max: SNAP_KM_MAX }
    }

    /// Options with the passages named `avoid` closed and those named `allow` open.
    pub fn options_with<'a>(
        &self,
        avoid: impl IntoIterator<Item = &'a str>,
        allow: impl IntoIterator<Item = &'a str>,
    ) -> Result<Options> {
        let mut options = self.options();
        let avoid = avoid.into_iter().map(|name| (name, true));
        for (name, closed) in avoid.chain(allow.into_iter().map(|name| (name, false))) {
            let known = self.network.passage(name).filter(|n| self.network.can_be_avoided(*n));
            let number = known.ok_or_else(|| Error::Passage {
                name: name.to_owned(),
                known: self.network.avoidable().collect::<Vec<_>>().join(", "),
            })?;
            options.closed.set(number, closed);
        }
        Ok(options)
    }

    /// The place at `position`, joined to the network.
    pub fn place(&self, position: Position, options: &Options) -> Result<Arc<Place>> {
        let key = Key::Place(steps(position), options.snap_km_max.to_bits());
        if let Some(Kept::Place(place)) = self.cache.get(&key) {
            return Ok(place);
        }
        let place = Arc::new(Place::new(&self.network, position, options.snap_km_max)?);
        self.cache.insert(key, Kept::Place(Arc::clone(&place)));
        Ok(place)
    }

    fn between(&self, closed: PassageSet) -> Arc<Between> {
        if self.usual.0 == closed {
            return Arc::clone(&self.usual.1);
        }
        let key = Key::Between(closed);
        if let Some(Kept::Between(between)) = self.cache.get(&key) {
            return between;
        }
        let between = Arc::new(Between::new(&self.network.portals, closed));
        self.cache.insert(key, Kept::Between(Arc::clone(&between)));
        between
    }

    /// The route between two joined places, computed.
    pub fn route_between(&self, from: &Place, to: &Place, options: &Options) -> Result<Route> {
        route(&self.network, from, to, options.closed, &self.between(options.closed))
    }

    /// The route from one position to another.
    pub fn route(&self, from: Position, to: Position, options: &Options) -> Result<Arc<Route>> {
        let ([a, b], [c, d]) = (steps(from), steps(to));
        let key = Key::Route([a, b, c, d], options.snap_km_max.to_bits(), options.closed);
        if let Some(Kept::Route(route)) = self.cache.get(&key) {
            return Ok(route);
        }
        let (start, end) = (self.place(from, options)?, self.place(to, options)?);
        let route = Arc::new(self.route_between(&start, &end, options)?);
        self.cache.insert(key, Kept::Route(Arc::clone(&route)));
        Ok(route)
    }

    /// Whether a ship can be at its destination in time. No way is shorter than the great circle, so
    /// what that settles needs no route.
    pub fn feasible(&self, voyage: &Voyage, options: &Options) -> Result<Verdict> {
        if voyage.max_knots <= 0.0 || !voyage.max_knots.is_finite() {
            return Err(Error::Speed { knots: voyage.max_knots });
        }
        for at in [voyage.position, voyage.destination] {
            if !at.is_valid() {
                return Err(Error::Position { lon: at.lon, lat: at.lat });
            }
        }
        let verdict = |km: f64, by_great_circle| {
            let seconds = km / KM_PER_NM / voyage.max_knots * 3600.0;
            let margin = voyage.arrival - voyage.time - seconds;
            let earliest_arrival = voyage.time + seconds;
            Verdict { feasible: margin >= 0.0, earliest_arrival, margin, km, by_great_circle }
        };
        let bound = verdict(voyage.position.km_to(voyage.destination), true);
        if !bound.feasible {
            return Ok(bound);
        }
        let route = self.route(voyage.position, voyage.destination, options)?;
        Ok(verdict(route.km, false))
    }
}

fn steps(at: Position) -> [i32; 2] {
    [at.lon, at.lat].map(|degrees| (degrees * STEPS_PER_DEGREE).round() as i32)
}
