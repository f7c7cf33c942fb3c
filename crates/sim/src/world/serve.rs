//! The server's side: rounds of the log, jobs, disk reads, and the sessions' turns.

use arioso_journal::local::Notice;
use arioso_journal::{BatchNumber, Outcome};
use arioso_server::history::Supplied;
use arioso_server::session::{Read, Session, Ticket};
use arioso_store::history::Supplied as FromStore;
use std::sync::Arc;

use super::link::{FAREWELL_NS, Link, OUTPUT_BYTES_CEILING, OUTPUT_BYTES_HARD};
use super::process::{AnyLog, Finished, Process, Ran};
use super::queue::Event;
use super::{MS, US, World};
use crate::pipe::Arrived;
use crate::plan::{Journal, Plant};
use crate::{Check, violated};

/// How long after the last batch an empty one carries `synced_to` forward, as `threads` does.
const MARK_NS: u64 = 50 * MS;
/// How often what failed, on a full disk for one, is tried again, as `threads` does.
const FULL_RETRY_NS: u64 = 500 * MS;

impl World {
    fn living(&mut self, life: u32) -> Option<&mut Process> {
        self.process.as_mut().filter(|process| process.life == life && !process.lost)
    }

    /// Whatever the server did: whoever has mail is looked after, and the log if there is something for it.
    pub(super) fn after_server(&mut self) {
        let pending = |link: &Link| link.session.as_ref().is_some_and(|session| session.mailbox().is_pending());
        let woken: Vec<u32> = self.links.iter().filter(|(_, link)| pending(link)).map(|(number, _)| *number).collect();
        for number in woken {
            let at = self.now + self.net.within(US, 100 * US);
            self.turn_soon(number, at);
        }
        let Some(process) = &mut self.process else { return };
        if process.log_wants() {
            self.log_soon(false);
            return;
        }
        let failed = process.has_failed();
        let mark = process.node.engine.lock().wants_sync_mark();
        if mark && !process.writing && !self.mark_due {
            self.mark_due = true;
            self.queue.push(self.now + MARK_NS, Event::Log(self.life, true));
        }
        if failed && !self.retry_due {
            self.retry_due = true;
            self.queue.push(self.now + FULL_RETRY_NS, Event::Retry(self.life));
        }
    }

    pub(super) fn log_soon(&mut self, at_once: bool) {
        let Some(process) = &mut self.process else { return };
        if !process.log_due {
            process.log_due = true;
            let pause = if at_once { 0 } else { self.chance.within(US, 300 * US) };
            self.queue.push(self.now + pause, Event::Log(self.life, false));
        }
    }

    /// The first half of a round of the log.
    pub(super) fn log_round(&mut self, life: u32, mark: bool) -> Check {
        let wall = self.wall();
        if life != self.life {
            return Ok(());
        }
        if mark {
            self.mark_due = false;
        }
        let Some(process) = self.living(life) else { return Ok(()) };
        if !mark {
            process.log_due = false;
        }
        if process.writing {
            return Ok(());
        }
        let (jobs, notices) = process.attend(wall);
        let (new, wrote) = process.begin(wall, mark);
        self.hear(notices)?;
        for job in jobs {
            let pause = if self.chance.percent(10) { 500 * MS } else { 10 * MS };
            let at = self.now + self.chance.within(20 * US, pause);
            self.queue.push(at, Event::Job(life, job));
        }
        self.trace.note(self.now, format_args!("log begins a round: {wrote}, {new:?}"), &[]);
        if wrote && self.plan.journal == Journal::Local {
            let at = self.now + self.write_time();
            self.queue.push(at, Event::Written(life));
        }
        for number in new {
            self.fly(life, number);
        }
        if wrote {
            self.after_server();
            return Ok(());
        }
        self.close_if_stopped()?;
        self.after_server();
        Ok(())
    }

    fn close_if_stopped(&mut self) -> Check {
        let Some(process) = &mut self.process else { return Ok(()) };
        let idle = !process.writing
            && process.flying() == 0
            && !process.has_held()
            && !process.node.engine.lock().has_pending();
        if process.stopping && idle { self.close() } else { Ok(()) }
    }

    fn hear(&mut self, notices: Vec<Notice>) -> Check {
        for notice in notices {
            match &notice {
                Notice::Sealed { segment, damage } if !damage.is_empty() => {
                    return violated(format!("segment {segment} is damaged: {damage:?}"));
                }
                Notice::Sealed { segment, .. } => {
                    self.counts.sealed += 1;
                    self.trace.note(self.now, format_args!("sealed {segment}"), &[]);
                }
                Notice::Checkpointed { upto } => {
                    self.counts.checkpoints += 1;
                    self.trace.note(self.now, format_args!("checkpoint {upto}"), &[]);
                }
                Notice::Split { info } => {
                    self.counts.spans += 1;
                    self.trace.note(
                        self.now,
                        format_args!("split {} to {}", info.first_segment, info.last_segment),
                        &[],
                    );
                }
                Notice::Retired { first_segment, first_sequence } => {
                    self.counts.retired += 1;
                    self.trace.note(self.now, format_args!("retired below {first_segment}, {first_sequence}"), &[]);
                }
                Notice::Failed { what, segment, error } => {
                    self.trace.note(self.now, format_args!("{what} {segment} failed: {error}"), &[]);
                }
            }
        }
        Ok(())
    }

    fn write_time(&mut self) -> u64 {
        if self.chance.percent(self.plan.slow_percent) {
            return self.chance.within(20 * MS, 300 * MS);
        }
        self.chance.within(80 * US, 2 * MS)
    }

    /// A write in memory is under way.
    fn fly(&mut self, life: u32, number: BatchNumber) {
        let at = self.now + self.write_time();
        let outcome = if self.chance.percent(self.plan.unknown_percent) {
            Outcome::Unknown
        } else if self.chance.percent(self.plan.failed_percent) {
            Outcome::Failed
        } else {
            Outcome::Durable
        };
        self.queue.push(at, Event::Known(life, number, outcome));
    }

    /// A write in memory becomes known.
    pub(super) fn known(&mut self, life: u32, number: BatchNumber, outcome: Outcome) -> Check {
        if self.is_ghost(life) {
            return self.ghost_knows(number);
        }
        let Some(process) = self.living(life) else { return Ok(()) };
        process.complete(number, outcome);
        if outcome == Outcome::Failed {
            self.counts.failed_writes += 1;
        }
        self.trace.note(self.now, format_args!("batch {number} is {outcome:?}"), &[]);
        if outcome == Outcome::Unknown {
            self.fly(life, number);
        }
        self.finish_round(life)
    }

    /// The writes of a round on the disk end.
    pub(super) fn written(&mut self, life: u32) -> Check {
        self.finish_round(life)
    }

    /// The second half of a round.
    pub(super) fn finish_round(&mut self, life: u32) -> Check {
        let wall = self.wall();
        let Some(process) = self.living(life) else { return Ok(()) };
        let before = process.node.engine.lock().settled_to();
        let ended = process.finish(wall);
        let settled = process.node.engine.lock().settled_to();
        self.trace.note(self.now, format_args!("log ends a round: settled {before} to {settled}"), &[]);
        if self.is_crashed() {
            return self.die(true);
        }
        if let Err(error) = ended {
            self.trace.note(self.now, format_args!("{error}"), &[]);
            if let Some(process) = self.living(life) {
                process.node.engine.lock().lose();
                process.lost = true;
            }
            let at = self.now + self.chance.within(MS, 20 * MS);
            self.queue.push(at, Event::Die(life, false));
        }
        self.check_tip()?;
        if self.process.as_ref().is_some_and(|process| process.stopping) {
            self.log_soon(false);
        }
        self.after_server();
        Ok(())
    }

    /// The tip keeps its budget, but for what is not settled and the newest chunk.
    fn check_tip(&mut self) -> Check {
        let Some(process) = &self.process else { return Ok(()) };
        let metrics = process.node.tip.metrics();
        let pending = process.node.engine.lock().order().pending_bytes() as u64;
        let chunk = (self.plan.settings.tip_bytes / 16).max(4 << 10) + 2 * (1 << 20);
        let ceiling = self.plan.settings.tip_bytes + pending + chunk;
        if metrics.bytes > ceiling {
            return violated(format!("the tip holds {} bytes, the ceiling is {ceiling}", metrics.bytes));
        }
        Ok(())
    }

    /// A job runs.
    pub(super) fn run_job(&mut self, life: u32, number: u32) -> Check {
        let Some(job) = self.living(life).and_then(|process| process.take_job(number)) else { return Ok(()) };
        let name = job.name();
        self.trace.note(self.now, format_args!("job {number}: {name}"), &[]);
        let ran = job.run();
        if self.is_crashed() {
            return self.die(true);
        }
        let at = self.now + self.chance.within(US, 5 * MS);
        match ran {
            Ran::Over(done) => self.queue.push(at, Event::Done(life, done)),
            Ran::Goes(task) => {
                if let Some(process) = self.living(life) {
                    process.jobs.push((number, task));
                    self.queue.push(at, Event::Job(life, number));
                }
            }
        }
        Ok(())
    }

    pub(super) fn job_done(&mut self, life: u32, done: Finished) -> Check {
        if let Some(process) = self.living(life) {
            process.done.push_back(done);
            self.after_server();
        }
        Ok(())
    }

    pub(super) fn retry(&mut self, life: u32) -> Check {
        if life == self.life {
            self.retry_due = false;
        }
        if let Some(process) = self.living(life) {
            if let AnyLog::Local(log, _) = &mut process.log {
                log.backend().retry();
            }
            self.log_soon(true);
        }
        Ok(())
    }

    /// A subscription's read is done where reading may block.
    pub(super) fn read(&mut self, life: u32, number: u32, read: Read) -> Check {
        let plant = self.plant;
        let Some(process) = self.living(life) else { return Ok(()) };
        let mut supplied = process.node.read(&read.request);
        if self.is_crashed() {
            return self.die(true);
        }
        if plant == Some(Plant::SegmentSkipped)
            && let Ok(Supplied::History(FromStore::Chosen(wanted))) = &mut supplied
        {
            *wanted &= self.chance.percent(70);
        }
        self.counts.reads += 1;
        let bytes = if let Ok(Supplied::History(FromStore::Bytes(bytes))) = &supplied {
            bytes.clone()
        } else {
            Default::default()
        };
        let (ticket, what) = (read.ticket, supplied.as_ref().err());
        self.trace.note(
            self.now,
            format_args!("link {number} channel {} read {:?} {what:?}", ticket.channel, read.request),
            &bytes,
        );
        let at = self.now + self.chance.within(US, 2 * MS);
        self.queue.push(at, Event::Supply(life, number, ticket, supplied));
        Ok(())
    }

    pub(super) fn supply(&mut self, life: u32, number: u32, ticket: Ticket, read: Result<Supplied, String>) -> Check {
        let link = self.links.get_mut(&number).filter(|link| link.life == life);
        if let Some(session) = link.and_then(|link| link.session.as_mut()) {
            session.supply(ticket, read);
            self.turn_soon(number, self.now);
        }
        Ok(())
    }

    /// A client's call arrives.
    pub(super) fn connect(&mut self, client: usize, births: u32) -> Check {
        if self.clients[client].births != births {
            return Ok(());
        }
        let accepts = self.process.as_ref().filter(|process| !process.stopping && !process.lost);
        let Some(process) = accepts else {
            let now = self.elapsed();
            self.clients[client].machine.connect_failed(now, "refused");
            self.wake(client, self.now);
            return Ok(());
        };
        let mut session = Session::new(Arc::clone(&process.node), self.now.cast_signed());
        session.pace();
        self.links_count += 1;
        self.counts.connections += 1;
        let number = self.links_count;
        self.links.insert(number, Link::new(client, self.life, session));
        self.trace.note(self.now, format_args!("client {client} is link {number}"), &[]);
        let now = self.elapsed();
        self.clients[client].link = Some(number);
        self.clients[client].machine.connected(now);
        self.wake(client, self.now);
        self.turn_soon(number, self.now);
        Ok(())
    }

    pub(super) fn turn_soon(&mut self, number: u32, at: u64) {
        let at = at.max(self.now);
        if let Some(link) = self.links.get_mut(&number)
            && at < link.turn_at
        {
            link.turn_at = at;
            self.queue.push(at, Event::Turn(number));
        }
    }

    /// A session is looked after.
    pub(super) fn turn(&mut self, number: u32) -> Check {
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        if link.turn_at != self.now {
            return Ok(());
        }
        link.turn_at = u64::MAX;
        if link.session.is_none() {
            return Ok(());
        }
        if link.farewell.is_none() && self.session_turn(number)? {
            self.end_session(number);
            self.after_server();
            return Ok(());
        }
        self.send(number);
        let Some(link) = self.links.get(&number) else { return Ok(()) };
        if let Some(until) = link.farewell {
            if link.out.is_empty() || self.now >= until {
                self.end_session(number);
            } else {
                self.turn_soon(number, until);
            }
        }
        self.after_server();
        Ok(())
    }

    /// Bytes in, one turn, reads put on the schedule. True: the client is gone.
    fn session_turn(&mut self, number: u32) -> Result<bool, crate::Violation> {
        let (clock, now) = (self.clock(), self.now);
        let Some(link) = self.links.get_mut(&number) else { return Ok(true) };
        let Some(session) = &mut link.session else { return Ok(true) };
        let mut due = None;
        let was_full = link.up.room() == 0;
        while !link.again && link.out.bytes() < OUTPUT_BYTES_HARD {
            match link.up.receive(now) {
                Arrived::Bytes(bytes) => {
                    let said = link.up_tap.hear(&bytes);
                    self.trace.note(now, format_args!("link {number} up {} bytes{said}", bytes.len()), &bytes);
                    session.frames().feed(&bytes);
                    session.heard(clock.mono);
                }
                Arrived::End => return Ok(true),
                Arrived::Nothing(at) => {
                    due = at;
                    break;
                }
            }
            if self.net.percent(30) {
                due = Some(now + US);
                break;
            }
        }
        if std::mem::take(&mut link.slice) {
            session.grant_slice();
        }
        let wishes = session.turn(clock, &mut link.out);
        link.again = wishes.again;
        link.slice = wishes.slice;
        let deadline = session.deadline();
        if wishes.close {
            link.farewell = Some(now + FAREWELL_NS);
        } else if deadline <= clock.mono && !wishes.again && !wishes.slice {
            return violated(format!(
                "the session of link {number} is due at {deadline}, which is past, and has done nothing"
            ));
        }
        let bytes = link.out.bytes();
        if bytes > OUTPUT_BYTES_CEILING {
            return violated(format!("link {number} has {bytes} bytes to send, the ceiling is {OUTPUT_BYTES_CEILING}"));
        }
        let (client, life) = (link.client, link.life);
        if was_full {
            self.wake(client, now + US);
        }
        for read in wishes.reads {
            let at = now + self.chance.within(10 * US, 3 * MS);
            self.queue.push(at, Event::Read(life, number, read));
        }
        let next = if wishes.again || wishes.slice { now + US } else { deadline.cast_unsigned() };
        self.turn_soon(number, next.min(due.unwrap_or(u64::MAX)));
        Ok(false)
    }

    /// Puts on the network what it takes.
    fn send(&mut self, number: u32) {
        let now = self.now;
        let Some(link) = self.links.get_mut(&number) else { return };
        let mut arrival = None;
        while link.down.room() > 0 {
            let part = link.out.front(1).next().cloned();
            let Some(part) = part else { break };
            let bytes = part.len().min(link.down.room());
            let part = part.slice(..bytes);
            let first = link.down.send(now, &mut self.net, &part);
            arrival = arrival.or(first);
            link.out.consume(bytes);
        }
        let client = link.client;
        if let Some(at) = arrival {
            self.wake(client, at);
        }
    }

    /// The server's end of a connection is over.
    pub(super) fn end_session(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.session = None;
        link.out = Default::default();
        link.up.kill();
        let (client, end) = (link.client, link.down.end(self.now, &mut self.net));
        self.trace.note(self.now, format_args!("link {number} ends at the server"), &[]);
        if self.links[&number].is_gone() {
            self.links.remove(&number);
        } else if let Some(at) = end {
            self.wake(client, at);
        }
    }
}
