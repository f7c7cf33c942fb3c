//! The bus under a runner that gives other systems the same job: `arioso bench peer-load|peer-replay|peer-pub`. Each prints one
//! JSON line in the runner's words; docs/peers.md has the commands.

mod dataset;
mod publish;

use std::path::PathBuf;
use std::time::Instant;

use arioso::{AckLevel, Begin, Message};
use clap::Args;

pub use publish::{PeerPubArgs, publish};

use super::load::connect;
use super::machine::cpu_s;
use super::report::Report;
use super::{Doing, Error, Result, check};
use dataset::{Dataset, Scenario, Seen};

/// Flags of `bench peer-load`.
#[derive(Clone, Debug, Args)]
pub struct PeerLoadArgs {
    /// Address of the server
    #[arg(long, value_name = "ADDR")]
    pub addr: String,
    /// The data set
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
}

/// Flags of `bench peer-replay`.
#[derive(Clone, Debug, Args)]
pub struct PeerReplayArgs {
    /// Address of the server
    #[arg(long, value_name = "ADDR")]
    pub addr: String,
    /// The data set
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// What is read: mid, ten, subtree, big, all
    #[arg(long, value_name = "NAME")]
    pub scenario: String,
}

/// A report that is nothing but its JSON line.
fn bare(name: &'static str) -> Report {
    Report { bare: true, ..Report::new(name) }
}

/// Publishes the data set in its order.
pub fn load(arguments: &PeerLoadArgs) -> Result<Report> {
    let dataset = Dataset::open(&arguments.file)?;
    let began = Instant::now();
    let server = connect(&arguments.addr)?;
    let doing = "loading";
    let publisher = server.publisher(None).doing(doing)?;
    let ids = dataset.topics.iter().map(|topic| publisher.topic(&topic.name).doing(doing));
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let mut block = publisher.block(AckLevel::Durable);
    let mut receipts = std::collections::VecDeque::new();
    let mut messages = 0u64;
    dataset.read(|topic, payload| {
        let id = ids[topic as usize];
        if !block.push(id, &Message::new(payload)).doing(doing)? {
            receipts.push_back(publisher.send_many(&mut block).doing(doing)?);
            block.push(id, &Message::new(payload)).doing(doing)?;
        }
        while receipts.len() > 64
            && let Some(receipt) = receipts.pop_front()
        {
            receipt.wait().doing(doing)?;
        }
        messages += 1;
        Ok(())
    })?;
    if !block.is_empty() {
        receipts.push_back(publisher.send_many(&mut block).doing(doing)?);
    }
    for receipt in receipts {
        receipt.wait().doing(doing)?;
    }
    let wall_s = began.elapsed().as_secs_f64();
    publisher.close().doing(doing)?;
    server.close().doing(doing)?;
    check("messages", messages, dataset.messages)?;
    let mut report = bare("peer-load");
    report.set("messages", messages);
    report.set("wall_s", wall_s);
    report.set("msgs_per_s", messages as f64 / wall_s);
    Ok(report)
}

/// Reads a scenario's part of the data set and checks count, order and sum.
pub fn replay(arguments: &PeerReplayArgs) -> Result<Report> {
    let dataset = Dataset::open(&arguments.file)?;
    let scenario = Scenario::of(&dataset, &arguments.scenario)?;
    let filters: Vec<&str> = scenario.filters.iter().map(String::as_str).collect();
    let cpu_before = cpu_s(std::process::id());
    let doing = "reading";
    let mut seen = Seen::default();
    let mut first_s = None;
    let began = Instant::now();
    let server = connect(&arguments.addr)?;
    let mut subscription = server.subscribe(filters, Begin::Start, true).doing(doing)?;
    let mut wall_s = 0.0;
    while let Some(batch) = subscription.next_batch().doing(doing)? {
        first_s.get_or_insert_with(|| began.elapsed().as_secs_f64());
        for message in batch.messages() {
            seen.see(message.doing(doing)?.payload())?;
        }
        wall_s = began.elapsed().as_secs_f64();
    }
    let client_cpu_s = cpu_s(std::process::id()) - cpu_before;
    server.close().doing(doing)?;
    let mut report = bare("peer-replay");
    report.set("got", seen.messages);
    report.set("expect", scenario.messages);
    report.set("ok", seen.is(&scenario));
    report.set("disorder", seen.disorder);
    report.set("bytes", seen.bytes);
    report.set("wall_s", wall_s);
    report.set("first_s", first_s.unwrap_or(-1.0));
    report.set("msgs_per_s", seen.messages as f64 / wall_s);
    report.set("cli_cpu_s", client_cpu_s);
    Ok(report)
}

/// A message that is not of the data set.
fn foreign(payload: &[u8]) -> Error {
    Error::Wrong(format!("a payload of {} bytes is not of the data set", payload.len()))
}
