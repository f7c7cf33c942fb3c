//! What the files hold: the newest base, the footers behind it, the batches of unsealed segments, added up.

use std::collections::VecDeque;
use std::sync::Arc;

use arioso_disk::File;
use arioso_store::batch::PAGE_BYTES;
use arioso_store::checkpoint::{Described, base_path, list_bases};
use arioso_store::directory::{Entries, merge};
use arioso_store::publishers::Publishers;
use arioso_store::segment::header::SegmentHeader;
use arioso_store::segment::{
    Begun, Chain, ChainEnd, KnownEnd, Scan, Scanned, SegmentInfo, Summary, TopicSum, Trailer, lost_name, segment_path,
};
use arioso_store::stores::{SpanFile, span_path};
use arioso_store::voids::Voids;
use arioso_store::{Damage, Error as StoreError};
use arioso_stream::Sequence;
use hashbrown::HashMap;

use super::open::{LocalReplay, Opening, RecoveredTopic};
use crate::error::Error;

/// What describes a segment behind the base.
pub(super) enum Part {
    Footer(Box<Described>),
    Scanned(Box<ScannedPart>),
}

pub(super) struct ScannedPart {
    file: Arc<dyn File>,
    header: SegmentHeader,
    known_end: Option<KnownEnd>,
    summary: Summary,
}

impl Opening<'_> {
    /// The bases there are, and the newest that is whole.
    pub(super) fn base(&mut self) -> Result<(Vec<u64>, Option<Described>), Error> {
        let (mut bases, _) = list_bases(&*self.disk)?;
        while let Some(segment) = bases.last().copied() {
            match Described::base(&*self.disk, self.identity.stream, segment, self.options.window_messages) {
                Ok(base) => return Ok((bases, Some(base))),
                Err(StoreError::Disk(error)) if !matches!(error, arioso_disk::Error::Short { .. }) => {
                    return Err(error.into());
                }
                Err(error) => {
                    self.repair(base_path(segment), format!("{error}; the base before and the footers tell the same"));
                    self.disk.remove(&base_path(segment))?;
                    bases.pop();
                }
            }
        }
        Ok((bases, None))
    }

    /// Goes over all segments in order: takes footers, scans what has none.
    pub(super) fn load(
        &mut self,
        begun: &[Begun],
        covered: u64,
        (base, spans): (Option<Described>, Vec<SpanFile>),
        replay: &mut dyn LocalReplay,
    ) -> Result<(), Error> {
        if let Some(base) = base {
            self.take_footer(base, replay);
        }
        // A base covers every span; without one they stand in for the footers of their segments.
        for span in spans.into_iter().filter(|span| span.info().last_segment > covered) {
            let file = span_path(span.info().span);
            match span.described(self.options.window_messages) {
                Ok(described) => self.take_footer(described, replay),
                Err(StoreError::Disk(error)) if !matches!(error, arioso_disk::Error::Short { .. }) => {
                    return Err(error.into());
                }
                Err(error) => self.repair(file, format!("{error}; topics and publishers it told are not known")),
            }
        }
        for (at, segment) in begun.iter().enumerate() {
            let next = begun.get(at + 1);
            self.note_header(&segment.header);
            let footer = if segment.header.number > covered { self.footer(segment) } else { None };
            let trailer = segment.trailer.as_ref().ok();
            match (trailer, footer, segment.known_end) {
                (Some(trailer), Some(footer), _) => {
                    self.note_sealed(segment, trailer);
                    self.take_footer(footer, replay);
                }
                (Some(trailer), None, _) if segment.header.number <= covered => self.note_sealed(segment, trailer),
                // The base has what is in it: it is only sealed again.
                (None, None, Some(known)) if segment.header.number <= covered => {
                    self.note_covered(segment, next, known)
                }
                _ => self.scan(segment, next, replay)?,
            }
        }
        Ok(())
    }

    /// The footer of a sealed segment, unless it is damaged.
    fn footer(&mut self, segment: &Begun) -> Option<Described> {
        let trailer = segment.trailer.as_ref().ok()?;
        let path = segment_path(segment.header.number);
        let file = match segment.open(&*self.disk) {
            Ok(file) => file,
            Err(error) => {
                self.repair(path, format!("{error}; its footer is made again"));
                return None;
            }
        };
        match Described::footer(file, trailer, self.options.window_messages) {
            Ok(described) => Some(described),
            Err(error) => {
                self.repair(path, format!("{error}; its footer is made again"));
                None
            }
        }
    }

    fn note_header(&mut self, header: &SegmentHeader) {
        let found = &mut self.found;
        found.next_topic = found.next_topic.max(header.next_topic);
        found.next_publisher = found.next_publisher.max(header.next_publisher);
        found.settled_to = found.settled_to.max(Sequence(header.settled_to));
        found.timestamp = found.timestamp.max(header.timestamp);
        self.last_sequence = self.last_sequence.max(header.next_sequence.saturating_sub(1));
    }

    fn take_footer(&mut self, part: Described, replay: &mut dyn LocalReplay) {
        part.cursors.bodies().for_each(|body| replay.cursor(body));
        self.found.voids.extend(&part.voids);
        self.found.next_topic = self.found.next_topic.max(part.next_topic);
        self.found.next_publisher = self.found.next_publisher.max(part.next_publisher);
        self.parts.push(Part::Footer(Box::new(part)));
    }

    fn note_sealed(&mut self, segment: &Begun, trailer: &Trailer) {
        let found = &mut self.found;
        found.settled_to = found.settled_to.max(Sequence(trailer.settled_to));
        found.timestamp = found.timestamp.max(trailer.last_timestamp);
        self.last_sequence = self.last_sequence.max(trailer.last_sequence);
        self.highest_reserved = self.highest_reserved.max(trailer.reserved_to);
        let (segment_number, end) = (segment.header.number, trailer.batches_end);
        self.chain =
            ChainEnd { segment: segment_number, end, batch: trailer.last_batch, checksum: trailer.last_checksum };
        self.table.push(SegmentInfo {
            number: segment_number,
            incarnation: segment.header.incarnation,
            first_sequence: segment.header.next_sequence,
            last_sequence: trailer.last_sequence,
            first_timestamp: trailer.first_timestamp,
            last_timestamp: trailer.last_timestamp,
            batches_end: end,
            file_bytes: segment.file_bytes,
            trailer: Some(Box::new(*trailer)),
            places: Default::default(),
        });
    }

    fn note_covered(&mut self, segment: &Begun, next: Option<&Begun>, known: KnownEnd) {
        let (number, last_timestamp) = (segment.header.number, next.map_or(i64::MAX, |next| next.header.timestamp));
        self.chain = ChainEnd { segment: number, end: known.end, batch: known.batch, checksum: known.checksum };
        self.last_sequence = self.last_sequence.max(known.last_sequence);
        self.unsealed.push_back((number, known));
        self.table.push(SegmentInfo {
            number,
            incarnation: segment.header.incarnation,
            first_sequence: segment.header.next_sequence,
            last_sequence: known.last_sequence,
            first_timestamp: segment.header.timestamp,
            last_timestamp,
            batches_end: known.end,
            file_bytes: segment.file_bytes,
            trailer: None,
            places: Default::default(),
        });
    }

    /// Scans a segment without a footer.
    fn scan(&mut self, segment: &Begun, next: Option<&Begun>, replay: &mut dyn LocalReplay) -> Result<(), Error> {
        let (file, header) = (segment.open(&*self.disk)?, segment.header);
        self.number_before.get_or_insert(header.previous.batch);
        let mut summary = Summary::new(&header, self.options.window_messages);
        let mut scan = Scan::new(Arc::clone(&file), &header, segment.known_end)?;
        let (none, mut damage) = (Voids::default(), Vec::new());
        let torn = loop {
            match scan.step()? {
                Scanned::Batch(header, records) => {
                    self.unsynced.batch(header.number(), segment.header.number, header.offset(), header.synced_to());
                    summary.add(&header, records, &none);
                    replay.batch(header.bytes(), records);
                }
                Scanned::Damage(found) => damage.push(found),
                Scanned::End(torn) => break torn,
            }
        };
        let (chain, end) = (scan.chain(), scan.offset());
        if next.is_none() {
            self.unsynced.begun = (end <= PAGE_BYTES as u64).then_some(header.number);
            self.found.torn = torn;
        }
        self.note_scanned(segment, &summary, chain, end);
        self.note_gap(segment, next, chain, end);
        self.found.damage.extend(damage);
        let known_end = segment.known_end;
        self.parts.push(Part::Scanned(Box::new(ScannedPart { file, header, known_end, summary })));
        Ok(())
    }

    fn note_scanned(&mut self, segment: &Begun, summary: &Summary, chain: Chain, end: u64) {
        let number = segment.header.number;
        let checksum = chain.checksum.unwrap_or(0);
        self.chain = ChainEnd { segment: number, end, batch: chain.batch, checksum };
        self.last_sequence = self.last_sequence.max(chain.last_sequence);
        self.highest_reserved = self.highest_reserved.max(summary.reserved_to);
        let found = &mut self.found;
        found.settled_to = found.settled_to.max(Sequence(summary.settled_to));
        found.timestamp = found.timestamp.max(summary.last_timestamp);
        found.next_topic = found.next_topic.max(summary.next_topic);
        found.next_publisher = found.next_publisher.max(summary.next_publisher);
        found.scanned_bytes += end;
        found.unknown_control += summary.unknown_control;
        found.voids.extend(&summary.voids);
        let known = KnownEnd { end, batch: chain.batch, checksum, last_sequence: chain.last_sequence };
        self.unsealed.push_back((number, known));
        self.table.push(SegmentInfo {
            number,
            incarnation: segment.header.incarnation,
            first_sequence: segment.header.next_sequence,
            last_sequence: chain.last_sequence,
            first_timestamp: summary.first_timestamp,
            last_timestamp: summary.last_timestamp,
            batches_end: end,
            file_bytes: segment.file_bytes,
            trailer: None,
            places: summary.places.clone(),
        });
    }

    /// Names what is missing between a scanned segment, whose end nothing else told, and the one behind it.
    fn note_gap(&mut self, segment: &Begun, next: Option<&Begun>, chain: Chain, end: u64) {
        let Some(next) = next.map(|next| next.header) else { return };
        if segment.known_end.is_some() || next.previous.batch <= chain.batch {
            return;
        }
        let here = segment.header.number;
        let lost = if next.number > here + 1 { here + 1 } else { here };
        let damage = Damage {
            file: segment_path(lost),
            segment: lost,
            offset: if lost == here { end } else { 0 },
            bytes: if lost == here { segment.file_bytes.saturating_sub(end) } else { 0 },
            first: chain.last_sequence.saturating_add(1),
            last: next.next_sequence.saturating_sub(1),
        };
        self.table.push_missing(damage.clone());
        self.found.damage.push(damage);
    }

    /// Settles what is void, and takes it out of what the scanned segments add up to.
    pub(super) fn void(&mut self, replay: &mut dyn LocalReplay) -> Result<(), Error> {
        let mut sealed = Publishers::new(self.options.window_messages);
        for part in &self.parts {
            match part {
                Part::Footer(part) => sealed.extend(&part.publishers),
                Part::Scanned(_) => break,
            }
        }
        let number_before = self.number_before.unwrap_or(self.chain.batch);
        for (first, last) in replay.voids(&sealed, number_before, self.found.settled_to) {
            self.found.voids.add(first, last);
        }
        if self.found.voids.is_empty() {
            return Ok(());
        }
        let (window_messages, voids) = (self.options.window_messages, &self.found.voids);
        for part in &mut self.parts {
            let Part::Scanned(part) = part else { continue };
            if !voids.overlaps(part.header.next_sequence, part.summary.last_sequence) {
                continue;
            }
            let mut summary = Summary::new(&part.header, window_messages);
            let mut scan = Scan::new(Arc::clone(&part.file), &part.header, part.known_end)?;
            loop {
                match scan.step()? {
                    Scanned::Batch(header, records) => summary.add(&header, records, voids),
                    Scanned::Damage(_) => {}
                    Scanned::End(_) => break,
                }
            }
            part.summary = summary;
        }
        Ok(())
    }

    /// Tells the publishers and the topics, base, footers and scans added up.
    pub(super) fn tell(&mut self, replay: &mut dyn LocalReplay) -> Result<(), Error> {
        let mut publishers = Publishers::new(self.options.window_messages);
        let mut tail: HashMap<u32, TopicSum, foldhash::fast::FixedState> = HashMap::default();
        for part in &self.parts {
            match part {
                Part::Footer(part) => publishers.extend(&part.publishers),
                Part::Scanned(part) => {
                    publishers.extend(&part.summary.publishers);
                    for (topic, sum) in &part.summary.topics {
                        add(tail.entry(*topic).or_default(), sum);
                    }
                }
            }
        }
        publishers.forget_dropped();
        publishers.into_states().for_each(|state| replay.publisher(state));
        let directories: Vec<_> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Footer(part) => Some(&part.directory),
                Part::Scanned(_) => None,
            })
            .collect();
        let mut scans: Vec<_> = directories.iter().map(|directory| directory.scan(b"")).collect();
        let mut entries: Vec<&mut dyn Entries> = scans.iter_mut().map(|scan| scan as &mut dyn Entries).collect();
        merge(&mut entries, &mut |entry| {
            let mut sum = TopicSum {
                messages: entry.messages,
                bytes: entry.bytes,
                last_sequence: entry.last_sequence,
                ..TopicSum::default()
            };
            if let Some(more) = tail.remove(&entry.topic) {
                add(&mut sum, &more);
            }
            tell_topic(replay, &String::from_utf8_lossy(entry.name), entry.topic, &sum);
            Ok(())
        })?;
        let mut rest: Vec<_> = tail.into_iter().collect();
        rest.sort_unstable_by_key(|(topic, _)| *topic);
        for (topic, sum) in rest {
            let name = self.scanned_name(topic);
            if name.is_none() {
                self.repair("journal", format!("the name of topic {topic} was lost with a damaged batch"));
            }
            tell_topic(replay, &name.unwrap_or_else(|| lost_name(topic)), topic, &sum);
        }
        Ok(())
    }

    fn scanned_name(&self, topic: u32) -> Option<Box<str>> {
        self.parts.iter().find_map(|part| match part {
            Part::Scanned(part) => part.summary.names.get(&topic).cloned(),
            Part::Footer(_) => None,
        })
    }
}

fn add(sum: &mut TopicSum, more: &TopicSum) {
    sum.messages = sum.messages.saturating_add(more.messages);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.last_sequence = sum.last_sequence.max(more.last_sequence);
}

fn tell_topic(replay: &mut dyn LocalReplay, name: &str, topic: u32, sum: &TopicSum) {
    let TopicSum { messages, bytes, last_sequence, .. } = *sum;
    replay.topic(&RecoveredTopic { name, topic, messages, bytes, last_sequence });
}

/// Batches that no later one says are durable, oldest first.
#[derive(Default)]
pub(super) struct Unsynced {
    batches: VecDeque<UnsyncedBatch>,
    synced_to: u64,
    /// The newest segment, if it was begun and holds no batch yet.
    begun: Option<u64>,
}

struct UnsyncedBatch {
    number: u64,
    segment: u64,
    offset: u64,
}

impl Unsynced {
    fn batch(&mut self, number: u64, segment: u64, offset: u64, synced_to: u64) {
        self.batches.push_back(UnsyncedBatch { number, segment, offset });
        self.synced_to = self.synced_to.max(synced_to);
        while self.batches.pop_front_if(|batch| batch.number <= self.synced_to).is_some() {}
    }

    /// Where what is not known to be durable begins in a segment: at its header if no batch in it is known to be.
    pub(super) fn begins(&self, segment: u64) -> Option<u64> {
        match self.batches.iter().find(|batch| batch.segment == segment) {
            Some(first) if first.offset > PAGE_BYTES as u64 => Some(first.offset),
            Some(_) => Some(0),
            None => (self.begun == Some(segment)).then_some(0),
        }
    }
}
