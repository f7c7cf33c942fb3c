//! What clients' applications do: publish, subscribe, lose patience, die.

use std::collections::VecDeque;

use arioso_client::{Expect, Message, RecordBlock, Subscribe};
use arioso_stream::Sequence;
use arioso_stream::filter::{Filter, FilterSet};
use arioso_wire::{AckLevel, Begin, Blob, Request, Text};
use twox_hash::XxHash3_64;

use super::client::{Book, Client, CursorBook, Following, Pace, Publisher, SnapshotAct, snapshot_bytes};
use super::process::AnyLog;
use super::queue::Event;
use super::{BAD_TOPICS, MS, Phase, US, WALL_NS, World};
use crate::Check;
use crate::follow::{Follow, Start};
use crate::model::{Sent, Uid, payload};
use crate::plan::Journal;

/// Publishers of a client.
const PUBLISHERS_MAX: usize = 3;
/// Cursors of a run.
const CURSORS_MAX: usize = 3;
/// Subscriptions of a client; the server allows more.
const FOLLOWS_MAX: usize = 6;

impl World {
    /// One act of a client's application.
    pub(super) fn act(&mut self, client: usize) -> Check {
        if self.phase != Phase::Busy {
            return Ok(());
        }
        if self.steps_left == 0 {
            if self.faults_open == 0 {
                self.calm();
            } else {
                self.queue.push(self.now + 10 * MS, Event::Act(client));
            }
            return Ok(());
        }
        self.steps_left -= 1;
        while let Some((_, fault)) = self.faults.pop_front_if(|(at, _)| *at >= self.steps_left) {
            self.faults_open += 1;
            let at = self.now + self.rng.below(20 * MS);
            self.queue.push(at, Event::Fault(fault));
        }
        if self.backups.begins(self.steps_left) {
            self.queue.push(self.now, Event::BackUp);
        }
        let what = self.rng.below(100);
        match what {
            0..58 => self.publish(client),
            58..64 => self.open_publisher(client),
            64..66 => self.close_publisher(client),
            66..74 => self.subscribe(client),
            74..76 => self.subscribe_by_cursor(client),
            76..79 => self.unsubscribe(client),
            79..82 => self.subscribe_at_mark(client),
            82..86 => self.clients[client].stalled_until = self.now + self.rng.within(20 * MS, 1_000 * MS),
            86..93 => self.change_pace(client),
            93..95 => self.request(client),
            95..97 => self.commit(client),
            97 => self.snapshot(client),
            _ => self.give_back(),
        }
        if self.rng.percent(self.plan.cut_percent) {
            self.cut(client);
        }
        if self.rng.percent(self.plan.restart_percent) {
            self.restart(client);
        }
        self.told(client)?;
        self.wake(client, self.now);
        let pause = if self.rng.percent(50) { 2 * MS } else { 60 * MS };
        let at = self.now + self.rng.within(100 * US, pause);
        self.queue.push(at, Event::Act(client));
        Ok(())
    }

    fn open_publisher(&mut self, client: usize) {
        if self.clients[client].publishers.len() >= PUBLISHERS_MAX {
            return;
        }
        match self.rng.below(10) {
            0..3 => self.open(client, String::new(), None),
            3..5 => {
                let name = format!("shared-{}", self.rng.below(2));
                self.open(client, name, None);
            }
            5..7 => {
                let name = format!("own-{client}-{}", self.rng.below(3));
                self.open(client, name, None);
            }
            _ => {
                let name = format!("book-{client}-{}", self.rng.below(2));
                let known = self.books.iter().position(|book| book.name == name);
                let book = known.unwrap_or_else(|| {
                    let series = self.model.begin_series();
                    self.books.push(Book { name: name.clone(), series, ..Book::default() });
                    self.books.len() - 1
                });
                self.open(client, name, Some(book));
            }
        }
    }

    fn open(&mut self, client: usize, name: String, book: Option<usize>) {
        let in_use = |publisher: &Publisher| !name.is_empty() && publisher.name == name;
        if self.clients[client].publishers.iter().any(in_use) {
            return;
        }
        let (start, series) = match book {
            Some(book) => (self.books[book].answered as u64 + 1, self.books[book].series),
            None => (0, self.model.begin_series()),
        };
        let Ok(id) = self.clients[client].machine.open_publisher(&name, start) else { return };
        self.trace.note(self.now, format_args!("client {client} opens {name:?} from {start} as {id:?}"), &[]);
        let publisher = Publisher { id, name, series, book, waiting: VecDeque::new(), closing: false };
        self.clients[client].publishers.push(publisher);
    }

    fn close_publisher(&mut self, client: usize) {
        let open: Vec<usize> = (0..self.clients[client].publishers.len())
            .filter(|at| {
                let publisher = &self.clients[client].publishers[*at];
                !publisher.closing && publisher.book.is_none_or(|book| self.books[book].unsent.is_empty())
            })
            .collect();
        if open.is_empty() {
            return;
        }
        let at = self.rng.pick(&open);
        let publisher = &mut self.clients[client].publishers[at];
        publisher.closing = true;
        let id = publisher.id;
        self.clients[client].machine.close_publisher(id);
    }

    fn publish(&mut self, client: usize) {
        if self.clients[client].publishers.is_empty() {
            self.open_publisher(client);
        }
        if self.clients[client].publishers.is_empty() {
            return;
        }
        let at = self.rng.index(self.clients[client].publishers.len());
        let publisher = &self.clients[client].publishers[at];
        if publisher.closing {
            return;
        }
        if let Some(book) = publisher.book {
            for _ in 0..self.rng.within(1, 10) {
                let mut sent = self.message(client, at);
                sent.condition = None;
                let uid = self.model.send(sent);
                self.books[book].messages.push(uid);
                self.books[book].unsent.push_back(uid);
            }
            return self.resend_books(client);
        }
        match self.rng.below(20) {
            0..2 => self.publish_atomic(client, at),
            2..4 => self.publish_block(client, at),
            _ => {
                for _ in 0..self.rng.within(1, 12) {
                    let sent = self.message(client, at);
                    if !self.publish_one(client, at, sent) {
                        break;
                    }
                }
            }
        }
    }

    /// A message for a publisher.
    fn message(&mut self, client: usize, at: usize) -> Sent {
        let topics = self.model.topics.len();
        let good = topics - BAD_TOPICS;
        let topic = match self.rng.below(100) {
            0..2 => good + self.rng.index(BAD_TOPICS),
            2..50 => self.rng.index(good.min(3)),
            _ => self.rng.index(good),
        };
        let most = if self.rng.percent(60) { self.plan.payload_bytes_max.min(60) } else { self.plan.payload_bytes_max };
        let publisher = &self.clients[client].publishers[at];
        let (series, named) = (publisher.series, !publisher.name.is_empty());
        let shared = publisher.name.starts_with("shared");
        let condition = self.rng.percent(6).then(|| self.condition(topic)).flatten();
        Sent {
            series,
            topic,
            bytes: self.rng.within(4, most.max(4)) as usize,
            level: if self.rng.percent(75) { AckLevel::Durable } else { AckLevel::Sequenced },
            event_time: self.rng.percent(10).then(|| self.rng.below(1 << 40).cast_signed()),
            atomic: 0,
            condition,
            named,
            shared,
        }
    }

    /// A condition that holds, perhaps.
    fn condition(&mut self, topic: usize) -> Option<(Filter, u64)> {
        let told = self.model.newest_told();
        let (of, newest) = told.filter(|_| self.rng.percent(80)).unwrap_or((topic, 0));
        let of = &self.model.topics[of];
        let text = match self.rng.below(3) {
            0 => "**".to_owned(),
            1 => format!("{}/**", arioso_stream::topic::partition(of)),
            _ => of.clone(),
        };
        Some((Filter::new(&text).ok()?, newest))
    }

    fn publish_one(&mut self, client: usize, at: usize, sent: Sent) -> bool {
        let topic = self.model.topics[sent.topic].clone();
        let uid = self.model.send(sent.clone());
        let bytes = payload(uid, sent.bytes);
        let condition = sent.condition.as_ref();
        let message = Message {
            level: sent.level,
            event_time: sent.event_time,
            condition: condition.map(|(filter, newest)| Expect { filter: filter.as_str(), newest: Sequence(*newest) }),
            ..Message::new(&bytes)
        };
        let id = self.clients[client].publishers[at].id;
        let taken = self.clients[client].machine.publish(id, &topic, &message);
        if taken.is_err() {
            self.model.unsend(uid);
            return false;
        }
        self.clients[client].publishers[at].waiting.push_back(uid);
        self.trace.note(self.now, format_args!("client {client} {id:?} sends {uid}, {:?}", sent.level), &[]);
        true
    }

    fn publish_atomic(&mut self, client: usize, at: usize) {
        let atomic = self.model.begin_atomic();
        let count = self.rng.within(1, 6);
        let mut parts: Vec<(Uid, String, Vec<u8>)> = Vec::new();
        let level = AckLevel::Durable;
        for number in 0..count {
            let mut sent = self.message(client, at);
            (sent.atomic, sent.level) = (atomic, level);
            if number > 0 {
                sent.condition = None;
            }
            let topic = self.model.topics[sent.topic].clone();
            let bytes = sent.bytes;
            let uid = self.model.send(sent);
            parts.push((uid, topic, payload(uid, bytes)));
        }
        let model = &self.model;
        let messages: Vec<(&str, Message<'_>)> = parts
            .iter()
            .map(|(uid, topic, bytes)| {
                let sent = model.sent(*uid);
                let condition = sent.condition.as_ref();
                let expect =
                    condition.map(|(filter, newest)| Expect { filter: filter.as_str(), newest: Sequence(*newest) });
                let message = Message { level, event_time: sent.event_time, condition: expect, ..Message::new(bytes) };
                (topic.as_str(), message)
            })
            .collect();
        let id = self.clients[client].publishers[at].id;
        let taken = self.clients[client].machine.publish_atomic(id, &messages);
        let first = parts[0].0;
        if taken.is_err() {
            self.model.unsend(first);
            return;
        }
        self.clients[client].publishers[at].waiting.extend(parts.iter().map(|part| part.0));
        self.trace.note(self.now, format_args!("client {client} {id:?} sends {first} x{count}, all or none"), &[]);
    }

    fn publish_block(&mut self, client: usize, at: usize) {
        let mut block = RecordBlock::new(AckLevel::Durable);
        let mut uids = Vec::new();
        for _ in 0..self.rng.within(1, 30) {
            let mut sent = self.message(client, at);
            (sent.condition, sent.level) = (None, AckLevel::Durable);
            let topic = self.model.topics[sent.topic].clone();
            let Ok(topic) = self.clients[client].machine.topic(&topic) else { continue };
            let (bytes, event_time) = (sent.bytes, sent.event_time);
            let uid = self.model.send(sent);
            let bytes = payload(uid, bytes);
            let message = Message { event_time, ..Message::new(&bytes) };
            if !matches!(block.push(topic, &message), Ok(true)) {
                self.model.unsend(uid);
                break;
            }
            uids.push(uid);
        }
        let id = self.clients[client].publishers[at].id;
        if self.clients[client].machine.publish_block(id, &mut block).is_err() {
            self.model.unsend(uids[0]);
            return;
        }
        let (first, count) = (uids[0], uids.len());
        self.clients[client].publishers[at].waiting.extend(uids);
        self.trace.note(self.now, format_args!("client {client} {id:?} sends {first} x{count} in a block"), &[]);
    }

    /// Sends what is in the books and not with the machine.
    pub(super) fn resend_books(&mut self, client: usize) {
        for at in 0..self.clients[client].publishers.len() {
            let publisher = &self.clients[client].publishers[at];
            let Some(book) = publisher.book else { continue };
            let id = publisher.id;
            while let Some(uid) = self.books[book].unsent.front().copied() {
                let sent = self.model.sent(uid);
                let bytes = payload(uid, sent.bytes);
                let message = Message { level: sent.level, event_time: sent.event_time, ..Message::new(&bytes) };
                let topic = &self.model.topics[sent.topic];
                if self.clients[client].machine.publish(id, topic, &message).is_err() {
                    break;
                }
                self.books[book].unsent.pop_front();
                self.clients[client].publishers[at].waiting.push_back(uid);
                self.trace.note(
                    self.now,
                    format_args!("client {client} {id:?} sends {uid} from its book, {:?}", sent.level),
                    &[],
                );
            }
        }
    }

    fn filters(&mut self) -> Vec<String> {
        let good = self.model.topics.len() - BAD_TOPICS;
        let count = if self.rng.percent(60) { 1 } else { self.rng.within(1, 6) };
        (0..count)
            .map(|_| {
                let topic = self.model.topics[self.rng.index(good)].clone();
                match self.rng.below(10) {
                    0 => "**".to_owned(),
                    1..4 => topic,
                    4..7 => match topic.rsplit_once('/') {
                        Some((above, _)) if !above.is_empty() => format!("{above}/**"),
                        _ => format!("{topic}/**"),
                    },
                    7 => match topic.rsplit_once('/') {
                        Some((above, _)) => format!("{above}/*"),
                        None => "*".to_owned(),
                    },
                    8 => match topic.split_once('/') {
                        Some((_, below)) => format!("*/{below}"),
                        None => "*/*".to_owned(),
                    },
                    _ => "nothing/here".to_owned(),
                }
            })
            .collect()
    }

    fn subscribe(&mut self, client: usize) {
        let filters = self.filters();
        let settled = self.process.as_ref().map_or(0, |process| process.node.engine.lock().settled_to().0);
        let begin = match self.rng.below(10) {
            0..3 => Begin::Start,
            3 => Begin::Last,
            4..6 => Begin::Live,
            6..8 => Begin::Sequence(Sequence(self.rng.within(0, settled + 5))),
            8 => Begin::Time(WALL_NS + self.rng.below(self.now + 1).cast_signed()),
            _ => Begin::Sequence(Sequence(self.rng.within(settled / 2, settled))),
        };
        self.follow(client, &filters, begin, None);
    }

    /// Takes a cursor, perhaps from somebody else.
    fn subscribe_by_cursor(&mut self, client: usize) {
        if self.cursors.len() < CURSORS_MAX && self.rng.percent(30) {
            let mut filters = self.filters();
            filters.sort_unstable();
            filters.dedup();
            self.cursors.push(CursorBook { filters, ..CursorBook::default() });
        }
        if self.cursors.is_empty() {
            return;
        }
        let cursor = self.rng.index(self.cursors.len());
        let filters = self.cursors[cursor].filters.clone();
        self.follow(client, &filters, Begin::Start, Some(cursor));
    }

    /// Moves a cursor behind what its application took.
    fn commit(&mut self, client: usize) {
        let holding: Vec<_> = self.clients[client]
            .follows
            .iter()
            .filter_map(|following| Some((following.id, following.cursor?.0, following.follow.through)))
            .filter(|(_, _, through)| *through > 0)
            .collect();
        if holding.is_empty() {
            return;
        }
        let (id, cursor, through) = holding[self.rng.index(holding.len())];
        let Some((name, holder_epoch)) = self.clients[client].machine.holder(id) else { return };
        let next = through + 1;
        let request = Request::Commit { name, holder_epoch, next: Sequence(next) };
        if let Ok(id) = self.clients[client].machine.request(request) {
            self.cursors[cursor].asked = self.cursors[cursor].asked.max(next);
            self.clients[client].requests += 1;
            self.clients[client].commits.push((id, cursor, next));
        }
    }

    /// Puts a snapshot of what some subscription has seen, or gets the newest.
    fn snapshot(&mut self, client: usize) {
        // What the journal in memory stands for keeps no files.
        if self.plan.journal != Journal::Local {
            return;
        }
        let name = Text::from("state");
        let throughs: Vec<u64> =
            self.clients[client].follows.iter().map(|following| following.follow.through).collect();
        let as_of = throughs.into_iter().max().filter(|as_of| *as_of > 0 && self.rng.percent(60));
        let (request, act) = match as_of {
            Some(as_of) => {
                let bytes = snapshot_bytes(as_of);
                let (total, hash) = (bytes.len() as u64, XxHash3_64::oneshot(&bytes));
                let as_of_sequence = Sequence(as_of);
                let put = Request::PutSnapshot {
                    name,
                    as_of: as_of_sequence,
                    total,
                    hash,
                    offset: 0,
                    bytes: Blob(bytes.into()),
                };
                (put, SnapshotAct::Put(as_of))
            }
            None => {
                let get = Request::GetSnapshot { name, as_of: Sequence::ZERO, offset: 0, bytes_max: 1 << 20 };
                (get, SnapshotAct::Get(self.snapshot_kept))
            }
        };
        if let Ok(id) = self.clients[client].machine.request(request) {
            self.clients[client].requests += 1;
            self.clients[client].snapshots.push((id, act));
        }
    }

    /// Goes on where a mark of another subscription stands.
    fn subscribe_at_mark(&mut self, client: usize) {
        let follows = &self.clients[client].follows;
        if follows.is_empty() {
            return;
        }
        let of = &follows[self.rng.index(follows.len())].follow;
        if of.marks.is_empty() {
            return;
        }
        let mark = of.marks[self.rng.index(of.marks.len())];
        let filters: Vec<String> = of.filters.iter().map(|filter| filter.as_str().to_owned()).collect();
        self.follow(client, &filters, Begin::Sequence(Sequence(mark + 1)), None);
    }

    fn follow(&mut self, client: usize, filters: &[String], begin: Begin, cursor: Option<usize>) {
        if self.clients[client].follows.len() >= FOLLOWS_MAX {
            return;
        }
        let Ok(set) = FilterSet::parse(filters.iter().map(String::as_str)) else { return };
        let credit_bytes = self.rng.pick(&[1, 2_000, 30_000, 1 << 20]);
        let until_end = self.rng.percent(20);
        let wanted = Subscribe {
            filters: filters.iter().map(|filter| Text::from(filter.as_str())).collect(),
            begin,
            until_end,
            credit_bytes,
            cursor: cursor.map_or(Text::EMPTY, |cursor| Text::from(format!("cursor-{cursor}"))),
        };
        let Ok(id) = self.clients[client].machine.subscribe(wanted) else { return };
        self.follows_count += 1;
        let number = self.follows_count;
        let time = if let Begin::Time(time) = begin { Some(time) } else { None };
        self.trace.note(
            self.now,
            format_args!("client {client} subscription {number} to {filters:?} from {begin:?}, credit {credit_bytes}"),
            &[],
        );
        let follow = Follow::new(number, set, Start::Unknown, &self.model.topics);
        let pace = self.rng.pick(&[Pace::Fast, Pace::Fast, Pace::Slow, Pace::Stuck]);
        self.clients[client].follows.push(Following {
            id,
            follow,
            newest: begin == Begin::Last,
            cursor: cursor.map(|cursor| (cursor, self.cursors[cursor].committed)),
            time,
            pace,
            waiting: VecDeque::new(),
            credit_bytes,
            until: None,
            until_end,
            over: false,
        });
        self.queue.push(self.now + MS, Event::Take(client));
    }

    fn unsubscribe(&mut self, client: usize) {
        let count = self.clients[client].follows.len();
        if count > 0 {
            let at = self.rng.index(count);
            self.leave(client, at);
        }
    }

    fn change_pace(&mut self, client: usize) {
        let count = self.clients[client].follows.len();
        if count > 0 {
            let at = self.rng.index(count);
            let pace = self.rng.pick(&[Pace::Fast, Pace::Slow, Pace::Stuck]);
            self.clients[client].follows[at].pace = pace;
            self.queue.push(self.now, Event::Take(client));
        }
    }

    /// The application takes what was delivered, as fast as it is.
    pub(super) fn take(&mut self, client: usize) -> Check {
        let mut slow = false;
        for at in 0..self.clients[client].follows.len() {
            match self.clients[client].follows[at].pace {
                Pace::Fast => self.take_all(client, at),
                Pace::Slow => {
                    self.take_one(client, at);
                    slow = true;
                }
                Pace::Stuck => {}
            }
        }
        if slow && self.phase == Phase::Busy {
            let at = self.now + self.rng.within(MS, 30 * MS);
            self.queue.push(at, Event::Take(client));
        }
        self.wake(client, self.now);
        Ok(())
    }

    fn request(&mut self, client: usize) {
        let request = match self.rng.below(4) {
            3 => Request::Cursors { after: Text::EMPTY, rows_max: 1_000 },
            0 => Request::Status,
            1 => Request::Topics { filter: Text::from("a/**"), after: Text::EMPTY, rows_max: 1_000 },
            _ => Request::Publishers { after: Text::EMPTY, rows_max: 1_000 },
        };
        if self.clients[client].machine.request(request).is_ok() {
            self.clients[client].requests += 1;
        }
    }

    /// Retention: what is old may go.
    fn give_back(&mut self) {
        if !self.plan.retention {
            return;
        }
        let Some(process) = &mut self.process else { return };
        let settled = process.node.engine.lock().settled_to().0;
        if let AnyLog::Local(log, _) = &mut process.log {
            log.backend().retire_below(self.rng.within(1, settled.max(1)));
        }
    }

    /// The network cuts a connection.
    fn cut(&mut self, client: usize) {
        let Some(number) = self.clients[client].link else { return };
        let kind = self.net.below(3);
        self.counts.cuts += 1;
        self.trace.note(self.now, format_args!("link {number} is cut, kind {kind}"), &[]);
        let Some(link) = self.links.get_mut(&number) else { return };
        match kind {
            // Nobody is told.
            0 => {
                link.up.kill();
                link.down.kill();
            }
            // The client learns of it at once, the server late, and what was under way arrives in part.
            1 => {
                link.up.lose_some(&mut self.net);
                self.clients[client].stale = true;
                let late = self.net.below(1_500 * MS);
                self.let_go(client, late);
                let now = self.elapsed();
                self.clients[client].machine.disconnected(now, "cut");
            }
            // The other way round.
            _ => {
                link.down.lose_some(&mut self.net);
                let late = self.net.below(200 * MS);
                if let Some(at) = link.down.end(self.now + late, &mut self.net) {
                    self.wake(client, at);
                }
                self.end_session(number);
                self.after_server();
            }
        }
    }

    /// The client's process ends, and another one takes its place. It knows what is in its books.
    fn restart(&mut self, client: usize) {
        self.trace.note(self.now, format_args!("client {client} begins anew"), &[]);
        self.counts.restarts += 1;
        let late = self.net.below(50 * MS);
        self.let_go(client, late);
        let births = self.clients[client].births + 1;
        let new = Client::new(client, births, self.net.draw(), self.now);
        let old = std::mem::replace(&mut self.clients[client], new);
        self.ended.extend(old.follows.into_iter().map(|following| following.follow));
        for publisher in old.publishers {
            match publisher.book {
                None => publisher.waiting.iter().for_each(|uid| self.model.give_up(*uid)),
                Some(book) => {
                    let book_of = &mut self.books[book];
                    book_of.unsent = book_of.messages[book_of.answered..].iter().copied().collect();
                    self.open(client, publisher.name, Some(book));
                }
            }
        }
    }
}
