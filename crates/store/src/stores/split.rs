//! Splitting: a row of sealed segments becomes a span of subtree stores. In small steps, so that whoever drives it can let
//! others go first; in bounded memory.
//!
//! ```text
//!  Plan ──▶ Write ──▶ Finish ──▶ Verify ──▶ done          nothing counts before the manifest names the span:
//!  footers  a slice   a store    a group                  after a crash it is begun anew
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use arioso_disk::{Access, Disk};
use arioso_stream::record::CONTROL_TOPIC;
use arioso_stream::{Records, Sequence};
use hashbrown::HashMap;
use twox_hash::XxHash3_64;

use super::span::{SpanInfo, SpanParts, TopicPlace, write_span};
use super::store::{StoreFile, StoreHeader};
use super::verify::Verify;
use super::writer::{Row, StoreWriter};
use super::{STORES_DIR, SpanFile, group_bytes, list_stores, span_path};
use crate::checkpoint::Described;
use crate::cursors::Cursors;
use crate::directory::{Entries, merge};
use crate::head::BadPart;
use crate::plan::{Adaptive, Budget, Demand, Planner, TopicTree, Volume};
use crate::publishers::Publishers;
use crate::segment::seal::entry;
use crate::segment::{KnownEnd, SLICE_BYTES, Scan, Scanned, SegmentHeader, TopicSum, Trailer, segment_path};
use crate::voids::Voids;
use crate::{Error, Result};

/// What is to be split, and into what.
#[derive(Clone, Debug)]
pub struct SplitInput {
    /// The files.
    pub disk: Arc<dyn Disk>,
    /// The stream.
    pub stream: u128,
    /// The id of the span to be made.
    pub span: u64,
    /// The segments, consecutive, sealed and undamaged.
    pub segments: Vec<u64>,
    /// What is void among them.
    pub voids: Voids,
    /// Stores of the span at most.
    pub stores_max: u32,
    /// Messages a publisher's window holds at least.
    pub window_messages: u32,
}

/// How far a split has come.
#[derive(Debug)]
pub enum SplitProgress {
    /// So many bytes were read and written.
    Working {
        /// Bytes.
        bytes: u64,
    },
    /// The span is written, synced and read back. It counts once the manifest names it.
    Done(Box<SpanInfo>),
}

/// A topic of the span.
#[derive(Clone, Copy, Debug, Default)]
struct Topic {
    topic: u32,
    /// Where its name is.
    name: (usize, u16),
    /// What the footers say.
    told: TopicSum,
    /// What was written.
    wrote: TopicSum,
    place: Option<TopicPlace>,
    /// The store it goes to; without messages none.
    store: Option<u32>,
}

enum Stage {
    Plan,
    Write { scan: Option<Box<Scan>> },
    Finish,
    Verify { store: u32, verify: Option<Box<Verify>> },
    Done,
}

/// A span being made.
pub struct Split {
    input: SplitInput,
    stage: Stage,
    info: SpanInfo,
    left: VecDeque<u64>,
    names: String,
    topics: Vec<Topic>,
    rows: HashMap<u32, u32, foldhash::fast::FixedState>,
    parts: SpanParts,
    stores: VecDeque<StoreWriter>,
}

impl std::fmt::Debug for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Split({:x}, segments {:?})", self.input.span, self.input.segments)
    }
}

impl Split {
    /// A split that has not begun.
    pub fn new(input: SplitInput) -> Split {
        assert!(!input.segments.is_empty() && input.segments.is_sorted(), "a span has segments, ascending");
        let parts = SpanParts {
            publishers: Publishers::new(input.window_messages),
            cursors: Cursors::default(),
            voids: Voids::default(),
        };
        Split {
            stage: Stage::Plan,
            info: SpanInfo::default(),
            left: input.segments.iter().copied().collect(),
            names: String::new(),
            topics: Vec::new(),
            rows: HashMap::default(),
            parts,
            stores: VecDeque::new(),
            input,
        }
    }

    /// The segments.
    pub fn segments(&self) -> &[u64] {
        &self.input.segments
    }

    /// The span's id.
    pub fn span(&self) -> u64 {
        self.input.span
    }

    /// Goes on a little: a slice of records, a store's parts, or a group.
    pub fn step(&mut self) -> Result<SplitProgress> {
        let bytes = match &mut self.stage {
            Stage::Plan => self.plan()?,
            Stage::Write { .. } => self.write()?,
            Stage::Finish => self.finish()?,
            Stage::Verify { .. } => self.verify()?,
            Stage::Done => return Ok(SplitProgress::Done(Box::new(self.info))),
        };
        Ok(SplitProgress::Working { bytes })
    }

    /// Removes what was written: to be called when it failed.
    pub fn clean_up(&mut self) -> Result<()> {
        self.stores.clear();
        remove_span(&*self.input.disk, self.input.span)
    }

    fn plan(&mut self) -> Result<u64> {
        let (disk, stream) = (Arc::clone(&self.input.disk), self.input.stream);
        let (mut footers, mut bytes) = (Vec::new(), 0);
        for number in &self.input.segments {
            let (_, trailer) = sealed(&*disk, stream, *number)?;
            let path = segment_path(*number);
            let file = disk.open(&path, Access::Read)?;
            bytes += file.len()? - trailer.batches_end;
            footers.push((trailer, Described::footer(file, &trailer, self.input.window_messages)?));
        }
        self.gather(&footers)?;
        drop(footers);
        let stores = self.bundle()?;
        self.info.stores = stores;
        disk.create_dir(STORES_DIR)?;
        disk.sync_dir("")?;
        let SpanInfo { span, first_sequence: first, last_sequence: last, .. } = self.info;
        for store in 0..stores {
            let header = StoreHeader { stream, span, store, first, last };
            self.stores.push_back(StoreWriter::create(&*disk, header, group_bytes(stores as usize))?);
        }
        self.stage = Stage::Write { scan: None };
        Ok(bytes)
    }

    /// Adds the footers up.
    fn gather(&mut self, footers: &[(Trailer, Described)]) -> Result<()> {
        let (first, last) = (&footers[0].0, &footers[footers.len() - 1].0);
        let (header, _) = sealed(&*self.input.disk, self.input.stream, first.segment)?;
        self.info = SpanInfo {
            span: self.input.span,
            first_sequence: header.next_sequence,
            last_sequence: last.last_sequence.max(header.next_sequence.saturating_sub(1)),
            first_timestamp: first.first_timestamp,
            last_timestamp: footers.iter().map(|(trailer, _)| trailer.last_timestamp).max().unwrap_or(0),
            first_segment: first.segment,
            last_segment: last.segment,
            next_topic: footers.iter().map(|(_, footer)| footer.next_topic).max().unwrap_or(1),
            next_publisher: footers.iter().map(|(_, footer)| footer.next_publisher).max().unwrap_or(1),
            ..SpanInfo::default()
        };
        for (_, footer) in footers {
            self.parts.publishers.extend(&footer.publishers);
            self.parts.cursors.extend(&footer.cursors);
            self.parts.voids.extend(&footer.voids);
        }
        let mut scans: Vec<_> = footers.iter().map(|(_, footer)| footer.directory.scan(b"")).collect();
        let mut entries: Vec<&mut dyn Entries> = scans.iter_mut().map(|scan| scan as &mut dyn Entries).collect();
        let (names, topics, rows) = (&mut self.names, &mut self.topics, &mut self.rows);
        merge(&mut entries, &mut |entry| {
            let told = TopicSum {
                messages: entry.messages,
                bytes: entry.bytes,
                last_sequence: entry.last_sequence,
                last_place: 0,
                sum: entry.sum,
            };
            rows.insert(entry.topic, topics.len() as u32);
            let name = (names.len(), entry.name.len() as u16);
            names.push_str(&String::from_utf8_lossy(entry.name));
            topics.push(Topic { topic: entry.topic, name, told, ..Topic::default() });
            Ok(())
        })
    }

    /// Decides which topic goes to which store; gives how many stores there are.
    fn bundle(&mut self) -> Result<u32> {
        let with_messages = |topic: &&Topic| topic.told.messages > 0;
        let names = &self.names;
        let volumes = self.topics.iter().filter(with_messages).map(|topic| Volume {
            topic: &names.as_bytes()[topic.name.0..][..usize::from(topic.name.1)],
            messages: topic.told.messages,
            bytes: topic.told.bytes,
        });
        let malformed = |error: crate::plan::Error| Error::Malformed {
            file: span_path(self.input.span),
            offset: 0,
            what: "topics to plan",
            got: self.topics.len() as u64,
            want: error.to_string(),
        };
        let tree = TopicTree::build(volumes).map_err(malformed)?;
        let budget = Budget::stores(self.input.stores_max);
        let plan = Adaptive::default().plan(&tree, &Demand::topics(&tree), &budget).map_err(malformed)?;
        for (row, topic) in self.topics.iter_mut().filter(|topic| topic.told.messages > 0).enumerate() {
            topic.store = Some(plan.store_of(row).0);
        }
        Ok(plan.stores().len() as u32)
    }

    /// A slice of the segments' records goes to the stores.
    fn write(&mut self) -> Result<u64> {
        let Stage::Write { scan } = &mut self.stage else { return Ok(0) };
        let mut current = match scan.take() {
            Some(scan) => scan,
            None => {
                let Some(number) = self.left.pop_front() else {
                    self.stage = Stage::Finish;
                    return Ok(0);
                };
                let (header, trailer) = sealed(&*self.input.disk, self.input.stream, number)?;
                let file = self.input.disk.open(&segment_path(number), Access::Read)?;
                Box::new(Scan::new(file, &header, Some(KnownEnd::of_trailer(&trailer)))?)
            }
        };
        let mut bytes = 0;
        while bytes < SLICE_BYTES as u64 {
            let (mut step, at) = (Step { bytes: 0 }, current.offset());
            match current.step()? {
                Scanned::Batch(_, records) => {
                    for record in Records::new(records).map_while(|record| record.ok()) {
                        let (topic, sequence) = (record.topic(), record.sequence());
                        step.bytes += record.bytes().len() as u64;
                        if topic == CONTROL_TOPIC || self.input.voids.contains(sequence.0) {
                            continue;
                        }
                        let row = self.rows.get(&topic).copied();
                        let target = row.and_then(|row| Some((row, self.topics[row as usize].store?)));
                        let Some((row, store)) = target else {
                            let bad = BadPart::Field { field: "topic that the footer does not list" };
                            return Err(Error::part(span_path(self.input.span).as_str(), at, bad));
                        };
                        add(&mut self.topics[row as usize].wrote, sequence, record.bytes());
                        step.bytes += self.stores[store as usize].push(row, sequence.0, record.bytes())?;
                    }
                }
                Scanned::Damage(damage) => return Err(damage.into()),
                Scanned::End(_) => return Ok(bytes),
            }
            bytes += step.bytes;
        }
        self.stage = Stage::Write { scan: Some(current) };
        Ok(bytes)
    }

    /// Closes a store; behind the last one writes the span's file.
    fn finish(&mut self) -> Result<u64> {
        let (names, topics) = (&self.names, &self.topics);
        let name = |topic: &Topic| &names[topic.name.0..][..usize::from(topic.name.1)];
        if let Some(writer) = self.stores.pop_front() {
            let store = self.info.stores - self.stores.len() as u32 - 1;
            let describe = |row: u32| {
                let topic = &topics[row as usize];
                Row { name: name(topic), topic: topic.topic, sum: topic.wrote }
            };
            let (places, bytes) = writer.finish(&describe)?;
            for (row, runs) in places {
                self.topics[row as usize].place = Some(TopicPlace { store, runs });
            }
            return Ok(bytes);
        }
        self.info.messages = topics.iter().map(|topic| topic.wrote.messages).sum();
        self.info.bytes = topics.iter().map(|topic| topic.wrote.bytes).sum();
        let disk = &*self.input.disk;
        let bytes = write_span(disk, self.input.stream, &self.info, &self.parts, &mut |directory| {
            topics.iter().try_for_each(|topic| {
                let last_place = topic.place.map_or(0, TopicPlace::pack);
                directory.push(entry(name(topic), topic.topic, &TopicSum { last_place, ..topic.wrote }))
            })
        })?;
        disk.sync_dir(STORES_DIR)?;
        self.check_told()?;
        self.stage = Stage::Verify { store: 0, verify: None };
        Ok(bytes)
    }

    /// What was written is what the footers told, if nothing became void since.
    fn check_told(&self) -> Result<()> {
        let SpanInfo { first_sequence, last_sequence, .. } = self.info;
        if self.input.voids.overlaps(first_sequence, last_sequence) {
            return Ok(());
        }
        match self.topics.iter().find(|topic| topic.wrote != topic.told) {
            Some(topic) => Err(self.differs(topic.topic, &topic.wrote, &topic.told)),
            None => Ok(()),
        }
    }

    fn differs(&self, topic: u32, got: &TopicSum, want: &TopicSum) -> Error {
        Error::Malformed {
            file: span_path(self.input.span),
            offset: 0,
            what: "number of a topic's messages, or their bytes or sum",
            got: got.messages,
            want: format!("as the segments' footers tell of topic {topic}: {want:?}, not {got:?}"),
        }
    }

    /// Reads a group back; behind a store's last one compares the store's figures, behind the last store the span's.
    fn verify(&mut self) -> Result<u64> {
        let (disk, stream, span) = (Arc::clone(&self.input.disk), self.input.stream, self.input.span);
        let Stage::Verify { store, verify } = &mut self.stage else { return Ok(0) };
        if *store == self.info.stores {
            self.verify_span()?;
            self.stage = Stage::Done;
            return Ok(0);
        }
        let mut current = match verify.take() {
            Some(verify) => verify,
            None => Box::new(Verify::new(Arc::new(StoreFile::open(&*disk, stream, span, *store)?))?),
        };
        let number = *store;
        if let Some(bytes) = current.step()? {
            self.stage = Stage::Verify { store: number, verify: Some(current) };
            return Ok(bytes);
        }
        current.finish(&mut |topic, sum| {
            let row = self.rows.get(&topic).map(|row| &self.topics[*row as usize]);
            let wrote = row.filter(|row| row.store == Some(number)).map(|row| row.wrote).unwrap_or_default();
            if wrote == *sum { Ok(()) } else { Err(self.differs(topic, sum, &wrote)) }
        })?;
        let read: u64 = self.topics.iter().filter(|topic| topic.store == Some(number)).count() as u64;
        self.stage = Stage::Verify { store: number + 1, verify: None };
        Ok(read)
    }

    /// The span's directory has every topic with what was written of it.
    fn verify_span(&self) -> Result<()> {
        let file = SpanFile::open(&*self.input.disk, self.input.stream, self.input.span)?;
        if *file.info() != self.info {
            let bad = BadPart::Field { field: "first page" };
            return Err(Error::part(&span_path(self.input.span), 0, bad));
        }
        file.parts(self.input.window_messages)?;
        let mut scan = file.directory().scan(b"");
        let mut rows = self.topics.iter();
        while scan.advance()? {
            let (got, row) = (scan.entry(), rows.next());
            let last_place = row.and_then(|row| row.place).map_or(0, TopicPlace::pack);
            let want = row.map(|row| TopicSum { last_place, ..row.wrote }).unwrap_or_default();
            let sum = TopicSum {
                messages: got.messages,
                bytes: got.bytes,
                last_sequence: got.last_sequence,
                last_place: got.last_place,
                sum: got.sum,
            };
            if row.is_none_or(|row| row.topic != got.topic) || sum != want {
                return Err(self.differs(got.topic, &sum, &want));
            }
        }
        match rows.next() {
            Some(row) => Err(self.differs(row.topic, &TopicSum::default(), &row.wrote)),
            None => Ok(()),
        }
    }
}

struct Step {
    bytes: u64,
}

fn add(sum: &mut TopicSum, sequence: Sequence, record: &[u8]) {
    sum.messages += 1;
    sum.bytes += record.len() as u64;
    sum.last_sequence = sequence;
    sum.sum = sum.sum.wrapping_add(XxHash3_64::oneshot(record));
}

/// Header and trailer of a sealed segment.
fn sealed(disk: &dyn Disk, stream: u128, number: u64) -> Result<(SegmentHeader, Trailer)> {
    let path = segment_path(number);
    let file = disk.open(&path, Access::Read)?;
    let wrong = |bad| Error::part(&path, 0, bad);
    let header = SegmentHeader::load(&*file, stream, number)?.map_err(wrong)?;
    let trailer = Trailer::load(&*file, &header)?.map_err(wrong)?;
    Ok((header, trailer))
}

/// Removes every file of a span that is not in charge.
pub fn remove_span(disk: &dyn Disk, span: u64) -> Result<()> {
    remove_files(disk, &|of| of == Some(span))
}

/// Removes every file of `stores/` that belongs to none of the spans in charge. What is none of ours stays.
pub fn remove_orphans(disk: &dyn Disk, in_charge: &[u64]) -> Result<()> {
    remove_files(disk, &|of| of.is_some_and(|span| !in_charge.contains(&span)))
}

fn remove_files(disk: &dyn Disk, goes: &dyn Fn(Option<u64>) -> bool) -> Result<()> {
    let mut removed = false;
    for (path, span) in list_stores(disk)?.files {
        if goes(span) {
            disk.remove(&path)?;
            removed = true;
        }
    }
    if removed {
        disk.sync_dir(STORES_DIR)?;
    }
    Ok(())
}
