//! What a ship cannot cross: arcs of coast, found fast.
//!
//! The arcs lie in a tree of caps. A way crosses an arc only if its great circle comes as near to the
//! centre of every cap above it as the cap is wide, and if the cap is not beyond the way's ends: two
//! scalar products a cap, no angles.

use super::sphere::{Vector, side};

/// Arcs in a leaf: fewer make more caps than they save tests.
const LEAF_ARCS: usize = 4;

/// An arc of coast; land is on its left.
#[derive(Debug, Clone, Copy)]
pub struct Arc {
    /// Where it begins.
    pub a: Vector,
    /// Where it ends.
    pub b: Vector,
    /// What it belongs to, for the caller.
    pub tag: u32,
}

#[derive(Debug, Clone, Copy)]
struct Cap {
    centre: Vector,
    /// Straight distance from the centre to the farthest point.
    radius: f64,
    /// Leaves: first arc. Others: the second child; the first is the next cap.
    at: u32,
    /// Arcs in a leaf, 0 in others.
    arcs: u32,
}

/// A set of arcs.
#[derive(Debug, Default)]
pub struct Barrier {
    caps: Vec<Cap>,
    arcs: Vec<Arc>,
}

impl Barrier {
    /// Sorts `arcs` into a tree. Arcs are short: below a radian.
    #[must_use]
    pub fn new(mut arcs: Vec<Arc>) -> Self {
        let mut caps = Vec::with_capacity(arcs.len() / 2 + 1);
        if !arcs.is_empty() {
            split(&mut arcs, 0, &mut caps);
        }
        Self { caps, arcs }
    }

    /// Whether the way from `p` to `q` crosses an arc whose tag `counts`.
    #[must_use]
    pub fn crosses(&self, p: Vector, q: Vector, counts: impl Fn(u32) -> bool) -> bool {
        let way = Way::new(p, q);
        self.visit(&way, |arc| way.crosses(arc) && counts(arc.tag))
    }

    /// Calls `found` for each arc that the way from `p` to `q` crosses.
    pub fn crossed(&self, p: Vector, q: Vector, mut found: impl FnMut(&Arc)) {
        let way = Way::new(p, q);
        self.visit(&way, |arc| {
            if way.crosses(arc) {
                found(arc);
            }
            false
        });
    }

    fn visit(&self, way: &Way, mut stop: impl FnMut(&Arc) -> bool) -> bool {
        let mut at = 0;
        let mut later = [0u32; 64];
        let mut waiting = 0;
        loop {
            let enter = self.caps.get(at).filter(|cap| way.touches(cap.centre, cap.radius));
            match enter {
                Some(cap) if cap.arcs == 0 => {
                    later[waiting] = cap.at;
                    waiting += 1;
                    at += 1;
                    continue;
                }
                Some(cap) => {
                    let first = cap.at as usize;
                    if self.arcs[first..first + cap.arcs as usize].iter().any(&mut stop) {
                        return true;
                    }
                }
                None => {}
            }
            if waiting == 0 {
                return false;
            }
            waiting -= 1;
            at = later[waiting] as usize;
        }
    }

    /// The nearest arc within `km` whose tag `counts`: its distance, the nearest point of it, the arc.
    #[must_use]
    pub fn nearest(&self, p: Vector, km: f64, counts: impl Fn(u32) -> bool) -> Option<(f64, Vector, &Arc)> {
        let mut best: Option<(f64, Vector, &Arc)> = None;
        let mut reach = super::sphere::chord_of_km(km);
        let mut later = vec![0u32];
        while let Some(at) = later.pop() {
            let Some(cap) = self.caps.get(at as usize) else { break };
            if cap.centre.chord2(p).sqrt() > cap.radius + reach {
                continue;
            }
            if cap.arcs == 0 {
                let (near, far) = (at + 1, cap.at);
                let distance = |child: u32| self.caps[child as usize].centre.chord2(p);
                let (near, far) = if distance(near) <= distance(far) { (near, far) } else { (far, near) };
                later.extend([far, near]);
                continue;
            }
            for arc in &self.arcs[cap.at as usize..(cap.at + cap.arcs) as usize] {
                let (found, point) = super::sphere::nearest_on_arc(arc.a, arc.b, p);
                if found <= best.map_or(km, |b| b.0) && counts(arc.tag) {
                    best = Some((found, point, arc));
                    reach = super::sphere::chord_of_km(found);
                }
            }
        }
        best
    }

    /// Calls `found` for each arc whose ends are both within `km` of `p`.
    pub fn within(&self, p: Vector, km: f64, mut found: impl FnMut(&Arc)) {
        let reach = super::sphere::chord_of_km(km);
        let mut later = vec![0u32];
        while let Some(at) = later.pop() {
            let Some(cap) = self.caps.get(at as usize) else { break };
            if cap.centre.chord2(p).sqrt() > cap.radius + reach {
                continue;
            }
            if cap.arcs == 0 {
                later.extend([cap.at, at + 1]);
                continue;
            }
            let arcs = &self.arcs[cap.at as usize..(cap.at + cap.arcs) as usize];
            let inside = |arc: &&Arc| arc.a.chord2(p).max(arc.b.chord2(p)) <= reach * reach;
            arcs.iter().filter(inside).for_each(&mut found);
        }
    }

    /// All arcs.
    #[must_use]
    pub fn arcs(&self) -> &[Arc] {
        &self.arcs
    }
}

/// A straight way with what the tests need of it.
struct Way {
    p: Vector,
    q: Vector,
    normal: Vector,
    middle: Vector,
    half: f64,
}

impl Way {
    fn new(p: Vector, q: Vector) -> Self {
        let middle = (p + q).unit();
        // From differences, so that a short way has a precise normal too.
        let normal = p.cross(q - p).unit();
        Self { p, q, normal, middle, half: middle.chord2(p).sqrt() }
    }

    /// Chords obey the triangle inequality, and the distance of a point to a plane is at most its
    /// distance to any point in it.
    fn touches(&self, centre: Vector, radius: f64) -> bool {
        let reach = self.half + radius;
        self.normal.dot(centre).abs() <= radius && self.middle.chord2(centre) <= reach * reach
    }

    fn crosses(&self, arc: &Arc) -> bool {
        let (a, b) = (self.normal.dot(arc.a - self.p), self.normal.dot(arc.b - self.p));
        if (a > 0.0) == (b > 0.0) {
            return false;
        }
        if (side(arc.a, arc.b, self.p) > 0.0) == (side(arc.a, arc.b, self.q) > 0.0) {
            return false;
        }
        // The great circles cross here or on the other side of the globe.
        let (half, crossing) = (arc.a + arc.b, self.normal.cross(arc.a.cross(arc.b)));
        (crossing.dot(half) > 0.0) == (crossing.dot(self.middle) > 0.0)
    }
}

/// Sorts `arcs` (those from `first` on in the whole) under one cap.
fn split(arcs: &mut [Arc], first: usize, caps: &mut Vec<Cap>) {
    let at = caps.len();
    let centre = arcs.iter().fold(Vector::default(), |sum, arc| sum + arc.a + arc.b).unit();
    let radius2 = arcs.iter().map(|arc| centre.chord2(arc.a).max(centre.chord2(arc.b))).fold(0.0, f64::max);
    // An arc bulges out of the chord between its ends; the slack holds that and rounding.
    let bulge = arcs.iter().map(|arc| arc.a.chord2(arc.b) / 8.0).fold(0.0, f64::max);
    let radius = radius2.sqrt() + bulge + 1e-12;
    let too_many = arcs.len() > LEAF_ARCS;
    let (start, count) = (first as u32, if too_many { 0 } else { arcs.len() as u32 });
    caps.push(Cap { centre, radius, at: start, arcs: count });
    if !too_many {
        return;
    }
    let spread = |axis: fn(Vector) -> f64| {
        let (low, high) = arcs.iter().fold((f64::MAX, f64::MIN), |(low, high), arc| {
            let v = axis(arc.a + arc.b);
            (low.min(v), high.max(v))
        });
        high - low
    };
    let axes: [fn(Vector) -> f64; 3] = [|v| v.x, |v| v.y, |v| v.z];
    let widest = axes.into_iter().max_by(|m, n| spread(*m).total_cmp(&spread(*n)));
    let axis = widest.unwrap_or(axes[0]);
    let middle = arcs.len() / 2;
    arcs.select_nth_unstable_by(middle, |m, n| axis(m.a + m.b).total_cmp(&axis(n.a + n.b)));
    let (left, right) = arcs.split_at_mut(middle);
    split(left, first, caps);
    caps[at].at = caps.len() as u32;
    split(right, first + middle, caps);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sea::sphere::Position;

    fn at(lon: f64, lat: f64) -> Vector {
        Position::new(lon, lat).into()
    }

    /// A grid of short arcs with a gap, to be asked by brute force and through the tree.
    fn fence() -> Vec<Arc> {
        let piece = |i: u32| {
            let lat = f64::from(i) * 0.5 - 30.0;
            Arc { a: at(179.9, lat), b: at(-179.9, lat + 0.5), tag: i }
        };
        (0..120).filter(|i| *i != 61).map(piece).collect()
    }

    #[test]
    fn a_fence_across_the_antimeridian_stops_all_but_the_gap() {
        let barrier = Barrier::new(fence());
        assert!(barrier.crosses(at(178.0, 0.2), at(-178.0, 0.2), |_| true));
        assert!(!barrier.crosses(at(178.0, 0.75), at(-178.0, 0.75), |_| true));
        assert!(!barrier.crosses(at(178.0, 0.2), at(179.0, 0.2), |_| true));
        assert!(!barrier.crosses(at(178.0, 0.2), at(-178.0, 0.2), |tag| tag > 61));
    }

    #[test]
    fn arcs_on_the_other_side_of_the_globe_stop_nothing() {
        let far = Arc { a: at(179.0, -1.0), b: at(179.0, 1.0), tag: 0 };
        let near = Arc { a: at(2.0, -1.0), b: at(2.0, 1.0), tag: 1 };
        let barrier = Barrier::new(vec![near, far]);
        let mut found = Vec::new();
        barrier.crossed(at(-5.0, 0.0), at(5.0, 0.1), |arc| found.push(arc.tag));
        assert_eq!(found, [1]);
    }

    #[test]
    fn the_tree_finds_what_a_scan_finds() {
        let arcs = fence();
        let barrier = Barrier::new(arcs.clone());
        for i in 0..400 {
            let (p, q) =
                (at(170.0 + f64::from(i % 13), -35.0 + f64::from(i) * 0.17), at(-175.0, f64::from(i % 60) - 30.0));
            let scan = arcs.iter().filter(|arc| Way::new(p, q).crosses(arc)).count();
            let mut found = 0;
            barrier.crossed(p, q, |_| found += 1);
            assert_eq!(found, scan);
        }
    }

    #[test]
    fn the_nearest_arc_is_the_nearest_of_all() {
        let arcs = fence();
        let barrier = Barrier::new(arcs.clone());
        for i in 0..100 {
            let p = at(170.0 + f64::from(i % 7), f64::from(i) * 0.7 - 35.0);
            let want =
                arcs.iter().map(|arc| crate::sea::sphere::nearest_on_arc(arc.a, arc.b, p).0).fold(f64::MAX, f64::min);
            let got = barrier.nearest(p, 2000.0, |_| true).map(|n| n.0);
            assert!(got.is_some_and(|got| (got - want).abs() < 1e-9));
            assert!(barrier.nearest(p, want * 0.99, |_| true).is_none());
        }
    }
}
