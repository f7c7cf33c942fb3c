//! A client, a clock that stands still unless told, and the other end of its socket.

use std::fmt::Write;
use std::time::Duration;

use arioso_stream::record::{FLAG_ATOMIC_FIRST, FLAG_ATOMIC_LAST, push_record};
use arioso_stream::{Records, Sequence};
use arioso_wire::*;
use bytes::BytesMut;
use expect_test::Expect;

use crate::machine::{Connection, Event, PublisherId};
use crate::{Batch, Message, Options};

/// Everything seen, in order: `>` client to server, `<` server to client, `*` events.
pub(super) struct World {
    pub(super) client: Connection,
    pub(super) now: Duration,
    server: FrameReader,
    pub(super) log: String,
    /// What was delivered and not taken yet.
    pub(super) batches: Vec<Batch>,
}

pub(super) fn options() -> Options {
    Options { window_messages: 10, window_bytes: 100_000, ..Options::default() }
}

pub(super) fn welcome() -> Welcome {
    Welcome {
        version: 1,
        capabilities: 0,
        frame_bytes_max: 1 << 20,
        heartbeat_ms: 1_000,
        stream_id: 7,
        server_epoch: 1,
        publish_window_bytes: 1 << 20,
        publish_window_messages: 1_000,
        payload_bytes_max: 1 << 16,
        next_sequence: Sequence(1),
        stream_name: "ship".into(),
    }
}

pub(super) fn reply(first: u64, messages: u32, code: Code, sequence: u64) -> Reply {
    Reply {
        first,
        messages,
        code,
        level: AckLevel::Durable,
        sequence: Sequence(sequence),
        retry_after_ms: if code == Code::Busy { 50 } else { 0 },
    }
}

impl World {
    pub(super) fn with(options: Options) -> World {
        World {
            client: Connection::new(options, 1, Duration::ZERO).unwrap(),
            now: Duration::ZERO,
            server: FrameReader::new(1 << 20),
            log: String::new(),
            batches: Vec::new(),
        }
    }

    pub(super) fn new() -> World {
        World::with(options())
    }

    /// A world whose client is connected, with nothing in the log.
    pub(super) fn up() -> World {
        let mut world = World::new();
        world.connect();
        world.log.clear();
        world
    }

    /// Dials as soon as the client wants to, and welcomes it.
    pub(super) fn connect(&mut self) {
        self.dial();
        self.serve(0, welcome());
    }

    /// Dials as soon as the client wants to, and takes its hello.
    pub(super) fn dial(&mut self) {
        if let Some(at) = self.client.next_deadline() {
            self.now = self.now.max(at);
        }
        self.client.on_time(self.now);
        assert!(matches!(self.client.poll_event(), Some(Event::Dial)));
        self.client.connected(self.now);
        self.server = FrameReader::new(1 << 20);
        self.pump();
    }

    /// The socket breaks.
    pub(super) fn cut(&mut self) {
        writeln!(self.log, "  cut").unwrap();
        self.client.disconnected(self.now, "cut");
        self.pump();
    }

    /// Time passes.
    pub(super) fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.client.on_time(self.now);
        self.pump();
    }

    /// The server says something.
    pub(super) fn serve(&mut self, channel: u16, frame: impl Into<Frame>) {
        let frame = frame.into();
        writeln!(self.log, "< {}", show(channel, &frame)).unwrap();
        let mut bytes = BytesMut::new();
        frame.encode(channel, &mut bytes);
        self.client.receive(self.now, &bytes);
        self.pump();
    }

    pub(super) fn replies(&mut self, channel: u16, replies: &[Reply]) {
        let replies = List::collect(replies.iter().copied());
        self.serve(channel, Replies { replies });
    }

    /// The server delivers messages of topic 5 with these sequences.
    pub(super) fn deliver(&mut self, channel: u16, sequences: &[u64], through: u64) {
        self.serve(channel, deliver(sequences, through));
    }

    /// Logs what the client says and tells.
    pub(super) fn pump(&mut self) {
        while let Some(event) = self.client.poll_event() {
            writeln!(self.log, "* {}", show_event(&event)).unwrap();
            if let Event::Delivered { batch, .. } = event {
                self.batches.push(batch);
            }
        }
        while let Some(bytes) = self.client.poll_transmit(self.now) {
            self.server.feed(&bytes);
        }
        while let Some((channel, frame)) = self.server.next_frame().unwrap() {
            writeln!(self.log, "> {}", show(channel, &frame)).unwrap();
        }
    }

    pub(super) fn publish(&mut self, publisher: PublisherId, payload: &str) {
        let message = Message::new(payload.as_bytes());
        self.client.publish(publisher, "a/b", &message).unwrap();
    }

    pub(super) fn error(&mut self, channel: u16, code: Code) {
        let text = code.text().into();
        let frame = ErrorFrame {
            code,
            retry_after_ms: if code.keeps_number() { 50 } else { 0 },
            detail_a: 0,
            detail_b: 0,
            text,
        };
        self.serve(channel, frame);
    }

    /// Opens a publisher, with the server saying it consumed up to `last`.
    pub(super) fn publisher(&mut self, name: &str, last: u64) -> PublisherId {
        let publisher = self.client.open_publisher(name, 0).unwrap();
        self.pump();
        self.opened(publisher.0, 1, last);
        publisher
    }

    pub(super) fn opened(&mut self, channel: u16, epoch: u32, last_consumed: u64) {
        let publisher = 9;
        let frame = PublisherOpened { publisher, epoch, last_consumed };
        self.serve(channel, frame);
    }

    #[track_caller]
    pub(super) fn check(&self, expect: Expect) {
        expect.assert_eq(&self.log);
    }
}

pub(super) fn deliver(sequences: &[u64], through: u64) -> Deliver {
    let mut records = BytesMut::new();
    for sequence in sequences {
        let at = records.len();
        push_record(&mut records, 5, 0, &[], format!("m{sequence}").as_bytes());
        records[at + 8..at + 16].copy_from_slice(&sequence.to_le_bytes());
    }
    Deliver { through: Sequence(through), count: u32::try_from(sequences.len()).unwrap(), records: records.freeze() }
}

fn show(channel: u16, frame: &Frame) -> String {
    let name = frame.name();
    let rest = match frame {
        Frame::Hello(hello) => format!("stream {}", hello.stream_id),
        Frame::Topics(topics) => format!("{:?}", topics.topics),
        Frame::OpenPublisher(open) => format!("{:?} next {}", &*open.name, open.next),
        Frame::PublisherOpened(opened) => {
            format!("epoch {} last {}", opened.epoch, opened.last_consumed)
        }
        Frame::Publish(publish) => show_publish(publish),
        Frame::Replies(replies) => {
            let row = |reply: Reply| {
                let (first, messages) = (reply.first, reply.messages);
                format!("[{first} x{messages} {} {}]", reply.code, reply.sequence)
            };
            let rows: Vec<String> = replies.replies.iter().map(row).collect();
            rows.join(" ")
        }
        Frame::Subscribe(subscribe) => format!(
            "{:?} from {:?} credit {}{}{}",
            subscribe.filters,
            subscribe.begin,
            subscribe.credit_bytes,
            if subscribe.until_end { " until end" } else { "" },
            if subscribe.more { " more" } else { "" },
        ),
        Frame::MoreFilters(more) => format!("{} more {}", more.filters.len(), more.more),
        Frame::Credit(credit) => format!("{}", credit.bytes),
        Frame::Deliver(deliver) => format!("x{} through {}", deliver.count, deliver.through),
        Frame::Safe(safe) => format!("through {}", safe.through),
        Frame::Trimmed(trimmed) => format!("wanted {} first {}", trimmed.wanted, trimmed.first),
        Frame::GoOn(go_on) => format!("{}", go_on.begin),
        Frame::Ended(ended) => format!("through {} {}", ended.through, ended.code),
        Frame::Error(error) => format!("{}", error.code),
        Frame::Ping(ping) => format!("{}", ping.value),
        Frame::Pong(pong) => format!("{}", pong.value),
        Frame::Request(request) => format!("{request:?}"),
        Frame::Answer(answer) => format!("more {} {:?}", answer.more, answer.rows),
        _ => String::new(),
    };
    format!("{channel} {name} {rest}").trim_end().to_string()
}

fn show_publish(publish: &Publish) -> String {
    let mut text = format!("{}:", publish.first);
    let mut count = 0;
    for record in Records::new(&publish.records) {
        let record = record.unwrap();
        count += 1;
        let payload = std::str::from_utf8(record.payload()).unwrap();
        let shown = if payload.len() > 8 { "long" } else { payload };
        write!(text, " {shown}").unwrap();
        for (flag, sign) in [(FLAG_ATOMIC_FIRST, '('), (FLAG_ATOMIC_LAST, ')')] {
            if record.header().flags.get() & flag != 0 {
                text.push(sign);
            }
        }
        if let Some(newest) = record.condition() {
            write!(text, "?{newest}").unwrap();
        }
    }
    assert_eq!(count, publish.messages);
    if publish.level == AckLevel::Sequenced {
        text.push_str(" sequenced");
    }
    if publish.atomic {
        text.push_str(" atomic");
    }
    if let Some(condition) = &publish.condition {
        write!(text, " if {} is {}", condition.filter, condition.sequence).unwrap();
    }
    text
}

fn show_event(event: &Event) -> String {
    match event {
        Event::Dial => "dial".into(),
        Event::Drop { last_words } => {
            format!("drop{}", if *last_words { " after all" } else { "" })
        }
        Event::Up => "up".into(),
        Event::PublisherOpened { publisher, epoch, .. } => {
            format!("{} opened epoch {epoch}", publisher.0)
        }
        Event::Answered { publisher, messages, outcome } => match outcome {
            Ok(ack) => {
                assert_eq!(ack.messages, *messages);
                format!("{} ok {}..{}", publisher.0, ack.sequence, ack.last)
            }
            Err(error) => format!("{} x{messages} {error}", publisher.0),
        },
        Event::PublisherOver { publisher, error } => format!("{} over: {error}", publisher.0),
        Event::Subscribed { subscription, started } => {
            format!("{} subscribed at {}", subscription.0, started.starts_at)
        }
        Event::Delivered { subscription, batch } => {
            let sequence = |message: crate::Result<crate::Received<'_>>| match message {
                Ok(message) => message.sequence().to_string(),
                Err(error) => format!("({error})"),
            };
            let sequences: Vec<String> = batch.messages().map(sequence).collect();
            format!("{} delivered {}", subscription.0, sequences.join(" "))
        }
        Event::Mark { subscription, through } => format!("{} mark {through}", subscription.0),
        Event::Trimmed { subscription, wanted, first } => {
            format!("{} trimmed: wanted {wanted}, first {first}", subscription.0)
        }
        Event::SubscriptionOver { subscription, outcome } => match outcome {
            Ok(()) => format!("{} ended", subscription.0),
            Err(error) => format!("{} ended: {error}", subscription.0),
        },
        Event::Answer { request, outcome } => match outcome {
            Ok(answers) => format!("{} answered {answers:?}", request.0),
            Err(error) => format!("{} failed: {error}", request.0),
        },
        Event::Over(error) => format!("over: {error}"),
    }
}
