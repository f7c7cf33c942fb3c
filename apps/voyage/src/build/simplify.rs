//! Coastlines with fewer points that never give away land.
//!
//! Two steps, the cheapest first, as long as they stay within the tolerance. Both only add sea to the
//! land side, so a way that stays off the simple coast stays off the true one:
//!
//! ```text
//!   fill: a corner that points to land      collapse: an edge between two corners that point to sea
//!       p ─ ─ ─ n    sea                           x            sea
//!        \     /                                ╱ ─ ─ ╲
//!         \   /      land                      b ───── c        land
//!           v                                 ╱         ╲
//!                                            a           d
//! ```
//!
//! A step is refused if another coast would come inside the added triangle or nearer to the new edge
//! than the clearance: straits and channels stay open.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::land::Ring;
use crate::sea::sphere::{EARTH_KM, Position, Vector, nearest_on_arc, side};

/// Edges longer than this are cut before anything else, so that straight lines in degrees, which land
/// files have, and great circles, which we have, are the same to some metres.
const EDGE_DEGREES_MAX: f64 = 0.3;

/// Width of a cell of the edge index, in degrees.
const CELL_DEGREES: f64 = 0.25;

/// Points this near to the antimeridian or to a pole stay as they are: land files cut polygons there.
const FROZEN_LON: f64 = 179.9;
const FROZEN_LAT: f64 = 89.0;

/// Neighbours on the same coast that may be nearer to a new edge than the clearance.
const CLEAR_OF_STEPS: usize = 4;

/// How far a simple coast may leave the true one.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Farthest that land may grow, in kilometres.
    pub km: f64,
    /// The same beyond 66° N and 60° S, where ice makes finer coasts useless.
    pub polar_km: f64,
    /// What stays free in front of a new edge, in kilometres.
    pub clear_km: f64,
}

impl Tolerance {
    fn at(&self, lat: f64) -> f64 {
        if !(-60.0..=72.0).contains(&lat) { self.polar_km } else { self.km }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Fill,
    Collapse,
}

struct Coast {
    at: Vec<Vector>,
    degrees: Vec<Position>,
    previous: Vec<u32>,
    next: Vec<u32>,
    alive: Vec<bool>,
    /// How far the edge to the next point may be from true land, in kilometres.
    error: Vec<f64>,
    frozen: Vec<bool>,
    /// Counts changes of the edge to the next point.
    stamp: Vec<u32>,
    cells: HashMap<(i32, i32), Vec<(u32, u32)>>,
    tolerance: Tolerance,
}

/// Simplifies `rings`, which must not cross each other.
#[must_use]
pub fn simplify(rings: &[Ring], tolerance: Tolerance) -> Vec<Ring> {
    let mut coast = Coast::new(rings, tolerance);
    let mut heap = BinaryHeap::new();
    for v in 0..coast.at.len() as u32 {
        coast.offer(v, &mut heap);
    }
    while let Some((Reverse(cost), step, v)) = heap.pop() {
        if !coast.alive[v as usize] {
            continue;
        }
        let cost = f64::from_bits(cost);
        let Some(now) = coast.cost(step, v) else { continue };
        if now > cost * 1.000_001 + 1e-12 {
            heap.push((Reverse(now.to_bits()), step, v));
            continue;
        }
        match step {
            Step::Fill => coast.fill(v, now, &mut heap),
            Step::Collapse => coast.collapse(v, now, &mut heap),
        }
    }
    coast.rings()
}

type Heap = BinaryHeap<(Reverse<u64>, Step, u32)>;

impl Coast {
    fn new(rings: &[Ring], tolerance: Tolerance) -> Self {
        let mut coast = Self {
            at: Vec::new(),
            degrees: Vec::new(),
            previous: Vec::new(),
            next: Vec::new(),
            alive: Vec::new(),
            error: Vec::new(),
            frozen: Vec::new(),
            stamp: Vec::new(),
            cells: HashMap::new(),
            tolerance,
        };
        for ring in rings {
            let first = coast.at.len() as u32;
            let ends = ring.iter().cycle().skip(1);
            for (a, b) in ring.iter().zip(ends) {
                let long = (b.lon - a.lon).abs().max((b.lat - a.lat).abs());
                // A jump in longitude is a short edge across the antimeridian.
                let pieces = if long > 180.0 { 1.0 } else { (long / EDGE_DEGREES_MAX).ceil().max(1.0) };
                for i in 0..pieces as u32 {
                    let share = f64::from(i) / pieces;
                    coast.push(Position::new(a.lon + share * (b.lon - a.lon), a.lat + share * (b.lat - a.lat)));
                }
            }
            let count = coast.at.len() as u32 - first;
            for i in 0..count {
                coast.next.push(first + (i + 1) % count);
                coast.previous.push(first + (i + count - 1) % count);
            }
        }
        for v in 0..coast.at.len() as u32 {
            coast.index(v);
        }
        coast
    }

    fn push(&mut self, at: Position) {
        self.at.push(at.into());
        self.degrees.push(at);
        self.alive.push(true);
        self.error.push(0.0);
        self.frozen.push(at.lon.abs() > FROZEN_LON || at.lat.abs() > FROZEN_LAT);
        self.stamp.push(0);
    }

    fn v(&self, v: u32) -> Vector {
        self.at[v as usize]
    }

    fn next(&self, v: u32) -> u32 {
        self.next[v as usize]
    }

    fn previous(&self, v: u32) -> u32 {
        self.previous[v as usize]
    }

    fn points_to_sea(&self, v: u32) -> bool {
        side(self.v(self.previous(v)), self.v(v), self.v(self.next(v))) > 0.0
    }

    fn offer(&self, v: u32, heap: &mut Heap) {
        let limit = self.tolerance.at(self.degrees[v as usize].lat);
        for step in [Step::Fill, Step::Collapse] {
            if let Some(cost) = self.cost(step, v).filter(|cost| *cost <= limit) {
                heap.push((Reverse(cost.to_bits()), step, v));
            }
        }
    }

    fn corner(&self, b: u32) -> Option<Vector> {
        let (a, c) = (self.previous(b), self.next(b));
        let d = self.next(c);
        if d == a {
            return None; // a triangle stays one
        }
        let (a, b, c, d) = (self.v(a), self.v(b), self.v(c), self.v(d));
        let first = a.cross(b - a);
        let last = c.cross(d - c);
        let x = first.cross(last).unit();
        let x = if x.dot(b) < 0.0 { x * -1.0 } else { x };
        // Beyond b and before c, on the sea side, not far off.
        let beyond = (x - b).dot(b - a) > 0.0 && (x - c).dot(c - d) > 0.0 && side(b, c, x) < 0.0;
        (beyond && x.dot(b) > 0.99).then_some(x)
    }

    /// What the edge that a step makes may be off true land; nothing if the step is not possible.
    fn cost(&self, step: Step, v: u32) -> Option<f64> {
        let (p, n) = (self.previous(v), self.next(v));
        if self.frozen[v as usize] || self.frozen[p as usize] || self.frozen[n as usize] || self.next(n) == p {
            return None;
        }
        match step {
            Step::Fill => {
                if self.points_to_sea(v) {
                    return None;
                }
                let height = nearest_on_arc(self.v(p), self.v(n), self.v(v)).0;
                Some(height + self.error[p as usize].max(self.error[v as usize]))
            }
            Step::Collapse => {
                if self.frozen[self.next(n) as usize] || !self.points_to_sea(v) || !self.points_to_sea(n) {
                    return None;
                }
                let x = self.corner(v)?;
                let height = nearest_on_arc(self.v(v), self.v(n), x).0;
                let inner = height + self.error[v as usize];
                Some(inner.max(self.error[p as usize]).max(self.error[n as usize]))
            }
        }
    }

    fn fill(&mut self, v: u32, cost: f64, heap: &mut Heap) {
        let (p, n) = (self.previous(v), self.next(v));
        let triangle = [self.v(p), self.v(v), self.v(n)];
        if cost > self.tolerance.at(self.degrees[v as usize].lat)
            || !self.is_free(&[p, v, n], triangle, &[(triangle[0], triangle[2])])
        {
            return;
        }
        self.alive[v as usize] = false;
        self.next[p as usize] = n;
        self.previous[n as usize] = p;
        self.changed(p, cost);
        for near in [self.previous(p), p, n, self.previous(self.previous(p))] {
            self.offer(near, heap);
        }
    }

    fn collapse(&mut self, b: u32, cost: f64, heap: &mut Heap) {
        let Some(x) = self.corner(b) else { return };
        let (a, c) = (self.previous(b), self.next(b));
        let d = self.next(c);
        let degrees = Position::from(x);
        let frozen = degrees.lon.abs() > FROZEN_LON || degrees.lat.abs() > FROZEN_LAT;
        let sides = [(self.v(b), x), (x, self.v(c))];
        let triangle = [self.v(b), x, self.v(c)];
        if frozen || cost > self.tolerance.at(degrees.lat) || !self.is_free(&[a, b, c, d], triangle, &sides) {
            return;
        }
        let height = nearest_on_arc(self.v(b), self.v(c), x).0;
        let inner = height + self.error[b as usize];
        // b moves to x, c goes.
        self.alive[c as usize] = false;
        self.at[b as usize] = x;
        self.degrees[b as usize] = degrees;
        self.next[b as usize] = d;
        self.previous[d as usize] = b;
        let (before, after) = (self.error[a as usize], self.error[c as usize]);
        self.changed(a, before.max(inner));
        self.changed(b, after.max(inner));
        for near in [self.previous(a), a, b, d] {
            self.offer(near, heap);
        }
    }

    fn changed(&mut self, v: u32, error: f64) {
        self.error[v as usize] = error;
        self.stamp[v as usize] += 1;
        self.index(v);
    }

    fn index(&mut self, v: u32) {
        let (a, b) = (self.degrees[v as usize], self.degrees[self.next(v) as usize]);
        let entry = (v, self.stamp[v as usize]);
        for cell in cells(&[a, b], 0.0) {
            self.cells.entry(cell).or_default().push(entry);
        }
    }

    /// Whether the triangle holds no point of a coast, no coast crosses its new sides, and none is
    /// nearer to them than the clearance. `own` are the points that the step is about.
    fn is_free(&self, own: &[u32], triangle: [Vector; 3], sides: &[(Vector, Vector)]) -> bool {
        let corners = triangle.map(Position::from);
        let clear = self.tolerance.clear_km;
        let mut close = own.to_vec();
        for _ in 0..CLEAR_OF_STEPS {
            let (first, last) = (close[0], close[close.len() - 1]);
            close.insert(0, self.previous(first));
            close.push(self.next(last));
        }
        let turn = side(triangle[0], triangle[1], triangle[2]).signum();
        let inside = |p: Vector| {
            let [a, b, c] = triangle;
            side(a, b, p) * turn >= 0.0 && side(b, c, p) * turn >= 0.0 && side(c, a, p) * turn >= 0.0
        };
        for cell in cells(&corners, clear / 111.0) {
            for (v, stamp) in self.cells.get(&cell).into_iter().flatten() {
                if self.stamp[*v as usize] != *stamp || !self.alive[*v as usize] {
                    continue;
                }
                let (a, b) = (self.v(*v), self.v(self.next(*v)));
                if !own.contains(v) {
                    let near = sides.iter().any(|(p, q)| nearest_on_arc(*p, *q, a).0 < clear);
                    if inside(a) || near && !close.contains(v) {
                        return false;
                    }
                }
                let shares = own.contains(v) || own.contains(&self.next(*v));
                let crosses = |(p, q): &(Vector, Vector)| {
                    side(*p, *q, a) * side(*p, *q, b) < 0.0 && side(a, b, *p) * side(a, b, *q) < 0.0
                };
                if !shares && (sides.iter().any(crosses) || self.too_near(a, b, sides, clear, &close, *v)) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether a long edge passes a new corner nearer than the clearance.
    fn too_near(&self, a: Vector, b: Vector, sides: &[(Vector, Vector)], clear: f64, close: &[u32], v: u32) -> bool {
        if close.contains(&v) || close.contains(&self.next(v)) {
            return false;
        }
        sides.iter().flat_map(|(p, q)| [*p, *q]).any(|corner| nearest_on_arc(a, b, corner).0 < clear)
    }

    fn rings(&self) -> Vec<Ring> {
        let mut seen = vec![false; self.at.len()];
        let mut rings = Vec::new();
        for first in 0..self.at.len() as u32 {
            if seen[first as usize] || !self.alive[first as usize] {
                continue;
            }
            let mut ring = Ring::new();
            let mut v = first;
            while !seen[v as usize] {
                seen[v as usize] = true;
                ring.push(self.degrees[v as usize]);
                v = self.next(v);
            }
            rings.push(ring);
        }
        rings
    }
}

/// The cells that the box of `corners`, widened by `margin` degrees of latitude, touches.
fn cells(corners: &[Position], margin: f64) -> impl Iterator<Item = (i32, i32)> + use<> {
    let bound = |pick: fn(&Position) -> f64| {
        corners.iter().map(pick).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((west, east), (south, north)) = (bound(|p| p.lon), bound(|p| p.lat));
    let wide = margin / south.abs().max(north.abs()).min(88.0).to_radians().cos();
    let cell = |degrees: f64| (degrees / CELL_DEGREES).floor() as i32;
    let rows = cell(south - margin)..=cell(north + margin);
    let columns = cell(west - wide)..=cell(east + wide);
    rows.flat_map(move |row| columns.clone().map(move |column| (column, row)))
}

/// Area of the triangle in square kilometres, for reports.
#[must_use]
pub fn km2(ring: &[Position]) -> f64 {
    let points: Vec<Vector> = ring.iter().map(|p| Vector::from(*p)).collect();
    let twice: f64 = (1..points.len().saturating_sub(1)).map(|i| side(points[0], points[i], points[i + 1])).sum();
    twice / 2.0 * EARTH_KM * EARTH_KM
}
