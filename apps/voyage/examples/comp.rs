#![allow(missing_docs)]
use arioso_voyage::sea::{file, router::Router, sphere::{Position}};
fn main() {
    let b = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let n = file::read(&b).unwrap();
    let c = n.at.len();
    let mut id: Vec<usize> = (0..c).collect();
    fn root(id: &mut [usize], mut v: usize) -> usize { while id[v] != v { id[v] = id[id[v]]; v = id[v]; } v }
    for v in 0..c { for u in n.up(v as u32) { let (a, b) = (root(&mut id, v), root(&mut id, u.to as usize)); id[a] = b; } }
    let mut sizes = std::collections::HashMap::new();
    for v in 0..c { *sizes.entry(root(&mut id, v)).or_insert(0) += 1; }
    let mut s: Vec<(i32, usize)> = sizes.iter().map(|(r, k)| (*k, *r)).collect();
    s.sort(); s.reverse();
    println!("{} components; {:?}", s.len(), s.iter().take(40).map(|x| x.0).collect::<Vec<_>>());
    for (k, r) in s.iter().take(12) { let p = Position::from(n.at[*r]); println!("{k} {:.3},{:.3}", p.lon, p.lat); }
    let mut lat = [0; 18];
    for v in &n.at { lat[((Position::from(*v).lat + 90.0) / 10.0) as usize] += 1; }
    println!("by latitude {lat:?}");
    let r = Router::new(n, 1 << 26);
    let mut out = vec![];
    for a in std::env::args().skip(2) {
        let p: Vec<Position> = a.split('/').map(|p| { let (x, y) = p.split_once(',').unwrap(); Position::new(x.parse().unwrap(), y.parse().unwrap()) }).collect();
        match r.route(p[0], p[1], &r.options()) {
            Ok(x) => { println!("{a}: {:.0} km {:.0} nm {:?} {:?}", x.km, x.nm(), x.passages.iter().map(|p| &r.network().passages[*p as usize].name).collect::<Vec<_>>(), x.snap_km);
              out.push(x.points().iter().map(|p| [p.lon, p.lat]).collect::<Vec<_>>()); }
            Err(e) => println!("{e}"),
        }
    }
    std::fs::write("/tmp/routes.json", serde_json::to_string(&out).unwrap()).unwrap();
}
