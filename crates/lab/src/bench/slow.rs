//! `arioso bench slow`: many subscribers that take what comes, with and without one that takes nothing. The fast ones must not
//! notice, the server's memory must not either, and the stuck one, asked at last, gets everything.
//!
//! A round publishes so many messages as fast as the fast subscribers take them (none may be further behind than the lead) and
//! lasts until each has all of them. Rounds without and with the stuck subscriber alternate.

use std::sync::Arc;
use std::time::Instant;

use arioso::{AckLevel, Begin};
use arioso_client::{Client, Delivery, Message, Options, Subscribe, Subscription};
use arioso_stream::Sequence;
use clap::Args;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::machine::{Meter, Used};
use super::report::{Report, Spread, Table, figure};
use super::server::{Place, Server};
use super::workload::{PAYLOAD_BYTES_MIN, Payload, number_of};
use super::{Doing, Error, Result, check, io};

/// The fast ones keep at least this part of their rate.
const RATE_RATIO_MIN: f64 = 0.95;
/// Messages that the publisher may be ahead of the fast subscribers.
const LEAD: u32 = 8_192;
/// Messages of one publish.
const BLOCK: u32 = 256;
/// Topics.
const TOPICS: u64 = 64;

/// Flags of `bench slow`.
#[derive(Clone, Debug, Args)]
pub struct SlowArgs {
    /// Subscribers that take what comes
    #[arg(long, value_name = "N", default_value_t = 99)]
    pub fast: u32,
    /// Messages of a round
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub messages: u64,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub size: usize,
    /// Rounds without and with the stuck subscriber
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: u32,
    /// Where.
    #[command(flatten)]
    pub place: Place,
}

/// One round.
#[derive(Clone, Debug, Serialize)]
struct Round {
    stuck: bool,
    wall_s: f64,
    deliveries_per_s: f64,
    used: Used,
    rss_bytes: u64,
    /// Messages that the stuck one got when it was asked at last, and the seconds it took.
    caught_up: Option<(u64, f64)>,
}

/// Runs the bench.
pub fn run(arguments: &SlowArgs) -> Result<Report> {
    if arguments.fast == 0 || arguments.rounds == 0 || arguments.messages < u64::from(BLOCK) {
        return Err(Error::Use(format!("--fast and --rounds are 1 or more, --messages {BLOCK} or more")));
    }
    if arguments.size < PAYLOAD_BYTES_MIN {
        return Err(Error::Use(format!("--size {}: {PAYLOAD_BYTES_MIN} bytes or more are wanted", arguments.size)));
    }
    let folder = arguments.place.folder()?;
    // A tip smaller than a round: the stuck one falls back to the segments.
    let server = Server::start(folder.path(), &arguments.place.flags(&[("tip-bytes", "8MiB".into())])?)?;
    let rss_before = server.rss_bytes();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(io("a runtime"))?;
    let mut rounds = Vec::new();
    let mut next = 1;
    // The first round is not counted: connections, buffers and the tip grow in it.
    for number in 0..=2 * arguments.rounds {
        let stuck = number % 2 == 0 && number > 0;
        let round = runtime.block_on(round(arguments, &server, stuck, next))?;
        next += arguments.messages;
        if number > 0 {
            rounds.push(round);
        }
    }
    let falls = server.metrics()?.get("arioso_subscription_falls_total")?;
    server.stop()?;
    Ok(tell(arguments, rss_before, falls, &rounds))
}

async fn round(arguments: &SlowArgs, server: &Server, stuck: bool, first: u64) -> Result<Round> {
    let client = |name: &str| {
        let options = Options { name: name.into(), ..Options::default() };
        Client::connect(server.listen.clone(), options)
    };
    let publisher = client("bench-slow").await.doing("connecting")?;
    let status = publisher.status().await.doing("status")?;
    let begin = status.settled.next();
    let mut held = None;
    if stuck {
        let client = client("bench-stuck").await.doing("connecting")?;
        let subscription = subscribe(&client, begin).await?;
        held = Some((client, subscription));
    }
    let lead = Arc::new(Semaphore::new((LEAD * arguments.fast) as usize));
    let mut fast = JoinSet::new();
    for number in 0..arguments.fast {
        let client = client(&format!("bench-fast-{number}")).await.doing("connecting")?;
        let subscription = subscribe(&client, begin).await?;
        fast.spawn(take(client, subscription, arguments.messages, Arc::clone(&lead)));
    }
    let meter = Meter::begin(server.id());
    let began = Instant::now();
    publish(&publisher, arguments, first, &lead).await?;
    while let Some(taken) = fast.join_next().await {
        taken.map_err(|error| io("a subscriber")(std::io::Error::other(error)))??;
    }
    let wall_s = began.elapsed().as_secs_f64();
    let used = meter.used();
    let rss_bytes = server.rss_bytes();
    let caught_up = match held {
        None => None,
        Some((client, subscription)) => {
            let began = Instant::now();
            catch_up(client, subscription, first, arguments.messages).await?;
            Some((arguments.messages, began.elapsed().as_secs_f64()))
        }
    };
    publisher.close().await.doing("closing")?;
    let deliveries_per_s = arguments.messages as f64 * f64::from(arguments.fast) / wall_s;
    Ok(Round { stuck, wall_s, deliveries_per_s, used, rss_bytes, caught_up })
}

async fn subscribe(client: &Client, begin: Sequence) -> Result<Subscription> {
    let wanted = Subscribe::new(["slow/**"]).from(Begin::Sequence(begin));
    client.subscribe(wanted).await.doing("subscribing")
}

/// Publishes the messages numbered from `first`, no further ahead of the fast ones than the lead.
async fn publish(client: &Client, arguments: &SlowArgs, first: u64, lead: &Semaphore) -> Result<()> {
    let publisher = client.publisher(None).await.doing("opening a publisher")?;
    let topics = (0..TOPICS).map(|topic| publisher.topic(&format!("slow/t{topic}")));
    let topics = topics.collect::<std::result::Result<Vec<_>, _>>().doing("topics")?;
    let mut payload = Payload::new(arguments.size);
    let mut block = publisher.block(AckLevel::Durable);
    let end = first + arguments.messages;
    let mut number = first;
    let mut last = None;
    while number < end {
        let count = u64::from(BLOCK).min(end - number);
        let permits = u32::try_from(count).unwrap_or(BLOCK) * arguments.fast;
        let room = lead.acquire_many(permits).await.map_err(|error| Error::Wrong(error.to_string()))?;
        room.forget();
        for number in number..number + count {
            let topic = topics[(number % TOPICS) as usize];
            block.push(topic, &Message::new(payload.numbered(number))).doing("publishing")?;
        }
        last = Some(publisher.send_many(&mut block).await.doing("publishing")?);
        number += count;
    }
    if let Some(receipt) = last {
        receipt.await.doing("publishing")?;
    }
    publisher.close().await.doing("closing a publisher")
}

/// Takes messages as they come until it has all of them.
async fn take(client: Client, mut subscription: Subscription, messages: u64, lead: Arc<Semaphore>) -> Result<()> {
    let mut got = 0;
    while got < messages {
        match subscription.next().await.doing("taking")? {
            Some(Delivery::Batch(batch)) => {
                got += batch.len() as u64;
                lead.add_permits(batch.len());
            }
            Some(Delivery::Mark { .. }) => {}
            other => return Err(Error::Wrong(format!("a fast subscriber got {other:?} after {got} messages"))),
        }
    }
    check("messages of a fast subscriber", got, messages)?;
    drop(subscription);
    client.close().await.doing("closing")
}

/// The stuck one, asked at last: every message, once, in order.
async fn catch_up(client: Client, mut subscription: Subscription, first: u64, messages: u64) -> Result<()> {
    let mut next = first;
    while next < first + messages {
        match subscription.next().await.doing("catching up")? {
            Some(Delivery::Batch(batch)) => {
                for message in batch.messages() {
                    let number = number_of(message.doing("catching up")?.payload());
                    check("the stuck one's next message", number, Some(next))?;
                    next += 1;
                }
            }
            Some(Delivery::Mark { .. }) => {}
            other => return Err(Error::Wrong(format!("the stuck one got {other:?} before message {next}"))),
        }
    }
    drop(subscription);
    client.close().await.doing("closing")
}

fn tell(arguments: &SlowArgs, rss_before: u64, falls: f64, rounds: &[Round]) -> Report {
    let mut report = Report::new("slow");
    report.parameter("fast", arguments.fast);
    report.parameter("messages", arguments.messages);
    report.parameter("size", arguments.size);
    report.parameter("rounds", arguments.rounds);
    report.parameter("settings", &arguments.place.settings);
    let of = |stuck: bool, of: &dyn Fn(&Round) -> f64| {
        Spread::of(rounds.iter().filter(|round| round.stuck == stuck).map(of))
    };
    let title = format!("{} fast subscribers: median (min-max) of the rounds", arguments.fast);
    let mut table = Table::new(title, &["", "alone", "with a stuck one"]);
    let mut row = |name: &str, value: &dyn Fn(&Round) -> f64| {
        table.row([name.to_string(), of(false, value).text(), of(true, value).text()]);
    };
    row("deliveries/s", &|round| round.deliveries_per_s);
    row("seconds", &|round| round.wall_s);
    row("server CPU s", &|round| round.used.server_cpu_s);
    row("client CPU s", &|round| round.used.client_cpu_s);
    row("others CPU s/s", &|round| round.used.others_cpu_s / round.used.wall_s);
    row("server RSS MB", &|round| round.rss_bytes as f64 / 1e6);
    report.tables.push(table);
    // Each round against the one before it, so that what else the machine does meets both.
    let ratio = Spread::of(
        rounds.chunks(2).filter(|pair| pair.len() == 2).map(|pair| pair[1].deliveries_per_s / pair[0].deliveries_per_s),
    );
    let mut budgets = Table::new("budgets", &["what", "budget", "measured", "held"]);
    let held = if ratio.median >= RATE_RATIO_MIN { "yes" } else { "no" };
    let name = "rate of the fast ones, with against alone".to_string();
    budgets.row([name, format!(">= {RATE_RATIO_MIN}"), ratio.text(), held.into()]);
    report.tables.push(budgets);
    let mut after = Table::new("the stuck one", &["what", "figure"]);
    let caught: u64 = rounds.iter().filter_map(|round| round.caught_up).map(|(messages, _)| messages).sum();
    let seconds = Spread::of(rounds.iter().filter_map(|round| round.caught_up).map(|(_, seconds)| seconds));
    after.row(["messages it got in the end, all rounds".into(), figure(caught as f64)]);
    after.row(["seconds to catch up".into(), seconds.text()]);
    after.row(["times a subscription fell from tip to disk".into(), figure(falls)]);
    after.row(["server RSS MB before the first round".into(), figure(rss_before as f64 / 1e6)]);
    report.tables.push(after);
    report.set("messages", arguments.messages * rounds.len() as u64);
    report.set("caught_up", caught);
    report.set("rate_ratio", ratio);
    report.set("falls", falls);
    report.set("rss_before_bytes", rss_before);
    report.set("rounds", rounds);
    report
}
