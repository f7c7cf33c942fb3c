//! What the state machine tells whoever drives it.

use arioso_stream::Sequence;
use arioso_wire::{AckLevel, Answer};

use crate::batch::Batch;
use crate::{Error, Result};

/// A publisher of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublisherId(pub(crate) u16);

/// A subscription of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId(pub(crate) u16);

/// A request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) u16);

/// Where consecutive messages were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Sequence of the first.
    pub sequence: Sequence,
    /// Sequence of the last.
    pub last: Sequence,
    /// Messages.
    pub messages: u32,
    /// The level they were answered at.
    pub level: AckLevel,
}

/// What a subscription began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The first sequence that can be delivered.
    pub starts_at: Sequence,
    /// The newest settled message when it began.
    pub newest_settled: Sequence,
    /// The first message kept.
    pub first_kept: Sequence,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Open a socket to the server, then call `connected` or `connect_failed`.
    Dial,
    /// Drop the socket; what is left to write is of no use. `last_words`: write what `poll_transmit` still gives first.
    Drop {
        /// Whether something is still worth writing.
        last_words: bool,
    },
    /// The server welcomed the client.
    Up,
    /// A publisher is open, again or for the first time.
    PublisherOpened {
        /// Which.
        publisher: PublisherId,
        /// Its epoch.
        epoch: u32,
        /// The last publisher sequence the server consumed.
        last_consumed: u64,
    },
    /// The next messages of a publisher, in its order, have their outcome.
    Answered {
        /// Which.
        publisher: PublisherId,
        /// Messages.
        messages: u32,
        /// Their outcome.
        outcome: Result<Ack>,
    },
    /// A publisher takes nothing more. Everything unanswered was answered before this. `Closed`: as asked.
    PublisherOver {
        /// Which.
        publisher: PublisherId,
        /// Why.
        error: Error,
    },
    /// A subscription began, again or for the first time.
    Subscribed {
        /// Which.
        subscription: SubscriptionId,
        /// With what.
        started: Started,
    },
    /// Messages.
    Delivered {
        /// To whom.
        subscription: SubscriptionId,
        /// The messages.
        batch: Batch,
    },
    /// Everything selected up to here was delivered.
    Mark {
        /// To whom.
        subscription: SubscriptionId,
        /// The mark.
        through: Sequence,
    },
    /// The position is behind retention; nothing follows until `go_on`.
    Trimmed {
        /// Whose.
        subscription: SubscriptionId,
        /// The first message wanted.
        wanted: Sequence,
        /// The first message kept.
        first: Sequence,
    },
    /// A subscription delivers nothing more.
    SubscriptionOver {
        /// Which.
        subscription: SubscriptionId,
        /// `Ok`: it reached its end.
        outcome: Result<()>,
    },
    /// A request was answered, with all its answers.
    Answer {
        /// Which.
        request: RequestId,
        /// The answers.
        outcome: Result<Vec<Answer>>,
    },
    /// Everything is over; everything open was ended before this. `Closed`: as asked.
    Over(Error),
}
