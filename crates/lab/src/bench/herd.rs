//! `arioso bench herd`: many clients connect at the same instant and recover a part of the stream each, while publishing goes on.
//!
//! Told: how long until all are done, against the same bytes through one loopback connection in the same run; the recovery
//! time of each; and what a live message takes from its publish to its delivery, before the herd and during it. Once with a tip
//! that holds the stream, once with a tip of a quarter of it, out of which the herd falls and goes on from the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arioso::Begin;
use arioso_client::{Client, Delivery, Message, Options, Subscribe, Subscription};
use clap::Args;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::limits::loopback_s;
use super::load::{Loaded, Wanted, load_drawn};
use super::machine::{Meter, Used};
use super::report::{Latency, Report, Spread, Table, figure, histogram};
use super::server::{Place, Server};
use super::workload::{PAYLOAD_BYTES_MIN, Topics, number_of};
use super::{Doing, Error, Result, check, io};

/// All are done within so many times what the bytes take through loopback.
const COPY_FACTOR_MAX: f64 = 3.0;
/// Topics: 100 groups of 100, 1 % of the messages each.
const TOPICS: usize = 10_000;
const GROUPS: usize = 100;
/// Where the live messages go.
const LIVE_TOPIC: &str = "live/now";
/// Live messages are measured for this long before the herd comes.
const QUIET: Duration = Duration::from_secs(1);

/// Flags of `bench herd`.
#[derive(Clone, Debug, Args)]
pub struct HerdArgs {
    /// Clients that connect at once, each for 1 % of the stream
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub clients: usize,
    /// Messages in the stream
    #[arg(long, value_name = "N", default_value_t = 600_000)]
    pub messages: u64,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub size: usize,
    /// Live messages a second meanwhile
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub rate: u32,
    /// Herds from each tip
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub runs: u32,
    /// Where.
    #[command(flatten)]
    pub place: Place,
}

/// One herd.
#[derive(Clone, Debug, Serialize)]
struct Herd {
    tip: &'static str,
    messages: u64,
    record_bytes: u64,
    wall_s: f64,
    loopback_s: f64,
    ratio: f64,
    recovery: Latency,
    live_quiet: Latency,
    live: Latency,
    used: Used,
    falls: f64,
    rss_bytes: u64,
}

/// Runs the bench.
pub fn run(arguments: &HerdArgs) -> Result<Report> {
    if arguments.clients == 0 || arguments.runs == 0 || arguments.rate == 0 || arguments.messages < 10_000 {
        return Err(Error::Use("--clients, --runs and --rate are 1 or more, --messages 10000 or more".into()));
    }
    if arguments.size < PAYLOAD_BYTES_MIN {
        return Err(Error::Use(format!("--size {}: {PAYLOAD_BYTES_MIN} bytes or more are wanted", arguments.size)));
    }
    let record_bytes = (arguments.size as u64 + 40).next_multiple_of(8);
    let stream_bytes = arguments.messages * record_bytes;
    let mut herds = Vec::new();
    for (name, tip_bytes) in [("whole stream", stream_bytes * 3 / 2), ("a quarter", stream_bytes / 4)] {
        let folder = arguments.place.folder()?;
        let flags = arguments.place.flags(&[
            ("tip-bytes", tip_bytes.max(8 << 20).to_string()),
            ("publish-window-messages", super::load::LOAD_WINDOW.to_string()),
        ])?;
        let server = Server::start(folder.path(), &flags)?;
        let topics = Topics::zipf(TOPICS, 0.0, 42);
        let loaded = load_drawn(&server.listen, &topics, arguments.messages, arguments.size)?;
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(io("a runtime"))?;
        for number in 0..=arguments.runs {
            let herd = runtime.block_on(herd(arguments, &server, &topics, &loaded, name))?;
            // The first herd is not counted: buffers and the selections' memory grow in it.
            if number > 0 {
                herds.push(herd);
            }
        }
        server.stop()?;
    }
    Ok(tell(arguments, &herds))
}

async fn connect(server: &str, name: String) -> Result<Client> {
    Client::connect(server.to_owned(), Options { name, ..Options::default() }).await.doing("connecting")
}

async fn herd(
    arguments: &HerdArgs,
    server: &Server,
    topics: &Topics,
    loaded: &Loaded,
    tip: &'static str,
) -> Result<Herd> {
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = connect(&server.listen, "bench-live".into()).await?;
    let subscription = watcher.subscribe(Subscribe::new([LIVE_TOPIC])).await.doing("subscribing")?;
    let herding = Arc::new(AtomicBool::new(false));
    let live = tokio::spawn(watch(subscription, Arc::clone(&herding)));
    let publisher = connect(&server.listen, "bench-publisher".into()).await?;
    let publishing = tokio::spawn(publish(publisher, arguments.rate, Arc::clone(&stop)));
    tokio::time::sleep(QUIET).await;
    let falls = server.metrics()?.get("arioso_subscription_falls_total")?;
    let start = Arc::new(Barrier::new(arguments.clients + 1));
    let mut clients = JoinSet::new();
    for number in 0..arguments.clients {
        let group = format!("bench/g{:02}/", number % GROUPS);
        let wanted = loaded.part(|topic| topics.name(topic).starts_with(&group));
        let (listen, start) = (server.listen.clone(), Arc::clone(&start));
        clients.spawn(recover(listen, format!("bench-herd-{number}"), format!("{group}**"), wanted, start));
    }
    let meter = Meter::begin(server.id());
    herding.store(true, Ordering::Relaxed);
    start.wait().await;
    let began = Instant::now();
    let (mut recovery, mut messages, mut record_bytes) = (histogram(), 0, 0);
    while let Some(done) = clients.join_next().await {
        let (took, wanted, bytes) = done.map_err(|error| io("a client")(std::io::Error::other(error)))??;
        recovery.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        messages += wanted;
        record_bytes += bytes;
    }
    let wall_s = began.elapsed().as_secs_f64();
    let used = meter.used();
    let rss_bytes = server.rss_bytes();
    stop.store(true, Ordering::Relaxed);
    let published = publishing.await.map_err(|error| io("the publisher")(std::io::Error::other(error)))??;
    let (live_quiet, live) = live.await.map_err(|error| io("the watcher")(std::io::Error::other(error)))??;
    check("live messages delivered", live_quiet.count + live.count, published)?;
    watcher.close().await.doing("closing")?;
    let falls = server.metrics()?.get("arioso_subscription_falls_total")? - falls;
    let loopback_s = loopback_s(record_bytes)?;
    let (recovery, ratio) = (Latency::of(&recovery), wall_s / loopback_s);
    Ok(Herd {
        tip,
        messages,
        record_bytes,
        wall_s,
        loopback_s,
        ratio,
        recovery,
        live_quiet,
        live,
        used,
        falls,
        rss_bytes,
    })
}

/// Connects, subscribes, takes everything there was; checks count, sum and order. Time, messages, bytes.
async fn recover(
    listen: String,
    name: String,
    filter: String,
    wanted: Wanted,
    start: Arc<Barrier>,
) -> Result<(Duration, u64, u64)> {
    start.wait().await;
    let began = Instant::now();
    let client = connect(&listen, name).await?;
    let subscribe = Subscribe { until_end: true, ..Subscribe::new([filter]).from(Begin::Start) };
    let mut subscription = client.subscribe(subscribe).await.doing("subscribing")?;
    let (mut got, mut last, mut bytes) = (Wanted::default(), 0, 0);
    while let Some(delivery) = subscription.next().await.doing("recovering")? {
        let Delivery::Batch(batch) = delivery else { continue };
        bytes += batch.records().len() as u64;
        for message in batch.messages() {
            let number = number_of(message.doing("recovering")?.payload()).unwrap_or(0);
            if number <= last {
                return Err(Error::Wrong(format!("message {number} came behind message {last}")));
            }
            last = number;
            got.messages += 1;
            got.sum = got.sum.wrapping_add(number);
        }
    }
    let took = began.elapsed();
    check("what a client of the herd recovered", got, wanted)?;
    drop(subscription);
    client.close().await.doing("closing")?;
    Ok((took, got.messages, bytes))
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(0))
}

/// Publishes at a steady rate until it is told to stop; zero ends the watcher. How many there were.
async fn publish(client: Client, rate: u32, stop: Arc<AtomicBool>) -> Result<u64> {
    let publisher = client.publisher(None).await.doing("opening a publisher")?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let receipt = publisher.send(LIVE_TOPIC, Message::new(&now_ns().to_le_bytes())).await.doing("publishing")?;
        drop(receipt);
        sent += 1;
    }
    let last = publisher.send(LIVE_TOPIC, Message::new(&0u64.to_le_bytes())).await.doing("publishing")?;
    last.await.doing("publishing")?;
    publisher.close().await.doing("closing a publisher")?;
    client.close().await.doing("closing")?;
    Ok(sent)
}

/// From publish to delivery, before the herd and during it.
async fn watch(mut subscription: Subscription, herding: Arc<AtomicBool>) -> Result<(Latency, Latency)> {
    let (mut quiet, mut busy) = (histogram(), histogram());
    while let Some(delivery) = subscription.next().await.doing("watching")? {
        let Delivery::Batch(batch) = delivery else { continue };
        for message in batch.messages() {
            let message = message.doing("watching")?;
            let sent = message.payload().try_into().map_or(0, u64::from_le_bytes);
            if sent == 0 {
                return Ok((Latency::of(&quiet), Latency::of(&busy)));
            }
            let took = now_ns().saturating_sub(sent).max(1);
            let of = if herding.load(Ordering::Relaxed) { &mut busy } else { &mut quiet };
            of.saturating_record(took);
        }
    }
    Err(Error::Wrong("the live subscription ended".into()))
}

fn tell(arguments: &HerdArgs, herds: &[Herd]) -> Report {
    let mut report = Report::new("herd");
    report.parameter("clients", arguments.clients);
    report.parameter("messages", arguments.messages);
    report.parameter("size", arguments.size);
    report.parameter("rate", arguments.rate);
    report.parameter("runs", arguments.runs);
    report.parameter("settings", &arguments.place.settings);
    let head = ["", "tip: whole stream", "tip: a quarter"];
    let mut table = Table::new("a herd: median (min-max) of the runs", &head);
    let of = |tip: &str, of: &dyn Fn(&Herd) -> f64| Spread::of(herds.iter().filter(|herd| herd.tip == tip).map(of));
    let mut row = |name: &str, value: &dyn Fn(&Herd) -> f64| {
        table.row([name.to_string(), of("whole stream", value).text(), of("a quarter", value).text()]);
    };
    row("MB delivered", &|herd| herd.record_bytes as f64 / 1e6);
    row("seconds until all are done", &|herd| herd.wall_s);
    row("the bytes through loopback, seconds", &|herd| herd.loopback_s);
    row("times loopback", &|herd| herd.ratio);
    row("recovery p50, ms", &|herd| herd.recovery.p50_us / 1e3);
    row("recovery p99, ms", &|herd| herd.recovery.p99_us / 1e3);
    row("recovery max, ms", &|herd| herd.recovery.max_us / 1e3);
    row("publish to delivery before the herd, p99 ms", &|herd| herd.live_quiet.p99_us / 1e3);
    row("publish to delivery in the herd, p50 ms", &|herd| herd.live.p50_us / 1e3);
    row("publish to delivery in the herd, p99 ms", &|herd| herd.live.p99_us / 1e3);
    row("server CPU s", &|herd| herd.used.server_cpu_s);
    row("clients' CPU s", &|herd| herd.used.client_cpu_s);
    row("others CPU s/s", &|herd| herd.used.others_cpu_s / herd.used.wall_s);
    row("fell from the tip to the disk", &|herd| herd.falls);
    row("server RSS MB", &|herd| herd.rss_bytes as f64 / 1e6);
    report.tables.push(table);
    let ratio = of("whole stream", &|herd| herd.ratio);
    let mut budgets = Table::new("budgets", &["what", "budget", "measured", "held"]);
    let held = if ratio.median <= COPY_FACTOR_MAX { "yes" } else { "no" };
    let name = "until all are done, against the bytes through loopback".to_string();
    budgets.row([name, format!("<= {}", figure(COPY_FACTOR_MAX)), ratio.text(), held.into()]);
    report.tables.push(budgets);
    report.set("messages", herds.iter().map(|herd| herd.messages).sum::<u64>());
    report.set("ratio", ratio);
    report.set("herds", herds);
    report
}
