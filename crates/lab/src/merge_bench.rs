//! `arioso bench merge`: the ways to bring the entries of many index nodes into one order, against the standard heap.
//!
//! Every row does the same work: from the selected nodes' first entries on take all their slots in order, slice by slice,
//! stopping after each slice and going on. One digest over all slots must come out of every row. Times are processor
//! time of the thread, the clock's own share included (one reading a slice); what counts is the ratio to the first row
//! of the same case. Finding the nodes' first entries is the same for all and not counted.

use std::io::{self, Write};
use std::time::Duration;

use arioso_stream::tip::Runs;
use arioso_stream::tip::merge::{Merge, MergeField, merges};
use clap::ValueEnum;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::processor_time;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Messages in the index.
    #[arg(long, default_value_t = 1_000_000)]
    pub messages: u32,
    /// Selected index nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000, 10_000])]
    pub nodes: Vec<u32>,
    /// Percent of the messages that lie in selected nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 1.0, 10.0])]
    pub selectivity: Vec<f64>,
    /// How nodes follow each other.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Interleaving::Random, Interleaving::Bursty, Interleaving::Runs])]
    pub interleaving: Vec<Interleaving>,
    /// Messages in a slice.
    #[arg(long, value_delimiter = ',', default_values_t = [1_300])]
    pub slice: Vec<u64>,
    /// Nodes that are not selected.
    #[arg(long, default_value_t = 1_000)]
    pub other_nodes: u32,
    /// Only ways whose name has this in it, and the standard heap.
    #[arg(long, default_value = "")]
    pub way: String,
    /// Each row is the best of so many runs, of up to twenty times as many where few messages are selected.
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Seed of the random order.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Args {
    /// Small enough to run with the tests.
    pub fn small() -> Args {
        Args {
            messages: 20_000,
            nodes: vec![3, 500],
            selectivity: vec![1.0, 50.0],
            interleaving: vec![Interleaving::Random, Interleaving::Runs],
            slice: vec![100],
            other_nodes: 10,
            way: String::new(),
            rounds: 1,
            seed: 1,
        }
    }
}

/// How messages of different nodes follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Interleaving {
    /// Each message's node is drawn anew.
    Random,
    /// A node goes on for 16 messages in the mean.
    Bursty,
    /// A node goes on for 256 messages in the mean.
    Runs,
}

impl Interleaving {
    fn mean_run(self) -> f64 {
        match self {
            Interleaving::Random => 1.0,
            Interleaving::Bursty => 16.0,
            Interleaving::Runs => 256.0,
        }
    }
}

/// One case and one way.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Selected nodes.
    pub nodes: u32,
    /// Percent of the messages selected.
    pub selectivity: f64,
    /// How nodes follow each other.
    pub interleaving: Interleaving,
    /// Messages in a slice.
    pub slice: u64,
    /// The way.
    pub merge: String,
    /// Messages put in order.
    pub messages: u64,
    /// Nanoseconds a message.
    pub ns_per_message: f64,
    /// How many times as fast as the standard heap.
    pub ratio: f64,
}

#[derive(Serialize)]
struct Summary<'a> {
    bench: &'static str,
    messages: u32,
    rounds: u32,
    seed: u64,
    digest: String,
    /// Of the last way, over all cases.
    ratio_geometric_mean: f64,
    ratio_least: f64,
    rows: &'a [Row],
}

/// Measures, prints parameters, a table and a JSON line.
pub fn run(args: &Args, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "merge: {} messages, {} other nodes, best of {} rounds, seed {}",
        args.messages, args.other_nodes, args.rounds, args.seed
    )?;
    writeln!(
        out,
        "{:>7} {:>7} {:>8} {:>7}  {:<42} {:>9} {:>8} {:>7}",
        "nodes", "percent", "order", "slice", "way", "messages", "ns each", "ratio"
    )?;
    let mut rows = Vec::new();
    let mut digest = 0_u64;
    for nodes in &args.nodes {
        for selectivity in &args.selectivity {
            for interleaving in &args.interleaving {
                let order = draw(args, *nodes, *selectivity, *interleaving);
                let field = MergeField::new(order.into_iter(), *nodes);
                for slice in &args.slice {
                    let case = (*nodes, *selectivity, *interleaving, *slice);
                    digest = digest.rotate_left(7) ^ measure(args, &field, case, &mut rows, out)?;
                }
            }
        }
    }
    let ours = rows.last().map(|row| row.merge.clone()).unwrap_or_default();
    let ratios: Vec<f64> = rows.iter().filter(|row| row.merge == ours).map(|row| row.ratio).collect();
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    writeln!(out, "{ours}: geometric mean {mean:.2}, least {least:.2}")?;
    let summary = Summary {
        bench: "merge",
        messages: args.messages,
        rounds: args.rounds,
        seed: args.seed,
        digest: format!("{digest:016x}"),
        ratio_geometric_mean: mean,
        ratio_least: least,
        rows: &rows,
    };
    serde_json::to_writer(&mut *out, &summary)?;
    writeln!(out)
}

/// The node of each message; the selected ones have the lowest numbers.
fn draw(args: &Args, nodes: u32, percent: f64, interleaving: Interleaving) -> Vec<u32> {
    let mut random = SmallRng::seed_from_u64(args.seed);
    let goes_on = 1.0 - 1.0 / interleaving.mean_run();
    let mut node = 0;
    let mut is_first = true;
    let mut next = || {
        if is_first || !random.random_bool(goes_on) {
            node = match random.random_bool((percent / 100.0).clamp(0.0, 1.0)) {
                true => random.random_range(0..nodes),
                false => nodes + random.random_range(0..args.other_nodes),
            };
            is_first = false;
        }
        node
    };
    (0..args.messages).map(|_| next()).collect()
}

/// All ways over one case, round by round, so that a busy moment of the machine hits all of them.
fn measure(
    args: &Args,
    field: &MergeField,
    (nodes, selectivity, interleaving, slice): (u32, f64, Interleaving, u64),
    rows: &mut Vec<Row>,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let mut ways = merges();
    let mut index = 0;
    ways.retain(|way| {
        index += 1;
        index == 1 || way.name().contains(&args.way)
    });
    let mut best = vec![Duration::MAX; ways.len()];
    let mut digest = None;
    // Small cases are over soon: more rounds, until each way has put as many messages in order.
    let more = (100_000 / field.selected().max(1)).clamp(1, 20) as u32;
    for _ in 0..args.rounds.max(1) * more {
        for (way, best) in ways.iter_mut().zip(&mut best) {
            let (took, of_way) = once(way.as_mut(), field, slice);
            *best = took.min(*best);
            let same = *digest.get_or_insert(of_way) == of_way;
            assert!(same, "{} gives another order than the standard heap", way.name());
        }
    }
    let messages = field.selected();
    for (way, took) in ways.iter().zip(&best) {
        let row = Row {
            nodes,
            selectivity,
            interleaving,
            slice,
            merge: way.name().to_owned(),
            messages,
            ns_per_message: took.as_nanos() as f64 / messages.max(1) as f64,
            ratio: best[0].as_secs_f64() / took.as_secs_f64().max(1e-9),
        };
        let order = format!("{interleaving:?}").to_lowercase();
        writeln!(
            out,
            "{:>7} {:>7} {:>8} {:>7}  {:<42} {:>9} {:>8.1} {:>7.2}",
            row.nodes, row.selectivity, order, row.slice, row.merge, row.messages, row.ns_per_message, row.ratio
        )?;
        rows.push(row);
    }
    Ok(digest.unwrap_or_default())
}

/// One run: the processor time it took, and a digest of what came out. Only the merging is timed.
fn once(way: &mut dyn Merge, field: &MergeField, slice: u64) -> (Duration, u64) {
    let mut slots = Runs::default();
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let seated = field.seated();
    let begun = processor_time();
    way.begin(field, seated);
    let mut took = processor_time() - begun;
    let mut goes_on = true;
    while goes_on {
        slots.clear();
        let begun = processor_time();
        goes_on = way.slice(field, slice, &mut slots);
        took += processor_time() - begun;
        for slot in slots.as_slice().iter().flat_map(|run| run.clone()) {
            digest = (digest ^ u64::from(slot)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    (took, digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_measured_in_every_case_with_one_digest() {
        let mut out = Vec::new();
        run(&Args::small(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let json: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 2 * 2 * 2 * merges().len());
        assert!(json["ratio_least"].as_f64().unwrap() > 0.0);
        assert_ne!(json["digest"], "0000000000000000");
    }
}
