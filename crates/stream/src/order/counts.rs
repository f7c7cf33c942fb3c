//! Messages, bytes and newest sequence of each topic; and, where a journal can fail, what each message that is not settled
//! changed of them, so that it can be taken back.

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
    /// Messages that are not settled, oldest first; `None` where nothing is ever taken back.
    open: Option<VecDeque<Open>>,
}

impl Counts {
    /// From here on messages may be taken back.
    pub fn keep_open(&mut self) {
        self.open.get_or_insert_default();
    }

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
        if let Some(open) = &mut self.open {
            open.push_back(Open { sequence, topic, bytes, before });
        }
    }

    /// Everything at or below is settled or was taken back.
    pub fn settled(&mut self, to: Sequence) {
        if let Some(open) = &mut self.open {
            while open.pop_front_if(|message| message.sequence <= to).is_some() {}
        }
    }

    /// Takes back what lies in ascending ranges and is not settled. Costs a look at every message that is not.
    pub fn take_back(&mut self, ranges: &[(Sequence, Sequence)]) {
        let Some(open) = &mut self.open else { return };
        let mut newest: BTreeMap<u32, Sequence> = BTreeMap::new();
        let topics = &mut self.topics;
        open.retain_mut(|message| {
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
    fn what_is_taken_back_leaves_the_newest_of_what_is_kept() {
        let mut counts = Counts::default();
        counts.keep_open();
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
