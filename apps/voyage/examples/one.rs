#![allow(missing_docs)]
use arioso_voyage::sea::{file, router::Router, sphere::Position};
use std::time::Instant;
fn main() {
    let b = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let n = file::read(&b).unwrap();
    let r = Router::new(n, 1 << 26);
    let pairs: Vec<arioso_voyage::check::peers::Pair> = arioso_voyage::check::peers::lines("/work/shared/data/sea/distances_peer.jsonl.zst".as_ref()).unwrap();
    let o = r.options();
    for p in &pairs {
        let t = Instant::now();
        let (a, b) = (r.place(p.from.at, &o), r.place(p.to.at, &o));
        let t1 = t.elapsed();
        let (a, b) = match (a, b) { (Ok(a), Ok(b)) => (a, b), (a, b) => { println!("{} {} - {}: {:?} {:?}", p.id, p.from.name, p.to.name, a.err().map(|e| e.to_string()), b.err().map(|e| e.to_string())); continue; } };
        let t = Instant::now();
        match r.route_between(&a, &b, &o) {
            Ok(x) => println!("{} {} - {}: {:.0} km (sr {:.0}) {} turns, {:?} {:?}; climbs {} {} {:?}", p.id, p.from.name, p.to.name, x.km, p.searoute.km_with_legs.unwrap_or(0.0), x.turns.len(), t1, t.elapsed(), a.climb.nodes.len(), b.climb.nodes.len(), x.snap_km),
            Err(e) => println!("{} {} - {}: {e}", p.id, p.from.name, p.to.name),
        }
    }
    let _ = Position::new(0.0, 0.0);
}
