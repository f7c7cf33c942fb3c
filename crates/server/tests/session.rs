//! Sessions against a bus on the in-memory journal: frames in, frames out, one thread, no clock.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::sync::Arc;

use arioso_disk::SimDisk;
use arioso_journal::{BatchNumber, Outcome, Room, memory::MemoryBackend};
use arioso_server::assemble::{Found, assemble};
use arioso_server::clock::Now;
use arioso_server::log::Log;
use arioso_server::node::{Identity, Node};
use arioso_server::output::Output;
use arioso_server::session::Session;
use arioso_server::settings::Settings;
use arioso_store::segment::SegmentTable;
use arioso_store::voids::Voids;
use arioso_stream::names::Names;
use arioso_stream::order::{RESERVE_AHEAD, Resume};
use arioso_stream::record::{FLAG_ATOMIC_FIRST, FLAG_ATOMIC_LAST, push_record};
use arioso_stream::tip::{TipConfig, TipWriter};
use arioso_stream::{Records, Sequence};
use arioso_wire::{
    AckLevel, Begin, ClosePublisher, Code, Condition, Credit, Deliver, Frame, FrameReader, Hello, List, MAGIC,
    OpenPublisher, Publish, Request, Rows, Skip, Subscribe, Text, Topics, Unsubscribe,
};
use bytes::{Bytes, BytesMut};

struct Bus {
    node: Arc<Node>,
    log: Log<MemoryBackend>,
    now: Now,
}

struct Peer {
    session: Session,
    out: Output,
    frames: FrameReader,
}

impl Bus {
    fn new() -> Bus {
        Bus::with(Settings::default())
    }

    fn with(settings: Settings) -> Bus {
        let found = Found {
            identity: Identity { stream_id: 7, stream_name: "test".into(), server_epoch: 1 },
            resume: Resume {
                next: Sequence(1),
                reserved_to: Sequence(RESERVE_AHEAD),
                timestamp: 0,
                batch: 1,
                publisher: 1,
            },
            last_batch: 0,
            settled_to: Sequence(0),
            names: Names::new(1_000, 1),
            topics: Vec::new(),
            topic_floor: 1,
            publishers: Vec::new(),
            table: SegmentTable::new(1),
            voids: Voids::default(),
            rows: None,
        };
        let (node, tip) = assemble(settings, Arc::new(SimDisk::new(1)), 1, found).unwrap();
        let log = Log::new(Arc::clone(&node), MemoryBackend::on_demand(1 << 30, 8), tip);
        Bus { node, log, now: Now { wall: 1_000, mono: 0 } }
    }

    fn peer(&self) -> Peer {
        let session = Session::new(Arc::clone(&self.node), self.now.mono);
        let mut peer = Peer { session, out: Output::default(), frames: FrameReader::new(32 << 20) };
        let hello = Hello {
            magic: MAGIC,
            version_min: 1,
            version_max: 1,
            capabilities: 0,
            frame_bytes_max: 32 << 20,
            stream_id: 0,
            client_name: Text::from("test"),
            auth: Default::default(),
        };
        let got = peer.say(self, &[(0, Frame::Hello(hello))]);
        assert!(matches!(got[..], [(0, Frame::Welcome(_))]), "{got:?}");
        peer
    }

    /// Writes what waits; everything written becomes durable.
    fn commit(&mut self) {
        self.write();
        let flying: Vec<BatchNumber> = self.log.backend().flying().collect();
        for number in flying {
            self.log.backend().complete(number, Outcome::Durable);
        }
        self.log.step(self.now.wall, false).unwrap();
    }

    fn write(&mut self) {
        self.log.step(self.now.wall, false).unwrap();
    }
}

impl Peer {
    fn say(&mut self, bus: &Bus, frames: &[(u16, Frame)]) -> Vec<(u16, Frame)> {
        let mut bytes = BytesMut::new();
        for (channel, frame) in frames {
            frame.encode(*channel, &mut bytes);
        }
        self.session.frames().feed(&bytes);
        self.hear(bus)
    }

    fn hear(&mut self, bus: &Bus) -> Vec<(u16, Frame)> {
        loop {
            let wishes = self.session.turn(bus.now, &mut self.out);
            assert!(wishes.reads.is_empty(), "nothing is on disk");
            while !self.out.is_empty() {
                let bytes: Vec<u8> = self.out.front(16).flat_map(|part| part.to_vec()).collect();
                self.frames.feed(&bytes);
                self.out.consume(bytes.len());
            }
            if !wishes.again {
                break;
            }
        }
        std::iter::from_fn(|| self.frames.next_frame().unwrap()).collect()
    }

    fn open(&mut self, bus: &mut Bus, channel: u16, name: &str) -> Vec<(u16, Frame)> {
        let open = OpenPublisher { next: 0, name: Text::from(name) };
        let mut got = self.say(bus, &[(channel, Frame::OpenPublisher(open))]);
        bus.commit();
        got.extend(self.hear(bus));
        got
    }
}

fn topics(names: &[&str]) -> Frame {
    Frame::Topics(Topics { topics: List::collect(names.iter().enumerate().map(|(at, name)| (at as u32 + 1, *name))) })
}

fn publish(first: u64, messages: &[(u32, &str)]) -> Frame {
    let mut records = BytesMut::new();
    for (topic, payload) in messages {
        push_record(&mut records, *topic, 0, &[], payload.as_bytes());
    }
    Frame::Publish(Publish {
        first,
        messages: messages.len() as u32,
        level: AckLevel::Durable,
        atomic: false,
        condition: None,
        records: records.freeze(),
    })
}

fn subscribe(filters: &[&str], begin: Begin, until_end: bool) -> Frame {
    Frame::Subscribe(Subscribe {
        more: false,
        until_end,
        blocks: false,
        lanes: 1,
        begin,
        credit_bytes: 1 << 20,
        stream_id: 0,
        cursor: Text::EMPTY,
        filters: List::collect(filters.iter().copied()),
    })
}

/// What was heard, shortly.
fn shown(frames: &[(u16, Frame)]) -> Vec<String> {
    let one = |(channel, frame): &(u16, Frame)| match frame {
        Frame::Replies(replies) => {
            let rows = replies.replies.iter().map(|r| format!("{}x{} {} {}", r.first, r.messages, r.code, r.sequence));
            format!("{channel} replies {}", rows.collect::<Vec<_>>().join(", "))
        }
        Frame::Deliver(Deliver { through, records, .. }) => {
            let rows = Records::new(records).map(|record| {
                let record = record.unwrap();
                format!("{}:{}", record.sequence(), String::from_utf8_lossy(record.payload()))
            });
            format!("{channel} deliver through {through}: {}", rows.collect::<Vec<_>>().join(" "))
        }
        Frame::Safe(safe) => format!("{channel} safe {}", safe.through),
        Frame::Names(names) => {
            let rows = names.topics.iter().map(|(id, name)| format!("{id}={name}"));
            format!("{channel} names {}", rows.collect::<Vec<_>>().join(" "))
        }
        Frame::Subscribed(_) => format!("{channel} subscribed"),
        Frame::PublisherOpened(opened) => {
            format!("{channel} opened epoch {} last {}", opened.epoch, opened.last_consumed)
        }
        Frame::Ended(ended) => format!("{channel} ended through {} {}", ended.through, ended.code),
        Frame::Error(error) => format!("{channel} error {}: {}", error.code, error.text.as_str()),
        frame => format!("{channel} {}", frame.name()),
    };
    frames.iter().map(one).collect()
}

#[test]
fn a_message_is_answered_after_it_is_durable_and_delivered_to_whom_it_matches() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    assert_eq!(shown(&writer.open(&mut bus, 1, "w")), ["1 opened epoch 1 last 0"]);
    let got =
        reader.say(&bus, &[(1, subscribe(&["a/*"], Begin::Live, false)), (2, subscribe(&["b"], Begin::Live, false))]);
    assert_eq!(shown(&got), ["1 subscribed", "2 subscribed"]);
    let got = writer.say(&bus, &[(0, topics(&["a/x", "c"])), (1, publish(1, &[(1, "one"), (2, "two")]))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    bus.write();
    assert_eq!(shown(&writer.hear(&bus)), Vec::<String>::new());
    assert!(!reader.session.mailbox().is_pending());
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x2 ok 2"]);
    assert!(reader.session.mailbox().is_pending());
    assert_eq!(shown(&reader.hear(&bus)), ["0 names 1=a/x", "1 deliver through 3: 2:one"]);
}

#[test]
fn a_subscription_without_matches_is_told_how_far_it_is_within_a_second() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    reader.say(&bus, &[(1, subscribe(&["b"], Begin::Start, false))]);
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "one"), (1, "two")]))]);
    bus.commit();
    assert!(!reader.session.mailbox().is_pending());
    bus.now.mono += 1_000_000_000;
    assert!(reader.session.deadline() <= bus.now.mono);
    let mut got = reader.hear(&bus);
    bus.now.mono += 1_000_000_000;
    got.extend(reader.hear(&bus));
    assert_eq!(shown(&got), ["1 safe 2"]);
}

#[test]
fn a_retry_on_another_connection_gets_the_original_number_and_the_older_holder_is_refused() {
    let mut bus = Bus::new();
    let (mut old, mut new) = (bus.peer(), bus.peer());
    old.open(&mut bus, 1, "p");
    old.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "one")]))]);
    bus.commit();
    assert_eq!(shown(&old.hear(&bus)), ["1 replies 1x1 ok 2"]);
    assert_eq!(shown(&new.open(&mut bus, 5, "p")), ["5 opened epoch 2 last 1"]);
    let got = new.say(&bus, &[(0, topics(&["a"])), (5, publish(1, &[(1, "one"), (1, "two")]))]);
    assert_eq!(shown(&got), ["5 replies 1x1 ok 2"]);
    bus.commit();
    assert_eq!(shown(&new.hear(&bus)), ["5 replies 2x1 ok 4"]);
    let got = old.say(&bus, &[(1, publish(2, &[(1, "late")]))]);
    assert_eq!(shown(&got), ["1 error fenced: another holder opened this publisher"]);
    assert_eq!(shown(&old.say(&bus, &[(1, publish(3, &[(1, "later")]))])), Vec::<String>::new());
}

#[test]
fn where_another_server_may_take_over_retries_and_refusals_wait_for_a_commit_that_began_later() {
    let mut bus = Bus::new();
    bus.node.engine.lock().prove_answers();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "p");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "one")]))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2"]);
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "one")])), (1, publish(9, &[(1, "nine")]))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    bus.write();
    assert_eq!(shown(&writer.hear(&bus)), Vec::<String>::new());
    // One record proves both; what comes when it is on its way needs another.
    assert_eq!(bus.log.backend().flying().count(), 1);
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "one")]))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    let first = bus.log.backend().flying().next().unwrap();
    bus.log.backend().complete(first, Outcome::Durable);
    bus.write();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2, 9x1 expected 2"]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2"]);
    bus.log.backend().fence(7);
    assert_eq!(shown(&writer.say(&bus, &[(1, publish(1, &[(1, "one")]))])), Vec::<String>::new());
    assert!(bus.log.step(bus.now.wall, false).is_err());
}

#[test]
fn a_bad_record_is_refused_alone_and_consumes_its_number() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    let got = writer
        .say(&bus, &[(0, topics(&["a", "$bus", "b"])), (1, publish(1, &[(1, "x"), (2, "y"), (3, "z"), (9, "q")]))]);
    assert!(shown(&got)[0].starts_with("65535 error bad topic"), "{got:?}");
    bus.commit();
    let got = shown(&writer.hear(&bus));
    assert_eq!(got, ["1 replies 1x1 ok 1, 2x1 bad topic 0, 3x1 ok 2, 4x1 bad topic 0"]);
}

#[test]
fn a_subscription_until_the_end_ends_behind_what_was_acknowledged_when_it_began() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a", "b"])), (1, publish(1, &[(1, "1"), (2, "2"), (1, "3")]))]);
    bus.commit();
    writer.say(&bus, &[(1, publish(4, &[(1, "4")]))]);
    let got =
        reader.say(&bus, &[(1, subscribe(&["a"], Begin::Start, true)), (2, subscribe(&["zz"], Begin::Start, true))]);
    bus.commit();
    let mut got = shown(&got);
    got.extend(shown(&reader.hear(&bus)));
    assert_eq!(
        got,
        [
            "1 subscribed",
            "2 subscribed",
            "0 names 1=a",
            "1 deliver through 3: 1:1 3:3",
            "1 ended through 3 ok",
            "2 ended through 3 ok",
        ]
    );
}

#[test]
fn nothing_but_marks_is_sent_without_credit_and_delivery_goes_on_where_it_stopped() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "1"), (1, "2"), (1, "3")]))]);
    bus.commit();
    let Frame::Subscribe(mut wanted) = subscribe(&["a"], Begin::Start, false) else { panic!() };
    wanted.credit_bytes = 1;
    let got = reader.say(&bus, &[(1, Frame::Subscribe(wanted))]);
    assert_eq!(shown(&got), ["1 subscribed", "0 names 1=a", "1 deliver through 1: 1:1"]);
    // The first went over by 55 bytes: what comes next is owed first.
    let got = reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 55 }))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    let got = reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 56 }))]);
    assert_eq!(shown(&got), ["1 deliver through 2: 2:2"]);
    let got = reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 1_000 }))]);
    assert_eq!(shown(&got), ["1 deliver through 3: 3:3"]);
}

#[test]
fn a_failed_write_voids_what_came_after_it_from_its_publisher_and_nothing_else() {
    let mut bus = Bus::with(Settings { write_reply_ordering_groups: "per-publisher".into(), ..Settings::default() });
    let (mut a, mut b, mut reader) = (bus.peer(), bus.peer(), bus.peer());
    a.open(&mut bus, 1, "a");
    b.open(&mut bus, 1, "b");
    a.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "a1")]))]);
    bus.write();
    a.say(&bus, &[(1, publish(2, &[(1, "a2")]))]);
    b.say(&bus, &[(0, topics(&["b"])), (1, publish(1, &[(1, "b1")]))]);
    bus.write();
    reader.say(&bus, &[(1, subscribe(&["**"], Begin::Start, false))]);
    let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
    assert_eq!(flying.len(), 2);
    bus.log.backend().complete(flying[1], Outcome::Durable);
    bus.log.backend().complete(flying[0], Outcome::Failed);
    bus.write();
    assert_eq!(shown(&b.hear(&bus)), ["1 replies 1x1 ok 5"]);
    assert_eq!(shown(&a.hear(&bus)), Vec::<String>::new(), "failed is answered after the void record is durable");
    bus.commit();
    assert_eq!(shown(&a.hear(&bus)), ["1 replies 1x1 failed 0, 2x1 failed 0"]);
    assert_eq!(shown(&reader.hear(&bus)).last().unwrap(), "1 deliver through 6: 5:b1");
    assert_eq!(shown(&a.open(&mut bus, 1, "a")), ["1 opened epoch 2 last 2"]);
}

#[test]
fn topics_and_status_are_told_as_asked() {
    let mut bus = Bus::new();
    let mut peer = bus.peer();
    peer.open(&mut bus, 1, "");
    peer.say(&bus, &[(0, topics(&["a/x", "b", "a/y"])), (1, publish(1, &[(1, "1"), (2, "22"), (3, "3"), (1, "4")]))]);
    bus.commit();
    peer.hear(&bus);
    let ask = Request::Topics { filter: Text::from("a/**"), after: Text::EMPTY, rows_max: 100 };
    let got = peer.say(&bus, &[(3, Frame::Request(ask)), (4, Frame::Request(Request::Status))]);
    let mut told = Vec::new();
    for (channel, frame) in got {
        let Frame::Answer(answer) = frame else { panic!("{frame:?}") };
        match answer.rows {
            Rows::Topics(rows) => {
                told.extend(
                    rows.iter()
                        .map(|row| format!("{channel} {} {} {} {}", row.topic, row.messages, row.bytes, row.last)),
                );
            }
            Rows::Status(status) => {
                told.push(format!("{channel} next {} settled {}", status.next_sequence, status.settled))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, ["4 next 5 settled 4", "3 a/x 2 80 4", "3 a/y 1 40 3"]);
}

#[test]
fn what_is_beyond_the_window_is_answered_in_its_turn_and_nothing_behind_it_is_taken() {
    let mut bus = Bus::with(Settings { publish_window_messages: 3, ..Settings::default() });
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "w");
    let two = |first| publish(first, &[(1, "x"), (1, "y")]);
    let got = writer.say(&bus, &[(0, topics(&["a"])), (1, two(1)), (1, two(3)), (1, publish(5, &[(1, "z")]))]);
    assert_eq!(shown(&got), Vec::<String>::new(), "the first two are not answered yet");
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x2 ok 2, 3x2 busy 0, 5x1 expected 3"]);
    writer.say(&bus, &[(1, two(3))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 3x2 ok 4"]);
}

#[test]
fn a_retry_of_a_refused_number_is_not_stored_whatever_comes_with_it() {
    let mut bus = Bus::new();
    let (mut old, mut new) = (bus.peer(), bus.peer());
    old.open(&mut bus, 1, "w");
    let three = publish(1, &[(1, "x"), (9, "no topic"), (1, "z")]);
    old.say(&bus, &[(0, topics(&["a"])), (1, three.clone())]);
    bus.commit();
    assert_eq!(shown(&old.hear(&bus)), ["1 replies 1x1 ok 2, 2x1 bad topic 0, 3x1 ok 3"]);
    new.open(&mut bus, 1, "w");
    let got = new.say(&bus, &[(0, topics(&["a"])), (1, three)]);
    assert_eq!(shown(&got), ["1 replies 1x1 ok 2, 2x1 not stored 0, 3x1 ok 3"]);
}

#[test]
fn a_retry_on_a_full_disk_is_answered_with_the_original_number() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "w");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    writer.hear(&bus);
    bus.node.engine.lock().set_room(Room::DiskFull { free: 0, need: 1 });
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "x"), (1, "y")])), (1, publish(3, &[(1, "z")]))]);
    assert_eq!(shown(&got), ["1 replies 1x1 ok 2, 2x1 disk full 0, 3x1 expected 2"]);
}

#[test]
fn a_publisher_opens_again_at_the_first_number_that_is_not_stored_or_at_one_it_asks_again_for() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    let open = |next| (1, Frame::OpenPublisher(OpenPublisher { next, name: Text::from("w") }));
    writer.open(&mut bus, 1, "w");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    bus.write();
    let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
    bus.log.backend().complete(flying[0], Outcome::Failed);
    bus.write();
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 2x1 failed 0"]);
    writer.say(&bus, &[open(2)]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 opened epoch 2 last 1"]);
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 2x1 ok 6"]);
    writer.say(&bus, &[open(1)]);
    bus.commit();
    writer.hear(&bus);
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "x"), (1, "y")]))]);
    assert_eq!(shown(&got), ["1 replies 1x1 ok 2, 2x1 ok 6"]);
}

#[test]
fn a_channel_that_stands_for_another_publisher_gets_no_answers_of_the_one_before() {
    let mut bus = Bus::new();
    let (mut one, mut other) = (bus.peer(), bus.peer());
    one.open(&mut bus, 1, "p");
    one.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    let open = |next| Frame::OpenPublisher(OpenPublisher { next, name: Text::from("p") });
    other.say(&bus, &[(1, open(0))]);
    assert_eq!(shown(&one.hear(&bus)), ["1 error fenced: another holder opened this publisher"]);
    one.say(&bus, &[(1, open(0))]);
    bus.commit();
    assert_eq!(shown(&one.hear(&bus)), ["1 opened epoch 3 last 1"]);
}

#[test]
fn a_skip_is_answered_by_its_number() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "w");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")])), (1, Frame::Skip(Skip { next: 5 }))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2", "1 replies 5x0 ok 0"]);
}

#[test]
fn an_anonymous_publisher_begins_anew_on_its_channel_after_a_void() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.write();
    let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
    bus.log.backend().complete(flying[0], Outcome::Failed);
    bus.write();
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 failed 0"]);
    assert_eq!(shown(&writer.open(&mut bus, 1, "")), ["1 opened epoch 1 last 0"]);
    writer.say(&bus, &[(1, publish(1, &[(1, "x")]))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 3"]);
}

#[test]
fn what_is_void_is_not_delivered_though_its_batch_was_taken_later() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "w");
    reader.say(&bus, &[(1, subscribe(&["**"], Begin::Start, false))]);
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.write();
    // Behind the failed one, and not with the journal yet.
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
    bus.log.backend().complete(flying[0], Outcome::Failed);
    bus.write();
    bus.commit();
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 failed 0, 2x1 failed 0"]);
    let mut got = Vec::new();
    for _ in 0..3 {
        bus.now.mono += 1_000_000_000;
        got.extend(reader.hear(&bus));
    }
    assert_eq!(shown(&got), ["1 safe 1", "1 safe 4"]);
}

#[test]
fn a_condition_is_judged_on_what_is_kept_and_topics_are_counted_so() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.open(&mut bus, 2, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    bus.write();
    let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
    bus.log.backend().complete(flying[0], Outcome::Failed);
    bus.write();
    bus.commit();
    writer.hear(&bus);
    let Frame::Publish(mut conditional) = publish(1, &[(1, "z")]) else { panic!() };
    conditional.condition = Some(Condition { sequence: Sequence(1), filter: Text::from("a") });
    writer.say(&bus, &[(2, Frame::Publish(conditional))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["2 replies 1x1 ok 4"]);
    let ask = Request::Topics { filter: Text::from("a"), after: Text::EMPTY, rows_max: 1 };
    let got = writer.say(&bus, &[(3, Frame::Request(ask))]);
    let [(3, Frame::Answer(answer))] = &got[..] else { panic!("{got:?}") };
    let Rows::Topics(rows) = &answer.rows else { panic!("{answer:?}") };
    let told: Vec<_> = rows.iter().map(|row| (row.messages, row.bytes, row.last)).collect();
    assert_eq!(told, [(2, 80, Sequence(4))]);
}

#[test]
fn batches_wait_while_the_journal_takes_no_more_and_failed_ones_give_their_room_back() {
    let mut bus = Bus::with(Settings { pending_bytes_max: 200, ..Settings::default() });
    bus.log =
        Log::new(Arc::clone(&bus.node), MemoryBackend::on_demand(1 << 30, 1), TipWriter::new(TipConfig::default()).0);
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a", "b"]))]);
    for round in 0..20u64 {
        writer.say(&bus, &[(1, publish(1, &[(1, "x")]))]);
        bus.write();
        let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
        assert_eq!(flying.len(), 1);
        bus.log.backend().complete(flying[0], Outcome::Failed);
        bus.write();
        // The void record waits until there is a slot.
        bus.commit();
        bus.commit();
        assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 failed 0"], "round {round}");
        writer.open(&mut bus, 1, "");
    }
    assert!(!bus.log.has_held());
}

#[test]
fn an_idle_stream_is_told_once_what_is_durable_and_then_left_alone() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    let mut marks = 0;
    for _ in 0..5 {
        marks += u32::from(bus.log.step(bus.now.wall, true).unwrap());
        bus.commit();
    }
    assert_eq!(marks, 1);
}

#[test]
fn a_record_longer_than_the_credit_is_owed_before_another_one_is_sent() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    let messages = [(1, "1"), (1, "2"), (1, "3")];
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &messages))]);
    bus.commit();
    let Frame::Subscribe(mut wanted) = subscribe(&["a"], Begin::Start, false) else { panic!() };
    wanted.credit_bytes = 1;
    let got = reader.say(&bus, &[(1, Frame::Subscribe(wanted))]);
    assert_eq!(shown(&got).last().unwrap(), "1 deliver through 1: 1:1");
    // One record of 40 bytes and the frame's 16: one byte of credit was there.
    assert_eq!(shown(&reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 55 }))])), Vec::<String>::new());
    assert_eq!(shown(&reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 1 }))])), ["1 deliver through 2: 2:2"]);
}

#[test]
fn frames_for_a_channel_that_stands_for_nothing_are_passed_over() {
    let mut bus = Bus::new();
    let mut peer = bus.peer();
    let frames = [
        (7, Frame::Unsubscribe(Unsubscribe {})),
        (7, Frame::ClosePublisher(ClosePublisher {})),
        (7, publish(1, &[(1, "x")])),
        (7, Frame::Skip(Skip { next: 4 })),
        (7, Frame::Credit(Credit { bytes: 5 })),
    ];
    assert_eq!(shown(&peer.say(&bus, &frames)), Vec::<String>::new());
    peer.open(&mut bus, 7, "");
    peer.say(&bus, &[(0, topics(&["a"])), (7, publish(1, &[(1, "x")])), (7, Frame::ClosePublisher(ClosePublisher {}))]);
    bus.commit();
    assert_eq!(shown(&peer.hear(&bus)), ["7 replies 1x1 ok 1", "7 closed"]);
}

#[test]
fn an_atomic_batch_may_be_marked_as_it_will_lie() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    let mut records = BytesMut::new();
    push_record(&mut records, 1, FLAG_ATOMIC_FIRST, &[], b"x");
    push_record(&mut records, 1, FLAG_ATOMIC_LAST, &[], b"y");
    let Frame::Publish(mut batch) = publish(1, &[(1, "x"), (1, "y")]) else { panic!() };
    batch.records = records.freeze();
    let marked = Frame::Publish(batch.clone());
    batch.atomic = true;
    let got = writer.say(&bus, &[(0, topics(&["a"])), (1, marked), (1, Frame::Publish(Publish { first: 3, ..batch }))]);
    assert_eq!(shown(&got), ["1 replies 1x2 bad record 0"]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 3x2 ok 1"]);
}

#[test]
fn a_connection_that_never_says_hello_is_let_go_without_being_looked_after_meanwhile() {
    let mut bus = Bus::new();
    let mut session = Session::new(Arc::clone(&bus.node), 0);
    let mut out = Output::default();
    let heartbeat = bus.node.settings.heartbeat_ms as i64 * 1_000_000;
    assert_eq!(session.deadline(), 3 * heartbeat);
    bus.now.mono = 3 * heartbeat;
    assert!(session.turn(bus.now, &mut out).close);
}

#[test]
fn bytes_that_are_no_frames_end_the_connection_with_a_reason() {
    let bus = Bus::new();
    let mut peer = bus.peer();
    peer.session.frames().feed(&Bytes::from_static(&[0xff; 64]));
    let got = shown(&peer.hear(&bus));
    assert!(got[0].starts_with("0 error frame too large"), "{got:?}");
    assert!(peer.session.turn(bus.now, &mut peer.out).close);
    let _ = Code::Ok;
}
