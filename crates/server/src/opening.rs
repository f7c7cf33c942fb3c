//! Opens a data directory with the journal `local` and puts the bus together.

use std::path::PathBuf;
use std::sync::Arc;

use arioso_disk::Disk;
use arioso_journal::BatchNumber;
use arioso_journal::local::{Local, LocalOptions, LocalReplay, NewStream, Recovered, RecoveredTopic};
use arioso_journal::replay::{BatchSummary, replay_voids};
use arioso_store::batch::BatchHeader;
use arioso_store::publishers::Publishers;
use arioso_stream::Sequence;
use arioso_stream::names::Names;
use arioso_stream::order::{PublisherState, Resume, TopicCounts};
use arioso_stream::topic::TopicId;

use crate::assemble::{Found, assemble};
use crate::cursor_replay::CursorReplay;
use crate::log::Log;
use crate::node::{Identity, Node};
use crate::refill::Refill;
use crate::retention::{checkpoint_segments, free_segments, split_segments};
use crate::settings::Settings;
use crate::snapshots;

/// How far the last kept timestamp may be ahead of the clock.
pub(crate) const CLOCK_AHEAD_NS: i64 = 60_000_000_000;

/// Why a bus can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The journal.
    #[error("{}: {source}", data.display())]
    Journal {
        /// The data directory.
        data: PathBuf,
        /// What is wrong.
        source: Box<arioso_journal::Error>,
    },
    /// A journal that is a database.
    #[error(transparent)]
    Database(Box<arioso_journal::Error>),
    /// A setting.
    #[error(transparent)]
    Setting(#[from] Box<crate::settings::SettingError>),
    /// The reply groups.
    #[error(transparent)]
    Groups(Box<arioso_journal::Error>),
    /// The directory.
    #[error(transparent)]
    Disk(#[from] arioso_disk::Error),
    /// The topics found are more than allowed, or one of them is no topic.
    #[error("{}: {source}; a topic that is kept can't be refused, so topics-max must be at least that", data.display())]
    Topics {
        /// The data directory.
        data: PathBuf,
        /// What is wrong.
        source: arioso_stream::Error,
    },
    /// The last kept timestamp is ahead of the clock.
    #[error(
        "{}: the last kept timestamp is {timestamp} (unix ns), {} s ahead of the clock, which says {clock}: set the clock, or accept it \
         with --accept-clock; new timestamps then stand still until the clock has caught up",
        data.display(), (timestamp - clock) / 1_000_000_000
    )]
    Clock {
        /// The data directory.
        data: PathBuf,
        /// The last kept timestamp.
        timestamp: i64,
        /// The clock.
        clock: i64,
    },
    /// A thread can't be started.
    #[error("can't start a thread: {0}")]
    Thread(std::io::Error),
}

/// Randomness and time, handed in.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// Of a stream that is made.
    pub stream_id: u128,
    /// Of hash tables.
    pub hash_seed: u64,
    /// Unix nanoseconds.
    pub now: i64,
}

/// What a replay tells, kept until the bus is put together.
#[derive(Default)]
struct Replaying {
    batches: Vec<BatchSummary>,
    topics: Vec<(u32, usize, u16, TopicCounts)>,
    text: String,
    publishers: Vec<PublisherState>,
    rule_voids: Vec<(u64, u64)>,
    cursors: CursorReplay,
}

impl LocalReplay for Replaying {
    fn cursor(&mut self, body: &[u8]) {
        self.cursors.body(body);
    }

    fn batch(&mut self, header: &[u8], records: &[u8]) {
        let Ok(header) = BatchHeader::read(header) else { return };
        if !header.messages_only() {
            self.cursors.records(records);
        }
        self.batches.push(BatchSummary::of(&header, records));
    }

    fn voids(&mut self, sealed: &Publishers, number_before: u64, settled_to: Sequence) -> Vec<(u64, u64)> {
        let stored = |id: u32| {
            let state = sealed.iter().find(|state| state.id == id);
            state.and_then(|state| state.runs.last()).map_or(0, |run| run.first + u64::from(run.messages) - 1)
        };
        let number_before = (number_before > 0).then_some(BatchNumber(number_before));
        let set = replay_voids(&self.batches, number_before, settled_to, stored);
        self.batches = Vec::new();
        self.rule_voids = set.ranges.iter().map(|range| (range.first.0, range.last.0)).collect();
        self.rule_voids.clone()
    }

    fn publisher(&mut self, state: PublisherState) {
        self.publishers.push(state);
    }

    fn topic(&mut self, topic: &RecoveredTopic<'_>) {
        let counts = TopicCounts { messages: topic.messages, bytes: topic.bytes, last: topic.last_sequence };
        let bytes = u16::try_from(topic.name.len()).expect("a topic has at most 1,024 bytes");
        self.topics.push((topic.topic, self.text.len(), bytes, counts));
        self.text.push_str(topic.name);
    }
}

/// A bus without threads, opened.
pub struct Opened {
    /// What its parts share.
    pub node: Arc<Node>,
    /// Its log.
    pub log: Log<Local>,
    /// Fills the tip again.
    pub refill: Refill,
    /// What the start found, for the operator.
    pub recovered: Recovered,
}

/// Opens the directory behind `disk`; makes a stream in an empty one.
pub fn open(settings: Settings, disk: Arc<dyn Disk>, chance: Chance) -> Result<Opened, OpenError> {
    settings.check().map_err(Box::new)?;
    let options = LocalOptions {
        new_stream: Some(NewStream { id: chance.stream_id, name: settings.stream_name.clone(), now: chance.now }),
        segment_bytes: settings.segment_bytes,
        free_files_max: free_segments(&settings),
        checkpoint_segments: checkpoint_segments(&settings),
        window_messages: settings.remembered_messages(),
        split_segments: split_segments(&settings),
        stores_max: u32::try_from(settings.stores_per_span).unwrap_or(u32::MAX),
        ..LocalOptions::default()
    };
    let data = settings.data.clone();
    let journal = |source| OpenError::Journal { data: settings.data.clone(), source: Box::new(source) };
    let mut replaying = Replaying::default();
    let (local, recovered) = Local::open(Arc::clone(&disk), &options, &mut replaying).map_err(journal)?;
    if recovered.timestamp > chance.now + CLOCK_AHEAD_NS && !settings.accept_clock {
        return Err(OpenError::Clock { data, timestamp: recovered.timestamp, clock: chance.now });
    }
    snapshots::clean(&*disk)?;
    let (names, topics) = name_all(&settings, chance.hash_seed, &mut replaying)
        .map_err(|source| OpenError::Topics { data: settings.data.clone(), source })?;
    let identity = Identity {
        stream_id: local.identity().stream,
        stream_name: local.identity().name.clone(),
        server_epoch: local.epoch(),
    };
    let found = Found {
        identity,
        resume: Resume {
            next: recovered.next_sequence,
            reserved_to: recovered.reserved_to,
            timestamp: recovered.timestamp,
            batch: recovered.next_batch,
            publisher: recovered.next_publisher,
        },
        last_batch: recovered.next_batch - 1,
        settled_to: Sequence(recovered.next_sequence.0 - 1),
        names,
        topics,
        topic_floor: recovered.next_topic.max(1),
        publishers: std::mem::take(&mut replaying.publishers),
        cursors: std::mem::take(&mut replaying.cursors).finish(&recovered.voids),
        table: local.table().clone(),
        voids: recovered.voids.clone(),
        rows: None,
    };
    // What the tip must leave room for is what is published meanwhile.
    let budget = settings.tip_bytes / 4 * 3;
    let refill = Refill::new(Arc::clone(&disk), found.identity.stream_id, &found.table, &found.voids, budget);
    let (node, tip) =
        assemble(settings, disk, chance.hash_seed, found).map_err(|error| OpenError::Groups(Box::new(error)))?;
    let mut log = Log::new(Arc::clone(&node), local, tip);
    if !replaying.rule_voids.is_empty() {
        let ranges: Vec<(Sequence, Sequence)> =
            replaying.rule_voids.iter().map(|(first, last)| (Sequence(*first), Sequence(*last))).collect();
        node.engine.lock().void_at_start(chance.now, &ranges);
        log.step(chance.now, false).map_err(|source| OpenError::Journal { data, source: Box::new(source) })?;
    }
    Ok(Opened { node, log, refill, recovered })
}

/// The topic tree takes ids in ascending order; files tell topics by name.
fn name_all(
    settings: &Settings,
    hash_seed: u64,
    replaying: &mut Replaying,
) -> arioso_stream::Result<(Names, Vec<(u32, TopicCounts)>)> {
    let mut names = Names::new(u32::try_from(settings.topics_max).unwrap_or(u32::MAX), hash_seed);
    let mut topics = std::mem::take(&mut replaying.topics);
    let text = std::mem::take(&mut replaying.text);
    topics.sort_unstable_by_key(|topic| topic.0);
    for (id, at, bytes, _) in &topics {
        names.insert(TopicId(*id), &text[*at..*at + usize::from(*bytes)])?;
    }
    Ok((names, topics.into_iter().map(|(id, _, _, counts)| (id, counts)).collect()))
}
