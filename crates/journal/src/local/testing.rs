//! What the local journal's tests share: batches, a model of what was given and acknowledged, and reading back.

use std::collections::BTreeMap;
use std::sync::Arc;

use arioso_disk::{Access, Disk};
use arioso_store::batch::{BatchParts, NameKind, NamesBuilder, Run};
use arioso_store::publishers::Publishers;
use arioso_store::segment::{
    SegmentReader, SegmentTable, Selector, Step, Wanted, has_wanted, read_request, segment_path,
};
use arioso_store::voids::Voids;
use arioso_store::{BatchHeader, Damage};
use arioso_stream::order::PublisherState;
use arioso_stream::record::{HEADER_BYTES, Header, push_record};
use arioso_stream::{Records, Sequence};
use zerocopy::FromBytes;
use zerocopy::little_endian::{I64, U32, U64};

use super::{Local, LocalOptions, LocalReplay, NewStream, Recovered, RecoveredTopic, write_of};
use crate::backend::Completion;
use crate::error::Error;

pub(super) const STREAM: u128 = 0x5354_5245_414d;

/// A small, seeded source of numbers.
pub(super) struct Rng(pub u64);

impl Rng {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

pub(super) fn options() -> LocalOptions {
    LocalOptions {
        new_stream: Some(NewStream { id: STREAM, name: "test".into(), now: 1_000 }),
        segment_bytes: 64 << 10,
        free_files_max: 2,
        window_messages: 16,
        reserve_ahead: 1_000,
        checkpoint_segments: 3,
        ..LocalOptions::default()
    }
}

/// What a start showed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub topics: BTreeMap<String, (u32, u64, u64, u64)>,
    pub publishers: BTreeMap<u32, PublisherState>,
    pub cursors: Vec<Vec<u8>>,
    pub batches: Vec<u64>,
    pub voids: Vec<(u64, u64)>,
    pub number_before: u64,
}

impl LocalReplay for Shown {
    fn cursor(&mut self, body: &[u8]) {
        self.cursors.push(body.to_vec());
    }

    fn batch(&mut self, header: &[u8], records: &[u8]) {
        let header = BatchHeader::read(header).unwrap();
        header.verify_records(records).unwrap();
        self.batches.push(header.number());
    }

    fn voids(&mut self, _: &Publishers, number_before: u64, _: Sequence) -> Vec<(u64, u64)> {
        self.number_before = number_before;
        self.voids.clone()
    }

    fn publisher(&mut self, state: PublisherState) {
        assert!(self.publishers.insert(state.id, state).is_none());
    }

    fn topic(&mut self, topic: &RecoveredTopic<'_>) {
        let row = (topic.topic, topic.messages, topic.bytes, topic.last_sequence.0);
        assert!(self.topics.insert(topic.name.to_owned(), row).is_none(), "{} was told twice", topic.name);
    }
}

/// A message as it was sent or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub topic: u32,
    pub publisher_sequence: u64,
    pub bytes: Vec<u8>,
}

/// A journal under test and what was done with it, over several lives.
pub(super) struct Bench {
    pub local: Option<Local>,
    /// Every message ever given a number.
    pub given: BTreeMap<u64, Message>,
    /// Sequences whose batch was told durable.
    pub acknowledged: Vec<u64>,
    pub next_sequence: u64,
    pub next_batch: u64,
    pub reserved_to: u64,
    pub publisher_sequence: u64,
    pub timestamp: i64,
    named: Vec<u32>,
    waiting: BTreeMap<u64, Vec<u64>>,
}

pub(super) const PUBLISHER: u32 = 7;

impl Bench {
    pub(super) fn new() -> Bench {
        Bench {
            local: None,
            given: BTreeMap::new(),
            acknowledged: Vec::new(),
            next_sequence: 1,
            next_batch: 1,
            reserved_to: 0,
            publisher_sequence: 0,
            timestamp: 0,
            named: Vec::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Opens a directory and goes on in it.
    pub(super) fn open(&mut self, disk: &Arc<dyn Disk>) -> Result<(Recovered, Shown), Error> {
        self.open_with(disk, &options(), Shown::default())
    }

    pub(super) fn open_with(
        &mut self,
        disk: &Arc<dyn Disk>,
        options: &LocalOptions,
        mut shown: Shown,
    ) -> Result<(Recovered, Shown), Error> {
        self.local = None;
        self.waiting.clear();
        let (local, found) = Local::open(Arc::clone(disk), options, &mut shown)?;
        let highest = self.given.last_key_value().map_or(0, |(sequence, _)| *sequence);
        assert!(found.next_sequence.0 > highest, "a number up to {highest} may be used again: {found:?}");
        assert_eq!(found.next_batch, local.synced_to() + 1);
        self.next_sequence = found.next_sequence.0;
        self.next_batch = found.next_batch;
        self.reserved_to = found.reserved_to.0;
        self.publisher_sequence = shown.publishers.get(&PUBLISHER).map_or(0, |state| state.last);
        self.named = shown.topics.values().map(|row| row.0).collect();
        self.timestamp = self.timestamp.max(found.timestamp);
        self.local = Some(local);
        Ok((found, shown))
    }

    pub(super) fn local(&mut self) -> &mut Local {
        self.local.as_mut().unwrap()
    }

    /// Builds a batch: a message on each of these topics.
    pub(super) fn batch(&mut self, messages: &[(u32, Vec<u8>)]) -> BatchParts {
        let (mut records, mut names) = (Vec::new(), NamesBuilder::default());
        let first = self.next_sequence;
        self.timestamp += 10;
        if self.publisher_sequence == 0 {
            names.push(NameKind::Publisher, PUBLISHER, "writer");
        }
        let stored_before = self.publisher_sequence;
        for (topic, payload) in messages {
            if !self.named.contains(topic) {
                self.named.push(*topic);
                names.push(NameKind::Topic, *topic, &topic_name(*topic));
            }
            let at = records.len();
            push_record(&mut records, *topic, 0, &[], payload);
            let (header, _) = Header::mut_from_prefix(&mut records[at..]).unwrap();
            header.sequence = U64::new(self.next_sequence);
            header.timestamp = I64::new(self.timestamp);
            header.publisher = U32::new(PUBLISHER);
            self.publisher_sequence += 1;
            let message =
                Message { topic: *topic, publisher_sequence: self.publisher_sequence, bytes: records[at..].to_vec() };
            assert!(self.given.insert(self.next_sequence, message).is_none(), "a number was given twice");
            self.next_sequence += 1;
        }
        let count = messages.len() as u32;
        let run = Run {
            publisher: PUBLISHER,
            epoch: 1,
            first_publisher_sequence: stored_before + 1,
            messages: count,
            stored_before,
            first_sequence: Sequence(first),
        };
        self.parts(first, count, names, vec![run], records)
    }

    fn parts(
        &mut self,
        first: u64,
        count: u32,
        mut names: NamesBuilder,
        runs: Vec<Run>,
        records: Vec<u8>,
    ) -> BatchParts {
        let number = self.next_batch;
        self.next_batch += 1;
        let last = self.next_sequence - 1;
        BatchParts {
            number,
            first_sequence: if count == 0 { last } else { first },
            last_sequence: last,
            synced_to: self.local().synced_to(),
            reserved_to: last + 1_000,
            settled_to: self.acknowledged.last().copied().unwrap_or(0),
            timestamp: self.timestamp,
            server_epoch: self.local().epoch(),
            records_count: count,
            names: names.take(),
            runs,
            records_crc: crc32c::crc32c(&records),
            records: records.into(),
        }
    }

    pub(super) fn empty_batch(&mut self) {
        let parts = self.parts(0, 0, NamesBuilder::default(), Vec::new(), Vec::new());
        self.local().submit(write_of(&parts));
    }

    /// Submits a batch of one control record.
    pub(super) fn control(&mut self, payload: &[u8], flags: u16) {
        let mut records = Vec::new();
        push_record(&mut records, 0, flags, &[], payload);
        let (header, _) = Header::mut_from_prefix(&mut records[..]).unwrap();
        header.sequence = U64::new(self.next_sequence);
        header.timestamp = I64::new(self.timestamp);
        let first = self.next_sequence;
        self.next_sequence += 1;
        let parts = self.parts(first, 1, NamesBuilder::default(), Vec::new(), records);
        self.local().submit(write_of(&parts));
    }

    /// Submits a message on each topic, if the journal has room for the batch.
    pub(super) fn publish(&mut self, messages: &[(u32, Vec<u8>)]) -> bool {
        let names: usize = messages.iter().map(|(topic, _)| 40 + topic_name(*topic).len()).sum();
        let bytes: usize = messages.iter().map(|(_, payload)| HEADER_BYTES + payload.len() + 8).sum();
        let last = self.next_sequence + messages.len() as u64 - 1;
        if last > self.reserved_to || self.local().room_for((bytes + names + 256) as u64).is_err() {
            return false;
        }
        let parts = self.batch(messages);
        self.waiting.insert(parts.number, (parts.first_sequence..=parts.last_sequence).collect());
        self.local().submit(write_of(&parts));
        true
    }

    /// Writes what was submitted and notes what is durable.
    pub(super) fn write(&mut self) -> Result<Vec<Completion>, Error> {
        let mut out = Vec::new();
        if let Some(job) = self.local().take_write() {
            let done = job.run();
            self.local().wrote(done, &mut out)?;
        }
        for completion in &out {
            self.acknowledged.extend(self.waiting.remove(&completion.number.0).unwrap_or_default());
            self.reserved_to = self.next_sequence + 500;
        }
        Ok(out)
    }

    /// Runs every job there is.
    pub(super) fn jobs(&mut self) -> Vec<super::Notice> {
        let mut notices = Vec::new();
        while let Some(job) = self.local().next_job() {
            let done = job.run();
            notices.extend(self.local().done(done));
        }
        notices
    }

    /// Publishes, writes, runs the jobs.
    pub(super) fn store(&mut self, messages: &[(u32, Vec<u8>)]) {
        assert!(self.publish(messages), "there is room");
        self.write().unwrap();
        self.jobs();
    }
}

pub(super) fn topic_name(topic: u32) -> String {
    format!("area/{}/item-{topic}", topic % 3)
}

/// Selects everything, or some topics.
pub(super) enum Pick {
    All,
    Topics(Vec<u32>),
}

impl Selector for Pick {
    fn selects(&mut self, topic: u32) -> bool {
        match self {
            Pick::All => true,
            Pick::Topics(topics) => topics.contains(&topic),
        }
    }

    fn everything(&self) -> bool {
        matches!(self, Pick::All)
    }
}

/// What a reader gave until the end.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub messages: Vec<(u64, u32, Vec<u8>)>,
    pub damage: Vec<Damage>,
    pub requests: usize,
    pub skipped: usize,
    pub slices: usize,
}

/// Drives a reader to the end of what may be read.
pub(super) fn read(
    disk: &dyn Disk,
    table: &SegmentTable,
    voids: &Voids,
    mut reader: SegmentReader,
    pick: &mut Pick,
) -> Read {
    let mut read = Read::default();
    let mut through = 0;
    loop {
        match reader.step(table, voids, pick) {
            Step::Need(request) => {
                read.requests += 1;
                let file = disk.open(&segment_path(request.segment), Access::Read).unwrap();
                reader.supply(read_request(&*file, &request).unwrap());
            }
            Step::Choose { segment } => {
                let file = disk.open(&segment_path(segment), Access::Read).unwrap();
                let names: Vec<String> = match pick {
                    Pick::All => unreachable!("everything is wanted"),
                    Pick::Topics(topics) => topics.iter().map(|topic| topic_name(*topic)).collect(),
                };
                let wanted: Vec<_> = names.iter().map(|name| Wanted::Topic(name.as_bytes())).collect();
                let trailer = table.get(segment).unwrap().trailer.as_ref().unwrap();
                let chosen = has_wanted(file, trailer, &wanted);
                read.skipped += usize::from(!chosen);
                reader.chosen(chosen);
            }
            Step::Slices(slices) => {
                assert!(slices.through >= through);
                through = slices.through;
                read.slices += slices.slices.len();
                for slice in &slices.slices {
                    for record in Records::new(slice).map(Result::unwrap) {
                        assert!(record.sequence().0 <= through);
                        read.messages.push((record.sequence().0, record.topic(), record.bytes().to_vec()));
                    }
                }
            }
            Step::End { .. } => return read,
            Step::Damaged(damage) => read.damage.push(damage),
            Step::Trimmed { first, .. } => reader.seek(first),
        }
    }
}

pub(super) fn read_all(disk: &dyn Disk, local: &Local) -> Read {
    read(disk, local.table(), local.voids(), SegmentReader::from_sequence(1), &mut Pick::All)
}
