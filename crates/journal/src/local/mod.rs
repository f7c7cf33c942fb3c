//! The backend `local`: chronological segments in a data directory.
//!
//! ```text
//!                 engine's side (this file: plain state)        elsewhere
//!  submit ──▶ place given, header finished ──▶ take_write ──▶ WriteJob::run   one thread: pwrites, one fdatasync
//!  durable ◀────────────────────────────────── wrote ◀──────── WriteDone
//!                                              next_job ──▶ Job::run          another thread: prepare, seal,
//!                                              done ◀──────── JobDone         checkpoint, retire
//! ```
//!
//! A batch gets its place when it is submitted, in space that is on the disk already: the rest of the current segment or the
//! one prepared behind it. So what was accepted can be written whatever becomes of the disk's room. The first error of a
//! write or a sync is final.
//!
//! Files are opened and written here and nowhere else in the crate, through `arioso-disk`.

mod backend;
mod jobs;
mod load;
mod open;
mod split;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arioso_disk::{Disk, File, Lock};
use arioso_store::batch::{BATCH_BYTES_MAX, BatchHeader, NameKind, PAGE_BYTES, Place, place_header};
use arioso_store::identity::{Clean, Epoch, Identity};
use arioso_store::manifest::Manifest;
use arioso_store::places::{BatchPlace, Places};
use arioso_store::segment::survey::Spare;
use arioso_store::segment::{ChainEnd, KnownEnd, SegmentHeader, SegmentInfo, SegmentState, SegmentTable};
use arioso_store::voids::Voids;
use bytes::Bytes;

pub use jobs::{CheckpointJob, Job, JobDone, Notice, PrepareJob, RetireJob, SealJob};
pub use open::{LocalReplay, NewStream, Recovered, RecoveredTopic, Repair};
pub use split::{GiveBackJob, SwitchJob};
pub use write::{WriteDone, WriteJob};

use crate::backend::{Completion, Outcome, Room, Write};
use crate::entry::BatchNumber;
use crate::error::Error;
use write::Step;

const PAGE: u64 = PAGE_BYTES as u64;

/// What can be set.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Made when the directory holds no stream; `None`: an empty directory is refused.
    pub new_stream: Option<NewStream>,
    /// Bytes of a segment's file: `segment-bytes`.
    pub segment_bytes: u64,
    /// Retired files kept to be written again.
    pub free_files_max: usize,
    /// Messages of a publisher whose numbers are remembered; at least the sequencer's window.
    pub window_messages: u32,
    /// How far above the next number the first batch of a start reserves.
    pub reserve_ahead: u64,
    /// Sealed segments between two checkpoints.
    pub checkpoint_segments: u64,
    /// Segments that are split into one span; 0: none are.
    pub split_segments: u64,
    /// Stores of a span at most.
    pub stores_max: u32,
}

/// The smallest segment: a header and one batch of the largest message.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;

impl Default for LocalOptions {
    fn default() -> LocalOptions {
        LocalOptions {
            new_stream: None,
            segment_bytes: 64 << 20,
            free_files_max: 4,
            window_messages: 8_192,
            reserve_ahead: 1 << 22,
            checkpoint_segments: 8,
            split_segments: 0,
            stores_max: 64,
        }
    }
}

/// The segment that batches are given places in.
#[derive(Debug)]
struct Current {
    number: u64,
    incarnation: u64,
    file: Arc<dyn File>,
    capacity: u64,
    at: u64,
    /// Something was placed since the last sync step.
    unsynced: bool,
}

/// A segment that is ready to be begun.
#[derive(Debug)]
struct Prepared {
    header: SegmentHeader,
    file: Arc<dyn File>,
}

/// How the segment behind the current one stands.
#[derive(Debug)]
enum Behind {
    /// Nobody is at it.
    Wanted,
    /// A job is at it.
    Preparing,
    Ready(Prepared),
    /// The last try failed, not for want of room.
    Failed,
    /// The last try failed for want of room; the numbers are those of the disk.
    Full {
        free: u64,
        need: u64,
    },
}

/// What a write brings about once it is durable.
#[derive(Debug)]
enum Effect {
    Begun(SegmentInfo),
    Batch {
        segment: u64,
        number: u64,
        end: u64,
        last_sequence: u64,
        timestamp: i64,
        place: BatchPlace,
        records: bool,
    },
    /// The segment got its last batch.
    Ended(u64, KnownEnd),
}

/// The backend `local`, opened.
#[derive(Debug)]
pub struct Local {
    disk: Arc<dyn Disk>,
    options: LocalOptions,
    identity: Identity,
    _lock: Lock,
    epoch: u64,
    incarnations: u32,
    table: SegmentTable,
    /// The highest number of a segment that was there before this start, or should have been.
    newest_number: u64,
    manifest: Manifest,
    voids: Voids,
    current: Option<Current>,
    behind: Behind,
    /// The largest batch that wants room.
    wanted_bytes: u64,
    /// Where the chain of placed batches ends.
    chain: ChainEnd,
    last_sequence: u64,
    timestamp: i64,
    settled_to: u64,
    next_topic: u32,
    next_publisher: u32,
    steps: Vec<Step>,
    effects: Vec<Effect>,
    first_step_batch: Option<u64>,
    flying: Option<Vec<Effect>>,
    /// The newest durable batch, and whether a later one is known to say so or it holds nothing.
    durable: u64,
    durable_quiet: bool,
    /// Segments that wait to be sealed, with where they end.
    unsealed: VecDeque<(u64, KnownEnd)>,
    sealing: bool,
    seal_failed: bool,
    /// Bases that are valid, ascending.
    bases: Vec<u64>,
    base_bytes: u64,
    /// Something is to be let go that no two bases cover.
    checkpoint_wanted: bool,
    checkpointing: bool,
    checkpoint_failed: bool,
    retiring: Option<u64>,
    retire_running: bool,
    splitting: split::Splitting,
    /// Bytes of the files of the spans in charge.
    span_bytes: BTreeMap<u64, u64>,
    /// No span of this id was ever in charge.
    next_span: u64,
    free: Vec<Spare>,
    /// A file of the journal's directory that the next segment's number has already.
    spare: bool,
    lost: bool,
}

impl Local {
    /// Whose stream it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// This server's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The segments, and how far each may be read.
    pub fn table(&self) -> &SegmentTable {
        &self.table
    }

    /// Ranges that are void, as far as files tell.
    pub fn voids(&self) -> &Voids {
        &self.voids
    }

    /// Notes ranges that a void record took back: they are left out when segments are sealed.
    pub fn add_voids(&mut self, first: u64, last: u64) {
        self.voids.add(first, last);
    }

    /// The newest batch number known durable: the next batch's `synced_to`.
    pub fn synced_to(&self) -> u64 {
        self.durable
    }

    /// What can be taken now.
    pub fn room(&self) -> Room {
        if self.lost {
            return Room::Busy;
        }
        let rest = self.current.as_ref().map_or(0, |current| current.capacity - current.at);
        let behind = match &self.behind {
            Behind::Ready(prepared) => prepared.header.capacity - PAGE,
            _ => 0,
        };
        match (rest.max(behind), &self.behind) {
            (0, Behind::Full { free, need }) => Room::DiskFull { free: *free, need: *need },
            (0, _) => Room::Busy,
            (bytes, _) => Room::Bytes(bytes.min(BATCH_BYTES_MAX as u64)),
        }
    }

    /// Whether a batch of so many bytes (header and records) can be taken. If not, room for it is asked for: a batch larger
    /// than a segment gets one of its own.
    pub fn room_for(&mut self, bytes: u64) -> Result<(), Room> {
        assert!(bytes <= BATCH_BYTES_MAX as u64, "a batch has at most {BATCH_BYTES_MAX} bytes");
        let need = bytes.next_multiple_of(PAGE);
        match self.room() {
            Room::Bytes(most) if need <= most => Ok(()),
            Room::Bytes(_) => {
                self.wanted_bytes = self.wanted_bytes.max(need);
                Err(match &self.behind {
                    Behind::Full { free, need } => Room::DiskFull { free: *free, need: *need },
                    _ => Room::Busy,
                })
            }
            none => {
                self.wanted_bytes = self.wanted_bytes.max(need);
                Err(none)
            }
        }
    }

    /// Takes a batch in and gives it its place. It fits in what [`Local::room`] told.
    pub fn submit(&mut self, write: Write) {
        assert!(!self.lost, "a lost journal takes nothing");
        let mut header = write.header.to_vec();
        let batch = Submitted::of(&BatchHeader::trusted(&header));
        assert_eq!(batch.number, write.number.0);
        assert_eq!(batch.number, self.chain.batch + 1, "batches are submitted in the order of their numbers");
        assert_eq!(batch.records_bytes, write.records.len());
        let bytes = write.bytes().next_multiple_of(PAGE);
        if self.current.as_ref().is_none_or(|current| current.capacity - current.at < bytes) {
            self.rotate(bytes);
        }
        let current = self.current.as_mut().expect("rotation begins a segment");
        let place =
            Place { incarnation: current.incarnation, offset: current.at, previous_checksum: self.chain.checksum };
        let checksum = place_header(&mut header, place);
        let offset = current.at;
        current.at += bytes;
        current.unsynced = true;
        self.first_step_batch.get_or_insert(batch.number);
        let file = Arc::clone(&current.file);
        self.steps.push(Step::Batch { file, offset, header: header.into(), records: write.records });
        self.effects.push(Effect::Batch {
            segment: current.number,
            number: batch.number,
            end: current.at,
            last_sequence: batch.last_sequence,
            timestamp: batch.timestamp,
            place: BatchPlace { offset, first_sequence: batch.first_sequence, timestamp_before: self.timestamp },
            records: batch.records_bytes > 0,
        });
        self.chain = ChainEnd { segment: current.number, end: current.at, batch: batch.number, checksum };
        self.last_sequence = self.last_sequence.max(batch.last_sequence);
        self.timestamp = self.timestamp.max(batch.timestamp);
        self.settled_to = self.settled_to.max(batch.settled_to);
        self.next_topic = self.next_topic.max(batch.next_topic);
        self.next_publisher = self.next_publisher.max(batch.next_publisher);
    }

    /// Ends the current segment and begins the prepared one.
    fn rotate(&mut self, bytes: u64) {
        let Behind::Ready(prepared) = std::mem::replace(&mut self.behind, Behind::Wanted) else {
            panic!("a batch of {bytes} bytes was submitted without room");
        };
        assert!(prepared.header.capacity - PAGE >= bytes, "a batch of {bytes} bytes was submitted without room");
        if let Some(old) = self.current.take() {
            // What the new header says of the old segment must be durable before it is said.
            if old.unsynced {
                self.steps.push(Step::Sync(old.file));
            }
            let ChainEnd { batch, checksum, .. } = self.chain;
            let end = KnownEnd { end: old.at, batch, checksum, last_sequence: self.last_sequence };
            self.effects.push(Effect::Ended(old.number, end));
        }
        let header = SegmentHeader {
            state: SegmentState::Begun,
            next_sequence: self.last_sequence + 1,
            timestamp: self.timestamp,
            server_epoch: self.epoch,
            previous: self.chain,
            next_topic: self.next_topic,
            next_publisher: self.next_publisher,
            settled_to: self.settled_to,
            ..prepared.header
        };
        self.effects.push(Effect::Begun(SegmentInfo {
            number: header.number,
            incarnation: header.incarnation,
            first_sequence: header.next_sequence,
            last_sequence: self.last_sequence,
            first_timestamp: self.timestamp,
            last_timestamp: self.timestamp,
            batches_end: PAGE,
            file_bytes: header.capacity,
            trailer: None,
            places: Places::default(),
        }));
        self.steps.push(Step::Begin { file: Arc::clone(&prepared.file), page: header.encode() });
        self.wanted_bytes = 0;
        self.current = Some(Current {
            number: header.number,
            incarnation: header.incarnation,
            file: prepared.file,
            capacity: header.capacity,
            at: PAGE,
            unsynced: false,
        });
    }

    /// Whether something was submitted that no write took.
    pub fn has_submitted(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether a write is under way.
    pub fn is_writing(&self) -> bool {
        self.flying.is_some()
    }

    /// Everything submitted so far as one job, unless one is under way: it runs elsewhere, its end is given to
    /// [`Local::wrote`].
    pub fn take_write(&mut self) -> Option<WriteJob> {
        if self.steps.is_empty() || self.flying.is_some() || self.lost {
            return None;
        }
        let mut steps = std::mem::take(&mut self.steps);
        if let Some(current) = self.current.as_mut().filter(|current| current.unsynced) {
            current.unsynced = false;
            steps.push(Step::Sync(Arc::clone(&current.file)));
        }
        self.flying = Some(std::mem::take(&mut self.effects));
        let first_batch = self.first_step_batch.take().unwrap_or(self.chain.batch);
        Some(WriteJob { steps, first_batch })
    }

    /// A write ended. An error is final: nothing more is promised.
    pub fn wrote(&mut self, done: WriteDone, out: &mut Vec<Completion>) -> Result<(), Error> {
        let effects = self.flying.take().expect("a write that ended was under way");
        if let Err(source) = done.result {
            self.lost = true;
            return Err(Error::WriteLost { batch: done.first_batch, source });
        }
        for effect in effects {
            match effect {
                Effect::Begun(info) => self.table.push(info),
                Effect::Ended(segment, end) => self.ended(segment, end),
                Effect::Batch { segment, number, end, last_sequence, timestamp, place, records } => {
                    let info = self.table.get_mut(segment).expect("a segment with a batch was begun");
                    info.places.note(place);
                    info.batches_end = end;
                    info.last_sequence = info.last_sequence.max(last_sequence);
                    info.last_timestamp = info.last_timestamp.max(timestamp);
                    self.durable = number;
                    self.durable_quiet = !records;
                    out.push(Completion { number: BatchNumber(number), outcome: Outcome::Durable });
                }
            }
        }
        Ok(())
    }

    /// Whether an empty batch should be written to carry `synced_to` forward: the newest durable batch holds records, and
    /// nothing is on its way that would say that it is durable. To be asked when the stream is idle.
    pub fn wants_empty_batch(&self) -> bool {
        let idle = self.steps.is_empty() && self.flying.is_none() && !self.lost;
        let fits = matches!(self.room(), Room::Bytes(bytes) if bytes >= PAGE);
        idle && fits && !self.durable_quiet
    }

    /// Ends cleanly: numbering goes on at `next_sequence` at the next start. Everything submitted was written; the
    /// mark is the last thing that is. The lock is released when the journal is dropped.
    pub fn close(&mut self, next_sequence: u64, timestamp: i64) -> Result<(), Error> {
        assert!(self.steps.is_empty() && self.flying.is_none(), "everything submitted is written before closing");
        assert!(next_sequence > self.last_sequence, "a number was given above {next_sequence}");
        if self.lost {
            return Ok(());
        }
        // From here on nothing is taken.
        self.lost = true;
        let clean = Some(Clean { next_sequence, timestamp: timestamp.max(self.timestamp) });
        Ok(Epoch { epoch: self.epoch, clean }.store(&*self.disk)?)
    }

    fn next_number(&self) -> u64 {
        let in_table = self.table.last().map_or(0, |info| info.number).max(self.newest_number);
        self.current.as_ref().map_or(in_table, |current| current.number.max(in_table)) + 1
    }

    fn next_incarnation(&mut self) -> u64 {
        self.incarnations += 1;
        self.epoch << 32 | u64::from(self.incarnations)
    }
}

/// What placing a batch needs of its header.
struct Submitted {
    number: u64,
    records_bytes: usize,
    first_sequence: u64,
    last_sequence: u64,
    timestamp: i64,
    settled_to: u64,
    next_topic: u32,
    next_publisher: u32,
}

impl Submitted {
    fn of(header: &BatchHeader<'_>) -> Submitted {
        let (mut next_topic, mut next_publisher) = (1, 1);
        for name in header.names() {
            match name.kind {
                NameKind::Topic => next_topic = next_topic.max(name.id.saturating_add(1)),
                NameKind::Publisher => next_publisher = next_publisher.max(name.id.saturating_add(1)),
            }
        }
        Submitted {
            number: header.number(),
            records_bytes: header.records_bytes(),
            first_sequence: header.first_sequence(),
            last_sequence: header.last_sequence(),
            timestamp: header.timestamp(),
            settled_to: header.settled_to(),
            next_topic,
            next_publisher,
        }
    }
}

/// A batch that our own side built, as it is submitted.
pub fn write_of(parts: &arioso_store::BatchParts) -> Write {
    let mut header = Vec::with_capacity(parts.header_bytes());
    parts.encode_unplaced(&mut header);
    Write { number: BatchNumber(parts.number), header: Bytes::from(header), records: parts.records.clone() }
}

#[cfg(test)]
mod inspect_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
