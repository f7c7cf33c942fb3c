//! What is let go: one rule over the pieces the stream lies in, oldest first. A piece goes as a whole; retention waits for no
//! reader and no cursor, who are told `trimmed`.
//!
//! ```text
//!   pieces (segments, spans of stores)   [1 ─ 90]  [91 ─ 200]  [201 ─ 350]  [351 ─ ...
//!   age: newest message too old             go         go
//!   bytes: over the budget                  go                                          ──▶ everything below 201 goes
//! ```

use arioso_journal::local::Local;
use arioso_stream::Sequence;

use crate::settings::Settings;

/// The smallest budget in segments: those that two checkpoints are apart, the one that is written, the one behind it, and room.
pub const BUDGET_SEGMENTS_MIN: u64 = 8;
/// Segments that a budget must have room for beside those between checkpoints and those that are split.
const BUDGET_SEGMENTS_FIXED: u64 = 5;
/// The smallest budget in segments under which history is split.
const SPLIT_BUDGET_SEGMENTS_MIN: u64 = 64;
/// Age is looked at this often (ns) when nothing happens.
pub const LOOK_EVERY_NS: i64 = 30_000_000_000;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Messages older than this go.
    pub age_ns: Option<i64>,
    /// All files together have at most so many bytes.
    pub bytes_max: Option<u64>,
}

/// A stretch of the stream that is kept or let go as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its last sequence.
    pub last: Sequence,
    /// The timestamp of its newest message.
    pub newest: i64,
    /// Bytes of its files.
    pub bytes: u64,
}

impl Rule {
    /// As set.
    pub fn of(settings: &Settings) -> Rule {
        let age = i64::try_from(settings.retention_age_s).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        Rule {
            age_ns: (age > 0).then_some(age),
            bytes_max: (settings.retention_bytes > 0).then_some(settings.retention_bytes),
        }
    }

    /// Whether anything is ever let go.
    pub fn is_some(&self) -> bool {
        self.age_ns.is_some() || self.bytes_max.is_some()
    }

    /// Below which sequence everything goes. `pieces` are those that may go, oldest first; `others` the bytes of all other
    /// files, and of the next one that will be made.
    pub fn cut(&self, now: i64, pieces: &[Piece], others: u64) -> Option<Sequence> {
        let mut bytes = pieces.iter().fold(others, |sum, piece| sum.saturating_add(piece.bytes));
        let mut cut = None;
        for piece in pieces {
            let too_old = self.age_ns.is_some_and(|age| piece.newest < now.saturating_sub(age));
            let too_much = self.bytes_max.is_some_and(|max| bytes > max);
            if !too_old && !too_much {
                break;
            }
            bytes -= piece.bytes;
            cut = Some(piece.last.next());
        }
        cut
    }
}

/// Sealed segments between two checkpoints: more often than by default if that many would not fit the budget twice, since a
/// segment goes only when the older of two checkpoints covers it.
pub fn checkpoint_segments(settings: &Settings) -> u64 {
    if settings.retention_bytes == 0 {
        return settings.checkpoint_segments;
    }
    let segments = settings.retention_bytes / settings.segment_bytes;
    let fixed = BUDGET_SEGMENTS_FIXED + split_segments(settings);
    (segments.saturating_sub(fixed) / 2).clamp(1, settings.checkpoint_segments)
}

/// Segments split together, 0: none. While they are split they lie on the disk twice: at most an eighth of a budget, and none
/// of a small one.
pub fn split_segments(settings: &Settings) -> u64 {
    match settings.retention_bytes {
        _ if !settings.split => 0,
        0 => settings.split_segments,
        bytes if bytes / settings.segment_bytes < SPLIT_BUDGET_SEGMENTS_MIN => 0,
        bytes => (bytes / settings.segment_bytes / 8).clamp(1, settings.split_segments),
    }
}

/// Segments kept to be written again: they count in a budget, of which they take an eighth at most.
pub fn free_segments(settings: &Settings) -> usize {
    let most = match settings.retention_bytes {
        0 => settings.free_segments_max,
        bytes => settings.free_segments_max.min(bytes / settings.segment_bytes / 8),
    };
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// Asks the journal to let go what the rule says. Gives whether anything is to go.
pub fn retain(rule: &Rule, now: i64, journal: &mut Local) -> bool {
    if !rule.is_some() {
        return false;
    }
    // The last segment is being written.
    let table = journal.table();
    let count = table.iter().len().saturating_sub(1);
    let spans = journal.spans().map(|(info, bytes)| Piece {
        last: Sequence(info.last_sequence),
        newest: info.last_timestamp,
        bytes,
    });
    let segments = table.iter().take(count).map(|info| Piece {
        last: Sequence(info.last_sequence),
        newest: info.last_timestamp,
        bytes: info.file_bytes,
    });
    let pieces: Vec<Piece> = spans.chain(segments).collect();
    let others = journal.other_bytes() + table.last().map_or(0, |info| info.file_bytes);
    let Some(cut) = rule.cut(now, &pieces, others) else { return false };
    journal.retire_below(cut.0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Vec<Piece> {
        let piece = |at: u64| Piece { last: Sequence(at * 100), newest: at as i64 * 10, bytes: 1_000 };
        (1..=4).map(piece).collect()
    }

    #[test]
    fn what_is_too_old_or_too_much_goes_from_the_oldest_on() {
        let age = Rule { age_ns: Some(15), bytes_max: None };
        assert_eq!(age.cut(40, &pieces(), 0), Some(Sequence(201)));
        assert_eq!(age.cut(25, &pieces(), 0), None, "15 ago is not older than 15");
        let bytes = Rule { age_ns: None, bytes_max: Some(3_500) };
        assert_eq!(bytes.cut(0, &pieces(), 0), Some(Sequence(101)));
        assert_eq!(bytes.cut(0, &pieces(), 600), Some(Sequence(201)));
        let both = Rule { age_ns: Some(5), bytes_max: Some(3_500) };
        assert_eq!(both.cut(40, &pieces(), 0), Some(Sequence(301)));
        assert_eq!(Rule { age_ns: None, bytes_max: None }.cut(i64::MAX, &pieces(), u64::MAX), None);
    }

    #[test]
    fn checkpoints_are_written_as_often_as_the_budget_needs() {
        let with = |segments: u64| Settings { retention_bytes: segments * (64 << 20), ..Settings::default() };
        assert_eq!([8, 9, 12, 16, 100].map(|segments| checkpoint_segments(&with(segments))), [1, 2, 3, 5, 8]);
        assert_eq!([8, 64, 1_000].map(|segments| split_segments(&with(segments))), [0, 8, 16]);
        assert_eq!((checkpoint_segments(&Settings::default()), split_segments(&Settings::default())), (8, 16));
        assert_eq!(split_segments(&Settings { split: false, ..with(64) }), 0);
    }
}
