//! What can go wrong in this crate, one variant a situation, each with its numbers.
//!
//! Text is lower case and says what, where, the value (shortened) and what would be right. Levels are counted from
//! 1 in text, as people count; bytes from 0, as tools do.

use std::fmt;

use crate::filter::FILTER_BYTES_MAX;
use crate::topic::{LEVELS_MAX, TOPIC_BYTES_MAX};

/// The most bytes of a refused value that are repeated in an error.
pub const SHOWN_BYTES_MAX: usize = 60;

/// A misfortune: input that is refused or a ceiling that is reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text of no bytes.
    #[error("{what} is empty: it needs 1 to {} bytes", what.bytes_max())]
    Empty {
        /// What was given.
        what: Text,
    },
    /// A text of too many bytes.
    #[error("{what} {value} has {bytes} bytes: at most {} are allowed", what.bytes_max())]
    TooLong {
        /// What was given.
        what: Text,
        /// Its bytes.
        bytes: usize,
        /// The value.
        value: Shown,
    },
    /// Bytes that are not UTF-8.
    #[error("{what} {value} is not UTF-8 at byte {byte}: every byte must belong to valid UTF-8")]
    NotUtf8 {
        /// What was given.
        what: Text,
        /// The first byte that is wrong.
        byte: usize,
        /// The value, wrong bytes replaced.
        value: Shown,
    },
    /// NUL or another control character.
    #[error("{what} {value} has the control character U+{code:04X} at byte {byte}, level {level}: none is allowed")]
    Control {
        /// What was given.
        what: Text,
        /// Where.
        byte: usize,
        /// In which level.
        level: usize,
        /// Which.
        code: u32,
        /// The value.
        value: Shown,
    },
    /// More levels than allowed.
    #[error("{what} {value} has {levels} levels: at most {LEVELS_MAX} are allowed")]
    TooDeep {
        /// What was given.
        what: Text,
        /// Its levels; of a filter without a `**` at its end.
        levels: usize,
        /// The value.
        value: Shown,
    },
    /// A topic with a `*`.
    #[error("topic {value} has a '*' at byte {byte}, level {level}: only filters may use it")]
    TopicStar {
        /// Where.
        byte: usize,
        /// In which level.
        level: usize,
        /// The value.
        value: Shown,
    },
    /// A publish to a topic that belongs to the bus.
    #[error(
        "topic {value} can't be published to: a first level starting with '$' belongs to the bus, use another first level"
    )]
    TopicReserved {
        /// The value.
        value: Shown,
    },
    /// A `*` that is not a whole level.
    #[error(
        "filter {value} mixes '*' with other characters at byte {byte}, level {level}: \
         '*' is a whole level and stands for exactly one, '**' may be the last level"
    )]
    FilterStar {
        /// Where.
        byte: usize,
        /// In which level.
        level: usize,
        /// The value.
        value: Shown,
    },
    /// A `**` before the last level.
    #[error("filter {value} has '**' at byte {byte}, level {level} of {levels}: it may only be the last level")]
    FilterRest {
        /// Where.
        byte: usize,
        /// In which level.
        level: usize,
        /// Of how many.
        levels: usize,
        /// The value.
        value: Shown,
    },
    /// A filter that starts with `!`.
    #[error("filter {value} starts with '!', which is reserved: write what is wanted instead of what is not")]
    FilterReserved {
        /// The value.
        value: Shown,
    },
    /// One filter too many for a subscription.
    #[error("filter {value} is one too many: a subscription has at most {filters_max} filters")]
    FilterSetFull {
        /// How many are allowed.
        filters_max: usize,
        /// The filter refused.
        value: Shown,
    },
    /// One name too many.
    #[error("{what} {value} is refused: a stream has at most {max} {of}")]
    NamesFull {
        /// What was given.
        what: Text,
        /// The value.
        value: Shown,
        /// The ceiling.
        max: u64,
        /// Of what: topics, levels in the topic tree, bytes of level text, publishers.
        of: &'static str,
    },
    /// An id that belongs to another name.
    #[error("{what} {value} can't have id {id}: that is {known}, and ids are never reused")]
    IdTaken {
        /// What was given.
        what: Text,
        /// The id.
        id: u32,
        /// The name refused.
        value: Shown,
        /// The name that has the id.
        known: Shown,
    },
    /// A name that has another id.
    #[error("{what} {value} can't have id {id}: it already has id {known}")]
    NameTaken {
        /// What was given.
        what: Text,
        /// The id refused.
        id: u32,
        /// The name.
        value: Shown,
        /// The id it has.
        known: u32,
    },
    /// A topic id that is not above the last one, or the one value that is not an id.
    #[error("topic {value} can't have id {id}: a new topic's id is above {last} and below {}", u32::MAX)]
    IdOrder {
        /// The id refused.
        id: u32,
        /// The name.
        value: Shown,
        /// The last id given.
        last: u32,
    },
    /// A subscription whose filters do not fit any more.
    #[error(
        "a subscription of {filters} filters is refused: {filters_held} of at most {filters_max} filters are in use, \
         end other subscriptions first"
    )]
    MatcherFull {
        /// How many it has.
        filters: usize,
        /// How many all the others have.
        filters_held: usize,
        /// How many all together may have.
        filters_max: usize,
    },
}

/// What kind of text an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// A topic.
    Topic,
    /// A filter.
    Filter,
    /// A publisher's name.
    Publisher,
}

impl Text {
    /// The most bytes such a text may have.
    pub const fn bytes_max(self) -> usize {
        match self {
            Text::Topic => TOPIC_BYTES_MAX,
            Text::Filter => FILTER_BYTES_MAX,
            Text::Publisher => crate::publishers::PUBLISHER_NAME_BYTES_MAX,
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Text::Topic => "topic",
            Text::Filter => "filter",
            Text::Publisher => "publisher name",
        })
    }
}

/// A value as an error repeats it: quoted, escaped, shortened to [`SHOWN_BYTES_MAX`].
#[derive(Clone, PartialEq, Eq)]
pub struct Shown {
    text: Box<str>,
    cut: bool,
}

impl Shown {
    /// Shortens and keeps a value.
    pub fn new(value: &str) -> Shown {
        let end = value.floor_char_boundary(SHOWN_BYTES_MAX);
        Shown { text: value[..end].into(), cut: end < value.len() }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.text, if self.cut { "…" } else { "" })
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
