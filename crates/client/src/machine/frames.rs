//! What each frame of the server does.

use arioso_stream::record::PAYLOAD_BYTES_MAX;
use arioso_wire::{
    CHANNEL_CONNECTION, CHANNEL_TOPICS, Code, ErrorFrame, Frame, Names as NamesFrame, Replies, VERSION, VERSION_MIN,
    Welcome,
};

use super::Connection;
use super::channels::Role;
use super::event::Event;
use super::link::Stage;
use super::publisher::Replied;
use crate::options::{FRAME_BYTES_MIN, Limits};
use crate::{Error, Result};

impl Connection {
    /// An error ends the connection.
    pub(super) fn frame(&mut self, channel: u16, frame: Frame) -> Result<()> {
        match frame {
            Frame::Ping(ping) => {
                self.pong = Some(ping.value);
                return Ok(());
            }
            Frame::Pong(_) => return Ok(()),
            Frame::Error(error) if channel == CHANNEL_CONNECTION => {
                self.lose(&Error::refused(&error), error.retry_after_ms);
                return Ok(());
            }
            Frame::Goodbye(_) => {
                let reason = "the server said goodbye".into();
                return Err(Error::Cut { reason });
            }
            Frame::Welcome(welcome) => return self.welcomed(welcome),
            _ => {}
        }
        if !self.link.is_up() {
            let what = format!("{} before welcome", frame.name());
            return Err(Error::protocol(what));
        }
        match frame {
            Frame::Names(names) => self.named(&names),
            // Each publish on a refused topic is answered with the same code; that reaches the caller.
            Frame::Error(_) if channel == CHANNEL_TOPICS => Ok(()),
            frame => {
                let done = self.channel_frame(channel, frame);
                self.reschedule(channel);
                self.end_if_idle();
                done
            }
        }
    }

    fn welcomed(&mut self, welcome: Welcome) -> Result<()> {
        if !matches!(self.link.stage, Stage::Opening { hello_sent: true, .. }) {
            return Err(Error::protocol("welcome without hello"));
        }
        if !(VERSION_MIN..=VERSION).contains(&welcome.version) {
            return Err(Error::Version { got: welcome.version, min: VERSION_MIN, max: VERSION });
        }
        let known = self.welcome.as_ref().map(|welcome| welcome.stream_id);
        let want = known.unwrap_or(self.options.stream_id);
        if want != 0 && want != welcome.stream_id {
            return Err(Error::WrongStream { want, got: welcome.stream_id });
        }
        if welcome.publish_window_messages == 0 || welcome.publish_window_bytes == 0 {
            return Err(Error::protocol("a publish window of nothing"));
        }
        if (welcome.frame_bytes_max as usize) < FRAME_BYTES_MIN {
            let what = format!("frames of {} bytes only", welcome.frame_bytes_max);
            return Err(Error::protocol(what));
        }
        let own = Limits::of(&self.options);
        self.limits = Limits {
            window_messages: own.window_messages.min(welcome.publish_window_messages.into()),
            window_bytes: own.window_bytes.min(welcome.publish_window_bytes.into()),
            payload_bytes: PAYLOAD_BYTES_MAX.min(welcome.payload_bytes_max as usize),
            ..own.with_frames(welcome.frame_bytes_max as usize)
        };
        self.link.welcomed(self.now, welcome.heartbeat_ms);
        self.welcome = Some(welcome);
        self.events.push_back(Event::Up);
        for channel in self.channels.used() {
            self.reschedule(channel);
        }
        Ok(())
    }

    fn named(&mut self, frame: &NamesFrame) -> Result<()> {
        for (id, name) in frame.topics.iter() {
            match self.names.insert(id, name) {
                Ok(new) => self.names_count += u32::from(new),
                Err(known) => {
                    let what = format!("topic {id} is named {name:?}, it was {known:?}");
                    return Err(Error::protocol(what));
                }
            }
            if self.names_count > self.options.names_max {
                return Err(Error::TooLarge {
                    what: "a connection's table of names",
                    count: self.names_count.into(),
                    count_max: self.options.names_max.into(),
                });
            }
        }
        Ok(())
    }

    /// On a channel that has ended. A publisher's open may have crossed the error that ended it: the server opens it anew, for
    /// nobody.
    fn late_frame(&mut self, channel: u16, frame: &Frame) -> Result<()> {
        match frame {
            Frame::PublisherOpened(_) => {
                if !self.opened_late.contains(&channel) {
                    self.opened_late.push(channel);
                }
                Ok(())
            }
            Frame::Replies(_) | Frame::Closed(_) | Frame::Error(_) => Ok(()),
            _ => Err(Error::protocol(format!("{} on channel {channel}, which has ended", frame.name()))),
        }
    }

    fn channel_frame(&mut self, channel: u16, frame: Frame) -> Result<()> {
        let now = self.now;
        let events = &mut self.events;
        if self.channels.rests(channel) {
            return self.late_frame(channel, &frame);
        }
        let Some(role) = self.channels.get_mut(channel) else {
            let what = format!("{} on channel {channel}, which is not open", frame.name());
            return Err(Error::protocol(what));
        };
        match (role, frame) {
            (Role::Publisher(publisher), Frame::PublisherOpened(opened)) => publisher.opened(&opened, events),
            (Role::Publisher(_), Frame::Replies(replies)) => self.replied(channel, &replies),
            (Role::Publisher(publisher), Frame::Closed(_)) => publisher.closed(events),
            (Role::Publisher(publisher), Frame::Error(error)) => {
                publisher.channel_error(&error, now, events);
                Ok(())
            }
            (Role::Subscription(subscription), Frame::Subscribed(frame)) => subscription.subscribed(&frame, events),
            (Role::Subscription(subscription), Frame::Deliver(frame)) => {
                subscription.delivered(frame, &self.names, events)
            }
            (Role::Subscription(subscription), Frame::Safe(frame)) => subscription.safe(frame.through, events),
            (Role::Subscription(subscription), Frame::Trimmed(frame)) => subscription.trimmed(&frame, events),
            (Role::Subscription(subscription), Frame::Ended(frame)) => {
                subscription.ended(&frame, now, events);
                Ok(())
            }
            (Role::Subscription(subscription), Frame::Error(error)) => {
                subscription.channel_error(&error, now, events);
                Ok(())
            }
            (Role::Request(request), Frame::Answer(answer)) => request.answered(answer, events),
            (Role::Request(request), Frame::Error(error)) => {
                request.channel_error(&error, now, events);
                Ok(())
            }
            (_, frame) => {
                let what = format!("{} on channel {channel}, which is no place for it", frame.name());
                Err(Error::protocol(what))
            }
        }
    }

    fn replied(&mut self, channel: u16, replies: &Replies) -> Result<()> {
        for reply in replies.replies.iter() {
            let Some(Role::Publisher(publisher)) = self.channels.get_mut(channel) else {
                return Ok(());
            };
            match publisher.reply(&reply, self.now, &mut self.events)? {
                Replied::Fine => {}
                Replied::LoseConnection => {
                    self.lose(&Error::refused(&unknown()), reply.retry_after_ms);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// What a connection ends with when outcomes will not be known on it.
fn unknown() -> ErrorFrame {
    ErrorFrame { code: Code::Unknown, retry_after_ms: 0, detail_a: 0, detail_b: 0, text: Code::Unknown.text().into() }
}
