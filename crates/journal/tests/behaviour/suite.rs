//! What every backend does. A backend is a row: how it is opened, what it needs besides, how its process stops.

use std::sync::Arc;

use arioso_disk::{Disk, SimDisk};
use arioso_journal::backend::ReplayEnd;
use arioso_journal::local::{Local, LocalOptions, LocalReplay, NewStream, RecoveredTopic};
use arioso_journal::memory::{MemoryBackend, Schedule};
use arioso_journal::{Backend, Completion, Outcome, Room, Write};
use arioso_store::publishers::Publishers;
use arioso_stream::Sequence;
use arioso_stream::order::PublisherState;

use crate::stream::{Seen, Stream, seen};

/// A backend of one kind, through the lives of its processes.
pub trait Kind {
    type Journal: Backend;

    /// Opened for the first time.
    fn first(&mut self) -> Self::Journal;

    /// Opened again after a clean stop, or after its process just ended.
    fn again(&mut self, before: Self::Journal) -> Self::Journal;

    /// What must be done behind the writer's back, and waiting for something to become known.
    fn attend(&mut self, journal: &mut Self::Journal) {
        let _ = journal;
    }
}

pub struct Memory;

impl Kind for Memory {
    type Journal = MemoryBackend;

    fn first(&mut self) -> MemoryBackend {
        let slow = Schedule { slow_percent: 20.0, slow_us: 10..=1_000, unknown_percent: 20.0, ..Schedule::even(5) };
        MemoryBackend::scheduled(1 << 30, 64, slow)
    }

    fn again(&mut self, before: MemoryBackend) -> MemoryBackend {
        before.crash(1)
    }
}

pub struct OnDisk(Option<SimDisk>);

struct Nothing;

impl LocalReplay for Nothing {
    fn cursor(&mut self, _: &[u8]) {}

    fn batch(&mut self, _: &[u8], _: &[u8]) {}

    fn voids(&mut self, _: &Publishers, _: u64, _: Sequence) -> Vec<(u64, u64)> {
        Vec::new()
    }

    fn publisher(&mut self, _: PublisherState) {}

    fn topic(&mut self, _: &RecoveredTopic<'_>) {}
}

impl OnDisk {
    pub fn new() -> OnDisk {
        OnDisk(None)
    }

    fn open(&mut self) -> Local {
        let disk: Arc<dyn Disk> = Arc::new(self.0.get_or_insert_with(|| SimDisk::new(1)).clone());
        let new_stream = Some(NewStream { id: 7, name: "suite".into(), now: 1 });
        let options = LocalOptions { new_stream, segment_bytes: 4 << 20, ..LocalOptions::default() };
        Local::open(disk, &options, &mut Nothing).unwrap().0
    }
}

impl Kind for OnDisk {
    type Journal = Local;

    fn first(&mut self) -> Local {
        self.open()
    }

    fn again(&mut self, before: Local) -> Local {
        drop(before);
        self.open()
    }

    fn attend(&mut self, journal: &mut Local) {
        while let Some(job) = journal.next_job() {
            journal.done(job.run());
        }
    }
}

/// Takes a stream over: what a replay from `from` showed, where it ended, and the stream that goes on behind it.
pub fn take_over<J: Backend>(journal: &mut J, from: u64) -> (Seen, ReplayEnd, Stream) {
    let mut found = Seen::default();
    let end = journal.replay(Sequence(from), &mut found).unwrap();
    let stream = Stream::after(&end);
    (found, end, stream)
}

/// Writes batches, and waits until all are known.
pub fn write<K: Kind>(kind: &mut K, journal: &mut K::Journal, writes: Vec<Write>) -> Vec<Completion> {
    let want = writes.len();
    let mut waiting = writes.into_iter().peekable();
    let mut told = Vec::new();
    let mut known = 0;
    while known < want {
        kind.attend(journal);
        while let Some(write) = waiting.peek() {
            let fits = matches!(journal.room(), Room::Bytes(bytes) if bytes >= write.bytes().next_multiple_of(4096));
            if !fits || journal.slots() == 0 {
                break;
            }
            journal.submit(waiting.next().unwrap());
        }
        let before = told.len();
        journal.advance(&mut told).unwrap();
        known += told[before..].iter().filter(|done| done.outcome != Outcome::Unknown).count();
    }
    told
}

/// All of them durable, each told once.
pub fn assert_durable(told: &[Completion], writes: impl IntoIterator<Item = u64>) {
    let mut known: Vec<u64> =
        told.iter().filter(|done| done.outcome == Outcome::Durable).map(|done| done.number.0).collect();
    known.sort_unstable();
    assert_eq!(known, writes.into_iter().collect::<Vec<_>>());
    assert!(told.iter().all(|done| done.outcome != Outcome::Failed), "{told:?}");
}

pub fn what_was_durable_comes_back_with_its_bytes_and_in_its_order<K: Kind>(mut kind: K) {
    let mut journal = kind.first();
    let (found, _, mut stream) = take_over(&mut journal, 0);
    assert!(found.batches.is_empty());
    let writes: Vec<Write> = (0..60).map(|n: usize| stream.batch(&vec![n as u8; n * 700])).collect();
    let want: Vec<_> = writes.iter().map(seen).collect();
    let told = write(&mut kind, &mut journal, writes);
    assert_durable(&told, want.iter().map(|write| write.0));
    let mut journal = kind.again(journal);
    let (found, _, _) = take_over(&mut journal, 0);
    assert_eq!(found.numbers(), want.iter().map(|write| write.0).collect::<Vec<_>>());
    assert!(found.batches == want);
    assert_eq!(found.damage, []);
}

pub fn a_replay_leaves_out_what_lies_before_its_start<K: Kind>(mut kind: K) {
    let mut journal = kind.first();
    let (_, _, mut stream) = take_over(&mut journal, 0);
    let writes: Vec<Write> = (0..10).map(|n| stream.batch(&[n])).collect();
    let want: Vec<_> = writes[4..].iter().map(seen).collect();
    write(&mut kind, &mut journal, writes);
    let mut journal = kind.again(journal);
    let (found, _, _) = take_over(&mut journal, want[0].1);
    assert!(found.batches == want, "{:?}", found.numbers());
}

pub fn numbers_go_on_where_a_clean_stop_ended_and_above_what_was_reserved_after_another<K: Kind>(mut kind: K) {
    let mut journal = kind.first();
    let (_, first, mut stream) = take_over(&mut journal, 0);
    let writes = (0..3).map(|n| stream.batch(&[n])).collect();
    write(&mut kind, &mut journal, writes);
    let next = stream.next_sequence();
    journal.stop(next, 777).unwrap();
    let mut journal = kind.again(journal);
    let (_, end, mut stream) = take_over(&mut journal, 0);
    assert_eq!(end.next_sequence, next);
    assert!(end.timestamp_floor >= 777, "{end:?}");
    assert!(end.server_epoch > first.server_epoch);
    let writes = vec![stream.batch(b"more")];
    write(&mut kind, &mut journal, writes);
    let given = stream.next_sequence();
    let mut journal = kind.again(journal);
    let (_, unclean, _) = take_over(&mut journal, 0);
    assert!(unclean.next_sequence.0 >= given.0 + (1 << 21), "{unclean:?}");
    assert!(unclean.newest_batch > end.newest_batch);
    assert!(unclean.server_epoch > end.server_epoch);
}

pub fn a_batch_of_some_mebibytes_and_one_without_records_are_kept<K: Kind>(mut kind: K) {
    let mut journal = kind.first();
    let (_, _, mut stream) = take_over(&mut journal, 0);
    let large: Vec<u8> = (0..3 << 20).map(|n: u32| (n % 251) as u8).collect();
    let writes = vec![stream.empty(), stream.batch(&large), stream.empty(), stream.batch(b"small")];
    let (all, want) =
        (writes.iter().map(|write| write.number.0).collect::<Vec<_>>(), vec![seen(&writes[1]), seen(&writes[3])]);
    let told = write(&mut kind, &mut journal, writes);
    assert_durable(&told, all);
    let mut journal = kind.again(journal);
    assert!(take_over(&mut journal, 0).0.batches == want);
}

pub fn the_only_server_is_told_so<K: Kind>(mut kind: K) {
    let mut journal = kind.first();
    let (_, _, mut stream) = take_over(&mut journal, 0);
    let writes = vec![stream.empty()];
    write(&mut kind, &mut journal, writes);
    journal.confirm().unwrap();
}

/// Every behaviour, as tests of one backend.
macro_rules! behaviours {
    ($name:ident, $kind:expr) => {
        mod $name {


            behaviours!(@ $kind,
                what_was_durable_comes_back_with_its_bytes_and_in_its_order,
                a_replay_leaves_out_what_lies_before_its_start,
                numbers_go_on_where_a_clean_stop_ended_and_above_what_was_reserved_after_another,
                a_batch_of_some_mebibytes_and_one_without_records_are_kept,
                the_only_server_is_told_so
            );
        }
    };
    (@ $kind:expr, $($behaviour:ident),*) => {
        $(
            #[test]
            fn $behaviour() {
                let Some(kind) = $kind else { return };
                super::$behaviour(kind);
            }
        )*
    };
}

behaviours!(memory, Some(crate::suite::Memory));
behaviours!(local, Some(crate::suite::OnDisk::new()));
#[cfg(feature = "postgres")]
behaviours!(postgres, crate::database::Database::new());
