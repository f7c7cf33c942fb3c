//! A client is looked after: bytes and time in, events told to its application and to the model, bytes out.

use arioso_client::{Batch, Error, Event as Told, PublisherId, RequestId, Started, SubscriptionId};
use arioso_wire::{Answer, Code, Rows};

use super::client::{Pace, SnapshotAct, snapshot_bytes};
use super::queue::Event;
use super::{MS, US, World};
use crate::follow::Start;
use crate::pipe::Arrived;
use crate::{Check, Violation, violated};

impl World {
    /// Its time has come.
    pub(super) fn awake(&mut self, client: usize) -> Check {
        self.clients[client].wake_at = u64::MAX;
        if self.clients[client].stalled_until > self.now {
            let until = self.clients[client].stalled_until;
            self.wake(client, until);
            return Ok(());
        }
        self.receive(client)?;
        let now = self.elapsed();
        self.clients[client].machine.on_time(now);
        self.told(client)?;
        self.resend_books(client);
        self.transmit(client);
        self.told(client)?;
        if let Some(deadline) = self.clients[client].machine.next_deadline() {
            let at = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            if at <= self.now {
                return violated(format!(
                    "client {client} is due at {deadline:?}, which is past, and has done nothing"
                ));
            }
            self.wake(client, at);
        }
        Ok(())
    }

    fn receive(&mut self, client: usize) -> Check {
        let now = self.elapsed();
        while let Some(number) = self.clients[client].link {
            let Some(link) = self.links.get_mut(&number) else {
                self.clients[client].link = None;
                return Ok(());
            };
            let was_full = link.down.room() == 0;
            match link.down.receive(self.now) {
                Arrived::Nothing(at) => {
                    if let Some(at) = at {
                        self.wake(client, at);
                    }
                    return Ok(());
                }
                Arrived::Bytes(bytes) => {
                    let said = link.down_tap.hear(&bytes);
                    self.trace.note(self.now, format_args!("link {number} down {} bytes{said}", bytes.len()), &bytes);
                    if was_full || !link.out.is_empty() {
                        self.turn_soon(number, self.now + US);
                    }
                    self.clients[client].machine.receive(now, &bytes);
                }
                Arrived::End => {
                    self.let_go(client, 0);
                    self.clients[client].machine.disconnected(now, "the server is gone");
                }
            }
            self.told(client)?;
        }
        Ok(())
    }

    /// The client's end of its connection is over; the server learns of it after a while.
    pub(super) fn let_go(&mut self, client: usize, late: u64) {
        let Some(number) = self.clients[client].link.take() else { return };
        let Some(link) = self.links.get_mut(&number) else { return };
        link.client_gone = true;
        link.down.kill();
        let end = link.up.end(self.now + late, &mut self.net);
        self.trace.note(self.now, format_args!("link {number} ends at client {client}"), &[]);
        if link.is_gone() {
            self.links.remove(&number);
        } else if let Some(at) = end {
            self.turn_soon(number, at);
        }
    }

    /// Puts on the network what it takes.
    pub(super) fn transmit(&mut self, client: usize) {
        let now = self.elapsed();
        let Some(number) = self.clients[client].link else { return };
        let Some(link) = self.links.get_mut(&number) else { return };
        let mut arrival = None;
        while link.up.room() > 0
            && let Some(bytes) = self.clients[client].machine.poll_transmit(now)
        {
            let first = link.up.send(self.now, &mut self.net, &bytes);
            arrival = arrival.or(first);
        }
        if let Some(at) = arrival {
            self.turn_soon(number, at);
        }
    }

    /// Everything the machine has to tell.
    pub(super) fn told(&mut self, client: usize) -> Check {
        while let Some(event) = self.clients[client].machine.poll_event() {
            self.tell(client, event).map_err(|Violation(what)| Violation(format!("client {client}: {what}")))?;
        }
        Ok(())
    }

    fn tell(&mut self, client: usize, event: Told) -> Check {
        match event {
            Told::Dial => {
                let at = self.now + self.net.within(50 * US, 3 * MS);
                let births = self.clients[client].births;
                self.queue.push(at, Event::Connect(client, births));
            }
            Told::Drop { last_words } => {
                if last_words {
                    self.transmit(client);
                }
                if let Some(error @ (Error::Protocol { .. } | Error::Wire(_) | Error::Record(_))) =
                    self.clients[client].machine.last_error()
                {
                    return violated(format!("the server's bytes are refused: {error}"));
                }
                self.let_go(client, 0);
            }
            Told::Up => self.trace.note(self.now, format_args!("client {client} is up"), &[]),
            Told::PublisherOpened { publisher, epoch, last_consumed } => {
                let what = (publisher, epoch, last_consumed);
                self.trace.note(
                    self.now,
                    format_args!("client {client} {:?} epoch {} last {}", what.0, what.1, what.2),
                    &[],
                );
            }
            Told::Answered { publisher, messages, outcome } => self.answered(client, publisher, messages, &outcome)?,
            Told::PublisherOver { publisher, error } => self.publisher_over(client, publisher, &error)?,
            Told::Subscribed { subscription, started } => self.subscribed(client, subscription, started)?,
            Told::Delivered { subscription, batch } => self.delivered(client, subscription, batch)?,
            Told::Mark { subscription, through } => {
                if let Some(following) = self.clients[client].following(subscription) {
                    following.follow.mark(through.0)?;
                }
            }
            Told::Trimmed { subscription, wanted, first } => {
                if !self.plan.retention {
                    return violated(format!("{wanted} is said to be gone below {first}, and nothing was given back"));
                }
                self.counts.trimmed += 1;
                if let Some(following) = self.clients[client].following(subscription) {
                    following.follow.skip(wanted.0, first.0);
                }
                self.clients[client].machine.go_on(subscription, first);
            }
            Told::SubscriptionOver { subscription, outcome } => {
                self.subscription_over(client, subscription, outcome)?
            }
            Told::Answer { request, outcome } => self.request_answered(client, request, outcome)?,
            Told::Over(error) => return violated(format!("it gave up: {error}")),
        }
        Ok(())
    }

    fn request_answered(&mut self, client: usize, request: RequestId, outcome: Result<Vec<Answer>, Error>) -> Check {
        self.clients[client].requests -= 1;
        let commits = &mut self.clients[client].commits;
        let commit = commits.iter().position(|(id, _, _)| *id == request).map(|at| commits.remove(at));
        let snapshots = &mut self.clients[client].snapshots;
        let snapshot = snapshots.iter().position(|(id, _)| *id == request).map(|at| snapshots.remove(at).1);
        match (&outcome, commit, snapshot) {
            (Ok(_), Some((_, cursor, next)), _) => {
                let committed = &mut self.cursors[cursor].committed;
                *committed = (*committed).max(next);
            }
            // Another holder took it, or a later commit overtook this one, which was told busy.
            (Err(Error::Refused { code: Code::Fenced | Code::BadPosition, .. }), Some(_), _) => return Ok(()),
            (outcome, _, Some(act)) => return self.snapshot_answered(act, outcome),
            _ => {}
        }
        match outcome {
            Ok(_) | Err(Error::Cut { .. } | Error::Refused { code: Code::Busy, .. }) => Ok(()),
            Err(error) => violated(format!("a request ended with {error}")),
        }
    }

    fn snapshot_answered(&mut self, act: SnapshotAct, outcome: &Result<Vec<Answer>, Error>) -> Check {
        match (act, outcome) {
            (SnapshotAct::Put(as_of), Ok(_)) => {
                self.snapshot_kept = self.snapshot_kept.max(as_of);
                Ok(())
            }
            (SnapshotAct::Get(kept), Ok(answers)) => {
                let Some(Rows::Snapshot(row)) = answers.first().map(|answer| &answer.rows) else {
                    return violated("a snapshot was asked for, something else came");
                };
                if row.as_of.0 < kept || row.bytes.0 != snapshot_bytes(row.as_of.0) {
                    return violated(format!("the snapshot as of {} came, {kept} was kept", row.as_of));
                }
                Ok(())
            }
            (SnapshotAct::Get(kept), Err(Error::Refused { code: Code::NoSuchSnapshot, .. })) if kept > 0 => {
                violated(format!("no snapshot is there, {kept} was kept"))
            }
            // What the disk refused was not kept; what it can't read now it may later.
            (_, Err(Error::Cut { .. } | Error::Refused { .. })) => Ok(()),
            (act, Err(error)) => violated(format!("{act:?} ended with {error}")),
        }
    }

    fn subscribed(&mut self, client: usize, subscription: SubscriptionId, started: Started) -> Check {
        // Heard when the server is gone already, everything kept may have been given before.
        let next = |process: &super::process::Process| process.node.engine.lock().order().next_sequence().0;
        let given = self.process.as_ref().map_or(u64::MAX, next);
        let Some(following) = self.clients[client].following(subscription) else { return Ok(()) };
        // Cut before it got anything, it asks for the newest again.
        let anew = following.newest && following.follow.through == 0 && following.follow.delivered_count() == 0;
        if following.follow.start == Start::Unknown || anew {
            if let Some((cursor, committed)) = following.cursor {
                let (number, starts) = (following.follow.number, started.starts_at.0);
                let most = self.cursors[cursor].asked.max(started.first_kept.0);
                if starts < committed || starts > most {
                    return violated(format!(
                        "subscription {number} begins at {starts} of cursor {cursor}: {committed} was committed, {most} \
                         is the most that was asked for"
                    ));
                }
            }
            let Some(following) = self.clients[client].following(subscription) else { return Ok(()) };
            let (from, end) = (started.starts_at.0, started.newest_settled.0);
            following.follow.start = match following.time {
                None if following.newest => Start::Newest { from, end, given },
                Some(time) => Start::Time(time, started.starts_at.0),
                None => Start::At(started.starts_at.0),
            };
        }
        let Some(following) = self.clients[client].following(subscription) else { return Ok(()) };
        if following.until_end && following.until.is_none() {
            following.until = Some(started.newest_settled.0);
        }
        let (number, from) = (following.follow.number, started.starts_at);
        self.trace.note(self.now, format_args!("client {client} subscription {number} from {from}"), &[]);
        Ok(())
    }

    fn answered(
        &mut self,
        client: usize,
        id: PublisherId,
        messages: u32,
        outcome: &Result<arioso_client::Ack, Error>,
    ) -> Check {
        let first = self.clients[client].publisher(id).and_then(|publisher| publisher.waiting.front().copied());
        self.trace.note(self.now, format_args!("client {client} {id:?} {first:?} x{messages} {outcome:?}"), &[]);
        for at in 0..u64::from(messages) {
            let Some(publisher) = self.clients[client].publisher(id) else { return Ok(()) };
            let Some(uid) = publisher.waiting.pop_front() else {
                return violated(format!("{id:?} is answered more than it sent"));
            };
            if let Some(book) = publisher.book {
                self.books[book].answered += 1;
            }
            self.model.told(uid, at, outcome)?;
        }
        Ok(())
    }

    fn publisher_over(&mut self, client: usize, id: PublisherId, error: &Error) -> Check {
        self.trace.note(self.now, format_args!("client {client} {id:?} is over: {error}"), &[]);
        let Some(at) = self.clients[client].publishers.iter().position(|publisher| publisher.id == id) else {
            return Ok(());
        };
        let publisher = self.clients[client].publishers.remove(at);
        // The machine gives the number back.
        self.clients[client].machine.close_publisher(id);
        if !publisher.waiting.is_empty() {
            return violated(format!(
                "{id:?} is over and {} of its messages are not answered",
                publisher.waiting.len()
            ));
        }
        let shared = publisher.name.starts_with("shared") || self.clients[client].stale;
        match error {
            Error::Closed if publisher.closing => Ok(()),
            Error::Fenced { .. } if shared => Ok(()),
            error => violated(format!("publisher {:?} ended with {error}", publisher.name)),
        }
    }

    fn delivered(&mut self, client: usize, id: SubscriptionId, batch: Batch) -> Check {
        let Some(at) = self.clients[client].follows.iter().position(|following| following.id == id) else {
            return Ok(());
        };
        let following = &mut self.clients[client].follows[at];
        for message in batch.messages() {
            let message = message.map_err(|error| Violation(format!("a delivered batch: {error}")))?;
            let kept = self.model.saw(&message.record(), message.topic())?;
            following.follow.got(&kept)?;
        }
        following.follow.mark(batch.through().0)?;
        let (number, through, count) = (following.follow.number, batch.through(), batch.len());
        self.trace.note(
            self.now,
            format_args!("client {client} subscription {number} +{count} through {through}"),
            &[],
        );
        following.waiting.push_back(batch);
        let bytes: usize = following.waiting.iter().map(|batch| batch.records().len()).sum();
        let largest = self.plan.payload_bytes_max + 256;
        if bytes as u64 > following.credit_bytes + largest {
            return violated(format!("{bytes} bytes wait, the credit is {}", following.credit_bytes));
        }
        if following.pace == Pace::Fast {
            self.take_all(client, at);
        }
        Ok(())
    }

    pub(super) fn take_all(&mut self, client: usize, at: usize) {
        while self.take_one(client, at) {}
    }

    pub(super) fn take_one(&mut self, client: usize, at: usize) -> bool {
        let client = &mut self.clients[client];
        let following = &mut client.follows[at];
        let Some(batch) = following.waiting.pop_front() else { return false };
        client.machine.consumed(following.id, &batch);
        true
    }

    fn subscription_over(&mut self, client: usize, id: SubscriptionId, outcome: Result<(), Error>) -> Check {
        let Some(at) = self.clients[client].follows.iter().position(|following| following.id == id) else {
            return Ok(());
        };
        let following = &mut self.clients[client].follows[at];
        let number = following.follow.number;
        self.trace.note(self.now, format_args!("client {client} subscription {number} is over: {outcome:?}"), &[]);
        following.over = true;
        let until = following.until;
        match outcome {
            Ok(()) if !following.until_end => violated(format!("subscription {number} ended by itself")),
            Ok(()) => {
                // Through its end everything was delivered; no mark need have said so.
                let until = until.unwrap_or(0).max(following.follow.through);
                following.follow.mark(until)?;
                self.leave(client, at);
                Ok(())
            }
            Err(Error::Fenced { .. }) if following.cursor.is_some() => {
                self.leave(client, at);
                Ok(())
            }
            Err(Error::Refused { code: Code::TooManySubscriptions, .. }) => {
                self.leave(client, at);
                Ok(())
            }
            Err(error) => violated(format!("subscription {number} ended with {error}")),
        }
    }

    /// The application is done with a subscription.
    pub(super) fn leave(&mut self, client: usize, at: usize) {
        let following = self.clients[client].follows.remove(at);
        for batch in &following.waiting {
            self.clients[client].machine.consumed(following.id, batch);
        }
        self.clients[client].machine.unsubscribe(following.id);
        self.ended.push(following.follow);
    }
}
