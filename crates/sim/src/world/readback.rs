//! Reads the whole stream through a session of its own, without a network and without delay.

use arioso_server::clock::Now;
use arioso_server::node::Node;
use arioso_server::output::Output;
use arioso_server::session::Session;
use arioso_stream::{Records, Sequence};
use arioso_wire::{
    Begin, Code, Credit, Frame, FrameReader, Hello, List, MAGIC, Request, Rows, Subscribe, Text, VERSION, VERSION_MIN,
};
use bytes::BytesMut;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Model, ReadBack};
use crate::{Violation, violated};

/// Turns that a read may take: far more than any run needs.
const TURNS_MAX: u32 = 1 << 20;
const CHANNEL: u16 = 1;

/// A session of the reader's own.
pub struct Probe {
    node: Arc<Node>,
    session: Session,
    out: Output,
    frames: FrameReader,
    now: Now,
}

impl Probe {
    /// Says hello.
    pub fn new(node: &Arc<Node>, now: Now) -> Result<Probe, Violation> {
        let session = Session::new(Arc::clone(node), now.mono);
        let frames = FrameReader::new(32 << 20);
        let mut probe = Probe { node: Arc::clone(node), session, out: Output::default(), frames, now };
        let hello = Hello {
            magic: MAGIC,
            version_min: VERSION_MIN,
            version_max: VERSION,
            capabilities: 0,
            frame_bytes_max: 32 << 20,
            stream_id: 0,
            client_name: Text::from("probe"),
            auth: Default::default(),
        };
        probe.say(0, &Frame::Hello(hello));
        match probe.next()? {
            Some((0, Frame::Welcome(_))) => Ok(probe),
            other => violated(format!("hello is answered by {other:?}")),
        }
    }

    fn say(&mut self, channel: u16, frame: &Frame) {
        let mut bytes = BytesMut::new();
        frame.encode(channel, &mut bytes);
        self.session.frames().feed(&bytes);
    }

    /// The next frame; `None` when the session has nothing more to do.
    fn next(&mut self) -> Result<Option<(u16, Frame)>, Violation> {
        for _ in 0..TURNS_MAX {
            match self.frames.next_frame() {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => {}
                Err(error) => return violated(format!("the server sent what is no frame: {error}")),
            }
            let wishes = self.session.turn(self.now, &mut self.out);
            let idle = self.out.is_empty() && wishes.reads.is_empty() && !wishes.again;
            while !self.out.is_empty() {
                let bytes: Vec<u8> = self.out.front(16).flat_map(|part| part.to_vec()).collect();
                self.frames.feed(&bytes);
                self.out.consume(bytes.len());
            }
            for read in wishes.reads {
                let supplied = self.node.read(&read.request);
                self.session.supply(read.ticket, supplied);
            }
            if idle {
                return Ok(None);
            }
        }
        violated("a full read does not come to an end")
    }

    /// Reads everything that is settled, and shows it to the model.
    pub fn read_all(&mut self, model: &mut Model) -> Result<ReadBack, Violation> {
        self.say(CHANNEL, &Frame::Subscribe(everything()));
        let mut read = ReadBack::default();
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        loop {
            match self.next()? {
                Some((CHANNEL, Frame::Subscribed(subscribed))) => {
                    read.first_kept = subscribed.first_kept.0;
                    read.through = subscribed.newest_settled.0;
                }
                Some((0, Frame::Names(told))) => {
                    names.extend(told.topics.iter().map(|(id, name)| (id, name.to_owned())));
                }
                Some((CHANNEL, Frame::Deliver(deliver))) => {
                    for record in Records::new(&deliver.records) {
                        let record = record.map_err(|bad| Violation(format!("a full read got a bad record: {bad}")))?;
                        let Some(topic) = names.get(&record.topic()) else {
                            return violated(format!("topic {} was not named", record.topic()));
                        };
                        read.kept.push(model.saw(&record, topic)?);
                    }
                    self.say(CHANNEL, &Frame::Credit(Credit { bytes: 16 + deliver.records.len() as u64 }));
                }
                Some((CHANNEL, Frame::Safe(_)) | (0, Frame::Ping(_))) => {}
                Some((CHANNEL, Frame::Ended(ended))) if ended.code == Code::Ok => {
                    if ended.through.0 < read.through {
                        return violated(format!("a full read through {} ended at {}", read.through, ended.through));
                    }
                    return Ok(read);
                }
                other => return violated(format!("a full read got {other:?}")),
            }
        }
    }

    /// Messages, payload bytes and newest sequence of every topic, as the server counts them.
    pub fn topics(&mut self) -> Result<BTreeMap<String, (u64, u64, u64)>, Violation> {
        let ask = Request::Topics { filter: Text::from("**"), after: Text::EMPTY, rows_max: 10_000 };
        self.say(CHANNEL + 1, &Frame::Request(ask));
        let mut counts = BTreeMap::new();
        loop {
            match self.next()? {
                Some((_, Frame::Answer(answer))) => {
                    let Rows::Topics(rows) = answer.rows else {
                        return violated("topics are answered by something else");
                    };
                    let row =
                        |row: arioso_wire::TopicRow<'_>| (row.topic.to_owned(), (row.messages, row.bytes, row.last.0));
                    counts.extend(rows.iter().map(row));
                    if !answer.more {
                        return Ok(counts);
                    }
                }
                Some((0, Frame::Ping(_))) => {}
                other => return violated(format!("a list of topics is answered by {other:?}")),
            }
        }
    }
}

fn everything() -> Subscribe {
    Subscribe {
        more: false,
        until_end: true,
        blocks: false,
        lanes: 1,
        begin: Begin::Sequence(Sequence::ZERO),
        credit_bytes: 64 << 10,
        stream_id: 0,
        cursor: Text::EMPTY,
        filters: List::collect(["**"]),
    }
}
