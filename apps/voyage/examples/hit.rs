#![allow(missing_docs)]
use arioso_voyage::{build::land, check::land::{Excused, Land}, sea::{file, router::Router, sphere::Position}};
fn main() {
    let b = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let r = Router::new(file::read(&b).unwrap(), 1 << 26);
    let land = Land::new(&land::polygons("/work/shared/data/sea/land_10m.geojson.zst".as_ref()).unwrap());
    for a in std::env::args().skip(2) {
        let p: Vec<Position> = a.split('/').map(|p| { let (x, y) = p.split_once(',').unwrap(); Position::new(x.parse().unwrap(), y.parse().unwrap()) }).collect();
        let x = r.route(p[0], p[1], &r.options()).unwrap();
        let pts = x.points();
        let ex = Excused { around: vec![(p[0], 15.0), (p[1], 15.0)], beside: vec![] };
        for w in pts.windows(2) {
            let km = land.km_on(w, &ex);
            if km > 0.0 { println!("{:?} {:?} {km}", w[0], w[1]); }
        }
    }
}
