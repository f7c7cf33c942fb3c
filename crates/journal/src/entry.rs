//! The words of the ledger: what is entered, what comes out.
//!
//! An *entry* is what is answered at once: the messages of one publish frame (or of a part of it), a control record,
//! or an answer that needs no record. It lies in one batch with consecutive sequences and consecutive publisher
//! sequences, so it is durable, failed, settled and void as a whole. An atomic batch is one entry: "the rest of its
//! atomic batch" needs no rule of its own.

use arioso_stream::Sequence;

use crate::groups::Group;

/// The publisher of entries that have none (cursors, snapshots). No real publisher has this id.
pub const NO_PUBLISHER: u32 = 0;

/// A batch's number: consecutive over the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);

impl std::fmt::Display for BatchNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An entry's place in the order in which entries were received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Sequences from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceRange {
    /// The lowest.
    pub first: Sequence,
    /// The highest.
    pub last: Sequence,
}

impl SequenceRange {
    /// Whether a sequence is in it.
    pub fn contains(&self, sequence: Sequence) -> bool {
        self.first <= sequence && sequence <= self.last
    }

    /// Appends a range to ascending ones; a range that follows the last without a gap becomes a part of it.
    pub fn push(ranges: &mut Vec<SequenceRange>, range: SequenceRange) {
        match ranges.last_mut() {
            Some(last) if last.last.next() == range.first => last.last = range.last,
            _ => ranges.push(range),
        }
    }
}

/// When the reply may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// When the message is settled, in its group's order.
    Durable,
    /// As soon as it has its number, what it was conditioned on is settled, and the publisher's earlier replies left.
    Sequenced,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages of a publisher.
    Messages,
    /// One control record whose reply waits for it. With a publisher (epoch opened, skip) it is a link of that
    /// publisher's chain as its messages are.
    Control,
    /// An answer without a record: a refusal (`code` from the table of error numbers), or with code 0 the original
    /// number of something stored before (`detail`).
    Answer {
        /// The number from the table; 0 is ok.
        code: u16,
        /// The original first sequence, the expected number, the newest matching sequence: by code.
        detail: u64,
    },
}

/// What is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Whose it is; [`NO_PUBLISHER`] for nobody's.
    pub publisher: u32,
    /// The publisher's epoch.
    pub epoch: u32,
    /// Publisher sequence of the first message.
    pub first_publisher_sequence: u64,
    /// Messages the reply speaks of; not 0 for [`Kind::Messages`].
    pub messages: u32,
    /// Sequence of the first message or of the control record; not looked at for an answer.
    pub first: Sequence,
    /// The batch it lies in; not looked at for an answer.
    pub batch: BatchNumber,
    /// When the reply may leave.
    pub level: Level,
    /// Whose replies it keeps order with.
    pub group: Group,
    /// The sequence that the verdict on its condition rested on (for an answer too); `None` if on no message.
    pub conditioned_on: Option<Sequence>,
    /// The engine's own mark, given back with the reply.
    pub tag: u64,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The entry's.
    pub tag: u64,
    /// The entry's.
    pub publisher: u32,
    /// The entry's.
    pub first_publisher_sequence: u64,
    /// The entry's.
    pub messages: u32,
    /// The answer.
    pub verdict: Verdict,
}

/// The answer to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Stored, or stored before.
    Ok {
        /// Sequence of the first message (or of the control record).
        first: Sequence,
        /// What the answer promises.
        level: Level,
    },
    /// Refused; nothing was stored.
    Refused {
        /// The number from the table.
        code: u16,
        /// By code.
        detail: u64,
    },
    /// Void. The void record that says so is durable.
    Failed,
    /// Not stored, and not looked at again: the publisher's epoch is closed.
    Reopen,
    /// The outcome will not be known here (the journal is lost or fenced).
    Unknown,
}
