//! One cursor over segments, tip and live: wherever the next message lies, the same order and the same bytes. "Live" is a
//! reader that has reached the end.
//!
//! ```text
//!   history ──▶ tip ──▶ end        falls back when the tip has moved on past its place,
//!      ▲         │                 climbs again when it is well inside the tip (a quarter), not at its very edge
//!      └─────────┘
//! ```

use std::sync::Arc;

use crate::admission::Waiter;
use crate::history::{HistoryCursor, HistoryStep, ReadRequest, Supplied};
use crate::metrics::add;
use crate::node::Node;
use arioso_stream::Sequence;
use arioso_stream::tip::{ReadState, Selector, Slice, TipCursor};

/// What a step came to.
#[derive(Debug)]
pub enum Step {
    /// Went on; there may be slices.
    Read {
        /// Everything selected up to here was given out.
        through: Sequence,
        /// Bytes of the stream that were passed, selected or not.
        passed_bytes: u64,
        /// There is nothing more yet.
        at_end: bool,
    },
    /// Bytes from disk are needed first.
    Need(ReadRequest),
    /// Memory is needed first; the waiter is woken when there is some.
    Crowded,
    /// The position is behind what is kept.
    Trimmed {
        /// The first message wanted.
        wanted: Sequence,
        /// The first message kept.
        first: Sequence,
    },
    /// A part of history can't be read.
    Damaged {
        /// File, offset and range.
        text: String,
    },
}

enum Mode {
    Tip(Box<TipCursor>),
    History(Box<HistoryCursor>),
}

/// The cursor.
pub struct Reader {
    mode: Mode,
    filters: Arc<[Box<str>]>,
    waiter: Waiter,
    /// Bytes looked at on disk.
    touched_bytes: u64,
    /// Bytes of records selected among them.
    useful_bytes: u64,
}

impl Reader {
    /// Begins at the first message at or above `next`.
    pub fn new(node: &Node, next: Sequence, filters: Arc<[Box<str>]>, waiter: Waiter) -> Reader {
        let in_tip = next >= node.tip.first_sequence();
        let mode = if in_tip {
            Mode::Tip(Box::new(TipCursor::new(Arc::clone(&node.tip), next)))
        } else {
            Mode::History(Box::new(HistoryCursor::new(next, Arc::clone(&filters))))
        };
        Reader { mode, filters, waiter, touched_bytes: 0, useful_bytes: 0 }
    }

    /// Bytes that were needed.
    pub fn supply(&mut self, node: &Node, read: Result<Supplied, String>) {
        match &mut self.mode {
            Mode::History(cursor) => self.touched_bytes += cursor.supply(node, read),
            Mode::Tip(_) => panic!("the tip asks for no bytes"),
        }
    }

    /// Where it would go on from, elsewhere.
    pub fn seek(&mut self, node: &Node, next: Sequence) {
        let (touched_bytes, useful_bytes) = self.read_from_disk();
        let new = Reader::new(node, next, Arc::clone(&self.filters), self.waiter.clone());
        *self = Reader { touched_bytes, useful_bytes, ..new };
    }

    /// Bytes looked at on disk, and bytes of records that were selected among them.
    pub fn read_from_disk(&self) -> (u64, u64) {
        (self.touched_bytes, self.useful_bytes)
    }

    /// Gives memory back that others wait for; not while a read is under way.
    pub fn make_way(&mut self, node: &Node) {
        if let Mode::History(cursor) = &mut self.mode
            && cursor.is_in_the_way(node)
        {
            cursor.let_go();
        }
    }

    /// Nothing is wanted before `next`, which lies ahead: goes there at once where that is cheaper than passing what lies between.
    pub fn pass_to(&mut self, node: &Node, next: Sequence) {
        match &mut self.mode {
            Mode::Tip(cursor) => cursor.advance(Sequence(next.0 - 1)),
            Mode::History(_) if next >= node.tip.first_sequence() => self.seek(node, next),
            Mode::History(cursor) => cursor.pass_to(node, next),
        }
    }

    /// Reads on, up to a budget.
    pub fn step(&mut self, node: &Node, selector: &mut dyn Selector, budget: usize, out: &mut Vec<Slice>) -> Step {
        loop {
            match &mut self.mode {
                Mode::Tip(cursor) => {
                    let before = cursor.next();
                    let end = cursor.read(selector, budget, out);
                    if matches!(end.state, ReadState::FellOff(_)) && out.is_empty() {
                        add(&node.counters.falls, 1);
                        let next = cursor.next().max(before);
                        self.mode = Mode::History(Box::new(HistoryCursor::new(next, Arc::clone(&self.filters))));
                        continue;
                    }
                    let passed_bytes: usize = out.iter().map(|slice| slice.bytes.len()).sum();
                    return Step::Read {
                        through: end.through,
                        passed_bytes: passed_bytes as u64 + end.tested * 32,
                        at_end: end.state == ReadState::AtEnd,
                    };
                }
                Mode::History(cursor) => {
                    if let Some(next) = climbs(node, cursor.next()) {
                        add(&node.counters.climbs, 1);
                        self.mode = Mode::Tip(Box::new(TipCursor::new(Arc::clone(&node.tip), next)));
                        continue;
                    }
                    match cursor.step(node, selector, out, &self.waiter) {
                        HistoryStep::Read { through, passed_bytes } => {
                            self.useful_bytes += out.iter().map(|slice| slice.bytes.len() as u64).sum::<u64>();
                            return Step::Read { through, passed_bytes, at_end: false };
                        }
                        HistoryStep::Need(request) => return Step::Need(request),
                        HistoryStep::Crowded => return Step::Crowded,
                        HistoryStep::End => {
                            // History ends where the tip begins, or the tip has moved on meanwhile. After an unclean stop
                            // numbers were passed over before this start: nothing lies there.
                            let next = cursor.next().max(node.history.started_at());
                            if next >= node.tip.first_sequence() {
                                self.mode = Mode::Tip(Box::new(TipCursor::new(Arc::clone(&node.tip), next)));
                            } else {
                                self.mode =
                                    Mode::History(Box::new(HistoryCursor::new(next, Arc::clone(&self.filters))));
                            }
                        }
                        HistoryStep::Trimmed { first } => return Step::Trimmed { wanted: cursor.next(), first },
                        HistoryStep::Damaged { text } => return Step::Damaged { text },
                    }
                }
            }
        }
    }
}

/// Whether a place on disk is far enough inside the tip to go on there.
fn climbs(node: &Node, next: Sequence) -> Option<Sequence> {
    let first = node.tip.first_sequence();
    let settled = node.tip.settled_to();
    let margin = settled.0.saturating_sub(first.0) / 4;
    (next.0 >= first.0 + margin).then_some(next)
}
