//! The simple coast: rings of points on a fine lattice, the barrier they make, and the corners at which
//! ways turn.
//!
//! A shortest way turns only where land points to the sea. So each such corner has a node a little off
//! the coast, as far as there is room. Nodes are not stored: builder and reader compute them from the
//! same lattice points with the same code.

use super::barrier::{Arc, Barrier};
use super::sphere::{EARTH_KM, Position, Vector, side};

/// Lattice steps in a degree: a step is 1.1 m at most.
pub const STEPS_PER_DEGREE: f64 = 100_000.0;

/// How far off its corner a node may lie, in kilometres: the widest that has room. Ships keep a mile off
/// a cape where they can.
pub const OFFING_KM: [f64; 7] = [2.0, 1.0, 0.5, 0.25, 0.1, 0.04, 0.015];

/// The offing of a corner that has no node, because there is no room or because no way uses it.
pub const NO_NODE: u8 = 255;

/// What an arc of the barrier is, kept in its tag: two bits that tell whether its ends point to the sea,
/// above them 0 for coast, or one more than the number of a strait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u32);

impl Tag {
    /// A piece of coast.
    #[must_use]
    pub fn coast(a_points_to_sea: bool, b_points_to_sea: bool) -> Self {
        Self(u32::from(a_points_to_sea) | u32::from(b_points_to_sea) << 1)
    }

    /// A piece of the line across a strait.
    #[must_use]
    pub fn strait(number: usize) -> Self {
        Self((number as u32 + 1) << 2)
    }

    /// For [`Arc::tag`].
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// Whether an arc with this tag is coast.
#[must_use]
pub fn is_coast(tag: u32) -> bool {
    tag >> 2 == 0
}

/// The number of the strait that an arc with this tag crosses.
#[must_use]
pub fn strait_of(tag: u32) -> Option<usize> {
    (tag >> 2).checked_sub(1).map(|n| n as usize)
}

/// A point of the lattice: steps of longitude and latitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    /// Longitude.
    pub lon: i32,
    /// Latitude.
    pub lat: i32,
}

impl From<Position> for Step {
    fn from(at: Position) -> Self {
        let steps = |degrees: f64| (degrees * STEPS_PER_DEGREE).round() as i32;
        Self { lon: steps(at.lon), lat: steps(at.lat) }
    }
}

impl From<Step> for Position {
    fn from(at: Step) -> Self {
        let degrees = |steps: i32| f64::from(steps) / STEPS_PER_DEGREE;
        Self { lon: degrees(at.lon), lat: degrees(at.lat) }
    }
}

/// A corner of the coast that points to the sea.
#[derive(Debug, Clone, Copy)]
pub struct Corner {
    /// The point before it; land is on the left.
    pub before: Vector,
    /// The corner.
    pub at: Vector,
    /// The point after it.
    pub after: Vector,
}

impl Corner {
    /// The direction in which most sea lies.
    #[must_use]
    pub fn seaward(&self) -> Vector {
        let (back, ahead) = ((self.at - self.before).unit(), (self.at - self.after).unit());
        let out = back + ahead;
        // Nearly straight: right of the way along the coast.
        let right = (self.after - self.before).cross(self.at).unit();
        (out.unit() * out.length().min(1.0) + right * 0.1).unit()
    }

    /// The node `km` off the corner.
    #[must_use]
    pub fn off(&self, km: f64) -> Vector {
        (self.at + self.seaward() * (km / EARTH_KM)).unit()
    }
}

/// All corners that point to the sea, in the order of their points.
#[must_use]
pub fn corners(rings: &[Vec<Step>]) -> Vec<Corner> {
    let mut corners = Vec::new();
    for ring in rings {
        let points: Vec<Vector> = ring.iter().map(|step| Position::from(*step).into()).collect();
        for i in 0..points.len() {
            let before = points[(i + points.len() - 1) % points.len()];
            let (at, after) = (points[i], points[(i + 1) % points.len()]);
            if side(before, at, after) > 0.0 {
                corners.push(Corner { before, at, after });
            }
        }
    }
    corners
}

/// The arcs of `rings`.
#[must_use]
pub fn arcs(rings: &[Vec<Step>]) -> Vec<Arc> {
    let mut arcs = Vec::new();
    for ring in rings {
        let points: Vec<Vector> = ring.iter().map(|step| Position::from(*step).into()).collect();
        let at = |i: usize| points[i % points.len()];
        let count = points.len();
        let to_sea: Vec<bool> = (0..count).map(|i| side(at(i + count - 1), at(i), at(i + 1)) > 0.0).collect();
        for i in 0..count {
            let tag = Tag::coast(to_sea[i], to_sea[(i + 1) % count]);
            arcs.push(Arc { a: at(i), b: at(i + 1), tag: tag.bits() });
        }
    }
    arcs
}

/// Where a point lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shore {
    /// Distance to the coast in kilometres.
    pub km: f64,
    /// The nearest point of it.
    pub at: Vector,
    /// Whether the point is on land.
    pub on_land: bool,
}

/// The coast nearest to `p` within `km`.
#[must_use]
pub fn shore(barrier: &Barrier, p: Vector, km: f64) -> Option<Shore> {
    let (km, at, arc) = barrier.nearest(p, km, is_coast)?;
    // Beside an arc its side tells. Beyond an end, the corner does: one that points to the sea has sea
    // around it, one that points to land has land.
    let on_land = if at == arc.a {
        arc.tag & 1 == 0
    } else if at == arc.b {
        arc.tag & 2 == 0
    } else {
        side(arc.a, arc.b, p) > 0.0
    };
    Some(Shore { km, at, on_land })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A square island with a notch in its north side.
    fn island() -> Vec<Vec<Step>> {
        let corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.6), (0.0, 1.0)];
        vec![corners.map(|(lon, lat)| Position::new(lon, lat).into()).to_vec()]
    }

    #[test]
    fn corners_that_point_to_the_sea_have_their_node_outside() {
        let corners = corners(&island());
        assert_eq!(corners.len(), 4, "the notch is no corner");
        let barrier = Barrier::new(arcs(&island()));
        for corner in corners {
            let node = corner.off(5.0);
            let shore = shore(&barrier, node, 100.0).unwrap();
            assert!(!shore.on_land && (shore.km - 5.0).abs() < 1.0, "{shore:?}");
        }
    }

    #[test]
    fn land_and_sea_are_told_apart_beside_edges_and_beyond_corners() {
        let barrier = Barrier::new(arcs(&island()));
        let rows = [(0.5, 0.3, true), (0.5, -0.1, false), (-0.1, -0.1, false), (0.5, 0.62, false), (0.5, 0.58, true)];
        for (lon, lat, on_land) in rows {
            let found = shore(&barrier, Position::new(lon, lat).into(), 200.0).unwrap();
            assert_eq!(found.on_land, on_land, "{lon} {lat}");
        }
        assert!(shore(&barrier, Position::new(10.0, 0.0).into(), 200.0).is_none());
    }
}
