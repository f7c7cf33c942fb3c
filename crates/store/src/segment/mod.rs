//! A segment: a chronological file of the journal (docs/format.md section 4).
//!
//! ```text
//! page 0   header      whose segment it is, where the chain of batches before it ended
//! page 1.. batches     one after another, each at a multiple of the page
//!          footer      (sealed) what lies in it: topics, publishers, cursors, voids, places
//!          trailer     (sealed) the last page: where the parts of the footer lie
//! ```

pub mod header;
pub mod names;
pub mod reader;
pub mod scan;
pub mod seal;
pub mod summary;
pub mod survey;
pub mod table;
pub mod trailer;
pub mod window;

pub use header::{ChainEnd, SegmentHeader, SegmentState};
pub use names::{EarlierNames, TopicNames, WantedNames, lost_name};
pub use reader::{ReadRequest, SLICE_BYTES, SegmentReader, Selector, Slices, Step, Wanted, has_wanted, read_request};
pub use scan::{Chain, KnownEnd, Scan, Scanned, Torn};
pub use seal::{SealInput, Sealed, seal};
pub use summary::{Summary, TopicSum};
pub use survey::{Begun, Survey, survey};
pub use table::{SegmentInfo, SegmentTable};
pub use trailer::{PartPlace, Trailer};
pub use window::Window;

/// The directory of segments.
pub const JOURNAL_DIR: &str = "journal";

/// The path of a segment.
pub fn segment_path(number: u64) -> String {
    format!("{JOURNAL_DIR}/{number:016x}.seg")
}

/// The path of a file kept to be written again, by the last incarnation it had.
pub fn free_path(incarnation: u64) -> String {
    format!("{JOURNAL_DIR}/free-{incarnation:016x}")
}

/// What a name in the journal's directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalName {
    /// A segment, by its number.
    Segment(u64),
    /// A file kept to be written again, by its last incarnation.
    Free(u64),
    /// Something that was being written when the process stopped.
    Temporary,
    /// None of ours.
    Unknown,
}

impl JournalName {
    /// Reads a name.
    pub fn read(name: &str) -> JournalName {
        let hex = |text: &str| {
            let lower = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            (text.len() == 16 && lower).then(|| u64::from_str_radix(text, 16).ok()).flatten()
        };
        if name.ends_with(&arioso_disk::temporary("")) {
            return JournalName::Temporary;
        }
        let segment = name.strip_suffix(".seg").and_then(hex).map(JournalName::Segment);
        let free = || name.strip_prefix("free-").and_then(hex).map(JournalName::Free);
        segment.or_else(free).unwrap_or(JournalName::Unknown)
    }
}

#[cfg(test)]
mod tests;
