//! The log: takes batches from the engine, makes them durable through the backend, then lets the engine settle them and the
//! tip show them. One step is one round; whoever drives it (a thread, the simulator) decides when.
//!
//! ```text
//!  engine.take ──▶ tip.append (not visible) ──▶ backend: write, one sync ──▶ engine.completed: settled, replies
//!                                                                        ──▶ tip.set_visible ──▶ hub: who is woken
//! ```
//!
//! While a round waits for its sync the engine fills the next batch: that is the group commit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arioso_journal::local::{Job, Local, write_of};
use arioso_journal::{Backend, Completion, Room, SequenceRange};
use arioso_store::batch::BatchParts;
use arioso_stream::Sequence;
use arioso_stream::tip::{OpenRange, PartitionId, TipWriter};
use arioso_stream::topic::TopicId;
use bytes::Bytes;

use crate::mailbox::Mailbox;
use crate::metrics::add;
use crate::node::Node;
use crate::retention::{Rule, retain};

/// Records of a batch that may hold messages which are not settled.
struct InFlight {
    first: Sequence,
    last: Sequence,
    records: Bytes,
}

/// The log's writer.
pub struct Log<B> {
    node: Arc<Node>,
    backend: B,
    tip: TipWriter,
    in_flight: VecDeque<InFlight>,
    batches: Vec<BatchParts>,
    /// Batches that found no room in the journal, oldest first: what it told when they were numbered no longer holds.
    held: VecDeque<BatchParts>,
    held_bytes: u64,
    /// What the journal was asked to make room for since something was submitted.
    asked_bytes: u64,
    completions: Vec<Completion>,
    settled: Vec<SequenceRange>,
    voided: Vec<SequenceRange>,
    /// Void sequences that the tip was not given yet: they wait in a batch that is still to be taken.
    voided_ahead: Vec<SequenceRange>,
    /// The last sequence of the batches given to the tip.
    appended_to: Sequence,
    open: Vec<OpenRange>,
    woken: Vec<Arc<Mailbox>>,
    retention: Rule,
}

impl<B: Backend> Log<B> {
    /// A log that writes what the node's engine gives out.
    pub fn new(node: Arc<Node>, backend: B, tip: TipWriter) -> Log<B> {
        {
            let mut engine = node.engine.lock();
            engine.set_room(backend.room());
            if backend.fails() {
                engine.may_void();
            }
            if backend.is_shared() {
                engine.prove_answers();
            }
        }
        let retention = Rule::of(&node.settings);
        Log {
            node,
            backend,
            tip,
            in_flight: VecDeque::new(),
            batches: Vec::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            asked_bytes: 0,
            completions: Vec::new(),
            settled: Vec::new(),
            voided: Vec::new(),
            voided_ahead: Vec::new(),
            appended_to: Sequence::ZERO,
            open: Vec::new(),
            woken: Vec::new(),
            retention,
        }
    }

    /// The backend, for what only its kind does.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The backend, to look at.
    pub fn backend_ref(&self) -> &B {
        &self.backend
    }

    /// The tip's writer, for filling it after a start.
    pub fn tip(&mut self) -> &mut TipWriter {
        &mut self.tip
    }

    /// The backend, when the log is over.
    pub fn into_backend(self) -> B {
        self.backend
    }

    /// One round: what waits becomes durable. `mark`: if nothing waits, an empty batch carries `synced_to` forward. Returns
    /// whether anything was written. After an error nothing more is promised: the engine is to be told it is lost.
    pub fn step(&mut self, now: i64, mark: bool) -> Result<bool, arioso_journal::Error> {
        let wrote = self.begin(now, mark);
        self.finish(now)?;
        Ok(wrote)
    }

    /// The first half of a round: what waits is handed to the backend. Returns whether anything was.
    pub fn begin(&mut self, now: i64, mark: bool) -> bool {
        // What can't be written yet is taken when it can be: more of it fits into one write then.
        if self.backend.slots() as usize > self.held.len() {
            let mut engine = self.node.engine.lock();
            engine.take(&mut self.batches);
            if self.batches.is_empty() && self.held.is_empty() && mark && engine.wants_sync_mark() {
                let batch = engine.sync_mark(now);
                self.batches.push(batch);
            }
        }
        for batch in self.batches.drain(..) {
            self.held_bytes += batch.file_bytes();
            self.held.push_back(batch);
        }
        let mut wrote = false;
        while let Some(batch) = self.next_fitting() {
            self.submit(batch);
            wrote = true;
        }
        self.tell_slots();
        wrote
    }

    /// Writes an empty batch, whether one is wanted or not: at a start it carries `reserved_to`.
    pub fn mark(&mut self, now: i64) {
        let batch = self.node.engine.lock().sync_mark(now);
        self.held_bytes += batch.file_bytes();
        self.held.push_back(batch);
        self.begin(now, false);
    }

    /// Whether a write may be begun.
    pub fn has_slots(&self) -> bool {
        self.backend.slots() > 0
    }

    /// While slots are free, a write holds messages of one group: the engine parts batches by it.
    fn tell_slots(&mut self) {
        let slots = self.backend.slots();
        if slots < u32::MAX {
            self.node.engine.lock().set_slots(slots);
        }
    }

    /// The next batch, if the journal takes it now.
    fn next_fitting(&mut self) -> Option<BatchParts> {
        let bytes = self.held.front()?.file_bytes();
        if self.backend.slots() == 0 {
            return None;
        }
        if matches!(self.backend.room(), Room::Bytes(room) if room >= bytes) {
            self.held_bytes -= bytes;
            self.asked_bytes = 0;
            return self.held.pop_front();
        }
        if self.asked_bytes < bytes {
            self.asked_bytes = bytes;
            self.node.engine.lock().want(bytes);
        }
        None
    }

    /// Whether batches wait for room in the journal.
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the journal takes anything now.
    pub fn has_room(&self) -> bool {
        matches!(self.backend.room(), Room::Bytes(bytes) if bytes > 0)
    }

    /// What the journal can take beside what waits for it here.
    pub fn room(&self) -> Room {
        match self.backend.room() {
            Room::Bytes(bytes) => Room::Bytes(bytes.saturating_sub(self.held_bytes)),
            room => room,
        }
    }

    /// The second half: the backend does its work, and what became known is settled, answered and shown.
    pub fn finish(&mut self, now: i64) -> Result<(), arioso_journal::Error> {
        self.completions.clear();
        self.node.syncing.set(true);
        let advanced = self.backend.advance(&mut self.completions);
        self.node.syncing.set(false);
        advanced?;
        if !self.completions.is_empty() {
            add(&self.node.counters.syncs, 1);
        }
        self.complete(now);
        self.tell_slots();
        Ok(())
    }

    fn submit(&mut self, mut batch: BatchParts) {
        batch.records_crc = crc32c::crc32c(&batch.records);
        self.append(&batch);
        let write = write_of(&batch);
        add(&self.node.counters.batches, 1);
        add(&self.node.counters.batch_bytes, write.bytes());
        self.backend.submit(write);
    }

    fn append(&mut self, batch: &BatchParts) {
        self.appended_to = Sequence(batch.last_sequence);
        if batch.records.is_empty() {
            return;
        }
        let names = self.node.names.read();
        self.tip.append(batch.records.clone(), &mut |topic| {
            let partition = names.partition_of(TopicId(topic)).expect("a numbered topic has a name");
            PartitionId(partition.0)
        });
        self.in_flight.push_back(InFlight {
            first: Sequence(batch.first_sequence),
            last: Sequence(batch.last_sequence),
            records: batch.records.clone(),
        });
    }

    fn complete(&mut self, now: i64) {
        self.settled.clear();
        self.voided.clear();
        self.open.clear();
        let settled_to = {
            let room = self.room();
            let mut engine = self.node.engine.lock();
            engine.completed(now, &self.completions, room);
            engine.take_settled(&mut self.settled);
            engine.take_voided(&mut self.voided);
            self.open.extend(engine.open_ranges().map(|range| OpenRange { first: range.first, last: range.last }));
            engine.settled_to()
        };
        for range in &self.voided {
            self.node.history.add_void(range.first, range.last);
        }
        // Until their void record is durable they are open, so nobody reads past them.
        self.voided.append(&mut self.voided_ahead);
        self.voided_ahead.extend(self.voided.extract_if(.., |range| range.last > self.appended_to));
        // What was void already may have held `settled_to` back until its batch was known.
        if self.settled.is_empty() && self.voided.is_empty() && settled_to == self.node.tip.settled_to() {
            return;
        }
        let voids: Vec<(Sequence, Sequence)> = self.voided.iter().map(|range| (range.first, range.last)).collect();
        self.tip.set_visible(settled_to, &self.open, &voids);
        self.wake();
        self.node.told_to.store(settled_to.0, Ordering::SeqCst);
        while self.in_flight.front().is_some_and(|batch| batch.last <= settled_to) {
            self.in_flight.pop_front();
        }
    }

    /// Wakes who waits for a topic of a batch in which something was settled or voided.
    fn wake(&mut self) {
        let names = self.node.names.read();
        let mut hub = self.node.hub.lock();
        for batch in &self.in_flight {
            let touched = |range: &SequenceRange| range.first <= batch.last && range.last >= batch.first;
            if self.settled.iter().any(touched) || self.voided.iter().any(touched) {
                hub.committed(&names, &batch.records, &mut self.woken);
            }
        }
        drop(hub);
        drop(names);
        for mailbox in self.woken.drain(..) {
            mailbox.wake();
        }
    }
}

/// Readers need to know of new bytes on disk only when the tip lets go of them: told when so much was written, or a part of
/// what the tip holds.
const TABLE_BYTES: u64 = 1 << 20;
const TABLE_TIP_PART: u64 = 8;

impl Log<Local> {
    /// Lets go what is kept no more; to be called when a job ended, and now and then.
    pub fn retain(&mut self, now: i64) {
        retain(&self.retention, now, &mut self.backend);
    }

    /// The next thing to be done elsewhere, if there is any. A seal is told the cursors.
    pub fn next_job(&mut self) -> Option<Job> {
        let mut job = self.backend.next_job()?;
        if matches!(job, Job::Retire(_)) {
            // Readers are told `trimmed` before the files are gone.
            self.publish_table(true);
        }
        if let Job::Seal(seal) = &mut job {
            let first = self.backend.table().get(seal.segment()).map_or(0, |info| info.first_sequence);
            seal.set_cursors(self.node.engine.lock().cursors_part(Sequence(first)));
        }
        Some(job)
    }

    /// Shows readers the segments as they are now. `whole`: more than the newest may have changed.
    pub fn publish_table(&mut self, whole: bool) {
        let table = self.backend.table();
        let exact = self.node.history.wants_exact();
        let lag = if exact { 0 } else { TABLE_BYTES.min(self.node.settings.tip_bytes / TABLE_TIP_PART) };
        if whole {
            self.node.counters.spans.store(table.spans().len() as u64, Ordering::Relaxed);
        }
        self.node.history.with_table(|seen| {
            if whole {
                *seen = table.clone();
                return;
            }
            let Some(newest) = table.last() else { return };
            let old = seen.last().map_or((0, 0), |info| (info.number, info.batches_end));
            if old.0 == newest.number && newest.batches_end < old.1 + lag {
                return;
            }
            let from = old.0;
            for info in table.iter().filter(|info| info.number >= from) {
                match seen.get_mut(info.number) {
                    Some(known) => *known = info.clone(),
                    None => seen.push(info.clone()),
                }
            }
        });
        if whole {
            self.node.history.close_retired();
        }
        if exact && let Some(newest) = self.backend.table().last() {
            self.node.history.is_exact(Sequence(newest.last_sequence));
        }
    }
}
