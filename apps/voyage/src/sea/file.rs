//! A network as a file.
//!
//! ```text
//! "AVOYSEA1"  then, compressed with zstd (checksum on), numbers of 7 bits a byte:
//!   passages      their JSON, length first
//!   lines         pieces of the lines across straits: passage, two points
//!   points        nodes that the passages bring: lattice point, inland or not
//!   rings         of each: count, points; then all longitudes, all latitudes, as differences
//!   offings       one for each corner that points to the sea: how far off its node lies, or none
//!   ways          of each node: count, neighbours with a higher number, as differences
//!   order         the node at each rank; the portals are the last ones
//!   portals       of each: its passage
//!   shortcuts     of each rank but portals: count, pairs of its ways up, as differences
//! ```
//!
//! Nodes are numbered by kind and coast here, so that neighbours have near numbers; when read they are
//! numbered by rank. Lengths, positions of corner nodes and the trees are computed when it is read.

use super::barrier::{Arc, Barrier};
use super::coast::{self, NO_NODE, OFFING_KM, Step, Tag};
use super::nearby::Nearby;
use super::network::{Around, NONE, Network, PASSAGES_MAX, Passage, Portals, Up};
use super::sphere::{Position, Vector};
use super::tops::Tops;
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"AVOYSEA1";

/// Most bytes that a file may have when unpacked.
const UNPACKED_BYTES_MAX: usize = 1 << 28;

/// What a file holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Canals, straits, rivers.
    pub passages: Vec<Passage>,
    /// Pieces of the lines across straits.
    pub lines: Vec<(u32, Step, Step)>,
    /// Nodes that the passages bring, and whether they are inland.
    pub points: Vec<(Step, bool)>,
    /// The simple coast.
    pub rings: Vec<Vec<Step>>,
    /// For each corner that points to the sea, its place in [`OFFING_KM`] or [`NO_NODE`].
    pub offings: Vec<u8>,
    /// Ways, the lower number first; nodes are the points, then the corners that have one.
    pub ways: Vec<(u32, u32)>,
    /// The node at each rank.
    pub order: Vec<u32>,
    /// The passage of each portal, in the order of their ranks.
    pub portals: Vec<u32>,
    /// The shortcuts that each rank leaves, between nodes.
    pub shortcuts: Vec<Vec<(u32, u32)>>,
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut n: u64) {
        while n > 127 {
            self.0.push(n as u8 | 128);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn signed(&mut self, n: i64) {
        self.number((n << 1 ^ n >> 63).cast_unsigned());
    }

    fn step(&mut self, step: Step) {
        self.signed(step.lon.into());
        self.signed(step.lat.into());
    }
}

struct Reader<'a>(&'a [u8]);

fn broken(what: &str) -> Error {
    Error::Network(format!("damaged: {what}"))
}

impl Reader<'_> {
    fn number(&mut self) -> Result<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(|| broken("it ends too early"))?;
            self.0 = rest;
            n |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return Ok(n);
            }
        }
        Err(broken("a number is too long"))
    }

    /// A count of things of which each takes at least one byte.
    fn count(&mut self) -> Result<usize> {
        let n = self.number()? as usize;
        if n > self.0.len() { Err(broken("a count is too high")) } else { Ok(n) }
    }

    fn below(&mut self, limit: usize) -> Result<u32> {
        let n = self.number()?;
        if n < limit as u64 { Ok(n as u32) } else { Err(broken("a number is out of range")) }
    }

    fn signed(&mut self) -> Result<i32> {
        let n = self.number()?;
        let signed = (n >> 1).cast_signed() ^ -(n & 1).cast_signed();
        i32::try_from(signed).map_err(|_| broken("a coordinate is out of range"))
    }

    fn step(&mut self) -> Result<Step> {
        Ok(Step { lon: self.signed()?, lat: self.signed()? })
    }
}

/// The ways up of each rank, from ways and shortcuts. The order of its steps is the order of ranks, so
/// that builder and reader number the pairs alike.
struct Climbs {
    ups: Vec<Vec<Up>>,
    /// Ways to portals: these are not climbed.
    aside: Vec<(u32, u32, f32)>,
}

impl Climbs {
    fn new(ranks: &[u32], ways: &[(u32, u32)], portals: usize, km: impl Fn(u32, u32) -> f32) -> Self {
        let mut climb = Self { ups: vec![Vec::new(); ranks.len()], aside: Vec::new() };
        for (a, b) in ways {
            let (a, b) = (ranks[*a as usize], ranks[*b as usize]);
            if a.max(b) as usize + portals < ranks.len() {
                climb.put(a, b, km(a, b), NONE, [0, 0]);
            } else {
                climb.aside.push((a.min(b), a.max(b), km(a, b)));
            }
        }
        climb
    }

    fn put(&mut self, a: u32, b: u32, km: f32, via: u32, halves: [u32; 2]) {
        let (low, high) = (a.min(b), a.max(b));
        let ups = &mut self.ups[low as usize];
        let up = Up { to: high, km, via, halves };
        match ups.binary_search_by_key(&high, |up| up.to) {
            Ok(at) if ups[at].km > km => ups[at] = up,
            Ok(_) => {}
            Err(at) => ups.insert(at, up),
        }
    }

    /// A shortcut over `over`, whose ways up are complete: all that could add one are of lower rank.
    fn shortcut(&mut self, over: u32, first: usize, second: usize) {
        let (a, b) = (self.ups[over as usize][first], self.ups[over as usize][second]);
        assert!(a.to < b.to, "ways up are sorted");
        self.put(a.to, b.to, a.km + b.km, over, [first as u32, second as u32]);
    }

    /// All ways up in one row, and where each node's begin.
    fn flat(self) -> (Vec<u32>, Vec<Up>) {
        let mut first_up = vec![0];
        for ups in &self.ups {
            first_up.push(first_up[first_up.len() - 1] + ups.len() as u32);
        }
        let mut ups: Vec<Up> = self.ups.into_iter().flatten().collect();
        for up in ups.iter_mut().filter(|up| up.via != NONE) {
            up.halves = up.halves.map(|half| first_up[up.via as usize] + half);
        }
        (first_up, ups)
    }
}

/// Levels of compression: for a file that is kept, for one that is read at once.
pub const SMALL: i32 = 19;
/// See [`SMALL`].
pub const FAST: i32 = 1;

/// Packs `contents`.
pub fn write(contents: &Contents, level: i32) -> Result<Vec<u8>> {
    let mut out = Writer(Vec::new());
    let passages = serde_json::to_vec(&contents.passages).map_err(|e| Error::Network(e.to_string()))?;
    out.number(passages.len() as u64);
    out.0.extend_from_slice(&passages);
    out.number(contents.lines.len() as u64);
    for (passage, a, b) in &contents.lines {
        out.number(u64::from(*passage));
        out.step(*a);
        out.step(*b);
    }
    out.number(contents.points.len() as u64);
    for (step, inland) in &contents.points {
        out.step(*step);
        out.number(u64::from(*inland));
    }
    out.number(contents.rings.len() as u64);
    contents.rings.iter().for_each(|ring| out.number(ring.len() as u64));
    for axis in [|s: &Step| s.lon, |s: &Step| s.lat] {
        let mut last = 0;
        for step in contents.rings.iter().flatten() {
            out.signed(i64::from(axis(step)) - i64::from(last));
            last = axis(step);
        }
    }
    out.number(contents.offings.len() as u64);
    out.0.extend_from_slice(&contents.offings);
    write_graph(contents, &mut out);
    let mut packer = zstd::bulk::Compressor::new(level).map_err(Error::Write)?;
    packer.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true)).map_err(Error::Write)?;
    let packed = packer.compress(&out.0).map_err(Error::Write)?;
    Ok([&MAGIC[..], &packed].concat())
}

fn write_graph(contents: &Contents, out: &mut Writer) {
    let nodes = contents.order.len();
    let mut above = vec![Vec::new(); nodes];
    for (a, b) in &contents.ways {
        above[*a as usize].push(*b);
    }
    above.iter().for_each(|ways| out.number(ways.len() as u64));
    for (node, ways) in (0..).zip(&mut above) {
        ways.sort_unstable();
        let mut last = node;
        for to in ways {
            out.number(u64::from(*to - last));
            last = *to;
        }
    }
    contents.order.iter().for_each(|node| out.number(u64::from(*node)));
    out.number(contents.portals.len() as u64);
    contents.portals.iter().for_each(|passage| out.number(u64::from(*passage)));

    let mut ranks = vec![0; nodes];
    for (rank, node) in (0..).zip(&contents.order) {
        ranks[*node as usize] = rank;
    }
    let shortcuts = numbered(contents, &ranks);
    shortcuts.iter().for_each(|pairs| out.number(pairs.len() as u64));
    for pairs in &shortcuts {
        let mut last = (0, 0);
        for (a, b) in pairs {
            // Sorted: mostly the first is the same and the second is a little more.
            out.number((a - last.0) as u64);
            out.number((b - if *a == last.0 { last.1 } else { *a }) as u64);
            last = (*a, *b);
        }
    }
}

/// Shortcuts as pairs of places among the ways up of the node that they lead over.
fn numbered(contents: &Contents, ranks: &[u32]) -> Vec<Vec<(usize, usize)>> {
    // Which ways up there are does not depend on lengths.
    let mut climb = Climbs::new(ranks, &contents.ways, contents.portals.len(), |_, _| 0.0);
    let mut all = Vec::new();
    for (over, shortcuts) in (0u32..).zip(&contents.shortcuts) {
        let place = |node: u32| {
            let found = climb.ups[over as usize].binary_search_by_key(&ranks[node as usize], |up| up.to);
            found.unwrap_or_else(|_| unreachable!("a shortcut is between ways up"))
        };
        let pair = |(a, b): &(u32, u32)| {
            let (a, b) = (place(*a), place(*b));
            (a.min(b), a.max(b))
        };
        let mut pairs: Vec<(usize, usize)> = shortcuts.iter().map(pair).collect();
        pairs.sort_unstable();
        for (a, b) in &pairs {
            climb.shortcut(over, *a, *b);
        }
        all.push(pairs);
    }
    all
}

/// Unpacks a network.
pub fn read(bytes: &[u8]) -> Result<Network> {
    let packed =
        bytes.strip_prefix(MAGIC).ok_or_else(|| Error::Network("not a sea network of version 1".to_owned()))?;
    let bytes = zstd::bulk::decompress(packed, UNPACKED_BYTES_MAX).map_err(|e| broken(&e.to_string()))?;
    let mut input = Reader(&bytes);
    let passages = input.count()?;
    let (json, rest) = input.0.split_at(passages);
    input.0 = rest;
    let passages: Vec<Passage> = serde_json::from_slice(json).map_err(|e| broken(&e.to_string()))?;
    if passages.len() > PASSAGES_MAX {
        return Err(broken("too many passages"));
    }
    let mut lines = Vec::new();
    for _ in 0..input.count()? {
        let passage = input.below(passages.len())?;
        let (a, b) = (Vector::from(Position::from(input.step()?)), Vector::from(Position::from(input.step()?)));
        lines.push(Arc { a, b, tag: Tag::strait(passage as usize).bits() });
    }
    let mut at = Vec::new();
    let mut around = Vec::new();
    for _ in 0..input.count()? {
        at.push(Vector::from(Position::from(input.step()?)));
        around.push(if input.below(2)? == 1 { Around::Inland } else { Around::Free });
    }
    let rings = read_rings(&mut input)?;
    let mut arcs = coast::arcs(&rings);
    arcs.extend(lines);
    let corners = coast::corners(&rings);
    if input.count()? != corners.len() {
        return Err(broken("corners and offings do not match"));
    }
    for corner in corners {
        let (offing, rest) = input.0.split_first().ok_or_else(|| broken("an offing is missing"))?;
        input.0 = rest;
        if *offing != NO_NODE {
            let km = OFFING_KM.get(usize::from(*offing)).ok_or_else(|| broken("an offing is unknown"))?;
            at.push(corner.off(*km));
            around.push(Around::Corner(corner.seaward()));
        }
    }
    let graph = read_graph(&mut input, &at, passages.len())?;
    if !input.0.is_empty() {
        return Err(broken("it does not end where it should"));
    }
    let spot = |(rank, node): (u32, &u32)| (rank, at[*node as usize]);
    let around: Vec<Around> = graph.order.iter().map(|node| around[*node as usize]).collect();
    let inland = &around;
    let of = |wanted: bool| {
        (0..).zip(&graph.order).filter(move |(rank, _)| (inland[*rank as usize] == Around::Inland) == wanted)
    };
    let mut network = Network {
        knows_land: !rings.is_empty(),
        open: Nearby::new(of(false).map(spot)),
        inland: Nearby::new(of(true).map(spot)),
        passages,
        barrier: Barrier::new(arcs),
        around: around.clone(),
        at: graph.order.iter().map(|node| at[*node as usize]).collect(),
        first_up: graph.first_up,
        ups: graph.ups,
        first_portal: (graph.order.len() - graph.portals.len()) as u32,
        tops: Tops::default(),
        portals: Portals::default(),
    };
    network.tops = Tops::new(&network);
    network.portals = Portals::new(&network, graph.portals, &graph.aside);
    Ok(network)
}

fn read_rings(input: &mut Reader<'_>) -> Result<Vec<Vec<Step>>> {
    let mut rings: Vec<Vec<Step>> = Vec::new();
    for _ in 0..input.count()? {
        rings.push(vec![Step { lon: 0, lat: 0 }; input.count()?]);
    }
    let set: [fn(&mut Step, i32); 2] = [|step, lon| step.lon = lon, |step, lat| step.lat = lat];
    for set in set {
        let mut last = 0i32;
        for step in rings.iter_mut().flatten() {
            last = last.checked_add(input.signed()?).ok_or_else(|| broken("a coordinate is out of range"))?;
            set(step, last);
        }
    }
    Ok(rings)
}

struct Graph {
    order: Vec<u32>,
    portals: Vec<u32>,
    first_up: Vec<u32>,
    ups: Vec<Up>,
    aside: Vec<(u32, u32, f32)>,
}

fn read_graph(input: &mut Reader<'_>, at: &[Vector], passages: usize) -> Result<Graph> {
    let nodes = at.len();
    let counts = (0..nodes).map(|_| input.count()).collect::<Result<Vec<usize>>>()?;
    let mut ways = Vec::new();
    for (node, count) in (0..nodes as u32).zip(counts) {
        let mut to = node;
        for _ in 0..count {
            to = to
                .checked_add(input.below(nodes)?)
                .filter(|to| (*to as usize) < nodes && *to != node)
                .ok_or_else(|| broken("a way leads nowhere"))?;
            ways.push((node, to));
        }
    }
    let order = (0..nodes).map(|_| input.below(nodes)).collect::<Result<Vec<u32>>>()?;
    let mut ranks = vec![NONE; nodes];
    for (rank, node) in (0..).zip(&order) {
        if std::mem::replace(&mut ranks[*node as usize], rank) != NONE {
            return Err(broken("a node has two ranks"));
        }
    }
    let count = input.count()?;
    let portals = (0..count).map(|_| input.below(passages)).collect::<Result<Vec<u32>>>()?;
    let climbers = nodes.checked_sub(portals.len()).ok_or_else(|| broken("there are too many portals"))?;
    let km = |a: u32, b: u32| at[order[a as usize] as usize].km_to(at[order[b as usize] as usize]) as f32;
    let mut climb = Climbs::new(&ranks, &ways, portals.len(), km);
    let counts = (0..climbers).map(|_| input.count()).collect::<Result<Vec<usize>>>()?;
    for (over, count) in counts.into_iter().enumerate() {
        let mut last = (0, 0);
        for _ in 0..count {
            let a = last.0 + input.number()? as usize;
            let b = (if a == last.0 { last.1 } else { a }) + input.number()? as usize;
            if a >= b || b >= climb.ups[over].len() {
                return Err(broken("a shortcut leads nowhere"));
            }
            last = (a, b);
            climb.shortcut(over as u32, a, b);
        }
    }
    let aside = std::mem::take(&mut climb.aside);
    let (first_up, ups) = climb.flat();
    Ok(Graph { order, portals, first_up, ups, aside })
}
