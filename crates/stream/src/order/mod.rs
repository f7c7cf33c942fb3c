//! The sequencer: one owner of the order. It judges what is published (epoch, once-only), gives numbers and timestamps,
//! and builds batches in the chunk that the journal's writer and every reader will share.
//!
//! ```text
//!  publish ──▶ publishers: epoch, expected number, window ──▶ verdicts (stored, duplicate, refused)
//!                  │ new messages
//!                  ▼
//!  chunk (4 MiB):  [ batch 7 | batch 8 | open batch ...........      ]   take() ──▶ batches for the journal
//! ```
//!
//! It is told the time and does no I/O.

mod build;
mod counts;
mod cursors;
mod publishers;

pub use build::{Batch, NameKind, NewName, Run};
pub use counts::TopicCounts;
pub use cursors::{
    CURSOR_FILTER_BYTES_MAX, CURSOR_NAME_BYTES_MAX, Cursor, CursorOpened, CursorPlace, CursorRefused, CursorState,
};
pub use publishers::{ANONYMOUS_FROM, Holder, OpenRefused, Opened, Publisher, PublisherKey, PublisherState, WindowRun};

use crate::record::{self, Records, Sequence};
use build::Builder;
use counts::Counts;
use cursors::Cursors;
use publishers::{Publishers, Seen};

/// How far above the next number `reserved_to` is set: two passes of the largest conceivable burst between syncs.
pub const RESERVE_AHEAD: u64 = 1 << 22;

/// Ceilings of the sequencer.
#[derive(Clone, Copy, Debug)]
pub struct OrderLimits {
    /// Bytes that may wait for the journal; beyond it publishers are told `busy`.
    pub pending_bytes_max: usize,
    /// Named publishers kept.
    pub publishers_max: usize,
    /// Cursors kept.
    pub cursors_max: usize,
    /// Messages of one publisher whose numbers are remembered for retries.
    pub window_messages: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: usize,
}

impl Default for OrderLimits {
    fn default() -> OrderLimits {
        OrderLimits {
            pending_bytes_max: 64 << 20,
            publishers_max: 10_000,
            cursors_max: 10_000,
            window_messages: 8_192,
            chunk_bytes: 4 << 20,
        }
    }
}

/// What a start found: where the order goes on.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The next number to give.
    pub next: Sequence,
    /// No number above is given before a batch with a higher `reserved_to` is durable.
    pub reserved_to: Sequence,
    /// The last kept timestamp.
    pub timestamp: i64,
    /// Number of the next batch.
    pub batch: u64,
    /// The next publisher id.
    pub publisher: u32,
}

/// Messages of one publisher, as they came: consecutive publisher sequences, records laid end to end.
pub struct Publish<'a> {
    /// Who publishes.
    pub publisher: PublisherKey,
    /// The epoch it was given.
    pub epoch: u32,
    /// Publisher sequence of the first message.
    pub first: u64,
    /// How many messages.
    pub messages: u32,
    /// The records; sequence, timestamp and publisher are filled in on the way.
    pub records: &'a [u8],
    /// Stream-wide ids for the topic ids in the records; `None`: they are stream-wide already.
    pub topics: Option<&'a [u32]>,
    /// All or nothing.
    pub atomic: bool,
}

/// What became of some consecutive messages of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Publisher sequence of the first.
    pub first: u64,
    /// How many.
    pub messages: u32,
    /// What became of them.
    pub kind: VerdictKind,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// Sequenced, in this batch; the sequences are consecutive.
    Stored {
        /// Sequence of the first.
        first: Sequence,
        /// The batch that holds them.
        batch: u64,
    },
    /// Stored before; the sequences are consecutive.
    Duplicate {
        /// Sequence of the first.
        first: Sequence,
    },
    /// Consumed before without a message.
    NotStored,
    /// Below the window.
    TooOld,
    /// Another number is due; nothing is consumed.
    Expected {
        /// The number that is due.
        due: u64,
    },
    /// A ceiling is reached; nothing is consumed.
    Busy,
    /// Another holder opened this publisher.
    Fenced,
    /// The epoch is closed.
    Reopen,
}

/// The sequencer.
pub struct Order {
    limits: OrderLimits,
    next: Sequence,
    reserved_durable: Sequence,
    timestamp: i64,
    publishers: Publishers,
    cursors: Cursors,
    builder: Builder,
    topics: Counts,
}

impl Order {
    /// Goes on where the journal ended.
    pub fn new(limits: OrderLimits, resume: Resume) -> Order {
        assert!(limits.chunk_bytes >= 1 << 16, "a chunk holds many records");
        Order {
            limits,
            next: resume.next,
            reserved_durable: resume.reserved_to,
            timestamp: resume.timestamp,
            publishers: Publishers::new(limits.publishers_max, limits.window_messages, resume.publisher),
            cursors: Cursors::new(limits.cursors_max),
            builder: Builder::new(limits.chunk_bytes, resume.batch),
            topics: Counts::default(),
        }
    }

    /// The next number to be given.
    pub fn next_sequence(&self) -> Sequence {
        self.next
    }

    /// The newest timestamp given.
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// Bytes that wait to be taken by the journal or are being written.
    pub fn pending_bytes(&self) -> usize {
        self.builder.pending_bytes()
    }

    /// Of these, the bytes that no batch was taken with yet.
    pub fn waiting_bytes(&self) -> usize {
        self.builder.waiting_bytes()
    }

    /// Whether a batch waits to be taken.
    pub fn has_pending(&self) -> bool {
        self.builder.has_pending()
    }

    /// Counts of a topic; zero for one without messages.
    pub fn topic(&self, topic: u32) -> TopicCounts {
        self.topics.get(topic)
    }

    /// The newest message of each of these topics at or below a settled sequence, where no newer one is settled.
    pub fn newest_settled(&self, topics: &[u32], to: Sequence, out: &mut Vec<Sequence>) {
        self.topics.newest_settled(topics, to, out);
    }

    /// Counts found at a start.
    pub fn restore_topic(&mut self, topic: u32, counts: TopicCounts) {
        self.topics.set(topic, counts);
        self.builder.restore_named(topic);
    }

    /// A publisher found at a start.
    pub fn restore_publisher(&mut self, state: PublisherState) {
        self.publishers.restore(state);
    }

    /// Named publishers, for listing and for the checkpoint.
    pub fn publishers(&self) -> impl Iterator<Item = &Publisher> {
        self.publishers.named()
    }

    /// One publisher.
    pub fn publisher(&self, key: PublisherKey) -> Option<&Publisher> {
        self.publishers.get(key)
    }

    /// Opens a publisher that keeps no state. Its first publisher sequence is 1.
    pub fn open_anonymous(&mut self, holder: Holder) -> Result<Opened, OpenRefused> {
        self.publishers.open_anonymous(holder)
    }

    /// Opens an epoch of a named publisher and notes it in the order; to be answered when that note is durable.
    /// `next` is the next publisher sequence it will send, 0: go on after the last consumed.
    pub fn open_named(&mut self, now: i64, holder: Holder, name: &str, next: u64) -> Result<Opened, OpenRefused> {
        if !self.has_room(record::HEADER_BYTES * 8) {
            return Err(OpenRefused::Busy);
        }
        let mut opened = self.publishers.open_named(holder, name, next)?;
        let control = build::epoch_opened(opened.id, opened.epoch, opened.next, name);
        let (sequence, batch) = self.control(now, &control, 0);
        self.builder.name(NameKind::Publisher, opened.id, |_| name.into());
        opened.note = Some((sequence, batch));
        Ok(opened)
    }

    /// Names the next publisher sequence within an epoch; to be answered when the note is durable.
    pub fn skip(
        &mut self,
        now: i64,
        publisher: PublisherKey,
        epoch: u32,
        next: u64,
    ) -> Result<(Sequence, u64), VerdictKind> {
        if !self.has_room(record::HEADER_BYTES * 4) {
            return Err(VerdictKind::Busy);
        }
        let id = self.publishers.skip(publisher, epoch, next)?;
        Ok(self.control(now, &build::skip(id, epoch, next), 0))
    }

    /// Forgets a named publisher; to be answered when the note is durable.
    pub fn drop_publisher(&mut self, now: i64, name: &str) -> Option<(Sequence, u64)> {
        let id = self.publishers.drop_named(name)?;
        Some(self.control(now, &build::publisher_dropped(id), 0))
    }

    /// A cursor found at a start.
    pub fn restore_cursor(&mut self, state: CursorState) {
        self.cursors.restore(state);
    }

    /// Nothing is to be told of dropped cursors.
    pub fn forget_dropped_cursors(&mut self) {
        self.cursors.forget_dropped();
    }

    /// A cursor that was dropped in a segment which is not sealed.
    pub fn restore_dropped_cursor(&mut self, id: u32, changed: Sequence) {
        self.cursors.restore_dropped(id, changed);
    }

    /// The cursor of this name.
    pub fn cursor(&self, name: &str) -> Option<&Cursor> {
        self.cursors.get(name)
    }

    /// Cursors by name, behind this one.
    pub fn cursors_behind(&self, after: &str) -> impl Iterator<Item = &Cursor> {
        self.cursors.behind(after)
    }

    /// How many cursors there are.
    pub fn cursors_len(&self) -> usize {
        self.cursors.len()
    }

    /// Takes a cursor for a holder, making it at `fresh` if there is none; to be answered when the note is durable.
    pub fn open_cursor(
        &mut self,
        now: i64,
        holder: Holder,
        named: (&str, &[Box<str>]),
        fresh: Sequence,
    ) -> Result<(CursorOpened, (Sequence, u64)), CursorRefused> {
        self.cursor_room(named.1)?;
        let opened = self.cursors.open(holder, named, fresh, now)?;
        Ok((opened, self.note_cursor(now, opened.id, opened.place)))
    }

    /// Makes or moves a cursor; to be answered when the note is durable.
    pub fn set_cursor(
        &mut self,
        now: i64,
        named: (&str, &[Box<str>]),
        next: Sequence,
    ) -> Result<(CursorOpened, (Sequence, u64)), CursorRefused> {
        self.cursor_room(named.1)?;
        let opened = self.cursors.set(named, next, now)?;
        Ok((opened, self.note_cursor(now, opened.id, opened.place)))
    }

    /// The holder moves its cursor on; to be answered when the note is durable.
    pub fn commit_cursor(
        &mut self,
        now: i64,
        name: &str,
        holder_epoch: u32,
        next: Sequence,
    ) -> Result<(Sequence, u64), CursorRefused> {
        self.cursor_room(&[])?;
        let (id, place) = self.cursors.commit(name, holder_epoch, next, now)?;
        let note = self.control(now, &build::cursor_committed(id, holder_epoch, next), 0);
        self.cursors.note(id, note.0, Some(place));
        Ok(note)
    }

    /// Forgets a cursor and tells who held it; to be answered when the note is durable.
    #[expect(clippy::type_complexity, reason = "a note, and a holder with its epoch")]
    pub fn drop_cursor(
        &mut self,
        now: i64,
        name: &str,
    ) -> Result<((Sequence, u64), Option<(Holder, u32)>, u32), CursorRefused> {
        self.cursor_room(&[])?;
        let (id, fenced) = self.cursors.drop_named(name)?;
        let note = self.control(now, &build::cursor_dropped(id), 0);
        self.cursors.note(id, note.0, None);
        Ok((note, fenced, id))
    }

    /// The holder of this epoch went away.
    pub fn release_cursor(&mut self, id: u32, holder_epoch: u32) {
        self.cursors.release(id, holder_epoch);
    }

    /// Names of cursors that nobody has held or moved for so long.
    pub fn expired_cursors(&mut self, now: i64, ttl_ns: i64) -> Vec<Box<str>> {
        self.cursors.expired(now, ttl_ns)
    }

    /// The bodies of control record 5 of cursors that changed at or after a sequence, as far as settled.
    pub fn cursor_bodies_from(&mut self, from: Sequence) -> Vec<Vec<u8>> {
        self.cursors.bodies_from(from)
    }

    fn cursor_room(&self, filters: &[Box<str>]) -> Result<(), CursorRefused> {
        let bytes: usize = filters.iter().map(|filter| filter.len() + 2).sum();
        if self.has_room(record::HEADER_BYTES * 12 + bytes) { Ok(()) } else { Err(CursorRefused::Busy) }
    }

    fn note_cursor(&mut self, now: i64, id: u32, place: CursorPlace) -> (Sequence, u64) {
        let cursor = self.cursors.by_id(id).expect("it was just taken");
        let payload = build::cursor_set(id, place, &cursor.name, &cursor.filters);
        let note = self.control(now, &payload, 0);
        self.cursors.note(id, note.0, Some(place));
        note
    }

    /// The holder went away; an anonymous publisher is forgotten.
    pub fn release(&mut self, publisher: PublisherKey) {
        self.publishers.release(publisher);
    }

    /// The publisher of this name.
    pub fn publisher_named(&self, name: &str) -> Option<&Publisher> {
        self.publishers.by_name(name)
    }

    /// The next publisher id, for the segment header.
    pub fn next_publisher_id(&self) -> u32 {
        self.publishers.next_id()
    }

    /// A definite refusal consumes the numbers up to `last`.
    pub fn consume(&mut self, publisher: PublisherKey, last: u64) {
        self.publishers.consume(publisher, last);
    }

    /// The number due of a publisher if it may publish under this epoch; else what to answer.
    pub fn due(&mut self, publisher: PublisherKey, epoch: u32) -> Result<u64, VerdictKind> {
        self.publishers.due(publisher, epoch)
    }

    /// Everything at or below is settled or void.
    pub fn settled(&mut self, to: Sequence) {
        self.topics.settled(to);
        self.cursors.settled(to);
    }

    /// A void record: takes these sequences back, ascending ranges.
    pub fn void(&mut self, now: i64, ranges: &[(Sequence, Sequence)]) -> (Sequence, u64) {
        self.topics.take_back(ranges);
        self.cursors.take_back(ranges);
        self.control(now, &build::void(ranges), record::FLAG_VOID)
    }

    /// Messages of the publisher in these ranges are void: a retry of them is `not stored`, its epoch is closed.
    pub fn void_published(&mut self, publisher: u32, ranges: &[(Sequence, Sequence)]) {
        self.publishers.void(publisher, ranges);
    }

    /// Appends a control record. Room was checked by the caller, or is not to be refused.
    pub fn control(&mut self, now: i64, payload: &[u8], flags: u16) -> (Sequence, u64) {
        let timestamp = self.tick(now);
        let sequence = self.next;
        self.next = sequence.next();
        let batch = self.builder.control(sequence, timestamp, payload, flags);
        (sequence, batch)
    }

    /// Sequences what is new of a publish. Every message gets exactly one verdict, in order. `name_of` tells the name of a
    /// topic id whose name is not durable yet.
    pub fn publish(
        &mut self,
        now: i64,
        publish: &Publish<'_>,
        name_of: &dyn Fn(u32) -> Box<str>,
        out: &mut Vec<Verdict>,
    ) {
        let mut first = publish.first;
        let mut messages = publish.messages;
        let mut records = publish.records;
        while messages > 0 {
            let seen = self.publishers.judge(publish.publisher, publish.epoch, first, messages);
            let (count, kind) = match seen {
                Seen::New => break,
                Seen::Known { messages, kind } => (messages, kind),
            };
            out.push(Verdict { first, messages: count, kind });
            records = skip_records(records, count);
            first += u64::from(count);
            messages -= count;
        }
        if messages == 0 {
            return;
        }
        let kind = self.store(now, publish, (first, messages, records), name_of);
        out.push(Verdict { first, messages, kind });
    }

    /// What became of messages all of which lie below the number that is due.
    pub fn recall(&mut self, publisher: PublisherKey, epoch: u32, first: u64, messages: u32, out: &mut Vec<Verdict>) {
        let (mut first, mut messages) = (first, messages);
        while messages > 0 {
            let Seen::Known { messages: count, kind } = self.publishers.judge(publisher, epoch, first, messages) else {
                panic!("publisher sequence {first} is due, it is not known yet");
            };
            out.push(Verdict { first, messages: count, kind });
            first += u64::from(count);
            messages -= count;
        }
    }

    fn store(
        &mut self,
        now: i64,
        publish: &Publish<'_>,
        (publisher_first, messages, records): (u64, u32, &[u8]),
        name_of: &dyn Fn(u32) -> Box<str>,
    ) -> VerdictKind {
        let last = self.next.0 + u64::from(messages) - 1;
        if last > self.reserved_durable.0 || !self.has_room(records.len()) {
            return VerdictKind::Busy;
        }
        let timestamp = self.tick(now);
        let first = self.next;
        self.next = Sequence(last + 1);
        let stored = self.publishers.stored(publish.publisher, publisher_first, messages, first, timestamp);
        let run = Run {
            publisher: stored.id,
            epoch: publish.epoch,
            first_publisher_sequence: publisher_first,
            messages,
            stored_before: stored.before,
            first_sequence: first,
        };
        let topics = &mut self.topics;
        let batch = self.builder.append(run, timestamp, records, publish, name_of, |topic, bytes, sequence| {
            topics.add(topic, bytes, sequence);
        });
        VerdictKind::Stored { first, batch }
    }

    /// Ends the open batch: what comes goes into the next one.
    pub fn part(&mut self) {
        self.builder.close();
    }

    /// Closes the open batch and gives out all that wait, oldest first. `reserved_to` is set ahead of the newest number.
    pub fn take(&mut self, out: &mut Vec<Batch>) {
        let reserved_to = Sequence(self.next.0 + RESERVE_AHEAD);
        self.builder.take(reserved_to, out);
    }

    /// An empty batch, to carry `synced_to` and `reserved_to` forward.
    pub fn empty_batch(&mut self, now: i64) -> Batch {
        let timestamp = self.tick(now);
        let reserved_to = Sequence(self.next.0 + RESERVE_AHEAD);
        self.builder.empty(Sequence(self.next.0 - 1), timestamp, reserved_to)
    }

    /// Everything up to this batch is durable.
    pub fn durable(&mut self, batch: u64, reserved_to: Sequence) {
        self.reserved_durable = self.reserved_durable.max(reserved_to);
        self.builder.durable(batch);
    }

    /// This batch is known never to become durable.
    pub fn failed(&mut self, batch: u64) {
        self.builder.failed(batch);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.builder.pending_bytes() + bytes <= self.limits.pending_bytes_max || self.builder.pending_bytes() == 0
    }

    fn tick(&mut self, now: i64) -> i64 {
        self.timestamp = self.timestamp.max(now);
        self.timestamp
    }
}

fn skip_records(bytes: &[u8], messages: u32) -> &[u8] {
    let used: usize = Records::new(bytes)
        .take(messages as usize)
        .map(|record| record.expect("the session checked the records").bytes().len())
        .sum();
    &bytes[used..]
}

#[cfg(test)]
mod tests;
