//! Publishing on a session: topics announced, publishers opened, frames checked and handed to the engine, replies sent.

use arioso_journal::{Level, Reply, Verdict};
use arioso_stream::filter::Filter;
use arioso_stream::order::PublisherKey;
use arioso_stream::record::{Extensions, FLAG_ATOMIC_FIRST, FLAG_ATOMIC_LAST, FLAG_CONDITIONAL, Record};
use arioso_wire::{
    AckLevel, CHANNEL_TOPICS, Closed, Code, Frame, ListWriter, OpenPublisher, Publish, PublisherOpened, Replies, Rows,
    Text, Topics,
};

use super::unanswered::Unanswered;
use super::{Session, State, retry_after_ms};
use crate::engine::{ClientPublish, Refused};
use crate::mailbox::{About, Address, Mail};
use crate::metrics::add;
use crate::output::Output;
use crate::settings::Settings;

/// Messages of an atomic batch.
const ATOMIC_MESSAGES_MAX: u32 = 4_096;
/// Messages of one publish frame: 256 KiB of the smallest.
const FRAME_MESSAGES_MAX: u32 = 8_192;
/// Bytes of an atomic batch.
const ATOMIC_BYTES_MAX: usize = 16 << 20;

/// A publisher on one of the session's channels.
pub(super) struct Channel {
    pub key: PublisherKey,
    pub epoch: u32,
    tenant: u8,
    /// The epoch is open: it was answered.
    open: bool,
    last_consumed: u64,
    named: bool,
    unanswered: Unanswered,
    closing: bool,
}

/// A part of a publish frame with one fate: `None` goes to the engine.
struct Piece {
    bytes: std::ops::Range<usize>,
    messages: u32,
    refused: Option<Code>,
}

impl Channel {
    /// Why the engine is not asked about a frame, with the number that says more.
    fn turns_away(&mut self, publish: &Publish, settings: &Settings) -> Option<(Code, u64)> {
        if !self.open {
            return Some((Code::Reopen, 0));
        }
        if let Some(expected) = self.unanswered.expected_before(publish.first) {
            return Some((Code::Expected, expected));
        }
        // One frame is always taken when nothing else is unanswered.
        let waiting = &self.unanswered;
        let over = waiting.messages() > 0
            && (waiting.messages() + u64::from(publish.messages) > settings.publish_window_messages
                || waiting.bytes() + publish.records.len() as u64 > settings.publish_window_bytes);
        over.then_some((Code::Busy, 0))
    }
}

impl Session {
    pub(super) fn announce_topics(&mut self, topics: &Topics, out: &mut Output) -> Result<(), (Code, String)> {
        for (id, name) in topics.topics.iter() {
            if id as usize != self.topics.len() {
                let wanted = self.topics.len();
                return Err((Code::BadFrame, format!("topic id {id} is announced, ids are dense: {wanted} is next")));
            }
            if self.topics.len() > self.node.settings.topics_max as usize {
                return Err((Code::TooManyTopics, format!("{id} topics on one connection")));
            }
            match self.node.topic(name) {
                Ok(topic) => self.topics.push(topic.0),
                Err((code, text)) => {
                    self.topics.push(0);
                    self.refused_topics.insert(id, code);
                    self.fail(CHANNEL_TOPICS, code, (u64::from(id), 0), &text, out);
                }
            }
        }
        Ok(())
    }

    pub(super) fn open_publisher(
        &mut self,
        now: i64,
        channel: u16,
        open: &OpenPublisher,
        out: &mut Output,
    ) -> Result<(), (Code, String)> {
        if let Some(publisher) = self.publishers.get(&channel)
            && !publisher.named
        {
            if !publisher.unanswered.is_empty() {
                return Err((Code::BadFrame, format!("channel {channel} is an anonymous publisher already")));
            }
            // After a void it begins anew, under another id.
            let one = std::iter::once((channel, publisher.key, publisher.epoch));
            self.node.engine.lock().release_publishers(self.number, one);
        }
        if open.name.len() > 255 || open.name.chars().any(char::is_control) {
            let text = "a publisher's name has at most 255 bytes and no control character";
            self.fail(channel, Code::BadRecord, (0, 0), text, out);
            return Ok(());
        }
        self.tenants = self.tenants.wrapping_add(1);
        let address = Address { session: self.number, channel, tenant: self.tenants, about: About::Open };
        let opened = self.node.engine.lock().open_publisher(now, address, &open.name, open.next);
        let opened = match opened {
            Ok(opened) => opened,
            Err(Refused { code, detail }) => {
                self.publishers.remove(&channel);
                let text = match code {
                    Code::TooManyPublishers => format!("{detail} publishers are kept, publishers-max is reached"),
                    code => code.text().to_string(),
                };
                self.fail(channel, code, (detail, 0), &text, out);
                return Ok(());
            }
        };
        self.node.work.notify_one();
        let named = !open.name.is_empty();
        let publisher = Channel {
            key: PublisherKey(opened.id),
            epoch: opened.epoch,
            tenant: self.tenants,
            open: !named,
            last_consumed: opened.next - 1,
            named,
            unanswered: Unanswered::default(),
            closing: false,
        };
        if !named {
            push_opened(channel, &publisher, out);
        }
        self.publishers.insert(channel, publisher);
        Ok(())
    }

    pub(super) fn publish(
        &mut self,
        now: i64,
        channel: u16,
        publish: &Publish,
        out: &mut Output,
    ) -> Result<(), (Code, String)> {
        let counters = &self.node.counters;
        add(&counters.publishes, u64::from(publish.messages));
        add(&counters.publish_bytes, publish.records.len() as u64);
        let pieces = self.check_records(publish)?;
        // Without a publisher it was under way when the channel ended, and that was told.
        let Some(publisher) = self.publishers.get_mut(&channel) else { return Ok(()) };
        if let Some(why) = publisher.turns_away(publish, &self.node.settings) {
            if !publisher.unanswered.turn_away(publish.first, publish.messages, publish.level, why) {
                return Err((
                    Code::Busy,
                    "a publisher sends far beyond its window and does not wait for replies".into(),
                ));
            }
            self.push_answered(channel, &mut Vec::new(), out);
            return Ok(());
        }
        let condition = match &publish.condition {
            None => None,
            Some(condition) => {
                let filter = Filter::new(&condition.filter).map_err(|bad| (Code::BadFilter, bad.to_string()))?;
                Some((condition.sequence, filter))
            }
        };
        let address = Address { session: self.number, channel, tenant: publisher.tenant, about: About::Publish };
        let level = match publish.level {
            AckLevel::Durable => Level::Durable,
            AckLevel::Sequenced => Level::Sequenced,
        };
        let (key, epoch) = (publisher.key, publisher.epoch);
        let mut first = publish.first;
        let mut engine = self.node.engine.lock();
        for piece in pieces {
            publisher.unanswered.push(first, piece.messages, piece.bytes.len());
            let part = ClientPublish {
                address,
                publisher: key,
                epoch,
                first,
                messages: piece.messages,
                level,
                atomic: publish.atomic,
                condition: condition.clone(),
                records: &publish.records[piece.bytes],
                topics: &self.topics,
            };
            let taken = match piece.refused {
                None => engine.publish(now, &part),
                Some(code) => engine.refuse(now, &part, code),
            };
            if let Err(Refused { code, detail }) = taken {
                publisher.unanswered.turn_last_away(publish.level, code, detail);
            }
            first += u64::from(piece.messages);
        }
        drop(engine);
        self.node.work.notify_one();
        self.push_answered(channel, &mut Vec::new(), out);
        Ok(())
    }

    /// Cuts the frame into pieces of one fate each; an error ends the connection, since the records can't be told apart.
    fn check_records(&self, publish: &Publish) -> Result<Vec<Piece>, (Code, String)> {
        let bytes = &publish.records;
        if publish.messages == 0 || publish.messages > FRAME_MESSAGES_MAX {
            let text = format!("a publish frame of {} messages: 1 to {FRAME_MESSAGES_MAX} are taken", publish.messages);
            return Err((Code::BadFrame, text));
        }
        let too_large = publish.atomic && (publish.messages > ATOMIC_MESSAGES_MAX || bytes.len() > ATOMIC_BYTES_MAX);
        let mut pieces: Vec<Piece> = Vec::with_capacity(1);
        let mut at = 0;
        let mut count = 0;
        while at < bytes.len() {
            let record =
                Record::read(&bytes[at..]).map_err(|bad| (Code::BadRecord, format!("record {count}: {bad}")))?;
            let end = at + record.bytes().len();
            let refused = self.check_record(&record, publish);
            match pieces.last_mut() {
                Some(piece) if piece.refused == refused => {
                    piece.bytes.end = end;
                    piece.messages += 1;
                }
                _ => pieces.push(Piece { bytes: at..end, messages: 1, refused }),
            }
            at = end;
            count += 1;
        }
        if count != publish.messages {
            return Err((Code::BadFrame, format!("{} messages are told, there are {count} records", publish.messages)));
        }
        let refused = if too_large { Some(Code::BatchTooLarge) } else { pieces.iter().find_map(|piece| piece.refused) };
        if (publish.atomic || publish.condition.is_some()) && refused.is_some() {
            return Ok(vec![Piece { bytes: 0..bytes.len(), messages: count, refused }]);
        }
        Ok(pieces)
    }

    fn check_record(&self, record: &Record<'_>, publish: &Publish) -> Option<Code> {
        let header = record.header();
        if record.payload().len() as u64 > self.node.settings.payload_bytes_max {
            return Some(Code::PayloadTooLarge);
        }
        let id = record.topic();
        if id == 0 || id as usize >= self.topics.len() {
            return Some(Code::BadTopic);
        }
        if !self.refused_topics.is_empty()
            && let Some(code) = self.refused_topics.get(&id)
        {
            return Some(*code);
        }
        let flags = header.flags.get();
        let named = record.condition();
        let wants = publish.condition.as_ref().map(|condition| condition.sequence);
        let told = if flags & FLAG_CONDITIONAL != 0 { named } else { None };
        let condition_fits = named == told && (named.is_none() || named == wants);
        let extensions_fit =
            record.extension_bytes().is_empty() || Extensions(record.extension_bytes()).all(|e| e.is_ok());
        let fitting = FLAG_CONDITIONAL | if publish.atomic { FLAG_ATOMIC_FIRST | FLAG_ATOMIC_LAST } else { 0 };
        if flags & !fitting != 0 || !condition_fits || !extensions_fit {
            return Some(Code::BadRecord);
        }
        None
    }

    pub(super) fn skip(&mut self, now: i64, channel: u16, next: u64, out: &mut Output) -> Result<(), (Code, String)> {
        let Some(publisher) = self.publishers.get(&channel) else { return Ok(()) };
        let address = Address { session: self.number, channel, tenant: publisher.tenant, about: About::Skip };
        let skipped = self.node.engine.lock().skip(now, address, publisher.key, publisher.epoch, next);
        match skipped {
            Ok(()) => {
                self.node.work.notify_one();
            }
            Err(Refused { code, detail }) => {
                push_replies(channel, &[direct(next, 0, AckLevel::Durable, code, detail)], out);
            }
        }
        Ok(())
    }

    pub(super) fn close_publisher(&mut self, channel: u16, out: &mut Output) -> Result<(), (Code, String)> {
        let Some(publisher) = self.publishers.get_mut(&channel) else { return Ok(()) };
        publisher.closing = true;
        self.close_if_done(channel, out);
        Ok(())
    }

    fn close_if_done(&mut self, channel: u16, out: &mut Output) {
        let done = self.publishers.get(&channel).is_some_and(|p| p.closing && p.unanswered.is_empty() && p.open);
        if done && let Some(publisher) = self.publishers.remove(&channel) {
            let one = std::iter::once((channel, publisher.key, publisher.epoch));
            self.node.engine.lock().release_publishers(self.number, one);
            out.push(channel, &Frame::Closed(Closed {}));
        }
    }

    pub(super) fn drop_publisher(
        &mut self,
        now: i64,
        channel: u16,
        name: &Text,
        out: &mut Output,
    ) -> Result<(), (Code, String)> {
        let address = Address { session: self.number, channel, tenant: 0, about: About::Drop };
        let dropped = self.node.engine.lock().drop_publisher(now, address, name);
        match dropped {
            Ok(()) => {
                self.node.work.notify_one();
            }
            Err(Refused { code, detail }) => {
                self.fail(channel, code, (detail, 0), &format!("publisher {:?}: {}", name.as_str(), code.text()), out);
            }
        }
        Ok(())
    }

    /// What the ledger let out: neighbouring replies of one publisher share a frame.
    pub(super) fn replies(&mut self, mail: &mut Vec<Mail>, out: &mut Output) {
        let mut rows: Vec<arioso_wire::Reply> = Vec::new();
        let mut rows_channel = 0;
        for mail in mail.drain(..) {
            match mail {
                // The channel may stand for another publisher by now, or for none.
                Mail::Reply(address, _) if address.about != About::Drop && !self.is_for_its_publisher(address) => {}
                Mail::Reply(address, reply) if address.about == About::Publish => {
                    if address.channel != rows_channel {
                        self.push_answered(rows_channel, &mut rows, out);
                        rows_channel = address.channel;
                    }
                    rows.push(wire_reply(&reply));
                }
                Mail::Reply(address, reply) => {
                    self.push_answered(rows_channel, &mut rows, out);
                    self.control_reply(address, &reply, out);
                }
                Mail::Fenced { channel } => {
                    self.push_answered(rows_channel, &mut rows, out);
                    if self.publishers.remove(&channel).is_some() {
                        self.fail(channel, Code::Fenced, (0, 0), "another holder opened this publisher", out);
                    }
                }
                Mail::Lost => {
                    self.push_answered(rows_channel, &mut rows, out);
                    self.fail(0, Code::Internal, (0, 0), "the journal is lost; the server stops", out);
                    self.state = State::Closing;
                }
            }
        }
        self.push_answered(rows_channel, &mut rows, out);
    }

    fn is_for_its_publisher(&self, address: Address) -> bool {
        self.publishers.get(&address.channel).is_some_and(|publisher| publisher.tenant == address.tenant)
    }

    /// Sends what the engine answered, and what was turned away behind it.
    fn push_answered(&mut self, channel: u16, answered: &mut Vec<arioso_wire::Reply>, out: &mut Output) {
        let mut rows = Vec::with_capacity(answered.len());
        match self.publishers.get_mut(&channel) {
            None => rows.append(answered),
            Some(publisher) => {
                let waiting = &mut publisher.unanswered;
                rows.extend(std::iter::from_fn(|| waiting.next_turned_away()));
                for row in answered.drain(..) {
                    waiting.answered(row.messages);
                    rows.push(row);
                    rows.extend(std::iter::from_fn(|| waiting.next_turned_away()));
                }
            }
        }
        if rows.is_empty() {
            return;
        }
        for row in &rows {
            add(&self.node.counters.replies, u64::from(row.messages));
            if matches!(row.code, Code::Busy | Code::Expected | Code::DiskFull) {
                add(&self.node.counters.busy, u64::from(row.messages));
            }
        }
        push_replies(channel, &rows, out);
        if self.publishers.get(&channel).is_some_and(|publisher| publisher.closing) {
            self.close_if_done(channel, out);
        }
    }

    fn control_reply(&mut self, address: Address, reply: &Reply, out: &mut Output) {
        let channel = address.channel;
        let ok = matches!(reply.verdict, Verdict::Ok { .. });
        let code = wire_reply(reply).code;
        match address.about {
            About::Open => {
                let Some(publisher) = self.publishers.get_mut(&channel) else { return };
                if ok {
                    publisher.open = true;
                    push_opened(channel, publisher, out);
                } else if reply.verdict != Verdict::Unknown {
                    // Where the outcome is not known the connection ends.
                    self.publishers.remove(&channel);
                    self.fail(channel, code, (0, 0), code.text(), out);
                }
            }
            About::Skip => {
                let number = reply.first_publisher_sequence;
                push_replies(channel, &[direct(number, 0, AckLevel::Durable, code, 0)], out);
            }
            About::Drop if ok => {
                let done = arioso_wire::Answer { more: false, rows: Rows::Done { kind: 3 } };
                out.push(channel, &Frame::Answer(done));
            }
            About::Drop => self.fail(channel, code, (0, 0), code.text(), out),
            About::Publish => panic!("publish replies are gathered"),
        }
    }
}

fn push_opened(channel: u16, publisher: &Channel, out: &mut Output) {
    let opened =
        PublisherOpened { publisher: publisher.key.0, epoch: publisher.epoch, last_consumed: publisher.last_consumed };
    out.push(channel, &Frame::PublisherOpened(opened));
}

fn push_replies(channel: u16, rows: &[arioso_wire::Reply], out: &mut Output) {
    let mut writer = ListWriter::begin::<Replies>(channel, out.buffer());
    for row in rows {
        writer.push(row);
    }
    writer.finish();
}

fn direct(first: u64, messages: u32, level: AckLevel, code: Code, detail: u64) -> arioso_wire::Reply {
    arioso_wire::Reply {
        first,
        messages,
        code,
        level,
        sequence: arioso_stream::Sequence(detail),
        retry_after_ms: retry_after_ms(code),
    }
}

fn wire_reply(reply: &Reply) -> arioso_wire::Reply {
    let (code, level, sequence) = match reply.verdict {
        Verdict::Ok { first, level } => (Code::Ok, level, first.0),
        Verdict::Refused { code, detail } => (Code::from_number(code), Level::Durable, detail),
        Verdict::Failed => (Code::Failed, Level::Durable, 0),
        Verdict::Reopen => (Code::Reopen, Level::Durable, 0),
        Verdict::Unknown => (Code::Unknown, Level::Durable, 0),
    };
    let level = match level {
        Level::Durable => AckLevel::Durable,
        Level::Sequenced => AckLevel::Sequenced,
    };
    direct(reply.first_publisher_sequence, reply.messages, level, code, sequence)
}
