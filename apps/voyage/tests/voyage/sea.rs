//! The path finder: on a small world of its own, and on the oceans that belong to the crate.

use std::sync::LazyLock;

use arioso_voyage::answer;
use arioso_voyage::build::{self, Recipe, simplify::Tolerance};
use arioso_voyage::check::land::{Excused, Land};
use arioso_voyage::check::{self, peers};
use arioso_voyage::error::Error;
use arioso_voyage::sea::network::Network;
use arioso_voyage::sea::router::{Options, Router, Voyage};
use arioso_voyage::sea::sphere::Position;
use arioso_voyage::sea::{self, file};
use proptest::prelude::*;

use crate::shared::shared;

fn at(lon: f64, lat: f64) -> Position {
    Position::new(lon, lat)
}

/// Two islands a strait apart, the northern one cut by a canal; a third one across the antimeridian, a fourth
/// between.
const LAND: &str = r#"{"type": "FeatureCollection", "features": [
 {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates":
   [[[0, 0.2], [8, 0.2], [8, 6], [4.5, 6], [4.2, 3], [3.8, 3], [3.5, 6], [0, 6], [0, 0.2]]]}},
 {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates":
   [[[0, -6], [8, -6], [8, -0.2], [0, -0.2], [0, -6]]]}},
 {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates":
   [[[179, -5], [-179, -5], [-179, 5], [179, 5], [179, -5]]]}},
 {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates":
   [[[90, 0], [91, 0], [91, 1], [90, 1], [90, 0]]]}}
]}"#;

const PASSAGES: &str = r#"
[[strait]]
name = "narrows"
across = [[2.0, 1.0], [2.0, -1.0]]
[[canal]]
name = "cut"
along = [[4.0, 3.2], [4.0, 2.0], [4.0, 0.1]]
[[clearance]]
name = "off-the-east"
line = [[7.5, 4.0], [9.5, 4.0]]
[[river]]
name = "stream"
along = [[8.2, -3.0], [6.0, -3.0]]
"#;

fn contents(passages: &str) -> file::Contents {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("land.geojson");
    std::fs::write(&path, LAND).expect("a file");
    let recipe = Recipe {
        land: vec![path],
        tolerance: Tolerance { km: 2.0, polar_km: 2.0, clear_km: 0.3 },
        passages: passages.to_owned(),
        slack: 0.01,
    };
    build::build(&recipe, &|_| ()).expect("a network")
}

fn small_world() -> Network {
    file::read(&file::write(&contents(PASSAGES), file::FAST).expect("packed")).expect("read back")
}

static SMALL: LazyLock<Router> = LazyLock::new(|| Router::new(small_world(), 1 << 20));
static OCEANS: LazyLock<Router> =
    LazyLock::new(|| Router::new(sea::oceans().expect("the network of this crate"), 1 << 24));

fn names(router: &Router, passages: &[u32]) -> Vec<String> {
    passages.iter().map(|n| router.network().passages[*n as usize].name.clone()).collect()
}

/// Kilometres and passages from `a` to `b`.
fn ask(router: &Router, a: Position, b: Position, avoid: &[&str]) -> (f64, Vec<String>) {
    let options = router.options_with(avoid.iter().copied(), []).expect("passages");
    let route = router.route(a, b, &options).expect("a route");
    (route.km, names(router, &route.passages))
}

#[test]
fn the_way_leads_through_a_strait_unless_it_is_avoided() {
    let (west, east) = (at(-1.0, 0.0), at(9.0, 0.0));
    let (through, passages) = ask(&SMALL, west, east, &[]);
    assert_eq!(passages, ["narrows"]);
    assert!((through / west.km_to(east) - 1.0).abs() < 0.001, "{through}");
    let (around, passages) = ask(&SMALL, west, east, &["narrows"]);
    assert!(passages.is_empty() && around > 1.6 * through, "{around} {passages:?}");
}

#[test]
fn a_canal_leads_through_land_unless_it_is_avoided() {
    let (bay, strait) = (at(4.0, 4.0), at(4.5, 0.0));
    let (through, passages) = ask(&SMALL, bay, strait, &[]);
    assert_eq!(passages, ["cut"]);
    let (around, _) = ask(&SMALL, bay, strait, &["cut"]);
    assert!(around > 2.0 * through, "{around} {through}");
}

#[test]
fn a_clearance_is_gone_around_and_no_farther_than_its_end() {
    let (south, end, north) = (at(8.5, 2.0), at(9.5, 4.0), at(8.5, 6.0));
    let (km, passages) = ask(&SMALL, south, north, &[]);
    let want = south.km_to(end) + end.km_to(north);
    assert!(passages.is_empty() && km > want && km < want + 5.0, "{km}, not {want}");
}

#[test]
fn a_way_across_the_antimeridian_goes_round_the_island_that_lies_on_it() {
    let router = &*SMALL;
    let route = router.route(at(178.0, 0.0), at(-178.0, 0.0), &router.options()).unwrap();
    assert!((route.km / 1357.0 - 1.0).abs() < 0.01, "{}", route.km);
    let points = route.points();
    assert!(points.windows(2).all(|p| (p[0].lon - p[1].lon).abs() < 90.0), "no jump in {points:?}");
}

#[test]
fn a_port_on_land_is_put_to_sea_and_the_distance_is_told() {
    let router = &*SMALL;
    let route = router.route(at(7.9, 1.0), at(12.0, 1.0), &router.options()).unwrap();
    assert!((10.0..14.0).contains(&route.snap_km[0]), "{:?}", route.snap_km);
    assert!(route.snap_km[1].abs() < f64::EPSILON);
    assert!((route.km - at(7.9, 1.0).km_to(at(12.0, 1.0))).abs() < 2.0);
}

#[test]
fn a_port_by_a_river_begins_there_and_one_far_from_water_is_refused() {
    let router = &*SMALL;
    let route = router.route(at(6.0, -3.02), at(12.0, -3.0), &router.options()).unwrap();
    assert!(route.snap_km[0] < 5.0, "{:?}", route.snap_km);
    let refused = router.route(at(4.0, -3.0), at(12.0, -3.0), &router.options());
    assert!(matches!(refused, Err(Error::Inland { km, .. }) if km > 200.0), "{refused:?}");
}

#[test]
fn names_of_passages_are_checked() {
    let wrong = SMALL.options_with(["suez"], []).unwrap_err().to_string();
    assert_eq!(wrong, "no passage is called \"suez\"; there are cut, narrows");
    assert!(SMALL.options_with(["stream"], []).is_err(), "a river cannot be avoided");
}

#[test]
fn a_canal_whose_end_is_on_land_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("land.geojson");
    std::fs::write(&path, LAND).unwrap();
    let recipe = Recipe {
        land: vec![path],
        tolerance: Tolerance { km: 2.0, polar_km: 2.0, clear_km: 0.3 },
        passages: "[[canal]]\nname = \"dry\"\nalong = [[4.0, 2.0], [4.0, 0.0]]\n".to_owned(),
        slack: 0.01,
    };
    let error = build::build(&recipe, &|_| ()).unwrap_err().to_string();
    assert_eq!(error, "list of passages: an end of \"dry\" is not in the sea: 4.000,2.000");
}

#[test]
fn the_same_land_makes_the_same_file() {
    let pack = || file::write(&contents(PASSAGES), file::SMALL).unwrap();
    assert!(pack() == pack());
}

#[test]
fn a_voyage_is_feasible_if_the_ship_can_be_there_in_time() {
    let router = &*SMALL;
    let voyage = |hours: f64, max_knots: f64| Voyage {
        position: at(-1.0, 3.0),
        time: 1e9,
        destination: at(9.0, 3.0),
        arrival: 1e9 + hours * 3600.0,
        max_knots,
    };
    let judge = |voyage| router.feasible(&voyage, &router.options()).unwrap();
    // 600 nautical miles as the crow flies, 705 by sea
    let slow = judge(voyage(50.0, 10.0));
    assert!(!slow.feasible && slow.by_great_circle && slow.margin < 0.0);
    let around = judge(voyage(65.0, 10.0));
    assert!(!around.feasible && !around.by_great_circle, "{around:?}");
    let in_time = judge(voyage(90.0, 10.0));
    assert!(in_time.feasible && in_time.margin > 0.0);
    assert!((in_time.earliest_arrival + in_time.margin - (1e9 + 90.0 * 3600.0)).abs() < 1e-3);
    assert!(router.feasible(&voyage(90.0, 0.0), &router.options()).is_err());
}

#[test]
fn a_line_is_answered_with_what_it_holds_and_the_route_or_an_error() {
    let options = SMALL.options();
    let line = |text: &str| answer::line(&SMALL, &options, None, text.as_bytes());
    let good = line(r#"{"id": 7, "from": {"lon": -1, "lat": 0}, "to": {"lon": 9, "lat": 0}}"#);
    assert_eq!((&good["id"], &good["passages"][0]), (&7.into(), &"narrows".into()));
    assert!(good["km"].as_f64().unwrap() > 1100.0 && good["points"].as_array().unwrap().len() > 1);
    let half = line(r#"{"from": {"lon": -1, "lat": 0}}"#);
    assert_eq!(half["error"], "\"to\" must be {\"lon\": …, \"lat\": …} in degrees");
    assert!(line("nonsense")["error"].is_string() && line("[1]")["error"].is_string());
}

#[test]
fn lines_of_others_are_a_network_whose_passages_can_be_avoided() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines.geojson");
    let lines = r#"{"type": "FeatureCollection", "features": [
      {"type": "Feature", "properties": {"passage": "short"}, "geometry": {"type": "LineString", "coordinates": [[170, 0], [190, 0]]}},
      {"type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": [[170, 0], [180, 10], [-170, 0]]}}
    ]}"#;
    std::fs::write(&path, lines).unwrap();
    let router = Router::new(sea::open(&path).unwrap(), 1 << 20);
    let (west, east) = (at(169.9, 0.0), at(-169.9, 0.0));
    let (km, passages) = ask(&router, west, east, &[]);
    assert!((km - west.km_to(east)).abs() < 0.1 && passages == ["short"], "{km} {passages:?}");
    let (around, _) = ask(&router, west, east, &["short"]);
    assert!(around > 1.3 * km, "{around}");
}

#[test]
fn oceans_know_the_great_canals_and_capes() {
    let (rotterdam, singapore) = (at(4.05, 51.98), at(103.85, 1.20));
    let (suez, passages) = ask(&OCEANS, rotterdam, singapore, &[]);
    assert!(passages.contains(&"suez".to_owned()) && passages.contains(&"gibraltar".to_owned()), "{passages:?}");
    assert!((15_000.0..15_700.0).contains(&suez), "{suez}");
    let (cape, passages) = ask(&OCEANS, rotterdam, singapore, &["suez"]);
    assert!(!passages.contains(&"suez".to_owned()) && (21_000.0..22_500.0).contains(&cape), "{cape} {passages:?}");
    let (panama, passages) = ask(&OCEANS, at(-74.0, 40.4), at(-118.2, 33.6), &[]);
    assert!(passages == ["panama"] && (8_800.0..9_300.0).contains(&panama), "{panama} {passages:?}");
}

#[test]
fn all_shared_pairs_of_ports_are_joined_by_routes_that_keep_off_land() {
    let Some(dir) = shared("sea") else { return };
    let land = Land::new(&build::land::polygons(&dir.join("land_10m.geojson.zst")).unwrap());
    let pairs: Vec<peers::Pair> = peers::lines(&dir.join("distances_peer.jsonl.zst")).unwrap();
    assert_eq!(pairs.len(), 200);
    let options = OCEANS.options();
    for pair in &pairs {
        let (from, to) = (pair.from.at, pair.to.at);
        let route = OCEANS.route(from, to, &options).unwrap();
        let km = land.km_on(&route.points(), &check::excused(OCEANS.network(), from, to));
        assert!(km == 0.0, "{} {} - {}: {km} km on land", pair.id, pair.from.name, pair.to.name);
        assert!(route.km >= pair.gc_km * 0.999, "{}: shorter than the great circle", pair.id);
    }
}

#[test]
fn a_route_is_the_same_from_a_shared_cache_and_from_many_threads() {
    let ends = [(at(4.05, 51.98), at(139.7, 35.4)), (at(-43.1, -23.0), at(18.4, -33.9))];
    let ask = || ends.map(|(a, b)| OCEANS.route(a, b, &OCEANS.options()).unwrap().km);
    let first = ask();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), first));
    });
}

#[test]
fn a_damaged_file_is_refused_and_never_panics() {
    let good = file::write(&contents(PASSAGES), file::FAST).unwrap();
    assert!(file::read(&good).is_ok());
    assert!(file::read(b"AVOYSEA2").is_err() && file::read(&good[..good.len() - 3]).is_err());
    for at in (8..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        assert!(file::read(&bad).is_err(), "byte {at}");
    }
}

/// The small world's land, asked in degrees.
static SMALL_LAND: LazyLock<Land> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("land.geojson");
    std::fs::write(&path, LAND).expect("a file");
    Land::new(&build::land::polygons(&path).expect("polygons"))
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_way_crosses_land_and_none_is_shorter_than_the_great_circle(
        a in (-12.0..20.0f64, -12.0..12.0f64), b in (-12.0..20.0f64, -12.0..12.0f64)
    ) {
        let (a, b) = (at(a.0, a.1), at(b.0, b.1));
        let router = &*SMALL;
        let options = Options { snap_km_max: 20.0, ..router.options() };
        let Ok(route) = router.route(a, b, &options) else {
            // only from inside the islands
            prop_assert!(SMALL_LAND.holds(a) || SMALL_LAND.holds(b));
            return Ok(());
        };
        let beside = router.network().passages.iter().map(|p| (p.line.clone(), 3.0)).collect();
        let excused = Excused { around: vec![(a, 21.0), (b, 21.0)], beside };
        let on_land = SMALL_LAND.km_on(&route.points(), &excused);
        prop_assert_eq!(on_land, 0.0);
        prop_assert!(route.km >= a.km_to(b) * 0.999_999);
        let back = router.route(b, a, &options).unwrap();
        prop_assert!((back.km / route.km - 1.0).abs() < 0.02, "{} {}", route.km, back.km);
    }
}
