//! scratch
use arioso_stream::tip::Runs;
use arioso_stream::tip::merge::{MergeField, merges};
use std::time::Instant;
fn main() {
    let a: Vec<f64> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let (nodes, pct) = (a[0] as u32, a[1]);
    let mut seed = 1u64;
    let mut next = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1442695040888963407);
        seed >> 33
    };
    let order: Vec<u32> = (0..1_000_000)
        .map(|_| {
            if (next() % 1_000_000) as f64 / 10_000.0 < pct {
                (next() % u64::from(nodes)) as u32
            } else {
                nodes + (next() % 1000) as u32
            }
        })
        .collect();
    let field = MergeField::new(order.into_iter(), nodes);
    let mut ways = merges();
    for w in if a.len() > 3 {
        vec![a[3] as usize]
    } else {
        vec![0, 3, ways.len() - 1]
    } {
        let (mut b1, mut b2) = (u128::MAX, u128::MAX);
        for _ in 0..(a.get(2).copied().unwrap_or(30.0) as u32) {
            let s = field.seated();
            let t = Instant::now();
            ways[w].begin(&field, s);
            let t1 = t.elapsed().as_nanos();
            let mut runs = Runs::default();
            let t = Instant::now();
            loop {
                runs.clear();
                if !ways[w].slice(&field, 1300, &mut runs) {
                    break;
                }
            }
            let t2 = t.elapsed().as_nanos();
            if t1 + t2 < b1.saturating_add(b2) {
                b1 = t1;
                b2 = t2;
            }
        }
        let n = field.selected() as f64;
        println!(
            "{:<36} begin {:6.1} slices {:6.1}",
            ways[w].name(),
            b1 as f64 / n,
            b2 as f64 / n
        );
    }
}
