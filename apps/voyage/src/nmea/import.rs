//! A whole input through the decoder into a sink.
//!
//! Records leave in order of the line that completes them. A group that never became whole is known
//! late, so records wait while an open group could still come before them: at most
//! [`GROUP_AGE_LINES_MAX`](super::assemble::GROUP_AGE_LINES_MAX) lines.

use std::collections::BTreeMap;
use std::io::Write;

use super::assemble::{Assembler, Incomplete};
use super::clock;
use super::message::Message;
use super::record::{Heard, Outcome, Record};
use super::sentence::{self, Reject};
use crate::error::{Error, Result};
use crate::input::{Input, Line};

/// Where records go.
pub trait Sink {
    /// Takes the next record.
    fn take(&mut self, record: Record) -> Result<()>;
}

/// Writes each record as one line of JSON.
#[derive(Debug)]
pub struct JsonLines<W>(pub W);

impl<W: Write> Sink for JsonLines<W> {
    fn take(&mut self, record: Record) -> Result<()> {
        serde_json::to_writer(&mut self.0, &record).map_err(|e| Error::Write(e.into()))?;
        self.0.write_all(b"\n").map_err(Error::Write)
    }
}

/// How many of each there were.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Lines read.
    pub lines: u64,
    /// Lines that mean to hold a sentence with AIS.
    pub sentences: u64,
    /// Messages.
    pub messages: u64,
    /// Lines without the form of a sentence.
    pub malformed: u64,
    /// Sentences with a wrong checksum.
    pub bad_checksum: u64,
    /// Messages of which a part is missing.
    pub incomplete: u64,
    /// Payloads that are no message.
    pub undecodable: u64,
}

impl Counts {
    fn count(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Message(..) => &mut self.messages,
            Outcome::Malformed => &mut self.malformed,
            Outcome::BadChecksum => &mut self.bad_checksum,
            Outcome::Incomplete { .. } => &mut self.incomplete,
            Outcome::Undecodable(..) => &mut self.undecodable,
        } += 1;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lines, sentences, messages, .. } = self;
        write!(f, "{lines} lines, {sentences} AIS sentences, {messages} messages")?;
        let rejected = [
            (self.malformed, "malformed"),
            (self.bad_checksum, "with a bad checksum"),
            (self.incomplete, "incomplete"),
            (self.undecodable, "undecodable"),
        ];
        rejected.iter().filter(|(n, _)| *n > 0).try_for_each(|(n, what)| write!(f, ", {n} {what}"))
    }
}

/// The decoder between lines and a sink.
#[derive(Debug, Default)]
pub struct Decoder {
    assembler: Assembler,
    given_up: Vec<Incomplete>,
    waiting: BTreeMap<u64, Record>,
    counts: Counts,
    /// The time told by a line before the sentences that it belongs to.
    ahead: Option<i64>,
    /// The time of the line at hand.
    received: Option<i64>,
}

impl Decoder {
    /// Takes the next line of an input.
    pub fn line(&mut self, line: &[u8], sink: &mut dyn Sink) -> Result<()> {
        self.counts.lines += 1;
        self.received = clock::received(line);
        if clock::is_ahead(line) {
            self.ahead = self.received;
        }
        self.received = self.received.or(self.ahead);
        if let Some(sentence) = sentence::find(line) {
            self.counts.sentences += 1;
            self.sentence(self.counts.lines, sentence);
        }
        self.assembler.expire(self.counts.lines, &mut self.given_up);
        self.release(sink)
    }

    /// Ends the input: what is open is incomplete.
    pub fn finish(mut self, sink: &mut dyn Sink) -> Result<Counts> {
        self.assembler.finish(&mut self.given_up);
        self.release(sink)?;
        assert!(self.waiting.is_empty(), "no record waits when no group is open");
        Ok(self.counts)
    }

    fn sentence(&mut self, line: u64, sentence: &[u8]) {
        let outcome = match sentence::parse(sentence) {
            Err(Reject::Malformed) => Outcome::Malformed,
            Err(Reject::BadChecksum) => Outcome::BadChecksum,
            Ok(sentence) => {
                let Some(whole) = self.assembler.take(line, &sentence, &mut self.given_up) else {
                    return;
                };
                let heard = Heard {
                    talker: sentence.talker,
                    kind: sentence.kind,
                    channel: sentence.channel,
                    parts: sentence.parts,
                };
                let outcome = match Message::decode(&whole.bits) {
                    Ok(message) => Outcome::Message(heard, message),
                    Err(why) => Outcome::Undecodable(heard, why),
                };
                return self.put(whole.lines, outcome);
            }
        };
        self.put(vec![line], outcome);
    }

    fn put(&mut self, lines: Vec<u64>, outcome: Outcome) {
        let record = Record { lines, outcome, received: self.received };
        self.counts.count(&record.outcome);
        let before = self.waiting.insert(record.last_line(), record);
        assert!(before.is_none(), "a line completes one record");
    }

    fn release(&mut self, sink: &mut dyn Sink) -> Result<()> {
        for Incomplete { lines, parts, have } in std::mem::take(&mut self.given_up) {
            self.put(lines, Outcome::Incomplete { parts, have });
        }
        let open = self.assembler.earliest_open_line().unwrap_or(u64::MAX);
        while let Some(first) = self.waiting.first_entry().filter(|e| *e.key() < open) {
            sink.take(first.remove())?;
        }
        Ok(())
    }
}

/// Reads `input` to its end into `sink`.
pub fn import(mut input: Input, sink: &mut dyn Sink) -> Result<Counts> {
    let mut decoder = Decoder::default();
    let mut line = Vec::new();
    while let Some(whole) = input.next_line(&mut line)? {
        if whole == Line::Cut {
            line.retain(|b| *b != b'*'); // what is left of it is no sentence any more
        }
        decoder.line(&line, sink)?;
    }
    decoder.finish(sink)
}
