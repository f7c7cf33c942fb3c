//! What lies in the journal's directory: which segments were begun, which are only prepared, what is missing.

use std::sync::Arc;

use arioso_disk::{Access, Disk, File};

use super::header::{ChainEnd, SegmentHeader, SegmentState};
use super::scan::KnownEnd;
use super::trailer::Trailer;
use super::window::Window;
use super::{JOURNAL_DIR, JournalName, segment_path};
use crate::batch::{BadBatch, BatchHeader, PAGE_BYTES};
use crate::head::BadPart;
use crate::{Damage, Error, Result};

const PAGE: u64 = PAGE_BYTES as u64;

/// A segment that holds a part of the stream.
#[derive(Debug)]
pub struct Begun {
    /// Its header; made up from the first batch if that of the file is damaged.
    pub header: SegmentHeader,
    /// What is wrong with the file's own header.
    pub header_bad: Option<BadPart>,
    /// Its trailer, or why it has none.
    pub trailer: Result<Trailer, BadPart>,
    /// Where its batches end, if the next segment or the trailer says so.
    pub known_end: Option<KnownEnd>,
    /// The length of its file.
    pub file_bytes: u64,
}

impl Begun {
    /// Opens its file for reading: a survey keeps none open, there may be thousands of them.
    pub fn open(&self, disk: &dyn Disk) -> Result<Arc<dyn File>> {
        Ok(disk.open(&segment_path(self.header.number), Access::Read)?)
    }
}

/// A file that may be begun or recycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The segment's number, or the last incarnation of a free file.
    pub id: u64,
    /// The length of the file.
    pub bytes: u64,
}

/// What lies in the journal's directory.
#[derive(Debug, Default)]
pub struct Survey {
    /// Segments that hold a part of the stream, ascending.
    pub begun: Vec<Begun>,
    /// Segments behind them that were never begun.
    pub prepared: Vec<Spare>,
    /// Files kept to be written again.
    pub free: Vec<Spare>,
    /// Files that were being written when the process stopped.
    pub temporary: Vec<String>,
    /// Names that are none of ours.
    pub unknown: Vec<String>,
    /// Segments below the first kept one: retired, not yet given back.
    pub retired: Vec<Spare>,
    /// Stretches of the stream whose segments are not there, or can't be read at all.
    pub missing: Vec<Damage>,
    /// The highest incarnation seen anywhere.
    pub incarnation: u64,
}

/// Looks at the journal's directory. `first_kept` are the first segment and sequence kept, by the manifest; without one
/// the segments present are in charge from the lowest on.
pub fn survey(disk: &dyn Disk, stream: u128, first_kept: Option<(u64, u64)>) -> Result<Survey> {
    let mut survey = Survey::default();
    let mut segments = Vec::new();
    let entries = match disk.list(JOURNAL_DIR) {
        Err(error) if error.is_not_found() => Vec::new(),
        other => other?,
    };
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        match JournalName::read(&entry.name) {
            JournalName::Segment(number) if first_kept.is_some_and(|(first, _)| number < first) => {
                survey.retired.push(Spare { id: number, bytes: entry.bytes });
            }
            JournalName::Segment(number) => segments.push(number),
            JournalName::Free(incarnation) => {
                survey.incarnation = survey.incarnation.max(incarnation);
                survey.free.push(Spare { id: incarnation, bytes: entry.bytes });
            }
            JournalName::Temporary => survey.temporary.push(format!("{JOURNAL_DIR}/{}", entry.name)),
            JournalName::Unknown => survey.unknown.push(format!("{JOURNAL_DIR}/{}", entry.name)),
        }
    }
    segments.sort_unstable();
    for number in segments {
        survey.look_at(disk, stream, number)?;
    }
    survey.settle_headless();
    survey.link(first_kept);
    Ok(survey)
}

impl Survey {
    fn look_at(&mut self, disk: &dyn Disk, stream: u128, number: u64) -> Result<()> {
        let path = segment_path(number);
        let file = disk.open(&path, Access::Read)?;
        let file_bytes = file.len()?;
        let (header, header_bad) = match SegmentHeader::load(&*file, stream, number)? {
            Ok(header) => (header, None),
            // A file of another stream, or written by a newer version, is not guessed at.
            Err(bad @ (BadPart::Version { .. } | BadPart::Other { field: "stream id", .. })) => {
                return Err(Error::part(&path, 0, bad));
            }
            Err(bad) => match self.header_from_batches(&file, stream, number)? {
                Some(header) => (header, Some(bad)),
                None => {
                    self.prepared.push(Spare { id: number, bytes: file_bytes });
                    return Ok(());
                }
            },
        };
        self.incarnation = self.incarnation.max(header.incarnation);
        if header.state == SegmentState::Prepared {
            self.prepared.push(Spare { id: number, bytes: file_bytes });
            return Ok(());
        }
        let trailer = Trailer::load(&*file, &header)?;
        self.begun.push(Begun { header, header_bad, trailer, known_end: None, file_bytes });
        Ok(())
    }

    /// Makes up the header of a segment whose own is damaged, from the first good batch in it that is younger than
    /// every file before. `None`: there is none, and the segment was never begun or can't be read.
    fn header_from_batches(&self, file: &Arc<dyn File>, stream: u128, number: u64) -> Result<Option<SegmentHeader>> {
        let mut window = Window::new(Arc::clone(file), file.len()?);
        let capacity = window.end();
        let mut page = PAGE;
        while page + PAGE <= capacity {
            let bytes = window.at(page, PAGE_BYTES)?;
            let incarnation = match BatchHeader::read(bytes) {
                Ok(header) => Some(header.incarnation()),
                Err(BadBatch::Short { .. }) => BatchHeader::peek_incarnation(bytes),
                Err(_) => None,
            };
            if let Some(incarnation) = incarnation.filter(|found| *found > self.incarnation)
                && let Ok((batch, _)) = window.batch_at(incarnation, page)?
            {
                return Ok(Some(SegmentHeader {
                    stream,
                    number,
                    incarnation,
                    state: SegmentState::Begun,
                    recycled: true,
                    next_sequence: batch.first_sequence().saturating_add(u64::from(batch.records_count() == 0)),
                    timestamp: i64::MIN,
                    server_epoch: batch.server_epoch(),
                    previous: ChainEnd {
                        batch: batch.number().saturating_sub(1),
                        checksum: batch.previous_checksum(),
                        ..ChainEnd::default()
                    },
                    next_topic: 1,
                    next_publisher: 1,
                    capacity,
                    settled_to: batch.settled_to(),
                }));
            }
            page += PAGE;
        }
        Ok(None)
    }

    /// A file without a header that lies before a begun segment was not merely prepared: it is missing.
    fn settle_headless(&mut self) {
        let Some(last) = self.begun.last().map(|begun| begun.header.number) else { return };
        self.prepared.retain(|spare| spare.id > last);
    }

    /// Tells each segment where it ends, and names what is missing between them.
    fn link(&mut self, first_kept: Option<(u64, u64)>) {
        let Some(lowest) = self.begun.first().map(|begun| begun.header) else { return };
        let mut missing = Vec::new();
        let (mut number, mut sequence) = first_kept.unwrap_or((lowest.number, lowest.next_sequence));
        for at in 0..self.begun.len() {
            let header = self.begun[at].header;
            if header.number > number && header.next_sequence > sequence {
                let last = header.next_sequence - 1;
                let (file, segment) = (segment_path(number), number);
                missing.push(Damage { file, segment, offset: 0, bytes: 0, first: sequence, last });
            }
            let next = self.begun.get(at + 1).map(|next| next.header);
            let begun = &mut self.begun[at];
            begun.known_end = next.and_then(|next| KnownEnd::named_by(&next, header.number)).or(begun
                .trailer
                .as_ref()
                .ok()
                .map(KnownEnd::of_trailer));
            number = header.number.saturating_add(1);
            sequence = begun.known_end.map_or(sequence, |known| known.last_sequence.saturating_add(1));
            if begun.known_end.is_none() && next.is_some_and(|next| next.number > number) {
                // Where it ends shows only a scan: the missing stretch is named behind that.
                sequence = u64::MAX;
            }
        }
        self.missing = missing;
    }
}
