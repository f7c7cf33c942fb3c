//! Sealing: a segment that is full gets its footer, behind the writer's back (docs/format.md section 4).
//!
//! The footer is made from the batches in the file, so that every sealed segment was read back once. Written: the
//! parts, the file's new length, the trailer, one sync. A crash anywhere before leaves no valid trailer, and the segment is
//! read by scanning as before.

use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use arioso_stream::order::ANONYMOUS_FROM;

use super::header::SegmentHeader;
use super::names::{TopicNames, WantedNames, lost_name};
use super::scan::{KnownEnd, Scan, Scanned};
use super::segment_path;
use super::summary::{Summary, TopicSum};
use super::trailer::{PartPlace, Trailer};
use crate::batch::PAGE_BYTES;
use crate::directory::{DirectoryWriter, Entry};
use crate::voids::Voids;
use crate::{Damage, Error, Result};

const PAGE: u64 = PAGE_BYTES as u64;
/// What is gathered before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// What sealing needs beside the file.
#[derive(Debug)]
pub struct SealInput<'a> {
    /// The stream.
    pub stream: u128,
    /// The segment.
    pub segment: u64,
    /// Where its batches end.
    pub end: KnownEnd,
    /// Void ranges known so far; what they name is left out of the figures.
    pub voids: &'a Voids,
    /// The encoded cursors part.
    pub cursors: &'a [u8],
    /// Messages a publisher's window holds at least.
    pub window_messages: u32,
}

/// A segment that was sealed.
#[derive(Debug)]
pub struct Sealed {
    /// Its trailer, as written.
    pub trailer: Trailer,
    /// The length of its file.
    pub file_bytes: u64,
    /// Stretches that can't be read.
    pub damage: Vec<Damage>,
}

/// Seals a segment. Done again after an error or a crash it gives the same.
pub fn seal(disk: &dyn Disk, input: &SealInput<'_>, names: &dyn TopicNames) -> Result<Sealed> {
    let path = segment_path(input.segment);
    let file = disk.open(&path, Access::ReadWrite)?;
    let header = SegmentHeader::load(&*file, input.stream, input.segment)?.map_err(|bad| Error::part(&path, 0, bad))?;
    let (summary, damage) = summarise(&file, &header, input)?;
    let rows = named_rows(&summary, names)?;
    let (trailer, file_bytes) = write_footer(&file, &header, input, &summary, &rows, damage.len())?;
    Ok(Sealed { trailer, file_bytes, damage })
}

/// Scans a segment up to its known end.
fn summarise(file: &Arc<dyn File>, header: &SegmentHeader, input: &SealInput<'_>) -> Result<(Summary, Vec<Damage>)> {
    let mut summary = Summary::new(header, input.window_messages);
    let mut damage = Vec::new();
    let mut scan = Scan::new(Arc::clone(file), header, Some(input.end))?;
    loop {
        match scan.step()? {
            Scanned::Batch(header, records) => summary.add(&header, records, input.voids),
            Scanned::Damage(found) => damage.push(found),
            Scanned::End(_) => break,
        }
    }
    summary.last_sequence = summary.last_sequence.max(scan.chain().last_sequence);
    Ok((summary, damage))
}

type Row = (Box<str>, u32, TopicSum);

/// The topics with their names, in the order of the names.
fn named_rows(summary: &Summary, names: &dyn TopicNames) -> Result<Vec<Row>> {
    let unnamed = summary.topics.keys().filter(|topic| !summary.names.contains_key(*topic));
    let mut wanted: WantedNames = unnamed.map(|topic| (*topic, None)).collect();
    if !wanted.is_empty() {
        names.fill(&mut wanted)?;
    }
    let name = |topic: &u32| match summary.names.get(topic) {
        Some(name) => name.clone(),
        None => wanted.get(topic).cloned().flatten().unwrap_or_else(|| lost_name(*topic)),
    };
    let mut rows: Vec<Row> = summary.topics.iter().map(|(topic, sum)| (name(topic), *topic, *sum)).collect();
    rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(rows)
}

/// Writes parts one behind the other.
pub(crate) struct PartsWriter<'a> {
    file: &'a dyn File,
    at: u64,
    waiting: Vec<u8>,
}

impl<'a> PartsWriter<'a> {
    pub(crate) fn new(file: &'a dyn File, at: u64) -> PartsWriter<'a> {
        PartsWriter { file, at, waiting: Vec::with_capacity(WRITE_BYTES) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(WRITE_BYTES) {
            if self.waiting.len() + piece.len() > WRITE_BYTES {
                self.flush()?;
            }
            self.waiting.extend_from_slice(piece);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.waiting, self.at)?;
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    pub(crate) fn offset(&self) -> u64 {
        self.at + self.waiting.len() as u64
    }

    /// A part whose bytes are there already; empty ones take no place.
    pub(crate) fn part(&mut self, bytes: &[u8]) -> Result<PartPlace> {
        let place = PartPlace { offset: self.offset(), bytes: bytes.len() as u64 };
        self.write(bytes)?;
        self.align(8)?;
        Ok(place)
    }

    /// The directory, pushed entry by entry by `fill`.
    pub(crate) fn directory(
        &mut self,
        fill: &mut dyn FnMut(&mut DirectoryWriter<'_>) -> Result<()>,
    ) -> Result<PartPlace> {
        let offset = self.offset();
        let mut sink = |bytes: &[u8]| self.write(bytes);
        let mut writer = DirectoryWriter::new(&mut sink);
        fill(&mut writer)?;
        let (_, bytes) = writer.finish()?;
        self.align(8)?;
        Ok(PartPlace { offset, bytes })
    }

    /// Zeros up to a multiple of `align`.
    pub(crate) fn align(&mut self, align: u64) -> Result<()> {
        let padding = self.offset().next_multiple_of(align) - self.offset();
        self.write(&[0; PAGE_BYTES][..padding as usize])
    }

    /// Writes what waits; gives the offset behind it.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.flush()?;
        Ok(self.at)
    }
}

fn write_footer(
    file: &Arc<dyn File>,
    header: &SegmentHeader,
    input: &SealInput<'_>,
    summary: &Summary,
    rows: &[Row],
    damaged: usize,
) -> Result<(Trailer, u64)> {
    let mut writer = PartsWriter::new(&**file, input.end.end);
    let directory = writer.directory(&mut |directory| {
        rows.iter().try_for_each(|(name, topic, sum)| directory.push(entry(name, *topic, sum)))
    })?;
    let publishers = writer.part(&summary.publishers.encode())?;
    let cursors = writer.part(input.cursors)?;
    let voids = writer.part(&summary.voids.encode())?;
    let places = writer.part(&summary.places.encode())?;
    writer.align(PAGE)?;
    let trailer_at = writer.finish()?;
    let trailer = Trailer {
        segment: header.number,
        incarnation: header.incarnation,
        first_sequence: if summary.first_sequence == 0 { header.next_sequence } else { summary.first_sequence },
        last_sequence: summary.last_sequence,
        first_timestamp: summary.first_timestamp,
        last_timestamp: summary.last_timestamp,
        batches: summary.batches,
        last_batch: input.end.batch,
        last_checksum: input.end.checksum,
        next_topic: summary.next_topic,
        records: summary.records,
        records_bytes: summary.records_bytes,
        batches_end: input.end.end,
        directory,
        publishers,
        cursors,
        settled_to: summary.settled_to,
        reserved_to: summary.reserved_to,
        next_publisher: summary.next_publisher.min(ANONYMOUS_FROM),
        damaged: damaged as u32,
        voids,
        places,
    };
    // The length first: a trailer counts only as the last page.
    file.set_len(trailer_at + PAGE)?;
    file.write_at(&trailer.encode(), trailer_at)?;
    file.sync_all()?;
    Ok((trailer, trailer_at + PAGE))
}

/// A topic's row in a directory.
pub(crate) fn entry<'a>(name: &'a str, topic: u32, sum: &TopicSum) -> Entry<'a> {
    Entry {
        name: name.as_bytes(),
        topic,
        messages: sum.messages,
        bytes: sum.bytes,
        last_sequence: sum.last_sequence,
        last_place: sum.last_place,
        sum: sum.sum,
    }
}
