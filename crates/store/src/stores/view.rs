//! What of a span a reader wants: which groups of which stores, and which stretches of them. Made from the span's directory
//! and the stores' runs, a block and a page at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use arioso_stream::filter::Filter;
use hashbrown::HashSet;

use super::runs::{Run, RunsPage};
use super::span::{SpanFile, TopicPlace};
use super::store::StoreFile;
use crate::Result;
use crate::directory::{DirectoryReader, Entries, Entry};
use crate::segment::Wanted;

/// A group of a store, and what of it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWanted {
    /// The group.
    pub group: u32,
    /// Its first sequence.
    pub first: u64,
    /// Its last.
    pub last: u64,
    /// Stretches on disk: offset in the group, bytes; ascending, apart. Empty: all of it.
    pub ranges: Arc<[(u32, u32)]>,
    /// Bytes they have on disk.
    pub disk_bytes: u64,
}

/// A store, and the groups of it that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreWanted {
    /// The store.
    pub store: u32,
    /// Groups, ascending.
    pub groups: Vec<GroupWanted>,
}

/// What of a span a reader wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The span.
    pub span: u64,
    /// Its last sequence.
    pub last: u64,
    /// Stores, ascending.
    pub stores: Vec<StoreWanted>,
    /// Bytes read to find out: directory, runs, groups' tables.
    pub index_bytes: u64,
    /// Bytes on disk of what is wanted.
    pub disk_bytes: u64,
    /// Messages of topics that match, in the whole span.
    pub messages: u64,
    /// Bytes of their records.
    pub useful_bytes: u64,
    /// Bytes of records that a reader holds at most: the largest group of each store.
    pub held_bytes_max: u64,
}

/// Opens a store of the span, or gives the one that is open.
pub type OpenStore<'a> = dyn FnMut(u32) -> Result<Arc<StoreFile>> + 'a;

struct Looking<'a, 'b> {
    open: &'a mut OpenStore<'b>,
    stores: BTreeMap<u32, (Arc<StoreFile>, RunsPage)>,
    ranges: BTreeMap<(u32, u32), Vec<(u32, u32)>>,
    runs: Vec<Run>,
    view: View,
}

impl View {
    /// Everything in groups that end at or above `next`.
    pub fn of_everything(span: &SpanFile, open: &mut OpenStore<'_>, next: u64) -> Result<View> {
        let info = span.info();
        let (messages, useful_bytes) = (info.messages, info.bytes);
        let mut view = View { span: info.span, last: info.last_sequence, messages, useful_bytes, ..View::default() };
        for store in 0..info.stores {
            let file = open(store)?;
            view.index_bytes += file.index_bytes();
            view.push(store, &file, next, &mut |_| Some(Vec::new()));
        }
        Ok(view)
    }

    /// What filters match, in groups that end at or above `next`.
    pub fn of_filters(span: &SpanFile, open: &mut OpenStore<'_>, filters: &[Filter], next: u64) -> Result<View> {
        if filters.iter().any(Filter::is_everything) {
            return View::of_everything(span, open, next);
        }
        let info = span.info();
        let view = View { span: info.span, last: info.last_sequence, ..View::default() };
        let mut looking = Looking { open, stores: BTreeMap::new(), ranges: BTreeMap::new(), runs: Vec::new(), view };
        looking.view.index_bytes += span.index_bytes();
        let read = matching(span.directory(), filters, &mut |entry| looking.topic(entry))?;
        looking.view.index_bytes += read;
        let Looking { mut ranges, stores, mut view, .. } = looking;
        for (store, (file, _)) in stores {
            view.index_bytes += file.index_bytes();
            view.push(store, &file, next, &mut |group| ranges.remove(&(store, group)).map(joined));
        }
        Ok(view)
    }

    /// Adds a store with the groups for which `wanted` gives ranges.
    fn push(
        &mut self,
        store: u32,
        file: &StoreFile,
        next: u64,
        wanted: &mut dyn FnMut(u32) -> Option<Vec<(u32, u32)>>,
    ) {
        let mut groups = Vec::new();
        let mut largest = 0;
        for (number, group) in file.groups().iter().enumerate() {
            let number = number as u32;
            let Some(ranges) = wanted(number).filter(|_| group.last >= next) else { continue };
            let bytes: u64 = ranges.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
            let disk_bytes = if ranges.is_empty() { group.bytes } else { bytes };
            self.disk_bytes += disk_bytes;
            // What is wanted of it is taken to be packed as well as the whole.
            let share = disk_bytes as f64 / group.bytes.max(1) as f64;
            largest = largest.max((group.records_bytes as f64 * share) as u64);
            let (first, last, ranges) = (group.first, group.last, ranges.into());
            groups.push(GroupWanted { group: number, first, last, ranges, disk_bytes });
        }
        self.held_bytes_max += largest;
        if !groups.is_empty() {
            self.stores.push(StoreWanted { store, groups });
        }
    }

    /// Groups wanted.
    pub fn groups(&self) -> usize {
        self.stores.iter().map(|store| store.groups.len()).sum()
    }
}

impl Looking<'_, '_> {
    fn topic(&mut self, entry: &Entry<'_>) -> Result<()> {
        if entry.messages == 0 {
            return Ok(());
        }
        let place = TopicPlace::unpack(entry.last_place);
        let (file, page) = match self.stores.entry(place.store) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                new.insert(((self.open)(place.store)?, RunsPage::default()))
            }
        };
        self.view.index_bytes += page.runs(&**file.file(), file.trailer().runs, place.runs, &mut self.runs)?;
        self.view.messages += entry.messages;
        self.view.useful_bytes += entry.bytes;
        for run in &self.runs {
            let ranges = self.ranges.entry((place.store, run.group)).or_default();
            match ranges.last_mut() {
                // The usual case: topics come in the order in which they lie.
                Some(last) if last.0 <= run.offset && run.offset <= last.0.saturating_add(last.1) => {
                    last.1 = last.1.max((run.offset - last.0).saturating_add(run.bytes));
                }
                _ => ranges.push((run.offset, run.bytes)),
            }
        }
        Ok(())
    }
}

/// Ranges in order, those that touch or overlap as one.
fn joined(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (offset, bytes) in ranges {
        match out.last_mut() {
            Some(last) if offset <= last.0.saturating_add(last.1) => {
                last.1 = last.1.max((offset - last.0).saturating_add(bytes));
            }
            _ => out.push((offset, bytes)),
        }
    }
    out
}

/// Hands on every topic of a directory that filters match, each once. Gives about how many bytes of the directory were read.
pub fn matching(
    directory: &DirectoryReader,
    filters: &[Filter],
    each: &mut dyn FnMut(&Entry<'_>) -> Result<()>,
) -> Result<u64> {
    // One filter finds a topic once.
    let mut seen: HashSet<u32, foldhash::fast::FixedState> = HashSet::default();
    let mut once = |entry: &Entry<'_>| {
        if filters.len() == 1 || seen.insert(entry.topic) { each(entry) } else { Ok(()) }
    };
    let mut bytes = 0;
    for filter in filters {
        let mut walk = |entries: &mut dyn Entries| -> Result<u64> {
            let mut bytes = 0;
            while entries.advance()? {
                let entry = entries.entry();
                // A name shares most of its bytes with the one before; its figures take about so many.
                bytes += 32 + entry.name.len() as u64 / 2;
                if std::str::from_utf8(entry.name).is_ok_and(|name| filter.matches(name)) {
                    once(&entry)?;
                }
            }
            Ok(bytes)
        };
        bytes += match wanted(filter.as_str()) {
            Wanted::Topic(name) => {
                if let Some(entry) = directory.get(name)? {
                    once(&entry)?;
                }
                directory.block_bytes_of(name)
            }
            Wanted::Subtree(b"") => {
                walk(&mut directory.scan(b""))?;
                directory.blocks_bytes()
            }
            Wanted::Subtree(name) => walk(&mut directory.subtree(name))? + directory.block_bytes_of(name),
        };
    }
    Ok(bytes)
}

/// What of a filter a directory can be asked for: the topic, or the subtree before its first wildcard.
pub fn wanted(filter: &str) -> Wanted<'_> {
    match filter.split('/').position(|level| level.contains('*')) {
        None => Wanted::Topic(filter.as_bytes()),
        Some(0) => Wanted::Subtree(b""),
        Some(levels) => {
            let end = filter.match_indices('/').nth(levels - 1).map_or(filter.len(), |(at, _)| at);
            Wanted::Subtree(&filter.as_bytes()[..end])
        }
    }
}
