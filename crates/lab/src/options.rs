//! `arioso lab`: what was typed, what it means, and what is done.

use crate::planners::{self, Demands, NAMES, Over, Question, Row};
use crate::{Error, page, volumes};
use arioso_store::plan::{Aim, Budget, Extent, Plan, StoreId, TopicTree};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Most stores that may be asked for: each is a file.
const STORES_MAX: i64 = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  arioso lab --volumes topics.tsv.zst                      every planner under every lens
  arioso lab --volumes topics.tsv --stores 256 --json      the same for a program
  arioso lab --volumes topics.tsv --planner adaptive --stores 64 --assign where.tsv
  arioso lab --volumes topics.tsv --http 127.0.0.1:7422    the page, until stopped

FILE has a line topic<TAB>messages<TAB>bytes for each topic, in any order.";

/// Compare split plans: which topic goes into which subtree store, and what reading then costs.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    /// Table of topic volumes: topic<TAB>messages<TAB>bytes; .zst is decompressed
    #[arg(long, value_name = "FILE")]
    pub volumes: PathBuf,
    /// Show one planner's plan instead of the table of all
    #[arg(long, value_name = "PLANNER", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    pub planner: Option<String>,
    /// Most stores a planner may make; rules make as many as they make
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=STORES_MAX))]
    pub stores: u32,
    /// What planners that have a choice make small
    #[arg(long, value_name = "AIM", default_value = "sum")]
    pub aim: AimArg,
    /// Over which reads
    #[arg(long, value_name = "READS", default_value = "topics")]
    pub over: Over,
    /// What subscribers asked for: filter or filter<TAB>times, a line each
    #[arg(long, value_name = "FILE")]
    pub subscriptions: Option<PathBuf>,
    /// Join stores below this with siblings
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub store_bytes_min: u64,
    /// Split stores above this, as far as --stores allows
    #[arg(long, value_name = "BYTES")]
    pub store_bytes_max: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write topic<TAB>store number for every topic; of --planner, or of the adaptive one
    #[arg(long, value_name = "FILE")]
    pub assign: Option<PathBuf>,
    /// Serve the page on this address until stopped
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["json", "assign"])]
    pub http: Option<SocketAddr>,
    /// Let --http listen beyond loopback, where anyone may read the topics
    #[arg(long, requires = "http")]
    pub insecure: bool,
}

/// An aim, as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AimArg {
    /// The sum of wasted bytes.
    Sum,
    /// The most bytes that one read wastes.
    Worst,
    /// The worst ratio of bytes read to bytes useful.
    Ratio,
}

impl From<AimArg> for Aim {
    fn from(aim: AimArg) -> Aim {
        match aim {
            AimArg::Sum => Aim::WastedSum,
            AimArg::Worst => Aim::WastedWorst,
            AimArg::Ratio => Aim::RatioWorst,
        }
    }
}

/// What `arioso lab` is to do.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// The table of volumes.
    pub volumes: PathBuf,
    /// What subscribers asked for, if it is known.
    pub subscriptions: Option<PathBuf>,
    /// What the planners are asked.
    pub question: Question,
    /// What is made of the answer.
    pub output: Output,
}

/// What is made of plans.
#[derive(Clone, Debug)]
pub enum Output {
    /// The table of all planners.
    Table {
        /// As JSON.
        json: bool,
        /// Where to write the stores of the adaptive plan's topics.
        assign: Option<PathBuf>,
    },
    /// One plan.
    Plan {
        /// One of [`NAMES`].
        planner: String,
        /// As JSON.
        json: bool,
        /// Where to write the stores of its topics.
        assign: Option<PathBuf>,
    },
    /// The page.
    Page {
        /// Where to listen.
        address: SocketAddr,
    },
}

impl TryFrom<LabArgs> for LabOptions {
    type Error = Error;

    fn try_from(args: LabArgs) -> Result<LabOptions, Error> {
        if args.over == Over::Recorded && args.subscriptions.is_none() {
            return Err(Error::NoSubscriptions);
        }
        let output = match (args.http, args.planner) {
            (Some(address), _) if !address.ip().is_loopback() && !args.insecure => {
                return Err(Error::NotLoopback { address });
            }
            (Some(address), _) => Output::Page { address },
            (None, Some(planner)) => Output::Plan { planner, json: args.json, assign: args.assign },
            (None, None) => Output::Table { json: args.json, assign: args.assign },
        };
        let budget = Budget {
            stores_max: args.stores,
            store_bytes_min: args.store_bytes_min,
            store_bytes_max: args.store_bytes_max.unwrap_or(u64::MAX),
        };
        Ok(LabOptions {
            volumes: args.volumes,
            subscriptions: args.subscriptions,
            question: Question { budget, aim: args.aim.into(), over: args.over },
            output,
        })
    }
}

/// Reads the volumes, makes the plans and writes what was asked for. Serving the page ends with the
/// process's SIGINT or SIGTERM; it starts its own runtime, so this is not called from within one.
///
/// # Errors
/// Input that can't be read, a plan that can't be made, output that can't be written.
pub fn run(options: LabOptions, out: &mut dyn Write) -> Result<(), Error> {
    let volumes = volumes::read(&options.volumes)?;
    let recorded = options.subscriptions.as_deref().map(|file| volumes::read_subscriptions(file, &volumes.tree));
    let demands = Demands::new(&volumes.tree, recorded.transpose()?);
    let question = &options.question;
    match options.output {
        Output::Table { json, assign } => {
            let table = planners::table(&volumes.tree, &demands, question)?;
            if let Some(file) = assign {
                let plan = planned(&volumes.tree, &demands, question, NAMES[0])?.0;
                write_assignment(&file, &volumes.tree, &plan)?;
            }
            if json {
                let answer = TableJson { bad_lines: volumes.bad_lines, bad: &volumes.bad, table: &table };
                return write_json(out, &answer);
            }
            write_bad(out, &options.volumes, &volumes)?;
            out.write_all(table.to_text().as_bytes())?;
        }
        Output::Plan { planner, json, assign } => {
            let (plan, ms) = planned(&volumes.tree, &demands, question, &planner)?;
            if let Some(file) = assign {
                write_assignment(&file, &volumes.tree, &plan)?;
            }
            let row = Row::of(&volumes.tree, &demands, &planner, &plan, ms);
            let stores = (0..plan.stores().len()).map(|at| StoreJson::of(&volumes.tree, &plan, at)).collect();
            let answer = PlanJson { bad_lines: volumes.bad_lines, bad: &volumes.bad, plan: row, stores_list: stores };
            if json {
                return write_json(out, &answer);
            }
            write_bad(out, &options.volumes, &volumes)?;
            write_plan(out, &answer)?;
        }
        Output::Page { address } => {
            write_bad(out, &options.volumes, &volumes)?;
            let name = options.volumes.file_name().unwrap_or_default().to_string_lossy().into_owned();
            page::serve(page::Shown { name, volumes, demands, question: *question }, address, out)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn planned(tree: &TopicTree, demands: &Demands, question: &Question, name: &str) -> Result<(Plan, f64), Error> {
    let planner = planners::planner(name, question.aim);
    let planner = planner.unwrap_or_else(|| Box::new(arioso_store::plan::Adaptive { aim: question.aim }));
    Ok(planners::plan(planner.as_ref(), tree, demands.of(question.over)?, &question.budget)?)
}

#[derive(Serialize)]
struct TableJson<'a> {
    bad_lines: u64,
    bad: &'a [volumes::BadLine],
    #[serde(flatten)]
    table: &'a planners::Table,
}

#[derive(Serialize)]
struct PlanJson<'a> {
    bad_lines: u64,
    bad: &'a [volumes::BadLine],
    #[serde(flatten)]
    plan: Row,
    stores_list: Vec<StoreJson>,
}

/// Parts of a store that are listed by name.
const PARTS_NAMED: usize = 8;

#[derive(Serialize)]
struct StoreJson {
    store: usize,
    topics: u32,
    messages: u64,
    bytes: u64,
    /// The first of them.
    parts: Vec<String>,
    parts_count: usize,
}

impl StoreJson {
    fn of(tree: &TopicTree, plan: &Plan, at: usize) -> StoreJson {
        let parts = plan.parts(StoreId(at as u32));
        let name = |part: &arioso_store::plan::Part| {
            let name = String::from_utf8_lossy(tree.name(part.node));
            let slash = if part.node == arioso_store::plan::NodeId::ROOT { "" } else { "/" };
            match part.extent {
                Extent::Subtree if tree.is_leaf(part.node) => name.into_owned(),
                Extent::Own => name.into_owned(),
                Extent::Subtree => format!("{name}{slash}**"),
                Extent::Rest => format!("{name}{slash}** less deeper cuts"),
            }
        };
        let store = &plan.stores()[at];
        StoreJson {
            store: at,
            topics: store.topics,
            messages: store.messages,
            bytes: store.bytes,
            parts: parts.iter().take(PARTS_NAMED).map(name).collect(),
            parts_count: parts.len(),
        }
    }
}

fn write_json(out: &mut dyn Write, answer: &impl Serialize) -> Result<(), Error> {
    serde_json::to_writer(&mut *out, answer)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

fn write_bad(out: &mut dyn Write, file: &Path, volumes: &volumes::Volumes) -> Result<(), Error> {
    for bad in &volumes.bad {
        writeln!(out, "{}: line {}: {}", file.display(), bad.line, bad.why)?;
    }
    if volumes.bad_lines > 0 {
        writeln!(out, "{} bad lines were left out\n", volumes.bad_lines)?;
    }
    Ok(())
}

fn write_plan(out: &mut dyn Write, answer: &PlanJson) -> Result<(), Error> {
    let Row { planner, stores, plan_ms, topics, subtrees, .. } = &answer.plan;
    writeln!(out, "{planner}: {stores} stores, planned in {plan_ms:.1} ms")?;
    for (name, figures) in
        [("topics", Some(topics)), ("subtrees", Some(subtrees)), ("recorded", answer.plan.recorded.as_ref())]
    {
        let Some(figures) = figures else { continue };
        writeln!(
            out,
            "{name}: wasted {}, worst {} ({}), worst ratio {:.2} ({})",
            planners::amount(figures.wasted_bytes as f64),
            planners::amount(figures.worst_wasted_bytes as f64),
            figures.worst_wasted,
            figures.worst_ratio,
            figures.worst_ratio_of,
        )?;
    }
    writeln!(out, "\n{:>7}{:>10}{:>12}{:>12}  parts", "store", "topics", "messages", "bytes")?;
    for store in &answer.stores_list {
        let more = store.parts_count - store.parts.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let parts = store.parts.join(", ");
        writeln!(
            out,
            "{:>7}{:>10}{:>12}{:>12}  {parts}{more}",
            store.store, store.topics, store.messages, store.bytes
        )?;
    }
    Ok(())
}

/// Writes `topic<TAB>store number`, in byte order of the topics.
fn write_assignment(file: &Path, tree: &TopicTree, plan: &Plan) -> Result<(), Error> {
    let failed = |source| Error::File { file: file.to_owned(), source };
    let mut out = BufWriter::new(std::fs::File::create(file).map_err(failed)?);
    for row in 0..tree.rows() {
        out.write_all(tree.topic(row)).map_err(failed)?;
        writeln!(out, "\t{}", plan.store_of(row).0).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Lab {
        #[command(flatten)]
        args: LabArgs,
    }

    fn table() -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("v.tsv");
        std::fs::write(&file, "topic\tmessages\tbytes\nbad\na/b\t1\t10\na/c\t1\t20\nd\t1\t500\n").unwrap();
        let file = file.to_str().unwrap().to_owned();
        (dir, file)
    }

    fn lab(args: &[&str]) -> Result<String, Error> {
        let args = Lab::try_parse_from([&["lab"], args].concat()).unwrap().args;
        let mut out = Vec::new();
        run(args.try_into()?, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_table_is_printed_with_bad_lines_named_first() {
        let (_dir, file) = table();
        let text = lab(&["--volumes", &file, "--stores", "2"]).unwrap();
        let first = text.lines().next().unwrap();
        assert!(
            first.ends_with("line 2: it has 1 fields, wanted are topic, messages and bytes with a tab between"),
            "{text}"
        );
        assert!(NAMES.iter().all(|name| text.contains(name)), "{text}");
    }

    #[test]
    fn json_is_one_line_with_the_same_plans() {
        let (_dir, file) = table();
        let text = lab(&["--volumes", &file, "--stores", "2", "--json"]).unwrap();
        assert_eq!(text.lines().count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((json["bad_lines"].as_u64(), json["bad"][0]["line"].as_u64()), (Some(1), Some(2)));
        assert_eq!(json["rows"][0]["topics"]["wasted_bytes"], 30);
    }

    #[test]
    fn a_plan_is_shown_and_its_topics_assigned() {
        let (dir, file) = table();
        let assign = dir.path().join("where.tsv");
        let assign_arg = assign.to_str().unwrap();
        let text =
            lab(&["--volumes", &file, "--planner", "adaptive", "--stores", "2", "--json", "--assign", assign_arg])
                .unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["stores_list"][0]["parts"][0], "a/**");
        assert_eq!(std::fs::read_to_string(&assign).unwrap(), "a/b\t0\na/c\t0\nd\t1\n");
        let text = lab(&["--volumes", &file, "--planner", "per-topic"]).unwrap();
        assert!(text.contains("per-topic: 3 stores"), "{text}");
    }

    #[test]
    fn recorded_subscriptions_are_a_lens_and_an_aim() {
        let (dir, file) = table();
        let asked = dir.path().join("asked");
        std::fs::write(&asked, "a/c\t9\n").unwrap();
        let asked = asked.to_str().unwrap();
        let base = ["--volumes", &file, "--planner", "adaptive", "--stores", "3"];
        let text = lab(&[&base[..], &["--subscriptions", asked, "--over", "recorded"]].concat()).unwrap();
        assert!(text.contains("recorded: wasted 0 B"), "{text}");
        assert!(matches!(lab(&[&base[..], &["--over", "recorded"]].concat()), Err(Error::NoSubscriptions)));
    }

    #[test]
    fn wrong_use_is_refused_with_what_would_be_right() {
        let (dir, file) = table();
        let wrong = |args: &[&str]| Lab::try_parse_from([&["lab"], args].concat()).err().unwrap().to_string();
        assert!(wrong(&["--volumes", &file, "--planner", "best"]).contains("adaptive"));
        assert!(wrong(&["--volumes", &file, "--stores", "0"]).contains("1..=1000000"));
        assert!(wrong(&[]).contains("--volumes"));
        let beyond = lab(&["--volumes", &file, "--http", "0.0.0.0:0"]).unwrap_err().to_string();
        assert!(beyond.contains("--insecure"), "{beyond}");
        let crossed = ["--volumes", &file, "--store-bytes-min", "9", "--store-bytes-max", "3", "--planner", "adaptive"];
        assert!(lab(&crossed).unwrap_err().to_string().contains("9 to 3 bytes"));
        let assign = dir.path().join("no/such/dir");
        let args = ["--volumes", &file, "--planner", "adaptive", "--assign", assign.to_str().unwrap()];
        assert!(lab(&args).unwrap_err().to_string().contains("no/such/dir"));
    }
}
