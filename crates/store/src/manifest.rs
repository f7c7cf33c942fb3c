//! The manifest: the one switch between segments and stores (docs/format.md section 8).

use arioso_disk::Disk;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::head::{self, BadPart, Head};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"ARIOMAN1";
/// The two copies.
pub const MANIFEST_FILES: [&str; 2] = ["manifest.a", "manifest.b"];
/// More spans than a stream can have: a span covers at least one segment, and merging keeps them few.
pub const SPANS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    head: Head,
    generation: U64,
    first_segment: U64,
    first_sequence: U64,
    spans: U32,
    zero: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FixedSpan {
    first_sequence: U64,
    last_sequence: U64,
    last_segment: U64,
    tier: U32,
    stores: U32,
    span: U64,
}

const _: () = assert!(size_of::<Fixed>() == 48 && size_of::<FixedSpan>() == 40);

/// A part of the sequence line that lies in subtree stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first sequence.
    pub first_sequence: u64,
    /// The last.
    pub last_sequence: u64,
    /// The last segment it replaces.
    pub last_segment: u64,
    /// How often it was merged.
    pub tier: u32,
    /// How many stores.
    pub stores: u32,
    /// Its id.
    pub span: u64,
}

/// Which segments and stores are in charge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Of two copies the higher one counts.
    pub generation: u64,
    /// Segments below are not kept.
    pub first_segment: u64,
    /// Sequences below are not kept.
    pub first_sequence: u64,
    /// Spans, ascending.
    pub spans: Vec<Span>,
}

impl Manifest {
    /// The first segment kept, and the first sequence that lies in segments and not in spans.
    pub fn first_in_segments(&self) -> (u64, u64) {
        let behind = self.spans.last().map(|span| span.last_sequence + 1);
        (self.first_segment, behind.unwrap_or(self.first_sequence).max(self.first_sequence))
    }

    /// A copy's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let fixed = Fixed {
            head: Head::new(MAGIC, 0),
            generation: U64::new(self.generation),
            first_segment: U64::new(self.first_segment),
            first_sequence: U64::new(self.first_sequence),
            spans: U32::new(self.spans.len() as u32),
            zero: U32::ZERO,
        };
        let mut bytes = fixed.as_bytes().to_vec();
        for span in &self.spans {
            let span = FixedSpan {
                first_sequence: U64::new(span.first_sequence),
                last_sequence: U64::new(span.last_sequence),
                last_segment: U64::new(span.last_segment),
                tier: U32::new(span.tier),
                stores: U32::new(span.stores),
                span: U64::new(span.span),
            };
            bytes.extend_from_slice(span.as_bytes());
        }
        head::seal(&mut bytes);
        bytes
    }

    /// Reads a copy.
    pub fn read(bytes: &[u8]) -> Result<Manifest, BadPart> {
        head::check(bytes, MAGIC)?;
        let fixed: &Fixed = head::fixed(bytes)?;
        let spans = &bytes[size_of::<Fixed>()..];
        if Some(spans.len()) != (fixed.spans.get() as usize).checked_mul(size_of::<FixedSpan>()) {
            return Err(BadPart::Field { field: "number of spans" });
        }
        let read = |bytes: &[u8]| {
            let span = FixedSpan::ref_from_bytes(bytes).ok()?;
            Some(Span {
                first_sequence: span.first_sequence.get(),
                last_sequence: span.last_sequence.get(),
                last_segment: span.last_segment.get(),
                tier: span.tier.get(),
                stores: span.stores.get(),
                span: span.span.get(),
            })
        };
        Ok(Manifest {
            generation: fixed.generation.get(),
            first_segment: fixed.first_segment.get(),
            first_sequence: fixed.first_sequence.get(),
            spans: spans.chunks_exact(size_of::<FixedSpan>()).filter_map(read).collect(),
        })
    }

    /// The newest valid copy, and what is wrong with the others. Without any, the segments present are in charge.
    pub fn load(disk: &dyn Disk) -> Result<(Option<Manifest>, Vec<Error>)> {
        let (mut newest, mut wrong) = (None::<Manifest>, Vec::new());
        let bytes_max = size_of::<Fixed>() + SPANS_MAX * size_of::<FixedSpan>();
        for file in MANIFEST_FILES {
            let Some(bytes) = head::read_whole(disk, file, bytes_max)? else { continue };
            match Manifest::read(&bytes) {
                Ok(copy) if newest.as_ref().is_none_or(|newest| newest.generation < copy.generation) => {
                    newest = Some(copy);
                }
                Ok(_) => {}
                Err(bad) => wrong.push(Error::part(file, 0, bad)),
            }
        }
        Ok((newest, wrong))
    }

    /// Writes the next generation durably over the older copy.
    pub fn store(&mut self, disk: &dyn Disk) -> Result<()> {
        self.generation += 1;
        let file = MANIFEST_FILES[(self.generation % 2) as usize];
        Ok(arioso_disk::replace(disk, file, &self.encode())?)
    }
}
