//! One run: the schedule, the clock, and what happens next.

mod act;
mod backup;
mod client;
mod events;
mod faults;
mod ghost;
mod link;
mod memory;
mod process;
mod queue;
mod readback;
mod serve;
mod tap;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use arioso_journal::Outcome;
use arioso_server::clock::Now;

use crate::follow::Follow;
use crate::model::Model;
use crate::plan::{Fault, Options, Plan, Plant};
use crate::rng::Rng;
use crate::trace::Trace;
use crate::{Check, violated};
use backup::Backups;
use client::{Book, Client, CursorBook, Pace};
use ghost::Ghost;
use link::Link;
use process::{Left, Process};
use queue::{Event, Queue};
use readback::Probe;

/// The wall clock when virtual time begins, in unix nanoseconds.
const WALL_NS: i64 = 1_700_000_000_000_000_000;
/// How long it may take, after the last act, until nothing moves any more.
const CALM_NS: u64 = 120_000_000_000;
/// How often it is looked whether anything moves.
const LOOK_NS: u64 = 100_000_000;
/// Events of a run: far more than any has.
const EVENTS_MAX: u64 = 20_000_000;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a run came to.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds another run's.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// Lives of the server.
    lives,
    /// Times another server took the stream over from one that ran on.
    takeovers,
    /// Times the machine stopped.
    crashes,
    /// Connections.
    connections,
    /// Connections the network cut.
    cuts,
    /// Clients that began anew.
    restarts,
    /// Spans that took the place of segments.
    spans,
    /// Messages sent by clients.
    sent,
    /// Messages in the stream at the end.
    kept,
    /// Writes that failed, whose messages were taken back.
    failed_writes,
    /// Messages delivered to subscriptions.
    delivered,
    /// Reads of the disk for subscriptions.
    reads,
    /// Subscriptions that fell from the tip to the disk.
    falls,
    /// Subscriptions that climbed from the disk to the tip.
    climbs,
    /// Subscriptions that were told their position is gone.
    trimmed,
    /// Segments sealed.
    sealed,
    /// Checkpoints written.
    checkpoints,
    /// Times segments were given back.
    retired,
    /// Full reads of the stream, each held against the model.
    read_backs,
    /// Backups, each opened and held against the model.
    backups,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients act, things go wrong.
    Busy,
    /// Nothing new happens; everything begun comes to its end before this time.
    Calm(u64),
    /// Over.
    Over,
}

/// One run.
pub struct World {
    plan: Plan,
    plant: Option<Plant>,
    /// What clients do.
    rng: Rng,
    /// What the network does.
    net: Rng,
    /// What disk and server do.
    chance: Rng,
    now: u64,
    queue: Queue,
    /// What happened.
    pub trace: Trace,
    model: Model,
    clients: Vec<Client>,
    links: BTreeMap<u32, Link>,
    links_count: u32,
    books: Vec<Book>,
    cursors: Vec<CursorBook>,
    /// The newest snapshot known to be kept.
    snapshot_kept: u64,
    /// Subscriptions whose client is done with them and that are not yet held against a full read.
    ended: Vec<Follow>,
    follows_count: u32,
    process: Option<Process>,
    /// A server that was taken over and has not found out.
    ghost: Option<Ghost>,
    left: Left,
    life: u32,
    mark_due: bool,
    retry_due: bool,
    steps_left: u64,
    /// What goes wrong when so many steps are left.
    faults: VecDeque<(u64, Fault)>,
    faults_open: u32,
    backups: Backups,
    phase: Phase,
    /// What the run came to.
    pub counts: Counts,
}

impl World {
    /// The world of a seed, at its beginning.
    pub fn new(options: &Options) -> World {
        let plan = Plan::draw(options);
        let mut rng = Rng::new(options.seed);
        let (net, mut chance) = (rng.fork(), rng.fork());
        let topics = topics(plan.topics, &mut rng);
        let mut faults: Vec<(u64, Fault)> = plan.faults.iter().map(|fault| (rng.below(plan.steps), *fault)).collect();
        faults.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let left = process::nothing(&plan, chance.draw());
        if let (Left::Disk(disk), Some(k)) = (&left, options.crash_at_sync) {
            disk.crash_at_sync(k);
        }
        World {
            plant: options.plant,
            net,
            chance,
            now: 0,
            queue: Queue::default(),
            trace: Trace::new(options.trace),
            model: Model::new(topics),
            clients: Vec::new(),
            links: BTreeMap::new(),
            links_count: 0,
            books: Vec::new(),
            cursors: Vec::new(),
            snapshot_kept: 0,
            ended: Vec::new(),
            follows_count: 0,
            process: None,
            ghost: None,
            left,
            life: 0,
            mark_due: false,
            retry_due: false,
            steps_left: plan.steps,
            faults: faults.into(),
            faults_open: 0,
            backups: Backups::draw(options.seed, plan.backups, plan.steps),
            phase: Phase::Busy,
            counts: Counts::default(),
            rng,
            plan,
        }
    }

    /// The seed's plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Lets everything happen.
    pub fn run(&mut self) -> Check {
        self.boot(false)?;
        for number in 0..self.plan.clients {
            let seed = self.net.draw();
            self.clients.push(Client::new(number, 0, seed, self.now));
            self.wake(number, self.now);
            let at = self.rng.within(MS, 20 * MS);
            self.queue.push(at, Event::Act(number));
        }
        let mut events = 0;
        while self.phase != Phase::Over {
            let Some((at, event)) = self.queue.pop() else { return violated("nothing is on the schedule any more") };
            self.now = at;
            events += 1;
            if events > EVENTS_MAX {
                return violated(format!("{EVENTS_MAX} events and no end"));
            }
            self.happen(event)?;
        }
        self.end()
    }

    fn happen(&mut self, event: Event) -> Check {
        match event {
            Event::Wake(client) if self.clients[client].wake_at == self.now => self.awake(client),
            Event::Wake(_) => Ok(()),
            Event::Act(client) => self.act(client),
            Event::Take(client) => self.take(client),
            Event::Connect(client, births) => self.connect(client, births),
            Event::Turn(link) => self.turn(link),
            Event::Log(life, mark) => self.log_round(life, mark),
            Event::Written(life) => self.written(life),
            Event::Job(life, job) => self.run_job(life, job),
            Event::Done(life, done) => self.job_done(life, done),
            Event::Retry(life) => self.retry(life),
            Event::Read(life, link, read) => self.read(life, link, read),
            Event::Supply(life, link, ticket, supplied) => self.supply(life, link, ticket, supplied),
            Event::Known(life, number, outcome) => self.known(life, number, outcome),
            Event::Fault(fault) => self.fault(fault),
            Event::Die(life, power) => self.die_of(life, power),
            Event::Fenced(life) => self.ghost_fenced(life),
            Event::Gone(life) => self.ghost_gone(life),
            Event::Boot(clean) => self.boot(clean),
            Event::BackUp => self.back_up(),
            Event::Room => self.room(),
            Event::Look => self.look(),
        }
    }

    fn clock(&self) -> Now {
        let mono = self.now.cast_signed();
        Now { wall: WALL_NS + mono, mono }
    }

    fn wall(&self) -> i64 {
        self.clock().wall
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    fn wake(&mut self, client: usize, at: u64) {
        let at = at.max(self.now);
        if at < self.clients[client].wake_at {
            self.clients[client].wake_at = at;
            self.queue.push(at, Event::Wake(client));
        }
    }

    /// Clients act no more and take what they get; whatever is under way comes to its end.
    fn calm(&mut self) {
        if self.phase != Phase::Busy {
            return;
        }
        self.trace.note(self.now, format_args!("calm"), &[]);
        self.phase = Phase::Calm(self.now + CALM_NS);
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            client.stalled_until = 0;
            client.follows.iter_mut().for_each(|following| following.pace = Pace::Fast);
            self.queue.push(self.now, Event::Take(number));
            self.wake(number, self.now);
        }
        self.queue.push(self.now, Event::Room);
        self.queue.push(self.now + LOOK_NS, Event::Look);
    }

    fn look(&mut self) -> Check {
        let Phase::Calm(deadline) = self.phase else { return Ok(()) };
        match self.moves() {
            None => self.phase = Phase::Over,
            Some(what) if self.now > deadline => {
                return violated(format!("{} s after the last act: {what}", CALM_NS / 1_000_000_000));
            }
            Some(_) => self.queue.push(self.now + LOOK_NS, Event::Look),
        }
        Ok(())
    }

    /// What still moves, or should.
    fn moves(&self) -> Option<String> {
        let Some(process) = &self.process else { return Some("the server is not there".into()) };
        if self.ghost.is_some() {
            return Some("a server that was taken over has not ended".into());
        }
        if process.stopping || process.lost || process.writing || !process.jobs.is_empty() || process.log_wants() {
            return Some("the log is busy".into());
        }
        if process.has_held() || process.flying() > 0 {
            return Some("writes are in flight".into());
        }
        let settled = process.node.engine.lock().settled_to().0;
        for (number, client) in self.clients.iter().enumerate() {
            if !client.machine.is_up() {
                return Some(format!("client {number} has no connection"));
            }
            if client.requests > 0 {
                return Some(format!("a request of client {number} is not answered"));
            }
            for publisher in &client.publishers {
                let unsent = publisher.book.map_or(0, |book| self.books[book].unsent.len());
                let (name, waiting) = (&publisher.name, publisher.waiting.len());
                if unsent + waiting > 0 || publisher.closing {
                    return Some(format!(
                        "publisher {name:?} of client {number} waits for {waiting} answers, {unsent} unsent"
                    ));
                }
            }
            for following in &client.follows {
                let (of, through) = (following.follow.number, following.follow.reached());
                if !following.over && (following.until_end || through < settled) {
                    return Some(format!("subscription {of} of client {number} is through {through} of {settled}"));
                }
            }
        }
        None
    }

    /// Everything is quiet: the stream is read once more, before and after a clean stop, and after a power loss.
    fn end(&mut self) -> Check {
        self.read_back_at_last()?;
        self.count();
        for power in [false, true] {
            let clean = self.wind_down(power)?;
            self.boot(clean)?;
            self.read_back_at_last()?;
        }
        self.counts.kept = self.model.kept().kept.len() as u64;
        self.counts.sent = self.model.sent_count() as u64;
        Ok(())
    }

    /// A full read with nothing under way; a crash that was planned long ago may still come in between.
    fn read_back_at_last(&mut self) -> Check {
        loop {
            match self.read_back(true) {
                Err(_) if self.is_crashed() => {
                    self.wind_down(true)?;
                    self.boot(false)?;
                }
                checked => return checked,
            }
        }
    }

    /// The last rounds of a life, and its end. Gives whether that was clean.
    fn wind_down(&mut self, power: bool) -> Result<bool, crate::Violation> {
        self.links.clear();
        let wall = self.wall();
        let mut process = self.process.take().expect("the server is there");
        loop {
            process.attend(wall);
            let (new, wrote) = process.begin(wall, false);
            new.into_iter().for_each(|number| process.complete(number, Outcome::Durable));
            if process.finish(wall).is_err() || !wrote {
                break;
            }
        }
        let next = process.node.engine.lock().order().next_sequence();
        self.model.life_ended(next.0);
        if power || process.is_over() || self.is_crashed() {
            process.abandon(&mut self.left, self.chance.draw());
            self.lose_power();
            return Ok(false);
        }
        let clean = process.close(&mut self.left)?;
        if self.is_crashed() {
            self.lose_power();
            return Ok(false);
        }
        self.outlive();
        Ok(clean)
    }

    /// Adds what a life counted.
    fn count(&mut self) {
        if let Some(process) = &self.process {
            let load = |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
            let counters = &process.node.counters;
            self.counts.falls += load(&counters.falls);
            self.counts.climbs += load(&counters.climbs);
            self.counts.delivered += load(&counters.delivered);
        }
    }

    /// Reads the stream whole and holds everything against it. `quiet`: nothing is under way, so counts must fit too.
    fn read_back(&mut self, quiet: bool) -> Check {
        let Some(process) = &self.process else { return Ok(()) };
        let mut probe = Probe::new(&process.node, self.clock())?;
        let read = probe.read_all(&mut self.model)?;
        let counted = if quiet { Some(probe.topics()?) } else { None };
        drop(probe);
        let what = (read.kept.len(), read.first_kept, read.through);
        self.trace.note(
            self.now,
            format_args!("read back {} messages from {} through {}", what.0, what.1, what.2),
            &[],
        );
        if let Some(counted) = counted {
            self.check_counts(&read, &counted)?;
        }
        self.counts.read_backs += 1;
        self.model.read_back(read)?;
        let read = self.model.kept();
        for follow in self.ended.iter_mut() {
            follow.check(read)?;
        }
        for following in self.clients.iter_mut().flat_map(|client| &mut client.follows) {
            following.follow.check(read)?;
        }
        self.ended.retain(|follow| !follow.is_checked());
        Ok(())
    }

    fn check_counts(&self, read: &crate::model::ReadBack, counted: &BTreeMap<String, (u64, u64, u64)>) -> Check {
        if read.first_kept > 1 {
            return Ok(());
        }
        let mut want: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
        for kept in &read.kept {
            let row = want.entry(self.model.topics[kept.topic].clone()).or_default();
            *row = (row.0 + 1, row.1 + kept.bytes as u64, kept.sequence);
        }
        if want == *counted {
            return Ok(());
        }
        let topics = want.keys().chain(counted.keys());
        let differs = topics.map(|topic| (topic, want.get(topic), counted.get(topic))).find(|row| row.1 != row.2);
        violated(format!("topics are counted wrong: topic, messages, bytes and newest as read, as told: {differs:?}"))
    }
}

/// Topics of a tree with heavy and light branches; the last three can't be published to.
fn topics(count: usize, rng: &mut Rng) -> Vec<String> {
    let mut topics: Vec<String> = Vec::new();
    while topics.len() < count {
        let levels = rng.within(1, 4);
        let level = |rng: &mut Rng| rng.pick(&["a", "b", "c", "", "long-level-name", "x"]);
        let topic = (0..levels).map(|_| level(rng)).collect::<Vec<_>>().join("/");
        let topic = if rng.percent(40) { format!("{topic}/{}", rng.below(9)) } else { topic };
        if !topic.is_empty() && !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    topics.extend(["$bus/x".to_owned(), "a/*".to_owned(), "a/\u{7}".to_owned()]);
    topics
}

/// Topics at the end of the list that can't be published to.
const BAD_TOPICS: usize = 3;
