//! The order in which a query climbs: nodes are taken out one by one, the least important first, and
//! what led through a node over two others gets a shortcut between these.
//!
//! A shortcut is left out if another way is as short. Portals take no part: a query may close them, so no
//! shortcut leads over one and none is left out because of one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most nodes that a search for another way settles; beyond it a shortcut is made that may not be needed.
const WITNESS_SETTLED_MAX: usize = 600;

/// The same while only the priority of a node is judged.
const JUDGE_SETTLED_MAX: usize = 60;

/// The result.
#[derive(Debug, Default)]
pub struct Contraction {
    /// Nodes in the order in which they were taken out, then the portals in the order given.
    pub order: Vec<u32>,
    /// The shortcuts that each node but portals, by its place in the order, left between its remaining
    /// neighbours.
    pub shortcuts: Vec<Vec<(u32, u32)>>,
}

struct Graph {
    near: Vec<Vec<(u32, f32)>>,
    depth: Vec<u32>,
    best: Vec<f32>,
    touched: Vec<u32>,
    heap: BinaryHeap<(Reverse<u32>, u32)>,
}

/// Takes all nodes of `near` (neighbours and kilometres of each) out; `portals` are not there.
pub fn contract(near: &[Vec<(u32, f32)>], portals: &[u32], mut told: impl FnMut(usize, usize, usize)) -> Contraction {
    let count = near.len();
    let mut graph = Graph {
        near: near.to_vec(),
        depth: vec![0; count],
        best: vec![f32::MAX; count],
        touched: Vec::new(),
        heap: BinaryHeap::new(),
    };
    let mut is_portal = vec![false; count];
    portals.iter().for_each(|portal| is_portal[*portal as usize] = true);
    for (v, near) in graph.near.iter_mut().enumerate() {
        near.retain(|(w, _)| !is_portal[v] && !is_portal[*w as usize]);
    }
    let mut out = Contraction::default();
    let mut queue: BinaryHeap<(Reverse<i64>, u32)> = BinaryHeap::new();
    for v in (0..count as u32).filter(|v| !is_portal[*v as usize]) {
        queue.push((Reverse(graph.judge(v)), v));
    }
    while let Some((Reverse(priority), v)) = queue.pop() {
        let now = graph.judge(v);
        if now > priority && queue.peek().is_some_and(|(Reverse(next), _)| now > *next) {
            queue.push((Reverse(now), v));
            continue;
        }
        let shortcuts = graph.shortcuts(v, WITNESS_SETTLED_MAX);
        let neighbours = std::mem::take(&mut graph.near[v as usize]);
        for (w, _) in &neighbours {
            graph.near[*w as usize].retain(|(u, _)| *u != v);
            let depth = graph.depth[v as usize] + 1;
            graph.depth[*w as usize] = graph.depth[*w as usize].max(depth);
        }
        for (a, b, km) in &shortcuts {
            graph.put(*a, *b, *km);
            graph.put(*b, *a, *km);
        }
        out.order.push(v);
        out.shortcuts.push(shortcuts.into_iter().map(|(a, b, _)| (a, b)).collect());
        if out.order.len() % 1000 == 0 {
            told(out.order.len(), count, neighbours.len());
        }
    }
    out.order.extend_from_slice(portals);
    out
}

impl Graph {
    fn put(&mut self, a: u32, b: u32, km: f32) {
        let near = &mut self.near[a as usize];
        match near.iter_mut().find(|(w, _)| *w == b) {
            Some(known) => known.1 = km,
            None => near.push((b, km)),
        }
    }

    /// The lower, the earlier a node goes.
    fn judge(&mut self, v: u32) -> i64 {
        let shortcuts = self.shortcuts(v, JUDGE_SETTLED_MAX).len() as i64;
        let ways = self.near[v as usize].len() as i64;
        4 * (shortcuts - ways) + 2 * i64::from(self.depth[v as usize]) + ways
    }

    fn shortcuts(&mut self, v: u32, settled_max: usize) -> Vec<(u32, u32, f32)> {
        let mut near = self.near[v as usize].clone();
        near.sort_unstable_by_key(|(w, _)| *w);
        let mut found = Vec::new();
        for (i, (a, to_a)) in near.iter().enumerate() {
            let later = &near[i + 1..];
            let Some(farthest) = later.iter().map(|(_, km)| *km).max_by(f32::total_cmp) else { break };
            self.search(*a, v, to_a + farthest, settled_max);
            for (b, to_b) in later {
                let km = to_a + to_b;
                if self.best[*b as usize] > km * 1.000_001 {
                    found.push((*a, *b, km));
                }
            }
        }
        found
    }

    /// Distances from `a` without `v`, as far as `limit`.
    fn search(&mut self, a: u32, v: u32, limit: f32, settled_max: usize) {
        for w in self.touched.drain(..) {
            self.best[w as usize] = f32::MAX;
        }
        self.heap.clear();
        self.best[a as usize] = 0.0;
        self.touched.push(a);
        self.heap.push((Reverse(0), a));
        let mut settled = 0;
        while let Some((Reverse(key), u)) = self.heap.pop() {
            let here = f32::from_bits(key);
            if here > self.best[u as usize] {
                continue;
            }
            settled += 1;
            if here > limit || settled > settled_max {
                break;
            }
            for (w, km) in &self.near[u as usize] {
                let there = here + km;
                if *w != v && there < self.best[*w as usize] && there <= limit {
                    self.best[*w as usize] = there;
                    self.touched.push(*w);
                    self.heap.push((Reverse(there.to_bits()), *w));
                }
            }
        }
    }
}
