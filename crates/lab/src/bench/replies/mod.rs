//! `arioso bench replies`: what ordering groups do for replies when some writes are slow, on the engine, log and sessions that
//! ship, inside this process, with a backend whose writes take as long as a schedule says.
//!
//! Each cell's own times are put through the exact rule (`rule.rs`): no reply may come before the rule lets it, and the
//! mean of reply less rule is what the bus itself costs. Cells of one share of slow writes run side by side; all are drawn
//! from one seed, so the groups meet the same slow writes.

mod backend;
mod bus;
mod cell;
mod place;
mod readers;
mod rule;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tokio::runtime::Builder;

use super::machine::{Meter, Used};
use super::report::{Report, Spread, Table};
use super::workload::PAYLOAD_BYTES_MIN;
use super::{Error, Result, io};
use cell::{Cell, Outcome};
use place::Place;

/// The bus itself may cost this much, on the mean, in every cell.
const OVER_RULE_US_MAX: f64 = 300.0;

/// What makes messages durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// Writes that take as long as a schedule says; nothing is kept.
    Memory,
    /// Segments on the disk: one write at a time.
    Local,
    /// A throw-away PostgreSQL server on this machine.
    #[cfg(feature = "postgres")]
    Postgres,
}

/// How messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Loop {
    /// At fixed times, whatever became of those before; latency counts from those times.
    Open,
    /// Each publisher waits for its reply before its next message; latency counts from sending.
    Closed,
}

/// Flags of `bench replies`.
#[derive(Clone, Debug, Args)]
pub struct RepliesArgs {
    /// What makes messages durable
    #[arg(long, value_enum, default_value = "memory")]
    pub backend: Backend,
    /// How messages come
    #[arg(long = "loop", value_enum, default_value = "open")]
    pub pace: Loop,
    /// Reply-ordering groups, a cell each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,per-publisher")]
    pub groups: Vec<String>,
    /// How many of a hundred writes are slow, a row of cells each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,1,2")]
    pub slow_percent: Vec<f64>,
    /// Milliseconds of a slow write
    #[arg(long, value_name = "FROM-TO", default_value = "100-500")]
    pub slow_ms: String,
    /// Milliseconds of every other write
    #[arg(long, value_name = "FROM-TO", default_value = "1-3")]
    pub write_ms: String,
    /// Writes in flight at most, of the backend in memory
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub writes_max: usize,
    /// For --backend postgres: max-writes-in-flight
    #[arg(long, value_name = "N|adaptive", default_value = "20")]
    pub writes_in_flight: String,
    /// For --backend postgres: connections
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub connections: u32,
    /// For --backend postgres: slow chunks of the network instead of slow writes, by a proxy in between
    #[arg(long)]
    pub proxy: bool,
    /// Publishers
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub publishers: u32,
    /// Messages a second, all publishers of a cell together
    #[arg(long, value_name = "N", default_value_t = 100.0)]
    pub rate: f64,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub size: usize,
    /// Measured seconds of each cell
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    pub seconds: f64,
    /// Seconds before anything is measured
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub warmup: f64,
    /// Runs of each cell; medians and their spread are told
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub runs: u32,
    /// Which writes are slow comes from it; each run takes the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// One cell at a time instead of those of a share side by side
    #[arg(long)]
    pub alone: bool,
    /// Only the JSON line
    #[arg(long)]
    pub json: bool,
    /// For --backend local: measure on the disk of this directory [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// All runs of one cell.
#[derive(Debug, Serialize)]
struct Measured {
    slow_percent: f64,
    groups: String,
    runs: Vec<Outcome>,
}

fn range_us(name: &str, text: &str) -> Result<(u64, u64)> {
    let wrong = || Error::Use(format!("--{name} {text:?}: milliseconds FROM-TO are wanted, such as 100-500"));
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let us = |text: &str| {
        text.trim().parse::<f64>().ok().filter(|ms| (0.0..=3_600_000.0).contains(ms)).map(|ms| (ms * 1e3) as u64)
    };
    match (us(from), us(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        _ => Err(wrong()),
    }
}

/// Runs the bench.
pub fn run(arguments: &RepliesArgs) -> Result<Report> {
    check_arguments(arguments)?;
    let cell = Cell {
        groups: String::new(),
        slow_percent: 0.0,
        open: arguments.pace == Loop::Open,
        publishers: arguments.publishers,
        rate: arguments.rate,
        warmup: Duration::from_secs_f64(arguments.warmup),
        lasting: Duration::from_secs_f64(arguments.seconds),
        size: arguments.size,
        write_us: range_us("write-ms", &arguments.write_ms)?,
        slow_us: range_us("slow-ms", &arguments.slow_ms)?,
        writes_max: arguments.writes_max,
        seed: arguments.seed,
        folder: None,
        #[cfg(feature = "postgres")]
        database: None,
        network: arguments.proxy,
    };
    // What makes syncs goes alone: side by side the cells would measure each other's.
    let alone = arguments.alone || arguments.backend != Backend::Memory;
    let slow_percent: &[f64] = &arguments.slow_percent;
    let place = Place::new(arguments)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(io("a runtime"))?;
    let mut all: Vec<Measured> = Vec::new();
    let mut used: Vec<Used> = Vec::new();
    for &slow_percent in slow_percent {
        let first = all.len();
        all.extend(arguments.groups.iter().map(|groups| Measured {
            slow_percent,
            groups: groups.clone(),
            runs: Vec::new(),
        }));
        for run in 0..arguments.runs {
            let seed = arguments.seed + u64::from(run);
            let cells = arguments.groups.iter().map(|groups| Cell {
                groups: groups.clone(),
                slow_percent,
                seed,
                ..cell.clone()
            });
            let meter = Meter::begin(None);
            let outcomes = if alone { one_by_one(&place, cells, &runtime)? } else { side_by_side(cells, &runtime)? };
            used.push(meter.used());
            all[first..].iter_mut().zip(outcomes).for_each(|(measured, outcome)| measured.runs.push(outcome));
        }
    }
    Ok(tell(arguments, alone, &all, &used))
}

fn check_arguments(arguments: &RepliesArgs) -> Result<()> {
    if arguments.publishers == 0 || arguments.runs == 0 || arguments.writes_max == 0 {
        return Err(Error::Use("--publishers, --runs and --writes-max are 1 or more".into()));
    }
    if !(arguments.rate > 0.0 && arguments.rate <= 100_000.0) {
        return Err(Error::Use(format!(
            "--rate {}: messages a second from above 0 to 100000 are wanted",
            arguments.rate
        )));
    }
    for (name, value) in [("seconds", arguments.seconds), ("warmup", arguments.warmup)] {
        if !(0.0..=86_400.0).contains(&value) {
            return Err(Error::Use(format!("--{name} {value}: seconds from 0 to 86400 are wanted")));
        }
    }
    if let Some(percent) = arguments.slow_percent.iter().find(|percent| !(0.0..=100.0).contains(*percent)) {
        return Err(Error::Use(format!("--slow-percent {percent}: 0 to 100 is wanted")));
    }
    arioso_journal::settings::writes_in_flight(Some(&arguments.writes_in_flight))
        .map_err(|error| Error::Use(error.to_string()))?;
    if !(1..=1_000).contains(&arguments.connections) {
        return Err(Error::Use(format!("--connections {}: 1 to 1000 are wanted", arguments.connections)));
    }
    if arguments.size < PAYLOAD_BYTES_MIN {
        return Err(Error::Use(format!("--size {}: {PAYLOAD_BYTES_MIN} bytes or more are wanted", arguments.size)));
    }
    for groups in &arguments.groups {
        arioso_journal::settings::groups(Some(groups), None).map_err(|error| Error::Use(error.to_string()))?;
    }
    Ok(())
}

fn one_by_one(
    place: &Place<'_>,
    cells: impl Iterator<Item = Cell>,
    runtime: &tokio::runtime::Runtime,
) -> Result<Vec<Outcome>> {
    cells.map(|cell| place.run(cell, runtime.handle())).collect()
}

fn side_by_side(cells: impl Iterator<Item = Cell>, runtime: &tokio::runtime::Runtime) -> Result<Vec<Outcome>> {
    let cells: Vec<Cell> = cells.collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = cells.iter().map(|cell| scope.spawn(|| cell.run(runtime.handle()))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn tell(arguments: &RepliesArgs, alone: bool, all: &[Measured], used: &[Used]) -> Report {
    let mut report = Report::new("replies");
    report.only_line = arguments.json;
    report.parameter("backend", format!("{:?}", arguments.backend).to_lowercase());
    report.parameter("loop", format!("{:?}", arguments.pace).to_lowercase());
    report.parameter("publishers", arguments.publishers);
    report.parameter("msgs_per_s", arguments.rate);
    report.parameter("slow_ms", &arguments.slow_ms);
    report.parameter("write_ms", &arguments.write_ms);
    report.parameter("writes_max", arguments.writes_max);
    report.parameter("writes_in_flight", &arguments.writes_in_flight);
    report.parameter("proxy", arguments.proxy);
    report.parameter("size", arguments.size);
    report.parameter("seconds", arguments.seconds);
    report.parameter("warmup", arguments.warmup);
    report.parameter("runs", arguments.runs);
    report.parameter("seed", arguments.seed);
    report.parameter("side_by_side", if alone { 1 } else { arguments.groups.len() });
    report.tables.push(cells_table(all));
    let worst = all.iter().map(|cell| Spread::of(cell.runs.iter().map(|run| run.over_rule_mean_us)).median);
    let worst = worst.fold(f64::NAN, f64::max);
    let mut budgets = Table::new("budgets", &["what", "budget", "measured", "held"]);
    let held = if worst <= OVER_RULE_US_MAX { "yes" } else { "no" };
    let measured = format!("{:.3}", worst / 1e3);
    budgets.row(["mean of reply - rule in the worst cell, ms".into(), "<= 0.3".into(), measured, held.into()]);
    budgets.row(["replies before the rule let them".into(), "0".into(), "0".into(), "yes".into()]);
    report.tables.push(budgets);
    let mut cpu = Table::new("CPU seconds a second, all cells that ran side by side", &["what", "figure"]);
    cpu.row([
        "this process: publishers and the bus".into(),
        Spread::of(used.iter().map(|used| used.client_cpu_s / used.wall_s)).text(),
    ]);
    cpu.row(["everybody else".into(), Spread::of(used.iter().map(|used| used.others_cpu_s / used.wall_s)).text()]);
    report.tables.push(cpu);
    report.set("messages", all.iter().flat_map(|cell| &cell.runs).map(|run| run.messages).sum::<u64>());
    report.set("over_rule_worst_us", worst);
    report.set("before_rule", all.iter().flat_map(|cell| &cell.runs).map(|run| run.before_rule).sum::<u64>());
    report.set("cells", all);
    report.set("used", used);
    report
}

/// A row a cell.
fn cells_table(all: &[Measured]) -> Table {
    let mut table = Table::new(
        "replies, ms: median (min-max) of the runs",
        &[
            "slow writes",
            "groups",
            "messages",
            "/s",
            "reply mean",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "write mean",
            "slow write mean",
            "rule mean",
            "reply - rule",
            "p99",
            "reply stdev",
            "max",
            "seen by all, p50",
            "p99",
            "seen by 1 topic, p50",
            "p99",
            "msgs/write",
            "connections",
            "limit",
        ],
    );
    for cell in all {
        let ms = |of: &dyn Fn(&Outcome) -> f64| Spread::of(cell.runs.iter().map(|run| of(run) / 1e3)).text();
        table.row([
            format!("{} %", cell.slow_percent),
            cell.groups.clone(),
            Spread::of(cell.runs.iter().map(|run| run.messages as f64)).text(),
            Spread::of(cell.runs.iter().map(|run| run.msgs_per_s)).text(),
            ms(&|run| run.replies.mean_us),
            ms(&|run| run.replies.p50_us),
            ms(&|run| run.replies.p90_us),
            ms(&|run| run.replies.p99_us),
            ms(&|run| run.replies.p999_us),
            ms(&|run| run.writes.mean_us),
            ms(&|run| if run.slow_writes.count == 0 { f64::NAN } else { run.slow_writes.mean_us }),
            ms(&|run| run.rule_mean_us),
            ms(&|run| run.over_rule_mean_us),
            ms(&|run| run.over_rule_p99_us),
            ms(&|run| run.replies.stdev_us),
            ms(&|run| run.replies.max_us),
            ms(&|run| run.visible.everything.p50_us),
            ms(&|run| run.visible.everything.p99_us),
            ms(&|run| run.visible.one_topic.p50_us),
            ms(&|run| run.visible.one_topic.p99_us),
            Spread::of(cell.runs.iter().map(|run| run.msgs_per_write)).text(),
            Spread::of(cell.runs.iter().map(|run| f64::from(run.connections))).text(),
            Spread::of(cell.runs.iter().map(|run| f64::from(run.writes_in_flight))).text(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_milliseconds_is_understood_or_refused() {
        assert_eq!(range_us("slow-ms", "100-500").unwrap(), (100_000, 500_000));
        assert_eq!(range_us("slow-ms", "0.5").unwrap(), (500, 500));
        for text in ["", "5-1", "a-b", "1-"] {
            assert!(range_us("slow-ms", text).is_err(), "{text:?}");
        }
    }
}
