//! Does a line cross land? The question asked of the land polygons themselves, in degrees, with nothing
//! of the path finder's own geometry in it.

use crate::sea::sphere::{Position, Vector, chord_of_km, nearest_on_arc};

/// Rows of the index in a degree, columns in a row.
const ROWS_PER_DEGREE: f64 = 4.0;
const ROWS: usize = 720;
const COLUMNS: usize = 720;

/// Land on a line is looked at in steps of this many kilometres.
const STEP_KM: f64 = 0.1;

#[derive(Debug, Clone, Copy)]
struct Edge {
    a: Position,
    b: Position,
}

/// Land polygons, three times side by side, by rows of latitude and by cells.
#[derive(Debug)]
pub struct Land {
    rows: Vec<Vec<Edge>>,
    cells: Vec<Vec<Edge>>,
}

/// Where land on a line does not count.
#[derive(Debug, Default)]
pub struct Excused {
    /// Points, and kilometres around each.
    pub around: Vec<(Position, f64)>,
    /// Lines, and kilometres beside each.
    pub beside: Vec<(Vec<Position>, f64)>,
}

fn row(lat: f64) -> usize {
    (((lat + 90.0) * ROWS_PER_DEGREE) as usize).min(ROWS - 1)
}

/// Of longitudes from -360 to 360.
fn column(lon: f64) -> usize {
    (((lon + 360.0) / 720.0 * COLUMNS as f64) as usize).min(COLUMNS - 1)
}

fn cells(a: Position, b: Position) -> impl Iterator<Item = usize> {
    let rows = row(a.lat.min(b.lat))..=row(a.lat.max(b.lat));
    let columns = column(a.lon.min(b.lon))..=column(a.lon.max(b.lon));
    rows.flat_map(move |row| columns.clone().map(move |column| row * COLUMNS + column))
}

impl Land {
    /// Sorts polygons in.
    #[must_use]
    pub fn new(polygons: &[Vec<Vec<[f64; 2]>>]) -> Self {
        let mut rows = vec![Vec::new(); ROWS];
        let mut by_cell = vec![Vec::new(); ROWS * COLUMNS];
        for ring in polygons.iter().flatten() {
            for pair in flat(ring).windows(2) {
                for turn in [-360.0, 0.0, 360.0] {
                    let [a, b] = [pair[0], pair[1]].map(|at| Position::new(at.lon + turn, at.lat));
                    for row in &mut rows[row(a.lat.min(b.lat))..=row(a.lat.max(b.lat))] {
                        row.push(Edge { a, b });
                    }
                    cells(a, b).for_each(|cell| by_cell[cell].push(Edge { a, b }));
                }
            }
        }
        Self { rows, cells: by_cell }
    }

    /// Whether `at` is on land: an odd number of edges lies to the west.
    #[must_use]
    pub fn holds(&self, at: Position) -> bool {
        let west = |e: &&Edge| {
            (e.a.lat > at.lat) != (e.b.lat > at.lat)
                && e.a.lon + (at.lat - e.a.lat) / (e.b.lat - e.a.lat) * (e.b.lon - e.a.lon) < at.lon
        };
        self.rows[row(at.lat)].iter().filter(west).count() % 2 == 1
    }

    /// Kilometres of `line` (straight in degrees between its points) on land that is not excused.
    #[must_use]
    pub fn km_on(&self, line: &[Position], excused: &Excused) -> f64 {
        let mut on_land = None;
        line.windows(2).map(|pair| self.km_on_segment(pair[0], pair[1], excused, &mut on_land)).sum()
    }

    /// `on_land` tells whether the segment begins on land, where that is known from the one before.
    fn km_on_segment(&self, a: Position, b: Position, excused: &Excused, on_land: &mut Option<bool>) -> f64 {
        // Into the range of the polygons, which lie three times side by side.
        let turn = ((a.lon + b.lon) / 720.0).round() * 360.0;
        let (a, b) = (Position::new(a.lon - turn, a.lat), Position::new(b.lon - turn, b.lat));
        let mut cuts: Vec<f64> = cells(a, b).flat_map(|cell| &self.cells[cell]).filter_map(|e| cut(a, b, e)).collect();
        if cuts.is_empty() && *on_land == Some(false) {
            return 0.0;
        }
        cuts.extend([0.0, 1.0]);
        cuts.sort_by(f64::total_cmp);
        let on = |share: f64| Position::new(a.lon + share * (b.lon - a.lon), a.lat + share * (b.lat - a.lat));
        let mut km = 0.0;
        for pair in cuts.windows(2).filter(|pair| pair[1] > pair[0]) {
            let held = self.holds(on(pair[0].midpoint(pair[1])));
            *on_land = Some(held);
            if !held {
                continue;
            }
            let (from, to) = (on(pair[0]), on(pair[1]));
            let length = from.km_to(to);
            let steps = (length / STEP_KM).ceil().max(1.0);
            let open = (0..steps as u32).filter(|i| {
                let share = (f64::from(*i) + 0.5) / steps;
                !excused.holds(on(pair[0] + share * (pair[1] - pair[0])))
            });
            km += open.count() as f64 * length / steps;
        }
        km
    }
}

/// The ring in the plane: longitudes go on instead of jumping, and a ring around a pole is closed over it.
fn flat(ring: &[[f64; 2]]) -> Vec<Position> {
    let mut line: Vec<Position> = ring.iter().map(|[lon, lat]| Position::new(*lon, *lat)).collect();
    super::peers::unroll(&mut line);
    if let (Some(first), Some(last)) = (line.first().copied(), line.last().copied())
        && (first.lon - last.lon).abs() > 180.0
    {
        let pole = 90f64.copysign(first.lat);
        line.extend([Position::new(last.lon, pole), Position::new(first.lon, pole), first]);
    }
    line
}

/// Where on `a`–`b` the edge crosses it, as a share.
fn cut(a: Position, b: Position, e: &Edge) -> Option<f64> {
    let (dx, dy) = (b.lon - a.lon, b.lat - a.lat);
    let (ex, ey) = (e.b.lon - e.a.lon, e.b.lat - e.a.lat);
    let cross = dx * ey - dy * ex;
    if cross == 0.0 {
        return None;
    }
    let (ax, ay) = (e.a.lon - a.lon, e.a.lat - a.lat);
    let along = (ax * ey - ay * ex) / cross;
    let across = (ax * dy - ay * dx) / cross;
    ((0.0..=1.0).contains(&along) && (0.0..=1.0).contains(&across)).then_some(along)
}

impl Excused {
    fn holds(&self, at: Position) -> bool {
        let v = Vector::from(at);
        if self.around.iter().any(|(point, km)| v.chord2((*point).into()) <= chord_of_km(*km).powi(2)) {
            return true;
        }
        self.beside.iter().any(|(line, km)| {
            line.windows(2).any(|pair| {
                let (a, b) = (Vector::from(pair[0]), Vector::from(pair[1]));
                let reach = chord_of_km(*km) + a.chord2(b).sqrt();
                v.chord2(a) <= reach * reach && nearest_on_arc(a, b, v).0 <= *km
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square() -> Land {
        let ring = vec![[170.0, 0.0], [179.0, 0.0], [179.0, 10.0], [170.0, 10.0], [170.0, 0.0]];
        let other = vec![[-179.0, 0.0], [-170.0, 0.0], [-170.0, 10.0], [-179.0, 10.0], [-179.0, 0.0]];
        let across = vec![[179.5, 20.0], [-179.5, 20.0], [-179.5, 21.0], [179.5, 21.0], [179.5, 20.0]];
        let pole = vec![[-180.0, -80.0], [-90.0, -80.0], [0.0, -80.0], [90.0, -80.0], [-180.0, -80.0]];
        Land::new(&[vec![ring], vec![other], vec![across], vec![pole]])
    }

    fn line(points: &[(f64, f64)]) -> Vec<Position> {
        points.iter().map(|(lon, lat)| Position::new(*lon, *lat)).collect()
    }

    #[test]
    fn land_on_a_line_is_measured_across_the_antimeridian_too() {
        let km = square().km_on(&line(&[(178.0, 5.0), (182.0, 5.0)]), &Excused::default());
        let want = 2.0 * Position::new(178.0, 5.0).km_to(Position::new(179.0, 5.0));
        assert!((km - want).abs() < 0.1, "{km}, not {want}");
        assert_eq!(square().km_on(&line(&[(179.5, -20.0), (180.5, 20.0)]), &Excused::default()), 0.0);
    }

    #[test]
    fn rings_across_the_antimeridian_and_around_a_pole_hold_what_is_inside() {
        let rows = [(179.8, 20.5, true), (-179.8, 20.5, true), (0.0, 20.5, false), (-179.0, 20.5, false)];
        let pole = [(33.0, -85.0, true), (179.9, -89.0, true), (-120.0, -79.0, false)];
        for (lon, lat, holds) in rows.into_iter().chain(pole) {
            assert_eq!(square().holds(Position::new(lon, lat)), holds, "{lon} {lat}");
        }
    }

    #[test]
    fn land_near_a_point_or_a_line_is_excused() {
        let way = line(&[(169.0, 5.0), (171.0, 5.0)]);
        let land = square();
        let around = Excused { around: vec![(Position::new(171.0, 5.0), 60.0)], ..Excused::default() };
        assert!((land.km_on(&way, &around) - (110.77 - 60.0)).abs() < 0.3);
        let beside = Excused { beside: vec![(way.clone(), 3.0)], ..Excused::default() };
        assert_eq!(land.km_on(&way, &beside), 0.0);
    }
}
