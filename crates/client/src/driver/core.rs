//! What the handles and the task share: the state machine and who waits for what.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use arioso_wire::Answer;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::receipt::{Receipt, Unanswered, receipt};
use super::subscription::Delivery;
use crate::machine::{Ack, Connection, Event, PublisherId, RequestId, Started, SubscriptionId};
use crate::{Error, Result};

type Map<K, V> = HashMap<K, V, RandomState>;

pub(crate) struct Shared {
    core: Mutex<Core>,
    /// The task has something to do.
    pub(crate) kick: Notify,
    began: Instant,
}

pub(crate) struct Core {
    pub(crate) connection: Connection,
    pub(crate) publishers: Map<PublisherId, PublisherEntry>,
    pub(crate) subscriptions: Map<SubscriptionId, SubscriptionEntry>,
    pub(crate) requests: Map<RequestId, oneshot::Sender<Result<Vec<Answer>>>>,
    /// Whoever waits for the first connection.
    pub(crate) wait_up: Vec<oneshot::Sender<Result<()>>>,
    /// Whoever waits for the end.
    pub(crate) wait_over: Vec<oneshot::Sender<Error>>,
    /// A socket is to be opened.
    pub(crate) dial: bool,
    /// The socket is to be dropped, perhaps after what is left was written.
    pub(crate) drop: Option<bool>,
    /// The task knows that it has something to do.
    kicked: bool,
    /// To be woken when the lock is free.
    wakers: Vec<Waker>,
}

#[derive(Default)]
pub(crate) struct PublisherEntry {
    unanswered: VecDeque<Unanswered>,
    sent: u64,
    answered: u64,
    wait_open: Option<oneshot::Sender<Result<()>>>,
    wait_over: Vec<oneshot::Sender<Error>>,
    /// Whoever waits until everything up to here is answered.
    wait_flush: VecDeque<(u64, oneshot::Sender<()>)>,
    /// The window has room again.
    pub(crate) room: Arc<Notify>,
    over: Option<Error>,
    /// The handle is gone.
    released: bool,
}

#[derive(Default)]
pub(crate) struct SubscriptionEntry {
    pub(crate) queue: VecDeque<Delivery>,
    pub(crate) waker: Option<Waker>,
    pub(crate) wait_open: Option<oneshot::Sender<Result<Started>>>,
    pub(crate) over: Option<Result<()>>,
}

impl PublisherEntry {
    /// A publisher that is not open yet; `wait_open` is told when it is.
    pub(crate) fn opening(wait_open: oneshot::Sender<Result<()>>) -> PublisherEntry {
        PublisherEntry { wait_open: Some(wait_open), ..PublisherEntry::default() }
    }
}

impl Shared {
    /// `began` is the moment time is counted from, and that `connection` was made at.
    pub(crate) fn new(connection: Connection, began: Instant) -> Shared {
        Shared {
            core: Mutex::new(Core {
                connection,
                publishers: Map::default(),
                subscriptions: Map::default(),
                requests: Map::default(),
                wait_up: Vec::new(),
                wait_over: Vec::new(),
                dial: false,
                drop: None,
                kicked: false,
                wakers: Vec::new(),
            }),
            kick: Notify::new(),
            began,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.began + at
    }

    /// Does something under the lock, tells everybody concerned, and sees to it that the task looks.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core.lock();
        let done = work(&mut core);
        core.tell();
        let kick = !std::mem::replace(&mut core.kicked, true);
        let wakers = std::mem::take(&mut core.wakers);
        drop(core);
        if kick {
            self.kick.notify_one();
        }
        wakers.into_iter().for_each(Waker::wake);
        done
    }

    /// As `with`, for the task itself, which looks at everything right after.
    pub(crate) fn with_task<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core.lock();
        core.kicked = false;
        let done = work(&mut core);
        core.tell();
        let wakers = std::mem::take(&mut core.wakers);
        drop(core);
        wakers.into_iter().for_each(Waker::wake);
        done
    }
}

impl Core {
    /// A receipt for messages just published.
    pub(crate) fn sent(&mut self, publisher: PublisherId, messages: u32) -> Receipt {
        let (receipt, unanswered) = receipt(messages);
        if let Some(entry) = self.publishers.get_mut(&publisher) {
            entry.sent += u64::from(messages);
            entry.unanswered.push_back(unanswered);
        }
        receipt
    }

    /// Waits until everything sent so far is answered; `None`: it is.
    pub(crate) fn flush(&mut self, publisher: PublisherId) -> Option<oneshot::Receiver<()>> {
        let entry = self.publishers.get_mut(&publisher)?;
        if entry.answered == entry.sent {
            return None;
        }
        let (done, wait) = oneshot::channel();
        entry.wait_flush.push_back((entry.sent, done));
        Some(wait)
    }

    /// Closes a publisher; tells when it is over.
    pub(crate) fn close_publisher(&mut self, publisher: PublisherId) -> oneshot::Receiver<Error> {
        let (done, wait) = oneshot::channel();
        let Some(entry) = self.publishers.get_mut(&publisher) else {
            return wait;
        };
        entry.released = true;
        match entry.over.clone() {
            Some(error) => {
                let _ = done.send(error);
                self.publishers.remove(&publisher);
            }
            None => entry.wait_over.push(done),
        }
        self.connection.close_publisher(publisher);
        wait
    }

    /// Hands every event to whom it concerns.
    pub(crate) fn tell(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Dial => self.dial = true,
                Event::Drop { last_words } => {
                    self.drop = Some(last_words);
                    self.dial = false;
                }
                Event::Up => {
                    for wait in self.wait_up.drain(..) {
                        let _ = wait.send(Ok(()));
                    }
                }
                Event::Answered { publisher, messages, outcome } => self.answered(publisher, messages, &outcome),
                Event::PublisherOpened { publisher, .. } => {
                    let entry = self.publishers.get_mut(&publisher);
                    if let Some(wait) = entry.and_then(|entry| entry.wait_open.take()) {
                        let _ = wait.send(Ok(()));
                    }
                }
                Event::PublisherOver { publisher, error } => self.publisher_over(publisher, error),
                Event::Answer { request, outcome } => {
                    if let Some(wait) = self.requests.remove(&request) {
                        let _ = wait.send(outcome);
                    }
                }
                Event::Over(error) => self.over(&error),
                event => self.subscription_event(event),
            }
        }
    }

    fn answered(&mut self, publisher: PublisherId, messages: u32, outcome: &Result<Ack>) {
        let Some(entry) = self.publishers.get_mut(&publisher) else {
            return;
        };
        entry.answered += u64::from(messages);
        let mut left = messages;
        while left > 0 {
            let Some(front) = entry.unanswered.front_mut() else {
                break;
            };
            left -= front.take(left, messages - left, outcome);
            if front.is_done()
                && let Some(done) = entry.unanswered.pop_front()
            {
                self.wakers.extend(done.fill());
            }
        }
        while let Some((upto, _)) = entry.wait_flush.front()
            && *upto <= entry.answered
            && let Some((_, wait)) = entry.wait_flush.pop_front()
        {
            let _ = wait.send(());
        }
        entry.room.notify_one();
    }

    fn publisher_over(&mut self, publisher: PublisherId, error: Error) {
        let Some(entry) = self.publishers.get_mut(&publisher) else {
            return;
        };
        if let Some(wait) = entry.wait_open.take() {
            let _ = wait.send(Err(error.clone()));
        }
        for wait in entry.wait_over.drain(..) {
            let _ = wait.send(error.clone());
        }
        entry.room.notify_waiters();
        entry.room.notify_one();
        entry.over = Some(error);
        if entry.released {
            self.publishers.remove(&publisher);
        }
    }

    fn subscription_event(&mut self, event: Event) {
        let (subscription, delivery) = match event {
            Event::Subscribed { subscription, started } => {
                let entry = self.subscriptions.get_mut(&subscription);
                if let Some(wait) = entry.and_then(|entry| entry.wait_open.take()) {
                    let _ = wait.send(Ok(started));
                }
                return;
            }
            Event::SubscriptionOver { subscription, outcome } => {
                if let Some(entry) = self.subscriptions.get_mut(&subscription) {
                    if let Some(wait) = entry.wait_open.take() {
                        let _ = wait.send(Err(outcome.clone().err().unwrap_or(Error::Closed)));
                    }
                    entry.over = Some(outcome);
                    self.wakers.extend(entry.waker.take());
                }
                return;
            }
            Event::Delivered { subscription, batch } => (subscription, Delivery::Batch(batch)),
            Event::Mark { subscription, through } => (subscription, Delivery::Mark { through }),
            Event::Trimmed { subscription, wanted, first } => (subscription, Delivery::Trimmed { wanted, first }),
            _ => return,
        };
        let Some(entry) = self.subscriptions.get_mut(&subscription) else {
            return;
        };
        let marks = matches!(delivery, Delivery::Mark { .. });
        match entry.queue.back_mut() {
            // A mark says all that the mark before it said.
            Some(back @ Delivery::Mark { .. }) if marks => *back = delivery,
            _ => entry.queue.push_back(delivery),
        }
        self.wakers.extend(entry.waker.take());
    }

    fn over(&mut self, error: &Error) {
        self.dial = false;
        for wait in self.wait_up.drain(..) {
            let _ = wait.send(Err(error.clone()));
        }
        for wait in self.wait_over.drain(..) {
            let _ = wait.send(error.clone());
        }
    }
}
