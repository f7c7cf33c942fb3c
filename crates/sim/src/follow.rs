//! What a subscription got, held against the full reads: exactly the matching messages from its start, each once, over all its
//! connections, as far as its marks say.

use arioso_stream::filter::FilterSet;

use crate::model::{Kept, ReadBack};
use crate::{Check, violated};

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Not told yet.
    Unknown,
    /// At this sequence.
    At(u64),
    /// At the newest message of every topic, from the lowest of them up to `end`, then everything.
    Newest {
        /// The lowest.
        from: u64,
        /// As of here.
        end: u64,
        /// Numbers below were given when it began: a topic's newest among them may have come in place of one below `end`. The
        /// highest there is: not known.
        given: u64,
    },
    /// At the first message stamped at or after this, which lies at or above the sequence.
    Time(i64, u64),
}

/// One subscription over all its connections.
#[derive(Debug)]
pub struct Follow {
    /// Its number in this run.
    pub number: u32,
    /// Its filters.
    pub filters: FilterSet,
    /// Where it begins.
    pub start: Start,
    /// By topic: whether it is wanted.
    wanted: Vec<bool>,
    delivered: Vec<u64>,
    /// Everything up to here was delivered.
    pub through: u64,
    /// Ranges that were gone before they were read: from, up to and without.
    skipped: Vec<(u64, u64)>,
    /// Marks to resume at.
    pub marks: Vec<u64>,
    /// How far it was held against a full read.
    checked_to: u64,
    checked: usize,
}

impl Follow {
    /// A subscription that was just made.
    pub fn new(number: u32, filters: FilterSet, start: Start, topics: &[String]) -> Follow {
        let wanted = topics.iter().map(|topic| filters.matches(topic)).collect();
        Follow {
            number,
            filters,
            start,
            wanted,
            delivered: Vec::new(),
            through: 0,
            skipped: Vec::new(),
            marks: Vec::new(),
            checked_to: 0,
            checked: 0,
        }
    }

    /// A message came.
    pub fn got(&mut self, kept: &Kept) -> Check {
        let (number, sequence) = (self.number, kept.sequence);
        if !self.wanted[kept.topic] {
            return violated(format!(
                "subscription {number} got message {} at {sequence}, which it does not want",
                kept.uid
            ));
        }
        let (from, time) = match self.start {
            Start::Unknown => {
                return violated(format!("subscription {number} got {sequence} before it was told where it begins"));
            }
            Start::At(from) | Start::Newest { from, .. } => (from, i64::MIN),
            Start::Time(time, from) => (from, time),
        };
        if sequence < from || kept.timestamp < time {
            return violated(format!("subscription {number} begins at {:?} and got {sequence}", self.start));
        }
        let before = self.delivered.last().copied().unwrap_or(0).max(self.through);
        if sequence <= before {
            return violated(format!("subscription {number} got {sequence} behind {before}"));
        }
        self.delivered.push(sequence);
        Ok(())
    }

    /// Everything up to here was delivered.
    pub fn mark(&mut self, through: u64) -> Check {
        if through < self.through || self.delivered.last().is_some_and(|last| through < *last) {
            let (number, last) = (self.number, self.delivered.last());
            return violated(format!(
                "subscription {number}: mark {through} behind mark {} and {last:?}",
                self.through
            ));
        }
        self.through = through;
        self.marks.push(through);
        Ok(())
    }

    /// What lies between was gone.
    pub fn skip(&mut self, from: u64, to: u64) {
        self.skipped.push((from, to));
    }

    /// Whether everything it got was held against a full read.
    pub fn is_checked(&self) -> bool {
        self.checked_to >= self.through
    }

    /// Up to here there is nothing it should still get.
    pub fn reached(&self) -> u64 {
        let begins = match self.start {
            Start::Unknown => 0,
            Start::At(from) | Start::Newest { from, .. } | Start::Time(_, from) => from.saturating_sub(1),
        };
        begins.max(self.through)
    }

    /// Messages delivered.
    pub fn delivered_count(&self) -> usize {
        self.delivered.len()
    }

    /// Whether a message must have been delivered: of those before the end of the newest, only one that stayed its topic's newest
    /// until the subscription began. After a cut it may get others too.
    fn is_needed(&self, kept: &Kept, read: &ReadBack) -> bool {
        let Start::Newest { end, given, .. } = self.start else { return true };
        let behind = read.kept.partition_point(|other| other.sequence <= kept.sequence);
        let later = read.kept[behind..].iter().take_while(|other| other.sequence < given);
        kept.sequence > end || !later.into_iter().any(|other| other.topic == kept.topic)
    }

    /// Holds it against a full read.
    pub fn check(&mut self, read: &ReadBack) -> Check {
        let to = read.through.min(self.through);
        if to <= self.checked_to {
            return Ok(());
        }
        let (from, time) = match self.start {
            Start::Unknown => return Ok(()),
            Start::At(from) | Start::Newest { from, .. } => (from, i64::MIN),
            Start::Time(time, from) => (from, time),
        };
        if let Start::Newest { given, .. } = self.start
            && given != u64::MAX
            && read.through + 1 < given
        {
            return Ok(());
        }
        let from = from.max(self.checked_to + 1).max(read.first_kept);
        let first = read.kept.partition_point(|kept| kept.sequence < from);
        while self.delivered.get(self.checked).is_some_and(|sequence| *sequence < read.first_kept) {
            self.checked += 1;
        }
        for kept in read.kept[first..].iter().take_while(|kept| kept.sequence <= to) {
            let skipped = self.skipped.iter().any(|(from, to)| (*from..*to).contains(&kept.sequence));
            if !self.wanted[kept.topic] || kept.timestamp < time || skipped {
                continue;
            }
            let got = self.delivered.get(self.checked).copied();
            if got != Some(kept.sequence) && !self.is_needed(kept, read) {
                continue;
            }
            if got != Some(kept.sequence) {
                let (number, uid, sequence) = (self.number, kept.uid, kept.sequence);
                return violated(format!(
                    "subscription {number} should have got message {uid} at {sequence}, all through {} is said to be done; it got {got:?} there",
                    self.through
                ));
            }
            self.checked += 1;
        }
        if self.delivered.get(self.checked).is_some_and(|sequence| *sequence <= to) {
            let (number, got) = (self.number, self.delivered[self.checked]);
            return violated(format!("subscription {number} got {got}, which is not in the stream"));
        }
        self.checked_to = to;
        Ok(())
    }
}
