//! A small stream for a backend: real batches of one publisher, built by the sequencer that ships.

use arioso_journal::backend::{Damage, Replay, ReplayEnd};
use arioso_journal::local::write_of;
use arioso_journal::{Error, Write};
use arioso_store::batch::{BatchHeader, BatchParts};
use arioso_stream::Sequence;
use arioso_stream::order::{Holder, Order, OrderLimits, Publish, PublisherKey, Resume, Verdict};
use arioso_stream::record::push_record;
use bytes::BytesMut;

/// The sequencer's side.
pub struct Stream {
    order: Order,
    publisher: PublisherKey,
    epoch: u64,
    next: u64,
    /// Everything at or below is told as settled.
    pub settled_to: u64,
}

impl Stream {
    /// Goes on where a replay ended.
    pub fn after(end: &ReplayEnd) -> Stream {
        let resume = Resume {
            next: end.next_sequence,
            reserved_to: Sequence(end.next_sequence.0 + (1 << 22)),
            timestamp: end.timestamp_floor,
            batch: end.newest_batch.map_or(1, |newest| newest.0 + 1),
            publisher: 1,
        };
        let mut order = Order::new(OrderLimits { pending_bytes_max: 1 << 30, ..OrderLimits::default() }, resume);
        let opened = order.open_anonymous(Holder(1)).unwrap();
        let settled_to = end.next_sequence.0 - 1;
        Stream { order, publisher: PublisherKey(opened.id), epoch: end.server_epoch, next: 1, settled_to }
    }

    /// The next sequence.
    pub fn next_sequence(&self) -> Sequence {
        self.order.next_sequence()
    }

    /// A batch of one message.
    pub fn batch(&mut self, payload: &[u8]) -> Write {
        let mut records = BytesMut::new();
        push_record(&mut records, 1, 0, &[], payload);
        let publish = Publish {
            publisher: self.publisher,
            epoch: 1,
            first: self.next,
            messages: 1,
            records: &records,
            topics: None,
            atomic: false,
        };
        let mut verdicts: Vec<Verdict> = Vec::new();
        self.order.publish(self.next.cast_signed(), &publish, &|_| "a/b".into(), &mut verdicts);
        assert!(matches!(verdicts[0].kind, arioso_stream::order::VerdictKind::Stored { .. }), "{verdicts:?}");
        self.next += 1;
        self.take()
    }

    /// A batch of a void record.
    #[cfg(feature = "postgres")]
    pub fn void(&mut self, first: u64, last: u64) -> Write {
        self.order.void(1, &[(Sequence(first), Sequence(last))]);
        self.take()
    }

    /// A batch without records.
    pub fn empty(&mut self) -> Write {
        let batch = self.order.empty_batch(1);
        write_of(&BatchParts::new(batch, 0, self.settled_to, self.epoch))
    }

    fn take(&mut self) -> Write {
        let mut batches = Vec::new();
        self.order.take(&mut batches);
        assert_eq!(batches.len(), 1);
        write_of(&BatchParts::new(batches.remove(0), 0, self.settled_to, self.epoch))
    }
}

/// What a replay shows of batches with records: number, first sequence, records.
#[derive(Default)]
pub struct Seen {
    pub batches: Vec<(u64, u64, Vec<u8>)>,
    pub damage: Vec<Damage>,
}

impl Seen {
    /// Their numbers.
    pub fn numbers(&self) -> Vec<u64> {
        self.batches.iter().map(|batch| batch.0).collect()
    }
}

impl Replay for Seen {
    fn batch(&mut self, header: &[u8], records: &[u8]) -> Result<(), Error> {
        let header = BatchHeader::trusted(header);
        header.verify_records(records).unwrap();
        if !records.is_empty() {
            self.batches.push((header.number(), header.first_sequence(), records.to_vec()));
        }
        Ok(())
    }

    fn damage(&mut self, damage: Damage) -> Result<(), Error> {
        self.damage.push(damage);
        Ok(())
    }
}

/// What a write is to look like in a replay.
pub fn seen(write: &Write) -> (u64, u64, Vec<u8>) {
    (write.number.0, BatchHeader::trusted(&write.header).first_sequence(), write.records.to_vec())
}
