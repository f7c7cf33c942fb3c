//! Scenario files: what clients say to a bus, what becomes of its writes and of its machine, and what it answers. They double as
//! documentation; `UPDATE_EXPECT=1` writes what happened into them, and the diff is read.
//!
//! ```text
//! > pub a 1 1 stock=5        peer a publishes on its channel 1 its publisher sequence 1
//! > durable
//!   a 1 replies 1x1 ok 2
//! ```

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use arioso_disk::SimDisk;
use arioso_journal::memory::MemoryBackend;
use arioso_journal::{BatchNumber, Local, Outcome};
use arioso_server::assemble::{Found, assemble};
use arioso_server::clock::Now;
use arioso_server::log::Log;
use arioso_server::node::{Identity, Node};
use arioso_server::opening::{self, Chance};
use arioso_server::output::Output;
use arioso_server::session::Session;
use arioso_server::settings::Settings;
use arioso_stream::names::Names;
use arioso_stream::order::{RESERVE_AHEAD, Resume};
use arioso_stream::record::{FLAG_CONDITIONAL, push_extension, push_record};
use arioso_stream::{Records, Sequence};
use arioso_wire::{
    AckLevel, Begin, Code, Condition, Deliver, Frame, FrameReader, GoOn, Hello, List, MAGIC, OpenPublisher, Publish,
    Request, Subscribe, Text, Topics,
};
use bytes::BytesMut;

enum AnyLog {
    Memory(Box<Log<MemoryBackend>>),
    Local(Box<Log<Local>>, SimDisk),
}

struct Peer {
    session: Session,
    out: Output,
    frames: FrameReader,
    topics: Vec<String>,
}

struct Bus {
    node: Arc<Node>,
    log: AnyLog,
    peers: BTreeMap<String, Peer>,
    now: Now,
}

fn settings() -> Settings {
    Settings {
        data: "scenario".into(),
        tip_bytes: 64 << 10,
        segment_bytes: 256 << 10,
        write_reply_ordering_groups: "per-publisher".into(),
        ..Settings::default()
    }
}

impl Bus {
    fn memory() -> Bus {
        let identity = Identity { stream_id: 7, stream_name: "test".into(), server_epoch: 1 };
        let reserved_to = Sequence(RESERVE_AHEAD);
        let resume = Resume { next: Sequence(1), reserved_to, timestamp: 0, batch: 1, publisher: 1 };
        let found = Found::empty(identity, resume, Names::new(1_000, 1));
        let (node, tip) = assemble(settings(), Arc::new(SimDisk::new(1)), 1, found).unwrap();
        let log = Log::new(Arc::clone(&node), MemoryBackend::on_demand(1 << 30, 8), tip);
        Bus { node, log: AnyLog::Memory(Box::new(log)), peers: BTreeMap::new(), now: Now { wall: 1_000, mono: 0 } }
    }

    fn local(disk: SimDisk) -> Bus {
        let chance = Chance { stream_id: 7, hash_seed: 1, now: 1_000 };
        let opened = opening::open(settings(), Arc::new(disk.clone()), chance).unwrap();
        let mut bus = Bus {
            node: opened.node,
            log: AnyLog::Local(Box::new(opened.log), disk),
            peers: BTreeMap::new(),
            now: Now { wall: 1_000, mono: 0 },
        };
        bus.jobs();
        bus
    }

    /// The jobs behind the journal's back, and how much room there is.
    fn jobs(&mut self) {
        let AnyLog::Local(log, _) = &mut self.log else { return };
        while let Some(job) = log.next_job() {
            let done = job.run();
            log.backend().done(done);
            log.publish_table(true);
        }
        let room = log.room();
        self.node.engine.lock().set_room(room);
    }

    fn peer(&mut self, name: &str) -> &mut Peer {
        if !self.peers.contains_key(name) {
            let session = Session::new(Arc::clone(&self.node), self.now.mono);
            let peer = Peer { session, out: Output::default(), frames: FrameReader::new(32 << 20), topics: Vec::new() };
            self.peers.insert(name.to_owned(), peer);
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
            self.say(name, 0, &Frame::Hello(hello));
            let mut told = String::new();
            self.hear(&mut told);
        }
        self.peers.get_mut(name).unwrap()
    }

    fn say(&mut self, peer: &str, channel: u16, frame: &Frame) {
        let peer = self.peers.get_mut(peer).unwrap();
        let mut bytes = BytesMut::new();
        frame.encode(channel, &mut bytes);
        peer.session.frames().feed(&bytes);
    }

    /// What everybody hears.
    fn hear(&mut self, told: &mut String) {
        for (name, peer) in &mut self.peers {
            loop {
                let wishes = peer.session.turn(self.now, &mut peer.out);
                for read in &wishes.reads {
                    let read_back = self.node.read(&read.request);
                    peer.session.supply(read.ticket, read_back);
                }
                while !peer.out.is_empty() {
                    let bytes: Vec<u8> = peer.out.front(16).flat_map(|part| part.to_vec()).collect();
                    peer.frames.feed(&bytes);
                    peer.out.consume(bytes.len());
                }
                if !wishes.again && wishes.reads.is_empty() {
                    break;
                }
            }
            while let Some((channel, frame)) = peer.frames.next_frame().unwrap() {
                if let Some(line) = shown(&frame) {
                    writeln!(told, "  {name} {channel} {line}").unwrap();
                }
            }
        }
    }

    fn run(&mut self, words: &[&str], told: &mut String) {
        match words {
            ["open", peer, channel, name] => {
                let name = if *name == "-" { "" } else { name };
                self.peer(peer);
                let open = OpenPublisher { next: 0, name: Text::from(name) };
                self.say(peer, channel.parse().unwrap(), &Frame::OpenPublisher(open));
            }
            ["pub", peer, channel, first, rest @ ..] => self.publish(peer, channel, first, rest),
            ["sub", peer, channel, filters, "from", from, rest @ ..] => {
                let begin = match *from {
                    "start" => Begin::Start,
                    "live" => Begin::Live,
                    "last" => Begin::Last,
                    sequence => Begin::Sequence(Sequence(sequence.parse().unwrap())),
                };
                let cursor = if let ["cursor", name] = rest { name } else { "" };
                let subscribe = Subscribe {
                    more: false,
                    until_end: false,
                    blocks: false,
                    lanes: 1,
                    begin,
                    credit_bytes: 1 << 20,
                    stream_id: 0,
                    cursor: Text::from(cursor),
                    filters: List::collect(filters.split(',')),
                };
                self.peer(peer);
                self.say(peer, channel.parse().unwrap(), &Frame::Subscribe(subscribe));
            }
            ["commit", peer, channel, name, epoch, next] => {
                let (name, holder_epoch) = (Text::from(*name), epoch.parse().unwrap());
                let commit = Request::Commit { name, holder_epoch, next: Sequence(next.parse().unwrap()) };
                self.say(peer, channel.parse().unwrap(), &Frame::Request(commit));
            }
            ["go-on", peer, channel, begin] => {
                let go_on = GoOn { begin: Sequence(begin.parse().unwrap()) };
                self.say(peer, channel.parse().unwrap(), &Frame::GoOn(go_on));
            }
            ["write"] => self.write(),
            ["durable"] => self.durable(),
            ["fail"] => self.fail(),
            ["fill", count] => {
                for _ in 0..count.parse::<u64>().unwrap() {
                    self.fill();
                }
            }
            ["retire", below] => {
                let AnyLog::Local(log, _) = &mut self.log else { panic!("nothing is retired in memory") };
                log.backend().retire_below(below.parse().unwrap());
                self.jobs();
                writeln!(told, "  kept from {}", self.node.history.first_kept()).unwrap();
            }
            ["crash"] => self.crash(false, told),
            ["crash", "torn"] => self.crash(true, told),
            other => panic!("{other:?} is no command"),
        }
        let mut heard = String::new();
        self.hear(&mut heard);
        told.push_str(&heard);
    }

    fn publish(&mut self, peer: &str, channel: &str, first: &str, rest: &[&str]) {
        let (mut condition, mut messages, mut atomic) = (None, Vec::new(), false);
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match *word {
                "expect" => {
                    let (filter, sequence) = words.next().unwrap().rsplit_once('=').unwrap();
                    condition = Some((filter, Sequence(sequence.parse().unwrap())));
                }
                "atomic" => atomic = true,
                message => messages.push(message.split_once('=').unwrap()),
            }
        }
        self.peer(peer);
        let mut records = BytesMut::new();
        for (at, (topic, payload)) in messages.iter().enumerate() {
            let id = self.topic(peer, topic);
            let (mut flags, mut extensions) = (0, Vec::new());
            if let Some((_, sequence)) = condition.filter(|_| at == 0) {
                flags = FLAG_CONDITIONAL;
                push_extension(&mut extensions, arioso_stream::record::EXTENSION_CONDITION, &sequence.0.to_le_bytes());
            }
            push_record(&mut records, id, flags, &extensions, payload.as_bytes());
        }
        let publish = Publish {
            first: first.parse().unwrap(),
            messages: messages.len() as u32,
            level: AckLevel::Durable,
            atomic,
            condition: condition.map(|(filter, sequence)| Condition { sequence, filter: Text::from(filter) }),
            records: records.freeze(),
        };
        self.say(peer, channel.parse().unwrap(), &Frame::Publish(publish));
    }

    /// The peer's number for a topic, announced now if it has none.
    fn topic(&mut self, peer: &str, topic: &str) -> u32 {
        let topics = &mut self.peers.get_mut(peer).unwrap().topics;
        if let Some(at) = topics.iter().position(|known| known == topic) {
            return at as u32 + 1;
        }
        topics.push(topic.to_owned());
        let id = topics.len() as u32;
        self.say(peer, 0, &Frame::Topics(Topics { topics: List::collect([(id, topic)]) }));
        id
    }

    /// What waits is on its way; nothing is known of it.
    fn write(&mut self) {
        match &mut self.log {
            AnyLog::Memory(log) => drop(log.step(self.now.wall, false).unwrap()),
            AnyLog::Local(log, _) => drop(log.begin(self.now.wall, false)),
        }
    }

    /// Everything is durable.
    fn durable(&mut self) {
        self.write();
        match &mut self.log {
            AnyLog::Memory(log) => {
                let flying: Vec<BatchNumber> = log.backend().flying().collect();
                flying.into_iter().for_each(|number| log.backend().complete(number, Outcome::Durable));
                log.step(self.now.wall, false).unwrap();
            }
            AnyLog::Local(log, _) => {
                log.finish(self.now.wall).unwrap();
                log.publish_table(false);
            }
        }
        self.jobs();
    }

    /// The oldest write is known never to be durable; its void record is.
    fn fail(&mut self) {
        let AnyLog::Memory(log) = &mut self.log else { panic!("a local write fails with its journal") };
        let first = log.backend().flying().next().unwrap();
        log.backend().complete(first, Outcome::Failed);
        log.step(self.now.wall, false).unwrap();
        self.durable();
        self.durable();
    }

    /// Something to fill segments with.
    fn fill(&mut self) {
        let payload = "x".repeat(20_000);
        let name = "filler";
        if !self.peers.contains_key(name) {
            self.peer(name);
            self.say(name, 1, &Frame::OpenPublisher(OpenPublisher { next: 0, name: Text::EMPTY }));
        }
        let id = self.topic(name, "filler");
        let first = self.peers[name].topics.len() as u64;
        self.peers.get_mut(name).unwrap().topics.push(String::from("(one more)"));
        let mut records = BytesMut::new();
        push_record(&mut records, id, 0, &[], payload.as_bytes());
        let publish = Publish {
            first,
            messages: 1,
            level: AckLevel::Durable,
            atomic: false,
            condition: None,
            records: records.freeze(),
        };
        self.say(name, 1, &Frame::Publish(publish));
        self.hear(&mut String::new());
        self.durable();
        self.hear(&mut String::new());
    }

    /// The machine stops; torn: inside the write of what waits.
    fn crash(&mut self, torn: bool, told: &mut String) {
        let AnyLog::Local(log, disk) = &mut self.log else { panic!("what is in memory does not outlive its machine") };
        if torn {
            disk.crash_at_sync(disk.counts().syncs() + 1);
            log.begin(self.now.wall, false);
            assert!(log.finish(self.now.wall).is_err(), "the machine stops before the sync");
        }
        let left = disk.survivor(3);
        self.peers.clear();
        *self = Bus::local(left);
        let settled = self.node.engine.lock().settled_to();
        let kept: u64 = {
            let (names, engine) = (self.node.names.read(), self.node.engine.lock());
            names.topics_after(None).map(|id| engine.order().topic(id.0).messages).sum()
        };
        assert!(settled > Sequence(0));
        writeln!(told, "  started: {kept} messages").unwrap();
    }
}

/// A frame, shortly; numbers that a start skips are told from the million on.
fn shown(frame: &Frame) -> Option<String> {
    let number = |sequence: Sequence| match sequence.0 {
        low if low < 1_000_000 => low.to_string(),
        high => format!("start+{}", high % RESERVE_AHEAD),
    };
    Some(match frame {
        Frame::Replies(replies) => {
            let row = |r: arioso_wire::Reply| format!("{}x{} {} {}", r.first, r.messages, r.code, number(r.sequence));
            format!("replies {}", replies.replies.iter().map(row).collect::<Vec<_>>().join(", "))
        }
        Frame::Deliver(Deliver { records, .. }) => {
            let row = |record: arioso_stream::Record<'_>| {
                let payload = String::from_utf8_lossy(record.payload()).into_owned();
                format!("{}:{}", number(record.sequence()), if payload.len() > 99 { "…" } else { &payload })
            };
            format!("got {}", Records::new(records).map(|record| row(record.unwrap())).collect::<Vec<_>>().join(" "))
        }
        Frame::Subscribed(subscribed) => match subscribed.holder_epoch {
            0 => format!("subscribed at {}", number(subscribed.starts_at)),
            epoch => format!("subscribed at {} as holder {epoch}", number(subscribed.starts_at)),
        },
        Frame::PublisherOpened(opened) => format!("opened, {} consumed", opened.last_consumed),
        Frame::Trimmed(trimmed) => format!("trimmed: {} wanted, {} is the first", trimmed.wanted, trimmed.first),
        Frame::Ended(ended) => format!("ended {}", ended.code),
        Frame::Error(error) if error.code == Code::Busy => "busy".into(),
        Frame::Error(error) => format!("error {}", error.code),
        Frame::Answer(_) => "done".into(),
        _ => return None,
    })
}

fn play(text: &str) -> String {
    let mut bus = None;
    let mut out = String::new();
    for line in text.lines() {
        let Some(command) = line.strip_prefix("> ") else {
            if !line.starts_with("  ") {
                writeln!(out, "{line}").unwrap();
            }
            continue;
        };
        writeln!(out, "{line}").unwrap();
        let words: Vec<&str> = command.split_whitespace().collect();
        match (&words[..], &mut bus) {
            (["journal", "memory"], bus) => *bus = Some(Bus::memory()),
            (["journal", "local"], bus) => *bus = Some(Bus::local(SimDisk::new(1))),
            (words, Some(bus)) => bus.run(words, &mut out),
            (_, None) => panic!("{command}: a scenario begins with its journal"),
        }
    }
    out
}

#[test]
fn scenarios_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let played = play(&text);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&file, played).unwrap();
        } else {
            assert_eq!(played, text, "{}", file.display());
        }
    }
}
