//! The two pools, and predictions in the order of the messages that they follow from.
//!
//! ```text
//! reports ─▶ [bounded] ─▶ fleet thread (vessel mod threads) ─▶ [bounded] ─▶ judge thread (number mod threads) ─▶ [bounded] ─▶ in order ─▶ out
//!    ▲                                                                                                            │
//!    └──────────────────────────── a slot for each report on its way (REPORTS_MAX) ◀─────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::fleet::Fleet;
use super::input::Report;
use super::judge::Ports;
use super::{Feasible, Prediction, Question};
use crate::error::Result;

/// Most reports on their way through the pools: as many results at most wait for an earlier one.
const REPORTS_MAX: usize = 4096;

/// Most in a queue between two threads.
const QUEUE_MAX: usize = 256;

/// Threads of each pool.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    /// That keep the state of vessels.
    pub fleet: usize,
    /// That ask the path finder.
    pub judge: usize,
}

/// What comes of a report.
type Outcome = Option<Result<Prediction>>;

/// Runs the model over `reports` until they end or `out` fails. `out` gets the predictions in the order of the
/// reports.
pub fn run<F: Feasible>(
    reports: impl Iterator<Item = Result<Report>> + Send,
    ports: &Ports,
    finder: &F,
    threads: Threads,
    mut out: impl FnMut(&Prediction) -> Result<()>,
) -> Result<u64> {
    let (slots, taken) = sync_channel::<()>(REPORTS_MAX);
    let (done, results) = sync_channel::<(u64, Outcome)>(QUEUE_MAX);
    let judges: Vec<_> = (0..threads.judge.max(1)).map(|_| sync_channel::<(u64, Question)>(QUEUE_MAX)).collect();
    let fleets: Vec<_> = (0..threads.fleet.max(1)).map(|_| sync_channel::<(u64, Report)>(QUEUE_MAX)).collect();
    let (to_judge, from_fleet): (Vec<_>, Vec<_>) = judges.into_iter().unzip();
    let (to_fleet, from_reader): (Vec<_>, Vec<_>) = fleets.into_iter().unzip();
    thread::scope(|scope| {
        let reader = scope.spawn(move || read(reports, &to_fleet, &slots));
        for queue in from_reader {
            let (to_judge, done) = (to_judge.clone(), done.clone());
            scope.spawn(move || keep(&queue, &to_judge, &done));
        }
        drop(to_judge);
        for queue in from_fleet {
            let done = done.clone();
            scope.spawn(move || {
                for (number, question) in queue {
                    if done.send((number, Some(ports.predict(finder, &question)))).is_err() {
                        return; // the run has ended
                    }
                }
            });
        }
        drop(done);
        let told = tell(&results, &taken, &mut out);
        // Whoever still sends gets an error, and ends.
        drop((results, taken));
        match reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            Ok(()) => told,
            Err(error) => told.and(Err(error)),
        }
    })
}

fn read(
    reports: impl Iterator<Item = Result<Report>>,
    to_fleet: &[SyncSender<(u64, Report)>],
    slots: &SyncSender<()>,
) -> Result<()> {
    for (number, report) in (0..).zip(reports) {
        let report = report?;
        let thread = report.mmsi as usize % to_fleet.len();
        if slots.send(()).is_err() || to_fleet[thread].send((number, report)).is_err() {
            return Ok(()); // the run has ended
        }
    }
    Ok(())
}

fn keep(queue: &Receiver<(u64, Report)>, to_judge: &[SyncSender<(u64, Question)>], done: &SyncSender<(u64, Outcome)>) {
    let mut fleet = Fleet::default();
    for (number, report) in queue {
        let sent = match fleet.take(&report) {
            Some(question) => to_judge[number as usize % to_judge.len()].send((number, question)).is_ok(),
            None => done.send((number, None)).is_ok(),
        };
        if !sent {
            return; // the run has ended
        }
    }
}

fn tell(
    results: &Receiver<(u64, Outcome)>,
    taken: &Receiver<()>,
    out: &mut impl FnMut(&Prediction) -> Result<()>,
) -> Result<u64> {
    let mut waiting: BTreeMap<u64, Outcome> = BTreeMap::new();
    let (mut next, mut told) = (0, 0);
    for (number, outcome) in results {
        waiting.insert(number, outcome);
        while let Some(outcome) = waiting.remove(&next) {
            next += 1;
            let _ = taken.recv(); // each report took a slot before it came here
            if let Some(prediction) = outcome {
                out(&prediction?)?;
                told += 1;
            }
        }
    }
    Ok(told)
}
