//! The server's side of one connection, as a state machine without I/O: bytes and time in, bytes and wishes out.
//!
//! ```text
//!   bytes ──▶ frames ──▶ publishing ──▶ engine          mailbox ──▶ replies ──▶ bytes
//!                   ├──▶ subscriptions ◀── reader
//!                   └──▶ requests
//! ```
//!
//! Whoever drives it (a task on a socket, the simulator on its network) feeds bytes in, calls [`Session::turn`], does the disk
//! reads it asks for, and sends what it puts out.

mod cursors;
mod listing;
mod publishing;
mod subscribing;
mod tasks;
mod unanswered;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arioso_wire::{
    CHANNEL_CONNECTION, Code, ErrorFrame, Frame, FrameReader, Goodbye, Hello, MAGIC, Ping, Pong, Request, Text,
    Welcome, negotiate,
};

use crate::clock::Now;
use crate::history::{ReadRequest, Supplied};
use crate::mailbox::{Mail, Mailbox};
use crate::metrics::{add, sub};
use crate::node::Node;
use crate::output::Output;
use listing::Listings;
use publishing::Channel;
use subscribing::Subscriptions;
use tasks::Tasks;

/// Frames above the payload: header, condition, extensions.
const FRAME_MARGIN_BYTES: u64 = 128 << 10;
/// Frames handled in one turn, so that a flood of them does not keep subscriptions waiting.
const FRAMES_PER_TURN: usize = 64;

/// Which read of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The channel it is for.
    pub channel: u16,
    /// Counted over the session.
    pub number: u64,
}

/// A read from disk that a session waits for.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// Its channel and its number on the session, to be given back with the bytes: the channel may stand for something else by
    /// then.
    pub ticket: Ticket,
    /// What to read.
    pub request: ReadRequest,
}

/// What a session wishes after a turn.
#[derive(Debug, Default)]
pub struct Wishes {
    /// Reads to do.
    pub reads: Vec<Read>,
    /// It has more to do without any event.
    pub again: bool,
    /// It has a slice of recovery to read, and room for it. Unless it is paced that is more to do.
    pub slice: bool,
    /// It is over: send what is left, then close.
    pub close: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    Closing,
}

/// The server's side of one connection.
pub struct Session {
    node: Arc<Node>,
    number: u32,
    mailbox: Arc<Mailbox>,
    state: State,
    frames: FrameReader,
    /// Stream-wide ids of the connection's topic ids; refused ones are in `refused_topics`.
    topics: Vec<u32>,
    refused_topics: HashMap<u32, Code>,
    publishers: BTreeMap<u16, Channel>,
    /// Publishers opened, counted around: tells a channel's publishers apart.
    tenants: u8,
    subscriptions: Subscriptions,
    listings: Listings,
    tasks: Tasks,
    mail: Vec<Mail>,
    ready: Vec<u16>,
    heard_at: i64,
    said_at: i64,
    heartbeat_ns: i64,
}

impl Session {
    /// A session that waits for hello.
    pub fn new(node: Arc<Node>, now: i64) -> Session {
        let mailbox = Arc::new(Mailbox::default());
        let number = node.add_session(Arc::clone(&mailbox));
        add(&node.counters.connections, 1);
        let heartbeat_ns = i64::try_from(node.settings.heartbeat_ms).unwrap_or(i64::MAX / 4_000_000) * 1_000_000;
        let frame_bytes_max = u32::try_from(node.settings.payload_bytes_max + FRAME_MARGIN_BYTES).unwrap_or(u32::MAX);
        Session {
            number,
            mailbox,
            state: State::Opening,
            frames: FrameReader::new(frame_bytes_max),
            topics: vec![0],
            refused_topics: HashMap::new(),
            publishers: BTreeMap::new(),
            tenants: 0,
            subscriptions: Subscriptions::default(),
            listings: Listings::default(),
            tasks: Tasks::default(),
            mail: Vec::new(),
            ready: Vec::new(),
            heard_at: now,
            said_at: now,
            heartbeat_ns,
            node,
        }
    }

    /// Where replies and wake-ups arrive.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// The buffer to read the socket into.
    pub fn frames(&mut self) -> &mut FrameReader {
        &mut self.frames
    }

    /// Bytes that a read asked for arrived, or why they did not.
    pub fn supply(&mut self, ticket: Ticket, read: Result<Supplied, String>) {
        if let Err(read) = self.tasks.supply(ticket, read) {
            self.subscriptions.supply(ticket, &self.node, read);
        }
    }

    /// Bytes came in at this time.
    pub fn heard(&mut self, now: i64) {
        self.heard_at = now;
    }

    /// From now on each slice of recovery is to be granted: [`Wishes::slice`] asks, [`Session::grant_slice`] answers.
    pub fn pace(&mut self) {
        self.subscriptions.pace();
    }

    /// The next turn may read a slice of recovery.
    pub fn grant_slice(&mut self) {
        self.subscriptions.grant();
    }

    /// When something is due though nothing happens.
    pub fn deadline(&self) -> i64 {
        let dead = self.heard_at + 3 * self.heartbeat_ns;
        // Before hello is answered nothing is said.
        let beat = if self.state == State::Open { dead.min(self.said_at + self.heartbeat_ns) } else { dead };
        self.subscriptions.mark_due().map_or(beat, |mark| mark.min(beat))
    }

    /// Handles what came in and what waits, and puts out what is to be sent.
    pub fn turn(&mut self, now: Now, out: &mut Output) -> Wishes {
        let mut wishes = Wishes::default();
        let before = out.bytes();
        self.take_mail(now.mono, out);
        wishes.again |= self.handle_frames(now, out);
        if self.mailbox.is_pending() {
            // What was just published may be answered already.
            self.take_mail(now.mono, out);
        }
        if self.state == State::Open {
            self.listings.turn(&self.node, out);
            self.turn_tasks(&mut wishes.reads, out);
            self.subscriptions.mark_all(now.mono, &self.node, out);
            wishes.slice = self.subscriptions.turn(now.mono, &self.node, out, &mut wishes.reads);
            wishes.again |= wishes.slice && !self.subscriptions.is_paced();
        }
        self.beat(now.mono, out);
        if out.bytes() > before {
            self.said_at = now.mono;
        }
        wishes.close = self.state == State::Closing;
        wishes
    }

    fn handle_frames(&mut self, now: Now, out: &mut Output) -> bool {
        for _ in 0..FRAMES_PER_TURN {
            if self.state == State::Closing {
                return false;
            }
            match self.frames.next_frame() {
                Ok(Some((channel, frame))) => {
                    if let Err((code, text)) = self.handle(now, channel, frame, out) {
                        self.fail(CHANNEL_CONNECTION, code, (0, 0), &text, out);
                        self.state = State::Closing;
                    }
                }
                Ok(None) => return false,
                Err(error) => {
                    self.fail(CHANNEL_CONNECTION, error.code(), (0, 0), &error.to_string(), out);
                    self.state = State::Closing;
                }
            }
        }
        true
    }

    fn handle(&mut self, now: Now, channel: u16, frame: Frame, out: &mut Output) -> Result<(), (Code, String)> {
        match (self.state, frame) {
            (State::Opening, Frame::Hello(hello)) => self.hello(&hello, out),
            (State::Opening, frame) => Err((Code::BadFrame, format!("{} came first, hello is wanted", frame.name()))),
            (_, Frame::Ping(Ping { value })) => {
                out.push(CHANNEL_CONNECTION, &Frame::Pong(Pong { value }));
                Ok(())
            }
            (_, Frame::Pong(_)) => Ok(()),
            (_, Frame::Goodbye(_)) => {
                out.push(CHANNEL_CONNECTION, &Frame::Goodbye(Goodbye {}));
                self.state = State::Closing;
                Ok(())
            }
            (_, Frame::Topics(topics)) => self.announce_topics(&topics, out),
            (_, Frame::OpenPublisher(open)) => self.open_publisher(now.wall, channel, &open, out),
            (_, Frame::Publish(publish)) => self.publish(now.wall, channel, &publish, out),
            (_, Frame::Skip(skip)) => self.skip(now.wall, channel, skip.next, out),
            (_, Frame::ClosePublisher(_)) => self.close_publisher(channel, out),
            (_, Frame::Subscribe(subscribe)) => self.subscribe(now, channel, subscribe, out),
            (_, Frame::MoreFilters(more)) => self.more_filters(now, channel, &more, out),
            (_, Frame::Credit(credit)) => {
                self.subscriptions.credit(channel, credit.bytes);
                Ok(())
            }
            (_, Frame::Unsubscribe(_)) => {
                self.subscriptions.unsubscribe(channel, &self.node, out);
                Ok(())
            }
            (_, Frame::GoOn(go_on)) => {
                self.subscriptions.go_on(channel, &self.node, go_on.begin);
                Ok(())
            }
            (_, Frame::Request(request)) => self.request(now, channel, request, out),
            (_, frame) => Err((Code::BadFrame, format!("{} is not for a server", frame.name()))),
        }
    }

    fn hello(&mut self, hello: &Hello, out: &mut Output) -> Result<(), (Code, String)> {
        if hello.magic != MAGIC {
            return Err((Code::BadFrame, format!("hello has magic {:#x}, {MAGIC:#x} is wanted", hello.magic)));
        }
        let version = negotiate(hello.version_min..=hello.version_max).ok_or_else(|| {
            let (low, high) = (hello.version_min, hello.version_max);
            (Code::Version, format!("protocol versions {low} to {high} are offered, this server speaks 1"))
        })?;
        let identity = &self.node.identity;
        if hello.stream_id != 0 && hello.stream_id != identity.stream_id {
            let (wanted, have) = (hello.stream_id, identity.stream_id);
            return Err((Code::WrongStream, format!("stream {wanted:032x} is wanted, this is {have:032x}")));
        }
        let settings = &self.node.settings;
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let next_sequence = self.node.engine.lock().order().next_sequence();
        let welcome = Welcome {
            version,
            capabilities: 0,
            frame_bytes_max: small(settings.payload_bytes_max + FRAME_MARGIN_BYTES),
            heartbeat_ms: small(settings.heartbeat_ms),
            stream_id: identity.stream_id,
            server_epoch: identity.server_epoch,
            publish_window_bytes: small(settings.publish_window_bytes),
            publish_window_messages: small(settings.publish_window_messages),
            payload_bytes_max: small(settings.payload_bytes_max),
            next_sequence,
            stream_name: Text::from(identity.stream_name.as_str()),
        };
        out.push(CHANNEL_CONNECTION, &Frame::Welcome(welcome));
        self.state = State::Open;
        Ok(())
    }

    fn request(&mut self, now: Now, channel: u16, request: Request, out: &mut Output) -> Result<(), (Code, String)> {
        if let Request::DropPublisher { name } = &request {
            return self.drop_publisher(now.wall, channel, name, out);
        }
        if matches!(request, Request::Commit { .. } | Request::SetCursor { .. } | Request::DropCursor { .. }) {
            self.change_cursor(now.wall, channel, &request, out);
            return Ok(());
        }
        if self.begin_task(channel, &request, out) {
            return Ok(());
        }
        if let Err((code, text)) = self.listings.begin(channel, request, &self.node) {
            self.fail(channel, code, (0, 0), &text, out);
        }
        Ok(())
    }

    fn take_mail(&mut self, now: i64, out: &mut Output) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail, &mut self.ready);
        self.subscriptions.ready(&mut self.ready);
        self.replies(now, &mut mail, out);
        mail.clear();
        self.mail = mail;
    }

    /// The server stops cleanly: says so, then is over.
    pub fn shut_down(&mut self, out: &mut Output) {
        if self.state != State::Closing {
            self.fail(CHANNEL_CONNECTION, Code::ShuttingDown, (0, 0), "the server stops", out);
            self.state = State::Closing;
        }
    }

    fn fail(&self, channel: u16, code: Code, (detail_a, detail_b): (u64, u64), text: &str, out: &mut Output) {
        let frame =
            ErrorFrame { code, retry_after_ms: retry_after_ms(code), detail_a, detail_b, text: Text::from(text) };
        out.push(channel, &Frame::Error(frame));
    }

    fn beat(&mut self, now: i64, out: &mut Output) {
        if now >= self.heard_at + 3 * self.heartbeat_ns {
            self.state = State::Closing;
        } else if now >= self.said_at + self.heartbeat_ns && self.state == State::Open {
            out.push(CHANNEL_CONNECTION, &Frame::Ping(Ping { value: now.cast_unsigned() }));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.subscriptions.clear(&self.node);
        self.node.snapshots.abandon(self.number);
        sub(&self.node.counters.connections, 1);
        let publishers = self.publishers.iter().map(|(channel, publisher)| (*channel, publisher.key, publisher.epoch));
        self.node.engine.lock().remove_session(self.number, publishers);
    }
}

/// When to try again what was refused with this code; 0: don't.
fn retry_after_ms(code: Code) -> u32 {
    match code {
        Code::Busy => 5,
        Code::DiskFull => 1_000,
        Code::NotReady | Code::ShuttingDown => 500,
        _ => 0,
    }
}
