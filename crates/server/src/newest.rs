//! The newest message of every matching topic: which they are, and what is kept of what a reader passes on its way to them.
//!
//! ```text
//!   topic table ──▶ last sequences at or below `end`, ascending ──▶ read in their order, in few passes ──▶ live behind `end`
//! ```
//!
//! Newest is what is settled at or below `end`; a newer one that is on its way is delivered when it is settled, behind `end`.

use arioso_stream::Sequence;
use arioso_stream::filter::FilterSet;
use arioso_stream::record::Records;
use arioso_stream::tip::Slice;
use bytes::{Bytes, BytesMut};

use crate::node::Node;

/// Topics looked up while the engine is locked: a publisher waits no longer than for so many.
const TOPICS_PER_LOOK: usize = 16 << 10;

/// What of the newest messages is still to come.
#[derive(Debug)]
pub struct Newest {
    wanted: Vec<Sequence>,
    at: usize,
    /// Behind this everything is wanted.
    end: Sequence,
}

impl Newest {
    /// As of `end`, which is settled. Costs what matches; 8 bytes a topic are held until they are delivered.
    pub fn find(node: &Node, filters: &FilterSet, end: Sequence) -> Newest {
        let mut topics: Vec<u32> = Vec::new();
        {
            let names = node.names.read();
            for filter in filters {
                names.visit(filter, |id| topics.push(id.0));
            }
        }
        if filters.len() > 1 {
            topics.sort_unstable();
            topics.dedup();
        }
        let mut wanted = Vec::with_capacity(topics.len());
        for some in topics.chunks(TOPICS_PER_LOOK) {
            node.engine.lock().order().newest_settled(some, end, &mut wanted);
        }
        let first_kept = node.history.first_kept();
        wanted.retain(|sequence| *sequence >= first_kept);
        wanted.sort_unstable();
        Newest { wanted, at: 0, end }
    }

    /// The next one, or the first of everything.
    pub fn next(&self) -> Sequence {
        self.wanted.get(self.at).copied().unwrap_or(self.end.next())
    }

    /// Nothing below is wanted any more.
    pub fn skip_to(&mut self, next: Sequence) {
        self.at += self.wanted[self.at..].partition_point(|sequence| *sequence < next);
    }

    /// Leaves of what was read up to `through` only what is wanted.
    pub fn keep(&mut self, slices: &mut Vec<Slice>, through: Sequence) {
        let mut kept = BytesMut::new();
        let mut out = Slice { bytes: Bytes::new(), records: 0, first: Sequence::ZERO, last: Sequence::ZERO };
        for slice in slices.drain(..) {
            for record in Records::new(&slice.bytes) {
                let record = record.expect("a slice is whole records");
                let sequence = record.sequence();
                self.skip_to(sequence);
                if sequence <= self.end && self.next() != sequence {
                    continue;
                }
                if out.records == 0 {
                    out.first = sequence;
                }
                (out.last, out.records) = (sequence, out.records + 1);
                kept.extend_from_slice(record.bytes());
            }
        }
        if out.records > 0 {
            out.bytes = kept.freeze();
            slices.push(out);
        }
        self.skip_to(through.next());
    }

    /// Whether nothing is left but what comes behind.
    pub fn is_done(&self) -> bool {
        self.at == self.wanted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arioso_stream::record::push_record;

    fn slice(sequences: &[u64]) -> Slice {
        let mut bytes = Vec::new();
        for sequence in sequences {
            let at = bytes.len();
            push_record(&mut bytes, 1, 0, &[], b"x");
            bytes[at + 8..at + 16].copy_from_slice(&sequence.to_le_bytes());
        }
        Slice {
            bytes: bytes.into(),
            records: sequences.len() as u32,
            first: Sequence(sequences[0]),
            last: Sequence(*sequences.last().unwrap()),
        }
    }

    #[test]
    fn only_the_newest_are_kept_and_everything_behind_the_end() {
        let wanted = [2, 5, 9].map(Sequence).to_vec();
        let mut newest = Newest { wanted, at: 0, end: Sequence(10) };
        let mut slices = vec![slice(&[1, 2, 3]), slice(&[4])];
        newest.keep(&mut slices, Sequence(4));
        assert_eq!((slices.len(), slices[0].first, slices[0].last), (1, Sequence(2), Sequence(2)));
        assert_eq!((newest.next(), newest.is_done()), (Sequence(5), false));
        let mut slices = vec![slice(&[6, 7, 8])];
        newest.keep(&mut slices, Sequence(8));
        assert!(slices.is_empty(), "5 is gone: it was void or trimmed");
        let mut slices = vec![slice(&[9, 10, 11])];
        newest.keep(&mut slices, Sequence(11));
        assert_eq!((slices[0].records, slices[0].first, slices[0].last), (2, Sequence(9), Sequence(11)));
        assert_eq!((newest.next(), newest.is_done()), (Sequence(11), true));
    }
}
