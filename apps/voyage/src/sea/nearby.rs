//! The points nearest to a place: a tree that halves space, in one array.

use super::sphere::Vector;

/// Points that can be found by place.
#[derive(Debug, Default)]
pub struct Nearby {
    /// The middle of each stretch divides it along the axis noted with it.
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    at: Vector,
    id: u32,
    axis: u8,
}

/// Points found, nearest first.
#[derive(Debug, Default)]
pub struct Found {
    /// Squared straight distance in radii, number.
    pub points: Vec<(f64, u32)>,
}

fn along(v: Vector, axis: u8) -> f64 {
    [v.x, v.y, v.z][usize::from(axis)]
}

impl Nearby {
    /// Sorts the points in.
    #[must_use]
    pub fn new(points: impl Iterator<Item = (u32, Vector)>) -> Self {
        let mut points: Vec<Point> = points.map(|(id, at)| Point { at, id, axis: 0 }).collect();
        sort(&mut points);
        Self { points }
    }

    /// Finds the `count` points nearest to `p`, none farther than `chord` radii.
    pub fn nearest(&self, p: Vector, count: usize, chord: f64, found: &mut Found) {
        found.points.clear();
        self.look(0, self.points.len(), p, count, &mut (chord * chord), &mut found.points);
    }

    fn look(&self, low: usize, high: usize, p: Vector, count: usize, reach2: &mut f64, found: &mut Vec<(f64, u32)>) {
        if low >= high {
            return;
        }
        let middle = low.midpoint(high);
        let point = &self.points[middle];
        let chord2 = point.at.chord2(p);
        if chord2 <= *reach2 {
            if found.len() == count {
                found.pop();
            }
            let at = found.partition_point(|f| f.0 <= chord2);
            found.insert(at, (chord2, point.id));
            if found.len() == count {
                *reach2 = found[count - 1].0;
            }
        }
        let beyond = along(p, point.axis) - along(point.at, point.axis);
        let (near, far) =
            if beyond < 0.0 { ((low, middle), (middle + 1, high)) } else { ((middle + 1, high), (low, middle)) };
        self.look(near.0, near.1, p, count, reach2, found);
        if beyond * beyond <= *reach2 {
            self.look(far.0, far.1, p, count, reach2, found);
        }
    }
}

fn sort(points: &mut [Point]) {
    if points.is_empty() {
        return;
    }
    let spread = |axis: &u8| {
        let (low, high) = points
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), p| (low.min(along(p.at, *axis)), high.max(along(p.at, *axis))));
        high - low
    };
    let axis = [0, 1, 2].into_iter().max_by(|a, b| spread(a).total_cmp(&spread(b))).unwrap_or(0);
    let middle = points.len() / 2;
    points.select_nth_unstable_by(middle, |a, b| along(a.at, axis).total_cmp(&along(b.at, axis)));
    points[middle].axis = axis;
    let (left, right) = points.split_at_mut(middle);
    sort(left);
    sort(&mut right[1..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sea::sphere::Position;

    #[test]
    fn the_nearest_points_are_those_of_a_scan() {
        let at = |i: u32| {
            let (lon, lat) =
                (f64::from(i * 7919 % 36000) / 100.0 - 180.0, f64::from(i * 104_729 % 17000) / 100.0 - 85.0);
            Vector::from(Position::new(lon, lat))
        };
        let nearby = Nearby::new((0..2000).map(|i| (i, at(i))));
        let mut found = Found::default();
        for i in 0..50 {
            let p = at(i * 31 + 5) + Vector { x: 0.01, y: 0.0, z: 0.0 };
            let mut want: Vec<(f64, u32)> = (0..2000).map(|i| (at(i).chord2(p), i)).collect();
            want.sort_by(|a, b| a.0.total_cmp(&b.0));
            want.truncate(9);
            nearby.nearest(p, 9, 2.0, &mut found);
            assert_eq!(found.points, want);
            nearby.nearest(p, 9, want[3].0.sqrt(), &mut found);
            assert!((3..=4).contains(&found.points.len()));
        }
    }
}
