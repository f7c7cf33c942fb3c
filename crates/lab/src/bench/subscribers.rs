//! `arioso bench subscribers`: subscriptions of very many filters, very many subscriptions, and what those cost that match little.
//!
//! ```text
//!  one subscription, 10,000 filters ─┐
//!  1,000 subscriptions, 100 each ────┤ recover from the tip: every message, once, in order
//!  4 / 400 / 4,000 that match little ┤ CPU of the server while the same input comes in
//!  300,000 idle on 1,000 connections ┘ the same, and each of some of them gets its message at last
//! ```

use std::time::{Duration, Instant};

use arioso::{AckLevel, Begin};
use arioso_client::{Client, Delivery, Message, Options, Subscribe, Subscription};
use clap::Args;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::load::{Loaded, Wanted, load_drawn};
use super::machine::{Meter, Used};
use super::report::{Report, Table, figure};
use super::server::{Place, Server};
use super::workload::{Topics, number_of};
use super::{Doing, Error, Result, check, io};

/// The server may use so many times the CPU when those who match little are a thousand times as many.
const GROWTH_MAX: f64 = 2.0;
/// Topics of the stream that is recovered.
const TOPICS: usize = 20_000;
const MESSAGES: u64 = 200_000;
const PAYLOAD_BYTES: usize = 100;
/// Subscriptions of one connection.
const EACH_MAX: usize = 300;
/// Messages of one publish.
const BLOCK: u32 = 100;
/// Idle subscriptions that get a message at the end.
const PROBES: usize = 100;

/// Flags of `bench subscribers`.
#[derive(Clone, Debug, Args)]
pub struct SubscribersArgs {
    /// Filters of the one subscription that has many
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub filters: usize,
    /// Subscriptions of 100 filters
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub subscriptions: usize,
    /// Idle subscriptions
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub idle: usize,
    /// Their connections
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub connections: usize,
    /// Numbers of subscriptions that match little
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [4, 400, 4_000])]
    pub growth: Vec<usize>,
    /// Messages published a second
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub rate: u32,
    /// Seconds of publishing for each figure
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seconds: u32,
    /// Where.
    #[command(flatten)]
    pub place: Place,
}

/// Subscriptions while messages come in that few of them match.
#[derive(Clone, Debug, Serialize)]
struct Crowd {
    subscriptions: usize,
    connections: usize,
    subscribing_s: f64,
    published: u64,
    per_s: f64,
    used: Used,
    /// Server CPU seconds a second.
    server_cpu: f64,
    rss_bytes: u64,
    /// From the publish of a message for each of some of them until all have theirs.
    probes_ms: f64,
}

/// What was recovered.
#[derive(Clone, Debug, Serialize)]
struct Recovered {
    subscriptions: usize,
    filters: usize,
    messages: u64,
    wall_s: f64,
    used: Used,
}

/// Runs the bench.
pub fn run(arguments: &SubscribersArgs) -> Result<Report> {
    if arguments.filters > TOPICS || arguments.connections == 0 || arguments.rate < BLOCK || arguments.seconds == 0 {
        return Err(Error::Use(format!(
            "--filters is {TOPICS} or less, --connections and --seconds 1 or more, --rate {BLOCK} or more"
        )));
    }
    let folder = arguments.place.folder()?;
    let flags = arguments.place.flags(&[
        ("publish-window-messages", super::load::LOAD_WINDOW.to_string()),
        ("connections-max", (arguments.connections + 100).to_string()),
    ])?;
    let server = Server::start(folder.path(), &flags)?;
    let topics = Topics::zipf(TOPICS, 0.0, 42);
    let loaded = load_drawn(&server.listen, &topics, MESSAGES, PAYLOAD_BYTES)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(io("a runtime"))?;
    runtime
        .block_on(async {
            let one = recover(&server, &topics, &loaded, 1, arguments.filters).await?;
            let many = recover(&server, &topics, &loaded, arguments.subscriptions, 100).await?;
            let mut crowds = Vec::new();
            for count in &arguments.growth {
                crowds.push(crowd(arguments, &server, *count, count.div_ceil(EACH_MAX)).await?);
            }
            crowds.push(crowd(arguments, &server, arguments.idle, arguments.connections).await?);
            Ok::<_, Error>((one, many, crowds))
        })
        .and_then(|(one, many, crowds)| {
            server.stop()?;
            Ok(tell(arguments, &[one, many], &crowds))
        })
}

async fn connect(server: &Server, name: &str) -> Result<Client> {
    let options = Options { name: name.into(), ..Options::default() };
    Client::connect(server.listen.clone(), options).await.doing("connecting")
}

fn failed(what: &'static str) -> impl FnOnce(tokio::task::JoinError) -> Error {
    move |error| io(what)(std::io::Error::other(error))
}

/// So many subscriptions of so many topics each recover at once.
async fn recover(
    server: &Server,
    topics: &Topics,
    loaded: &Loaded,
    subscriptions: usize,
    filters: usize,
) -> Result<Recovered> {
    let mut clients = Vec::new();
    for _ in 0..subscriptions.div_ceil(100) {
        clients.push(connect(server, "bench-filters").await?);
    }
    let meter = Meter::begin(server.id());
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..subscriptions {
        // A stride without a common factor: the topics of one lie all over the tree.
        let picked: Vec<u32> = (0..filters).map(|at| ((number * filters + at) * 7_919 % TOPICS) as u32).collect();
        let mut is_picked = vec![false; TOPICS];
        picked.iter().for_each(|topic| is_picked[*topic as usize] = true);
        let wanted = loaded.part(|topic| is_picked[topic as usize]);
        let names: Vec<String> = picked.iter().map(|topic| topics.name(*topic).to_owned()).collect();
        let subscribe = Subscribe { until_end: true, ..Subscribe::new(names).from(Begin::Start) };
        let subscription = clients[number / 100].subscribe(subscribe).await.doing("subscribing")?;
        tasks.spawn(take_all(subscription, wanted));
    }
    let mut messages = 0;
    while let Some(taken) = tasks.join_next().await {
        messages += taken.map_err(failed("a subscription"))??;
    }
    let recovered =
        Recovered { subscriptions, filters, messages, wall_s: began.elapsed().as_secs_f64(), used: meter.used() };
    for client in clients {
        client.close().await.doing("closing")?;
    }
    Ok(recovered)
}

/// Everything until the end; checks count, sum and order.
async fn take_all(mut subscription: Subscription, wanted: Wanted) -> Result<u64> {
    let (mut got, mut last) = (Wanted::default(), 0);
    while let Some(delivery) = subscription.next().await.doing("recovering")? {
        let Delivery::Batch(batch) = delivery else { continue };
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
    check("what a subscription recovered", got, wanted)?;
    Ok(got.messages)
}

/// So many subscriptions wait while messages come in that none of them wants; then some get one each.
async fn crowd(arguments: &SubscribersArgs, server: &Server, count: usize, connections: usize) -> Result<Crowd> {
    let began = Instant::now();
    let mut clients = Vec::new();
    let mut subscriptions = Vec::with_capacity(count);
    for number in 0..connections {
        let client = connect(server, "bench-crowd").await?;
        for at in (number..count).step_by(connections) {
            let filter = format!("idle/p{}/t{at}", at / 100);
            subscriptions.push((at, client.subscribe(Subscribe::new([filter])).await.doing("subscribing")?));
        }
        clients.push(client);
    }
    let subscribing_s = began.elapsed().as_secs_f64();
    let publisher = connect(server, "bench-publisher").await?;
    publish(&publisher, arguments, 1).await?;
    let meter = Meter::begin(server.id());
    let began = Instant::now();
    let published = publish(&publisher, arguments, arguments.seconds).await?;
    let per_s = published as f64 / began.elapsed().as_secs_f64();
    let used = meter.used();
    let rss_bytes = server.rss_bytes();
    let began = Instant::now();
    let mut probes = JoinSet::new();
    let sender = publisher.publisher(None).await.doing("opening a publisher")?;
    let step = count.div_ceil(PROBES);
    for (at, mut subscription) in subscriptions {
        if at % step != 0 {
            // It has waited long enough.
            drop(subscription);
            continue;
        }
        let topic = format!("idle/p{}/t{at}", at / 100);
        sender.send(&topic, Message::new(b"at last")).await.doing("publishing")?.await.doing("publishing")?;
        probes.spawn(async move {
            loop {
                match subscription.next().await.doing("waiting")? {
                    Some(Delivery::Batch(batch)) => return Ok(batch.len() as u64),
                    Some(_) => {}
                    None => return Err(Error::Wrong("an idle subscription ended".into())),
                }
            }
        });
    }
    let mut got = 0;
    while let Some(probe) = probes.join_next().await {
        got += probe.map_err(failed("an idle subscription"))??;
    }
    let probes_ms = began.elapsed().as_secs_f64() * 1e3;
    check("messages of idle subscriptions", got, count.div_ceil(step) as u64)?;
    sender.close().await.doing("closing a publisher")?;
    publisher.close().await.doing("closing")?;
    for client in clients {
        client.close().await.doing("closing")?;
    }
    let server_cpu = used.server_cpu_s / used.wall_s;
    Ok(Crowd {
        subscriptions: count,
        connections,
        subscribing_s,
        published,
        per_s,
        used,
        server_cpu,
        rss_bytes,
        probes_ms,
    })
}

/// Publishes at the rate for so long; the last of it is durable. How many messages that were.
async fn publish(client: &Client, arguments: &SubscribersArgs, seconds: u32) -> Result<u64> {
    let publisher = client.publisher(None).await.doing("opening a publisher")?;
    let topics = (0..1_000).map(|topic| publisher.topic(&format!("busy/p{}/t{topic}", topic / 10)));
    let topics = topics.collect::<std::result::Result<Vec<_>, _>>().doing("topics")?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) * BLOCK / arguments.rate);
    let mut block = publisher.block(AckLevel::Durable);
    let payload = [b'x'; PAYLOAD_BYTES];
    let blocks = u64::from(arguments.rate) * u64::from(seconds) / u64::from(BLOCK);
    let mut last = None;
    for number in 0..blocks {
        ticks.tick().await;
        for at in 0..u64::from(BLOCK) {
            let topic = topics[((number * u64::from(BLOCK) + at) * 7 % 1_000) as usize];
            block.push(topic, &Message::new(&payload)).doing("publishing")?;
        }
        last = Some(publisher.send_many(&mut block).await.doing("publishing")?);
    }
    if let Some(receipt) = last {
        receipt.await.doing("publishing")?;
    }
    publisher.close().await.doing("closing a publisher")?;
    Ok(blocks * u64::from(BLOCK))
}

fn tell(arguments: &SubscribersArgs, recovered: &[Recovered], crowds: &[Crowd]) -> Report {
    let mut report = Report::new("subscribers");
    report.parameter("rate", arguments.rate);
    report.parameter("seconds", arguments.seconds);
    report.parameter("settings", &arguments.place.settings);
    let head = ["subscriptions", "filters each", "messages", "seconds", "server CPU s", "clients' CPU s"];
    let mut table = Table::new("many filters: recovered from the tip, every message checked", &head);
    for row in recovered {
        table.row([
            figure(row.subscriptions as f64),
            figure(row.filters as f64),
            figure(row.messages as f64),
            figure(row.wall_s),
            figure(row.used.server_cpu_s),
            figure(row.used.client_cpu_s),
        ]);
    }
    report.tables.push(table);
    let head = [
        "subscriptions",
        "connections",
        "subscribing s",
        "messages/s in",
        "server CPU s/s",
        "clients' CPU s/s",
        "others CPU s/s",
        "server RSS MB",
        "100 get theirs, ms",
    ];
    let mut table = Table::new("those that match little, while messages come in", &head);
    for row in crowds {
        table.row([
            figure(row.subscriptions as f64),
            figure(row.connections as f64),
            figure(row.subscribing_s),
            figure(row.per_s),
            figure(row.server_cpu),
            figure(row.used.client_cpu_s / row.used.wall_s),
            figure(row.used.others_cpu_s / row.used.wall_s),
            figure(row.rss_bytes as f64 / 1e6),
            figure(row.probes_ms),
        ]);
    }
    report.tables.push(table);
    let mut budgets = Table::new("budgets", &["what", "budget", "measured", "held"]);
    let grown = &crowds[..arguments.growth.len()];
    if let (Some(few), Some(many)) = (grown.first(), grown.last()) {
        let growth = many.server_cpu / few.server_cpu.max(0.01);
        let held = if growth < GROWTH_MAX { "yes" } else { "no" };
        let name = format!("server CPU, {} subscriptions against {}", many.subscriptions, few.subscriptions);
        budgets.row([name, format!("< {}", figure(GROWTH_MAX)), figure(growth), held.into()]);
        report.set("growth", growth);
    }
    report.tables.push(budgets);
    report.set("messages", recovered.iter().map(|row| row.messages).sum::<u64>());
    report.set("recovered", recovered);
    report.set("crowds", crowds);
    report
}
