//! The steps that publish: in this process, on a server that is killed, and again after it.

use std::collections::VecDeque;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arioso::{Begin, Bus, Message, Options, Publisher, Receipt, Sequence, Subscription};

use super::home::Home;
use super::say::{bytes, count, rate, time};
use super::table::{Checked, Reading, Table};
use super::tree::{self, Why};
use super::{Demo, SMALL_TIP_BYTES, lock};
use crate::fail::{Done, Failure};
use crate::progress::Progress;

/// The named publisher.
const NAME: &str = "demo";
/// Tells the live subscription that nothing more comes.
const LAST_TOPIC: &str = "demo/last";
/// Messages that may wait for their answers; in a small tree a twentieth of all.
const UNANSWERED_MAX: u64 = 256;
/// Bytes of payloads that may wait for their answers; they are held in case they have to be sent again.
const UNANSWERED_BYTES_MAX: usize = 8 << 20;
/// Acknowledged messages that are sent again as well.
const AGAIN_MAX: usize = 64;
/// And their bytes.
const AGAIN_BYTES_MAX: usize = 4 << 20;
/// How long a server that was killed is looked for.
const GONE_AFTER: Duration = Duration::from_millis(20);

/// A file on its way.
struct File {
    topic: String,
    payload: Vec<u8>,
}

/// A message that may have to be sent again.
pub struct Sent {
    number: u64,
    file: File,
    /// `None`: not answered.
    acknowledged: Option<Sequence>,
}

/// How long it took from a message's stamp until a live subscription had it, in powers of two of a microsecond.
struct Delays([u64; 40]);

impl Delays {
    fn note(&mut self, stamp_ns: i64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i64);
        let us = u64::try_from((now - stamp_ns) / 1_000).unwrap_or(0).max(1);
        self.0[(us.ilog2() as usize + 1).min(39)] += 1;
    }

    /// At most this long for so many in a hundred.
    fn within(&self, percent: u64) -> Duration {
        let all: u64 = self.0.iter().sum();
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += count;
            seen * 100 >= all * percent
        });
        Duration::from_micros(1 << at.unwrap_or(0))
    }
}

/// What a live subscription came to.
struct Followed {
    checked: Checked,
    delays: Delays,
}

impl Demo {
    /// The next file that can be read, noted in the table.
    fn next_file(&mut self) -> Option<File> {
        loop {
            let found = self.walk.next(&mut self.left)?;
            let payload = match tree::load(&found) {
                Ok(payload) => payload,
                Err((why, what)) => {
                    self.left.add(why, what);
                    continue;
                }
            };
            let in_slice = self.plan.slice.has(&found.topic);
            if self.table().expect(&found.topic, &payload, in_slice) {
                return Some(File { topic: found.topic, payload });
            }
            self.left.add(Why::NoTopic, format!("{}: the demo can't tell it from another one", found.path.display()));
        }
    }

    /// Step: the first part of the files, by an anonymous publisher, while a subtree is followed.
    pub fn publish_and_follow(&mut self, bus: &Bus) -> Done {
        self.say.step("Publish, and follow a subtree live")?;
        let live = self.plan.live.filter();
        let (goal, goal_bytes) = (self.plan.files * 6 / 10, self.plan.bytes * 6 / 10);
        self.say.line(&format!(
            "The bus runs inside this process. Every message is on disk (fdatasync) before it is acknowledged; {live} is followed meanwhile."
        ))?;
        let following = bus.subscribe([&*live, LAST_TOPIC], Begin::Live, false).map_err(Failure::new)?;
        let following = self.follow(following)?;
        let publisher = bus.publisher(None).map_err(Failure::new)?;
        let before = counts(bus);
        let began = Instant::now();
        let mut progress = Progress::new("publishing", Some(goal_bytes));
        let mut waiting: VecDeque<(String, Receipt)> = VecDeque::new();
        let (mut messages, mut sent_bytes, mut in_live) = (0, 0, 0);
        while messages < goal
            && let Some(file) = self.next_file()
        {
            let receipt = publisher.send(&file.topic, Message::new(&file.payload)).map_err(Failure::new)?;
            messages += 1;
            sent_bytes += file.payload.len() as u64;
            in_live += u64::from(self.plan.live.has(&file.topic));
            waiting.push_back((file.topic, receipt));
            if waiting.len() >= self.unanswered_max() {
                self.answer(&mut waiting)?;
            }
            progress.set(goal_bytes * messages / goal.max(1));
        }
        while !waiting.is_empty() {
            self.answer(&mut waiting)?;
        }
        drop(progress);
        let took = began.elapsed();
        publisher.publish(LAST_TOPIC, Message::new(b"")).map_err(Failure::new)?;
        let after = counts(bus);
        let followed = following.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let (batches, syncs) = (after.batches - before.batches, after.syncs - before.syncs);
        self.say.line(&format!(
            "{} messages, {}, acknowledged in {}: {}/s, {}/s.",
            count(messages),
            bytes(sent_bytes),
            time(took),
            count(rate(messages, took)),
            bytes(rate(sent_bytes, took))
        ))?;
        self.say.line(&format!(
            "They went to disk in {} batches with {} fdatasyncs, {:.1} messages each: whoever waits shares the next one.",
            count(batches),
            count(syncs),
            messages as f64 / syncs.max(1) as f64
        ))?;
        self.say.line(&format!(
            "{live} delivered {} of them meanwhile, half within {}, 99 % within {} of getting their number.",
            count(followed.checked.messages),
            time(followed.delays.within(50)),
            time(followed.delays.within(99))
        ))?;
        let complete = followed.checked.messages == in_live;
        let of = count(in_live);
        self.say.check_none(followed.checked.problem(), "live: in order, once, byte for byte the files")?;
        self.say.check(complete, &format!("live: all {of} messages of the subtree, nothing else"))?;
        Ok(())
    }

    fn unanswered_max(&self) -> usize {
        (self.plan.files / 20).clamp(1, UNANSWERED_MAX) as usize
    }

    /// Follows until [`LAST_TOPIC`], on a thread of its own.
    fn follow(&self, mut following: Subscription) -> Result<JoinHandle<Result<Followed, Failure>>, Failure> {
        let table = std::sync::Arc::clone(&self.table);
        let follow = move || {
            let mut followed = Followed { checked: Checked::new(Reading::Live), delays: Delays([0; 40]) };
            while let Some(batch) = following.next_batch().map_err(Failure::new)? {
                for message in batch.messages() {
                    let message = message.map_err(Failure::new)?;
                    if message.topic() == LAST_TOPIC {
                        return Ok(followed);
                    }
                    followed.delays.note(message.timestamp());
                    followed.checked.message(&mut lock(&table), &message);
                }
            }
            Err(Failure::new("the live subscription ended by itself"))
        };
        Ok(std::thread::Builder::new().name("arioso-follow".into()).spawn(follow)?)
    }

    fn answer(&mut self, waiting: &mut VecDeque<(String, Receipt)>) -> Done {
        let Some((topic, receipt)) = waiting.pop_front() else { return Ok(()) };
        let ack = receipt.wait().map_err(|error| Failure::new(format!("publishing {topic}: {error}")))?;
        self.table().acknowledged(&topic, ack.sequence);
        Ok(())
    }

    /// Step: a named publisher on a server of its own, which is killed while messages are on their way. Gives what may have
    /// to be sent again.
    pub fn kill_under_load(&mut self) -> Result<VecDeque<Sent>, Failure> {
        self.say.step("Kill the server under load")?;
        let began = Instant::now();
        let address = self.home.start_server(self.segment_bytes())?;
        self.say.line(&format!(
            "The bus was closed; a server (a process of its own) opened its directory and listens on {address} after {}.",
            time(began.elapsed())
        ))?;
        let options = Options { name: "arioso demo".into(), unreachable_after: Some(GONE_AFTER), ..Options::default() };
        let bus = Bus::connect_with(&address, options).map_err(Failure::new)?;
        let publisher = bus.publisher(Some(NAME)).map_err(Failure::new)?;
        let goal = (self.plan.files / 5).max(1);
        let mut load = Load::new(self.unanswered_max(), 0);
        while load.acknowledged < goal
            && let Some(file) = self.next_file()
        {
            load.send(&publisher, file)?;
            while load.is_full() {
                load.answer(&mut self.table())?;
            }
        }
        let (signal, cut) = self.kill_and_count(&mut load, &self.home)?;
        drop(publisher);
        // It has nobody to say goodbye to.
        drop(bus.close());
        self.say.line(&format!(
            "{} messages of the publisher {NAME:?} were acknowledged over TCP; then the server got SIGKILL, with {cut} on their way.",
            count(load.acknowledged)
        ))?;
        self.say.check(signal == Some(9), "the server died of signal 9, without a word")?;
        Ok(load.sent)
    }

    fn kill_and_count(&self, load: &mut Load, home: &Home) -> Result<(Option<i32>, u64), Failure> {
        let signal = home.kill_server()?;
        let mut cut = 0;
        while !load.receipts.is_empty() {
            cut += u64::from(load.answer(&mut self.table()).is_err());
        }
        Ok((signal, cut))
    }

    /// Step: the directory is opened again, in this process, with a small tip.
    pub fn start_again(&mut self) -> Result<Bus, Failure> {
        self.say.step("Start again after the kill")?;
        let began = Instant::now();
        let bus = self.open(SMALL_TIP_BYTES)?;
        let took = began.elapsed();
        let found = bus.recovered().ok_or_else(|| Failure::new("an embedded bus tells what it found"))?;
        self.say.line(&format!(
            "Open again in {}: {} of segments without a footer were read, all else is told by footers and checkpoints.",
            time(took),
            bytes(found.scanned_bytes)
        ))?;
        let torn = match &found.torn {
            Some(torn) => format!("{torn}: never acknowledged, not part of the stream"),
            None => "nothing was half written".into(),
        };
        self.say.line(&format!(
            "Numbering goes on at {}, above all that may have been given out; {torn}.",
            count(found.next_sequence.0)
        ))?;
        self.say.check(!found.clean, "the stop is known to have been unclean")?;
        self.say.check(found.damage.is_empty() && found.repairs.is_empty(), "nothing is damaged")?;
        Ok(bus)
    }

    /// Step: what was on its way is sent again under its old numbers, and some of what was acknowledged too; then the rest.
    pub fn retry(&mut self, bus: &Bus, sent: VecDeque<Sent>) -> Done {
        self.say.step("Send again, stored once")?;
        let first = sent.front().map_or(0, |sent| sent.number);
        let next_before = bus.recovered().map_or(0, |found| found.next_sequence.0);
        let publisher = bus.publisher_at(NAME, first).map_err(Failure::new)?;
        let (mut again, mut open, mut stored_before, mut moved) = (0, 0, 0, 0);
        let numbers = sent.back().map_or(0, |sent| sent.number);
        for Sent { file, acknowledged, .. } in sent {
            let ack = publisher.publish(&file.topic, Message::new(&file.payload)).map_err(Failure::new)?;
            match acknowledged {
                Some(before) => {
                    again += 1;
                    moved += u64::from(before != ack.sequence);
                }
                None => {
                    open += 1;
                    stored_before += u64::from(ack.sequence.0 < next_before);
                    self.table().acknowledged(&file.topic, ack.sequence);
                }
            }
        }
        self.say.line(&format!(
            "The publisher {NAME:?} came back and sent {again} acknowledged messages again, and the {open} unanswered ones."
        ))?;
        self.say.line(&format!(
            "Of those {stored_before} had been stored before the kill, only the answer was lost; {} are stored now.",
            open - stored_before
        ))?;
        self.say.check(moved == 0, "every acknowledged message was answered with its old number")?;
        let mut load = Load::new(self.unanswered_max(), numbers);
        while let Some(file) = self.next_file() {
            load.send(&publisher, file)?;
            while load.is_full() {
                load.answer(&mut self.table())?;
            }
        }
        while !load.receipts.is_empty() {
            load.answer(&mut self.table())?;
        }
        let last = load.numbers;
        publisher.close().map_err(Failure::new)?;
        self.say.line(&format!("The rest followed: {} messages.", count(load.acknowledged)))?;
        let told = bus.publishers().map_err(Failure::new)?.into_iter().find(|publisher| publisher.name == NAME);
        let told = told.map_or(0, |publisher| publisher.last);
        self.say.check(told == last, &format!("the bus knows the publisher's last number, {}", count(last)))?;
        Ok(())
    }
}

/// Messages of the named publisher: on their way, and kept in case they have to be sent again.
struct Load {
    unanswered_max: usize,
    /// The last number given.
    numbers: u64,
    acknowledged: u64,
    sent: VecDeque<Sent>,
    receipts: VecDeque<Receipt>,
    unanswered_bytes: usize,
    kept_bytes: usize,
}

impl Load {
    fn new(unanswered_max: usize, numbers: u64) -> Load {
        Load {
            unanswered_max,
            numbers,
            acknowledged: 0,
            sent: VecDeque::new(),
            receipts: VecDeque::new(),
            unanswered_bytes: 0,
            kept_bytes: 0,
        }
    }

    fn send(&mut self, publisher: &Publisher, file: File) -> Done {
        let receipt = publisher.send(&file.topic, Message::new(&file.payload)).map_err(Failure::new)?;
        self.numbers += 1;
        self.unanswered_bytes += file.payload.len();
        self.receipts.push_back(receipt);
        self.sent.push_back(Sent { number: self.numbers, file, acknowledged: None });
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.receipts.len() >= self.unanswered_max || self.unanswered_bytes > UNANSWERED_BYTES_MAX
    }

    /// Waits for the oldest answer. An error: there is none.
    fn answer(&mut self, table: &mut Table) -> Done {
        let at = self.sent.len() - self.receipts.len();
        let Some(receipt) = self.receipts.pop_front() else { return Ok(()) };
        let sent = &mut self.sent[at];
        self.unanswered_bytes -= sent.file.payload.len();
        let ack = receipt.wait().map_err(|error| Failure::new(format!("publishing {}: {error}", sent.file.topic)))?;
        sent.acknowledged = Some(ack.sequence);
        table.acknowledged(&sent.file.topic, ack.sequence);
        self.acknowledged += 1;
        self.kept_bytes += sent.file.payload.len();
        self.forget();
        Ok(())
    }

    /// Keeps a few of the acknowledged ones.
    fn forget(&mut self) {
        loop {
            let acknowledged = self.sent.len() - self.receipts.len();
            let over = acknowledged > AGAIN_MAX || self.kept_bytes > AGAIN_BYTES_MAX;
            let Some(sent) = self.sent.pop_front_if(|sent| over && sent.acknowledged.is_some()) else { return };
            self.kept_bytes -= sent.file.payload.len();
        }
    }
}

struct Counts {
    batches: u64,
    syncs: u64,
}

fn counts(bus: &Bus) -> Counts {
    Counts {
        batches: super::reading::counted(bus, "arioso_journal_batches_total"),
        syncs: super::reading::counted(bus, "arioso_journal_syncs_total"),
    }
}
