//! Reads a store back: every block, every run, every figure. A group at a time, with one row a topic in memory.

use std::sync::Arc;

use arioso_stream::{Records, Sequence};
use hashbrown::HashMap;
use twox_hash::XxHash3_64;

use super::runs::{Run, RunsPage};
use super::store::{Group, StoreFile};
use crate::directory::{DirectoryReader, Entries};
use crate::head::BadPart;
use crate::segment::TopicSum;
use crate::{Error, Result};

/// What a topic came to.
#[derive(Clone, Debug, Default)]
struct Found {
    sum: TopicSum,
    runs: Vec<Run>,
}

/// A store being read back.
pub struct Verify {
    store: Arc<StoreFile>,
    directory: DirectoryReader,
    /// Topic to its place in the directory.
    rank: HashMap<u32, u32, foldhash::fast::FixedState>,
    found: Vec<Found>,
    group: u32,
}

impl Verify {
    /// Reads the directory, and nothing else yet.
    pub fn new(store: Arc<StoreFile>) -> Result<Verify> {
        let directory = store.directory()?;
        let mut rank = HashMap::default();
        let mut scan = directory.scan(b"");
        while scan.advance()? {
            let next = rank.len() as u32;
            if rank.insert(scan.entry().topic, next).is_some() {
                let got = scan.entry().topic.into();
                let (file, offset) = (store.file().path().to_owned(), store.trailer().directory.offset);
                return Err(Error::Malformed { file, offset, what: "topic listed twice", got, want: "once".into() });
            }
        }
        drop(scan);
        let found = vec![Found::default(); rank.len()];
        Ok(Verify { store, directory, rank, found, group: 0 })
    }

    /// Reads the next group; gives its bytes, nothing behind the last.
    pub fn step(&mut self) -> Result<Option<u64>> {
        let number = self.group;
        let Some(group) = self.store.groups().get(number as usize).copied() else { return Ok(None) };
        self.group += 1;
        let store = Arc::clone(&self.store);
        let mut seen = Seen::default();
        store.blocks(group.offset, group.bytes, &mut |head, offset, records| {
            let wrong = |bad| Error::part(store.file().path(), offset, bad);
            let at = (offset - group.offset) as u32;
            let end = at + head.bytes as u32;
            let (mut count, mut first, mut last) = (0, u64::MAX, 0);
            for record in Records::new(records) {
                let record = record.map_err(|_| wrong(BadPart::Field { field: "row of records" }))?;
                let rank = self.rank.get(&record.topic());
                let rank = *rank.ok_or_else(|| wrong(BadPart::Field { field: "topic of a record" }))?;
                let sequence = record.sequence();
                if !seen.follows(rank, sequence.0) {
                    return Err(wrong(BadPart::Field { field: "order of records" }));
                }
                self.found[rank as usize].take(number, (at, end), sequence, record.bytes());
                (count, first, last) = (count + 1, sequence.0.min(first), sequence.0.max(last));
            }
            seen.take(records.len() as u64, count, (first, last));
            records.clear();
            if (count, first, last) != (head.records, head.first, head.last) {
                return Err(wrong(BadPart::Field { field: "number or range of records" }));
            }
            Ok(())
        })?;
        if !seen.agrees(&group) {
            let bad = BadPart::Field { field: "row of a group" };
            return Err(Error::part(self.store.file().path(), self.store.trailer().groups.offset, bad));
        }
        Ok(Some(group.bytes))
    }

    /// Compares what was read with the directory, the runs and the trailer, and tells each topic's figures.
    pub fn finish(self, each: &mut dyn FnMut(u32, &TopicSum) -> Result<()>) -> Result<()> {
        let (file, trailer) = (self.store.file(), self.store.trailer());
        let same = |offset: u64, what: &'static str, got: u64, want: u64| {
            let file = file.path().to_owned();
            if got == want { Ok(()) } else { Err(Error::Malformed { file, offset, what, got, want: want.to_string() }) }
        };
        let (mut page, mut runs) = (RunsPage::default(), Vec::new());
        let mut scan = self.directory.scan(b"");
        let (mut rank, mut messages, mut bytes) = (0, 0, 0);
        while scan.advance()? {
            let (entry, found) = (scan.entry(), &self.found[rank]);
            let at = trailer.directory.offset;
            same(at, "number of a topic's messages", entry.messages, found.sum.messages)?;
            same(at, "bytes of a topic's records", entry.bytes, found.sum.bytes)?;
            same(at, "last sequence of a topic", entry.last_sequence.0, found.sum.last_sequence.0)?;
            same(at, "sum of a topic's records", entry.sum, found.sum.sum)?;
            page.runs(&**file, trailer.runs, entry.last_place, &mut runs)?;
            if runs != found.runs {
                return Err(Error::part(file.path(), trailer.runs.offset, BadPart::Field { field: "list of runs" }));
            }
            each(entry.topic, &found.sum)?;
            (rank, messages, bytes) = (rank + 1, messages + found.sum.messages, bytes + found.sum.bytes);
        }
        let at = trailer.directory.offset + trailer.directory.bytes;
        same(at, "number of messages", trailer.messages, messages)?;
        same(at, "bytes of records", trailer.bytes, bytes)
    }
}

impl Found {
    fn take(&mut self, group: u32, (at, end): (u32, u32), sequence: Sequence, record: &[u8]) {
        self.sum.messages += 1;
        self.sum.bytes += record.len() as u64;
        self.sum.sum = self.sum.sum.wrapping_add(XxHash3_64::oneshot(record));
        self.sum.last_sequence = sequence;
        match self.runs.last_mut() {
            Some(run) if run.group == group => run.bytes = end - run.offset,
            _ => self.runs.push(Run { group, offset: at, bytes: end - at }),
        }
    }
}

/// What a group came to so far.
#[derive(Default)]
struct Seen {
    last: Option<(u32, u64)>,
    range: Option<(u64, u64)>,
    bytes: u64,
    records: u32,
    blocks: u32,
}

impl Seen {
    /// By topic, and within a topic in the order of the stream.
    fn follows(&mut self, rank: u32, sequence: u64) -> bool {
        let follows = self.last.is_none_or(|last| last < (rank, sequence));
        self.last = Some((rank, sequence));
        follows
    }

    fn take(&mut self, bytes: u64, records: u32, (first, last): (u64, u64)) {
        self.bytes += bytes;
        self.records += records;
        self.blocks += 1;
        let (low, high) = self.range.unwrap_or((first, last));
        self.range = Some((low.min(first), high.max(last)));
    }

    fn agrees(&self, group: &Group) -> bool {
        let whole = (self.bytes, self.records, self.blocks) == (group.records_bytes, group.records, group.blocks);
        whole && self.range == Some((group.first, group.last))
    }
}
