//! What a seed stands for: how large the bus is, what its clients do, and what goes wrong. All of it is drawn from the seed
//! before anything happens, and printed with a failure.

use std::path::PathBuf;

use arioso_server::settings::Settings;

use crate::rng::Rng;

/// Messages and other acts of the clients unless told otherwise.
pub const STEPS_DEFAULT: u64 = 600;

/// A mistake that the simulator makes on purpose, outside of the product, to show that it would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// The disk says that bytes are durable, sometimes, before they are.
    SyncLies,
    /// What reads the disk for a subscription says of a segment, sometimes, that it has none of the topics wanted.
    SegmentSkipped,
    /// A start goes on behind the last number it sees, not behind those that may have been handed out.
    NumbersReused,
    /// A server that was taken over is told, sometimes, that a write is durable which the newcomer did not find.
    FencedAcknowledges,
}

/// What is asked of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What everything is drawn from.
    pub seed: u64,
    /// Acts of the clients.
    pub steps: u64,
    /// Print every event.
    pub trace: bool,
    /// The mistake made on purpose.
    pub plant: Option<Plant>,
    /// The machine stops at this sync of the first disk, counted from 1; nothing else goes wrong.
    pub crash_at_sync: Option<u64>,
}

impl Options {
    /// The run of a seed.
    pub fn of(seed: u64) -> Options {
        Options { seed, steps: STEPS_DEFAULT, trace: false, plant: None, crash_at_sync: None }
    }
}

/// What makes batches durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Segments on the simulated disk.
    Local,
    /// Writes that complete in any order, fail or stay unknown.
    Memory,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ends; what it wrote stays.
    Kill,
    /// The machine stops: what was not synced may be gone.
    Power,
    /// The machine stops inside a call to the disk.
    PowerInCall,
    /// A write or a sync fails.
    Disk,
    /// The disk is full for a while.
    Full,
    /// The server is stopped and started again, cleanly.
    Stop,
    /// The journal is lost.
    Lost,
    /// Another server takes the stream over; this one runs on until it finds out.
    Takeover,
}

/// What a seed stands for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Makes batches durable.
    pub journal: Journal,
    /// The server's settings.
    pub settings: Settings,
    /// Clients.
    pub clients: usize,
    /// Topics.
    pub topics: usize,
    /// The longest payload.
    pub payload_bytes_max: u64,
    /// What goes wrong, one after another.
    pub faults: Vec<Fault>,
    /// Connections cut, of a hundred acts.
    pub cut_percent: u64,
    /// Clients that end and begin anew, of a hundred acts.
    pub restart_percent: u64,
    /// Starts during which the machine stops, of a hundred.
    pub crash_percent: u64,
    /// Writes that fail, of a hundred (journal in memory).
    pub failed_percent: u64,
    /// Writes whose outcome is not known for a while, of a hundred (journal in memory).
    pub unknown_percent: u64,
    /// Writes that take long, of a hundred.
    pub slow_percent: u64,
    /// Writes in flight (journal in memory).
    pub writes_max: usize,
    /// Another server may take the stream over (journal in memory).
    pub shared: bool,
    /// Old segments are given back.
    pub retention: bool,
    /// Backups taken while the bus runs, each opened as a server of its own (segments only).
    pub backups: u64,
    /// Acts of the clients.
    pub steps: u64,
}

impl Plan {
    /// Draws everything from the seed.
    pub fn draw(options: &Options) -> Plan {
        let mut plan = Plan::draw_any(options);
        if options.crash_at_sync.is_some() {
            plan.faults.clear();
            plan.backups = 0;
            (plan.cut_percent, plan.restart_percent, plan.crash_percent) = (0, 0, 0);
        }
        plan
    }

    fn draw_any(options: &Options) -> Plan {
        let mut rng = Rng::new(options.seed ^ 0x0A10_50A1);
        let journal = match options.plant {
            None if options.crash_at_sync.is_some() => Journal::Local,
            Some(Plant::SyncLies | Plant::SegmentSkipped) => Journal::Local,
            Some(Plant::NumbersReused | Plant::FencedAcknowledges) => Journal::Memory,
            None => rng.pick(&[Journal::Local, Journal::Local, Journal::Memory]),
        };
        let mut settings = draw_settings(journal, &mut rng);
        // A segment that is split is not asked any more.
        settings.split &= options.plant != Some(Plant::SegmentSkipped);
        let some = |rng: &mut Rng, of: &[u64]| rng.pick(of);
        let shared =
            journal == Journal::Memory && (rng.percent(60) || options.plant == Some(Plant::FencedAcknowledges));
        let (clients, topics) = (rng.within(2, 5) as usize, rng.within(3, 40) as usize);
        Plan {
            journal,
            clients,
            topics,
            payload_bytes_max: some(&mut rng, &[40, 600, 3_000, 20_000, 60_000]),
            faults: draw_faults(journal, shared, &mut rng),
            cut_percent: some(&mut rng, &[0, 2, 6]),
            restart_percent: some(&mut rng, &[0, 1, 3]),
            crash_percent: 15,
            failed_percent: some(&mut rng, &[0, 2, 15]),
            unknown_percent: some(&mut rng, &[0, 10]),
            slow_percent: some(&mut rng, &[0, 5, 20]),
            writes_max: rng.within(1, 8) as usize,
            shared,
            retention: journal == Journal::Local && rng.percent(30),
            backups: if journal == Journal::Local { Rng::new(options.seed ^ 0x000B_ACC0).below(3) } else { 0 },
            steps: options.steps,
            settings,
        }
    }
}

fn draw_settings(journal: Journal, rng: &mut Rng) -> Settings {
    let memory = journal == Journal::Memory;
    let window = rng.pick(&[4, 32, 256]);
    Settings {
        data: PathBuf::from("sim"),
        stream_name: "sim".into(),
        // The journal in memory has no history to fall back to: the tip holds everything.
        tip_bytes: if memory { 256 << 20 } else { rng.pick(&[16 << 10, 64 << 10, 512 << 10]) },
        segment_bytes: rng.pick(&[192 << 10, 256 << 10, 512 << 10]),
        free_segments_max: rng.pick(&[0, 2]),
        checkpoint_segments: rng.pick(&[1, 2, 8]),
        split: rng.percent(80),
        split_segments: rng.pick(&[1, 2, 3]),
        history_bytes_max: rng.pick(&[1, 100_000, 16 << 20]),
        stores_per_span: rng.pick(&[1, 3, 64]),
        payload_bytes_max: 1 << 20,
        pending_bytes_max: rng.pick(&[1 << 20, 8 << 20]),
        topics_max: 1_000,
        publishers_max: 40,
        publish_window_messages: window,
        publish_window_bytes: rng.pick(&[64 << 10, 1 << 20]),
        subscriptions_max: 8,
        heartbeat_ms: rng.pick(&[300, 1_000]),
        write_reply_ordering_groups: rng.pick(&["1", "3", "per-publisher"]).into(),
        ..Settings::default()
    }
}

fn draw_faults(journal: Journal, shared: bool, rng: &mut Rng) -> Vec<Fault> {
    let of: &[Fault] = match journal {
        Journal::Local => &[
            Fault::Kill,
            Fault::Power,
            Fault::Power,
            Fault::PowerInCall,
            Fault::PowerInCall,
            Fault::Disk,
            Fault::Full,
            Fault::Stop,
        ],
        Journal::Memory if shared => {
            &[Fault::Takeover, Fault::Takeover, Fault::Takeover, Fault::Power, Fault::Stop, Fault::Lost]
        }
        Journal::Memory => &[Fault::Power, Fault::Power, Fault::Stop, Fault::Lost],
    };
    let count = rng.below(5);
    (0..count).map(|_| rng.pick(of)).collect()
}
