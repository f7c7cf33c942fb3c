//! The client without I/O: bytes and time in, bytes, wake-ups and events out.
//!
//! ```text
//! publish, subscribe, request ─▶ ┌────────────┐ ─▶ poll_transmit: bytes for the socket
//! receive: bytes of the socket ─▶│ Connection │ ─▶ poll_event: what happened
//! on_time: how late it is      ─▶└────────────┘ ─▶ next_deadline: when on_time is wanted
//! ```
//!
//! Whoever drives it loops: hand in what came, take the events, write what `poll_transmit` gives, sleep until
//! `next_deadline`. Time is counted from any moment, the same for all calls. Nothing in here blocks, and everything that
//! could grow has a bound: messages by the window, deliveries by the credit, topics and names by the options.

mod calls;
mod channels;
mod event;
mod frames;
mod link;
mod output;
mod publisher;
mod request;
mod subscription;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arioso_wire::{
    Blob, Body, ClosePublisher, Frame, FrameReader, Goodbye, Hello, MAGIC, Ping, Pong, VERSION, VERSION_MIN, Welcome,
};
use bytes::Bytes;

pub use event::{Ack, Event, PublisherId, RequestId, Started, SubscriptionId};
pub use subscription::Subscribe;

use crate::names::Names;
use crate::options::{CLOSE_WAIT, FRAME_BYTES_MAX, Limits, NAME_BYTES_MAX, Options, RETRY_PAUSE_MIN, TRANSMIT_BYTES};
use crate::{Error, Result};
use channels::{Channels, Role};
use link::{Link, Stage};
use output::Output;
pub(crate) use subscription::check_length;
use topics::TopicTable;

/// How long to wait before something refused is sent again.
fn retry_pause(retry_after_ms: u32) -> Duration {
    Duration::from_millis(retry_after_ms.into()).max(RETRY_PAUSE_MIN)
}

/// A client's side of the bus, over as many sockets, one after another, as it takes.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    limits: Limits,
    link: Link,
    reader: FrameReader,
    out: Output,
    events: VecDeque<Event>,
    channels: Channels,
    topics: TopicTable,
    names: Arc<Names>,
    names_count: u32,
    welcome: Option<Welcome>,
    pong: Option<u64>,
    /// Channels of publishers that the server opened for nobody, each once.
    opened_late: Vec<u16>,
    /// When a closing client stops waiting.
    closing: Option<Duration>,
    now: Duration,
}

impl Connection {
    /// A client that will dial at once. `seed` drives the jitter.
    pub fn new(options: Options, seed: u64, now: Duration) -> Result<Connection> {
        check_length("a client's name", &options.name, 0, NAME_BYTES_MAX)?;
        Ok(Connection {
            limits: Limits::of(&options),
            link: Link::new(&options, seed, now),
            reader: FrameReader::new(FRAME_BYTES_MAX),
            out: Output::default(),
            events: VecDeque::new(),
            channels: Channels::default(),
            topics: TopicTable::new(options.topics_max),
            names: Arc::new(Names::new()),
            names_count: 0,
            welcome: None,
            pong: None,
            opened_late: Vec::new(),
            closing: None,
            now,
            options,
        })
    }

    /// A socket is open.
    pub fn connected(&mut self, now: Duration) {
        self.now = now;
        if self.link.stage != Stage::Dialling {
            self.events.push_back(Event::Drop { last_words: false });
            return;
        }
        self.link.socket_opened(now);
        self.reader = FrameReader::new(FRAME_BYTES_MAX);
        self.names = Arc::new(Names::new());
        self.names_count = 0;
        self.topics.forget_announced();
        self.pong = None;
        self.opened_late.clear();
        self.out.clear();
    }

    /// The socket could not be opened.
    pub fn connect_failed(&mut self, now: Duration, reason: &str) {
        self.now = now;
        if self.link.stage == Stage::Dialling {
            self.lose(&Error::Cut { reason: reason.into() }, 0);
        }
    }

    /// The socket is gone.
    pub fn disconnected(&mut self, now: Duration, reason: &str) {
        self.now = now;
        if self.link.has_socket() {
            self.lose(&Error::Cut { reason: reason.into() }, 0);
        }
    }

    /// Bytes came.
    pub fn receive(&mut self, now: Duration, bytes: &[u8]) {
        self.reader.feed(bytes);
        while self.link.has_socket() {
            match self.reader.next_frame() {
                Ok(Some((channel, frame))) => self.receive_frame(now, channel, frame),
                Ok(None) => return,
                Err(error) => self.receive_broken(now, error.into()),
            }
        }
    }

    /// A frame came: for drivers that have a `FrameReader` of their own, so that parsing needs no lock.
    pub fn receive_frame(&mut self, now: Duration, channel: u16, frame: Frame) {
        self.now = now;
        if !self.link.has_socket() {
            return;
        }
        self.link.heard(now);
        if let Err(error) = self.frame(channel, frame) {
            self.lose(&error, 0);
        }
    }

    /// Bytes came that are no frame.
    pub fn receive_broken(&mut self, now: Duration, error: Error) {
        self.now = now;
        if self.link.has_socket() {
            self.lose(&error, 0);
        }
    }

    /// The next bytes to write. Asked again and again, gives all there is.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Bytes> {
        self.now = now;
        if self.out.bytes() == 0 {
            self.generate();
        }
        let bytes = self.out.pop()?;
        self.link.sent(now);
        Some(bytes)
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Duration) {
        self.now = now;
        match self.link.on_time(now) {
            Ok(true) => self.events.push_back(Event::Dial),
            Ok(false) => {}
            Err(error) => match self.link.stage.clone() {
                Stage::Over(error) => self.finish(&error),
                _ => self.lose(&error, 0),
            },
        }
        while let Some(channel) = self.channels.next_due(now) {
            self.reschedule(channel);
        }
        if self.closing.is_some_and(|at| now >= at) {
            self.end();
        }
    }

    /// When `on_time` is wanted.
    pub fn next_deadline(&self) -> Option<Duration> {
        let timer = match self.link.is_up() {
            true => self.channels.next_timer(),
            false => None,
        };
        let deadlines = [self.link.next_deadline(), timer, self.closing];
        deadlines.into_iter().flatten().min()
    }

    /// What the server told when it welcomed the client last.
    pub fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// Ends at once, without goodbye: whoever drives it stops.
    pub fn abort(&mut self, error: Error) {
        if self.is_over().is_none() {
            self.link.stage = Stage::Over(error.clone());
            self.out.clear();
            self.finish(&error);
        }
    }

    /// Why the last connection ended, as long as there is no new one.
    pub fn last_error(&self) -> Option<&Error> {
        self.link.last_error()
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// Ends when everything published is answered; nothing new is taken.
    pub fn close(&mut self, now: Duration) {
        self.now = now;
        if self.closing.is_some() || self.is_over().is_some() {
            return;
        }
        self.closing = Some(now + CLOSE_WAIT);
        for channel in self.channels.used() {
            match self.channels.get_mut(channel) {
                Some(Role::Publisher(publisher)) => publisher.close(&mut self.events),
                Some(Role::Subscription(subscription)) => {
                    subscription.close(&mut self.events);
                }
                Some(Role::Request(_)) | None => {}
            }
            self.reschedule(channel);
        }
        self.end_if_idle();
    }

    /// Why nothing is taken any more.
    pub fn is_over(&self) -> Option<&Error> {
        match &self.link.stage {
            Stage::Over(error) => Some(error),
            _ => None,
        }
    }

    fn check_open(&self) -> Result<()> {
        match (self.is_over(), self.closing) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(_)) => Err(Error::Closed),
            (None, None) => Ok(()),
        }
    }

    /// Notes when a channel has something to send, or gives it back when nobody needs it.
    fn reschedule(&mut self, channel: u16) {
        let Some(role) = self.channels.get(channel) else {
            return;
        };
        let (gone, wake) = match role {
            Role::Publisher(publisher) => (publisher.is_gone(), publisher.wake(self.now, &self.limits)),
            Role::Subscription(subscription) => (subscription.is_gone(), subscription.wake(self.now)),
            Role::Request(request) => (request.is_over(), request.wake(self.now)),
        };
        match gone {
            true => self.channels.remove(channel),
            false => self.channels.wake(channel, wake),
        }
    }

    /// Writes what is to be said now.
    fn generate(&mut self) {
        match &mut self.link.stage {
            Stage::Opening { hello_sent, .. } if !*hello_sent => {
                *hello_sent = true;
                self.hello();
                return;
            }
            Stage::Up { .. } => {}
            _ => return,
        }
        if let Some(value) = self.pong.take() {
            Pong { value }.encode(0, self.out.buffer());
        }
        for channel in self.opened_late.drain(..) {
            ClosePublisher {}.encode(channel, self.out.buffer());
        }
        if self.link.ping {
            Ping { value: 1 }.encode(0, self.out.buffer());
        }
        while self.out.bytes() < TRANSMIT_BYTES {
            // What is published next may use any of the topics.
            if !self.topics.all_announced() {
                self.topics.announce(self.out.buffer());
                continue;
            }
            let Some(channel) = self.channels.next_ready() else {
                break;
            };
            match self.channels.get_mut(channel) {
                Some(Role::Publisher(publisher)) => {
                    publisher.emit(self.now, &self.limits, TRANSMIT_BYTES / 4, &mut self.out);
                }
                Some(Role::Subscription(subscription)) => {
                    let stream_id = self.welcome.as_ref().map_or(0, |welcome| welcome.stream_id);
                    subscription.emit(self.now, stream_id, &mut self.out);
                }
                Some(Role::Request(request)) => request.emit(self.now, &mut self.out),
                None => {}
            }
            self.reschedule(channel);
        }
    }

    fn hello(&mut self) {
        let stream_id = match &self.welcome {
            Some(welcome) => welcome.stream_id,
            None => self.options.stream_id,
        };
        Hello {
            magic: MAGIC,
            version_min: VERSION_MIN,
            version_max: VERSION,
            capabilities: 0,
            frame_bytes_max: FRAME_BYTES_MAX,
            stream_id,
            client_name: self.options.name.as_str().into(),
            auth: Blob::default(),
        }
        .encode(0, self.out.buffer());
    }

    /// The connection is gone: each channel does what it does then, and another connection is tried.
    fn lose(&mut self, reason: &Error, retry_after_ms: u32) {
        match reason {
            Error::Protocol { .. } | Error::Wire(_) => tracing::warn!(%reason, "connection lost"),
            reason => tracing::debug!(%reason, "connection lost"),
        }
        if self.link.has_socket() {
            self.events.push_back(Event::Drop { last_words: false });
        }
        self.link.lost(self.now, reason, retry_after_ms);
        self.out.clear();
        if let Some(error) = self.is_over().cloned() {
            self.finish(&error);
            return;
        }
        for channel in self.channels.used() {
            match self.channels.get_mut(channel) {
                Some(Role::Publisher(publisher)) => publisher.lost(&mut self.events),
                Some(Role::Subscription(subscription)) => subscription.lost(&mut self.events),
                Some(Role::Request(request)) => request.lost(reason, &mut self.events),
                None => {}
            }
            self.reschedule(channel);
        }
        self.end_if_idle();
    }

    fn end_if_idle(&mut self) {
        if self.closing.is_none() || self.is_over().is_some() {
            return;
        }
        let channels = &self.channels;
        let busy = |channel| match channels.get(channel) {
            Some(Role::Publisher(publisher)) => !publisher.is_over(),
            Some(Role::Subscription(_)) | None => false,
            Some(Role::Request(_)) => true,
        };
        if !self.channels.used().any(busy) {
            self.end();
        }
    }

    /// Ends as asked: says goodbye where somebody listens.
    fn end(&mut self) {
        self.out.clear();
        if self.link.has_socket() {
            let last_words = self.link.is_up();
            if last_words {
                Goodbye {}.encode(0, self.out.buffer());
            }
            self.events.push_back(Event::Drop { last_words });
        }
        self.link.stage = Stage::Over(Error::Closed);
        self.finish(&Error::Closed);
    }

    /// Ends everything that is open.
    fn finish(&mut self, error: &Error) {
        self.closing = None;
        for channel in self.channels.used() {
            match self.channels.get_mut(channel) {
                Some(Role::Publisher(publisher)) => {
                    publisher.fail(error, &mut self.events);
                    publisher.lost(&mut self.events);
                }
                Some(Role::Subscription(subscription)) => {
                    subscription.end_with(Err(error.clone()), &mut self.events);
                }
                Some(Role::Request(request)) => {
                    request.end_with(Err(error.clone()), &mut self.events);
                }
                None => {}
            }
            self.reschedule(channel);
        }
        self.events.push_back(Event::Over(error.clone()));
    }
}
