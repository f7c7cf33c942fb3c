//! What a publisher's channel has not answered yet, in the order in which it came: what the engine judges, and what was turned
//! away at the door. That waits for its turn, so that replies keep the publisher's order.
//!
//! ```text
//!   [ 5 x3 engine ] [ 8 x1 busy ] [ 9 x2 busy ]     5, 6, 7 are answered ─▶ 8 and 9, 10 follow at once
//! ```

use std::collections::VecDeque;

use arioso_stream::Sequence;
use arioso_wire::{AckLevel, Code, Reply};

use super::retry_after_ms;

/// Neighbours turned away for the same reason are one entry. Whoever makes more of them does not listen.
const TURNED_AWAY_MAX: usize = 4_096;

/// Consecutive messages that came together.
struct Entry {
    first: u64,
    messages: u32,
    bytes: u64,
    /// Level, reason and its number, if the engine was not asked.
    turned_away: Option<(AckLevel, Code, u64)>,
}

/// What a publisher's channel has not answered yet.
#[derive(Default)]
pub(super) struct Unanswered {
    entries: VecDeque<Entry>,
    messages: u64,
    bytes: u64,
    turned_away: usize,
    /// The number turned away first: nothing above it is looked at until it comes again.
    expects: Option<u64>,
}

impl Unanswered {
    /// Messages that the engine judges.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of their records.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether everything is answered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The engine is about to be asked.
    pub fn push(&mut self, first: u64, messages: u32, bytes: usize) {
        self.messages += u64::from(messages);
        self.bytes += bytes as u64;
        self.entries.push_back(Entry { first, messages, bytes: bytes as u64, turned_away: None });
    }

    /// The engine did not take what was pushed last.
    pub fn turn_last_away(&mut self, level: AckLevel, code: Code, detail: u64) {
        let last = self.entries.pop_back().expect("something was pushed");
        self.messages -= u64::from(last.messages);
        self.bytes -= last.bytes;
        self.add(last.first, last.messages, (level, code, detail));
    }

    /// The number that must come before this one, if something was turned away.
    pub fn expected_before(&mut self, first: u64) -> Option<u64> {
        self.expects = self.expects.filter(|expected| *expected < first);
        self.expects
    }

    /// The engine is not asked. False: this is too much, the client does not wait for replies.
    pub fn turn_away(&mut self, first: u64, messages: u32, level: AckLevel, (code, detail): (Code, u64)) -> bool {
        self.add(first, messages, (level, code, detail));
        self.turned_away <= TURNED_AWAY_MAX
    }

    fn add(&mut self, first: u64, messages: u32, why: (AckLevel, Code, u64)) {
        self.expects.get_or_insert(first);
        if let Some(last) = self.entries.back_mut()
            && last.turned_away == Some(why)
            && last.first.checked_add(last.messages.into()) == Some(first)
            && let Some(sum) = last.messages.checked_add(messages)
        {
            last.messages = sum;
            return;
        }
        self.turned_away += 1;
        self.entries.push_back(Entry { first, messages, bytes: 0, turned_away: Some(why) });
    }

    /// The engine answered the next messages.
    pub fn answered(&mut self, messages: u32) {
        let mut left = messages;
        while left > 0 {
            let Some(front) = self.entries.front_mut().filter(|front| front.turned_away.is_none()) else { return };
            let taken = left.min(front.messages);
            // Which of the records they were is not worth a look: each counts as much as the others.
            let bytes = front.bytes / u64::from(front.messages) * u64::from(taken);
            let bytes = if taken == front.messages { front.bytes } else { bytes };
            front.messages -= taken;
            front.bytes -= bytes;
            if front.messages == 0 {
                self.entries.pop_front();
            }
            self.messages -= u64::from(taken);
            self.bytes -= bytes;
            left -= taken;
        }
    }

    /// The reply whose turn it is, of what was turned away.
    pub fn next_turned_away(&mut self) -> Option<Reply> {
        let front = self.entries.pop_front_if(|front| front.turned_away.is_some())?;
        self.turned_away -= 1;
        let (level, code, detail) = front.turned_away?;
        Some(Reply {
            first: front.first,
            messages: front.messages,
            code,
            level,
            sequence: Sequence(detail),
            retry_after_ms: retry_after_ms(code),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(unanswered: &mut Unanswered) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| unanswered.next_turned_away()).map(|reply| (reply.first, reply.messages)).collect()
    }

    #[test]
    fn what_was_turned_away_is_answered_when_everything_before_it_is() {
        let mut unanswered = Unanswered::default();
        unanswered.push(5, 3, 300);
        assert!(unanswered.turn_away(8, 1, AckLevel::Durable, (Code::Busy, 0)));
        assert!(unanswered.turn_away(9, 2, AckLevel::Durable, (Code::Busy, 0)));
        unanswered.push(11, 1, 7);
        unanswered.turn_last_away(AckLevel::Durable, Code::Internal, 0);
        assert_eq!(due(&mut unanswered), []);
        unanswered.answered(2);
        assert_eq!((unanswered.messages(), unanswered.bytes()), (1, 100));
        assert_eq!(due(&mut unanswered), []);
        unanswered.answered(1);
        assert_eq!(due(&mut unanswered), [(8, 3), (11, 1)]);
        assert!(unanswered.is_empty() && unanswered.messages() == 0 && unanswered.bytes() == 0);
    }

    #[test]
    fn behind_what_was_turned_away_nothing_is_taken_until_it_comes_again() {
        let mut unanswered = Unanswered::default();
        assert!(unanswered.turn_away(8, 2, AckLevel::Durable, (Code::Busy, 0)));
        assert_eq!(unanswered.expected_before(10), Some(8));
        assert_eq!(unanswered.expected_before(8), None);
        assert_eq!(unanswered.expected_before(10), None);
    }

    #[test]
    fn a_client_that_does_not_listen_is_told_off_in_the_end() {
        let mut unanswered = Unanswered::default();
        unanswered.push(1, 1, 1);
        let taken = (0..).take_while(|at| unanswered.turn_away(2 * at, 1, AckLevel::Durable, (Code::Busy, 0)));
        assert_eq!(taken.count(), TURNED_AWAY_MAX);
    }
}
