//! The rule that replies leave by, replayed on a run's own times: a reply leaves when its message's write is known and every
//! reply before it in its group has left.
//!
//! ```text
//! group a   known at   3   9   5          leaves at   3   9   9
//! ```

use std::collections::HashMap;

/// A message as the run saw it; times are nanoseconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The group its replies keep order in; of a run in which each publisher is a group, the publisher.
    pub group: u32,
    /// Its number in the stream: the order in which messages were received.
    pub sequence: u64,
    /// When it was to be sent.
    pub due: u64,
    /// When its reply arrived.
    pub replied: u64,
}

/// A write as the run saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Sequence of its first message.
    pub first: u64,
    /// Sequence of its last message.
    pub last: u64,
    /// When it was handed over.
    pub submitted: u64,
    /// When it was known durable.
    pub known: u64,
}

/// When the rule lets each reply leave, in the order of `sent`, which is sorted here by sequence. `Err`: a message lies in no
/// write.
pub fn leaves(sent: &mut [Sent], written: &[Written]) -> Result<Vec<u64>, u64> {
    assert!(written.is_sorted_by_key(|write| write.first), "writes are in the order they were handed over");
    sent.sort_unstable_by_key(|message| message.sequence);
    let mut left: HashMap<u32, u64> = HashMap::new();
    let mut leaves = Vec::with_capacity(sent.len());
    for message in sent.iter() {
        let at = written.partition_point(|write| write.first <= message.sequence);
        let write = at.checked_sub(1).and_then(|at| written.get(at)).filter(|write| message.sequence <= write.last);
        let known = write.ok_or(message.sequence)?.known;
        let left = left.entry(message.group).or_default();
        *left = known.max(*left);
        leaves.push(*left);
    }
    Ok(leaves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(group: u32, sequence: u64) -> Sent {
        Sent { group, sequence, due: 0, replied: 0 }
    }

    fn written(first: u64, last: u64, known: u64) -> Written {
        Written { first, last, submitted: 0, known }
    }

    #[test]
    fn a_slow_write_holds_back_what_follows_in_its_group_and_nothing_else() {
        let mut messages = [sent(1, 14), sent(1, 11), sent(2, 12), sent(1, 10), sent(2, 13)];
        let writes = [written(10, 10, 3), written(11, 11, 9), written(12, 13, 4), written(14, 20, 5)];
        assert_eq!(leaves(&mut messages, &writes), Ok(vec![3, 9, 4, 4, 9]));
        assert_eq!(messages.map(|message| message.sequence), [10, 11, 12, 13, 14]);
    }

    #[test]
    fn a_message_that_no_write_holds_is_told() {
        let writes = [written(10, 10, 3), written(12, 13, 4)];
        assert_eq!(leaves(&mut [sent(1, 11)], &writes), Err(11));
        assert_eq!(leaves(&mut [sent(1, 9)], &writes), Err(9));
    }
}
