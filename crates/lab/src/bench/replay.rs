//! `arioso bench replay`: reading the stream back over loopback, everything and parts of it, from the tip, from segments in the
//! page cache and from the disk, against a raw copy of the same bytes through a loopback connection in the same run.
//!
//! Two more questions, each a ratio: does a filter that lets nearly everything through cost anything, and do many topics.

use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::limits::loopback_s;
use super::load::{Loaded, Read, Wanted, connect, load, load_drawn, read};
use super::machine::{Meter, Used, evict};
use super::report::{Report, Spread, Table, figure};
use super::server::{Place, Server};
use super::workload::{PAYLOAD_BYTES_MIN, Topics};
use super::{Doing, Error, Result};

/// At least this part of a raw copy.
const COPY_RATIO_MIN: f64 = 0.6;
/// A filter that passes 99.99 % runs at least at this part of no filter.
const FILTER_RATIO_MIN: f64 = 0.95;
/// Of the many messages of one topic, one in so many is of another.
const OTHERS_EVERY: u64 = 10_000;
/// The few topics that many are compared with.
const FEW: usize = 10;
/// The smallest tip there can be.
const TIP_BYTES_MIN: u64 = 8 << 20;

/// Flags of `bench replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// Messages; 2,000,000 is what figures are quoted for
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub messages: u64,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub size: usize,
    /// Topics of the main stream, their shares Zipf's with exponent 1.1
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub topics: usize,
    /// Topics of the stream that has many
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub many_topics: usize,
    /// Runs of each reading; medians and their spread are told
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub runs: u32,
    /// Where.
    #[command(flatten)]
    pub place: Place,
}

/// Where the stream lies when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum From {
    /// In memory.
    Tip,
    /// In segments that the page cache holds.
    Cached,
    /// On the disk: the page cache was told to forget the files before each run.
    Cold,
}

/// One reading, all its runs.
#[derive(Debug, Serialize)]
struct Reading {
    what: &'static str,
    from: From,
    messages: u64,
    record_bytes: u64,
    mb_per_s: Spread,
    msgs_per_s: Spread,
    first_ms: Spread,
    server_cpu_s: f64,
    client_cpu_s: f64,
    others_cpu_s: f64,
    /// Part of a raw copy of the same bytes; only where there are enough to copy.
    of_copy: Option<Spread>,
}

/// Bytes below which a raw copy measures the start of a connection.
const COPY_BYTES_MIN: u64 = 8 << 20;

/// Runs the bench.
pub fn run(arguments: &ReplayArgs) -> Result<Report> {
    if arguments.messages < 1_000 || arguments.topics == 0 || arguments.runs == 0 || arguments.many_topics < FEW {
        return Err(Error::Use(format!(
            "--messages is 1000 or more, --topics and --runs 1 or more, --many-topics {FEW} or more"
        )));
    }
    if arguments.size < PAYLOAD_BYTES_MIN {
        return Err(Error::Use(format!("--size {}: {PAYLOAD_BYTES_MIN} bytes or more are wanted", arguments.size)));
    }
    let mut report = Report::new("replay");
    report.parameter("messages", arguments.messages);
    report.parameter("size", arguments.size);
    report.parameter("topics", arguments.topics);
    report.parameter("many_topics", arguments.many_topics);
    report.parameter("runs", arguments.runs);
    report.parameter("settings", &arguments.place.settings);
    let mut table = Table::new(
        "replay over loopback: median (min-max) of the runs; CPU seconds of one run",
        &[
            "what",
            "from",
            "messages",
            "MB/s",
            "messages/s",
            "first ms",
            "server CPU",
            "client CPU",
            "others CPU",
            "of a raw copy",
        ],
    );
    let main = main_stream(arguments)?;
    let one = one_topic(arguments)?;
    let many = many_topics(arguments)?;
    let readings = || main.iter().chain(&one).chain(&many);
    readings().for_each(|reading| table.row(reading.cells()));
    report.tables.push(table);
    judge(&mut report, &main, &one, &many);
    report.set("messages", arguments.messages);
    report.set("readings", readings().collect::<Vec<_>>());
    Ok(report)
}

/// Flags of a server whose tip holds the whole stream, or as little as can be.
fn flags(arguments: &ReplayArgs, messages: u64, whole_tip: bool) -> Result<Vec<std::ffi::OsString>> {
    let record_bytes = (arguments.size as u64 + 40).next_multiple_of(8);
    let tip = if whole_tip { (messages * record_bytes * 5 / 4).max(4 * TIP_BYTES_MIN) } else { TIP_BYTES_MIN };
    let index = (tip / 2).max(64 << 20);
    arguments.place.flags(&[
        ("tip-bytes", tip.to_string()),
        ("index-bytes-max", index.to_string()),
        ("publish-window-messages", super::load::LOAD_WINDOW.to_string()),
    ])
}

fn main_stream(arguments: &ReplayArgs) -> Result<Vec<Reading>> {
    let topics = Topics::zipf(arguments.topics, 1.1, 42);
    let folder = arguments.place.folder()?;
    let server = Server::start(folder.path(), &flags(arguments, arguments.messages, true)?)?;
    let loaded = load_drawn(&server.listen, &topics, arguments.messages, arguments.size)?;
    let (subtree, _) = topics.nearest_group(&loaded.counts, 0.01);
    let group = subtree.trim_end_matches("**").to_string();
    let topic = topics.nearest_topic(&loaded.counts, 0.001);
    let name = topics.name(topic).to_string();
    let parts = [
        ("everything", "**", loaded.part(|_| true)),
        ("a subtree of 1 %", &subtree, loaded.part(|topic| topics.name(topic).starts_with(&group))),
        ("a topic of 0.1 %", &name, loaded.part(|other| other == topic)),
    ];
    let mut readings = Vec::new();
    for (what, filter, wanted) in parts {
        readings.push(reading(&server, arguments.runs, what, From::Tip, filter, wanted, folder.path())?);
    }
    server.stop()?;
    let server = Server::start(folder.path(), &flags(arguments, arguments.messages, false)?)?;
    for from in [From::Cached, From::Cold] {
        for (what, filter, wanted) in parts {
            readings.push(reading(&server, arguments.runs, what, from, filter, wanted, folder.path())?);
        }
    }
    server.stop()?;
    Ok(readings)
}

/// One topic holds nearly everything: its filter against none.
fn one_topic(arguments: &ReplayArgs) -> Result<Vec<Reading>> {
    let topics = Topics::zipf(100, 0.0, 1);
    let folder = arguments.place.folder()?;
    let server = Server::start(folder.path(), &flags(arguments, arguments.messages, true)?)?;
    let topic_of =
        |number: u64| if number.is_multiple_of(OTHERS_EVERY) { 1 + (number / OTHERS_EVERY % 99) as u32 } else { 0 };
    let loaded = load(&server.listen, &topics, 1..=arguments.messages, arguments.size, topic_of)?;
    let mut readings = both(arguments, &server, From::Tip, &topics, &loaded, folder.path())?;
    server.stop()?;
    let server = Server::start(folder.path(), &flags(arguments, arguments.messages, false)?)?;
    readings.extend(both(arguments, &server, From::Cached, &topics, &loaded, folder.path())?);
    server.stop()?;
    Ok(readings)
}

fn both(
    arguments: &ReplayArgs,
    server: &Server,
    from: From,
    topics: &Topics,
    loaded: &Loaded,
    folder: &Path,
) -> Result<Vec<Reading>> {
    let all = ("99.99 % one topic: no filter", "**", loaded.part(|_| true));
    let one = ("99.99 % one topic: its filter", topics.name(0), loaded.part(|topic| topic == 0));
    // One after the other in each round, so that what else the machine does meets both.
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..arguments.runs {
        for (kept, (_, filter, wanted)) in runs.iter_mut().zip([all, one]) {
            kept.push(one_run(server, from, filter, wanted, folder)?);
        }
    }
    Ok([all, one].iter().zip(&runs).map(|((what, ..), runs)| summary(what, from, runs)).collect())
}

/// `**` over many topics and over few.
fn many_topics(arguments: &ReplayArgs) -> Result<Vec<Reading>> {
    let messages = arguments.messages.max(arguments.many_topics as u64);
    let mut servers = Vec::new();
    for (what, count) in [("everything, few topics", FEW), ("everything, many topics", arguments.many_topics)] {
        let topics = Topics::zipf(count, 0.0, 1);
        let folder = arguments.place.folder()?;
        let server = Server::start(folder.path(), &flags(arguments, messages, true)?)?;
        let count = count as u64;
        // A stride without a common factor meets every topic and leaves neighbours apart.
        let topic_of = |number: u64| (number.wrapping_mul(7_919) % count) as u32;
        let loaded = load(&server.listen, &topics, 1..=messages, arguments.size, topic_of)?;
        servers.push((what, loaded.part(|_| true), server, folder, Vec::new()));
    }
    for _ in 0..arguments.runs {
        for (_, wanted, server, folder, runs) in &mut servers {
            runs.push(one_run(server, From::Tip, "**", *wanted, folder.path())?);
        }
    }
    let mut readings = Vec::new();
    for (what, _, server, _folder, runs) in servers {
        readings.push(summary(what, From::Tip, &runs));
        server.stop()?;
    }
    Ok(readings)
}

struct Run {
    read: Read,
    used: Used,
    copy_s: Option<f64>,
}

fn reading(
    server: &Server,
    runs: u32,
    what: &'static str,
    from: From,
    filter: &str,
    wanted: Wanted,
    folder: &Path,
) -> Result<Reading> {
    if from != From::Cold {
        // The first reading fills caches; it is checked and not counted.
        one_run(server, from, filter, wanted, folder)?;
    }
    let runs = (0..runs).map(|_| one_run(server, from, filter, wanted, folder)).collect::<Result<Vec<Run>>>()?;
    Ok(summary(what, from, &runs))
}

fn one_run(server: &Server, from: From, filter: &str, wanted: Wanted, folder: &Path) -> Result<Run> {
    if from == From::Cold {
        evict(&folder.join("data"))?;
    }
    let client = connect(&server.listen)?;
    let meter = Meter::begin(server.id());
    let read = read(&client, &[filter], wanted)?;
    let used = meter.used();
    client.close().doing("closing")?;
    let copied = read.record_bytes >= COPY_BYTES_MIN;
    let copy_s = if copied { Some(loopback_s(read.record_bytes)?) } else { None };
    Ok(Run { read, used, copy_s })
}

fn summary(what: &'static str, from: From, runs: &[Run]) -> Reading {
    let spread = |of: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(of));
    let first = runs.first().map(|run| run.read).unwrap_or_default();
    let copied = runs.iter().all(|run| run.copy_s.is_some()) && !runs.is_empty();
    Reading {
        what,
        from,
        messages: first.messages,
        record_bytes: first.record_bytes,
        mb_per_s: spread(&|run| run.read.record_bytes as f64 / 1e6 / run.read.wall_s),
        msgs_per_s: spread(&|run| run.read.messages as f64 / run.read.wall_s),
        first_ms: spread(&|run| run.read.first_s * 1e3),
        server_cpu_s: spread(&|run| run.used.server_cpu_s).median,
        client_cpu_s: spread(&|run| run.used.client_cpu_s).median,
        others_cpu_s: spread(&|run| run.used.others_cpu_s).median,
        of_copy: copied.then(|| spread(&|run| run.copy_s.unwrap_or(f64::NAN) / run.read.wall_s)),
    }
}

impl Reading {
    fn cells(&self) -> Vec<String> {
        let from = match self.from {
            From::Tip => "tip",
            From::Cached => "segments, cached",
            From::Cold => "segments, cold",
        };
        vec![
            self.what.into(),
            from.into(),
            figure(self.messages as f64),
            self.mb_per_s.text(),
            self.msgs_per_s.text(),
            self.first_ms.text(),
            figure(self.server_cpu_s),
            figure(self.client_cpu_s),
            figure(self.others_cpu_s),
            self.of_copy.map_or("-".into(), |ratio| ratio.text()),
        ]
    }
}

fn judge(report: &mut Report, main: &[Reading], one: &[Reading], many: &[Reading]) {
    let mut budgets = Table::new("budgets", &["what", "budget", "measured", "held"]);
    let mut row = |name: &str, key: &str, least: f64, measured: f64| {
        let held = if measured >= least { "yes" } else { "no" };
        budgets.row([name.to_string(), format!(">= {least}"), figure(measured), held.to_string()]);
        report.result.insert(key.into(), serde_json::json!(measured));
    };
    for (from, name, key) in [
        (From::Tip, "everything from the tip, of a raw copy", "copy_ratio_tip"),
        (From::Cached, "everything from cached segments, of a raw copy", "copy_ratio_cached"),
        (From::Cold, "everything from the disk, of a raw copy", "copy_ratio_cold"),
    ] {
        let everything = main.iter().find(|reading| reading.from == from && reading.of_copy.is_some());
        if let Some(ratio) = everything.and_then(|reading| reading.of_copy) {
            row(name, key, COPY_RATIO_MIN, ratio.median);
        }
    }
    let rate = |readings: &[Reading], at: usize| readings.get(at).map_or(f64::NAN, |reading| reading.msgs_per_s.median);
    row("a filter that passes 99.99 %, tip", "filter_ratio_tip", FILTER_RATIO_MIN, rate(one, 1) / rate(one, 0));
    row("a filter that passes 99.99 %, segments", "filter_ratio_cached", FILTER_RATIO_MIN, rate(one, 3) / rate(one, 2));
    row("many topics against few", "many_topics_ratio", FILTER_RATIO_MIN, rate(many, 1) / rate(many, 0));
    report.tables.push(budgets);
}
