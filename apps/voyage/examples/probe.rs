#![allow(missing_docs)]
use arioso_voyage::sea::{file, router::Router};
use std::time::Instant;
fn main() {
    let b = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let t = Instant::now();
    let n = file::read(&b).unwrap();
    println!("read {:?}: {} nodes {} ups {} arcs", t.elapsed(), n.at.len(), n.ups.len(), n.barrier.arcs().len());
    let r = Router::new(n, 1 << 26);
    let rep = arioso_voyage::check::check(&r, "/work/shared/data/sea".as_ref(), &mut |_| ()).unwrap();
    println!("{}", rep.text);
    let (mut c, mut a, mut b) = (0, 0, 0);
    for (at, _) in (0..2000).map(|i| (arioso_voyage::sea::sphere::Position::new((i * 37 % 360) as f64 - 180.0, (i * 13 % 120) as f64 - 55.0), 0)) {
        if let Ok(p) = r.place(at, &r.options()) { c += 1; a += p.climb.nodes.len(); b += p.climb.linked.len(); }
    }
    println!("climbs of {c}: {} nodes {} portals", a / c, b / c);
}
