//! A span's file: every topic of the span with its figures and its store, and what the footers of the segments told beside
//! (docs/format.md section 9.2).

use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use zerocopy::little_endian::{I64, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{STORES_DIR, STORES_MAX, span_path};
use crate::batch::PAGE_BYTES;
use crate::checkpoint::{Described, create_anew};
use crate::cursors::Cursors;
use crate::directory::{DirectoryReader, DirectoryWriter, Entries};
use crate::head::{self, BadPart, Head};
use crate::manifest::Span;
use crate::publishers::Publishers;
use crate::segment::PartPlace;
use crate::segment::header::expect;
use crate::segment::seal::PartsWriter;
use crate::segment::trailer::FixedPlace;
use crate::voids::Voids;
use crate::{Error, Result, part};

const MAGIC: [u8; 8] = *b"ARIOSPA1";
/// Bits of a last place that say where in its store a topic's runs are listed.
const PLACE_BITS: u32 = 48;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    head: Head,
    stream: U128,
    span: U64,
    first_sequence: U64,
    last_sequence: U64,
    first_timestamp: I64,
    last_timestamp: I64,
    first_segment: U64,
    last_segment: U64,
    tier: U32,
    stores: U32,
    directory: FixedPlace,
    publishers: FixedPlace,
    cursors: FixedPlace,
    voids: FixedPlace,
    next_topic: U32,
    next_publisher: U32,
    messages: U64,
    bytes: U64,
}

const _: () = assert!(size_of::<Fixed>() == 184);

/// What is known of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanInfo {
    /// Its id.
    pub span: u64,
    /// The first sequence.
    pub first_sequence: u64,
    /// The last.
    pub last_sequence: u64,
    /// No record in it is older.
    pub first_timestamp: i64,
    /// No record in it is newer.
    pub last_timestamp: i64,
    /// The first segment it replaces.
    pub first_segment: u64,
    /// The last.
    pub last_segment: u64,
    /// How often it was merged.
    pub tier: u32,
    /// How many stores.
    pub stores: u32,
    /// The next topic id.
    pub next_topic: u32,
    /// The next publisher id.
    pub next_publisher: u32,
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

impl SpanInfo {
    /// As the manifest names it.
    pub fn manifest_row(&self) -> Span {
        Span {
            first_sequence: self.first_sequence,
            last_sequence: self.last_sequence,
            last_segment: self.last_segment,
            tier: self.tier,
            stores: self.stores,
            span: self.span,
        }
    }
}

/// Where a topic's records are: its store, and its place in that store's runs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicPlace {
    /// The store.
    pub store: u32,
    /// The place of its runs.
    pub runs: u64,
}

impl TopicPlace {
    /// As a directory's last place.
    pub fn pack(self) -> u64 {
        assert!(self.runs < 1 << PLACE_BITS, "a runs part has at most 2^35 bytes");
        u64::from(self.store) << PLACE_BITS | self.runs
    }

    /// Reads a last place.
    pub fn unpack(place: u64) -> TopicPlace {
        TopicPlace { store: (place >> PLACE_BITS) as u32, runs: place & ((1 << PLACE_BITS) - 1) }
    }
}

/// What the footers told beside the topics.
#[derive(Debug)]
pub struct SpanParts {
    /// Publishers.
    pub publishers: Publishers,
    /// Cursors.
    pub cursors: Cursors,
    /// Voids.
    pub voids: Voids,
}

/// Writes a span's file, in place of one that a crash may have left, and syncs it. Gives its bytes.
pub fn write_span(
    disk: &dyn Disk,
    stream: u128,
    info: &SpanInfo,
    parts: &SpanParts,
    fill: &mut dyn FnMut(&mut DirectoryWriter<'_>) -> Result<()>,
) -> Result<u64> {
    let file = create_anew(disk, &span_path(info.span))?;
    let mut writer = PartsWriter::new(&*file, PAGE_BYTES as u64);
    let directory = writer.directory(fill)?;
    let fixed = Fixed {
        head: Head::new(MAGIC, 0),
        stream: U128::new(stream),
        span: U64::new(info.span),
        first_sequence: U64::new(info.first_sequence),
        last_sequence: U64::new(info.last_sequence),
        first_timestamp: I64::new(info.first_timestamp),
        last_timestamp: I64::new(info.last_timestamp),
        first_segment: U64::new(info.first_segment),
        last_segment: U64::new(info.last_segment),
        tier: U32::new(info.tier),
        stores: U32::new(info.stores),
        directory: directory.into(),
        publishers: writer.part(&parts.publishers.encode())?.into(),
        cursors: writer.part(&parts.cursors.encode())?.into(),
        voids: writer.part(&parts.voids.encode())?.into(),
        next_topic: U32::new(info.next_topic),
        next_publisher: U32::new(info.next_publisher),
        messages: U64::new(info.messages),
        bytes: U64::new(info.bytes),
    };
    let end = writer.finish()?;
    file.write_at(&head::page(fixed.as_bytes()), 0)?;
    file.sync_all()?;
    Ok(end)
}

/// A span's file that is open; its directory's sparse index is held.
#[derive(Debug)]
pub struct SpanFile {
    info: SpanInfo,
    directory: DirectoryReader,
    publishers: PartPlace,
    cursors: PartPlace,
    voids: PartPlace,
    /// Bytes of the directory's sparse index and trailer.
    index_bytes: u64,
}

impl SpanFile {
    /// Opens a span's file and tests its first page.
    pub fn open(disk: &dyn Disk, stream: u128, span: u64) -> Result<SpanFile> {
        let path = span_path(span);
        let file = disk.open(&path, Access::Read)?;
        let wrong = |bad| Error::part(&path, 0, bad);
        let page = head::read_page(&*file, 0)?.map_err(wrong)?;
        head::check(&page, MAGIC).map_err(wrong)?;
        let fixed: &Fixed = head::fixed(&page).map_err(wrong)?;
        expect("stream id", stream, fixed.stream.get()).map_err(wrong)?;
        expect("span id", u128::from(span), u128::from(fixed.span.get())).map_err(wrong)?;
        let info = SpanInfo {
            span,
            first_sequence: fixed.first_sequence.get(),
            last_sequence: fixed.last_sequence.get(),
            first_timestamp: fixed.first_timestamp.get(),
            last_timestamp: fixed.last_timestamp.get(),
            first_segment: fixed.first_segment.get(),
            last_segment: fixed.last_segment.get(),
            tier: fixed.tier.get(),
            stores: fixed.stores.get(),
            next_topic: fixed.next_topic.get(),
            next_publisher: fixed.next_publisher.get(),
            messages: fixed.messages.get(),
            bytes: fixed.bytes.get(),
        };
        if info.stores > STORES_MAX || info.first_sequence > info.last_sequence.saturating_add(1) {
            return Err(wrong(BadPart::Field { field: "number of stores or range" }));
        }
        let PartPlace { offset, bytes } = fixed.directory.into();
        let end = offset.checked_add(bytes).ok_or_else(|| wrong(BadPart::Field { field: "directory's place" }))?;
        let directory = DirectoryReader::open(file, offset..end)?;
        let index_bytes = directory.index_bytes();
        let (publishers, cursors, voids) = (fixed.publishers.into(), fixed.cursors.into(), fixed.voids.into());
        Ok(SpanFile { info, directory, publishers, cursors, voids, index_bytes })
    }

    /// What is known of the span.
    pub fn info(&self) -> &SpanInfo {
        &self.info
    }

    /// Its topics.
    pub fn directory(&self) -> &DirectoryReader {
        &self.directory
    }

    /// Bytes of the directory's sparse index and trailer, which opening it reads.
    pub fn index_bytes(&self) -> u64 {
        self.index_bytes
    }

    /// What the footers told beside the topics.
    pub fn parts(&self, window_messages: u32) -> Result<SpanParts> {
        let file: &Arc<dyn File> = self.directory.file();
        let wrong = |place: PartPlace, bad| Error::part(file.path(), place.offset, bad);
        let (p, c, v) = (self.publishers, self.cursors, self.voids);
        Ok(SpanParts {
            publishers: Publishers::read(&part::load(&**file, p)?, window_messages).map_err(|bad| wrong(p, bad))?,
            cursors: Cursors::read(&part::load(&**file, c)?).map_err(|bad| wrong(c, bad))?,
            voids: Voids::read(&part::load(&**file, v)?).map_err(|bad| wrong(v, bad))?,
        })
    }

    /// As a footer of all its segments, every byte tested: a start without a base can do without the segments.
    pub fn described(self, window_messages: u32) -> Result<Described> {
        let SpanParts { publishers, cursors, voids } = self.parts(window_messages)?;
        let mut scan = self.directory.scan(b"");
        while scan.advance()? {}
        drop(scan);
        Ok(Described {
            segment: self.info.last_segment,
            directory: self.directory,
            publishers,
            cursors,
            voids,
            next_topic: self.info.next_topic,
            next_publisher: self.info.next_publisher,
        })
    }
}

/// What lies in the directory of stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoresListed {
    /// Ids of spans that have a file, ascending.
    pub spans: Vec<u64>,
    /// Paths of all files, with the span each belongs to; `None`: none of ours.
    pub files: Vec<(String, Option<u64>)>,
}

/// Lists the directory of stores; an absent one is empty.
pub fn list_stores(disk: &dyn Disk) -> Result<StoresListed> {
    let entries = match disk.list(STORES_DIR) {
        Err(error) if error.is_not_found() => Vec::new(),
        other => other?,
    };
    let mut listed = StoresListed::default();
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let stem = entry.name.trim_end_matches(&arioso_disk::temporary(""));
        let hex = stem.get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let span = hex.filter(|span| {
            let path = format!("{STORES_DIR}/{stem}");
            path == span_path(*span) || stem.ends_with(".sto") && stem.as_bytes().get(16) == Some(&b'-')
        });
        if let Some(span) = span
            && entry.name.ends_with(".span")
        {
            listed.spans.push(span);
        }
        listed.files.push((format!("{STORES_DIR}/{}", entry.name), span));
    }
    listed.spans.sort_unstable();
    Ok(listed)
}

/// The spans in charge when no copy of the manifest is left: those whose segments are not there. Of spans that overlap the
/// one that was merged more often counts.
pub fn spans_without_manifest(disk: &dyn Disk, stream: u128, lowest_segment: Option<u64>) -> Result<Vec<SpanInfo>> {
    let mut found: Vec<SpanInfo> = Vec::new();
    for span in list_stores(disk)?.spans {
        match SpanFile::open(disk, stream, span) {
            Ok(file) => found.push(*file.info()),
            Err(Error::Disk(error)) if !matches!(error, arioso_disk::Error::Short { .. }) => return Err(error.into()),
            Err(_) => {}
        }
    }
    found.retain(|info| lowest_segment.is_none_or(|lowest| info.last_segment < lowest));
    found.sort_by_key(|info| (std::cmp::Reverse(info.tier), info.span));
    let mut kept: Vec<SpanInfo> = Vec::new();
    for info in found {
        let apart =
            |other: &SpanInfo| info.last_segment < other.first_segment || info.first_segment > other.last_segment;
        if kept.iter().all(apart) {
            kept.push(info);
        }
    }
    kept.sort_by_key(|info| info.first_segment);
    Ok(kept)
}
