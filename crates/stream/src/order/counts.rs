//! Messages, bytes and newest sequence of each topic; and what each message that is not settled changed of them, so that it
//! can be taken back, and that the newest settled one is known: a message on its way may be lost with the power.

use std::collections::{BTreeMap, VecDeque};

use crate::record::Sequence;

/// Messages, bytes and last sequence of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicCounts {
    /// Messages kept.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Sequence of the newest.
    pub last: Sequence,
}

/// A message that is not settled.
struct Open {
    sequence: Sequence,
    topic: u32,
    bytes: u32,
    /// The topic's newest before it.
    before: Sequence,
}

/// The counts of all topics.
#[derive(Default)]
pub(super) struct Counts {
    topics: Vec<TopicCounts>,
    /// Messages that are not settled, oldest first.
    open: VecDeque<Open>,
}

impl Counts {
    /// Counts of a topic.
    pub fn get(&self, topic: u32) -> TopicCounts {
        self.topics.get(topic as usize).copied().unwrap_or_default()
    }

    /// Sets what a start found.
    pub fn set(&mut self, topic: u32, counts: TopicCounts) {
        *slot(&mut self.topics, topic) = counts;
    }

    /// Counts a message.
    pub fn add(&mut self, topic: u32, bytes: u32, sequence: Sequence) {
        let counts = slot(&mut self.topics, topic);
        counts.messages += 1;
        counts.bytes += u64::from(bytes);
        let before = std::mem::replace(&mut counts.last, sequence);
        self.open.push_back(Open { sequence, topic, bytes, before });
    }

    /// The newest message of each topic at or below a settled sequence, where no newer one is settled.
    pub fn newest_settled(&self, topics: &[u32], to: Sequence, out: &mut Vec<Sequence>) {
        let mut before: BTreeMap<u32, Sequence> = BTreeMap::new();
        for message in self.open.iter().filter(|message| message.sequence > to) {
            before.entry(message.topic).or_insert(message.before);
        }
        let newest = topics.iter().map(|topic| {
            let last = self.get(*topic).last;
            if last <= to { last } else { before.get(topic).copied().unwrap_or(last) }
        });
        out.extend(newest.filter(|sequence| *sequence > Sequence::ZERO && *sequence <= to));
    }

    /// Everything at or below is settled or was taken back.
    pub fn settled(&mut self, to: Sequence) {
        while self.open.pop_front_if(|message| message.sequence <= to).is_some() {}
    }

    /// Takes back what lies in ascending ranges and is not settled. Costs a look at every message that is not.
    pub fn take_back(&mut self, ranges: &[(Sequence, Sequence)]) {
        let mut newest: BTreeMap<u32, Sequence> = BTreeMap::new();
        let topics = &mut self.topics;
        self.open.retain_mut(|message| {
            let last = newest.entry(message.topic).or_insert(message.before);
            message.before = *last;
            let at = ranges.partition_point(|(_, to)| *to < message.sequence);
            let void = ranges.get(at).is_some_and(|(from, _)| *from <= message.sequence);
            if void {
                let counts = slot(topics, message.topic);
                counts.messages -= 1;
                counts.bytes -= u64::from(message.bytes);
            } else {
                *last = message.sequence;
            }
            !void
        });
        for (topic, last) in newest {
            slot(topics, topic).last = last;
        }
    }
}

fn slot(topics: &mut Vec<TopicCounts>, topic: u32) -> &mut TopicCounts {
    let index = topic as usize;
    if topics.len() <= index {
        topics.resize(index + 1, TopicCounts::default());
    }
    &mut topics[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_as_of_a_settled_place_is_told_though_a_later_one_may_be_taken_back() {
        let mut counts = Counts::default();
        for (topic, sequence) in [(1, 1), (2, 2), (1, 3), (1, 4)] {
            counts.add(topic, 40, Sequence(sequence));
        }
        counts.settled(Sequence(2));
        let mut newest = Vec::new();
        counts.newest_settled(&[1, 2, 3], Sequence(2), &mut newest);
        assert_eq!(newest, [Sequence(1), Sequence(2)]);
        counts.settled(Sequence(3));
        newest.clear();
        counts.newest_settled(&[1, 2], Sequence(2), &mut newest);
        assert_eq!(newest, [Sequence(2)], "3 is settled: it is delivered behind 2");
    }

    #[test]
    fn what_is_taken_back_leaves_the_newest_of_what_is_kept() {
        let mut counts = Counts::default();
        for (topic, sequence) in [(1, 1), (2, 2), (1, 3), (1, 4), (2, 5), (1, 6)] {
            counts.add(topic, 40, Sequence(sequence));
        }
        counts.settled(Sequence(2));
        counts.take_back(&[(Sequence(3), Sequence(3)), (Sequence(5), Sequence(6))]);
        assert_eq!(counts.get(1), TopicCounts { messages: 2, bytes: 80, last: Sequence(4) });
        assert_eq!(counts.get(2), TopicCounts { messages: 1, bytes: 40, last: Sequence(2) });
        counts.take_back(&[(Sequence(4), Sequence(4))]);
        assert_eq!(counts.get(1), TopicCounts { messages: 1, bytes: 40, last: Sequence(1) });
    }
}
