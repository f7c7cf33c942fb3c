//! Parts of a message that came in several sentences, until the message is whole.
//!
//! A group of parts is known by talker, kind, number of parts, group digit and channel. Parts may come
//! in any order and among other sentences. A group is given up as incomplete when one of its parts comes
//! again, when it is older than [`GROUP_AGE_LINES_MAX`], when there are more than [`GROUPS_MAX`], and at
//! the end.

use super::bits::Bits;
use super::sentence::{Channel, Kind, PARTS_MAX, Sentence};

/// Open groups at once. Digits, channels, talkers and part counts of one coast network make far fewer.
pub const GROUPS_MAX: usize = 256;

/// After so many lines a group's missing parts will not come: sentences of one message follow each
/// other within a second, and a busy network sends some hundred lines a second.
pub const GROUP_AGE_LINES_MAX: u64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    talker: [u8; 2],
    kind: Kind,
    parts: u8,
    group: Option<u8>,
    channel: Channel,
}

#[derive(Debug)]
struct Group {
    key: Key,
    first_line: u64,
    have: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    part: u8,
    line: u64,
    payload: Vec<u8>,
    fill_bits: u8,
}

/// A message whose parts are all there.
#[derive(Debug, PartialEq, Eq)]
pub struct Whole {
    /// The lines of its parts, in order of arrival.
    pub lines: Vec<u64>,
    /// Its payload.
    pub bits: Bits,
}

/// A group that was given up.
#[derive(Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// The lines of the parts that came.
    pub lines: Vec<u64>,
    /// How many parts the message has.
    pub parts: u8,
    /// Which of them came, in order of arrival.
    pub have: Vec<u8>,
}

/// The groups that are open.
#[derive(Debug, Default)]
pub struct Assembler {
    groups: Vec<Group>, // oldest first
}

impl Assembler {
    /// Takes the sentence of `line`; gives the message it completes, and puts what it made the
    /// assembler give up into `given_up`.
    pub fn take(&mut self, line: u64, sentence: &Sentence<'_>, given_up: &mut Vec<Incomplete>) -> Option<Whole> {
        if sentence.parts == 1 {
            let bits = Bits::unarmour(sentence.payload, sentence.fill_bits);
            return Some(Whole { lines: vec![line], bits });
        }
        let Sentence { talker, kind, parts, group, channel, .. } = *sentence;
        let key = Key { talker, kind, parts, group, channel };
        let part =
            Part { part: sentence.part, line, payload: sentence.payload.to_vec(), fill_bits: sentence.fill_bits };
        let at = self.groups.iter().position(|g| g.key == key);
        let at = match at {
            Some(at) if self.groups[at].have.iter().any(|p| p.part == part.part) => {
                given_up.push(self.groups.remove(at).into());
                None
            }
            at => at,
        };
        let Some(at) = at else {
            self.groups.push(Group { key, first_line: line, have: vec![part] });
            if self.groups.len() > GROUPS_MAX {
                given_up.push(self.groups.remove(0).into());
            }
            return None;
        };
        self.groups[at].have.push(part);
        let whole = self.groups[at].have.len() == usize::from(parts);
        whole.then(|| self.groups.remove(at).into())
    }

    /// Gives up what is too old at `line`.
    pub fn expire(&mut self, line: u64, given_up: &mut Vec<Incomplete>) {
        while self.groups.first().is_some_and(|g| g.first_line + GROUP_AGE_LINES_MAX < line) {
            given_up.push(self.groups.remove(0).into());
        }
    }

    /// Gives up all that is open.
    pub fn finish(&mut self, given_up: &mut Vec<Incomplete>) {
        given_up.extend(self.groups.drain(..).map(Incomplete::from));
    }

    /// The line that the oldest incomplete record could still have: records up to there may leave.
    #[must_use]
    pub fn earliest_open_line(&self) -> Option<u64> {
        self.groups.iter().filter_map(|g| g.have.last().map(|p| p.line)).min()
    }
}

impl From<Group> for Incomplete {
    fn from(group: Group) -> Self {
        Self {
            lines: group.have.iter().map(|p| p.line).collect(),
            parts: group.key.parts,
            have: group.have.iter().map(|p| p.part).collect(),
        }
    }
}

impl From<Group> for Whole {
    fn from(mut group: Group) -> Self {
        let lines = group.have.iter().map(|p| p.line).collect();
        group.have.sort_by_key(|p| p.part);
        debug_assert!(group.have.len() <= usize::from(PARTS_MAX));
        let payload: Vec<u8> = group.have.iter().flat_map(|p| p.payload.iter().copied()).collect();
        let fill_bits = group.have.last().map_or(0, |p| p.fill_bits);
        Self { lines, bits: Bits::unarmour(&payload, fill_bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(parts: u8, part: u8, group: u8, payload: &[u8]) -> Sentence<'_> {
        Sentence {
            talker: *b"AI",
            kind: Kind::Others,
            parts,
            part,
            group: Some(group),
            channel: Channel::Unknown,
            payload,
            fill_bits: 0,
        }
    }

    fn run(sentences: &[Sentence<'_>]) -> (Vec<Whole>, Vec<Incomplete>) {
        let mut assembler = Assembler::default();
        let mut given_up = Vec::new();
        let mut whole = Vec::new();
        for (line, sentence) in (1..).zip(sentences) {
            whole.extend(assembler.take(line, sentence, &mut given_up));
        }
        assembler.finish(&mut given_up);
        (whole, given_up)
    }

    #[test]
    fn parts_in_any_order_and_interleaved_make_their_messages() {
        let (whole, given_up) = run(&[
            sentence(2, 2, 1, b"B"),
            sentence(3, 1, 2, b"x"),
            sentence(3, 3, 2, b"z"),
            sentence(2, 1, 1, b"A"),
            sentence(3, 2, 2, b"y"),
        ]);
        // Lines tell the order of arrival, bits the order of the parts.
        let lines: Vec<_> = whole.iter().map(|w| w.lines.clone()).collect();
        assert_eq!(lines, [vec![1, 4], vec![2, 3, 5]]);
        assert_eq!(whole[0].bits, Bits::unarmour(b"AB", 0));
        assert!(given_up.is_empty());
    }

    #[test]
    fn a_part_that_comes_again_gives_the_group_up_and_begins_a_new_one() {
        let (whole, given_up) = run(&[sentence(2, 1, 1, b"A"), sentence(2, 1, 1, b"B"), sentence(2, 2, 1, b"C")]);
        assert_eq!(given_up, [Incomplete { lines: vec![1], parts: 2, have: vec![1] }]);
        assert_eq!(whole[0].lines, [2, 3]);
    }

    #[test]
    fn open_groups_are_bounded_in_number_and_in_age() {
        let mut assembler = Assembler::default();
        let mut given_up = Vec::new();
        let talkers = (0..=u8::MAX).flat_map(|a| [[a, b'x'], [a, b'y']]);
        for (line, talker) in (1..).zip(talkers) {
            let one = Sentence { talker, ..sentence(2, 1, 1, b"A") };
            assert!(assembler.take(line, &one, &mut given_up).is_none());
        }
        assert_eq!(assembler.groups.len(), GROUPS_MAX);
        assert_eq!(given_up.len(), 512 - GROUPS_MAX);
        assembler.expire(513 + GROUP_AGE_LINES_MAX, &mut given_up);
        assert_eq!(given_up.len(), 512);
    }
}
