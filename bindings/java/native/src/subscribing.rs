//! A subscription that Java opened: batches copied into Java's buffer, as many as are there and fit.
//!
//! They are copied because Java may keep its buffer for as long as it likes, closed or not; the copy costs about 0.1 ms per MiB.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use arioso::{Batch, Delivery, Error, Sequence, Subscription};
use parking_lot::Mutex;

use crate::bus::OpenBus;
use crate::failure::{Failure, Result};
use crate::wait::{Bell, block_on};

/// A subscription that Java opened.
#[derive(Debug)]
pub struct OpenSubscription {
    bus: Arc<OpenBus>,
    inner: Mutex<Inner>,
    starts_at: Sequence,
    stopped: AtomicBool,
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Inner {
    subscription: Subscription,
    /// What was taken from the subscription and not yet given to Java.
    held: Option<Result<Option<Delivery>>>,
    /// The batches that lie in Java's buffer: their topics' names are still asked for.
    given: Vec<Batch>,
}

/// What came next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Records in the buffer: everything selected through `through` is delivered.
    Records { bytes: usize, count: u64, through: Sequence },
    /// The buffer is too small for the next batch.
    Wants { bytes: usize },
    /// The end.
    End,
}

impl OpenSubscription {
    pub fn new(bus: &Arc<OpenBus>, subscription: Subscription) -> OpenSubscription {
        let starts_at = subscription.starts_at();
        OpenSubscription {
            bus: Arc::clone(bus),
            inner: Mutex::new(Inner { subscription, held: None, given: Vec::new() }),
            starts_at,
            stopped: AtomicBool::new(false),
            bell: Arc::default(),
        }
    }

    pub fn bus(&self) -> &OpenBus {
        &self.bus
    }

    /// The first sequence that could be delivered when it began.
    pub fn starts_at(&self) -> Sequence {
        self.starts_at
    }

    /// It is closed: whoever waits in `next` leaves.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Waits for the next batches and writes them. One thread at a time; Java sees to that.
    pub fn next(&self, out: &mut [u8]) -> Result<Next> {
        let _inside = self.bus.enter()?;
        let waker = Waker::from(Arc::clone(&self.bell));
        let mut context = Context::from_waker(&waker);
        loop {
            if self.stopped.load(Ordering::SeqCst) {
                return Err(Failure::closed("subscription"));
            }
            let next = self.inner.lock().next(&mut context, out);
            match next {
                Poll::Ready(next) => return next,
                Poll::Pending => self.bell.wait(),
            }
        }
    }

    /// The name of a topic in the batches that were given last.
    pub fn topic(&self, id: u32) -> Result<String> {
        let inner = self.inner.lock();
        let name = inner.given.iter().rev().find_map(|batch| batch.topic(id));
        name.map(str::to_string).ok_or_else(|| Failure::argument(format!("topic {id} is in no batch given last")))
    }

    /// Goes on behind what retention took.
    pub fn go_on(&self, begin: Sequence) -> Result<bool> {
        let _inside = self.bus.enter()?;
        Ok(self.inner.lock().subscription.go_on(begin))
    }

    /// Moves its cursor, durably.
    pub fn commit(&self, next: Sequence) -> Result<()> {
        let _inside = self.bus.enter()?;
        let mut inner = self.inner.lock();
        Ok(block_on(inner.subscription.client().commit(next))?)
    }
}

impl Inner {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Delivery>>> {
        match self.held.take() {
            Some(held) => Poll::Ready(held),
            None => self.subscription.client().poll_next(context).map_err(Failure::from),
        }
    }

    fn next(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<Result<Next>> {
        let (mut bytes, mut count, mut through) = (0, 0, Sequence(0));
        loop {
            let polled = self.poll(context);
            let given = count > 0;
            match polled {
                Poll::Pending if given => break,
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(Delivery::Mark { .. }))) => {}
                Poll::Ready(Ok(Some(Delivery::Batch(batch)))) if bytes + batch.records().len() <= out.len() => {
                    if !given {
                        self.given.clear();
                    }
                    let records = batch.records();
                    out[bytes..bytes + records.len()].copy_from_slice(records);
                    bytes += records.len();
                    count += batch.len() as u64;
                    through = batch.through();
                    self.given.push(batch);
                }
                // What does not fit, an error and the end come when they are alone.
                Poll::Ready(next) if given => {
                    self.held = Some(next);
                    break;
                }
                Poll::Ready(Ok(Some(Delivery::Batch(batch)))) => {
                    let bytes = batch.records().len();
                    self.held = Some(Ok(Some(Delivery::Batch(batch))));
                    return Poll::Ready(Ok(Next::Wants { bytes }));
                }
                Poll::Ready(Ok(Some(Delivery::Trimmed { wanted, first }))) => {
                    return Poll::Ready(Err(Error::Trimmed { wanted, first }.into()));
                }
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(Next::End)),
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
            }
        }
        Poll::Ready(Ok(Next::Records { bytes, count, through }))
    }
}
