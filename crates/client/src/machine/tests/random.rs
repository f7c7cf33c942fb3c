//! Random runs against a small honest server: cuts, refusals and delays at any moment, and nothing lost, doubled or out
//! of order in the end.

use std::collections::VecDeque;
use std::time::Duration;

use arioso_stream::{Records, Sequence};
use arioso_wire::*;
use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::world::{deliver, options, reply, welcome};
use crate::machine::{Connection, Event, PublisherId, Subscribe, SubscriptionId};
use crate::{Batch, Error, Message, Options};

const CHANNEL: u16 = 1;
/// The history a subscription reads.
const HISTORY: u64 = 40;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Publish(u8),
    /// The server reads this many frames; `busy`: it refuses the first message of the last of them.
    Read {
        frames: u8,
        busy: bool,
    },
    /// This many of the server's frames arrive.
    Arrive(u8),
    Cut,
    Wait(u16),
    /// The server sends this many messages, or a mark.
    Deliver(u8),
    Take,
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u8..5).prop_map(Step::Publish),
        4 => (1u8..4, prop::bool::weighted(0.2)).prop_map(|(frames, busy)| Step::Read { frames, busy }),
        4 => (1u8..4).prop_map(Step::Arrive),
        1 => Just(Step::Cut),
        2 => (0u16..200).prop_map(Step::Wait),
        4 => (0u8..4).prop_map(Step::Deliver),
        2 => Just(Step::Take),
    ]
}

/// The server: what it keeps, and the socket of the day.
struct Server {
    /// Publisher sequence and payload, in order; the sequence is 1,000 more than the place.
    stored: Vec<(u64, Bytes)>,
    /// The last publisher sequence consumed.
    last: u64,
    epoch: u32,
    /// Not yet read.
    inbox: FrameReader,
    /// Not yet arrived.
    outbox: VecDeque<(u16, Frame)>,
    unanswered: u64,
    /// The next message of the history to deliver, and the credit.
    next: Option<u64>,
    credit: i64,
}

struct Run {
    client: Connection,
    now: Duration,
    server: Server,
    named: bool,
    published: u64,
    /// Sequence of each message in turn, or why there is none.
    answers: Vec<crate::Result<u64>>,
    queue: VecDeque<Batch>,
    received: Vec<u64>,
    subscription: Option<SubscriptionId>,
    publisher: Option<PublisherId>,
}

impl Server {
    fn new() -> Server {
        Server {
            stored: Vec::new(),
            last: 0,
            epoch: 0,
            inbox: FrameReader::new(1 << 20),
            outbox: VecDeque::new(),
            unanswered: 0,
            next: None,
            credit: 0,
        }
    }

    fn connected(&mut self, named: bool) {
        self.inbox = FrameReader::new(1 << 20);
        self.outbox.clear();
        self.unanswered = 0;
        self.next = None;
        if !named {
            self.last = 0;
        }
    }

    fn say(&mut self, frame: impl Into<Frame>) {
        self.outbox.push_back((CHANNEL, frame.into()));
    }

    /// Reads one frame; whether there was one.
    fn read(&mut self, busy: bool) -> bool {
        let Some((_, frame)) = self.inbox.next_frame().unwrap() else {
            return false;
        };
        match frame {
            Frame::Hello(_) => self.outbox.push_back((0, welcome().into())),
            Frame::OpenPublisher(open) => {
                assert!(open.next <= self.last + 1, "{} after {}", open.next, self.last);
                self.epoch += 1;
                self.say(PublisherOpened { publisher: 9, epoch: self.epoch, last_consumed: self.last });
            }
            Frame::Publish(publish) => self.publish(&publish, busy),
            Frame::Subscribe(subscribe) => {
                let at = match subscribe.begin {
                    Begin::Sequence(sequence) => sequence.0,
                    _ => 1,
                };
                self.next = Some(at);
                self.credit = subscribe.credit_bytes.cast_signed();
                self.say(Subscribed {
                    starts_at: Sequence(at),
                    newest_settled: Sequence(HISTORY),
                    first_kept: Sequence(1),
                    holder_epoch: 0,
                });
                let topics = List::collect([(5, "a/b")]);
                self.outbox.push_back((0, Names { topics }.into()));
            }
            Frame::Credit(credit) => self.credit += credit.bytes.cast_signed(),
            Frame::Ping(ping) => self.outbox.push_back((0, Pong { value: ping.value }.into())),
            Frame::Topics(_) => {}
            other => panic!("{other:?}"),
        }
        true
    }

    fn publish(&mut self, publish: &Publish, busy: bool) {
        self.unanswered += u64::from(publish.messages);
        assert!(self.unanswered <= 10, "the window is 10");
        let mut replies = Vec::new();
        for (at, record) in Records::new(&publish.records).enumerate() {
            let record = record.unwrap();
            let number = publish.first + at as u64;
            let code = match number {
                n if n <= self.last => Code::Ok,
                n if n > self.last + 1 => Code::Expected,
                _ if busy => Code::Busy,
                _ => {
                    let payload = Bytes::copy_from_slice(record.payload());
                    self.stored.push((number, payload));
                    self.last = number;
                    Code::Ok
                }
            };
            let at = self.stored.iter().rposition(|(stored, _)| *stored == number);
            let sequence = match code {
                Code::Expected => self.last + 1,
                _ => at.map_or(0, |at| 1_000 + at as u64),
            };
            replies.push(reply(number, 1, code, sequence));
        }
        let replies = List::collect(replies);
        self.say(Replies { replies });
    }

    fn deliver(&mut self, count: u64) {
        let Some(next) = self.next else {
            return;
        };
        let through = (next + count).min(HISTORY + 1) - 1;
        let sequences: Vec<u64> = (next..=through).collect();
        if sequences.is_empty() {
            self.say(Safe { through: Sequence(through) });
        } else if self.credit > 0 {
            let frame = deliver(&sequences, through);
            self.credit -= 16 + i64::try_from(frame.records.len()).unwrap();
            self.say(frame);
            self.next = Some(through + 1);
        }
    }
}

impl Run {
    fn new(name: Option<&str>, subscribes: bool) -> Run {
        let options = Options { connect_timeout: Duration::from_secs(1_000), unreachable_after: None, ..options() };
        let mut client = Connection::new(options, 5, Duration::ZERO).unwrap();
        let publisher = name.map(|name| client.open_publisher(name, 0).unwrap());
        let subscription = subscribes.then(|| {
            let wanted = Subscribe { credit_bytes: 300, ..Subscribe::new(["a/**"]) };
            client.subscribe(wanted.from(Begin::Start)).unwrap()
        });
        Run {
            client,
            now: Duration::ZERO,
            server: Server::new(),
            named: name.is_some_and(|name| !name.is_empty()),
            published: 0,
            answers: Vec::new(),
            queue: VecDeque::new(),
            received: Vec::new(),
            subscription,
            publisher,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Publish(count) => (0..count).for_each(|_| self.publish()),
            Step::Read { frames, busy } => {
                for at in 1..=frames {
                    self.server.read(busy && at == frames);
                }
            }
            Step::Arrive(count) => {
                for _ in 0..count {
                    self.arrive();
                }
            }
            Step::Cut => self.client.disconnected(self.now, "cut"),
            Step::Wait(ms) => {
                self.now += Duration::from_millis(ms.into());
                self.client.on_time(self.now);
            }
            Step::Deliver(count) => self.server.deliver(count.into()),
            Step::Take => self.take(),
        }
        self.pump();
    }

    fn publish(&mut self) {
        let Some(publisher) = self.publisher else {
            return;
        };
        let open = self.published - self.answers.len() as u64;
        // Levels and atomic batches make blocks of their own, so that several wait.
        let count = if self.published % 7 == 3 { 2 } else { 1 };
        let payloads: Vec<String> = (0..count).map(|at| (self.published + at).to_string()).collect();
        let messages: Vec<(&str, Message<'_>)> = payloads
            .iter()
            .map(|payload| {
                let mut message = Message::new(payload.as_bytes());
                if self.published.is_multiple_of(5) {
                    message.level = AckLevel::Sequenced;
                }
                ("a/b", message)
            })
            .collect();
        let done = match count {
            1 => self.client.publish(publisher, "a/b", &messages[0].1),
            _ => self.client.publish_atomic(publisher, &messages),
        };
        match done {
            Ok(()) => {
                assert!(open + count <= 10, "the window is 10, {open} are open");
                self.published += count;
            }
            Err(Error::Busy { messages, .. }) => assert!(messages == open && open + count > 10),
            Err(other) => panic!("{other}"),
        }
    }

    fn arrive(&mut self) {
        let Some((channel, frame)) = self.server.outbox.pop_front() else {
            return;
        };
        if let Frame::Replies(replies) = &frame {
            self.server.unanswered -= replies.replies.len() as u64;
        }
        let mut bytes = BytesMut::new();
        frame.encode(channel, &mut bytes);
        self.client.receive(self.now, &bytes);
    }

    fn take(&mut self) {
        let Some(subscription) = self.subscription else {
            return;
        };
        if let Some(batch) = self.queue.pop_front() {
            self.client.consumed(subscription, &batch);
            for message in batch.messages() {
                self.received.push(message.unwrap().sequence().0);
            }
        }
    }

    fn pump(&mut self) {
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Dial => {
                    self.client.connected(self.now);
                    self.server.connected(self.named);
                }
                Event::Answered { messages, outcome, .. } => {
                    for at in 0..u64::from(messages) {
                        let sequence = outcome.clone().map(|ack| ack.sequence.0 + at);
                        self.answers.push(sequence);
                    }
                }
                Event::Delivered { batch, .. } => self.queue.push_back(batch),
                Event::Drop { .. } => {}
                Event::Over(error) => panic!("{error}"),
                _ => {}
            }
        }
        while let Some(bytes) = self.client.poll_transmit(self.now) {
            self.server.inbox.feed(&bytes);
        }
    }

    /// Nothing goes wrong any more, until nothing happens any more.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.step(Step::Wait(100));
            while self.server.read(false) {}
            self.step(Step::Deliver(2));
            while !self.server.outbox.is_empty() {
                self.arrive();
                self.pump();
            }
            while !self.queue.is_empty() {
                self.step(Step::Take);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_named_publisher_stores_each_message_once_and_in_order_whatever_happens(
        steps in vec(some_step(), 1..120),
    ) {
        let mut run = Run::new(Some("orders"), false);
        run.pump();
        steps.into_iter().for_each(|step| run.step(step));
        run.settle();
        let stored: Vec<String> = run.server.stored.iter()
            .map(|(_, payload)| String::from_utf8(payload.to_vec()).unwrap())
            .collect();
        let published: Vec<String> = (0..run.published).map(|at| at.to_string()).collect();
        prop_assert_eq!(stored, published);
        let sequences: Vec<_> = (0..run.published).map(|at| Ok(1_000 + at)).collect();
        prop_assert_eq!(run.answers, sequences);
    }

    #[test]
    fn an_anonymous_publisher_stores_nothing_twice_and_loses_only_what_it_calls_unknown(
        steps in vec(some_step(), 1..120),
    ) {
        let mut run = Run::new(Some(""), false);
        run.pump();
        steps.into_iter().for_each(|step| run.step(step));
        run.settle();
        let stored: Vec<u64> = run.server.stored.iter()
            .map(|(_, payload)| std::str::from_utf8(payload).unwrap().parse().unwrap())
            .collect();
        prop_assert!(stored.is_sorted_by(|a, b| a < b), "{stored:?}");
        prop_assert_eq!(run.answers.len() as u64, run.published);
        for (at, answer) in run.answers.iter().enumerate() {
            let place = stored.iter().position(|stored| *stored == at as u64);
            match answer {
                Ok(sequence) => prop_assert_eq!(place, Some(*sequence as usize - 1_000)),
                Err(error) => prop_assert_eq!(error, &Error::Unknown),
            }
        }
    }

    #[test]
    fn a_subscription_delivers_each_message_once_and_in_order_whatever_happens(
        steps in vec(some_step(), 1..120),
    ) {
        let mut run = Run::new(None, true);
        run.pump();
        for step in steps {
            run.step(step);
            let queued: u64 = run.queue.iter().map(|batch| batch.body_bytes).sum();
            // The credit, and one delivery that began while there was some.
            prop_assert!(queued < 300 + 16 + 3 * 40, "{queued}");
        }
        run.settle();
        prop_assert_eq!(run.received, (1..=HISTORY).collect::<Vec<_>>());
    }
}
