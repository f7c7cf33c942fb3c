//! Land polygons from GeoJSON files into rings.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::input::Input;
use crate::sea::sphere::{Position, Vector};

/// Most bytes of a land file: the finest public coastlines are some hundred megabytes.
const LAND_BYTES_MAX: u64 = 1 << 30;

/// A closed line; land is on its left. The last point is not the first one again.
pub type Ring = Vec<Position>;

#[derive(Deserialize)]
struct Collection {
    features: Vec<Feature>,
}

#[derive(Deserialize)]
struct Feature {
    geometry: Geometry,
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "coordinates")]
enum Geometry {
    Polygon(Vec<Vec<[f64; 2]>>),
    MultiPolygon(Vec<Vec<Vec<[f64; 2]>>>),
}

/// Reads the polygons of `path` (GeoJSON, a feature collection).
pub fn polygons(path: &Path) -> Result<Vec<Vec<Vec<[f64; 2]>>>> {
    let bytes = Input::open(path)?.read_all(LAND_BYTES_MAX)?;
    let json = |source| Error::Json { path: path.to_owned(), line: 0, source };
    let collection: Collection = serde_json::from_slice(&bytes).map_err(json)?;
    let mut polygons = Vec::new();
    for feature in collection.features {
        match feature.geometry {
            Geometry::Polygon(polygon) => polygons.push(polygon),
            Geometry::MultiPolygon(many) => polygons.extend(many),
        }
    }
    Ok(polygons)
}

/// Reads the rings of all polygons of `path`, turned so that land is on the left.
pub fn rings(path: &Path) -> Result<Vec<Ring>> {
    let mut rings = Vec::new();
    for polygon in polygons(path)? {
        for (at, ring) in polygon.iter().enumerate() {
            let mut ring: Ring = ring.iter().map(|[lon, lat]| Position::new(*lon, *lat)).collect();
            ring.dedup();
            if ring.first() == ring.last() {
                ring.pop();
            }
            if ring.len() < 3 {
                continue;
            }
            let around_land = at == 0;
            if goes_left(&ring) != around_land {
                ring.reverse();
            }
            rings.push(ring);
        }
    }
    Ok(rings)
}

/// Whether a ring goes round its inside to the left. The sum of the products of neighbours points to the
/// inside then, wherever the ring lies: across the antimeridian or around a pole.
fn goes_left(ring: &[Position]) -> bool {
    let points: Vec<Vector> = ring.iter().map(|at| Vector::from(*at)).collect();
    let middle = points.iter().fold(Vector::default(), |sum, p| sum + *p).unit();
    // From the middle, so that small rings do not drown in rounding.
    let next = points.iter().cycle().skip(1);
    let sum = points.iter().zip(next).fold(0.0, |sum, (a, b)| sum + middle.dot((*a - middle).cross(*b - middle)));
    sum > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_across_the_antimeridian_and_around_a_pole_have_a_direction() {
        let ring = |points: &[(f64, f64)]| points.iter().map(|(lon, lat)| Position::new(*lon, *lat)).collect::<Ring>();
        assert!(goes_left(&ring(&[(179.0, 0.0), (-179.0, 0.0), (-179.0, 1.0), (179.0, 1.0)])));
        assert!(goes_left(&ring(&[(0.0, 80.0), (90.0, 80.0), (180.0, 80.0), (-90.0, 80.0)])));
        assert!(!goes_left(&ring(&[(0.0, -80.0), (90.0, -80.0), (180.0, -80.0), (-90.0, -80.0)])));
    }
}
