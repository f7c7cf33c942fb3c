//! One bus: what sessions, the log and the background jobs share. It has no thread of its own: `runtime` drives it in a
//! process, the simulator in virtual time.
//!
//! | lock | held for | never together with |
//! |---|---|---|
//! | `engine` | numbering one frame, taking or settling batches | I/O |
//! | `names` | looking up or adding one name, up to 64 verdicts | I/O; may be taken inside `engine` and `hub` |
//! | `hub` | adding or removing a subscription, finding who is woken by one commit | `engine` |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arioso_stream::names::Names;
use arioso_stream::tip::TipShared;
use arioso_stream::topic::{Topic, TopicId};
use arioso_wire::Code;
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::engine::Engine;
use crate::history::History;
use crate::hub::Hub;
use crate::mailbox::Mailbox;
use crate::metrics::Counters;
use crate::settings::Settings;
use crate::snapshots::Snapshots;
use crate::splitter::SyncGate;

/// Who this stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Made with the data directory.
    pub stream_id: u128,
    /// Its name.
    pub stream_name: String,
    /// One higher at every start.
    pub server_epoch: u64,
}

/// What a bus's parts share.
pub struct Node {
    /// Who this is.
    pub identity: Identity,
    /// How it was set.
    pub settings: Settings,
    /// Sequencer and ledger.
    pub engine: Mutex<Engine>,
    /// Told when something waits for the log.
    pub work: Condvar,
    /// Whether the journal is syncing: the splitter lets it go first.
    pub syncing: SyncGate,
    /// Topics.
    pub names: Arc<RwLock<Names>>,
    /// The recent stream.
    pub tip: Arc<TipShared>,
    /// The rest of it.
    pub history: History,
    /// Who waits for what.
    pub hub: Mutex<Hub>,
    /// Applications' snapshots.
    pub snapshots: Snapshots,
    /// Counts for `/metrics`.
    pub counters: Counters,
    /// No topic below this number is new.
    pub topic_floor: AtomicU32,
    /// Of everything settled at or below the hub has told those who wait for it.
    pub told_to: AtomicU64,
    /// The next session's number.
    pub next_session: AtomicU32,
    /// Slices of recovery that are read at the same time. Whoever waits for one waits here, in order, and not among those
    /// who run: a live delivery runs before all of them.
    pub slices: Arc<Semaphore>,
}

impl Node {
    /// Begins a session.
    pub fn add_session(&self, mailbox: Arc<Mailbox>) -> u32 {
        let session = self.next_session.fetch_add(1, Ordering::Relaxed);
        self.engine.lock().add_session(session, mailbox);
        session
    }

    /// The stream-wide id of a topic, made if it is new.
    pub fn topic(&self, name: &str) -> Result<TopicId, (Code, String)> {
        if let Some(id) = self.names.read().get(name) {
            return Ok(id);
        }
        let bad = |error: arioso_stream::Error| (Code::BadTopic, error.to_string());
        Topic::new(name).and_then(Topic::check_publishable).map_err(bad)?;
        let mut names = self.names.write();
        if let Some(id) = names.get(name) {
            return Ok(id);
        }
        let id = names.last_id().map_or(1, |id| id.0 + 1).max(self.topic_floor.load(Ordering::Relaxed));
        match names.insert(TopicId(id), name) {
            Ok(()) => Ok(TopicId(id)),
            Err(error) => Err((Code::TooManyTopics, error.to_string())),
        }
    }
}
