//! A scan over one segment: every good batch in order, damage named, a torn tail told apart from it (docs/format.md
//! section 3.1).
//!
//! ```text
//! at the first place that is not good:
//!   the end is known (a later segment or the trailer names it)  ──▶ damage up to the next good batch, or to the end
//!   a later batch of this life says the missing one was synced  ──▶ damage up to that batch
//!   neither                                                     ──▶ torn tail: the scan ends here
//! ```

use std::sync::Arc;

use arioso_disk::File;

use super::header::{ChainEnd, SegmentHeader};
use super::trailer::Trailer;
use super::window::Window;
use crate::batch::{BATCH_MAGIC, BatchHeader, FIXED_BYTES, PAGE_BYTES};
use crate::{Damage, Result};

const PAGE: u64 = PAGE_BYTES as u64;

/// How far the chain of batches is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The number of the last batch.
    pub batch: u64,
    /// Its header checksum; not known behind damage.
    pub checksum: Option<u32>,
    /// The last sequence given.
    pub last_sequence: u64,
}

impl Chain {
    /// The chain as a segment's header tells it.
    pub fn before(header: &SegmentHeader) -> Chain {
        Chain {
            batch: header.previous.batch,
            checksum: Some(header.previous.checksum),
            last_sequence: header.next_sequence.saturating_sub(1),
        }
    }

    fn continued_by(&self, header: &BatchHeader<'_>) -> bool {
        Some(header.number()) == self.batch.checked_add(1)
            && self.checksum.is_none_or(|checksum| checksum == header.previous_checksum())
    }

    fn of(header: &BatchHeader<'_>) -> Chain {
        let (batch, checksum) = (header.number(), Some(header.checksum()));
        Chain { batch, checksum, last_sequence: header.last_sequence() }
    }
}

/// Where the batches of a segment end, if something else than the batches tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    /// The offset behind the last batch.
    pub end: u64,
    /// The last batch's number.
    pub batch: u64,
    /// Its header checksum.
    pub checksum: u32,
    /// The last sequence given before that end.
    pub last_sequence: u64,
}

impl KnownEnd {
    /// What the next segment's header tells, if it names `segment` as the one before it.
    pub fn named_by(next: &SegmentHeader, segment: u64) -> Option<KnownEnd> {
        let ChainEnd { segment: named, end, batch, checksum } = next.previous;
        let last_sequence = next.next_sequence.saturating_sub(1);
        (named == segment).then_some(KnownEnd { end, batch, checksum, last_sequence })
    }

    /// What the segment's own trailer tells.
    pub fn of_trailer(trailer: &Trailer) -> KnownEnd {
        KnownEnd {
            end: trailer.batches_end,
            batch: trailer.last_batch,
            checksum: trailer.last_checksum,
            last_sequence: trailer.last_sequence,
        }
    }
}

/// Bytes behind the end of the stream that were being written when the machine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub file: String,
    /// Where they begin.
    pub offset: u64,
    /// How many there are, as far as can be told.
    pub bytes: u64,
}

impl std::fmt::Display for Torn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ends at {} with {} bytes that were being written", self.file, self.offset, self.bytes)
    }
}

/// What a scan meets next.
#[derive(Debug)]
pub enum Scanned<'a> {
    /// A good batch and its records.
    Batch(BatchHeader<'a>, &'a [u8]),
    /// A stretch that can't be read. The scan goes on behind it.
    Damage(Damage),
    /// The end of the batches, and what was being written there.
    End(Option<Torn>),
}

/// A scan over one segment's file, in bounded memory.
#[derive(Debug)]
pub struct Scan {
    window: Window,
    header: SegmentHeader,
    known_end: Option<KnownEnd>,
    chain: Chain,
    at: u64,
    done: bool,
}

impl Scan {
    /// From the first batch on.
    pub fn new(file: Arc<dyn File>, header: &SegmentHeader, known_end: Option<KnownEnd>) -> Result<Scan> {
        let bytes = file.len()?;
        let counts = known_end.map_or(bytes, |known| known.end.min(bytes));
        let window = Window::new(file, counts);
        let (header, chain) = (*header, Chain::before(header));
        Ok(Scan { window, header, known_end, chain, at: PAGE, done: false })
    }

    /// How far the scan has come: where the next batch begins.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// How far the chain is known.
    pub fn chain(&self) -> Chain {
        self.chain
    }

    /// The next batch, damage or the end; after the end, the end again.
    pub fn step(&mut self) -> Result<Scanned<'_>> {
        if self.done || self.at >= self.end() {
            self.done = true;
            return Ok(Scanned::End(None));
        }
        let (at, incarnation) = (self.at, self.header.incarnation);
        let total = match self.window.batch_at(incarnation, at)? {
            Ok((header, records)) if self.chain.continued_by(&header) => {
                self.chain = Chain::of(&header);
                self.at = header.end();
                header.header_bytes() + records.len()
            }
            _ => return self.judge(),
        };
        let bytes = self.window.at(at, total)?;
        let header = BatchHeader::trusted(bytes);
        let records = &bytes[header.header_bytes()..total];
        Ok(Scanned::Batch(header, records))
    }

    /// Where batches can be: up to the known end, even if the file is shorter.
    fn end(&self) -> u64 {
        self.known_end.map_or(self.window.end(), |known| known.end)
    }

    /// Decides what a place that is not good means.
    fn judge(&mut self) -> Result<Scanned<'_>> {
        let at = self.at;
        if let Some(behind) = self.find_behind(at)? {
            self.at = behind.offset;
            // Only a batch that lies exactly behind the bad one may be held to its number.
            self.chain = Chain { batch: behind.number - 1, checksum: None, last_sequence: self.chain.last_sequence };
            return Ok(Scanned::Damage(self.damage(at, behind.offset, behind.last_before)));
        }
        self.done = true;
        if let Some(known) = self.known_end {
            self.chain.batch = known.batch;
            self.chain.checksum = Some(known.checksum);
            let damage = self.damage(at, known.end, known.last_sequence);
            self.at = known.end;
            return Ok(Scanned::Damage(damage));
        }
        let torn = self.torn(at)?;
        Ok(Scanned::End(torn))
    }

    fn damage(&mut self, from: u64, to: u64, last: u64) -> Damage {
        let first = self.chain.last_sequence.saturating_add(1);
        self.chain.last_sequence = self.chain.last_sequence.max(last);
        let (file, segment) = (self.window.file().path().to_owned(), self.header.number);
        Damage { file, segment, offset: from, bytes: to.saturating_sub(from), first, last }
    }

    /// The first batch behind a bad place that proves the bad one counted.
    fn find_behind(&mut self, at: u64) -> Result<Option<Behind>> {
        let missing = self.chain.batch.saturating_add(1);
        let known = self.known_end.is_some();
        // What lies inside a batch whose header is good is no batch, whatever it looks like.
        let mut page = match self.window.header_at(self.header.incarnation, at)? {
            Ok(header) if self.chain.continued_by(&header) => header.end(),
            _ => at,
        };
        while page + PAGE <= self.window.end() {
            if let Ok(header) = self.window.header_at(self.header.incarnation, page)? {
                let proves = known || header.synced_to() >= missing;
                if header.number() > missing && (proves || page == at) {
                    return Ok(Some(Behind {
                        offset: page,
                        number: header.number(),
                        last_before: last_before(&header),
                    }));
                }
            }
            page += PAGE;
        }
        Ok(None)
    }

    /// Whether something was being written at the end of the stream.
    fn torn(&mut self, at: u64) -> Result<Option<Torn>> {
        let mut end = at;
        let mut page = at;
        while page + PAGE <= self.window.end() {
            let recycled = self.header.recycled;
            let incarnation = self.header.incarnation;
            let bytes = self.window.at(page, PAGE_BYTES)?;
            let bytes = &bytes[..PAGE_BYTES.min(bytes.len())];
            if begins_batch_of(bytes, incarnation) || !recycled && bytes.iter().any(|byte| *byte != 0) {
                end = page + PAGE;
            }
            page += PAGE;
        }
        let file = self.window.file().path().to_owned();
        Ok((end > at).then(|| Torn { file, offset: at, bytes: end - at }))
    }
}

struct Behind {
    offset: u64,
    number: u64,
    last_before: u64,
}

/// The last sequence that can lie before a batch.
fn last_before(header: &BatchHeader<'_>) -> u64 {
    if header.records_count() == 0 { header.first_sequence() } else { header.first_sequence().saturating_sub(1) }
}

/// Whether a page begins like a batch of this life of the file, good or not.
fn begins_batch_of(page: &[u8], incarnation: u64) -> bool {
    page.len() >= FIXED_BYTES && page[..4] == BATCH_MAGIC && page[16..24] == incarnation.to_le_bytes()
}
