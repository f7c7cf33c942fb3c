//! Offline: tests every checksum of a data directory and lists what is in it. Nothing is changed.

use std::sync::Arc;

use arioso_disk::Disk;

use crate::checkpoint::{CHECKPOINT_DIR, Described, base_path, list_bases};
use crate::identity::{EPOCH_FILE, Epoch, Identity, STREAM_FILE};
use crate::manifest::{MANIFEST_FILES, Manifest};
use crate::segment::survey::{Begun, survey};
use crate::segment::{Chain, Scan, Scanned, Summary, Torn, segment_path};
use crate::voids::Voids;
use crate::{Damage, Error, Result};

/// Windows do not matter here: nothing of a publisher is kept.
const WINDOW_MESSAGES: u32 = 1;

/// One segment.
#[derive(Clone, Debug)]
pub struct SegmentRow {
    /// Its file.
    pub file: String,
    /// Its number.
    pub number: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Whether it has a trailer.
    pub sealed: bool,
    /// The first sequence in it, 0 if it has no record.
    pub first_sequence: u64,
    /// The last sequence given in it.
    pub last_sequence: u64,
    /// The last batch's timestamp.
    pub last_timestamp: i64,
    /// Good batches.
    pub batches: u64,
    /// Messages.
    pub records: u64,
    /// Their bytes.
    pub records_bytes: u64,
    /// Topics with messages in it.
    pub topics: u64,
    /// Control records of unknown kinds.
    pub unknown_control: u64,
    /// Stretches that can't be read.
    pub damage: Vec<Damage>,
    /// What was being written behind its end.
    pub torn: Option<Torn>,
    /// What is wrong with its header, its trailer or its footer; a start makes these again.
    pub wrong: Vec<String>,
}

/// What is in a data directory.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Whose it is.
    pub identity: Identity,
    /// The server's epoch, and whether the last stop was clean; what is wrong if it can't be read.
    pub epoch: std::result::Result<Epoch, String>,
    /// Which segments are in charge.
    pub manifest: Option<Manifest>,
    /// Segments, ascending.
    pub segments: Vec<SegmentRow>,
    /// Stretches of the stream whose segments are missing.
    pub missing: Vec<Damage>,
    /// Segments that have a base, and what is wrong with it.
    pub bases: Vec<(u64, Option<String>)>,
    /// Segments prepared and files kept to be written again.
    pub spare_files: usize,
    /// Files that are none of ours.
    pub unknown_files: Vec<String>,
    /// What is wrong with small files; a start makes these again.
    pub wrong: Vec<String>,
}

impl Inspection {
    /// Whether a part of the stream can't be read.
    pub fn is_damaged(&self) -> bool {
        !self.missing.is_empty() || self.segments.iter().any(|row| !row.damage.is_empty())
    }
}

/// Tests every checksum in a data directory; `row` sees each segment as it is done.
pub fn inspect(disk: &dyn Disk, row: &mut dyn FnMut(&SegmentRow)) -> Result<Inspection> {
    let Some(identity) = Identity::load(disk)? else {
        return Err(Error::NoIdentity { file: STREAM_FILE.to_owned() });
    };
    let (manifest, wrong) = Manifest::load(disk)?;
    let mut wrong: Vec<String> = wrong.iter().map(Error::to_string).collect();
    if manifest.is_none() {
        wrong.push(format!("{} and {}: there is none", MANIFEST_FILES[0], MANIFEST_FILES[1]));
    }
    let epoch = match Epoch::load(disk)? {
        Some(epoch) => epoch.map_err(|bad| format!("{EPOCH_FILE}: {bad}")),
        None => Err(format!("{EPOCH_FILE}: there is none")),
    };
    let first_kept = manifest.as_ref().map(|manifest| (manifest.first_segment, manifest.first_sequence));
    let mut found = survey(disk, identity.stream, first_kept)?;
    let mut segments = Vec::new();
    let mut missing = std::mem::take(&mut found.missing);
    for (at, begun) in found.begun.iter().enumerate() {
        let next = found.begun.get(at + 1);
        let (line, chain) = segment(begun, next.is_none())?;
        missing.extend(gap(begun, next, chain, &line));
        row(&line);
        segments.push(line);
    }
    let (bases, _) = list_bases(disk)?;
    let base = |segment: u64| match Described::base(disk, identity.stream, segment, WINDOW_MESSAGES) {
        Ok(_) => (segment, None),
        Err(error) => (segment, Some(format!("{}: {error}", base_path(segment)))),
    };
    let bases = bases.into_iter().map(base).collect();
    let mut unknown_files = std::mem::take(&mut found.unknown);
    let known = |name: &str| name.ends_with(".base") || name.ends_with(&arioso_disk::temporary(""));
    let others = disk.list(CHECKPOINT_DIR).unwrap_or_default();
    let others = others.into_iter().filter(|entry| !known(&entry.name));
    unknown_files.extend(others.map(|entry| format!("{CHECKPOINT_DIR}/{}", entry.name)));
    let spare_files = found.prepared.len() + found.free.len() + found.retired.len();
    Ok(Inspection { identity, epoch, manifest, segments, missing, bases, spare_files, unknown_files, wrong })
}

/// Reads all of one segment.
fn segment(begun: &Begun, newest: bool) -> Result<(SegmentRow, Chain)> {
    let none = Voids::default();
    let mut summary = Summary::new(&begun.header, WINDOW_MESSAGES);
    let mut scan = Scan::new(Arc::clone(&begun.file), &begun.header, begun.known_end)?;
    let mut damage = Vec::new();
    let torn = loop {
        match scan.step()? {
            Scanned::Batch(header, records) => summary.add(&header, records, &none),
            Scanned::Damage(found) => damage.push(found),
            Scanned::End(torn) => break torn,
        }
    };
    let mut wrong = Vec::new();
    if let Some(bad) = begun.header_bad {
        wrong.push(format!("header: {bad}"));
    }
    check_footer(begun, &summary, newest, &mut wrong);
    let row = SegmentRow {
        file: segment_path(begun.header.number),
        number: begun.header.number,
        file_bytes: begun.file_bytes,
        sealed: begun.trailer.is_ok(),
        first_sequence: summary.first_sequence,
        last_sequence: scan.chain().last_sequence,
        last_timestamp: summary.last_timestamp,
        batches: summary.batches,
        records: summary.records,
        records_bytes: summary.records_bytes,
        topics: summary.topics.values().filter(|topic| topic.messages > 0).count() as u64,
        unknown_control: summary.unknown_control,
        damage,
        torn,
        wrong,
    };
    Ok((row, scan.chain()))
}

/// Tests a footer and compares it with what the batches say.
fn check_footer(begun: &Begun, summary: &Summary, newest: bool, wrong: &mut Vec<String>) {
    let trailer = match &begun.trailer {
        Ok(trailer) => trailer,
        // The newest segment has none, and one that was just ended not yet.
        Err(bad) if !newest => return wrong.push(format!("not sealed: {bad}")),
        Err(_) => return,
    };
    let footer = match Described::footer(Arc::clone(&begun.file), trailer, WINDOW_MESSAGES) {
        Ok(footer) => footer,
        Err(error) => return wrong.push(format!("footer: {error}")),
    };
    let figures = [
        ("batches", trailer.batches, summary.batches),
        ("messages", trailer.records, summary.records),
        ("bytes", trailer.records_bytes, summary.records_bytes),
        ("topics", footer.directory.totals().entries, summary.topics.len() as u64),
    ];
    for (what, told, is) in figures {
        if told != is {
            wrong.push(format!("footer: it tells {told} {what}, the batches hold {is}"));
        }
    }
    // Void messages are left out of the directory: only where there are none must the sums agree.
    let sum = summary.topics.values().fold(0u64, |total, topic| total.wrapping_add(topic.sum));
    let totals = footer.directory.totals();
    if totals.messages == summary.records && totals.sum != sum {
        wrong.push("footer: the sum of the messages' hashes is not that of the batches".to_owned());
    }
}

/// What is missing between a segment, whose end nothing else told, and the next one.
fn gap(begun: &Begun, next: Option<&Begun>, chain: Chain, row: &SegmentRow) -> Option<Damage> {
    let next = next.filter(|next| begun.known_end.is_none() && next.header.previous.batch > chain.batch)?;
    let lost = if next.header.number > row.number + 1 { row.number + 1 } else { row.number };
    Some(Damage {
        file: segment_path(lost),
        segment: lost,
        offset: 0,
        bytes: 0,
        first: chain.last_sequence + 1,
        last: next.header.next_sequence.saturating_sub(1),
    })
}
