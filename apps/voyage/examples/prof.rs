#![allow(missing_docs)]
use arioso_voyage::sea::{climb::Climb, coast, file, nearby::Found, place::Place, router::Router, sphere::{Vector, chord_of_km}};
fn cpu() -> f64 { std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3 }
fn main() {
    let b = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let t = cpu();
    let n = file::read(&b).unwrap();
    println!("read {:.0} us", cpu() - t);
    let r = Router::new(n, 1 << 26);
    let n = r.network();
    let pairs: Vec<arioso_voyage::check::peers::Pair> = arioso_voyage::check::peers::lines("/work/shared/data/sea/distances_peer.jsonl.zst".as_ref()).unwrap();
    let pos: Vec<_> = pairs.iter().flat_map(|p| [p.from.at, p.to.at]).collect();
    let k = pos.len() as f64 * 10.0;
    let vs: Vec<Vector> = pos.iter().map(|p| (*p).into()).collect();
    let run = |name: &str, f: &mut dyn FnMut(usize)| { let t = cpu(); for _ in 0..10 { for i in 0..vs.len() { f(i); } } println!("{name}: {:.2} us", (cpu() - t) / k); };
    let mut land = 0;
    run("shore", &mut |i| { if coast::shore(&n.barrier, vs[i], 30.0).is_some_and(|s| s.on_land) { land += 1; } });
    println!("on land {}", land as f64 / k);
    let mut f = Found::default();
    run("inland 1", &mut |i| n.inland.nearest(vs[i], 1, chord_of_km(10.0), &mut f));
    run("open 24", &mut |i| n.open.nearest(vs[i], 24, chord_of_km(13000.0), &mut f));
    run("open 400", &mut |i| n.open.nearest(vs[i], 400, chord_of_km(13000.0), &mut f));
    let mut near = vec![]; for v in &vs { n.open.nearest(*v, 24, 2.0, &mut f); near.push(f.points.clone()); }
    run("crosses of 24", &mut |i| { for (_, q) in &near[i] { std::hint::black_box(n.barrier.crosses(vs[i], n.at[*q as usize], |_| true)); } });
    run("climb of 8", &mut |i| { let l: Vec<(u32, f32)> = near[i].iter().take(8).map(|(_, q)| (*q, 1.0)).collect(); std::hint::black_box(Climb::new(n, &l)); });
    run("climb of 1", &mut |i| { let l: Vec<(u32, f32)> = near[i].iter().take(1).map(|(_, q)| (*q, 1.0)).collect(); std::hint::black_box(Climb::new(n, &l)); });
    run("place", &mut |i| { std::hint::black_box(Place::new(n, pos[i], 30.0).ok()); });
    let places: Vec<_> = pos.iter().map(|p| Place::new(n, *p, 30.0).unwrap()).collect();
    let o = r.options();
    run("meet", &mut |i| { std::hint::black_box(places[i].climb.meet(&places[i ^ 1].climb)); });
    run("route", &mut |i| { std::hint::black_box(r.route_between(&places[i], &places[i ^ 1], &o).ok()); });
    run("crosses direct", &mut |i| { std::hint::black_box(n.barrier.crosses(places[i].at, places[i ^ 1].at, |_| true)); });
    let mut legs = vec![]; for i in 0..vs.len() { if let Ok(x) = r.route_between(&places[i], &places[i ^ 1], &o) { legs.push(x.turns.clone()); } }
    let c: usize = legs.iter().map(|l| l.len() - 1).sum();
    let t = cpu(); for l in &legs { for w in l.windows(2) { std::hint::black_box(n.barrier.crosses(w[0], w[1], |_| true)); } }
    println!("leg crosses {:.2} us each of {:.1} a route", (cpu() - t) / c as f64, c as f64 / legs.len() as f64);
    println!("nodes {:.0} portals {:.0}", places.iter().map(|p| p.climb.nodes.len()).sum::<usize>() as f64 / k * 10.0, places.iter().map(|p| p.climb.linked.len()).sum::<usize>() as f64 / k * 10.0);
}
