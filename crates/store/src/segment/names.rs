//! The names of topic ids, found in files: a footer names all it uses, but a batch only what was not durable yet.

use std::sync::Arc;

use arioso_disk::{Access, Disk};
use hashbrown::HashMap;

use super::header::SegmentHeader;
use super::segment_path;
use super::trailer::Trailer;
use crate::checkpoint::{Described, list_bases};
use crate::directory::{DirectoryReader, Entries};
use crate::{Error, Result};

/// Topic ids whose names are wanted; `None` until found.
pub type WantedNames = HashMap<u32, Option<Box<str>>, foldhash::fast::FixedState>;

/// Tells the names of topic ids.
pub trait TopicNames: std::fmt::Debug + Send + Sync {
    /// Fills in the names it knows.
    fn fill(&self, wanted: &mut WantedNames) -> Result<()>;
}

/// Names as the files before a segment tell them: the footers behind the newest base, then that base. Each is walked over
/// once, the newest first, until no name is wanted any more.
#[derive(Debug)]
pub struct EarlierNames {
    disk: Arc<dyn Disk>,
    stream: u128,
    segment: u64,
}

impl EarlierNames {
    /// In the files before `segment`.
    pub fn new(disk: Arc<dyn Disk>, stream: u128, segment: u64) -> EarlierNames {
        EarlierNames { disk, stream, segment }
    }

    /// The directory of a sealed segment; `None` if there is none that can be read.
    fn footer(&self, segment: u64) -> Result<Option<DirectoryReader>> {
        let file = match self.disk.open(&segment_path(segment), Access::Read) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let Ok(header) = SegmentHeader::load(&*file, self.stream, segment)? else { return Ok(None) };
        let Ok(trailer) = Trailer::load(&*file, &header)? else { return Ok(None) };
        let range = trailer.directory.offset..trailer.directory.offset + trailer.directory.bytes;
        readable(DirectoryReader::open(file, range))
    }

    /// The newest base before the segment that can be read.
    fn base(&self) -> Result<Option<Described>> {
        let (bases, _) = list_bases(&*self.disk)?;
        for base in bases.into_iter().rev().filter(|base| *base < self.segment) {
            // The window is of no matter here: only the directory is looked at.
            if let Some(base) = readable(Described::base(&*self.disk, self.stream, base, 0))? {
                return Ok(Some(base));
            }
        }
        Ok(None)
    }
}

/// A file that is damaged tells no names; one that can't be read just now stops the search.
fn readable<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::Disk(error)) if !matches!(error, arioso_disk::Error::Short { .. }) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

impl TopicNames for EarlierNames {
    fn fill(&self, wanted: &mut WantedNames) -> Result<()> {
        let mut missing = wanted.values().filter(|name| name.is_none()).count();
        let base = self.base()?;
        let from = base.as_ref().map_or(1, |base| base.segment + 1);
        for segment in (from..self.segment).rev() {
            if missing == 0 {
                return Ok(());
            }
            match self.footer(segment)? {
                Some(directory) => missing -= find(&directory, wanted)?,
                // Without a base everything down to the first segment there is was looked at.
                None if base.is_none() && !self.any_before(segment)? => break,
                None => {}
            }
        }
        if let Some(base) = base.filter(|_| missing > 0) {
            find(&base.directory, wanted)?;
        }
        Ok(())
    }
}

impl EarlierNames {
    fn any_before(&self, segment: u64) -> Result<bool> {
        let entries = self.disk.list(super::JOURNAL_DIR)?;
        let number = |name: &str| match super::JournalName::read(name) {
            super::JournalName::Segment(number) => Some(number),
            _ => None,
        };
        Ok(entries.iter().filter_map(|entry| number(&entry.name)).any(|number| number < segment))
    }
}

/// Fills in what a directory tells; gives how many names that were.
fn find(directory: &DirectoryReader, wanted: &mut WantedNames) -> Result<usize> {
    let (mut found, mut scan) = (0, directory.scan(b""));
    while readable(scan.advance())?.unwrap_or(false) {
        let entry = scan.entry();
        if let Some(name @ None) = wanted.get_mut(&entry.topic)
            && let Ok(text) = std::str::from_utf8(entry.name)
        {
            *name = Some(text.into());
            found += 1;
        }
    }
    Ok(found)
}

/// What a topic is called whose name was lost with a damaged batch: first levels with `$` belong to the bus.
pub fn lost_name(topic: u32) -> Box<str> {
    format!("$lost/{topic}").into()
}
