//! The handle of a subscription.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use arioso_stream::Sequence;
use arioso_wire::Request;

use super::client::Handle;
use crate::batch::Batch;
use crate::machine::{Started, SubscriptionId};
use crate::{Error, Result};

/// What a subscription gives.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Messages in order.
    Batch(Batch),
    /// Everything selected up to here was delivered.
    Mark {
        /// The mark.
        through: Sequence,
    },
    /// Retention has passed the position: what lies between is gone. Nothing follows until `go_on`.
    Trimmed {
        /// The first message wanted.
        wanted: Sequence,
        /// The first message kept.
        first: Sequence,
    },
}

/// Delivers what was subscribed to, exactly once and in order, over as many connections as it takes. Dropped, it ends.
#[derive(Debug)]
pub struct Subscription {
    pub(crate) handle: Arc<Handle>,
    pub(crate) id: SubscriptionId,
    pub(crate) started: Started,
}

impl Subscription {
    /// What comes next; `None`: it has reached its end. Taking a batch gives its credit back.
    pub async fn next(&mut self) -> Result<Option<Delivery>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As `next`, for polling by hand.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Delivery>>> {
        self.handle.shared.with(|core| {
            let Some(entry) = core.subscriptions.get_mut(&self.id) else {
                return Poll::Ready(Err(Error::Closed));
            };
            match (entry.queue.pop_front(), &entry.over) {
                (Some(delivery), _) => {
                    if let Delivery::Batch(batch) = &delivery {
                        core.connection.consumed(self.id, batch);
                    }
                    Poll::Ready(Ok(Some(delivery)))
                }
                (None, Some(over)) => Poll::Ready(over.clone().map(|()| None)),
                (None, None) => {
                    let known = entry.waker.as_ref();
                    if !known.is_some_and(|known| known.will_wake(context.waker())) {
                        entry.waker = Some(context.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
    }

    /// What it began with.
    pub fn started(&self) -> Started {
        self.started
    }

    /// Goes on at `begin` after `Trimmed`. `false`: it was not trimmed.
    pub fn go_on(&self, begin: Sequence) -> bool {
        self.handle.shared.with(|core| core.connection.go_on(self.id, begin))
    }

    /// Moves its cursor: `next` is the first message it still wants. Durable when this returns.
    pub async fn commit(&self, next: Sequence) -> Result<()> {
        let holder = self.handle.shared.with(|core| core.connection.holder(self.id));
        let (name, holder_epoch) = holder.ok_or(Error::Closed)?;
        let commit = Request::Commit { name, holder_epoch, next };
        self.handle.request(commit).await.map(|_| ())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.handle.release(self.id);
    }
}
