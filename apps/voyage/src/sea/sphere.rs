//! The globe as a sphere: points are unit vectors, the way between two points is the shorter arc of a
//! great circle.
//!
//! Vectors know no antimeridian and no pole, and the questions that a path finder asks by the million
//! (which side, does it cross) are a few products. The radius is the mean radius of the earth, the one
//! that the `geo` crate's haversine measure has; against the ellipsoid a distance is off by 0.56 % at
//! most.

/// Mean radius of the earth (IUGG), in kilometres.
pub const EARTH_KM: f64 = 6371.0088;

/// Kilometres in a nautical mile.
pub const KM_PER_NM: f64 = 1.852;

/// A position in degrees.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// Longitude, east is positive.
    pub lon: f64,
    /// Latitude, north is positive.
    pub lat: f64,
}

impl Position {
    /// A position, not yet checked.
    #[must_use]
    pub const fn new(lon: f64, lat: f64) -> Self {
        Self { lon, lat }
    }

    /// Whether it is on the globe. Longitudes up to a turn beyond ±180 are (they are how a line goes on
    /// across the antimeridian).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.lon.abs() <= 540.0 && self.lat.abs() <= 90.0
    }

    /// Great-circle distance in kilometres.
    #[must_use]
    pub fn km_to(self, other: Self) -> f64 {
        Vector::from(self).km_to(Vector::from(other))
    }
}

/// A point on the globe.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Vector {
    /// Towards 0° E on the equator.
    pub x: f64,
    /// Towards 90° E on the equator.
    pub y: f64,
    /// Towards the north pole.
    pub z: f64,
}

impl From<Position> for Vector {
    fn from(at: Position) -> Self {
        let (lat_sin, lat_cos) = at.lat.to_radians().sin_cos();
        let (lon_sin, lon_cos) = at.lon.to_radians().sin_cos();
        Self { x: lat_cos * lon_cos, y: lat_cos * lon_sin, z: lat_sin }
    }
}

impl From<Vector> for Position {
    fn from(v: Vector) -> Self {
        Self { lon: v.y.atan2(v.x).to_degrees(), lat: v.z.atan2(v.x.hypot(v.y)).to_degrees() }
    }
}

impl std::ops::Add for Vector {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self { x: self.x + o.x, y: self.y + o.y, z: self.z + o.z }
    }
}

impl std::ops::Sub for Vector {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        Self { x: self.x - o.x, y: self.y - o.y, z: self.z - o.z }
    }
}

impl std::ops::Mul<f64> for Vector {
    type Output = Self;
    fn mul(self, k: f64) -> Self {
        Self { x: self.x * k, y: self.y * k, z: self.z * k }
    }
}

impl Vector {
    /// Scalar product.
    #[must_use]
    pub fn dot(self, o: Self) -> f64 {
        self.x * o.x + self.y * o.y + self.z * o.z
    }

    /// Vector product.
    #[must_use]
    pub fn cross(self, o: Self) -> Self {
        Self { x: self.y * o.z - self.z * o.y, y: self.z * o.x - self.x * o.z, z: self.x * o.y - self.y * o.x }
    }

    /// Length of the straight line to the origin.
    #[must_use]
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The same direction with length one; the vector itself where it has none.
    #[must_use]
    pub fn unit(self) -> Self {
        let length = self.length();
        if length > 0.0 { self * (1.0 / length) } else { self }
    }

    /// Straight distance, squared, in units of the radius.
    #[must_use]
    pub fn chord2(self, o: Self) -> f64 {
        let d = self - o;
        d.dot(d)
    }

    /// Great-circle distance in kilometres.
    #[must_use]
    pub fn km_to(self, o: Self) -> f64 {
        km_of_chord(self.chord2(o).sqrt())
    }

    /// The point at `share` (0 to 1) of the way to `o`.
    #[must_use]
    pub fn towards(self, o: Self, share: f64) -> Self {
        let angle = 2.0 * (self.chord2(o).sqrt() / 2.0).min(1.0).asin();
        if angle < 1e-12 {
            return self;
        }
        (self * ((1.0 - share) * angle).sin() + o * (share * angle).sin()).unit()
    }
}

/// Kilometres along the surface between points whose straight distance is `chord` radii.
#[must_use]
pub fn km_of_chord(chord: f64) -> f64 {
    2.0 * EARTH_KM * (chord / 2.0).min(1.0).asin()
}

/// Straight distance in radii between points `km` apart.
#[must_use]
pub fn chord_of_km(km: f64) -> f64 {
    2.0 * (km / (2.0 * EARTH_KM)).min(std::f64::consts::FRAC_PI_2).sin()
}

/// Which side of the great circle from `a` to `b` the point `c` is on: positive is left. It is the
/// distance from the circle times the length of the chord, for close points.
#[must_use]
pub fn side(a: Vector, b: Vector, c: Vector) -> f64 {
    // Differences first: the points are often close, and then products of the full vectors cancel.
    let (ab, ac) = (b - a, c - a);
    a.dot(ab.cross(ac))
}

/// Distance in kilometres from `p` to the arc `a`–`b`, and the nearest point of the arc.
#[must_use]
pub fn nearest_on_arc(a: Vector, b: Vector, p: Vector) -> (f64, Vector) {
    let normal = a.cross(b).unit();
    let foot = (p - normal * normal.dot(p)).unit();
    let inside = normal.dot(a.cross(foot)) >= 0.0 && normal.dot(foot.cross(b)) >= 0.0;
    let nearest = if inside && normal.length() > 0.5 {
        foot
    } else if p.chord2(a) <= p.chord2(b) {
        a
    } else {
        b
    };
    (nearest.km_to(p), nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lon: f64, lat: f64) -> Vector {
        Position::new(lon, lat).into()
    }

    #[test]
    fn distances_are_those_of_the_haversine_formula() {
        use geo::{Distance, Haversine, Point};
        for (a, b) in [((0.0, 0.0), (0.001, 0.0)), ((-70.0, 40.0), (100.0, -30.0)), ((179.0, 10.0), (-179.0, 12.0))] {
            let want = Haversine.distance(Point::new(a.0, a.1), Point::new(b.0, b.1)) / 1000.0;
            let got = at(a.0, a.1).km_to(at(b.0, b.1));
            assert!((got - want).abs() < 1e-6, "{a:?} {b:?}: {got}, not {want}");
        }
    }

    #[test]
    fn left_is_north_on_the_way_east_also_across_the_antimeridian() {
        assert!(side(at(179.0, 0.0), at(-179.0, 0.0), at(180.0, 1.0)) > 0.0);
        assert!(side(at(179.0, 0.0), at(-179.0, 0.0), at(180.0, -1.0)) < 0.0);
    }

    #[test]
    fn the_nearest_point_of_an_arc_is_its_foot_or_an_end() {
        let (km, foot) = nearest_on_arc(at(0.0, 0.0), at(10.0, 0.0), at(5.0, 1.0));
        assert!((km - 111.195).abs() < 0.01 && (Position::from(foot).lon - 5.0).abs() < 1e-9);
        let (_, end) = nearest_on_arc(at(0.0, 0.0), at(10.0, 0.0), at(12.0, 1.0));
        assert_eq!(end, at(10.0, 0.0));
    }

    #[test]
    fn a_share_of_the_way_lies_on_the_way() {
        let (a, b) = (at(170.0, 60.0), at(-170.0, 60.0));
        let middle = Position::from(a.towards(b, 0.5));
        assert!((middle.lon.abs() - 180.0).abs() < 1e-9 && middle.lat > 60.0);
    }
}
