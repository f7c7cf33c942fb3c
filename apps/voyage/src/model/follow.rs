//! Between a bus and the model: reports in, predictions out.

use std::collections::VecDeque;

use arioso::{Begin, Bus, Subscription};

use super::input::{Report, report};
use super::judge::Ports;
use super::run::{Threads, run};
use super::{Feasible, Prediction};
use crate::error::{Error, Result};
use crate::feed::Feed;

/// Where positions and voyages are.
pub const REPORTS: &str = "ais/**";

/// Where predictions go, by vessel.
pub const PREDICTIONS: &str = "predictions";

/// Reports of a subscription, as they come.
#[derive(Debug)]
pub struct Reports {
    subscription: Subscription,
    ready: VecDeque<Report>,
}

impl Reports {
    /// All from the first message kept on; `until_end` ends behind what is there now, else it follows.
    pub fn new(bus: &Bus, until_end: bool) -> Result<Self> {
        let subscription = bus.subscribe([REPORTS], Begin::Start, until_end)?;
        Ok(Self { subscription, ready: VecDeque::new() })
    }

    fn read(&mut self) -> Result<Option<Report>> {
        while self.ready.is_empty() {
            let Some(batch) = self.subscription.next_batch()? else { return Ok(None) };
            for message in batch.messages() {
                let message = message.map_err(arioso::Error::from)?;
                let time = message.event_time().unwrap_or(message.timestamp());
                self.ready.extend(report(message.sequence().0, time, message.payload()));
            }
        }
        Ok(self.ready.pop_front())
    }
}

impl Iterator for Reports {
    type Item = Result<Report>;

    fn next(&mut self) -> Option<Result<Report>> {
        self.read().transpose()
    }
}

/// Runs the model on a bus: predictions are published to [`PREDICTIONS`], and shown to `seen`. Ends with the
/// reports.
pub fn follow<F: Feasible>(
    bus: &Bus,
    until_end: bool,
    ports: &Ports,
    finder: &F,
    threads: Threads,
    mut seen: impl FnMut(&Prediction),
) -> Result<u64> {
    let mut feed = Feed::new(bus, None)?;
    let told = run(Reports::new(bus, until_end)?, ports, finder, threads, |prediction| {
        let payload = serde_json::to_vec(prediction).map_err(|e| Error::Write(e.into()))?;
        let event_time = (prediction.time * 1e9) as i64;
        feed.publish(&format!("{PREDICTIONS}/{}", prediction.mmsi), &payload, Some(event_time))?;
        seen(prediction);
        Ok(())
    })?;
    feed.finish()?;
    Ok(told)
}
