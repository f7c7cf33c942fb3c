//! Durable publishing in the runner's shape: publishers with a connection each, a window of messages in flight, one second that
//! is not counted, then so many that are.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use arioso::AckLevel;
use arioso_client::{Client, Message, Options, Receipt};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::super::report::{Latency, Report, histogram};
use super::super::workload::{PAYLOAD_BYTES_MIN, Payload};
use super::super::{Doing, Error, Result, io};
use super::bare;

/// Not counted at the beginning.
const WARMUP: Duration = Duration::from_secs(1);

/// When a message counts as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Answered {
    /// When it is durable.
    #[default]
    #[value(alias = "default")]
    Durable,
    /// When it has its number.
    Sequenced,
}

/// Flags of `bench peer-pub`.
#[derive(Clone, Debug, Args)]
pub struct PeerPubArgs {
    /// Address of the server
    #[arg(long, value_name = "ADDR")]
    pub addr: String,
    /// Publishers, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub pubs: u32,
    /// Messages each keeps unanswered
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub window: u32,
    /// Counted seconds
    #[arg(long, value_name = "S", default_value_t = 8.0)]
    pub secs: f64,
    /// Bytes of a payload
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub size: usize,
    /// When a message is answered
    #[arg(long, value_enum, default_value_t, ignore_case = true)]
    pub ack: Answered,
}

#[derive(Clone, Copy)]
struct Shape {
    warm: Instant,
    end: Instant,
    window: usize,
    size: usize,
    level: AckLevel,
}

/// Runs it.
pub fn publish(arguments: &PeerPubArgs) -> Result<Report> {
    if arguments.pubs == 0 || arguments.window == 0 || arguments.size < PAYLOAD_BYTES_MIN {
        return Err(Error::Use(format!("--pubs and --window are 1 or more, --size {PAYLOAD_BYTES_MIN} or more")));
    }
    if !(arguments.secs > 0.0 && arguments.secs <= 86_400.0) {
        return Err(Error::Use(format!("--secs {}: seconds from above 0 to 86400 are wanted", arguments.secs)));
    }
    let runtime = if arguments.pubs == 1 {
        Builder::new_current_thread().enable_all().build()
    } else {
        Builder::new_multi_thread().worker_threads(2).enable_all().build()
    };
    runtime.map_err(io("a runtime"))?.block_on(run(arguments))
}

async fn run(arguments: &PeerPubArgs) -> Result<Report> {
    let mut clients = Vec::new();
    for number in 0..arguments.pubs {
        let options =
            Options { name: format!("peer-{number}"), window_messages: arguments.window, ..Options::default() };
        clients.push(Client::connect(arguments.addr.as_str(), options).await.doing("connecting")?);
    }
    let warm = Instant::now() + WARMUP;
    let shape = Shape {
        warm,
        end: warm + Duration::from_secs_f64(arguments.secs),
        window: arguments.window as usize,
        size: arguments.size,
        level: match arguments.ack {
            Answered::Durable => AckLevel::Durable,
            Answered::Sequenced => AckLevel::Sequenced,
        },
    };
    let mut tasks = JoinSet::new();
    for (seed, client) in (0u64..).zip(clients) {
        tasks.spawn(one(client, shape, seed));
    }
    let mut replies = histogram();
    while let Some(done) = tasks.join_next().await {
        let one = done.map_err(|error| io("a publisher")(std::io::Error::other(error)))??;
        replies.add(one).map_err(|error| Error::Wrong(error.to_string()))?;
    }
    let latency = Latency::of(&replies);
    let mut report = bare("peer-pub");
    report.set("messages", latency.count);
    report.set("secs", arguments.secs);
    report.set("msgs_per_s", latency.count as f64 / arguments.secs);
    report.set("p50_us", latency.p50_us);
    report.set("p99_us", latency.p99_us);
    report.set("p999_us", latency.p999_us);
    report.set("max_us", latency.max_us);
    Ok(report)
}

/// One publisher: keeps its window full; the replies' histogram.
async fn one(client: Client, shape: Shape, seed: u64) -> Result<Histogram<u64>> {
    let doing = "publishing";
    let publisher = client.publisher(None).await.doing(doing)?;
    let mut random = SmallRng::seed_from_u64(seed);
    let mut payload = Payload::new(shape.size);
    let mut replies = histogram();
    let mut unanswered: VecDeque<(Instant, Receipt)> = VecDeque::with_capacity(shape.window);
    let mut topic = String::new();
    let mut number = 0;
    loop {
        let sent = Instant::now();
        while sent < shape.end && unanswered.len() < shape.window {
            use std::fmt::Write;
            number += 1;
            let drawn: u32 = random.random();
            topic.clear();
            let (a, b, c) = (drawn % 10, (drawn >> 8) % 100, (drawn >> 20) % 10);
            write!(topic, "pub/s{a}/g{b:02}/t{c}").expect("a string takes everything");
            let message = Message { level: shape.level, ..Message::new(payload.numbered(number)) };
            unanswered.push_back((sent, publisher.try_send(&topic, message).doing(doing)?));
        }
        let Some((sent, receipt)) = unanswered.pop_front() else { break };
        receipt.await.doing(doing)?;
        let now = Instant::now();
        let mut answered = |sent: Instant| {
            if now >= shape.warm && now < shape.end {
                replies.saturating_record(u64::try_from(now.duration_since(sent).as_nanos()).unwrap_or(u64::MAX));
            }
        };
        answered(sent);
        while let Some((sent, receipt)) = unanswered.pop_front() {
            match receipt.try_wait() {
                Ok(answer) => {
                    answer.doing(doing)?;
                    answered(sent);
                }
                Err(receipt) => {
                    unanswered.push_front((sent, receipt));
                    break;
                }
            }
        }
    }
    publisher.close().await.doing(doing)?;
    client.close().await.doing(doing)?;
    Ok(replies)
}
