#![allow(missing_docs)]
use arioso_voyage::build::{self, Recipe, simplify::Tolerance, sights::Sight};
use std::time::Instant;
fn main() {
    let arg = |i: usize| std::env::args().nth(i).unwrap();
    let t = Instant::now();
    let r = Recipe { land: vec![arg(1).into()], tolerance: Tolerance { km: arg(2).parse().unwrap(), polar_km: arg(3).parse().unwrap(), clear_km: 0.3 }, slack: arg(4).parse().unwrap(), passages: build::PASSAGES.to_owned() };
    let cache = format!("/tmp/sights_{}_{}.bin", arg(2), arg(3));
    let mut told = |s: &str| println!("{:?} {s}", t.elapsed());
    let mut seen = build::prepare(&r, &mut told).unwrap();
    if let Ok(b) = std::fs::read(&cache) {
        seen.sights = b.chunks(12).map(|c| Sight { from: u32::from_le_bytes(c[0..4].try_into().unwrap()), to: u32::from_le_bytes(c[4..8].try_into().unwrap()), km: f32::from_le_bytes(c[8..12].try_into().unwrap()) }).collect();
    } else {
        build::look(&mut seen, &mut told);
        let mut b = vec![];
        for s in &seen.sights { b.extend(s.from.to_le_bytes()); b.extend(s.to.to_le_bytes()); b.extend(s.km.to_le_bytes()); }
        std::fs::write(&cache, b).unwrap();
    }
    let c = build::finish(seen, r.slack, &mut told);
    let b = arioso_voyage::sea::file::write(&c, 19).unwrap();
    println!("{} bytes {:?}", b.len(), t.elapsed());
    std::fs::write(arg(5), &b).unwrap();
    let t = Instant::now();
    let n = arioso_voyage::sea::file::read(&b).unwrap();
    println!("read {:?}: {} nodes {} ups", t.elapsed(), n.at.len(), n.ups.len());
}
