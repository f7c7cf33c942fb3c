//! The questions of the model's replay, asked over HTTP and in process.
//!
//! A replay of recorded tracks through the model tells which voyages are asked about. The same questions are then
//! asked by a number of threads: in process, over HTTP below saturation, and over HTTP by more clients than the
//! service lets in. Counted are the processor seconds of both processes; what the finder itself needs is measured
//! apart, by one thread that does nothing else, and taken off.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::Feasible;
use crate::model::input::{self, Report};
use crate::model::judge::{Ports, WEIGHTS};
use crate::model::run::{Threads, run};
use crate::ports;
use crate::remote::{Patience, Remote};
use crate::sea;
use crate::sea::router::{CACHE_BYTES, Router, Verdict, Voyage};

/// Clock ticks in a second, as Linux tells processor times.
const TICKS: f64 = 100.0;

/// Questions that a thread takes at once.
const AT_ONCE: usize = 64;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Most questions.
    pub questions: usize,
    /// Numbers of threads that ask.
    pub threads: Vec<usize>,
    /// Clients in the storm.
    pub storm: usize,
    /// Requests that the service answers at once in the storm.
    pub storm_in_flight: u16,
    /// In the rows with a known answer, in process is asked so many times as often, for its time to be seen.
    pub repeat: usize,
}

/// One row of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// `process`, `http` or `storm`.
    pub way: &'static str,
    /// What an answer costs: all were asked before, none was, nothing is kept.
    pub cost: &'static str,
    /// Threads that ask.
    pub threads: usize,
    /// Answers.
    pub answers: usize,
    /// Seconds on the wall.
    pub wall_s: f64,
    /// Processor seconds of all processes.
    pub cpu_s: f64,
    /// In process: the share of the wall time of the asking threads in which they ran or waited for a processor that
    /// others had. Where nobody else has any it is how busy they keep theirs.
    pub ready: Option<f64>,
    /// Tries beyond the first.
    pub retries: u64,
    /// The finder's own processor microseconds an answer.
    pub engine_us: f64,
    /// What the answers were, summed up.
    pub digest: u64,
}

impl Row {
    /// Processor microseconds an answer.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        self.cpu_s * 1e6 / self.answers as f64
    }
}

/// What is kept from one question to the next.
#[derive(Debug, Clone, Copy)]
struct Cost {
    name: &'static str,
    cache_bytes: u64,
    /// Whether every question was asked before.
    warm: bool,
}

const COSTS: [Cost; 3] = [
    Cost { name: "known", cache_bytes: CACHE_BYTES * 8, warm: true },
    Cost { name: "new", cache_bytes: CACHE_BYTES, warm: false },
    Cost { name: "no cache", cache_bytes: 0, warm: false },
];

/// Remembers what is asked.
struct Listening<'a>(&'a Router, Mutex<Vec<Voyage>>);

impl Feasible for Listening<'_> {
    fn feasible(&self, voyage: &Voyage) -> Result<Verdict> {
        self.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(*voyage);
        self.0.feasible(voyage, &self.0.options())
    }
}

/// The questions of a replay of `tracks`, `most` of them taken evenly.
pub fn questions(tracks: &Path, most: usize) -> Result<Vec<Voyage>> {
    let router = Router::new(sea::oceans()?, CACHE_BYTES);
    let listening = Listening(&router, Mutex::default());
    let messages = input::tracks(tracks)?;
    let reports: Vec<Result<Report>> =
        (1..).zip(messages).filter_map(|(n, (_, time, payload))| input::report(n, time, &payload)).map(Ok).collect();
    let ports = Ports::new(ports::ports()?, WEIGHTS);
    run(reports.into_iter(), &ports, &listening, Threads { fleet: 1, judge: 1 }, |_| Ok(()))?;
    let asked = listening.1.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let step = asked.len().div_ceil(most.max(1)).max(1);
    Ok(asked.into_iter().step_by(step).collect())
}

fn digest(place: usize, verdict: Option<&Verdict>) -> u64 {
    let mut hasher = DefaultHasher::new();
    // To the millimetre: HTTP is text.
    place.hash(&mut hasher);
    verdict.map(|v| ((v.km * 1e6).round() as i64, v.feasible, v.by_great_circle)).hash(&mut hasher);
    hasher.finish()
}

/// What came of asking.
struct Asked {
    /// Of one round.
    digest: u64,
    /// Seconds that the threads ran or waited for a processor, all together.
    ready_s: f64,
}

/// Seconds that this thread has run or waited for a processor, as Linux tells in nanoseconds.
fn ready_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 1e9
}

/// Asks all questions by `threads` threads, `times` times over.
fn ask(finder: &impl Feasible, questions: &[Voyage], threads: usize, times: usize) -> Result<Asked> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Asked> {
        let mut sum = 0u64;
        loop {
            let first = next.fetch_add(AT_ONCE, Ordering::Relaxed);
            if first >= questions.len() * times {
                return Ok(Asked { digest: sum, ready_s: ready_s() });
            }
            for at in first..(first + AT_ONCE).min(questions.len() * times) {
                let place = at % questions.len();
                let verdict = match finder.feasible(&questions[place]) {
                    Ok(verdict) => Some(verdict),
                    Err(Error::NoRoute { .. } | Error::Inland { .. } | Error::Enclosed { .. }) => None,
                    Err(error) => return Err(error),
                };
                if at < questions.len() {
                    sum = sum.wrapping_add(digest(place, verdict.as_ref()));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut sum = Asked { digest: 0, ready_s: 0.0 };
        for thread in running {
            let asked = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            sum = Asked { digest: sum.digest.wrapping_add(asked.digest), ready_s: sum.ready_s + asked.ready_s };
        }
        Ok(sum)
    })
}

/// Processor seconds that a process has used, by its id; of this one by `self`.
fn cpu_s(process: &str) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.into(), source })?;
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / TICKS)
}

/// `voyage serve` in a process of its own.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(cache_bytes: u64, in_flight: u16) -> Result<Self> {
        let failed = |source| Error::Read { path: "voyage serve".into(), source };
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--cache-mib", &(cache_bytes >> 20).to_string()]);
        command.args(["--in-flight", &in_flight.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(failed)?;
        }
        let address = line.trim().strip_prefix("listening on http://").and_then(|a| a.parse().ok());
        match address {
            Some(address) => Ok(Self { child, address }),
            None => {
                let _ = child.kill();
                Err(Error::Ask(format!("voyage serve began with {line:?}")))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures; `told` hears each row.
pub fn bench(plan: &Plan, questions: &[Voyage], mut told: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for cost in COSTS {
        let engine_us = engine(cost, questions, plan.repeat)?;
        for &threads in &plan.threads {
            rows.push(in_process(cost, questions, threads, plan.repeat, engine_us)?);
            rows.iter().last().into_iter().for_each(&mut told);
            rows.push(over_http(cost, questions, threads, engine_us, "http", 64, Patience::default())?);
            rows.iter().last().into_iter().for_each(&mut told);
        }
        let eager = Patience {
            timeout: Duration::from_millis(200),
            wait: Duration::from_millis(1),
            wait_max: Duration::from_millis(64),
            tries_max: 10_000,
            keep: false,
        };
        rows.push(over_http(cost, questions, plan.storm, engine_us, "storm", plan.storm_in_flight, eager)?);
        rows.iter().last().into_iter().for_each(&mut told);
    }
    Ok(rows)
}

fn times(cost: Cost, repeat: usize) -> usize {
    if cost.warm { repeat } else { 1 }
}

/// What the finder alone needs for an answer, in processor microseconds.
fn engine(cost: Cost, questions: &[Voyage], repeat: usize) -> Result<f64> {
    let router = Router::new(sea::oceans()?, cost.cache_bytes);
    if cost.warm {
        ask(&router, questions, 1, 1)?;
    }
    let options = router.options();
    let times = times(cost, repeat);
    let before = cpu_s("self")?;
    for _ in 0..times {
        for question in questions {
            std::hint::black_box(router.feasible(question, &options).is_ok());
        }
    }
    Ok((cpu_s("self")? - before) * 1e6 / (questions.len() * times) as f64)
}

fn in_process(cost: Cost, questions: &[Voyage], threads: usize, repeat: usize, engine_us: f64) -> Result<Row> {
    let router = Router::new(sea::oceans()?, cost.cache_bytes);
    if cost.warm {
        ask(&router, questions, threads, 1)?;
    }
    let times = times(cost, repeat);
    let (before, started) = (cpu_s("self")?, Instant::now());
    let Asked { digest, ready_s } = ask(&router, questions, threads, times)?;
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), cpu_s("self")? - before);
    let answers = questions.len() * times;
    let ready = Some(ready_s / (wall_s * threads as f64));
    Ok(Row { way: "process", cost: cost.name, threads, answers, wall_s, cpu_s, ready, retries: 0, engine_us, digest })
}

fn over_http(
    cost: Cost,
    questions: &[Voyage],
    threads: usize,
    engine_us: f64,
    way: &'static str,
    in_flight: u16,
    patience: Patience,
) -> Result<Row> {
    let server = Server::start(cost.cache_bytes, in_flight)?;
    if cost.warm {
        ask(&Remote::new(server.address, Patience::default()), questions, 1, 1)?;
    }
    let remote = Remote::new(server.address, patience);
    let process = server.child.id().to_string();
    let used = || Ok::<f64, Error>(cpu_s("self")? + cpu_s(&process)?);
    let (before, started) = (used()?, Instant::now());
    let Asked { digest, .. } = ask(&remote, questions, threads, 1)?;
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), used()? - before);
    let (answers, retries) = (questions.len(), remote.retries());
    Ok(Row { way, cost: cost.name, threads, answers, wall_s, cpu_s, ready: None, retries, engine_us, digest })
}
