//! A bus on the journal `postgres`: what a start reads, and the thread that hands batches over and takes in what became known.
//!
//! ```text
//! take the stream over ─▶ void records ─▶ every batch: topics, publishers; those above settled_to judged by the rule
//!        ─▶ the first write: void records or an empty batch; durable with the takeover ─▶ serve
//! ```

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arioso_disk::Disk;
use arioso_journal::backend::{Damage, Replay};
use arioso_journal::local::{NewStream, Recovered};
use arioso_journal::postgres::{Load, Postgres, PostgresOptions, Scan, TakenOver};
use arioso_journal::replay::{BatchSummary, replay_voids};
use arioso_journal::{Backend, BatchNumber, Error};
use arioso_store::batch::BatchHeader;
use arioso_store::segment::summary::Summary;
use arioso_store::segment::{ChainEnd, SegmentHeader, SegmentState, SegmentTable, lost_name};
use arioso_store::voids::Voids;
use arioso_stream::Sequence;
use arioso_stream::names::Names;
use arioso_stream::order::{ANONYMOUS_FROM, Resume, TopicCounts};
use arioso_stream::topic::TopicId;
use bytes::Bytes;
use tokio::sync::watch;

use crate::assemble::{Found, Rows, assemble, writes_in_flight};
use crate::clock::wall;
use crate::cursor_replay::{CursorReplay, CursorsFound};
use crate::log::Log;
use crate::metrics::Counters;
use crate::node::{Identity, Node};
use crate::opening::{CLOCK_AHEAD_NS, Chance, OpenError};
use crate::settings::Settings;

/// What is not known to be durable must lie in the tip, where readers find it: so much of it at most.
const PENDING_TIP_PART: u64 = 4;
/// How long a stop waits for writes that are on their way.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// A bus without its thread, opened.
pub struct Opened {
    /// What its parts share.
    pub node: Arc<Node>,
    /// Its log.
    pub log: Log<Postgres>,
    /// What the start found, for the operator.
    pub recovered: Recovered,
}

/// What the journal's options are under these settings.
pub fn options(settings: &Settings, chance: Chance) -> Result<PostgresOptions, Error> {
    Ok(PostgresOptions {
        url: settings.journal.clone(),
        schema: settings.postgres_schema.clone(),
        connections: u32::try_from(settings.postgres_connections).unwrap_or(u32::MAX),
        connect_timeout: settings.postgres_connect_timeout.duration(),
        write_timeout: settings.write_timeout.duration(),
        authorities: (!settings.postgres_ca.is_empty()).then(|| settings.postgres_ca.clone().into()),
        writes: writes_in_flight(settings)?,
        in_flight_bytes_max: settings.pending_bytes_max,
        new_stream: Some(NewStream { id: chance.stream_id, name: settings.stream_name.clone(), now: chance.now }),
    })
}

/// Opens the stream in the database of the settings; makes one in an empty schema.
pub fn open(mut settings: Settings, disk: Arc<dyn Disk>, chance: Chance) -> Result<Opened, OpenError> {
    settings.check().map_err(Box::new)?;
    settings.pending_bytes_max = settings.pending_bytes_max.min(settings.tip_bytes / PENDING_TIP_PART);
    let failed = |source| OpenError::Database(Box::new(source));
    let mut journal = Postgres::open(&options(&settings, chance).map_err(failed)?).map_err(failed)?;
    let (told, news) = sync_channel(1);
    journal.wake_by(Arc::new(move || {
        // One notice is as good as many.
        let _ = told.try_send(());
    }));
    let taken = journal.take_over().map_err(failed)?;
    let timestamp = taken.end.timestamp_floor;
    if timestamp > chance.now + CLOCK_AHEAD_NS && !settings.accept_clock {
        return Err(OpenError::Clock { data: settings.data, timestamp, clock: chance.now });
    }
    let replayed = Replayed::read(&mut journal, &taken, settings.remembered_messages()).map_err(failed)?;
    let recovered = replayed.recovered(&journal, &taken);
    let rule_voids = replayed.rule_voids.clone();
    let source = Arc::new(journal.reader());
    let found = replayed.found(&journal, &taken, Rows { source, stored_to: taken.last_sequence }, &settings, chance)?;
    let (node, tip) =
        assemble(settings, disk, chance.hash_seed, found).map_err(|error| OpenError::Groups(Box::new(error)))?;
    let mut log = Log::new(Arc::clone(&node), journal, tip);
    if rule_voids.is_empty() {
        log.mark(chance.now);
    } else {
        node.engine.lock().void_at_start(chance.now, &rule_voids);
        log.begin(chance.now, false);
    }
    while node.engine.lock().has_in_flight() {
        // Whoever is woken by it asks what for.
        let _ = news.recv();
        log.finish(chance.now).map_err(failed)?;
    }
    Ok(Opened { node, log, recovered })
}

/// What a start gathers.
struct Replayed {
    summary: Summary,
    cursors: CursorReplay,
    voids: Voids,
    rule_voids: Vec<(Sequence, Sequence)>,
    damage: Vec<Damage>,
    bytes: u64,
}

/// The ranges of void records, wherever they are.
struct Told<'a>(&'a mut Voids);

impl Replay for Told<'_> {
    fn batch(&mut self, header: &[u8], records: &[u8]) -> Result<(), Error> {
        let summary = BatchSummary::of(&BatchHeader::trusted(header), records);
        summary.voids.iter().for_each(|range| self.0.add(range.first.0, range.last.0));
        Ok(())
    }

    fn damage(&mut self, _: Damage) -> Result<(), Error> {
        // Named when everything is read.
        Ok(())
    }
}

/// Adds up what is settled, and keeps the rest until it is judged.
struct Gather<'a> {
    replayed: &'a mut Replayed,
    settled_to: u64,
    last_settled: u64,
    tail: Vec<(Bytes, Bytes)>,
}

impl Replay for Gather<'_> {
    fn batch(&mut self, header: &[u8], records: &[u8]) -> Result<(), Error> {
        let read = BatchHeader::trusted(header);
        self.replayed.bytes += (header.len() + records.len()) as u64;
        if read.last_sequence() <= self.settled_to {
            self.last_settled = read.number();
            self.replayed.summary.add(&read, records, &self.replayed.voids);
            self.replayed.cursors.records(records);
            self.replayed.cursors.apply(&self.replayed.voids);
        } else {
            // As much as may be in flight at a time.
            self.tail.push((Bytes::copy_from_slice(header), Bytes::copy_from_slice(records)));
        }
        Ok(())
    }

    fn damage(&mut self, damage: Damage) -> Result<(), Error> {
        self.replayed.damage.push(damage);
        Ok(())
    }
}

/// What anonymous publishers of the tail stored before it: they keep no state, and their ids are given anew at every start.
struct Anonymous {
    settled_to: u64,
    /// By id: the server epoch it belongs to, and the newest publisher sequence.
    newest: HashMap<u32, (u64, u64)>,
}

impl Anonymous {
    fn of(tail: &[(Bytes, Bytes)], settled_to: u64) -> Anonymous {
        let mut newest = HashMap::new();
        for header in tail.iter().map(|(header, _)| BatchHeader::trusted(header)) {
            for run in header.runs().filter(|run| run.publisher >= ANONYMOUS_FROM) {
                newest.entry(run.publisher).or_insert((header.server_epoch(), 0));
            }
        }
        Anonymous { settled_to, newest }
    }
}

impl Replay for Anonymous {
    fn batch(&mut self, header: &[u8], _: &[u8]) -> Result<(), Error> {
        let header = BatchHeader::trusted(header);
        if header.last_sequence() > self.settled_to {
            return Ok(());
        }
        for run in header.runs() {
            if let Some((epoch, newest)) = self.newest.get_mut(&run.publisher)
                && *epoch == header.server_epoch()
            {
                *newest = run.first_publisher_sequence + u64::from(run.messages) - 1;
            }
        }
        Ok(())
    }

    fn damage(&mut self, _: Damage) -> Result<(), Error> {
        // Named by the scan before.
        Ok(())
    }
}

impl Replayed {
    fn read(journal: &mut Postgres, taken: &TakenOver, window_messages: u32) -> Result<Replayed, Error> {
        let mut voids = Voids::default();
        journal.scan(Scan::Voids, &mut Told(&mut voids))?;
        let summary = Summary::new(&nothing_before(journal.stream().id), window_messages);
        let cursors = CursorReplay::default();
        let mut replayed = Replayed { summary, cursors, voids, rule_voids: Vec::new(), damage: Vec::new(), bytes: 0 };
        let (settled_to, tail) = (taken.settled_to.0, Vec::new());
        let mut gather = Gather { replayed: &mut replayed, settled_to, last_settled: 0, tail };
        journal.scan(Scan::From(Sequence(0)), &mut gather)?;
        let Gather { last_settled, tail, .. } = gather;
        let of = |(header, records): &(Bytes, Bytes)| BatchSummary::of(&BatchHeader::trusted(header), records);
        let summaries: Vec<BatchSummary> = tail.iter().map(of).collect();
        let mut anonymous = Anonymous::of(&tail, settled_to);
        if summaries.iter().zip(last_settled + 1..).any(|(batch, number)| batch.number.0 != number) {
            // A batch is missing: whether something stood before a run is asked of those too.
            journal.scan(Scan::From(Sequence(0)), &mut anonymous)?;
        }
        let publishers = &replayed.summary.publishers;
        let stored = |id: u32| {
            if let Some((_, newest)) = anonymous.newest.get(&id) {
                return *newest;
            }
            let state = publishers.iter().find(|state| state.id == id);
            state.and_then(|state| state.runs.last()).map_or(0, |run| run.first + u64::from(run.messages) - 1)
        };
        let rule = replay_voids(&summaries, Some(BatchNumber(last_settled)), taken.settled_to, stored);
        for range in &rule.ranges {
            replayed.voids.add(range.first.0, range.last.0);
            replayed.rule_voids.push((range.first, range.last));
        }
        for (header, records) in &tail {
            replayed.summary.add(&BatchHeader::trusted(header), records, &replayed.voids);
            replayed.cursors.records(records);
        }
        replayed.summary.publishers.forget_dropped();
        Ok(replayed)
    }

    fn recovered(&self, journal: &Postgres, taken: &TakenOver) -> Recovered {
        let damage = self.damage.iter().map(|damage| arioso_store::Damage {
            file: match &damage.batches {
                Some(batches) => format!("{}, batches {} to {}", damage.place, batches.start(), batches.end()),
                None => damage.place.clone(),
            },
            segment: 0,
            offset: 0,
            bytes: damage.bytes,
            first: 0,
            last: 0,
        });
        Recovered {
            made: journal.stream().made,
            next_sequence: taken.end.next_sequence,
            reserved_to: taken.reserved_to,
            timestamp: taken.end.timestamp_floor,
            next_batch: taken.end.newest_batch.map_or(1, |newest| newest.0 + 1),
            next_topic: self.summary.next_topic,
            next_publisher: self.summary.next_publisher,
            settled_to: taken.settled_to,
            clean: taken.clean,
            voids: self.voids.clone(),
            torn: None,
            damage: damage.collect(),
            repairs: Vec::new(),
            unknown_files: Vec::new(),
            scanned_bytes: self.bytes,
            unknown_control: self.summary.unknown_control,
            begun: true,
        }
    }

    fn found(
        self,
        journal: &Postgres,
        taken: &TakenOver,
        rows: Rows,
        settings: &Settings,
        chance: Chance,
    ) -> Result<Found, OpenError> {
        let Replayed { summary, cursors, voids, .. } = self;
        // No segment will be sealed that would have to tell of dropped ones.
        let cursors = CursorsFound { dropped: Vec::new(), ..cursors.finish(&voids) };
        let next_batch = taken.end.newest_batch.map_or(1, |newest| newest.0 + 1);
        let mut names = Names::new(u32::try_from(settings.topics_max).unwrap_or(u32::MAX), chance.hash_seed);
        // The topic tree takes ids in ascending order.
        let topics: BTreeMap<u32, _> =
            summary.topics.iter().collect::<BTreeMap<_, _>>().into_iter().map(|(id, sum)| (*id, *sum)).collect();
        for id in topics.keys() {
            let name = summary.names.get(id).cloned().unwrap_or_else(|| lost_name(*id));
            let named = names.insert(TopicId(*id), &name);
            named.map_err(|source| OpenError::Topics { data: settings.data.clone(), source })?;
        }
        let counts = topics
            .iter()
            .map(|(id, sum)| (*id, TopicCounts { messages: sum.messages, bytes: sum.bytes, last: sum.last_sequence }));
        let stream = journal.stream();
        Ok(Found {
            identity: Identity {
                stream_id: stream.id,
                stream_name: stream.name.clone(),
                server_epoch: taken.end.server_epoch,
            },
            resume: Resume {
                next: taken.end.next_sequence,
                // Nothing is numbered before the first batch, which reserves, is durable.
                reserved_to: Sequence(taken.end.next_sequence.0 - 1),
                timestamp: taken.end.timestamp_floor,
                batch: next_batch,
                publisher: summary.next_publisher.max(1),
            },
            last_batch: next_batch - 1,
            settled_to: Sequence(taken.end.next_sequence.0 - 1),
            names,
            topics: counts.collect(),
            topic_floor: summary.next_topic.max(1),
            publishers: summary.publishers.into_states().collect(),
            cursors,
            table: SegmentTable::new(taken.first_kept.0),
            voids,
            rows: Some(rows),
        })
    }
}

/// A stream before its first batch, for adding up.
fn nothing_before(stream: u128) -> SegmentHeader {
    SegmentHeader {
        stream,
        number: 0,
        incarnation: 0,
        state: SegmentState::Begun,
        recycled: false,
        next_sequence: 1,
        timestamp: 0,
        server_epoch: 0,
        previous: ChainEnd::default(),
        next_topic: 1,
        next_publisher: 1,
        capacity: 0,
        settled_to: 0,
    }
}

/// The log's thread.
pub struct Thread {
    node: Arc<Node>,
    desk: Arc<Desk>,
    log: JoinHandle<Result<Log<Postgres>, Error>>,
}

#[derive(Default)]
struct Desk {
    stop: AtomicBool,
    /// Something became known.
    news: AtomicBool,
}

impl Thread {
    /// Starts it. `lost` turns true when the journal is lost or another server took over.
    pub fn start(mut log: Log<Postgres>, node: Arc<Node>, lost: watch::Sender<bool>) -> io::Result<Thread> {
        let desk = Arc::new(Desk::default());
        let (own, shared) = (Arc::downgrade(&node), Arc::clone(&desk));
        log.backend().wake_by(Arc::new(move || {
            let Some(node) = own.upgrade() else { return };
            {
                let _engine = node.engine.lock();
                shared.news.store(true, Ordering::Release);
            }
            node.work.notify_all();
        }));
        let (own, shared) = (Arc::clone(&node), Arc::clone(&desk));
        let log = std::thread::Builder::new().name("arioso-log".into()).spawn(move || {
            let ended = run(log, &own, &shared);
            if let Err(error) = &ended {
                tracing::error!("{error}");
                own.engine.lock().lose();
                own.history.lose();
                lost.send_replace(true);
            }
            ended
        })?;
        Ok(Thread { node, desk, log })
    }

    /// Waits for what is on its way, writes the mark of a clean stop, ends.
    pub fn stop(self) -> Result<(), Error> {
        {
            let _engine = self.node.engine.lock();
            self.desk.stop.store(true, Ordering::Release);
        }
        self.node.work.notify_all();
        let ended = self.log.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (next, timestamp) = {
            let engine = self.node.engine.lock();
            (engine.order().next_sequence(), engine.order().timestamp())
        };
        ended?.into_backend().stop(next, timestamp)
    }
}

fn run(mut log: Log<Postgres>, node: &Node, desk: &Desk) -> Result<Log<Postgres>, Error> {
    let mut stopping: Option<Instant> = None;
    let mut trouble: Option<String> = None;
    loop {
        wait(&log, node, desk, stopping);
        log.step(wall(), false)?;
        tell(&mut trouble, log.backend_ref().trouble());
        count(&node.counters, log.backend_ref().load());
        let room = log.room();
        {
            let mut engine = node.engine.lock();
            // What was wanted and found no room is told by the room there is.
            let _ = engine.take_wanted();
            engine.set_room(room);
            // No segment is sealed here that would tell of them.
            engine.forget_dropped_cursors();
        }
        if desk.stop.load(Ordering::Acquire) {
            let since = *stopping.get_or_insert_with(Instant::now);
            let engine = node.engine.lock();
            if !log.has_held() && !engine.has_pending() && !engine.has_in_flight() {
                drop(engine);
                return Ok(log);
            }
            if since.elapsed() > STOP_WAIT {
                let source = io::Error::other("the outcome of writes was not known when the server stopped");
                return Err(Error::Lost { batch: 0, doing: "stopping", path: "the journal".into(), source });
            }
        }
    }
}

/// Waits until something became known, or something waits and can be written.
fn wait(log: &Log<Postgres>, node: &Node, desk: &Desk, stopping: Option<Instant>) {
    let mut engine = node.engine.lock();
    loop {
        let writes = (engine.has_pending() || log.has_held()) && log.has_slots() && log.has_room();
        let stop = desk.stop.load(Ordering::Acquire) && (stopping.is_none() || !engine.has_in_flight());
        if desk.news.swap(false, Ordering::AcqRel) || writes || engine.has_wanted() || stop {
            return;
        }
        if stopping.is_none() {
            node.work.wait(&mut engine);
        } else if node.work.wait_for(&mut engine, STOP_WAIT).timed_out() {
            return;
        }
    }
}

/// What the backend is doing, for `/metrics`.
fn count(counters: &Counters, load: Load) {
    let set = |counter: &AtomicU64, value: u64| counter.store(value, Ordering::Relaxed);
    set(&counters.database_connections, load.connections.into());
    set(&counters.database_writes, load.in_flight.into());
    set(&counters.database_limit, load.limit.into());
    set(&counters.database_unknown, load.unknown);
    set(&counters.database_trouble, load.is_troubled.into());
}

/// Tells of trouble when it begins, changes and ends.
fn tell(before: &mut Option<String>, now: Option<String>) {
    if *before == now {
        return;
    }
    match &now {
        Some(trouble) => tracing::warn!("the database: {trouble}; writes are tried again"),
        None => tracing::info!("the database takes writes again"),
    }
    *before = now;
}
