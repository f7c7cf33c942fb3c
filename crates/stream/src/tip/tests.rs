//! The tip against a plain list of what was appended, and under real threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::record::{Records, push_record};

/// Topics of a partition in these tests.
const TOPICS_PER_PARTITION: u32 = 8;

fn partition_of(topic: u32) -> PartitionId {
    PartitionId(topic / TOPICS_PER_PARTITION)
}

/// A selection by a list of topics, by a rule, or of everything.
#[derive(Clone, Debug)]
enum Wanted {
    Everything,
    Topics(Vec<u32>),
    Partitions(Vec<u32>),
    EveryNth(u32),
}

#[derive(Clone, Debug)]
struct TestSelector {
    wanted: Wanted,
    /// Partitions that are known.
    known: u32,
}

impl TestSelector {
    fn wants(&self, topic: u32) -> bool {
        match &self.wanted {
            Wanted::Everything => true,
            Wanted::Topics(topics) => topics.contains(&topic),
            Wanted::Partitions(partitions) => partitions.contains(&partition_of(topic).0),
            Wanted::EveryNth(n) => topic.is_multiple_of(*n),
        }
    }
}

impl Selector for TestSelector {
    fn selects(&mut self, topic: u32) -> bool {
        assert_ne!(topic, CONTROL_TOPIC, "a control record is nobody's");
        self.wants(topic)
    }

    fn everything(&self) -> bool {
        matches!(self.wanted, Wanted::Everything)
    }

    fn partitions(&mut self, from_count: u32, out: &mut Vec<PartitionId>) -> u32 {
        for partition in from_count..self.known {
            let mut topics = partition * TOPICS_PER_PARTITION..(partition + 1) * TOPICS_PER_PARTITION;
            if topics.any(|topic| self.wants(topic)) {
                out.push(PartitionId(partition));
            }
        }
        self.known.max(from_count)
    }

    fn exact_topics(&self) -> Option<&[u32]> {
        match &self.wanted {
            Wanted::Topics(topics) => Some(topics),
            _ => None,
        }
    }
}

/// One message as the model keeps it.
#[derive(Clone)]
struct Kept {
    sequence: u64,
    topic: u32,
    bytes: Vec<u8>,
}

fn record(sequence: u64, topic: u32, payload_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let payload: Vec<u8> = (0..payload_bytes).map(|at| (sequence as usize + at) as u8).collect();
    push_record(&mut bytes, topic, 0, &[], &payload);
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes
}

/// A step of a random run.
#[derive(Clone, Debug)]
enum Step {
    /// A batch: per record topic, payload bytes, numbers skipped before it.
    Append(Vec<(u32, usize, u64)>),
    /// Settles a share of what is open; one of `holes` batches stays open in the middle.
    Settle { share: u8, holes: u8, void: bool },
    /// A new subscription, from a share of the stream.
    Subscribe(Wanted, u8, Way),
    /// One read of one cursor.
    Read { cursor: u8, budget: usize },
    /// A cursor is told that nothing is selected up to where nothing is.
    Advance { cursor: u8 },
    /// Older records come in front.
    Prepend(u8),
}

fn wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![
        Just(Wanted::Everything),
        prop::collection::vec(1..64u32, 1..6).prop_map(Wanted::Topics),
        prop::collection::vec(0..8u32, 1..4).prop_map(Wanted::Partitions),
        (1..9u32).prop_map(Wanted::EveryNth),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![3 => Just(Way::Index), 1 => Just(Way::Chosen), 1 => Just(Way::Scan)]
}

fn topic() -> impl Strategy<Value = u32> {
    // One topic is hot, the bus's own records come in between.
    prop_oneof![6 => 1..64u32, 3 => Just(9u32), 1 => Just(CONTROL_TOPIC)]
}

fn step() -> impl Strategy<Value = Step> {
    let message = (topic(), 0..120usize, prop_oneof![4 => Just(0u64), 1 => 1..50u64]);
    prop_oneof![
        5 => prop::collection::vec(message, 1..24).prop_map(Step::Append),
        3 => (any::<u8>(), 0..3u8, prop::bool::weighted(0.3))
            .prop_map(|(share, holes, void)| Step::Settle { share, holes, void }),
        1 => (wanted(), any::<u8>(), way())
            .prop_map(|(wanted, from, way)| Step::Subscribe(wanted, from, way)),
        5 => (any::<u8>(), prop_oneof![1..400usize, Just(1 << 20)])
            .prop_map(|(cursor, budget)| Step::Read { cursor, budget }),
        1 => any::<u8>().prop_map(|cursor| Step::Advance { cursor }),
        1 => (5..40u8).prop_map(Step::Prepend),
    ]
}

/// The tip beside a plain list.
struct Run {
    writer: TipWriter,
    shared: Arc<TipShared>,
    kept: Vec<Kept>,
    next: u64,
    /// First sequence of each batch that is not settled, and its last.
    open: Vec<(u64, u64)>,
    /// Sequences of batches appended since the last `set_visible`.
    fresh: Vec<(u64, u64)>,
    visible_to: u64,
    settled_to: u64,
    voids: BTreeSet<u64>,
    oldest: u64,
    cursors: Vec<(TipCursor, TestSelector)>,
    selected: usize,
}

impl Run {
    fn new(config: TipConfig) -> Run {
        let next = config.next.0;
        let (writer, shared) = TipWriter::new(config);
        Run {
            writer,
            shared,
            kept: Vec::new(),
            next,
            open: Vec::new(),
            fresh: Vec::new(),
            visible_to: next - 1,
            settled_to: next - 1,
            voids: BTreeSet::new(),
            oldest: next,
            cursors: Vec::new(),
            selected: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(messages) => self.append(&messages),
            Step::Settle { share, holes, void } => self.settle(share, holes, void),
            Step::Subscribe(wanted, share, way) => self.subscribe(wanted, share, way),
            Step::Read { cursor, budget } => {
                if let Some(at) = self.pick(cursor) {
                    self.read(at, budget);
                }
            }
            Step::Advance { cursor } => self.advance(cursor),
            Step::Prepend(count) => self.prepend(u64::from(count)),
        }
    }

    fn pick(&self, cursor: u8) -> Option<usize> {
        (cursor as usize).checked_rem(self.cursors.len())
    }

    fn append(&mut self, messages: &[(u32, usize, u64)]) {
        let mut batch = BytesMut::new();
        let first = self.next + messages[0].2;
        for (topic, payload_bytes, skip) in messages {
            let sequence = self.next + skip;
            let bytes = record(sequence, *topic, *payload_bytes);
            batch.extend_from_slice(&bytes);
            self.kept.push(Kept { sequence, topic: *topic, bytes });
            self.next = sequence + 1;
        }
        self.fresh.push((first, self.next - 1));
        self.writer.append(batch.freeze(), &mut partition_of);
    }

    fn settle(&mut self, share: u8, holes: u8, void: bool) {
        self.open.append(&mut self.fresh);
        let mut settled = self.open.len() * (share as usize + 1) / 256;
        let mut voids = Vec::new();
        if void && settled > 0 {
            let (first, last) = self.open[settled / 2];
            let to = first + (last - first) / 2;
            voids.push((Sequence(first), Sequence(to)));
            self.voids.extend(first..=to);
        }
        // The oldest ones settle but for the holes, which stay open before settled ones.
        let mut index = 0;
        let holes = holes as usize;
        self.open.retain(|_| {
            index += 1;
            let hole = holes > 0 && index % 3 < holes && index * 2 > settled;
            if settled > 0 && !hole {
                settled -= 1;
                return false;
            }
            true
        });
        self.visible_to = self.next - 1;
        self.settled_to = self.open.first().map_or(self.next, |open| open.0) - 1;
        let open: Vec<OpenRange> = self
            .open
            .iter()
            .map(|(first, last)| OpenRange { first: Sequence(*first), last: Sequence(*last) })
            .collect();
        self.writer.set_visible(Sequence(self.settled_to), &open, &voids);
        assert_eq!(self.shared.settled_to(), Sequence(self.settled_to));
    }

    fn subscribe(&mut self, wanted: Wanted, share: u8, way: Way) {
        let span = self.next + 20 - self.oldest;
        let from = self.oldest + span * u64::from(share) / 256;
        let cursor = TipCursor::new(self.shared.clone(), Sequence(from)).go(way);
        self.cursors.push((cursor, TestSelector { wanted, known: 8 }));
    }

    fn is_open(&self, sequence: u64) -> bool {
        self.open.iter().any(|(first, last)| (*first..=*last).contains(&sequence))
    }

    /// What a reader that stands at `from` may get.
    fn expected(&self, selector: &TestSelector, from: u64) -> Vec<&Kept> {
        let from = self.kept.partition_point(|kept| kept.sequence < from);
        let mut expected = Vec::new();
        for kept in &self.kept[from..] {
            let mine = kept.topic != CONTROL_TOPIC && selector.wants(kept.topic);
            if kept.sequence > self.visible_to {
                break;
            }
            if !mine || self.voids.contains(&kept.sequence) {
                continue;
            }
            if self.is_open(kept.sequence) {
                break;
            }
            expected.push(kept);
        }
        expected
    }

    fn read(&mut self, at: usize, budget: usize) {
        let from = self.cursors[at].0.next().0;
        let (cursor, selector) = &mut self.cursors[at];
        // Every other budget reads copies: the records and the marks are the same.
        let (end, got) = if budget.is_multiple_of(2) {
            let mut slices = Vec::new();
            let end = cursor.read(selector, budget, &mut slices);
            (end, flatten(&slices))
        } else {
            let mut copy = BytesMut::new();
            let (end, records) = cursor.read_into(selector, budget, &mut copy);
            let got = flatten_bytes(&copy);
            assert_eq!(got.len(), records as usize);
            (end, got)
        };
        let next = cursor.next().0;
        assert_eq!(next, end.through.0 + 1);
        let selector = self.cursors[at].1.clone();
        let first_held = self.shared.first_sequence().0;
        if from < first_held {
            assert_eq!(end.state, ReadState::FellOff(Sequence(first_held)));
            assert!(got.is_empty());
            self.cursors.swap_remove(at);
            return;
        }
        let expected = self.expected(&selector, from);
        let bytes: usize = got.iter().map(|(_, _, bytes)| bytes.len()).sum();
        assert!(bytes <= budget || got.len() == 1, "{bytes} bytes over {budget}");
        let numbers: Vec<u64> = got.iter().map(|got| got.0).collect();
        let mut due: Vec<u64> = expected.iter().map(|kept| kept.sequence).collect();
        due.truncate(got.len());
        assert_eq!(numbers, due, "what {selector:?} gets from {from} on");
        for (got, expected) in got.iter().zip(&expected) {
            assert!(got.1 == expected.topic && got.2 == expected.bytes);
        }
        // The mark lies between the last message delivered and the next to be.
        if let Some(last) = got.last() {
            assert!(last.0 < next);
        }
        if let Some(missing) = expected.get(got.len()) {
            assert!(next <= missing.sequence, "{next} passes {}", missing.sequence);
            assert_eq!(end.state, ReadState::More);
            let size = missing.bytes.len();
            assert!(bytes + size > budget, "{size} bytes more would fit beside {bytes} in {budget}");
        } else if end.state == ReadState::AtEnd {
            let mark = self.mark_at_end(&selector, from);
            assert_eq!(next, mark.max(from), "the mark at the end");
        }
        self.selected += got.len();
    }

    /// One above what a reader at the end is through with.
    fn mark_at_end(&self, selector: &TestSelector, from: u64) -> u64 {
        let waits_for = self.kept.iter().find(|kept| {
            kept.sequence >= from
                && kept.sequence <= self.visible_to
                && kept.topic != CONTROL_TOPIC
                && selector.wants(kept.topic)
                && !self.voids.contains(&kept.sequence)
                && self.is_open(kept.sequence)
        });
        waits_for.map_or(self.visible_to + 1, |kept| kept.sequence)
    }

    fn advance(&mut self, cursor: u8) {
        let Some(at) = self.pick(cursor) else {
            return;
        };
        let from = self.cursors[at].0.next().0;
        let selector = self.cursors[at].1.clone();
        if self.expected(&selector, from).is_empty() {
            let mark = self.mark_at_end(&selector, from);
            self.cursors[at].0.advance(Sequence(mark - 1));
            assert_eq!(self.cursors[at].0.next().0, mark.max(from));
        }
    }

    fn prepend(&mut self, count: u64) {
        let first_held = self.shared.first_sequence().0;
        if self.oldest != first_held || self.oldest <= count + 1 {
            return;
        }
        let from = self.oldest - count;
        let messages = (from..self.oldest).filter(|sequence| !sequence.is_multiple_of(5));
        let older: Vec<Kept> = messages
            .map(|sequence| {
                let topic = (sequence * 7 % 64) as u32;
                let bytes = record(sequence, topic, sequence as usize % 40);
                Kept { sequence, topic, bytes }
            })
            .collect();
        let parts: Vec<Bytes> = older
            .chunks(7)
            .map(|part| {
                let bytes: Vec<u8> = part.iter().flat_map(|kept| kept.bytes.clone()).collect();
                bytes.into()
            })
            .collect();
        let void = (from + 3, from + 4);
        let voids = [(Sequence(void.0), Sequence(void.1))];
        if self.writer.prepend(parts, Sequence(from), &voids, &mut partition_of) {
            self.voids.extend(void.0..=void.1);
            self.kept.splice(0..0, older);
            self.oldest = from;
            assert_eq!(self.shared.first_sequence(), Sequence(from));
        }
    }

    /// Everybody reads to the end.
    fn drain(&mut self) {
        for at in (0..self.cursors.len()).rev() {
            let mut reads = 0;
            loop {
                let count = self.cursors.len();
                let from = self.cursors[at].0.next();
                self.read(at, 300);
                reads += 1;
                assert!(reads < 10_000, "a reader gets nowhere");
                if self.cursors.len() < count {
                    break;
                }
                let selector = self.cursors[at].1.clone();
                let next = self.cursors[at].0.next();
                if next == from && self.expected(&selector, next.0).is_empty() {
                    break;
                }
            }
        }
    }

    /// What the tip must hold given its budget.
    fn check_held(&self, config: &TipConfig) {
        let first = self.shared.first_sequence().0;
        let held: usize = self.kept.iter().filter(|kept| kept.sequence >= first).map(|kept| kept.bytes.len()).sum();
        assert_eq!(self.shared.bytes(), held);
        let evictable = self.settled_to + 1 > first;
        assert!(
            held <= config.bytes + config.chunk_bytes.max(4096)
                || !evictable
                || !self.open.is_empty()
                || !self.fresh.is_empty(),
            "{held} bytes held of {}",
            config.bytes
        );
    }
}

/// Every record in the slices: sequence, topic, bytes. Checks what each slice tells about itself.
fn flatten(slices: &[Slice]) -> Vec<(u64, u32, Vec<u8>)> {
    let mut out = Vec::new();
    for slice in slices {
        let records: Vec<_> = Records::new(&slice.bytes).map(Result::unwrap).collect();
        assert_eq!(records.len(), slice.records as usize);
        assert_eq!(records.first().unwrap().sequence(), slice.first);
        assert_eq!(records.last().unwrap().sequence(), slice.last);
        out.extend(flatten_bytes(&slice.bytes));
    }
    out
}

fn flatten_bytes(bytes: &[u8]) -> Vec<(u64, u32, Vec<u8>)> {
    let records = Records::new(bytes).map(Result::unwrap);
    let parts = records.map(|r| (r.sequence().0, r.topic(), r.bytes().to_vec()));
    parts.collect()
}

fn small(pool_bytes_max: usize) -> TipConfig {
    TipConfig {
        bytes: 24 << 10,
        chunk_bytes: 2 << 10,
        pool_bytes_max,
        split_share: 8,
        split_entries_min: 5,
        next: Sequence(1000),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_cursor_delivers_is_what_a_filter_over_the_kept_messages_gives(
        steps in prop::collection::vec(step(), 1..160),
        pool_blocks in prop_oneof![3 => Just(128usize), 1 => 0..6usize],
    ) {
        let config = small(pool_blocks * 8192);
        let mut run = Run::new(config.clone());
        for step in steps {
            run.step(step);
            run.check_held(&config);
        }
        run.drain();
    }
}

#[test]
fn a_trickle_of_single_messages_is_copied_into_few_pieces() {
    let mut run = Run::new(TipConfig { bytes: 1 << 20, chunk_bytes: 256 << 10, ..TipConfig::default() });
    for wanted in [Wanted::Everything, Wanted::Topics(vec![9]), Wanted::EveryNth(2)] {
        run.subscribe(wanted, 0, Way::Chosen);
    }
    for round in 0..12_000u32 {
        run.append(&[(1 + round % 20, 8, 0)]);
        if round % 1000 == 999 {
            run.settle(255, 0, false);
            for at in 0..3 {
                run.read(at, 1 << 30);
            }
        }
    }
    assert_eq!(run.selected, 12_000 + 600 + 6_000);
    let metrics = run.shared.metrics();
    assert_eq!((metrics.chunks, metrics.records), (2, 12_000));
    // A fresh reader of everything gets the sealed chunk in a few slices, not thousands.
    let mut slices = Vec::new();
    let mut cursor = TipCursor::new(run.shared.clone(), Sequence(1));
    let mut all = run.cursors[0].1.clone();
    cursor.read(&mut all, 200 << 10, &mut slices);
    assert!(slices.len() <= 4, "{} slices", slices.len());
}

#[test]
fn a_message_over_the_budget_goes_out_alone() {
    let mut run = Run::new(small(1 << 20));
    run.append(&[(3, 8, 0), (4, 5000, 0), (3, 8, 0)]);
    run.settle(255, 0, false);
    run.subscribe(Wanted::Everything, 0, Way::Chosen);
    for _ in 0..3 {
        let before = run.selected;
        run.read(0, 100);
        assert_eq!(run.selected, before + 1);
    }
}

#[test]
fn a_reader_of_everything_gets_the_chunks_own_bytes_uncopied() {
    let mut run = Run::new(TipConfig::default());
    let messages: Vec<_> = (0..100).map(|at| (1 + at % 5, 40, 0)).collect();
    run.append(&messages);
    run.settle(255, 0, false);
    let mut selector = TestSelector { wanted: Wanted::Everything, known: 8 };
    let mut cursor = TipCursor::new(run.shared.clone(), Sequence(1));
    let (mut once, mut again) = (Vec::new(), Vec::new());
    let end = cursor.read(&mut selector, 1 << 20, &mut once);
    assert_eq!((once.len(), end.tested), (1, 0));
    let mut cursor = TipCursor::new(run.shared.clone(), Sequence(1));
    cursor.read(&mut selector, 1 << 20, &mut again);
    assert_eq!(once[0].bytes.as_ptr(), again[0].bytes.as_ptr());
}

#[test]
fn a_settled_message_passes_an_open_one_that_does_not_match() {
    let mut run = Run::new(TipConfig::default());
    run.append(&[(1, 8, 0)]);
    run.append(&[(2, 8, 0)]);
    run.append(&[(1, 8, 0)]);
    let open = [OpenRange { first: Sequence(2), last: Sequence(2) }];
    run.writer.set_visible(Sequence(1), &open, &[]);
    let read = |wanted: Wanted| {
        let mut cursor = TipCursor::new(run.shared.clone(), Sequence(1));
        let mut slices = Vec::new();
        let end = cursor.read(&mut TestSelector { wanted, known: 8 }, 1 << 20, &mut slices);
        let sequences: Vec<u64> = flatten(&slices).iter().map(|got| got.0).collect();
        (sequences, end.through.0, end.state)
    };
    assert_eq!(read(Wanted::Topics(vec![1])), (vec![1, 3], 3, ReadState::AtEnd));
    assert_eq!(read(Wanted::Topics(vec![2])), (vec![], 1, ReadState::AtEnd));
    assert_eq!(read(Wanted::Everything), (vec![1], 1, ReadState::AtEnd));
    assert_eq!(read(Wanted::Topics(vec![5])), (vec![], 3, ReadState::AtEnd));
    run.writer.set_visible(Sequence(3), &[], &[(Sequence(2), Sequence(2))]);
    let read = |wanted: Wanted| {
        let mut cursor = TipCursor::new(run.shared.clone(), Sequence(1));
        let mut slices = Vec::new();
        cursor.read(&mut TestSelector { wanted, known: 8 }, 1 << 20, &mut slices);
        flatten(&slices).iter().map(|got| got.0).collect::<Vec<u64>>()
    };
    assert_eq!(read(Wanted::Everything), [1, 3], "a void message is nobody's");
}

#[test]
fn readers_on_their_own_threads_see_every_message_once_or_fall_off() {
    let config = TipConfig {
        bytes: 256 << 10,
        chunk_bytes: 16 << 10,
        pool_bytes_max: 256 << 10,
        split_share: 16,
        split_entries_min: 8,
        next: Sequence(1),
    };
    let (mut writer, shared) = TipWriter::new(config);
    const MESSAGES: u64 = 60_000;
    let topic_of = |sequence: u64| 1 + (sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32 % 63;
    let wanteds = [
        (Wanted::Topics(vec![9]), Way::Index),
        (Wanted::Partitions(vec![1, 5]), Way::Index),
        (Wanted::EveryNth(5), Way::Chosen),
        (Wanted::Everything, Way::Chosen),
    ];
    std::thread::scope(|scope| {
        for (wanted, way) in wanteds {
            let shared = shared.clone();
            scope.spawn(move || {
                let mut selector = TestSelector { wanted, known: 8 };
                let mut cursor = TipCursor::new(shared.clone(), Sequence(1)).go(way);
                let mut delivered = 0u64;
                while cursor.next().0 <= MESSAGES {
                    let from = cursor.next().0;
                    let mut slices = Vec::new();
                    let end = cursor.read(&mut selector, 4096, &mut slices);
                    let got: Vec<u64> = flatten(&slices).iter().map(|got| got.0).collect();
                    let expected: Vec<u64> =
                        (from..=end.through.0).filter(|sequence| selector.wants(topic_of(*sequence))).collect();
                    assert_eq!(got, expected);
                    delivered += got.len() as u64;
                    match end.state {
                        ReadState::More => {}
                        ReadState::AtEnd => std::thread::yield_now(),
                        ReadState::FellOff(first) => {
                            assert!(first > cursor.next());
                            cursor = TipCursor::new(shared.clone(), first).go(way);
                        }
                    }
                }
                assert!(delivered > 0);
            });
        }
        let mut sequence = 1;
        while sequence <= MESSAGES {
            let mut batch = BytesMut::new();
            for _ in 0..1 + sequence % 40 {
                if sequence <= MESSAGES {
                    batch.extend_from_slice(&record(sequence, topic_of(sequence), sequence as usize % 60));
                    sequence += 1;
                }
            }
            writer.append(batch.freeze(), &mut partition_of);
            writer.set_visible(Sequence(sequence - 1), &[], &[]);
            if sequence.is_multiple_of(64) {
                std::thread::yield_now();
            }
        }
    });
}
