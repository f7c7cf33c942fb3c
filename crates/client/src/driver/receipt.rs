//! A receipt: one small shared slot, filled by the task when the answer is there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use arioso_stream::Sequence;
use parking_lot::Mutex;

use crate::machine::Ack;
use crate::{Error, Result};

#[derive(Debug)]
enum Slot {
    Open(Option<Waker>),
    Done(Result<Ack>),
    /// The receipt has given its outcome away.
    Taken,
}

/// What was sent and will be answered. Await it, wait for it on a thread, or drop it: the message is sent all the same.
#[derive(Debug)]
pub struct Receipt {
    slot: Arc<Mutex<Slot>>,
}

/// The other side of a receipt.
#[derive(Debug)]
pub(crate) struct Unanswered {
    slot: Arc<Mutex<Slot>>,
    /// Messages still to be answered.
    left: u32,
    outcome: Option<Result<Ack>>,
}

/// A receipt for this many messages, and its other side.
pub(crate) fn receipt(messages: u32) -> (Receipt, Unanswered) {
    let slot = Arc::new(Mutex::new(Slot::Open(None)));
    let unanswered = Unanswered { slot: slot.clone(), left: messages, outcome: None };
    (Receipt { slot }, unanswered)
}

impl Unanswered {
    /// Takes as many of `messages` as belong here, which are `skipped` behind the outcome's first; returns how many.
    pub(crate) fn take(&mut self, messages: u32, skipped: u32, outcome: &Result<Ack>) -> u32 {
        let taken = messages.min(self.left);
        self.left -= taken;
        let part = outcome.clone().map(|ack| {
            let sequence = Sequence(ack.sequence.0 + u64::from(skipped));
            Ack { sequence, last: Sequence(sequence.0 + u64::from(taken) - 1), messages: taken, level: ack.level }
        });
        self.outcome = Some(match (self.outcome.take(), part) {
            (None, part) => part,
            (Some(Ok(before)), Ok(part)) => Ok(Ack {
                sequence: before.sequence,
                last: part.last,
                messages: before.messages + part.messages,
                level: part.level,
            }),
            // The first error stands for all.
            (Some(Err(error)), _) | (Some(Ok(_)), Err(error)) => Err(error),
        });
        taken
    }

    /// Whether all its messages are answered.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Fills the slot; whoever waits is to be woken.
    pub(crate) fn fill(self) -> Option<Waker> {
        let outcome = self.outcome.unwrap_or(Err(Error::Closed));
        match std::mem::replace(&mut *self.slot.lock(), Slot::Done(outcome)) {
            Slot::Open(waker) => waker,
            Slot::Done(_) | Slot::Taken => None,
        }
    }
}

impl Receipt {
    /// The outcome, if it is there.
    fn take(&self, waker: Option<&Waker>) -> Option<Result<Ack>> {
        let mut slot = self.slot.lock();
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Done(outcome) => Some(outcome),
            Slot::Open(known) => {
                *slot = Slot::Open(match (known, waker) {
                    (Some(known), Some(waker)) if known.will_wake(waker) => Some(known),
                    (known, waker) => waker.cloned().or(known),
                });
                None
            }
            Slot::Taken => panic!("a receipt gives its outcome once"),
        }
    }

    /// The outcome, or the receipt again if it is not there yet.
    pub fn try_wait(self) -> std::result::Result<Result<Ack>, Receipt> {
        match self.take(None) {
            Some(outcome) => Ok(outcome),
            None => Err(self),
        }
    }

    /// Blocks this thread until the outcome is there. Not for use within a task.
    pub fn wait(self) -> Result<Ack> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if let Some(outcome) = self.take(Some(&waker)) {
                return outcome;
            }
            std::thread::park();
        }
    }
}

/// For one message: where it was stored. For several: from the first to the last, or the first error of any of them.
impl Future for Receipt {
    type Output = Result<Ack>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Ack>> {
        match self.take(Some(context.waker())) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
