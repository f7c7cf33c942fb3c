//! Runs the files of tests/scenarios: a command behind `>`, below it what the ledger let out. `UPDATE_EXPECT=1` writes the
//! files anew; the diff is then read.
//!
//! | command | does |
//! |---|---|
//! | `groups N`, `groups per-publisher`, `ceiling N` | begins a ledger |
//! | `publisher NAME GROUP` | puts a publisher into a group; without it, it has an order of its own |
//! | `publish NAME [COUNT] [sequenced] [if SEQ]` | enters messages into the batch that is being built |
//! | `refuse NAME CODE [on SEQ] [sequenced]`, `again NAME SEQ [on SEQ]` | enters a refusal, the answer to a retry |
//! | `open NAME [next N]`, `skip NAME N`, `cursor` | enters a control record |
//! | `write` | closes the batch |
//! | `durable N`, `failed N`, `unknown N` | tells the outcome of a batch |
//! | `void` | enters the void record for all that was asked for |
//! | `judge NAME N anew`, `... withdrawn`, `... refused CODE [on SEQ]` | judges a refusal again |
//! | `lost` | gives up |
//! | `state` | shows `settled_to`, what is open, entries in flight |

use std::collections::BTreeMap;
use std::fmt::Write as _;

use arioso_stream::Sequence;

use crate::backend::Outcome;
use crate::entry::{BatchNumber, Entry, Kind, Level, NO_PUBLISHER, Reply, SequenceRange, Verdict};
use crate::groups::{Group, Groups};
use crate::ledger::Ledger;
use crate::void::{Judgement, Rejudge};

#[derive(Clone, Debug)]
struct Publisher {
    id: u32,
    epoch: u32,
    next: u64,
    group: Group,
}

struct Scenario {
    ledger: Ledger,
    publishers: BTreeMap<String, Publisher>,
    rejudges: Vec<Rejudge>,
    batch: u64,
    batch_first: u64,
    next: u64,
    settled_to: Sequence,
}

impl Scenario {
    fn new(groups: Groups, ceiling: usize) -> Scenario {
        Scenario {
            ledger: Ledger::new(groups, ceiling, Sequence::ZERO),
            publishers: BTreeMap::new(),
            rejudges: Vec::new(),
            batch: 1,
            batch_first: 1,
            next: 1,
            settled_to: Sequence::ZERO,
        }
    }

    fn publisher(&mut self, name: &str) -> &mut Publisher {
        let id = self.publishers.len() as u32 + 1;
        let new = Publisher { id, epoch: 1, next: 1, group: Group::OWN };
        self.publishers.entry(name.to_string()).or_insert(new)
    }

    fn name(&self, id: u32) -> &str {
        let found = self.publishers.iter().find(|(_, p)| p.id == id);
        found.map_or("-", |(name, _)| name)
    }

    /// An entry of a publisher in the batch being built, with what the options of the command say.
    fn entry(&mut self, name: &str, kind: Kind, options: &[&str]) -> Entry {
        let (batch, first) = (BatchNumber(self.batch), Sequence(self.next));
        let publisher = self.publisher(name).clone();
        let level = if options.contains(&"sequenced") { Level::Sequenced } else { Level::Durable };
        Entry {
            kind,
            publisher: publisher.id,
            epoch: publisher.epoch,
            first_publisher_sequence: publisher.next,
            messages: 1,
            first,
            batch,
            level,
            group: publisher.group,
            conditioned_on: after(options, "if").or(after(options, "on")).map(Sequence),
            tag: 0,
        }
    }

    fn enter(&mut self, out: &mut String, name: &str, entry: Entry, numbers: u64) {
        if let Err(busy) = self.ledger.enter(&entry) {
            writeln!(out, "  busy: {busy}").unwrap();
            return;
        }
        let records = match entry.kind {
            Kind::Messages => u64::from(entry.messages),
            Kind::Control => 1,
            Kind::Answer { .. } => 0,
        };
        if records > 0 {
            let range = show(entry.first.0, records);
            writeln!(out, "  {range} in batch {}", self.batch).unwrap();
        }
        self.next += records;
        if numbers > 0 {
            self.publisher(name).next += numbers;
        }
    }

    fn outcome(&mut self, batch: &str, outcome: Outcome) {
        let number = batch.parse().expect("a batch number");
        self.ledger.completed(BatchNumber(number), outcome);
    }

    fn run(&mut self, words: &[&str]) -> String {
        let mut out = String::new();
        match *words {
            ["groups", "per-publisher"] => *self = Scenario::new(Groups::PerPublisher, 1000),
            ["groups", n] => *self = Scenario::new(Groups::Shared(n.parse().unwrap()), 1000),
            ["ceiling", n] => *self = Scenario::new(Groups::Shared(1), n.parse().unwrap()),
            ["publisher", name, group] => {
                self.publisher(name).group = Group(group.parse().unwrap());
            }
            ["publish", name, ref options @ ..] => {
                let count = options.first().and_then(|n| n.parse().ok()).unwrap_or(1);
                let mut entry = self.entry(name, Kind::Messages, options);
                entry.messages = count;
                self.enter(&mut out, name, entry, u64::from(count));
            }
            ["refuse", name, code, ref options @ ..] => {
                let code = code.parse().unwrap();
                let detail = after(options, "on").unwrap_or(0);
                let entry = self.entry(name, Kind::Answer { code, detail }, options);
                self.enter(&mut out, name, entry, 1);
            }
            ["again", name, first, ref options @ ..] => {
                let detail = first.parse().unwrap();
                let entry = self.entry(name, Kind::Answer { code: 0, detail }, options);
                self.enter(&mut out, name, entry, 0);
            }
            ["open", name, ref options @ ..] => {
                let publisher = self.publisher(name);
                publisher.epoch += 1;
                publisher.next = after(options, "next").unwrap_or(publisher.next);
                let entry = self.entry(name, Kind::Control, &[]);
                self.enter(&mut out, name, entry, 0);
            }
            ["skip", name, next] => {
                let entry = self.entry(name, Kind::Control, &[]);
                self.enter(&mut out, name, entry, 0);
                self.publisher(name).next = next.parse().unwrap();
            }
            ["cursor"] => {
                let mut entry = self.entry("cursors", Kind::Control, &[]);
                entry.publisher = NO_PUBLISHER;
                self.publishers.remove("cursors");
                self.enter(&mut out, "", entry, 0);
            }
            ["write"] => {
                let held = show(self.batch_first, self.next - self.batch_first);
                writeln!(out, "  batch {} holds {held}", self.batch).unwrap();
                self.batch += 1;
                self.batch_first = self.next;
            }
            ["durable", batch] => self.outcome(batch, Outcome::Durable),
            ["failed", batch] => self.outcome(batch, Outcome::Failed),
            ["unknown", batch] => self.outcome(batch, Outcome::Unknown),
            ["void"] => {
                let (first, batch) = (Sequence(self.next), BatchNumber(self.batch));
                self.ledger.enter_void(first, batch).expect("room");
                self.next += 1;
                writeln!(out, "  {first} in batch {batch}").unwrap();
            }
            ["judge", name, number, ref judgement @ ..] => self.judge(name, number, judgement),
            ["lost"] => self.ledger.give_up(),
            ["state"] => {
                let open: Vec<SequenceRange> = self.ledger.open_ranges().collect();
                let (to, flight) = (self.ledger.settled_to(), self.ledger.in_flight());
                writeln!(out, "  settled to {to}, open{}, {flight} in flight", list(&open)).unwrap();
            }
            _ => panic!("no such command: {words:?}"),
        }
        self.let_out(&mut out);
        out
    }

    fn judge(&mut self, name: &str, number: &str, judgement: &[&str]) {
        let number: u64 = number.parse().unwrap();
        let id = self.publisher(name).id;
        let at = self.rejudges.iter().position(|ask| ask.publisher == id && ask.first_publisher_sequence == number);
        let ask = self.rejudges.remove(at.expect("asked for"));
        let judgement = match *judgement {
            ["anew"] => Judgement::Anew,
            ["withdrawn"] => Judgement::Withdrawn,
            ["refused", code, ref options @ ..] => Judgement::Answer {
                code: code.parse().unwrap(),
                detail: after(options, "on").unwrap_or(0),
                conditioned_on: after(options, "on").map(Sequence),
            },
            _ => panic!("no such judgement: {judgement:?}"),
        };
        self.ledger.judged(ask.ticket, judgement);
        if judgement == Judgement::Anew {
            self.publisher(name).next = number;
        }
    }

    /// Everything the last command let out.
    fn let_out(&mut self, out: &mut String) {
        let mut replies = Vec::new();
        self.ledger.take_replies(&mut replies);
        for reply in &replies {
            writeln!(out, "  reply {}", self.show_reply(reply)).unwrap();
        }
        let mut settled = Vec::new();
        self.ledger.take_settled(&mut settled);
        if !settled.is_empty() {
            writeln!(out, "  settled{}", list(&settled)).unwrap();
        }
        if let Some(set) = self.ledger.take_void_request() {
            write!(out, "  to void{}, closes", list(&set.ranges)).unwrap();
            for (publisher, epoch) in &set.publishers {
                write!(out, " {}/{epoch}", self.name(*publisher)).unwrap();
            }
            out.push('\n');
        }
        let asked = self.rejudges.len();
        self.rejudges.extend(std::iter::from_fn(|| self.ledger.next_rejudge()));
        for ask in &self.rejudges[asked..] {
            let name = self.name(ask.publisher);
            let last = if ask.last { ", the last" } else { "" };
            writeln!(out, "  judge again {name} {}{last}", ask.first_publisher_sequence).unwrap();
        }
        if self.ledger.settled_to() != self.settled_to {
            self.settled_to = self.ledger.settled_to();
            writeln!(out, "  settled to {}", self.settled_to).unwrap();
        }
    }

    fn show_reply(&self, reply: &Reply) -> String {
        let numbers = show(reply.first_publisher_sequence, u64::from(reply.messages));
        let verdict = match reply.verdict {
            Verdict::Ok { first, level: Level::Durable } => format!("ok {first}"),
            Verdict::Ok { first, .. } => format!("sequenced {first}"),
            Verdict::Refused { code, detail } => format!("refused {code} ({detail})"),
            Verdict::Failed => "failed".to_string(),
            Verdict::Reopen => "reopen".to_string(),
            Verdict::Unknown => "unknown".to_string(),
        };
        format!("{} {numbers} {verdict}", self.name(reply.publisher))
    }
}

/// The number behind a word.
fn after(options: &[&str], word: &str) -> Option<u64> {
    let at = options.iter().position(|option| *option == word)?;
    options.get(at + 1)?.parse().ok()
}

fn show(first: u64, count: u64) -> String {
    match count {
        0 => "nothing".to_string(),
        1 => first.to_string(),
        _ => format!("{first}..{}", first + count - 1),
    }
}

fn list(ranges: &[SequenceRange]) -> String {
    if ranges.is_empty() {
        return " nothing".to_string();
    }
    ranges.iter().fold(String::new(), |mut text, range| {
        let count = range.last.0 - range.first.0 + 1;
        write!(text, " {}", show(range.first.0, count)).unwrap();
        text
    })
}

fn play(text: &str) -> String {
    let mut scenario = Scenario::new(Groups::Shared(1), 1000);
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with("  ")) {
        writeln!(out, "{line}").unwrap();
        if let Some(command) = line.strip_prefix("> ") {
            let words: Vec<&str> = command.split_whitespace().collect();
            out += &scenario.run(&words);
        }
    }
    out
}

#[test]
fn scenarios_go_as_written() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the scenarios are there")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort();
    assert!(files.len() >= 12, "{} scenarios", files.len());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable scenario");
        expect_test::expect_file![path].assert_eq(&play(&text));
    }
}
