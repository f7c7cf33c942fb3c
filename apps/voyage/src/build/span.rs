//! Fewer ways that are nearly as short.
//!
//! Shortest first, a way is kept only if the ways kept so far do not lead from one of its ends to the
//! other at a length of `1 + slack` times its own. So the distance between any two nodes is at most
//! `1 + slack` times the true one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::sights::{Node, Sight};

/// The ways kept, by node.
#[derive(Debug, Default)]
pub struct Span {
    /// Neighbours of each node: number, kilometres.
    pub near: Vec<Vec<(u32, f32)>>,
    best: Vec<f32>,
    touched: Vec<u32>,
    heap: BinaryHeap<(Reverse<u32>, u32)>,
}

/// Keeps of `sights`, sorted by length, what is needed.
#[must_use]
pub fn span(nodes: &[Node], fixed: &[Sight], sights: &[Sight], slack: f32) -> Span {
    let mut span = Span {
        near: vec![Vec::new(); nodes.len()],
        best: vec![f32::MAX; nodes.len()],
        touched: Vec::new(),
        heap: BinaryHeap::new(),
    };
    for sight in fixed {
        span.keep(sight);
    }
    for sight in sights {
        if !span.leads(nodes, sight, sight.km * (1.0 + slack)) {
            span.keep(sight);
        }
    }
    span
}

impl Span {
    fn keep(&mut self, sight: &Sight) {
        self.near[sight.from as usize].push((sight.to, sight.km));
        self.near[sight.to as usize].push((sight.from, sight.km));
    }

    /// Whether the ways kept lead along `sight` within `limit` kilometres: a search from one end that
    /// leaves out what cannot reach the other in time.
    fn leads(&mut self, nodes: &[Node], sight: &Sight, limit: f32) -> bool {
        let target = nodes[sight.to as usize].at;
        self.heap.clear();
        for v in self.touched.drain(..) {
            self.best[v as usize] = f32::MAX;
        }
        self.best[sight.from as usize] = 0.0;
        self.touched.push(sight.from);
        self.heap.push((Reverse(0), sight.from));
        while let Some((_, v)) = self.heap.pop() {
            let here = self.best[v as usize];
            for (w, km) in &self.near[v as usize] {
                let there = here + km;
                if there >= self.best[*w as usize] || there > limit {
                    continue;
                }
                let left = nodes[*w as usize].at.km_to(target) as f32;
                if there + left > limit {
                    continue;
                }
                if *w == sight.to {
                    return true;
                }
                self.best[*w as usize] = there;
                self.touched.push(*w);
                self.heap.push((Reverse((there + left).to_bits()), *w));
            }
        }
        false
    }
}
