//! How good the path finder is: its routes against land, against other tools, against published
//! distances, and how fast it is.

pub mod land;
pub mod peers;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use self::land::{Excused, Land};
use self::peers::{Pair, PeerNetwork, Published, Told};
use crate::build;
use crate::error::Result;
use crate::sea::network::{Network, PassageKind};
use crate::sea::place::Place;
use crate::sea::route::Route;
use crate::sea::router::{Options, Router};
use crate::sea::sphere::{Position, Vector, nearest_on_arc};

/// Land this near to an end of a route does not count, in kilometres: ports lie on coasts that land
/// files draw coarsely.
const END_KM: f64 = 15.0;

/// Land this near to a listed canal or river does not count, in kilometres.
const WATERWAY_KM: f64 = 3.0;

/// Our routes should be at most this much longer than the shortest peer route off land.
const PEER_RATIO_MAX: f64 = 1.02;

/// Each pair is asked this often for the time of one question.
const ROUNDS: u32 = 20;

/// A network of a peer that was recomputed counts if it has the distance that the peer told.
const SAME_SHARE: f64 = 0.01;

/// The whole report.
#[derive(Debug, Default)]
pub struct Report {
    /// The tables.
    pub text: String,
    /// What was aimed at and missed.
    pub missed: Vec<String>,
}

struct Checked<'a> {
    pair: &'a Pair,
    ours: std::result::Result<(Route, f64), String>,
    /// Shortest peer route off land.
    peer: Option<Peer>,
}

struct Peer {
    km: f64,
    name: &'static str,
    /// Ours through the passages that the peer went through, too.
    ours_km: f64,
    /// Whether that needed a passage that is closed.
    opened: bool,
}

/// Checks `router` on the data in `sea` (pairs, peer routes, published distances, land).
pub fn check(router: &Router, sea: &Path, told: &mut dyn FnMut(&str)) -> Result<Report> {
    let polygons = build::land::polygons(&sea.join("land_10m.geojson.zst"))?;
    let land = Land::new(&polygons);
    let mut report = Report::default();
    let pairs: Vec<Pair> = peers::lines(&sea.join("distances_peer.jsonl.zst"))?;
    let geometries = peers::geometries(&sea.join("peer_routes.geojson.zst"))?;
    let scgraph = PeerNetwork::read(sea, "scgraph_marnet")?;
    let mut checked = Vec::new();
    for (at, pair) in pairs.iter().enumerate() {
        if at % 50 == 0 {
            told(&format!("pair {at} of {}", pairs.len()));
        }
        checked.push(check_pair(router, &land, pair, &geometries, &scgraph)?);
    }
    report.routes(&checked);
    report.peers(&checked);
    let published: Vec<Published> = peers::lines(&sea.join("distances_published.jsonl.zst"))?;
    report.published(router, &published);
    report.speed(router, &pairs)?;
    Ok(report)
}

/// What does not count as land on a route between two ports.
#[must_use]
pub fn excused(network: &Network, from: Position, to: Position) -> Excused {
    let lines = network.passages.iter().filter(|p| matches!(p.kind, PassageKind::Canal | PassageKind::River));
    Excused {
        around: vec![(from, END_KM), (to, END_KM)],
        beside: lines.map(|p| (p.line.clone(), WATERWAY_KM)).collect(),
    }
}

fn check_pair<'a>(
    router: &Router,
    land: &Land,
    pair: &'a Pair,
    geometries: &HashMap<u32, Vec<Position>>,
    scgraph: &PeerNetwork,
) -> Result<Checked<'a>> {
    let (from, to) = (pair.from.at, pair.to.at);
    let excused = excused(router.network(), from, to);
    let defaults = router.options();
    let ours = match router.route(from, to, &defaults) {
        Ok(route) => Ok(((*route).clone(), land.km_on(&route.points(), &excused))),
        Err(error) => Err(error.to_string()),
    };
    let mut candidates: Vec<(f64, &str, Vec<Position>)> = Vec::new();
    if let Some(line) = geometries.get(&pair.id) {
        let mut line = [&[from], line.as_slice(), &[to]].concat();
        peers::unroll(&mut line);
        candidates.push((pair.searoute.km_with_legs.unwrap_or(pair.searoute.km), "searoute", line));
    }
    if let (Some(Told { km, .. }), Some((ours_km, mut line))) = (&pair.scgraph_marnet, scgraph.route(from, to))
        && (ours_km / km - 1.0).abs() <= SAME_SHARE
    {
        peers::unroll(&mut line);
        candidates.push((*km, "scgraph", line));
    }
    candidates.retain(|(_, _, line)| land.km_on(line, &excused) == 0.0);
    let shortest = candidates.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let peer = match (&ours, shortest) {
        (Ok((route, _)), Some((km, name, line))) => {
            // Compare like with like: where the peer went through ice, so may we.
            let options = opened(router.network(), &line, &defaults);
            let opened = options != defaults;
            let ours_km = if opened { router.route(from, to, &options)?.km } else { route.km };
            Some(Peer { km, name, ours_km, opened })
        }
        _ => None,
    };
    Ok(Checked { pair, ours, peer })
}

/// The options with those closed passages open that `line` goes through.
fn opened(network: &Network, line: &[Position], options: &Options) -> Options {
    let mut options = *options;
    for leg in line.windows(2) {
        let [a, b] = [leg[0], leg[1]].map(Vector::from);
        network.barrier.crossed(a, b, |arc| {
            let strait = crate::sea::coast::strait_of(arc.tag).map(|n| n as u32);
            if let Some(strait) = strait.filter(|n| network.can_be_avoided(*n)) {
                options.closed.set(strait, false);
            }
        });
        for (number, passage) in (0..).zip(&network.passages) {
            let middle = passage.line[passage.line.len() / 2];
            if passage.kind == PassageKind::Canal && nearest_on_arc(a, b, middle.into()).0 <= WATERWAY_KM {
                options.closed.set(number, false);
            }
        }
    }
    options
}

/// Published distances far from ours, and why.
const EXPLAINED: [(&str, &str, &str); 3] = [
    ("Colombo", "Broome", "open ocean: the great circle itself is 10 % shorter than published"),
    ("Napieir", "Tuticorin", "open ocean south of Australia; other tools are 4 to 5 % shorter than published too"),
    ("Murmansk", "New York", "along the coast of Newfoundland; published keeps south of the Grand Banks, clear of ice"),
];

/// Writes a line of text.
macro_rules! line {
    ($report:expr, $($arg:tt)*) => {{
        let _ = writeln!($report.text, $($arg)*); // a String takes all
    }};
}

impl Report {
    fn routes(&mut self, checked: &[Checked<'_>]) {
        line!(self, "routes of {} pairs of ports", checked.len());
        let mut found = 0;
        let mut on_land = Vec::new();
        for Checked { pair, ours, .. } in checked {
            let ends = format!("{:3} {} - {}", pair.id, pair.from.name, pair.to.name);
            match ours {
                Ok((_, km)) => {
                    found += 1;
                    if *km > 0.0 {
                        on_land.push(format!("{ends}: {km:.1} km on land"));
                    }
                }
                Err(error) => line!(self, "  none: {ends}: {error}"),
            }
        }
        line!(
            self,
            "  found {found}; on land, beyond {END_KM} km around the ends and {WATERWAY_KM} km beside waterways: {}",
            on_land.len()
        );
        on_land.iter().for_each(|l| line!(self, "    {l}"));
        self.aim(on_land.len() <= 10 && found == checked.len(), "all found, at most 10 on land");
    }

    fn peers(&mut self, checked: &[Checked<'_>]) {
        let ratio = |c: &'_ Checked<'_>| c.peer.as_ref().map(|p| p.ours_km / p.km);
        let mut ratios: Vec<(f64, &Checked<'_>, &Peer)> =
            checked.iter().filter_map(|c| Some((ratio(c)?, c, c.peer.as_ref()?))).collect();
        ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
        let within = ratios.iter().filter(|r| r.0 <= PEER_RATIO_MAX).count();
        let share = 100.0 * within as f64 / ratios.len().max(1) as f64;
        line!(self, "against the shortest peer route (with its legs) that stays off land: {} pairs", ratios.len());
        for name in ["searoute", "scgraph"] {
            let count = ratios.iter().filter(|r| r.2.name == name).count();
            line!(self, "  shortest is {name}: {count}");
        }
        let opened = ratios.iter().filter(|r| r.2.opened).count();
        line!(self, "  through a passage that is closed by default, so ours may use it too: {opened}");
        if let (Some(worst), Some(best)) = (ratios.first(), ratios.last()) {
            let median = ratios[ratios.len() / 2].0;
            line!(self, "  ours / peer: least {:.4}, median {median:.4}, most {:.4}", best.0, worst.0);
        }
        line!(self, "  at most {PEER_RATIO_MAX}: {within} ({share:.1} %); the others:");
        for (ratio, c, Peer { km, name, .. }) in ratios.iter().filter(|r| r.0 > PEER_RATIO_MAX) {
            line!(
                self,
                "    {:.4} {:3} {} - {}: {:.0} km, {name} {km:.0} km",
                ratio,
                c.pair.id,
                c.pair.from.name,
                c.pair.to.name,
                ratio * km
            );
        }
        self.aim(ratios.len() >= 60 && share >= 95.0, "at most 1.02 of the peer on 95 % of at least 60 pairs");
    }

    fn published(&mut self, router: &Router, published: &[Published]) {
        line!(self, "against {} published distances", published.len());
        let options = router.options();
        let mut errors = Vec::new();
        for p in published {
            let want = p.nm_reverse.map_or(p.nm, |back| p.nm.midpoint(back));
            match router.route(p.from.at, p.to.at, &options) {
                Ok(route) => errors.push((100.0 * (route.nm() / want - 1.0), p, want, route.nm())),
                Err(error) => line!(self, "  none: {} - {}: {error}", p.from.name, p.to.name),
            }
        }
        errors.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        for (error, p, want, nm) in errors.iter().filter(|e| e.0.abs() > 2.5) {
            let via = p.via.as_deref().map_or(String::new(), |via| format!(" ({via})"));
            let why = EXPLAINED.iter().find(|row| row.0 == p.from.name && row.1 == p.to.name);
            let why = why.map_or(String::new(), |row| format!(" ({})", row.2));
            line!(
                self,
                "  {error:+.1} % {} - {}{via}: {nm:.0} nm, published {want:.0} nm{why}",
                p.from.name,
                p.to.name
            );
        }
        let median = errors.get(errors.len() / 2).map_or(f64::MAX, |e| e.0.abs());
        let most = errors.first().map_or(f64::MAX, |e| e.0.abs());
        line!(self, "  median error {median:.2} %, most {most:.1} %");
        let all = errors.len() == published.len();
        self.aim(all && median <= 2.5 && most <= 8.0, "published distances: median 2.5 %, most 8 %");
    }

    fn speed(&mut self, router: &Router, pairs: &[Pair]) -> Result<()> {
        let options = router.options();
        let ends = pairs.iter().map(|p| (p.from.at, p.to.at));
        let ends: Vec<(Position, Position)> =
            ends.filter(|(from, to)| router.route(*from, *to, &options).is_ok()).collect();
        line!(self, "microseconds for one route: the quickest of {ROUNDS} tries for each of {} pairs", ends.len());
        self.quickest("nothing kept from earlier questions", &ends, |(from, to)| {
            let from = Place::new(router.network(), *from, options.snap_km_max)?;
            let to = Place::new(router.network(), *to, options.snap_km_max)?;
            Ok(router.route_between(&from, &to, &options)?.km)
        })?;
        let places = ends
            .iter()
            .map(|(from, to)| Ok((router.place(*from, &options)?, router.place(*to, &options)?)))
            .collect::<Result<Vec<_>>>()?;
        self.quickest("both places known", &places, |(from, to)| Ok(router.route_between(from, to, &options)?.km))?;
        self.quickest("the route known", &ends, |(from, to)| Ok(router.route(*from, *to, &options)?.km))
    }

    /// By the clock on the wall, so the quickest try counts: what else runs on the machine only makes it slower.
    fn quickest<T>(&mut self, name: &str, of: &[T], ask: impl Fn(&T) -> Result<f64>) -> Result<()> {
        let mut all = Vec::with_capacity(of.len());
        for one in of {
            let mut best = f64::MAX;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                std::hint::black_box(ask(one)?);
                best = best.min(start.elapsed().as_secs_f64() * 1e6);
            }
            all.push(best);
        }
        all.sort_by(f64::total_cmp);
        if let (Some(median), Some(high)) = (all.get(all.len() / 2), all.get(all.len() * 99 / 100)) {
            line!(self, "  {name}: median {median:.2}, 99th of 100 {high:.2}");
        }
        Ok(())
    }

    fn aim(&mut self, hit: bool, what: &str) {
        line!(self, "  {}: {what}", if hit { "met" } else { "MISSED" });
        if !hit {
            self.missed.push(what.to_owned());
        }
    }
}
