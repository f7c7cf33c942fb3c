//! A bus on the in-memory journal, peers that say frames and hear frames, and what they heard, shortly.

pub use arioso_disk::SimDisk;
pub use arioso_journal::{BatchNumber, Outcome, Room, memory::MemoryBackend};
pub use arioso_server::assemble::{Found, assemble};
pub use arioso_server::clock::Now;
pub use arioso_server::log::Log;
pub use arioso_server::node::{Identity, Node};
pub use arioso_server::output::Output;
pub use arioso_server::session::Session;
pub use arioso_server::settings::Settings;
pub use arioso_stream::names::Names;
pub use arioso_stream::order::{RESERVE_AHEAD, Resume};
pub use arioso_stream::record::{FLAG_ATOMIC_FIRST, FLAG_ATOMIC_LAST, push_record};
pub use arioso_stream::tip::{TipConfig, TipWriter};
pub use arioso_stream::{Records, Sequence};
pub use arioso_wire::{
    AckLevel, Begin, ClosePublisher, Code, Condition, Credit, Deliver, Frame, FrameReader, Hello, List, MAGIC,
    OpenPublisher, Publish, Request, Rows, Skip, Subscribe, Text, Topics, Unsubscribe,
};
pub use bytes::{Bytes, BytesMut};
pub use std::sync::Arc;

pub struct Bus {
    pub node: Arc<Node>,
    pub log: Log<MemoryBackend>,
    pub now: Now,
}

pub struct Peer {
    pub session: Session,
    pub out: Output,
    pub frames: FrameReader,
}

impl Bus {
    pub fn new() -> Bus {
        Bus::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Bus {
        let identity = Identity { stream_id: 7, stream_name: "test".into(), server_epoch: 1 };
        let reserved_to = Sequence(RESERVE_AHEAD);
        let resume = Resume { next: Sequence(1), reserved_to, timestamp: 0, batch: 1, publisher: 1 };
        let found = Found::empty(identity, resume, Names::new(1_000, 1));
        let (node, tip) = assemble(settings, Arc::new(SimDisk::new(1)), 1, found).unwrap();
        let log = Log::new(Arc::clone(&node), MemoryBackend::on_demand(1 << 30, 8), tip);
        Bus { node, log, now: Now { wall: 1_000, mono: 0 } }
    }

    pub fn peer(&self) -> Peer {
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
    pub fn commit(&mut self) {
        self.write();
        let flying: Vec<BatchNumber> = self.log.backend().flying().collect();
        for number in flying {
            self.log.backend().complete(number, Outcome::Durable);
        }
        self.log.step(self.now.wall, false).unwrap();
    }

    pub fn write(&mut self) {
        self.log.step(self.now.wall, false).unwrap();
    }

    /// Of the writes in flight, the oldest one fails.
    pub fn fail_oldest(&mut self) {
        let flying: Vec<BatchNumber> = self.log.backend().flying().collect();
        self.log.backend().complete(flying[0], Outcome::Failed);
    }
}

impl Peer {
    pub fn say(&mut self, bus: &Bus, frames: &[(u16, Frame)]) -> Vec<(u16, Frame)> {
        let mut bytes = BytesMut::new();
        for (channel, frame) in frames {
            frame.encode(*channel, &mut bytes);
        }
        self.session.frames().feed(&bytes);
        self.hear(bus)
    }

    pub fn hear(&mut self, bus: &Bus) -> Vec<(u16, Frame)> {
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

    /// An anonymous publisher is open at once.
    pub fn open_without_commit(&mut self, bus: &Bus, channel: u16) {
        let open = OpenPublisher { next: 0, name: Text::EMPTY };
        self.say(bus, &[(channel, Frame::OpenPublisher(open))]);
    }

    pub fn open(&mut self, bus: &mut Bus, channel: u16, name: &str) -> Vec<(u16, Frame)> {
        let open = OpenPublisher { next: 0, name: Text::from(name) };
        let mut got = self.say(bus, &[(channel, Frame::OpenPublisher(open))]);
        bus.commit();
        got.extend(self.hear(bus));
        got
    }
}

pub fn topics(names: &[&str]) -> Frame {
    Frame::Topics(Topics { topics: List::collect(names.iter().enumerate().map(|(at, name)| (at as u32 + 1, *name))) })
}

pub fn publish(first: u64, messages: &[(u32, &str)]) -> Frame {
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

pub fn subscribe(filters: &[&str], begin: Begin, until_end: bool) -> Frame {
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
pub fn shown(frames: &[(u16, Frame)]) -> Vec<String> {
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
        Frame::Subscribed(subscribed) if subscribed.holder_epoch > 0 => {
            format!("{channel} subscribed at {} epoch {}", subscribed.starts_at, subscribed.holder_epoch)
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
