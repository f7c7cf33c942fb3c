//! `arioso bench publish`: durable publishing by many publishers with a window each, against what the disk can do: a loop that
//! appends and syncs as many bytes as the run's mean sync made durable, on a file that was written before, as segments were.
//!
//! ```text
//! ratio     = messages/s of the bus  /  (appends/s of the loop × messages of a mean sync)
//! window 1  = mean reply to a lone publisher  /  mean of the loop at its batch's bytes
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arioso_client::{AckLevel, Client, Message, Options, Publisher, Receipt, RecordBlock, TopicId};
use clap::Args;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use super::limits::{SyncLimit, syncs};
use super::machine::{Meter, Used};
use super::recycled::Recycled;
use super::report::{Latency, Report, Spread, Table, histogram};
use super::server::{Metrics, Place, Server};
use super::workload::{Draws, PAYLOAD_BYTES_MIN, Payload, Topics};
use super::{Doing, Error, Result, check, io};

/// At least this part of what the disk can do.
const RATIO_MIN: f64 = 0.8;
/// At most this many times a sync.
const REPLY_RATIO_MAX: f64 = 2.2;

/// Of a segment's file: the server's default.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Flags of `bench publish`.
#[derive(Clone, Debug, Args)]
pub struct PublishArgs {
    /// Publishers, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub publishers: u32,
    /// Messages each keeps unanswered
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub window: u32,
    /// Messages sent as one block, where the window has as many; 1: each on its own
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub block: u32,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub size: usize,
    /// Topics, their shares Zipf's
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub topics: usize,
    /// Exponent of the shares; 0: all alike
    #[arg(long, value_name = "S", default_value_t = 1.1)]
    pub zipf: f64,
    /// Measured seconds of each run
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub seconds: f64,
    /// End each run after so many messages, however long they take
    #[arg(long, value_name = "N")]
    pub messages: Option<u64>,
    /// Seconds before anything is measured
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub warmup: f64,
    /// Runs; medians and their spread are told
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub runs: u32,
    /// Publish without names: nothing is remembered for retries
    #[arg(long)]
    pub anonymous: bool,
    /// MiB of segment files written beforehand, for the server to write again as one does that has retired some
    #[arg(long, value_name = "MIB", default_value_t = 1_024)]
    pub recycled: u64,
    /// Measure a running server; its CPU is not known then
    #[arg(long, value_name = "ADDR", requires = "http")]
    pub server: Option<String>,
    /// Where the running server's metrics are
    #[arg(long, value_name = "ADDR", requires = "server")]
    pub http: Option<String>,
    /// Where.
    #[command(flatten)]
    pub place: Place,
}

/// What publishers share.
struct Load {
    topics: Topics,
    draws: Draws,
    warm: Instant,
    end: Instant,
    /// Messages that may still be sent.
    left: AtomicU64,
    window: u64,
    block: u64,
    size: usize,
}

/// What a publisher saw.
struct Tally {
    replies: Histogram<u64>,
    acknowledged: u64,
    /// The last reply that was measured.
    last: Option<Instant>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
struct Run {
    messages: u64,
    msgs_per_s: f64,
    sync_bytes_mean: f64,
    sync_messages_mean: f64,
    syncs_per_s: f64,
    /// Messages that were answered busy and sent again.
    busy: f64,
    replies: Latency,
    used: Used,
    limit: SyncLimit,
    ratio: f64,
}

/// Runs the bench.
pub fn run(arguments: &PublishArgs) -> Result<Report> {
    check_arguments(arguments)?;
    let mut report = Report::new("publish");
    parameters(arguments, &mut report);
    let folder = arguments.place.folder()?;
    let (mut many, mut single) = (Vec::new(), Vec::new());
    if let (Some(listen), Some(http)) = (&arguments.server, &arguments.http) {
        let server = Server::running(listen, http);
        for _ in 0..arguments.runs {
            both(arguments, &server, folder.path(), &mut many, &mut single)?;
        }
    } else {
        let recycled = Recycled::make(folder.path(), (arguments.recycled << 20) / SEGMENT_BYTES, SEGMENT_BYTES)?;
        let window = arguments.window.max(4_096);
        let flags = arguments.place.flags(&[
            ("publish-window-messages", window.to_string()),
            ("segment-bytes", SEGMENT_BYTES.to_string()),
            ("free-segments-max", "1024".into()),
        ])?;
        let data = folder.path().join("data");
        for _ in 0..arguments.runs {
            // Started once to make the directory, then with files to write again.
            Server::start(folder.path(), &flags)?.stop()?;
            recycled.give(&data)?;
            let server = Server::start(folder.path(), &flags)?;
            both(arguments, &server, folder.path(), &mut many, &mut single)?;
            server.stop()?;
            recycled.take(&data)?;
        }
    }
    tell(&mut report, arguments, &many, &single);
    Ok(report)
}

/// Many publishers, then one alone.
fn both(
    arguments: &PublishArgs,
    server: &Server,
    folder: &Path,
    many: &mut Vec<Run>,
    single: &mut Vec<Run>,
) -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(io("a runtime"))?;
    many.push(run_once(arguments, server, &runtime, folder, arguments.publishers, arguments.window)?);
    drop(runtime);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(io("a runtime"))?;
    single.push(run_once(arguments, server, &runtime, folder, 1, 1)?);
    Ok(())
}

fn check_arguments(arguments: &PublishArgs) -> Result<()> {
    let bad = |text: String| Err(Error::Use(text));
    let counts = [arguments.publishers, arguments.window, arguments.block, arguments.runs];
    if counts.contains(&0) || arguments.topics == 0 {
        return bad("--publishers, --window, --block, --topics and --runs are 1 or more".into());
    }
    if arguments.size < PAYLOAD_BYTES_MIN {
        return bad(format!("--size {}: {PAYLOAD_BYTES_MIN} bytes or more are wanted", arguments.size));
    }
    for (name, value) in [("seconds", arguments.seconds), ("warmup", arguments.warmup)] {
        if !(0.0..=86_400.0).contains(&value) {
            return bad(format!("--{name} {value}: seconds from 0 to 86400 are wanted"));
        }
    }
    Ok(())
}

fn parameters(arguments: &PublishArgs, report: &mut Report) {
    report.parameter("publishers", arguments.publishers);
    report.parameter("window", arguments.window);
    report.parameter("block", arguments.block);
    report.parameter("size", arguments.size);
    report.parameter("topics", arguments.topics);
    report.parameter("zipf", arguments.zipf);
    report.parameter("seconds", arguments.seconds);
    report.parameter("messages", arguments.messages);
    report.parameter("runs", arguments.runs);
    report.parameter("recycled_mib", arguments.recycled);
    report.parameter("named", !arguments.anonymous);
    report.parameter("settings", &arguments.place.settings);
}

fn run_once(
    arguments: &PublishArgs,
    server: &Server,
    runtime: &Runtime,
    folder: &Path,
    publishers: u32,
    window: u32,
) -> Result<Run> {
    let mut run = runtime.block_on(measure(arguments, server, publishers, window))?;
    let lasting = Duration::from_secs_f64((arguments.seconds / 2.0).clamp(0.05, 3.0));
    run.limit = syncs(folder, run.sync_bytes_mean as u64, lasting)?;
    run.ratio = run.msgs_per_s / (run.limit.per_s * run.sync_messages_mean);
    Ok(run)
}

/// One run: warm up, measure, drain, count what is stored.
async fn measure(arguments: &PublishArgs, server: &Server, publishers: u32, window: u32) -> Result<Run> {
    let topics = Topics::zipf(arguments.topics, arguments.zipf, 42);
    let draws = Draws::of(&topics, 43);
    let mut clients = Vec::new();
    for number in 0..publishers {
        let options = Options { name: format!("bench-{number}"), window_messages: window, ..Options::default() };
        let client = Client::connect(server.listen.as_str(), options).await.doing("connecting")?;
        let name = format!("bench-{number}");
        let name = (!arguments.anonymous).then_some(name.as_str());
        let publisher = client.publisher(name).await.doing("opening a publisher")?;
        clients.push((client, publisher));
    }
    let before = stored(&clients[0].0).await?;
    let warm = Instant::now() + Duration::from_secs_f64(arguments.warmup);
    let end = warm + Duration::from_secs_f64(if arguments.messages.is_some() { 86_400.0 } else { arguments.seconds });
    let left = AtomicU64::new(arguments.messages.unwrap_or(u64::MAX));
    let (window, block) = (window.into(), arguments.block.min(window).into());
    let load = Arc::new(Load { topics, draws, warm, end, left, window, block, size: arguments.size });
    let mut tasks = Vec::new();
    let mut kept = Vec::new();
    for (number, (client, publisher)) in (0u64..).zip(clients) {
        kept.push(client);
        tasks.push(tokio::spawn(publish(publisher, Arc::clone(&load), number << 32)));
    }
    tokio::time::sleep_until(warm.into()).await;
    let (at_warm, meter) = (server.metrics()?, Meter::begin(server.id()));
    if arguments.messages.is_none() {
        tokio::time::sleep_until(end.into()).await;
    }
    let at_end = if arguments.messages.is_none() { Some((server.metrics()?, meter.used())) } else { None };
    let mut all = Tally { replies: histogram(), acknowledged: 0, last: None };
    for task in tasks {
        let tally = task.await.map_err(|error| io("a publisher")(std::io::Error::other(error)))??;
        all.replies.add(&tally.replies).map_err(|error| Error::Wrong(error.to_string()))?;
        all.acknowledged += tally.acknowledged;
        all.last = all.last.max(tally.last);
    }
    let (at_end, used) = match at_end {
        Some(known) => known,
        None => (server.metrics()?, meter.used()),
    };
    let wall_s = all.last.map_or(0.0, |last| last.duration_since(warm).as_secs_f64());
    check("messages stored", stored(&kept[0]).await? - before, all.acknowledged)?;
    for client in kept {
        client.close().await.doing("closing")?;
    }
    summary(&all, wall_s, used, &at_warm, &at_end)
}

fn summary(all: &Tally, wall_s: f64, used: Used, at_warm: &Metrics, at_end: &Metrics) -> Result<Run> {
    let syncs = at_end.since(at_warm, "arioso_journal_syncs_total")?;
    let bytes = at_end.since(at_warm, "arioso_journal_bytes_total")?;
    let busy = at_end.since(at_warm, "arioso_publish_busy_total")?;
    let stored = at_end.since(at_warm, "arioso_replies_total")? - busy;
    let messages = all.replies.len();
    Ok(Run {
        messages,
        msgs_per_s: messages as f64 / wall_s,
        sync_bytes_mean: bytes / syncs,
        sync_messages_mean: stored / syncs,
        busy,
        syncs_per_s: syncs / used.wall_s,
        replies: Latency::of(&all.replies),
        used,
        limit: SyncLimit { append_bytes: 0, per_s: 0.0, latency: Latency::of(&histogram()) },
        ratio: f64::NAN,
    })
}

/// Messages the server has.
async fn stored(client: &Client) -> Result<u64> {
    let (mut messages, mut after) = (0, String::new());
    loop {
        let page = client.topics("**", &after, 10_000).await.doing("listing topics")?;
        messages += page.iter().map(|row| row.messages).sum::<u64>();
        match page.iter().last() {
            Some(last) if !page.is_last() => after = last.topic.to_string(),
            _ => return Ok(messages),
        }
    }
}

/// A block that was sent.
struct Sent {
    at: Instant,
    messages: u64,
}

/// Keeps the window full until the end, then waits for what is unanswered.
async fn publish(publisher: Publisher, load: Arc<Load>, first: u64) -> Result<Tally> {
    let mut topics = Vec::with_capacity(load.topics.len());
    for name in load.topics.names() {
        topics.push(publisher.topic(name).doing("naming a topic")?);
    }
    let mut source = Source { topics, payload: Payload::new(load.size), number: first };
    let mut tally = Tally { replies: histogram(), acknowledged: 0, last: None };
    let mut unanswered: VecDeque<(Sent, Receipt)> = VecDeque::new();
    let mut block = publisher.block(AckLevel::Durable);
    let mut in_flight = 0;
    loop {
        let mut now = Instant::now();
        while now < load.end && in_flight + load.block <= load.window {
            let messages = source.fill(&mut block, &load)?;
            if messages == 0 {
                break;
            }
            let receipt = publisher.try_send_many(&mut block).doing("publishing")?;
            in_flight += messages;
            unanswered.push_back((Sent { at: now, messages }, receipt));
        }
        let Some((sent, receipt)) = unanswered.pop_front() else { break };
        receipt.await.doing("publishing")?;
        now = Instant::now();
        in_flight -= sent.messages;
        tally.answered(&load, &sent, now);
        while let Some((sent, receipt)) = unanswered.pop_front() {
            match receipt.try_wait() {
                Ok(answer) => {
                    answer.doing("publishing")?;
                    in_flight -= sent.messages;
                    tally.answered(&load, &sent, now);
                }
                Err(receipt) => {
                    unanswered.push_front((sent, receipt));
                    break;
                }
            }
        }
    }
    publisher.close().await.doing("closing a publisher")?;
    Ok(tally)
}

/// Where a publisher's messages come from.
struct Source {
    topics: Vec<TopicId>,
    payload: Payload,
    number: u64,
}

impl Source {
    /// Fills a block with as many messages as it has and may still be sent; returns how many.
    fn fill(&mut self, block: &mut RecordBlock, load: &Load) -> Result<u64> {
        let take = |left: u64| Some(left - left.min(load.block));
        let left = load.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or_default();
        let messages = left.min(load.block);
        for _ in 0..messages {
            self.number += 1;
            let topic = self.topics[load.draws.get(self.number.wrapping_mul(7)) as usize];
            let message = Message::new(self.payload.numbered(self.number));
            if !block.push(topic, &message).doing("publishing")? {
                return Err(Error::Use(format!("--block {}: {} bytes fit no block", load.block, load.size)));
            }
        }
        Ok(messages)
    }
}

impl Tally {
    fn answered(&mut self, load: &Load, sent: &Sent, now: Instant) {
        self.acknowledged += sent.messages;
        if now >= load.warm && now < load.end {
            let took = now.duration_since(sent.at).as_nanos();
            self.replies.saturating_record_n(u64::try_from(took).unwrap_or(u64::MAX), sent.messages);
            self.last = Some(now);
        }
    }
}

fn tell(report: &mut Report, arguments: &PublishArgs, many: &[Run], single: &[Run]) {
    let shape = format!("{} publishers, window {}", arguments.publishers, arguments.window);
    let mut table =
        Table::new("durable publishing: median (min-max) of the runs", &["", &shape, "1 publisher, window 1"]);
    let mut row = |name: &str, of: &dyn Fn(&Run) -> f64| {
        let cell = |runs: &[Run]| Spread::of(runs.iter().map(of)).text();
        table.row([name.to_string(), cell(many), cell(single)]);
    };
    row("messages/s", &|run| run.msgs_per_s);
    row("messages a sync", &|run| run.sync_messages_mean);
    row("bytes a sync", &|run| run.sync_bytes_mean);
    row("syncs/s", &|run| run.syncs_per_s);
    row("messages answered busy", &|run| run.busy);
    row("reply mean us", &|run| run.replies.mean_us);
    row("reply p50 us", &|run| run.replies.p50_us);
    row("reply p99 us", &|run| run.replies.p99_us);
    row("reply p99.9 us", &|run| run.replies.p999_us);
    row("server CPU s/s", &|run| run.used.server_cpu_s / run.used.wall_s);
    row("client CPU s/s", &|run| run.used.client_cpu_s / run.used.wall_s);
    row("others CPU s/s", &|run| run.used.others_cpu_s / run.used.wall_s);
    row("server CPU us a message", &|run| run.used.server_cpu_s * 1e6 / run.messages as f64);
    row("client CPU us a message", &|run| run.used.client_cpu_s * 1e6 / run.messages as f64);
    row("limit: appends/s of as many bytes", &|run| run.limit.per_s);
    row("limit: mean us", &|run| run.limit.latency.mean_us);
    row("of the limit", &|run| run.ratio);
    row("reply mean / sync mean", &|run| run.replies.mean_us / run.limit.latency.mean_us);
    report.tables.push(table);
    let ratio = Spread::of(many.iter().map(|run| run.ratio));
    let reply = Spread::of(single.iter().map(|run| run.replies.mean_us / run.limit.latency.mean_us));
    let mut budgets = Table::new("budgets", &["what", "budget", "measured", "held"]);
    let held = |yes: bool| if yes { "yes" } else { "no" }.to_string();
    let row = ["messages/s of what append + fdatasync allows".into(), format!(">= {RATIO_MIN}"), ratio.text()];
    budgets.row(row.into_iter().chain([held(ratio.median >= RATIO_MIN)]));
    let row = ["window 1: mean reply in syncs".into(), format!("<= {REPLY_RATIO_MAX}"), reply.text()];
    budgets.row(row.into_iter().chain([held(reply.median <= REPLY_RATIO_MAX)]));
    report.tables.push(budgets);
    report.set("messages", many.iter().map(|run| run.messages).sum::<u64>());
    report.set("msgs_per_s", Spread::of(many.iter().map(|run| run.msgs_per_s)));
    report.set("limit_ratio", ratio);
    report.set("window_1_messages", single.iter().map(|run| run.messages).sum::<u64>());
    report.set("window_1_reply_ratio", reply);
    report.set("runs", many);
    report.set("window_1_runs", single);
}
