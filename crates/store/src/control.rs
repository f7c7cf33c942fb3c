//! Control records: the bus's own notes in the stream, as far as files need to understand them (docs/format.md
//! section 3.3).

use arioso_stream::Record;

use crate::head::Cut;

/// A control record's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Takes messages back.
    Void(VoidRanges<'a>),
    /// A publisher's new epoch.
    EpochOpened {
        /// The publisher.
        publisher: u32,
        /// The epoch.
        epoch: u32,
        /// The next publisher sequence it will send.
        next: u64,
        /// Its name.
        name: &'a str,
    },
    /// A publisher goes on at another publisher sequence.
    Skip {
        /// The publisher.
        publisher: u32,
        /// Its epoch.
        epoch: u32,
        /// The next publisher sequence it will send.
        next: u64,
    },
    /// A publisher is forgotten.
    PublisherDropped {
        /// The publisher.
        publisher: u32,
    },
    /// A cursor was set, committed or dropped, or a snapshot kept: the engine's business.
    Other {
        /// The kind.
        kind: u16,
    },
}

/// The ranges of a void record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoidRanges<'a>(&'a [u8]);

impl VoidRanges<'_> {
    /// First and last sequence of each.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut cut = Cut(self.0);
        std::iter::from_fn(move || Some((cut.u64()?, cut.u64()?)))
    }
}

impl<'a> Control<'a> {
    /// Reads a control record; `None` if its body is cut.
    pub fn read(record: &Record<'a>) -> Option<Control<'a>> {
        let mut body = Cut(record.payload());
        let (kind, _version, _zero) = (body.u16()?, body.u16()?, body.u32()?);
        Some(match kind {
            1 => {
                let (ranges, _) = (body.u32()? as usize, body.u32()?);
                Control::Void(VoidRanges(body.bytes(ranges.checked_mul(16)?)?))
            }
            2 => {
                let (publisher, epoch, next) = (body.u32()?, body.u32()?, body.u64()?);
                Control::EpochOpened { publisher, epoch, next, name: std::str::from_utf8(body.0).ok()? }
            }
            3 => Control::Skip { publisher: body.u32()?, epoch: body.u32()?, next: body.u64()? },
            4 => Control::PublisherDropped { publisher: body.u32()? },
            kind => Control::Other { kind },
        })
    }
}
