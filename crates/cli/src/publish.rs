//! `arioso pub`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arioso::{AckLevel, Bus, Expect, Message, Publisher, Receipt, RecordBlock, Sequence, TopicId};
use arioso_stream::topic::Topic;
use serde_json::json;

use crate::args::{Ack, PubArgs};
use crate::connect::{connect, failed};
use crate::fail::{Done, Failure};
use crate::jsonl;
use crate::progress::Progress;

/// Blocks that wait for their answers, a quarter of a MiB each at most.
const BLOCKS_UNANSWERED: usize = 64;
/// A line longer than this can't be a message: the largest payload in base64, with room.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// The largest payload read from standard input.
const PAYLOAD_BYTES_MAX: u64 = 16 << 20;

/// Publishes.
pub fn run(arguments: &PubArgs) -> Done {
    check(arguments)?;
    let bus = connect(&arguments.at)?;
    let fail = failed(&arguments.at, "publishing");
    let publisher = bus.publisher(arguments.publisher.as_deref()).map_err(&fail)?;
    match &arguments.jsonl {
        Some(source) => many(arguments, publisher, source)?,
        None => one(arguments, &publisher)?,
    }
    close(bus, fail)
}

/// What can be judged before there is a connection.
fn check(arguments: &PubArgs) -> Done {
    for (flag, given) in [("--skip-bad", arguments.skip_bad), ("--ignore-unknown", arguments.ignore_unknown)] {
        if given && arguments.jsonl.is_none() {
            return Err(Failure::Use(format!("{flag} is about JSON lines: --jsonl FILE is wanted")));
        }
    }
    if let Some(topic) = &arguments.topic {
        let publishable = Topic::new(topic).and_then(Topic::check_publishable);
        publishable.map_err(|error| Failure::Use(error.to_string()))?;
    }
    arguments.expect.as_deref().map(expect).transpose().map(drop)
}

/// The filter and the sequence of `--expect`.
fn expect(text: &str) -> Result<Expect<'_>, Failure> {
    let parsed = text.rsplit_once('=').and_then(|(filter, seq)| Some((filter, seq.parse().ok()?)));
    let wrong = || Failure::Use(format!("--expect {text:?}: FILTER=SEQ is wanted, such as orders/eu/4711=17"));
    let (filter, newest) = parsed.ok_or_else(wrong)?;
    Ok(Expect { filter, newest: Sequence(newest) })
}

fn close(bus: Bus, fail: impl Fn(arioso::Error) -> Failure) -> Done {
    bus.close().map_err(fail)
}

fn level(ack: Ack) -> AckLevel {
    match ack {
        Ack::Durable => AckLevel::Durable,
        Ack::Sequenced => AckLevel::Sequenced,
    }
}

fn one(arguments: &PubArgs, publisher: &Publisher) -> Done {
    let topic = arguments.topic.as_deref().unwrap_or_default();
    let payload = match &arguments.payload {
        Some(payload) => payload.clone().into_bytes(),
        None => {
            let mut bytes = Vec::new();
            io::stdin().lock().take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
            bytes
        }
    };
    let expect = arguments.expect.as_deref().map(expect).transpose()?;
    let message = Message { level: level(arguments.ack), condition: expect, ..Message::new(&payload) };
    let ack = publisher.publish(topic, message).map_err(failed(&arguments.at, &format!("publishing on {topic:?}")))?;
    writeln!(io::stdout(), "{}", json!({ "seq": ack.sequence.0 }))?;
    Ok(())
}

/// Counts the bytes that pass, for the progress bar.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

type Lines = Box<dyn BufRead>;

fn open(source: &str) -> Result<(Lines, Option<u64>, Arc<AtomicU64>), Failure> {
    let read = Arc::new(AtomicU64::new(0));
    if source == "-" {
        let counted = Counted(io::stdin().lock(), Arc::clone(&read));
        return Ok((Box::new(BufReader::new(counted)), None, read));
    }
    let wrong = |error: io::Error| Failure::new(format!("{source}: {error}"));
    let file = File::open(source).map_err(wrong)?;
    let total = file.metadata().map_err(wrong)?.len();
    let counted = Counted(file, Arc::clone(&read));
    let lines: Lines = if source.ends_with(".zst") {
        let mut decoder = zstd::Decoder::new(counted).map_err(wrong)?;
        // Windows up to 128 MiB, as long-distance matching makes them.
        decoder.window_log_max(27).map_err(wrong)?;
        Box::new(BufReader::with_capacity(1 << 18, decoder))
    } else if source.ends_with(".gz") {
        Box::new(BufReader::with_capacity(1 << 18, flate2::read::MultiGzDecoder::new(counted)))
    } else {
        Box::new(BufReader::with_capacity(1 << 18, counted))
    };
    Ok((lines, Some(total), read))
}

/// Publishing of many lines, in order.
struct Many<'a> {
    arguments: &'a PubArgs,
    publisher: &'a Publisher,
    block: RecordBlock,
    topics: std::collections::HashMap<String, TopicId>,
    receipts: VecDeque<Receipt>,
    published: u64,
    first: Option<Sequence>,
    last: Option<Sequence>,
}

fn many(arguments: &PubArgs, publisher: Publisher, source: &str) -> Done {
    let (mut lines, total, read) = open(source)?;
    let mut progress = Progress::new("publishing", total);
    let mut many = Many {
        arguments,
        publisher: &publisher,
        block: publisher.block(level(arguments.ack)),
        topics: std::collections::HashMap::new(),
        receipts: VecDeque::new(),
        published: 0,
        first: None,
        last: None,
    };
    let mut line = Vec::new();
    let mut number = 0u64;
    let mut bad = 0u64;
    loop {
        line.clear();
        let got = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let got = got.map_err(|error| Failure::new(format!("{source}, line {}: {error}", number + 1)))?;
        if got == 0 {
            break;
        }
        number += 1;
        if number.is_multiple_of(4_096) {
            progress.set(read.load(Ordering::Relaxed));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if let Err(text) = many.push(&line) {
            bad += 1;
            if !arguments.skip_bad {
                many.finish()?;
                many.report(bad)?;
                let published = many.published;
                return Err(Failure::new(format!(
                    "{source}, line {number}: {text}; the {published} messages before it are published (--skip-bad goes on)"
                )));
            }
        }
    }
    many.finish()?;
    drop(progress);
    many.report(bad)
}

impl Many<'_> {
    fn push(&mut self, line: &[u8]) -> Result<(), String> {
        let parsed = jsonl::parse(line, self.arguments.ignore_unknown)?;
        let topic = match self.topics.get(&*parsed.topic) {
            Some(topic) => *topic,
            None => {
                Topic::new(&parsed.topic).and_then(Topic::check_publishable).map_err(|error| error.to_string())?;
                let topic = self.publisher.topic(&parsed.topic).map_err(|error| error.to_string())?;
                self.topics.insert(parsed.topic.to_string(), topic);
                topic
            }
        };
        let message = Message { event_time: parsed.event_time, ..Message::new(&parsed.payload) };
        if !self.block.push(topic, &message).map_err(|error| error.to_string())? {
            self.send().map_err(|_| "not published".to_string())?;
            self.block.push(topic, &message).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn send(&mut self) -> Done {
        if self.block.is_empty() {
            return Ok(());
        }
        let receipt = self.publisher.send_many(&mut self.block).map_err(failed(&self.arguments.at, "publishing"))?;
        self.receipts.push_back(receipt);
        while self.receipts.len() > BLOCKS_UNANSWERED {
            self.answer()?;
        }
        Ok(())
    }

    fn answer(&mut self) -> Done {
        let Some(receipt) = self.receipts.pop_front() else { return Ok(()) };
        let ack = receipt.wait().map_err(|error| failed(&self.arguments.at, "publishing")(error.into()))?;
        self.published += u64::from(ack.messages);
        self.first.get_or_insert(ack.sequence);
        self.last = Some(ack.last);
        Ok(())
    }

    fn finish(&mut self) -> Done {
        self.send()?;
        while !self.receipts.is_empty() {
            self.answer()?;
        }
        Ok(())
    }

    fn report(&self, bad: u64) -> Done {
        let mut line = json!({ "published": self.published });
        if let (Some(first), Some(last)) = (self.first, self.last) {
            line["first"] = first.0.into();
            line["last"] = last.0.into();
        }
        if bad > 0 {
            line["bad_lines"] = bad.into();
        }
        writeln!(io::stdout(), "{line}")?;
        Ok(())
    }
}
