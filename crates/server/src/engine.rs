//! The engine: the sequencer and the ledger under one lock. A message is numbered here (`publish`), its batch leaves for
//! the journal here (`take`), and it is settled here (`completed`), which lets its reply out.
//!
//! ```text
//!  sessions ──publish──▶ Order ──verdicts──▶ Ledger ──replies──▶ mailboxes
//!                          │ take                ▲ completed
//!                          ▼                     │
//!                        journal's writer ───────┘
//! ```
//!
//! Plain computation: told the time, does no I/O, holds no lock of its own.

mod conditions;
mod cursors;
mod proof;
mod slots;
mod voiding;

use std::collections::BTreeMap;
use std::sync::Arc;

use arioso_journal::{
    BatchNumber, Completion, Entry, Group, Groups, Kind, Ledger, Level, NO_PUBLISHER, Outcome, Reply, Room,
    SequenceRange, Ticket, group_of,
};
use arioso_store::batch::{BatchParts, NamesBuilder};
use arioso_stream::Sequence;
use arioso_stream::filter::Filter;
use arioso_stream::names::Names;
use arioso_stream::order::{Batch, Holder, OpenRefused, Opened, Order, Publish, PublisherKey, Verdict, VerdictKind};
use arioso_stream::topic::TopicId;
use arioso_wire::Code;
use parking_lot::RwLock;
use std::collections::HashMap;

use crate::mailbox::{Address, Mail, Mailbox};
use conditions::{Refusal, Watched};

/// Entries in flight: at 96 bytes each, 100 MB at the ceiling.
pub const ENTRIES_MAX: usize = 1 << 20;
/// Room that is never handed out: headers and padding of the batches between two looks at the journal's room, 8 KiB for each
/// chunk of 4 MiB that may wait.
const ROOM_MARGIN_BYTES: u64 = 160 << 10;
/// A retry of a window can alternate between stored and not stored at most this often before the rest is answered busy.
/// Each may bring a proof with it.
const VERDICTS_MAX: usize = 1 << 14;
/// What an entry costs in a batch's header.
const RUN_BYTES: u64 = 40;

/// What a client's publish frame asks for, its records checked.
pub struct ClientPublish<'a> {
    /// Where the replies go.
    pub address: Address,
    /// The publisher.
    pub publisher: PublisherKey,
    /// The epoch it was given.
    pub epoch: u32,
    /// Publisher sequence of the first message.
    pub first: u64,
    /// Messages.
    pub messages: u32,
    /// When to answer.
    pub level: Level,
    /// All or nothing.
    pub atomic: bool,
    /// The newest message that matches the filter must have this sequence.
    pub condition: Option<(Sequence, Filter)>,
    /// The records end to end.
    pub records: &'a [u8],
    /// Stream-wide ids of the connection's topic ids.
    pub topics: &'a [u32],
}

/// A refusal with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What.
    pub code: Code,
    /// By code.
    pub detail: u64,
}

/// A batch on its way.
struct InFlight {
    reserved_to: Sequence,
    has_records: bool,
    /// Durable, or known never to be.
    known: bool,
}

/// Sequencer and ledger.
pub struct Engine {
    order: Order,
    ledger: Ledger,
    groups: Groups,
    names: Arc<RwLock<Names>>,
    server_epoch: u64,
    sessions: HashMap<u32, Arc<Mailbox>>,
    /// Batches taken and not yet durable in an unbroken row.
    in_flight: BTreeMap<u64, InFlight>,
    synced_to: u64,
    /// The newest durable batch that holds records: worth telling that it is durable.
    records_synced_to: u64,
    synced_told: u64,
    parting: slots::Parting,
    proof: proof::Proof,
    room_bytes: u64,
    /// The largest publish that found no room since the journal was told of one.
    wanted_bytes: u64,
    disk_full: bool,
    lost: bool,
    verdicts: Vec<Verdict>,
    replies: Vec<Reply>,
    voided: Vec<SequenceRange>,
    /// Refused conditions that may be judged again, by their place.
    refusals: BTreeMap<Ticket, Refusal>,
    watched: Watched,
    may_void: bool,
    /// How long a cursor that nobody uses is kept; 0: for ever.
    cursor_ttl_ns: i64,
    /// When it is looked for such ones again.
    sweep_at: i64,
}

impl Engine {
    /// An engine that goes on behind `last_batch`, which is durable.
    pub fn new(order: Order, ledger: Ledger, groups: Groups, names: Arc<RwLock<Names>>, start: Start) -> Engine {
        Engine {
            order,
            ledger,
            groups,
            names,
            server_epoch: start.server_epoch,
            sessions: HashMap::new(),
            in_flight: BTreeMap::new(),
            synced_to: start.last_batch,
            records_synced_to: start.last_batch,
            synced_told: start.last_batch,
            parting: slots::Parting::default(),
            proof: proof::Proof::default(),
            room_bytes: 0,
            wanted_bytes: 0,
            disk_full: false,
            lost: false,
            verdicts: Vec::new(),
            replies: Vec::new(),
            voided: Vec::new(),
            refusals: BTreeMap::new(),
            watched: Watched::default(),
            may_void: false,
            cursor_ttl_ns: start.cursor_ttl_ns,
            sweep_at: i64::MIN,
        }
    }

    /// A session's replies go to this mailbox from here on.
    pub fn add_session(&mut self, session: u32, mailbox: Arc<Mailbox>) {
        self.sessions.insert(session, mailbox);
    }

    /// The session is gone: its publishers are released, its replies dropped.
    pub fn remove_session(&mut self, session: u32, publishers: impl Iterator<Item = (u16, PublisherKey, u32)>) {
        self.sessions.remove(&session);
        self.release_publishers(session, publishers);
    }

    /// Publishers, by channel and epoch, that the session holds no more.
    pub fn release_publishers(&mut self, session: u32, publishers: impl Iterator<Item = (u16, PublisherKey, u32)>) {
        for (channel, key, epoch) in publishers {
            let held = self.order.publisher(key).is_some_and(|publisher| {
                publisher.epoch == epoch && publisher.holder == Some(holder(session, channel))
            });
            if held {
                self.order.release(key);
            }
        }
    }

    /// Sequences, counts and publishers, for reading.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Everything at or below is settled or void.
    pub fn settled_to(&self) -> Sequence {
        self.ledger.settled_to()
    }

    /// What is neither settled nor void above [`Engine::settled_to`], ascending.
    pub fn open_ranges(&self) -> impl Iterator<Item = SequenceRange> {
        self.ledger.open_ranges()
    }

    /// What became settled since the last call.
    pub fn take_settled(&mut self, out: &mut Vec<SequenceRange>) {
        self.ledger.take_settled(out);
    }

    /// What became void, for the tip; ascending within one void record.
    pub fn take_voided(&mut self, out: &mut Vec<SequenceRange>) {
        out.append(&mut self.voided);
    }

    /// Whether a batch waits to be taken.
    pub fn has_pending(&self) -> bool {
        self.order.has_pending()
    }

    /// Whether an empty batch would tell something: records are durable that no batch says so of.
    pub fn wants_sync_mark(&self) -> bool {
        !self.lost
            && self.in_flight.is_empty()
            && !self.order.has_pending()
            && self.synced_told < self.records_synced_to
    }

    /// Whether the journal is lost.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Opens a publisher. An anonymous one (empty name) is open at once; a named one when the reply [`About::Open`] says so.
    pub fn open_publisher(&mut self, now: i64, address: Address, name: &str, next: u64) -> Result<Opened, Refused> {
        let holder = holder(address.session, address.channel);
        if self.lost {
            return Err(Refused { code: Code::Internal, detail: 0 });
        }
        if name.is_empty() {
            return self.order.open_anonymous(holder).map_err(open_refused);
        }
        self.admit(256 + name.len() as u64)?;
        let opened = self.order.open_named(now, holder, name, next).map_err(open_refused)?;
        let (sequence, batch) = opened.note.expect("a named epoch is noted");
        let group = group_of(xxh3(name.as_bytes()), self.groups);
        self.control(address, 0, (opened.id, opened.epoch, group), (sequence, batch));
        if let Some(before) = opened.fenced {
            let (session, channel) = ((before.0 >> 16) as u32, before.0 as u16);
            if let Some(mailbox) = self.sessions.get(&session) {
                mailbox.put(Mail::Fenced { channel });
                mailbox.wake();
            }
        }
        Ok(opened)
    }

    /// Names the next publisher sequence; done when the reply [`About::Skip`] says so.
    pub fn skip(
        &mut self,
        now: i64,
        address: Address,
        key: PublisherKey,
        epoch: u32,
        next: u64,
    ) -> Result<(), Refused> {
        self.admit(256)?;
        let note = self.order.skip(now, key, epoch, next).map_err(|kind| self.refused(kind))?;
        let group = self.group(key);
        self.control(address, next, (key.0, epoch, group), note);
        Ok(())
    }

    /// Forgets a publisher; done when the reply [`About::Drop`] says so.
    pub fn drop_publisher(&mut self, now: i64, address: Address, name: &str) -> Result<(), Refused> {
        self.admit(256)?;
        let note = self.order.drop_publisher(now, name).ok_or(Refused { code: Code::NoSuchPublisher, detail: 0 })?;
        self.control(address, 0, (NO_PUBLISHER, 0, Group::OWN), note);
        Ok(())
    }

    /// Enters a control record; `number` is the publisher sequence that its answer names.
    fn control(
        &mut self,
        address: Address,
        number: u64,
        (publisher, epoch, group): (u32, u32, Group),
        (first, batch): (Sequence, u64),
    ) {
        self.enter(Entry {
            kind: Kind::Control,
            publisher,
            epoch,
            first_publisher_sequence: number,
            messages: 0,
            first,
            batch: BatchNumber(batch),
            level: Level::Durable,
            group,
            conditioned_on: None,
            tag: address.pack(),
        });
        self.room_bytes = self.room_bytes.saturating_sub(256);
    }

    /// Room for some bytes in ledger and journal.
    fn admit(&mut self, bytes: u64) -> Result<(), Refused> {
        self.admit_entries()?;
        self.admit_bytes(bytes)
    }

    fn admit_entries(&self) -> Result<(), Refused> {
        if self.lost {
            return Err(Refused { code: Code::Internal, detail: 0 });
        }
        // A publish has at most a handful of verdicts, one for each change between known and new.
        if self.ledger.room() < VERDICTS_MAX { Err(Refused { code: Code::Busy, detail: 0 }) } else { Ok(()) }
    }

    fn admit_bytes(&mut self, bytes: u64) -> Result<(), Refused> {
        let need = bytes + ROOM_MARGIN_BYTES;
        if self.room_bytes >= need {
            return Ok(());
        }
        self.wanted_bytes = self.wanted_bytes.max(need);
        let code = if self.disk_full { Code::DiskFull } else { Code::Busy };
        Err(Refused { code, detail: 0 })
    }

    /// Judges and numbers a publish. Every message is answered exactly once, through the mailbox; an error is the answer to all
    /// of them when the engine has no room to keep order for it, and consumes nothing.
    pub fn publish(&mut self, now: i64, publish: &ClientPublish<'_>) -> Result<(), Refused> {
        self.admit_entries()?;
        if let Err(no_room) = self.admit_bytes(publish.records.len() as u64 + RUN_BYTES) {
            self.turn_away(publish, no_room);
            self.settle_accounts(now);
            return Ok(());
        }
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.clear();
        let mut known_to = 0;
        let rests_on = match self.judge_condition(publish) {
            Ok(rests_on) => {
                known_to = self.answer_known(publish);
                let names = Arc::clone(&self.names);
                let name_of = move |id: u32| -> Box<str> {
                    let name = names.read().name(TopicId(id)).expect("the session announced the topic");
                    name.into_boxed_str()
                };
                let order = Publish {
                    publisher: publish.publisher,
                    epoch: publish.epoch,
                    first: publish.first,
                    messages: publish.messages,
                    records: publish.records,
                    topics: Some(publish.topics),
                    atomic: publish.atomic,
                };
                if self.parting.parts_before(self.group(publish.publisher), publish.publisher.0) {
                    self.order.part();
                }
                self.order.publish(now, &order, &name_of, &mut verdicts);
                self.watch_stored(publish, &verdicts);
                rests_on
            }
            Err(newest) => {
                self.order.consume(publish.publisher, publish.first + u64::from(publish.messages) - 1);
                let answer = Kind::Answer { code: Code::ConditionFailed.number(), detail: newest.0 };
                let ticket = self.answer(publish, publish.first, publish.messages, answer, some(newest));
                self.note_refusal(ticket, publish, newest);
                None
            }
        };
        for verdict in verdicts.iter().filter(|verdict| verdict.first >= known_to) {
            self.enter_verdict(publish, *verdict, rests_on);
        }
        self.verdicts = verdicts;
        self.settle_accounts(now);
        Ok(())
    }

    /// Where answers are proven, those of messages that are known come before the new ones of the same frame get their numbers:
    /// a proof is numbered too. Gives the first publisher sequence that is not answered.
    fn answer_known(&mut self, publish: &ClientPublish<'_>) -> u64 {
        let end = publish.first + u64::from(publish.messages);
        let due = self.order.due(publish.publisher, publish.epoch).ok();
        let Some(due) = due.filter(|due| self.proof.is_wanted() && (publish.first + 1..end).contains(due)) else {
            return 0;
        };
        let known = u32::try_from(due - publish.first).unwrap_or(u32::MAX);
        let mut verdicts = Vec::new();
        self.order.recall(publish.publisher, publish.epoch, publish.first, known, &mut verdicts);
        for verdict in verdicts {
            self.enter_verdict(publish, verdict, None);
        }
        due
    }

    /// A definite refusal found before numbering (a bad record, a topic that was refused): consumes the numbers, keeps its
    /// place among the publisher's replies.
    pub fn refuse(&mut self, now: i64, publish: &ClientPublish<'_>, code: Code) -> Result<(), Refused> {
        self.admit_entries()?;
        self.turn_away(publish, Refused { code, detail: 0 });
        self.settle_accounts(now);
        Ok(())
    }

    /// Answers what is not to be numbered. What lies below the number that is due was judged before: a retry gets the answer of
    /// its number, whatever is the matter now.
    fn turn_away(&mut self, publish: &ClientPublish<'_>, why: Refused) {
        let due = match self.order.due(publish.publisher, publish.epoch) {
            Ok(due) if due >= publish.first => due,
            Ok(due) => {
                let expected = Refused { code: Code::Expected, detail: due };
                return self.answer_refused(publish, publish.first, publish.messages, expected);
            }
            Err(kind) => {
                let refused = self.refused(kind);
                return self.answer_refused(publish, publish.first, publish.messages, refused);
            }
        };
        let known = u32::try_from(due - publish.first).unwrap_or(u32::MAX).min(publish.messages);
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.clear();
        self.order.recall(publish.publisher, publish.epoch, publish.first, known, &mut verdicts);
        for verdict in &verdicts {
            self.enter_verdict(publish, *verdict, None);
        }
        self.verdicts = verdicts;
        if publish.messages == known {
            return;
        }
        if !why.code.keeps_number() {
            self.order.consume(publish.publisher, publish.first + u64::from(publish.messages) - 1);
        }
        self.answer_refused(publish, publish.first + u64::from(known), publish.messages - known, why);
    }

    fn answer_refused(&mut self, publish: &ClientPublish<'_>, first: u64, messages: u32, why: Refused) {
        let answer = Kind::Answer { code: why.code.number(), detail: why.detail };
        self.answer(publish, first, messages, answer, None);
    }

    fn enter_verdict(&mut self, publish: &ClientPublish<'_>, verdict: Verdict, rests_on: Option<Sequence>) {
        let Verdict { first, messages, kind } = verdict;
        match kind {
            VerdictKind::Stored { first: sequence, batch } => {
                self.room_bytes = self.room_bytes.saturating_sub(publish.records.len() as u64 + RUN_BYTES);
                self.enter(Entry {
                    kind: Kind::Messages,
                    publisher: publish.publisher.0,
                    epoch: publish.epoch,
                    first_publisher_sequence: first,
                    messages,
                    first: sequence,
                    batch: BatchNumber(batch),
                    level: publish.level,
                    group: self.group(publish.publisher),
                    conditioned_on: rests_on,
                    tag: publish.address.pack(),
                });
            }
            VerdictKind::Duplicate { first: sequence } => {
                // The original may still be on its way: the answer waits for the last of them.
                let last = Sequence(sequence.0 + u64::from(messages) - 1);
                self.answer(publish, first, messages, Kind::Answer { code: 0, detail: sequence.0 }, Some(last));
            }
            other => {
                let Refused { code, detail } = self.refused(other);
                self.answer(publish, first, messages, Kind::Answer { code: code.number(), detail }, None);
            }
        }
    }

    fn answer(
        &mut self,
        publish: &ClientPublish<'_>,
        first: u64,
        messages: u32,
        kind: Kind,
        on: Option<Sequence>,
    ) -> Ticket {
        let on = self.proven(kind, on);
        self.enter(Entry {
            kind,
            publisher: publish.publisher.0,
            epoch: publish.epoch,
            first_publisher_sequence: first,
            messages,
            first: Sequence::ZERO,
            batch: BatchNumber(0),
            level: publish.level,
            group: self.group(publish.publisher),
            conditioned_on: on,
            tag: publish.address.pack(),
        })
    }

    fn enter(&mut self, entry: Entry) -> Ticket {
        self.ledger.enter(&entry).expect("room was asked for before a number was given")
    }

    fn refused(&self, kind: VerdictKind) -> Refused {
        let code = match kind {
            VerdictKind::Expected { due } => return Refused { code: Code::Expected, detail: due },
            VerdictKind::Busy if self.disk_full => Code::DiskFull,
            VerdictKind::Busy => Code::Busy,
            VerdictKind::NotStored => Code::NotStored,
            VerdictKind::TooOld => Code::TooOld,
            VerdictKind::Fenced => Code::Fenced,
            VerdictKind::Reopen => Code::Reopen,
            VerdictKind::Stored { .. } | VerdictKind::Duplicate { .. } => panic!("what is stored is not refused"),
        };
        Refused { code, detail: 0 }
    }

    fn group(&self, key: PublisherKey) -> Group {
        let hash = match self.order.publisher(key) {
            Some(publisher) if !publisher.name.is_empty() => xxh3(publisher.name.as_bytes()),
            _ => xxh3(&key.0.to_le_bytes()),
        };
        group_of(hash, self.groups)
    }

    /// Closes the open batch and gives out all that wait, oldest first; their records' checksums are still to be made.
    pub fn take(&mut self, out: &mut Vec<BatchParts>) {
        let mut batches = Vec::new();
        self.order.take(&mut batches);
        self.parting.taken();
        self.proof.taken();
        out.extend(batches.into_iter().map(|batch| self.parts(batch)));
    }

    /// An empty batch that tells what is durable.
    pub fn sync_mark(&mut self, now: i64) -> BatchParts {
        let batch = self.order.empty_batch(now);
        self.parts(batch)
    }

    fn parts(&mut self, batch: Batch) -> BatchParts {
        let (reserved_to, has_records) = (batch.reserved_to, batch.record_count > 0);
        self.in_flight.insert(batch.number, InFlight { reserved_to, has_records, known: false });
        self.synced_told = self.synced_to;
        let mut names = NamesBuilder::default();
        for name in &batch.names {
            names.push(name.kind, name.id, &name.name);
        }
        BatchParts {
            number: batch.number,
            first_sequence: batch.first.0,
            last_sequence: batch.last.0,
            synced_to: self.synced_to,
            reserved_to: batch.reserved_to.0,
            settled_to: self.ledger.settled_to().0,
            timestamp: batch.timestamp,
            server_epoch: self.server_epoch,
            records_count: batch.record_count,
            names: names.take(),
            runs: batch.runs,
            records: batch.records,
            records_crc: 0,
        }
    }

    /// What became of batches, and how much the journal takes from here on.
    pub fn completed(&mut self, now: i64, completions: &[Completion], room: Room) {
        for completion in completions {
            self.note_in_flight(completion);
            self.ledger.completed(completion.number, completion.outcome);
        }
        while let Some(first) = self.in_flight.first_entry()
            && first.get().known
        {
            let (number, batch) = first.remove_entry();
            self.synced_to = number;
            if batch.has_records {
                self.records_synced_to = number;
            }
            self.order.durable(number, batch.reserved_to);
        }
        self.set_room(room);
        self.settle_accounts(now);
        self.order.settled(self.ledger.settled_to());
        self.sweep_cursors(now);
    }

    fn note_in_flight(&mut self, completion: &Completion) {
        let number = completion.number.0;
        let Some(batch) = self.in_flight.get_mut(&number) else { return };
        match completion.outcome {
            Outcome::Unknown => {}
            Outcome::Durable => batch.known = true,
            Outcome::Failed => {
                *batch = InFlight { reserved_to: Sequence::ZERO, has_records: false, known: true };
                self.order.failed(number);
            }
        }
    }

    /// Writes that can be begun now: while there are any, a write holds messages of one group.
    pub fn set_slots(&mut self, slots: u32) {
        self.parting.set_slots(slots);
    }

    /// Whether a batch was taken whose outcome is not known.
    pub fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The journal can fail: messages may be taken back before they are settled.
    pub fn may_void(&mut self) {
        self.may_void = true;
    }

    /// A batch of so many bytes found no room: the journal is to make some.
    pub fn want(&mut self, bytes: u64) {
        self.wanted_bytes = self.wanted_bytes.max(bytes);
    }

    /// How much the journal takes from here on, what waits for it left out.
    pub fn set_room(&mut self, room: Room) {
        let bytes = match room {
            Room::Bytes(bytes) => bytes,
            Room::Busy | Room::DiskFull { .. } => 0,
        };
        self.room_bytes = bytes.saturating_sub(self.order.waiting_bytes() as u64);
        self.disk_full = matches!(room, Room::DiskFull { .. });
    }

    /// What was wanted finds no room on the disk, though the journal takes smaller things.
    pub fn note_disk_full(&mut self) {
        self.disk_full = true;
    }

    /// Whether something found no room since the journal was told of it.
    pub fn has_wanted(&self) -> bool {
        self.wanted_bytes > 0
    }

    /// Bytes that found no room since the last call, for the journal to make.
    pub fn take_wanted(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.wanted_bytes)).filter(|bytes| *bytes > 0)
    }

    /// The journal is lost: what is open is answered `unknown`, every session is told.
    pub fn lose(&mut self) {
        self.lost = true;
        self.ledger.give_up();
        self.dispatch();
        for mailbox in self.sessions.values() {
            mailbox.put(Mail::Lost);
            mailbox.wake();
        }
    }

    fn dispatch(&mut self) {
        let mut replies = std::mem::take(&mut self.replies);
        self.ledger.take_replies(&mut replies);
        let mut last: Option<(u32, Arc<Mailbox>)> = None;
        for reply in replies.drain(..) {
            let address = Address::unpack(reply.tag);
            if last.as_ref().is_none_or(|(session, _)| *session != address.session) {
                if let Some((_, mailbox)) = last.take() {
                    mailbox.wake();
                }
                let mailbox = self.sessions.get(&address.session);
                last = mailbox.map(|mailbox| (address.session, Arc::clone(mailbox)));
            }
            if let Some((_, mailbox)) = &last {
                mailbox.put(Mail::Reply(address, reply));
            }
        }
        if let Some((_, mailbox)) = last {
            mailbox.wake();
        }
        self.replies = replies;
    }
}

/// What a start knows.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The last batch of the journal; durable.
    pub last_batch: u64,
    /// The server's epoch.
    pub server_epoch: u64,
    /// How long a cursor that nobody uses is kept; 0: for ever.
    pub cursor_ttl_ns: i64,
}

fn holder(session: u32, channel: u16) -> Holder {
    Holder(u64::from(session) << 16 | u64::from(channel))
}

fn some(sequence: Sequence) -> Option<Sequence> {
    (sequence > Sequence::ZERO).then_some(sequence)
}

fn open_refused(refused: OpenRefused) -> Refused {
    match refused {
        OpenRefused::TooMany { max } => Refused { code: Code::TooManyPublishers, detail: max as u64 },
        OpenRefused::Busy => Refused { code: Code::Busy, detail: 0 },
    }
}

fn xxh3(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}
