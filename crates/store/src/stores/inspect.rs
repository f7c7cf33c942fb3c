//! Spans as an inspection sees them: every block, run and figure read, and what lies in the directory beside them.

use std::sync::Arc;

use arioso_disk::Disk;

use super::span::{SpanFile, SpanInfo};
use super::verify::Verify;
use super::{StoreFile, list_stores, span_path, store_path};
use crate::directory::Entries;
use crate::history::missing_span;
use crate::inspect::State;
use crate::manifest::Span;
use crate::{Damage, Error, Result};

/// A span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRow {
    /// Its file.
    pub file: String,
    /// How it stands: sealed, damaged or missing.
    pub state: State,
    /// The first sequence.
    pub first_sequence: u64,
    /// The last.
    pub last_sequence: u64,
    /// The first segment it replaced.
    pub first_segment: u64,
    /// The last.
    pub last_segment: u64,
    /// How often it was merged.
    pub tier: u32,
    /// Stores.
    pub stores: u32,
    /// Topics with a message in it, or named in it.
    pub topics: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Bytes of all its files.
    pub file_bytes: u64,
}

/// A span, every byte of it verified, and what of it can't be read.
pub fn inspect_span(disk: &dyn Disk, stream: u128, span: &Span) -> (SpanRow, Vec<Damage>) {
    let mut row = SpanRow {
        file: span_path(span.span),
        state: State::Sealed,
        first_sequence: span.first_sequence,
        last_sequence: span.last_sequence,
        first_segment: 0,
        last_segment: span.last_segment,
        tier: span.tier,
        stores: span.stores,
        topics: 0,
        messages: 0,
        bytes: 0,
        file_bytes: file_bytes(disk, span.span),
    };
    let range = (span.first_sequence, span.last_sequence);
    let Ok(file) = SpanFile::open(disk, stream, span.span).and_then(|file| check_span(file, span)) else {
        row.state = State::Missing;
        return (row, vec![missing_span(span.span, range, span.last_segment)]);
    };
    let info = *file.info();
    (row.first_segment, row.messages, row.bytes) = (info.first_segment, info.messages, info.bytes);
    row.topics = file.directory().totals().entries;
    let mut damage = Vec::new();
    for store in 0..info.stores {
        if let Err(error) = inspect_store(disk, stream, &info, store, &file, &mut damage) {
            let path = store_path(info.span, store);
            damage.push(damage_of(path, &error, &info, (0, 0), range));
        }
    }
    if !damage.is_empty() {
        row.state = State::Damaged;
    }
    (row, damage)
}

/// The span's own file, every byte of it, and its figures against the manifest's.
fn check_span(file: SpanFile, span: &Span) -> Result<SpanFile> {
    file.parts(1)?;
    let mut scan = file.directory().scan(b"");
    while scan.advance()? {}
    drop(scan);
    if file.info().manifest_row() != *span {
        let bad = crate::BadPart::Field { field: "range, tier or number of stores" };
        return Err(Error::part(&span_path(span.span), 0, bad));
    }
    Ok(file)
}

fn inspect_store(
    disk: &dyn Disk,
    stream: u128,
    info: &SpanInfo,
    number: u32,
    span: &SpanFile,
    damage: &mut Vec<Damage>,
) -> Result<()> {
    let store = Arc::new(StoreFile::open(disk, stream, info.span, number)?);
    let mut verify = Verify::new(Arc::clone(&store))?;
    let before = damage.len();
    for group in store.groups() {
        if let Err(error) = verify.step() {
            let path = store_path(info.span, number);
            damage.push(damage_of(path, &error, info, (group.offset, group.bytes), (group.first, group.last)));
        }
    }
    if damage.len() > before {
        return Ok(());
    }
    verify.finish(&mut |_, _| Ok(()))?;
    // The same topics with the same figures in the span's directory.
    let own = store.directory()?;
    let mut scan = own.scan(b"");
    while scan.advance()? {
        let entry = scan.entry();
        let told = span.directory().get(entry.name)?;
        let same = told.is_some_and(|told| {
            let figures = (told.topic, told.messages, told.bytes, told.sum);
            figures == (entry.topic, entry.messages, entry.bytes, entry.sum)
        });
        if !same {
            let bad = crate::BadPart::Field { field: "figures of a topic" };
            return Err(Error::part(&span_path(info.span), 0, bad));
        }
    }
    Ok(())
}

fn damage_of(
    file: String,
    error: &Error,
    info: &SpanInfo,
    (offset, bytes): (u64, u64),
    (first, last): (u64, u64),
) -> Damage {
    // A bad block is told by its own place.
    let (offset, bytes) = match error {
        Error::Part { offset: at, .. } => (*at, bytes.saturating_sub(at.saturating_sub(offset))),
        _ => (offset, bytes),
    };
    Damage { file, segment: info.last_segment, offset, bytes, first, last }
}

fn file_bytes(disk: &dyn Disk, span: u64) -> u64 {
    let Ok(listed) = list_stores(disk) else { return 0 };
    let own = listed.files.iter().filter(|(_, of)| *of == Some(span));
    own.filter_map(|(path, _)| disk.open(path, arioso_disk::Access::Read).ok()?.len().ok()).sum()
}
