//! Builds batches in a chunk: records are copied once, their headers filled in place, and the finished batch is a slice of the
//! chunk that the journal's writer, the tip and every reader share.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use hashbrown::HashMap;
use zerocopy::FromBytes;
use zerocopy::little_endian::{I64, U32, U64};

use super::Publish;
use super::cursors::{self, CursorPlace};
use crate::record::{self, HEADER_BYTES, Header, Sequence};

/// Messages of one publisher with consecutive publisher sequences and consecutive sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Stream-wide publisher id.
    pub publisher: u32,
    /// The publisher's epoch.
    pub epoch: u32,
    /// Publisher sequence of the first message.
    pub first_publisher_sequence: u64,
    /// How many messages.
    pub messages: u32,
    /// The publisher sequence stored before this run; 0: none.
    pub stored_before: u64,
    /// Sequence of the first message.
    pub first_sequence: Sequence,
}

/// What an id in a batch's names stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// A topic.
    Topic,
    /// A publisher.
    Publisher,
}

/// A name that a batch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewName {
    /// Of what.
    pub kind: NameKind,
    /// Stream-wide id.
    pub id: u32,
    /// The name.
    pub name: Box<str>,
}

/// A finished batch, still without a place.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Consecutive over the stream.
    pub number: u64,
    /// First sequence; of an empty batch the last number given so far.
    pub first: Sequence,
    /// Last sequence.
    pub last: Sequence,
    /// Timestamp of the last record.
    pub timestamp: i64,
    /// No number above the durable one is handed out.
    pub reserved_to: Sequence,
    /// The records, laid end to end.
    pub records: Bytes,
    /// How many records, control records included.
    pub record_count: u32,
    /// Names first told here, or told again because not durable yet.
    pub names: Vec<NewName>,
    /// Runs in sequence order.
    pub runs: Vec<Run>,
}

/// Names in flight: which batch told one first, and which last.
struct Told {
    first: u64,
    last: u64,
}

pub(super) struct Builder {
    chunk_bytes: usize,
    chunk: BytesMut,
    open: Option<Open>,
    closed: VecDeque<Batch>,
    next_batch: u64,
    pending_bytes: usize,
    waiting_bytes: usize,
    taken: VecDeque<(u64, usize)>,
    /// One bit a topic: its name is durable.
    named: Vec<u64>,
    told: HashMap<(NameKind, u32), Told, foldhash::fast::FixedState>,
    told_first: VecDeque<(u64, NameKind, u32)>,
}

struct Open {
    number: u64,
    first: Sequence,
    last: Sequence,
    timestamp: i64,
    record_count: u32,
    names: Vec<NewName>,
    runs: Vec<Run>,
}

impl Builder {
    pub fn new(chunk_bytes: usize, next_batch: u64) -> Builder {
        Builder {
            chunk_bytes,
            chunk: BytesMut::new(),
            open: None,
            closed: VecDeque::new(),
            next_batch,
            pending_bytes: 0,
            waiting_bytes: 0,
            taken: VecDeque::new(),
            named: Vec::new(),
            told: HashMap::with_hasher(foldhash::fast::FixedState::default()),
            told_first: VecDeque::new(),
        }
    }

    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Of the pending bytes, those that no batch was taken with yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    fn grow(&mut self, bytes: usize) {
        self.pending_bytes += bytes;
        self.waiting_bytes += bytes;
    }

    pub fn has_pending(&self) -> bool {
        self.open.is_some() || !self.closed.is_empty()
    }

    /// The name is durable already: a start found it.
    pub fn restore_named(&mut self, topic: u32) {
        set_bit(&mut self.named, topic);
    }

    /// Tells a name in the open batch unless it is durable or told there already.
    pub fn name(&mut self, kind: NameKind, id: u32, name_of: impl FnOnce(u32) -> Box<str>) {
        let number = self.open_batch().number;
        let told = self.told.entry((kind, id)).or_insert_with(|| {
            self.told_first.push_back((number, kind, id));
            Told { first: number, last: 0 }
        });
        if told.last == number {
            return;
        }
        told.last = number;
        let name = name_of(id);
        self.grow(name.len());
        self.open_batch().names.push(NewName { kind, id, name });
    }

    /// Appends one publisher's records; tells each topic, payload bytes and sequence.
    pub fn append(
        &mut self,
        run: Run,
        timestamp: i64,
        records: &[u8],
        publish: &Publish<'_>,
        name_of: &dyn Fn(u32) -> Box<str>,
        mut each: impl FnMut(u32, u32, Sequence),
    ) -> u64 {
        self.make_room(records.len());
        let at = self.chunk.len();
        self.chunk.extend_from_slice(records);
        let mut rest = &mut self.chunk[at..];
        let mut sequence = run.first_sequence;
        let last = run.messages - 1;
        let mut unnamed: Vec<u32> = Vec::new();
        for index in 0..run.messages {
            let (header, _) = Header::mut_from_prefix(rest).expect("the session checked the records");
            let topic = match publish.topics {
                Some(topics) => topics[header.topic.get() as usize],
                None => header.topic.get(),
            };
            header.topic = U32::new(topic);
            header.sequence = U64::new(sequence.0);
            header.timestamp = I64::new(timestamp);
            header.publisher = U32::new(run.publisher);
            if publish.atomic && last > 0 {
                let mark = (u16::from(index == 0) * record::FLAG_ATOMIC_FIRST)
                    | (u16::from(index == last) * record::FLAG_ATOMIC_LAST);
                let others = header.flags.get() & !(record::FLAG_ATOMIC_FIRST | record::FLAG_ATOMIC_LAST);
                header.flags.set(others | mark);
            }
            if !bit(&self.named, topic) && unnamed.last() != Some(&topic) {
                unnamed.push(topic);
            }
            let bytes = header.record_bytes();
            each(topic, u32::try_from(bytes).expect("a record fits a batch"), sequence);
            rest = &mut rest[bytes..];
            sequence = sequence.next();
        }
        assert!(rest.is_empty(), "the session counted the records");
        self.grow(records.len());
        let open = self.open_batch();
        open.grow(run.first_sequence, Sequence(sequence.0 - 1), timestamp, run.messages);
        open.push_run(run);
        let number = open.number;
        for topic in unnamed {
            self.name(NameKind::Topic, topic, name_of);
        }
        number
    }

    pub fn control(&mut self, sequence: Sequence, timestamp: i64, payload: &[u8], flags: u16) -> u64 {
        let bytes = record::record_bytes(0, payload.len());
        self.make_room(bytes);
        let at = self.chunk.len();
        record::push_record(&mut self.chunk, record::CONTROL_TOPIC, flags, &[], payload);
        let (header, _) = Header::mut_from_prefix(&mut self.chunk[at..]).expect("just written");
        header.sequence = U64::new(sequence.0);
        header.timestamp = I64::new(timestamp);
        self.grow(bytes);
        let open = self.open_batch();
        open.grow(sequence, sequence, timestamp, 1);
        open.number
    }

    pub fn take(&mut self, reserved_to: Sequence, out: &mut Vec<Batch>) {
        self.close();
        self.waiting_bytes = 0;
        for mut batch in self.closed.drain(..) {
            batch.reserved_to = reserved_to;
            out.push(batch);
        }
    }

    pub fn empty(&mut self, last: Sequence, timestamp: i64, reserved_to: Sequence) -> Batch {
        assert!(!self.has_pending(), "an empty batch is written when nothing else is");
        let number = self.next_batch;
        self.next_batch += 1;
        self.taken.push_back((number, 0));
        Batch {
            number,
            first: last,
            last,
            timestamp,
            reserved_to,
            records: Bytes::new(),
            record_count: 0,
            names: Vec::new(),
            runs: Vec::new(),
        }
    }

    pub fn durable(&mut self, batch: u64) {
        while let Some((_, bytes)) = self.taken.pop_front_if(|(number, _)| *number <= batch) {
            self.pending_bytes -= bytes;
        }
        while let Some((_, kind, id)) = self.told_first.pop_front_if(|(number, _, _)| *number <= batch) {
            let told = self.told.remove(&(kind, id)).expect("every told name is in the table");
            assert!(told.first <= batch);
            if kind == NameKind::Topic {
                set_bit(&mut self.named, id);
            }
        }
    }

    /// This batch never was. What only it told is told again at its next use; what a later one told too becomes durable with
    /// that. Its bytes are given back by [`Builder::durable`] in its turn.
    pub fn failed(&mut self, batch: u64) {
        let from = self.told_first.partition_point(|(number, _, _)| *number < batch);
        let to = self.told_first.partition_point(|(number, _, _)| *number <= batch);
        let names: Vec<_> = self.told_first.drain(from..to).collect();
        for (_, kind, id) in names {
            let told = self.told.get_mut(&(kind, id)).expect("every told name is in the table");
            if told.last == batch {
                self.told.remove(&(kind, id));
                continue;
            }
            told.first = told.last;
            let at = self.told_first.partition_point(|(number, _, _)| *number <= told.last);
            self.told_first.insert(at, (told.last, kind, id));
        }
    }

    fn open_batch(&mut self) -> &mut Open {
        let next_batch = &mut self.next_batch;
        self.open.get_or_insert_with(|| {
            let number = *next_batch;
            *next_batch += 1;
            Open {
                number,
                first: Sequence::ZERO,
                last: Sequence::ZERO,
                timestamp: 0,
                record_count: 0,
                names: Vec::new(),
                runs: Vec::new(),
            }
        })
    }

    /// Makes room for records in one piece: a batch lies in one chunk.
    fn make_room(&mut self, bytes: usize) {
        if self.chunk.capacity() - self.chunk.len() < bytes {
            self.close();
            self.chunk = BytesMut::with_capacity(bytes.max(self.chunk_bytes));
        }
    }

    /// Ends the open batch.
    pub fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let records = self.chunk.split().freeze();
        let names_bytes: usize = open.names.iter().map(|name| name.name.len()).sum();
        self.taken.push_back((open.number, records.len() + names_bytes));
        self.closed.push_back(Batch {
            number: open.number,
            first: open.first,
            last: open.last,
            timestamp: open.timestamp,
            reserved_to: Sequence::ZERO,
            records,
            record_count: open.record_count,
            names: open.names,
            runs: open.runs,
        });
    }
}

impl Open {
    fn grow(&mut self, first: Sequence, last: Sequence, timestamp: i64, records: u32) {
        if self.record_count == 0 {
            self.first = first;
        }
        self.last = last;
        self.timestamp = timestamp;
        self.record_count += records;
    }

    fn push_run(&mut self, run: Run) {
        if let Some(before) = self.runs.last_mut()
            && before.publisher == run.publisher
            && before.epoch == run.epoch
            && before.first_publisher_sequence + u64::from(before.messages) == run.first_publisher_sequence
            && before.first_sequence.0 + u64::from(before.messages) == run.first_sequence.0
        {
            before.messages += run.messages;
            return;
        }
        self.runs.push(run);
    }
}

fn bit(bits: &[u64], index: u32) -> bool {
    bits.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

fn set_bit(bits: &mut Vec<u64>, index: u32) {
    let word = index as usize / 64;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (index % 64);
}

/// Kinds of control records, docs/format.md section 3.3.
pub(crate) mod kind {
    pub const VOID: u16 = 1;
    pub const EPOCH_OPENED: u16 = 2;
    pub const SKIP: u16 = 3;
    pub const PUBLISHER_DROPPED: u16 = 4;
    pub const CURSOR_SET: u16 = 5;
    pub const CURSOR_COMMITTED: u16 = 6;
    pub const CURSOR_DROPPED: u16 = 7;
}

fn control(kind: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.put_u16_le(kind);
    out.put_u16_le(1);
    out.put_u32_le(0);
    out
}

pub(super) fn epoch_opened(publisher: u32, epoch: u32, next: u64, name: &str) -> Vec<u8> {
    let mut out = control(kind::EPOCH_OPENED);
    out.put_u32_le(publisher);
    out.put_u32_le(epoch);
    out.put_u64_le(next);
    out.put_slice(name.as_bytes());
    out
}

pub(super) fn skip(publisher: u32, epoch: u32, next: u64) -> Vec<u8> {
    let mut out = control(kind::SKIP);
    out.put_u32_le(publisher);
    out.put_u32_le(epoch);
    out.put_u64_le(next);
    out
}

pub(super) fn publisher_dropped(publisher: u32) -> Vec<u8> {
    let mut out = control(kind::PUBLISHER_DROPPED);
    out.put_u32_le(publisher);
    out
}

pub(super) fn cursor_set(id: u32, place: CursorPlace, name: &str, filters: &[Box<str>]) -> Vec<u8> {
    let mut out = control(kind::CURSOR_SET);
    out.extend_from_slice(&cursors::body(id, place, name, filters));
    out
}

pub(super) fn cursor_committed(id: u32, holder_epoch: u32, next: Sequence) -> Vec<u8> {
    let mut out = control(kind::CURSOR_COMMITTED);
    out.put_u32_le(id);
    out.put_u32_le(holder_epoch);
    out.put_u64_le(next.0);
    out
}

pub(super) fn cursor_dropped(id: u32) -> Vec<u8> {
    let mut out = control(kind::CURSOR_DROPPED);
    out.put_u32_le(id);
    out
}

/// The payload of a void record.
pub(super) fn void(ranges: &[(Sequence, Sequence)]) -> Vec<u8> {
    let mut out = control(kind::VOID);
    out.put_u32_le(u32::try_from(ranges.len()).expect("entries in flight are bounded"));
    out.put_u32_le(0);
    for (first, last) in ranges {
        out.put_u64_le(first.0);
        out.put_u64_le(last.0);
    }
    out
}

const _: () = assert!(HEADER_BYTES == size_of::<Header>());
