//! The checkpoint's base: topics, publishers, cursors and voids as of the end of one segment (docs/format.md
//! section 6). It is the merge of the base before and the footers since, made from files alone.

use std::sync::Arc;

use arioso_disk::{Access, Disk, File};
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::batch::PAGE_BYTES;
use crate::cursors::Cursors;
use crate::directory::{DirectoryReader, Entries, merge};
use crate::head::{self, BadPart, Head};
use crate::manifest::Manifest;
use crate::publishers::Publishers;
use crate::segment::header::expect;
use crate::segment::seal::PartsWriter;
use crate::segment::trailer::FixedPlace;
use crate::segment::{PartPlace, SegmentHeader, Trailer, segment_path};
use crate::stores::SpanFile;
use crate::voids::Voids;
use crate::{Error, Result, part};

/// The directory of bases.
pub const CHECKPOINT_DIR: &str = "checkpoint";
const MAGIC: [u8; 8] = *b"ARIOBAS1";

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    head: Head,
    stream: U128,
    segment: U64,
    directory: FixedPlace,
    publishers: FixedPlace,
    cursors: FixedPlace,
    next_topic: U32,
    next_publisher: U32,
    voids: FixedPlace,
}

const _: () = assert!(size_of::<Fixed>() == 112);

/// The path of the base as of the end of a segment.
pub fn base_path(segment: u64) -> String {
    format!("{CHECKPOINT_DIR}/{segment:016x}.base")
}

/// The segments of which there are bases, ascending, and the names of what was being written.
pub fn list_bases(disk: &dyn Disk) -> Result<(Vec<u64>, Vec<String>)> {
    let entries = match disk.list(CHECKPOINT_DIR) {
        Err(error) if error.is_not_found() => Vec::new(),
        other => other?,
    };
    let mut bases = Vec::new();
    let mut temporary = Vec::new();
    for entry in entries {
        if entry.name.ends_with(&arioso_disk::temporary("")) {
            temporary.push(format!("{CHECKPOINT_DIR}/{}", entry.name));
        } else if let Some(hex) = entry.name.strip_suffix(".base")
            && let Ok(segment) = u64::from_str_radix(hex, 16)
        {
            bases.push(segment);
        }
    }
    bases.sort_unstable();
    Ok((bases, temporary))
}

/// Topics, publishers, cursors and voids of one base or one footer: what a base is merged from.
#[derive(Debug)]
pub struct Described {
    /// The segment up to which, or of which, it tells.
    pub segment: u64,
    /// The topics.
    pub directory: DirectoryReader,
    /// The publishers.
    pub publishers: Publishers,
    /// The cursors.
    pub cursors: Cursors,
    /// The voids.
    pub voids: Voids,
    /// The next topic id.
    pub next_topic: u32,
    /// The next publisher id.
    pub next_publisher: u32,
}

struct Parts {
    directory: PartPlace,
    publishers: PartPlace,
    cursors: PartPlace,
    voids: PartPlace,
}

impl Described {
    /// Opens a base and tests all of it.
    pub fn base(disk: &dyn Disk, stream: u128, segment: u64, window_messages: u32) -> Result<Described> {
        let path = base_path(segment);
        let file = disk.open(&path, Access::Read)?;
        let wrong = |bad| Error::part(&path, 0, bad);
        let page = head::read_page(&*file, 0)?.map_err(wrong)?;
        head::check(&page, MAGIC).map_err(wrong)?;
        let fixed: &Fixed = head::fixed(&page).map_err(wrong)?;
        expect("stream id", stream, fixed.stream.get()).map_err(wrong)?;
        expect("segment number", u128::from(segment), u128::from(fixed.segment.get())).map_err(wrong)?;
        let parts = Parts {
            directory: fixed.directory.into(),
            publishers: fixed.publishers.into(),
            cursors: fixed.cursors.into(),
            voids: fixed.voids.into(),
        };
        let next = (fixed.next_topic.get(), fixed.next_publisher.get());
        Described::open(file, segment, &parts, next, window_messages)
    }

    /// Opens the footer of a sealed segment and tests all of it.
    pub fn footer(file: Arc<dyn File>, trailer: &Trailer, window_messages: u32) -> Result<Described> {
        let parts = Parts {
            directory: trailer.directory,
            publishers: trailer.publishers,
            cursors: trailer.cursors,
            voids: trailer.voids,
        };
        let next = (trailer.next_topic, trailer.next_publisher);
        Described::open(file, trailer.segment, &parts, next, window_messages)
    }

    /// Opens the footer of a sealed segment by its number.
    pub fn footer_of(disk: &dyn Disk, stream: u128, segment: u64, window_messages: u32) -> Result<Described> {
        let path = segment_path(segment);
        let file = disk.open(&path, Access::Read)?;
        let header = SegmentHeader::load(&*file, stream, segment)?.map_err(|bad| Error::part(&path, 0, bad))?;
        let trailer = Trailer::load(&*file, &header)?.map_err(|bad| Error::part(&path, 0, bad))?;
        Described::footer(file, &trailer, window_messages)
    }

    fn open(
        file: Arc<dyn File>,
        segment: u64,
        parts: &Parts,
        (next_topic, next_publisher): (u32, u32),
        window_messages: u32,
    ) -> Result<Described> {
        let publishers = read_part(&*file, parts.publishers, |bytes| Publishers::read(bytes, window_messages))?;
        let cursors = read_part(&*file, parts.cursors, Cursors::read)?;
        let voids = read_part(&*file, parts.voids, Voids::read)?;
        let end = parts.directory.offset.checked_add(parts.directory.bytes);
        let end = end.ok_or_else(|| Error::part(file.path(), 0, BadPart::Field { field: "directory's place" }))?;
        let directory = DirectoryReader::open(file, parts.directory.offset..end)?;
        test(&directory)?;
        Ok(Described {
            segment,
            directory,
            publishers: publishers.unwrap_or_else(|| Publishers::new(window_messages)),
            cursors: cursors.unwrap_or_default(),
            voids: voids.unwrap_or_default(),
            next_topic,
            next_publisher,
        })
    }
}

fn read_part<T>(
    file: &dyn File,
    place: PartPlace,
    read: impl FnOnce(&[u8]) -> Result<T, BadPart>,
) -> Result<Option<T>> {
    if place.bytes == 0 {
        return Ok(None);
    }
    let bytes = part::load(file, place)?;
    read(&bytes).map(Some).map_err(|bad| Error::part(file.path(), place.offset, bad))
}

/// Reads a directory from front to back and tests its checksums: what is handed on later was good once.
fn test(directory: &DirectoryReader) -> Result<()> {
    directory.verify()
}

/// Merges the newest valid base and the footers behind it up to segment `upto` into a new base.
pub fn write_base(disk: &dyn Disk, stream: u128, upto: u64, window_messages: u32, first_kept: u64) -> Result<()> {
    let sources = sources(disk, stream, upto, window_messages)?;
    if sources.last().is_none_or(|last| last.segment != upto) {
        let bad = BadPart::Other {
            field: "newest segment described",
            want: u128::from(upto),
            got: sources.last().map_or(0, |last| u128::from(last.segment)),
        };
        return Err(Error::part(&base_path(upto), 0, bad));
    }
    let path = base_path(upto);
    let temporary = arioso_disk::temporary(&path);
    disk.create_dir(CHECKPOINT_DIR)?;
    disk.sync_dir("")?;
    let file = create_anew(disk, &temporary)?;
    write(&*file, stream, upto, &sources, window_messages, first_kept)?;
    file.sync_all()?;
    disk.rename(&temporary, &path)?;
    Ok(disk.sync_dir(CHECKPOINT_DIR)?)
}

/// Makes a file in place of one that a crash may have left.
pub fn create_anew(disk: &dyn Disk, path: &str) -> arioso_disk::Result<Arc<dyn File>> {
    match disk.create(path) {
        Err(error) if error.is_taken() => {
            disk.remove(path)?;
            disk.create(path)
        }
        other => other,
    }
}

/// The newest valid base at or before segment `upto`, and every footer behind it up to there that there is.
pub fn sources(disk: &dyn Disk, stream: u128, upto: u64, window_messages: u32) -> Result<Vec<Described>> {
    let (bases, _) = list_bases(disk)?;
    let mut sources = Vec::new();
    for segment in bases.into_iter().rev().filter(|segment| *segment <= upto) {
        match Described::base(disk, stream, segment, window_messages) {
            Ok(base) => {
                sources.push(base);
                break;
            }
            // An older base and more footers tell the same.
            Err(Error::Disk(error)) if !matches!(error, arioso_disk::Error::Short { .. }) => return Err(error.into()),
            Err(_) => {}
        }
    }
    let from = sources.last().map_or(1, |base: &Described| base.segment + 1);
    // Without a base the spans tell of the segments they replaced.
    for span in Manifest::load(disk)?.0.unwrap_or_default().spans.iter().filter(|span| span.last_segment >= from) {
        sources.push(SpanFile::open(disk, stream, span.span)?.described(window_messages)?);
    }
    let from = sources.last().map_or(1, |source: &Described| source.segment + 1);
    let lowest = lowest_segment(disk)?;
    for segment in from.max(lowest)..=upto {
        match Described::footer_of(disk, stream, segment, window_messages) {
            Ok(footer) => sources.push(footer),
            // A missing segment was named at the start; what it held is gone.
            Err(Error::Disk(error)) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sources)
}

fn lowest_segment(disk: &dyn Disk) -> Result<u64> {
    use crate::segment::{JOURNAL_DIR, JournalName};
    let numbers = disk.list(JOURNAL_DIR)?.into_iter().filter_map(|entry| match JournalName::read(&entry.name) {
        JournalName::Segment(number) => Some(number),
        _ => None,
    });
    Ok(numbers.min().unwrap_or(1))
}

fn write(
    file: &dyn File,
    stream: u128,
    upto: u64,
    sources: &[Described],
    window_messages: u32,
    first_kept: u64,
) -> Result<()> {
    let mut publishers = Publishers::new(window_messages);
    let (mut cursors, mut voids) = (Cursors::default(), Voids::default());
    for source in sources {
        publishers.extend(&source.publishers);
        cursors.extend(&source.cursors);
        voids.extend(&source.voids);
    }
    publishers.forget_dropped();
    cursors.forget_dropped();
    voids.trim(first_kept);
    let mut writer = PartsWriter::new(file, PAGE_BYTES as u64);
    let directory = writer.directory(&mut |directory| {
        let mut scans: Vec<_> = sources.iter().map(|source| source.directory.scan(b"")).collect();
        let mut entries: Vec<&mut dyn Entries> = scans.iter_mut().map(|scan| scan as &mut dyn Entries).collect();
        merge(&mut entries, &mut |entry| directory.push(entry))
    })?;
    let fixed = Fixed {
        head: Head::new(MAGIC, 0),
        stream: U128::new(stream),
        segment: U64::new(upto),
        directory: directory.into(),
        publishers: writer.part(&publishers.encode())?.into(),
        cursors: writer.part(&cursors.encode())?.into(),
        next_topic: U32::new(sources.iter().map(|source| source.next_topic).max().unwrap_or(1)),
        next_publisher: U32::new(sources.iter().map(|source| source.next_publisher).max().unwrap_or(1)),
        voids: writer.part(&voids.encode())?.into(),
    };
    writer.finish()?;
    Ok(file.write_at(&head::page(fixed.as_bytes()), 0)?)
}
