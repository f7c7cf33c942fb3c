//! `arioso bench topics`: a stream of very many topics. What a topic and a message cost in memory, how long a restart after
//! `kill -9` takes, and how long a subscription to one topic waits for its first message, from the tip, from segments and from
//! the disk.

use std::time::Instant;

use arioso::{Begin, Bus};
use clap::Args;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use super::load::{Wanted, connect, load, read};
use super::machine::{Meter, evict};
use super::report::{Report, Spread, Table, figure};
use super::server::{Metrics, Place, Server};
use super::workload::{PAYLOAD_BYTES_MIN, Topics};
use super::{Doing, Error, Result, check};

/// A restart takes at most so many seconds.
const RESTART_S_MAX: f64 = 2.0;

/// Flags of `bench topics`.
#[derive(Clone, Debug, Args)]
pub struct TopicsArgs {
    /// Topics; 1,000,000 is what figures are quoted for
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub topics: usize,
    /// Messages; 10,000,000 is what figures are quoted for
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    pub messages: u64,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub size: usize,
    /// Restarts, each after kill -9
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub restarts: u32,
    /// Topics that are subscribed to, one after the other
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub samples: u32,
    /// Where.
    #[command(flatten)]
    pub place: Place,
}

/// The server's memory at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
struct Memory {
    rss_bytes: u64,
    names_bytes: f64,
    tip_bytes: f64,
    index_bytes: f64,
}

impl Memory {
    fn of(server: &Server) -> Result<Memory> {
        let metrics: Metrics = server.metrics()?;
        Ok(Memory {
            rss_bytes: server.rss_bytes(),
            names_bytes: metrics.get("arioso_names_bytes")?,
            tip_bytes: metrics.get("arioso_tip_bytes")?,
            index_bytes: metrics.get("arioso_tip_index_bytes")?,
        })
    }

    /// What is neither records of the tip nor their index.
    fn rest(&self) -> f64 {
        self.rss_bytes as f64 - self.tip_bytes - self.index_bytes
    }

    fn row(&self, when: &str) -> Vec<String> {
        let mb = |bytes: f64| figure(bytes / 1e6);
        vec![when.into(), mb(self.rss_bytes as f64), mb(self.names_bytes), mb(self.tip_bytes), mb(self.index_bytes)]
    }
}

/// Runs the bench.
pub fn run(arguments: &TopicsArgs) -> Result<Report> {
    if arguments.topics == 0 || arguments.messages < arguments.topics as u64 || arguments.samples == 0 {
        return Err(Error::Use("--topics and --samples are 1 or more, --messages at least as many as topics".into()));
    }
    if arguments.size < PAYLOAD_BYTES_MIN {
        return Err(Error::Use(format!("--size {}: {PAYLOAD_BYTES_MIN} bytes or more are wanted", arguments.size)));
    }
    let mut report = Report::new("topics");
    report.parameter("topics", arguments.topics);
    report.parameter("messages", arguments.messages);
    report.parameter("size", arguments.size);
    report.parameter("restarts", arguments.restarts);
    report.parameter("settings", &arguments.place.settings);
    let folder = arguments.place.folder()?;
    let flags = arguments.place.flags(&[("publish-window-messages", super::load::LOAD_WINDOW.to_string())])?;
    let topics = Topics::zipf(arguments.topics, 0.0, 1);
    let count = arguments.topics as u64;
    let mut server = Server::start(folder.path(), &flags)?;
    let mut memory = Table::new("memory of the server, MB", &["when", "RSS", "topic tree", "tip", "tip's index"]);
    let empty = Memory::of(&server)?;
    memory.row(empty.row("empty"));
    let first = load(&server.listen, &topics, 1..=count, arguments.size, |number| (number - 1) as u32)?;
    let named = Memory::of(&server)?;
    memory.row(named.row("a message in each topic"));
    let topic_of = |number: u64| (number.wrapping_mul(7_919) % count) as u32;
    let rest = load(&server.listen, &topics, count + 1..=arguments.messages, arguments.size, topic_of)?;
    let full = Memory::of(&server)?;
    memory.row(full.row("all messages"));
    let everything = {
        let (a, b) = (first.part(|_| true), rest.part(|_| true));
        Wanted { messages: a.messages + b.messages, sum: a.sum.wrapping_add(b.sum) }
    };
    let mut waits = Table::new(
        "first message of a subscription to one topic, ms: median (min-max)",
        &["from", "first kept", "newest"],
    );
    let mut firsts = Vec::new();
    let mut wait = |server: &Server, from: &'static str, cold: bool| -> Result<()> {
        let (kept, newest) =
            first_messages(arguments, server, &topics, cold.then(|| folder.path().join("data")).as_deref())?;
        waits.row([from.to_string(), kept.text(), newest.text()]);
        firsts.push(serde_json::json!({ "from": from, "first_kept_ms": kept, "newest_ms": newest }));
        Ok(())
    };
    wait(&server, "as published", false)?;
    let mut ready = Vec::new();
    let mut cpu = Vec::new();
    for _ in 0..arguments.restarts {
        server.kill()?;
        server = Server::start(folder.path(), &flags)?;
        ready.push(server.ready_s);
        cpu.push(server.id().map_or(f64::NAN, super::machine::cpu_s));
    }
    let after = Memory::of(&server)?;
    memory.row(after.row("after kill -9 and a restart"));
    if arguments.restarts > 0 {
        wait(&server, "after a restart, cached", false)?;
        wait(&server, "after a restart, cold", true)?;
    }
    let meter = Meter::begin(server.id());
    let client = connect(&server.listen)?;
    let all = read(&client, &["**"], everything)?;
    client.close().doing("closing")?;
    let read_s = meter.used().wall_s;
    server.stop()?;
    let found =
        Found { memory: [empty, named, full, after], first_s: first.wall_s, rest_s: rest.wall_s, read_s, ready, cpu };
    report.tables.extend([memory, waits]);
    report.set("messages", all.messages);
    report.set("first_messages", firsts);
    tell(&mut report, arguments, &found);
    Ok(report)
}

/// What the run found.
struct Found {
    /// Empty, a message in each topic, all messages, after a restart.
    memory: [Memory; 4],
    first_s: f64,
    rest_s: f64,
    read_s: f64,
    ready: Vec<f64>,
    cpu: Vec<f64>,
}

fn tell(report: &mut Report, arguments: &TopicsArgs, found: &Found) {
    let [empty, named, full, after] = found.memory;
    let count = arguments.topics as f64;
    let further = arguments.messages as f64 - count;
    let per_topic = (named.rest() - empty.rest()) / count;
    let per_message = (full.rest() - named.rest()) / further.max(1.0);
    let mut costs = Table::new("what it comes to", &["what", "figure"]);
    costs.row(["bytes of memory a topic, tip and index left out".into(), figure(per_topic)]);
    costs.row(["  of it the topic tree".into(), figure((named.names_bytes - empty.names_bytes) / count)]);
    costs.row(["bytes a further message, tip and index left out".into(), figure(per_message)]);
    costs.row(["messages/s published, new topics".into(), figure(count / found.first_s)]);
    costs.row(["messages/s published, known topics".into(), figure(further / found.rest_s)]);
    costs.row(["messages/s of everything read back".into(), figure(arguments.messages as f64 / found.read_s)]);
    let restart = Spread::of(found.ready.iter().copied());
    let cpu = Spread::of(found.cpu.iter().copied());
    costs.row(["restart after kill -9, seconds until ready".into(), restart.text()]);
    costs.row(["  CPU seconds of it".into(), cpu.text()]);
    let mut budgets = Table::new("budgets", &["what", "budget", "measured", "held"]);
    let held = if restart.median <= RESTART_S_MAX { "yes" } else { "no" };
    budgets.row(["restart after kill -9, s".into(), format!("<= {RESTART_S_MAX}"), restart.text(), held.into()]);
    report.tables.extend([costs, budgets]);
    report.set("bytes_per_topic", per_topic);
    report.set("bytes_per_message", per_message);
    report.set("restart_s", restart);
    report.set("restart_cpu_s", cpu);
    report.set("new_topics_msgs_per_s", count / found.first_s);
    report.set("known_topics_msgs_per_s", further / found.rest_s);
    report.set("memory", [("empty", empty), ("named", named), ("full", full), ("restarted", after)]);
}

/// Milliseconds until the first message of a topic: from the start of the stream, and from the topic's newest message on.
fn first_messages(
    arguments: &TopicsArgs,
    server: &Server,
    topics: &Topics,
    evicted: Option<&std::path::Path>,
) -> Result<(Spread, Spread)> {
    let client = connect(&server.listen)?;
    let mut random = SmallRng::seed_from_u64(5);
    let (mut kept, mut newest) = (Vec::new(), Vec::new());
    for _ in 0..arguments.samples {
        let topic = topics.name(random.random_range(0..arguments.topics as u32)).to_string();
        let mut last = arioso::Sequence(0);
        client.topics(&topic, |row| last = row.last).doing("listing")?;
        for (begin, out) in [(Begin::Start, &mut kept), (Begin::Sequence(last), &mut newest)] {
            if let Some(folder) = evicted {
                evict(folder)?;
            }
            out.push(first_message(&client, &topic, begin)? * 1e3);
        }
    }
    client.close().doing("closing")?;
    Ok((Spread::of(kept), Spread::of(newest)))
}

fn first_message(client: &Bus, topic: &str, begin: Begin) -> Result<f64> {
    let doing = format!("reading {topic}");
    let began = Instant::now();
    let mut subscription = client.subscribe([topic], begin, false).doing(&doing)?;
    let batch = subscription.next_batch().doing(&doing)?;
    let seconds = began.elapsed().as_secs_f64();
    let batch = batch.ok_or_else(|| Error::Wrong(format!("{topic} has no message")))?;
    let first = batch.messages().next().transpose().doing(&doing)?;
    check("the topic of the message", first.map(|message| message.topic()), Some(topic))?;
    Ok(seconds)
}
