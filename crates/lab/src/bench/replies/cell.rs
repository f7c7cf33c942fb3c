//! One cell of `bench replies`: a number of groups under a share of slow writes, with its own bus, publishers and times.

use std::time::{Duration, Instant};

use arioso_client::{Client, Message, Options, Publisher};
use arioso_journal::delayed::Delays;
use arioso_journal::memory::Schedule;
use arioso_journal::settings::PER_PUBLISHER;
use arioso_journal::{Group, group_of};
use serde::Serialize;
use tokio::runtime::Handle;
use twox_hash::XxHash3_64;

use super::super::report::{Latency, histogram};
use super::super::workload::Payload;
use super::super::{Doing, Error, Result, check, io};
use super::bus::{Durable, WatchedBus};
use super::readers::{Readers, Visible, topic};
use super::rule::{Sent, Written, leaves};

/// What a cell is.
#[derive(Clone, Debug)]
pub struct Cell {
    /// `write-reply-ordering-groups`.
    pub groups: String,
    /// How many of a hundred writes are slow.
    pub slow_percent: f64,
    /// Whether messages come at fixed times, whatever became of those before.
    pub open: bool,
    /// Publishers.
    pub publishers: u32,
    /// Messages a second, all publishers together.
    pub rate: f64,
    /// Not measured.
    pub warmup: Duration,
    /// Measured.
    pub lasting: Duration,
    /// Bytes of a payload.
    pub size: usize,
    /// Microseconds of a write that is not slow, from and to.
    pub write_us: (u64, u64),
    /// Microseconds of a slow write, from and to.
    pub slow_us: (u64, u64),
    /// Writes at a time.
    pub writes_max: usize,
    /// Which writes are slow comes from it.
    pub seed: u64,
    /// The directory of the journal `local`.
    pub folder: Option<std::path::PathBuf>,
    /// The database of the journal `postgres`; without either, the backend in memory.
    #[cfg(feature = "postgres")]
    pub database: Option<arioso_journal::postgres::PostgresOptions>,
    /// Slow writes come from the network, not from a delay of their completion.
    pub network: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Messages measured.
    pub messages: u64,
    /// Measured messages a second.
    pub msgs_per_s: f64,
    /// From when a message was due (open) or sent (closed) to its reply.
    pub replies: Latency,
    /// From handing a write over until it was known.
    pub writes: Latency,
    /// Of these the slow ones.
    pub slow_writes: Latency,
    /// Mean of when the rule lets a reply leave, counted as `replies` is.
    pub rule_mean_us: f64,
    /// Mean of reply less rule.
    pub over_rule_mean_us: f64,
    /// The same at 99 of 100.
    pub over_rule_p99_us: f64,
    /// Replies that came before the rule let them: 0, or the run does not count.
    pub before_rule: u64,
    /// From the reply until a reader has the message.
    pub visible: Visible,
    /// Messages of a write, on the mean.
    pub msgs_per_write: f64,
    /// Messages of a write: how many writes held 1, 2, up to 4, 8 and so on.
    pub write_sizes: Vec<u64>,
    /// Connections to a database that were open at most.
    pub connections: u32,
    /// Writes that might be in flight at the end.
    pub writes_in_flight: u32,
    /// Mean lateness of the sender itself, in what an open loop counts as latency.
    pub late_mean_us: f64,
}

/// Messages due at even times, publishers in turn.
fn due(cell: &Cell, number: u64) -> Duration {
    Duration::from_secs_f64(number as f64 / cell.rate)
}

impl Cell {
    fn messages(&self) -> u64 {
        ((self.warmup + self.lasting).as_secs_f64() * self.rate).round() as u64
    }

    fn name(publisher: u64) -> String {
        format!("publisher-{publisher}")
    }

    /// The group of a publisher; where each is a group, the publisher.
    fn group(&self, publisher: u64) -> Result<u32> {
        if self.groups == PER_PUBLISHER {
            return Ok(publisher as u32);
        }
        let groups = arioso_journal::settings::groups(Some(&self.groups), None);
        let groups = groups.map_err(|error| Error::Use(error.to_string()))?;
        let Group(group) = group_of(XxHash3_64::oneshot(Cell::name(publisher).as_bytes()), groups);
        Ok(group)
    }

    fn durable(&self) -> Durable<'_> {
        let percent = if self.network { 0.0 } else { self.slow_percent };
        let delays = Delays { seed: self.seed, percent, delay_us: self.slow_us.0..=self.slow_us.1 };
        #[cfg(feature = "postgres")]
        if let Some(options) = &self.database {
            return Durable::Postgres(options, delays);
        }
        match &self.folder {
            Some(folder) => Durable::Local(folder, delays),
            None => {
                let schedule = Schedule {
                    seed: self.seed,
                    slow_percent: self.slow_percent,
                    slow_us: self.slow_us.0..=self.slow_us.1,
                    delay_us: self.write_us.0..=self.write_us.1,
                    ..Schedule::even(0)
                };
                Durable::Memory(schedule, self.writes_max)
            }
        }
    }

    /// Runs it, blocking; `runtime` runs its sessions and clients.
    pub fn run(&self, runtime: &Handle) -> Result<Outcome> {
        let began = Instant::now();
        let bus = WatchedBus::start(&self.durable(), &self.groups, began)?;
        let publishers = runtime.block_on(self.publishers(&bus, runtime))?;
        let readers = runtime.block_on(Readers::start(|| bus.route(runtime.clone()), runtime))?;
        // A moment after everybody is there.
        let zero = Instant::now() + Duration::from_millis(50);
        let sent = if self.open {
            self.open_loop(&publishers, runtime, zero)
        } else {
            self.closed_loop(&publishers, runtime, zero)
        };
        let (sent, late_ns) = sent?;
        let answered: Vec<_> = sent.iter().map(|(publisher, one)| (*publisher, one.sequence, one.replied)).collect();
        let visible = runtime.block_on(readers.end(&answered, zero + self.warmup))?;
        runtime.block_on(close(publishers))?;
        let (written, used) = bus.end()?;
        let mut outcome = self.outcome(sent, &written, nanos(zero.duration_since(began)), began, (late_ns, visible))?;
        (outcome.connections, outcome.writes_in_flight) = (used.connections, used.writes);
        Ok(outcome)
    }

    async fn publishers(&self, watched: &WatchedBus, runtime: &Handle) -> Result<Vec<(Client, Publisher)>> {
        let mut publishers = Vec::new();
        for number in 0..u64::from(self.publishers) {
            let options = Options { name: Cell::name(number), ..Options::default() };
            let client = Client::connect_by(watched.route(runtime.clone()), options).await.doing("connecting")?;
            let name = Cell::name(number);
            let publisher = client.publisher(Some(&name)).await.doing("opening a publisher")?;
            publishers.push((client, publisher));
        }
        Ok(publishers)
    }

    /// Each message at its time, whatever became of those before: what is late is late for all to see.
    fn open_loop(
        &self,
        publishers: &[(Client, Publisher)],
        runtime: &Handle,
        zero: Instant,
    ) -> Result<(Vec<(u64, Timed)>, u64)> {
        let mut payload = Payload::new(self.size);
        let mut answers = Vec::new();
        let mut late = 0u128;
        for number in 0..self.messages() {
            let at = zero + due(self, number);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            let publisher = number % publishers.len() as u64;
            let topic = topic(publisher);
            late += Instant::now().saturating_duration_since(at).as_nanos();
            let message = Message::new(payload.numbered(number));
            let receipt = publishers[publisher as usize].1.try_send(&topic, message).doing("publishing")?;
            answers.push((
                publisher,
                at,
                runtime.spawn(async move {
                    let answer = receipt.await;
                    (answer, Instant::now())
                }),
            ));
        }
        let gather = async {
            let mut sent = Vec::with_capacity(answers.len());
            for (publisher, at, answer) in answers {
                let (answer, replied) = answer.await.map_err(|error| io("a reply")(std::io::Error::other(error)))?;
                let sequence = answer.doing("publishing")?.sequence.0;
                sent.push((publisher, Timed { at, replied, sequence }));
            }
            Ok(sent)
        };
        let sent = runtime.block_on(gather)?;
        let late_ns = late / u128::from(self.messages().max(1));
        Ok((sent, u64::try_from(late_ns).unwrap_or(u64::MAX)))
    }

    /// Each publisher's next message a period after its last one, but not before that one's reply.
    fn closed_loop(
        &self,
        publishers: &[(Client, Publisher)],
        runtime: &Handle,
        zero: Instant,
    ) -> Result<(Vec<(u64, Timed)>, u64)> {
        let end = zero + self.warmup + self.lasting;
        let period = Duration::from_secs_f64(publishers.len() as f64 / self.rate);
        let all = publishers.iter().zip(0u64..).map(|((_, publisher), number)| async move {
            let mut payload = Payload::new(self.size);
            let topic = topic(number);
            let mut at = zero + due(self, number);
            let mut sent = Vec::new();
            while at < end {
                tokio::time::sleep_until(at.into()).await;
                let now = Instant::now();
                let message = Message::new(payload.numbered(number));
                let receipt = publisher.try_send(&topic, message).doing("publishing")?;
                let sequence = receipt.await.doing("publishing")?.sequence.0;
                let replied = Instant::now();
                sent.push((number, Timed { at: now, replied, sequence }));
                at = (now + period).max(replied);
            }
            Ok(sent)
        });
        let sent: Result<Vec<_>> = runtime.block_on(futures(all));
        Ok((sent?.into_iter().flatten().collect(), 0))
    }

    fn outcome(
        &self,
        sent: Vec<(u64, Timed)>,
        written: &[Written],
        zero: u64,
        began: Instant,
        (late_ns, visible): (u64, Visible),
    ) -> Result<Outcome> {
        let warm = zero + nanos(self.warmup);
        let mut messages = Vec::with_capacity(sent.len());
        for (publisher, timed) in sent {
            messages.push(Sent {
                group: self.group(publisher)?,
                sequence: timed.sequence,
                due: nanos(timed.at.duration_since(began)),
                replied: nanos(timed.replied.duration_since(began)),
            });
        }
        let rule = leaves(&mut messages, written)
            .map_err(|sequence| Error::Wrong(format!("message {sequence} was answered and lies in no write")))?;
        let (mut replies, mut over) = (histogram(), histogram());
        let (mut writes, mut slow) = (histogram(), histogram());
        let (mut written_messages, mut write_sizes) = (0, Vec::new());
        let (mut rule_sum, mut over_sum, mut before, mut last) = (0f64, 0f64, 0, warm);
        for (message, leaves) in messages.iter().zip(rule).filter(|(message, _)| message.due >= warm) {
            replies.saturating_record(message.replied - message.due);
            rule_sum += leaves as f64 - message.due as f64;
            before += u64::from(message.replied < leaves);
            over_sum += message.replied as f64 - leaves as f64;
            over.saturating_record(message.replied.saturating_sub(leaves));
            last = last.max(message.replied);
        }
        for write in written.iter().filter(|write| write.submitted >= warm && write.known != u64::MAX) {
            let took = write.known - write.submitted;
            writes.saturating_record(took);
            let size = write.last - write.first + 1;
            written_messages += size;
            let class = size.next_power_of_two().ilog2() as usize;
            write_sizes.resize(write_sizes.len().max(class + 1), 0);
            write_sizes[class] += 1;
            if took >= self.slow_us.0 * 1_000 {
                slow.saturating_record(took);
            }
        }
        check("replies that came before the rule let them", before, 0)?;
        let count = replies.len();
        let mean = |sum: f64| sum / count.max(1) as f64 / 1e3;
        Ok(Outcome {
            messages: count,
            msgs_per_s: count as f64 / self.lasting.as_secs_f64().max((last - warm) as f64 / 1e9),
            replies: Latency::of(&replies),
            writes: Latency::of(&writes),
            slow_writes: Latency::of(&slow),
            rule_mean_us: mean(rule_sum),
            over_rule_mean_us: mean(over_sum),
            over_rule_p99_us: over.value_at_quantile(0.99) as f64 / 1e3,
            before_rule: before,
            visible,
            msgs_per_write: written_messages as f64 / writes.len().max(1) as f64,
            write_sizes,
            connections: 0,
            writes_in_flight: 0,
            late_mean_us: late_ns as f64 / 1e3,
        })
    }
}

/// When a message was due (open) or sent (closed), when it was answered, and the number it got.
struct Timed {
    at: Instant,
    replied: Instant,
    sequence: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

async fn close(publishers: Vec<(Client, Publisher)>) -> Result<()> {
    for (client, publisher) in publishers {
        publisher.close().await.doing("closing a publisher")?;
        client.close().await.doing("closing")?;
    }
    Ok(())
}

/// Drives all of them at once on this task; their results in order.
async fn futures<T, F: Future<Output = Result<T>>>(all: impl Iterator<Item = F>) -> Result<Vec<T>> {
    let mut all: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut open = false;
        for (one, done) in &mut all {
            if done.is_none() {
                match one.as_mut().poll(context) {
                    std::task::Poll::Ready(result) => *done = Some(result),
                    std::task::Poll::Pending => open = true,
                }
            }
        }
        if open { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}
