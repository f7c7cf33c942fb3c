//! Whether a filtered read is complete: what was delivered, added up piece by piece, against what the server's directories tell.
//! Sums of XXH3 of each record make it hard to miss one message or to get another's bytes.

use arioso_stream::{Record, Records, Sequence};
use arioso_wire::SumRow;
use twox_hash::XxHash3_64;

use crate::{Batch, Error, Result};

/// Pieces in one answer; so many may be followed by more.
pub(crate) const SUM_ROWS_MAX: usize = 1_024;

/// What was delivered of a piece.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    messages: u64,
    bytes: u64,
    sum: u64,
}

/// Adds up a filtered read. Made by [`Client::completeness`](crate::Client::completeness) for a stretch of the stream and the
/// filters of a subscription; what lies in no piece (the newest messages do) is not judged.
#[derive(Clone, Debug, Default)]
pub struct Completeness {
    pieces: Vec<(SumRow, Delivered)>,
}

/// How much of a read was proven complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proven {
    /// Pieces of the stream.
    pub pieces: u64,
    /// Messages in them that match.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

impl Completeness {
    /// Adds the next piece.
    pub(crate) fn push(&mut self, row: SumRow) {
        self.pieces.push((row, Delivered::default()));
    }

    /// Adds what was delivered.
    pub fn add(&mut self, batch: &Batch) -> Result<()> {
        for record in Records::new(batch.records()) {
            self.add_record(&record?);
        }
        Ok(())
    }

    fn add_record(&mut self, record: &Record<'_>) {
        let sequence = record.sequence();
        let at = self.pieces.partition_point(|(row, _)| row.last < sequence);
        if let Some((_, delivered)) = self.pieces.get_mut(at).filter(|(row, _)| row.first <= sequence) {
            delivered.messages += 1;
            delivered.bytes += record.bytes().len() as u64;
            delivered.sum = delivered.sum.wrapping_add(XxHash3_64::oneshot(record.bytes()));
        }
    }

    /// Compares every piece up to a sequence through which everything was delivered.
    pub fn check(&self, through: Sequence) -> Result<Proven> {
        let mut proven = Proven::default();
        for (row, got) in self.pieces.iter().filter(|(row, _)| row.last <= through) {
            if (got.messages, got.bytes, got.sum) != (row.messages, row.bytes, row.sum) {
                return Err(Error::Incomplete {
                    first: row.first,
                    last: row.last,
                    messages: got.messages,
                    bytes: got.bytes,
                    messages_told: row.messages,
                    bytes_told: row.bytes,
                });
            }
            proven.pieces += 1;
            proven.messages += row.messages;
            proven.bytes += row.bytes;
        }
        Ok(proven)
    }
}

#[cfg(test)]
mod tests {
    use arioso_stream::record::{Header, push_record};
    use zerocopy::FromBytes;
    use zerocopy::little_endian::U64;

    use super::*;

    fn record(sequence: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_record(&mut bytes, 1, 0, &[], payload);
        Header::mut_from_prefix(&mut bytes).unwrap().0.sequence = U64::new(sequence);
        bytes
    }

    fn told(first: u64, last: u64, records: &[Vec<u8>]) -> SumRow {
        let sum = records.iter().fold(0u64, |sum, record| sum.wrapping_add(XxHash3_64::oneshot(record)));
        let bytes = records.iter().map(|record| record.len() as u64).sum();
        SumRow { first: Sequence(first), last: Sequence(last), messages: records.len() as u64, bytes, sum }
    }

    #[test]
    fn a_read_that_misses_a_message_or_has_other_bytes_is_not_proven() {
        let records = [record(2, b"a"), record(5, b"b"), record(12, b"c"), record(30, b"d")];
        let read = |delivered: &[Vec<u8>]| {
            let mut completeness = Completeness::default();
            completeness.push(told(1, 9, &records[..2]));
            completeness.push(told(10, 19, &records[2..3]));
            completeness.push(told(20, 25, &[]));
            for bytes in delivered {
                completeness.add_record(&Record::read(bytes).unwrap());
            }
            completeness.check(Sequence(40))
        };
        assert_eq!(read(&records).unwrap(), Proven { pieces: 3, messages: 3, bytes: 120 });
        assert!(matches!(read(&records[1..]), Err(Error::Incomplete { messages: 1, messages_told: 2, .. })));
        let other = [records[0].clone(), record(5, b"x"), records[2].clone()];
        assert!(read(&other).unwrap_err().to_string().contains("sums differ"));
        let more = [records[0].clone(), records[1].clone(), records[2].clone(), record(22, b"e")];
        assert!(matches!(read(&more), Err(Error::Incomplete { messages_told: 0, .. })));
    }
}
