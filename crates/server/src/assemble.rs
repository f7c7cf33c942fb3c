//! Puts a bus together from what a start found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use arioso_disk::Disk;
use arioso_journal::limit::WritesInFlight;
use arioso_journal::{Groups, Ledger, Stored, settings};
use arioso_store::segment::SegmentTable;
use arioso_store::voids::Voids;
use arioso_stream::Sequence;
use arioso_stream::names::Names;
use arioso_stream::order::{Order, OrderLimits, PublisherState, Resume, TopicCounts};
use arioso_stream::tip::{CHUNK_BYTES, TipConfig, TipWriter};
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::cursor_replay::CursorsFound;
use crate::engine::{ENTRIES_MAX, Engine, Start};
use crate::history::History;
use crate::hub::Hub;
use crate::metrics::Counters;
use crate::node::{Identity, Node};
use crate::settings::Settings;
use crate::snapshots::Snapshots;

/// A tip is put out a chunk at a time: so many of them that what leaves at once is little.
const TIP_CHUNKS_MIN: usize = 16;
/// Below this a chunk's own columns weigh more than its records.
const TIP_CHUNK_BYTES_MIN: usize = 4 << 10;

/// What a start found.
pub struct Found {
    /// Who the stream is.
    pub identity: Identity,
    /// Where the order goes on.
    pub resume: Resume,
    /// The last batch; durable.
    pub last_batch: u64,
    /// Everything at or below is settled or void.
    pub settled_to: Sequence,
    /// Every topic that has a message, by name.
    pub names: Names,
    /// Its counts.
    pub topics: Vec<(u32, TopicCounts)>,
    /// No topic id below is new.
    pub topic_floor: u32,
    /// Named publishers.
    pub publishers: Vec<PublisherState>,
    /// Cursors.
    pub cursors: CursorsFound,
    /// The segments.
    pub table: SegmentTable,
    /// Void sequences.
    pub voids: Voids,
    /// Where history lies if it lies in no segments.
    pub rows: Option<Rows>,
}

/// History in a database.
pub struct Rows {
    /// Gives batches back.
    pub source: Arc<dyn Stored>,
    /// The last sequence that lay there at the start.
    pub stored_to: Sequence,
}

impl Found {
    /// A stream whose numbers go on at `resume`, and of which nothing is there.
    pub fn empty(identity: Identity, resume: Resume, names: Names) -> Found {
        Found {
            identity,
            last_batch: resume.batch - 1,
            settled_to: Sequence(resume.next.0 - 1),
            resume,
            names,
            topics: Vec::new(),
            topic_floor: 1,
            publishers: Vec::new(),
            cursors: CursorsFound::default(),
            table: SegmentTable::new(1),
            voids: Voids::default(),
            rows: None,
        }
    }
}

/// The reply-ordering groups as set, or what is wrong with them.
pub fn groups(settings: &Settings) -> Result<Groups, arioso_journal::Error> {
    settings::groups(Some(&settings.write_reply_ordering_groups), Some(&settings.max_write_reply_ordering_groups))
}

/// The writes in flight as set, or what is wrong with them.
pub fn writes_in_flight(settings: &Settings) -> Result<WritesInFlight, arioso_journal::Error> {
    settings::writes_in_flight(Some(&settings.max_writes_in_flight))
}

/// A bus without threads: the node, and the tip's writer for its log.
pub fn assemble(
    settings: Settings,
    disk: Arc<dyn Disk>,
    hash_seed: u64,
    found: Found,
) -> Result<(Arc<Node>, TipWriter), arioso_journal::Error> {
    let groups = groups(&settings)?;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let window = settings.remembered_messages();
    let limits = OrderLimits {
        pending_bytes_max: size(settings.pending_bytes_max),
        publishers_max: size(settings.publishers_max),
        cursors_max: size(settings.cursors_max),
        window_messages: window,
        ..OrderLimits::default()
    };
    let next = found.resume.next;
    // Numbers may skip over a start: what the tip lacks ends with the last message on disk.
    let on_disk = match &found.rows {
        Some(rows) => rows.stored_to,
        None => Sequence(found.table.last().map_or(0, |info| info.last_sequence)),
    };
    let mut order = Order::new(limits, found.resume);
    for (topic, counts) in found.topics {
        order.restore_topic(topic, counts);
    }
    for publisher in found.publishers {
        order.restore_publisher(publisher);
    }
    for cursor in found.cursors.live {
        order.restore_cursor(cursor);
    }
    for (id, changed) in found.cursors.dropped {
        order.restore_dropped_cursor(id, changed);
    }
    let names = Arc::new(RwLock::new(found.names));
    let ledger = Ledger::new(groups, ENTRIES_MAX, found.settled_to);
    let start = Start {
        last_batch: found.last_batch,
        server_epoch: found.identity.server_epoch,
        cursor_ttl_ns: i64::try_from(settings.cursor_ttl_s).unwrap_or(i64::MAX).saturating_mul(1_000_000_000),
    };
    let engine = Engine::new(order, ledger, groups, Arc::clone(&names), start);
    let tip_bytes = size(settings.tip_bytes);
    let config = TipConfig {
        bytes: tip_bytes,
        chunk_bytes: (tip_bytes / TIP_CHUNKS_MIN).clamp(TIP_CHUNK_BYTES_MIN, CHUNK_BYTES),
        pool_bytes_max: size(settings.index_bytes_max),
        next: on_disk.next(),
        ..TipConfig::default()
    };
    let (mut tip, shared) = TipWriter::new(config);
    tip.set_visible(Sequence(next.0 - 1).max(found.settled_to), &[], &[]);
    let (stream, history_bytes_max) = (found.identity.stream_id, settings.history_bytes_max);
    let node = Node {
        identity: found.identity,
        settings,
        engine: Mutex::new(engine),
        work: Condvar::new(),
        syncing: Default::default(),
        names,
        tip: shared,
        history: History::new(disk, stream, found.table, found.voids, next, history_bytes_max)
            .with_rows(found.rows.map(|rows| rows.source)),
        hub: Mutex::new(Hub::new(hash_seed)),
        snapshots: Snapshots::default(),
        counters: Counters::default(),
        topic_floor: AtomicU32::new(found.topic_floor),
        told_to: AtomicU64::new(0),
        next_session: AtomicU32::new(1),
        slices: Arc::new(Semaphore::new(slices_at_once())),
    };
    Ok((Arc::new(node), tip))
}

/// One a core: more would not be done sooner, and would stand before whoever has a live message to deliver.
fn slices_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
