//! What a topic is.
//!
//! ```text
//! ais/ship/219/219000123      four levels parted by slashes
//! └──────┘                    its partition: the first two levels
//! ```
//!
//! Bytes are compared as they are; nothing is normalised. A level may be empty, so `/a` has two levels and its
//! partition is `/a`.

use std::fmt;

use crate::Result;
use crate::error::{Error, Shown, Text};

/// The longest topic: far above real ones (350 bytes with MQTT), far below what a batch header may hold.
pub const TOPIC_BYTES_MAX: usize = 1024;
/// The deepest topic: walks keep one small entry a level on the stack.
pub const LEVELS_MAX: usize = 32;
/// How many levels the topics of one partition share.
pub const PARTITION_LEVELS: usize = 2;

// The deepest topic of one-byte levels fits the longest.
const _: () = assert!(LEVELS_MAX * 2 <= TOPIC_BYTES_MAX && PARTITION_LEVELS <= LEVELS_MAX);

/// The stream-wide number of a topic; never reused. `u32::MAX` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u32);

/// The stream-wide number of a publisher; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublisherId(pub u32);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PublisherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text known to be a valid topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic<'a>(&'a str);

impl<'a> Topic<'a> {
    /// Checks a text. A first level starting with `$` is valid: such topics belong to the bus.
    pub fn new(value: &'a str) -> Result<Topic<'a>> {
        check_text(Text::Topic, value)?;
        let levels = level_count(value);
        if levels > LEVELS_MAX {
            return Err(Error::TooDeep { what: Text::Topic, levels, value: Shown::new(value) });
        }
        if let Some(byte) = value.find('*') {
            return Err(Error::TopicStar { byte, level: level_at(value, byte), value: Shown::new(value) });
        }
        Ok(Topic(value))
    }

    /// Checks bytes that came from outside.
    pub fn from_bytes(value: &'a [u8]) -> Result<Topic<'a>> {
        Topic::new(utf8(Text::Topic, value)?)
    }

    /// Refuses a topic that only the bus itself may write.
    pub fn check_publishable(self) -> Result<()> {
        if is_reserved(self.0) {
            return Err(Error::TopicReserved { value: Shown::new(self.0) });
        }
        Ok(())
    }

    /// The text.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// The levels from the first to the last.
    pub fn levels(self) -> std::str::Split<'a, char> {
        levels(self.0)
    }

    /// How many levels.
    pub fn level_count(self) -> usize {
        level_count(self.0)
    }

    /// The first two levels; see [`partition`].
    pub fn partition(self) -> &'a str {
        partition(self.0)
    }
}

impl fmt::Display for Topic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The levels of a topic's text.
pub fn levels(topic: &str) -> std::str::Split<'_, char> {
    topic.split('/')
}

/// How many levels a topic's text has.
pub fn level_count(topic: &str) -> usize {
    topic.bytes().filter(|&byte| byte == b'/').count() + 1
}

/// The partition of a topic's text: its first two levels, or all of it when it has one level only.
pub fn partition(topic: &str) -> &str {
    let end = topic.match_indices('/').nth(PARTITION_LEVELS - 1).map_or(topic.len(), |(byte, _)| byte);
    &topic[..end]
}

/// Whether the first level starts with `$`: the topic belongs to the bus, and wildcards do not match that level.
pub fn is_reserved(topic: &str) -> bool {
    topic.starts_with('$')
}

/// What topics, filters and publishers' names have in common: 1 to so many bytes, no control character.
pub(crate) fn check_text(what: Text, value: &str) -> Result<()> {
    if value.is_empty() {
        return Err(Error::Empty { what });
    }
    if value.len() > what.bytes_max() {
        return Err(Error::TooLong { what, bytes: value.len(), value: Shown::new(value) });
    }
    if let Some((byte, control)) = value.char_indices().find(|(_, c)| c.is_control()) {
        let (level, code) = (level_at(value, byte), u32::from(control));
        return Err(Error::Control { what, byte, level, code, value: Shown::new(value) });
    }
    Ok(())
}

/// Bytes from outside as text.
pub(crate) fn utf8(what: Text, value: &[u8]) -> Result<&str> {
    std::str::from_utf8(value).map_err(|error| {
        // What is shown is cut before it is converted: the bytes may be many.
        let head = String::from_utf8_lossy(&value[..value.len().min(crate::error::SHOWN_BYTES_MAX * 2)]).into_owned();
        Error::NotUtf8 { what, byte: error.valid_up_to(), value: Shown::new(&head) }
    })
}

/// In which level, counted from 1, a byte lies.
pub(crate) fn level_at(value: &str, byte: usize) -> usize {
    level_count(&value[..byte])
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::{Expect, expect};

    use super::*;

    fn check(topics: &[&str], expected: Expect) {
        let mut table = String::new();
        for &topic in topics {
            let shown = Shown::new(topic);
            let _ = match Topic::new(topic) {
                Ok(valid) => {
                    let levels: Vec<_> = valid.levels().collect();
                    assert_eq!(levels.len(), valid.level_count());
                    let publishable = if valid.check_publishable().is_ok() { "" } else { ", the bus only" };
                    let partition = Shown::new(valid.partition());
                    writeln!(table, "{shown}: {} levels, partition {partition}{publishable}", levels.len())
                }
                Err(error) => writeln!(table, "{error}"),
            };
        }
        expected.assert_eq(&table);
    }

    #[test]
    fn a_topic_is_any_text_of_levels_without_controls_and_stars() {
        check(
            &[
                "a",
                "a/b",
                "a/b/c",
                "/",
                "//",
                "/a",
                "a/",
                "a//b",
                "$bus/x",
                "$",
                "a/$b",
                "!a",
                "+/#",
                "ä/日本 語/…",
                "a\u{a0}b",
            ],
            expect![[r#"
                "a": 1 levels, partition "a"
                "a/b": 2 levels, partition "a/b"
                "a/b/c": 3 levels, partition "a/b"
                "/": 2 levels, partition "/"
                "//": 3 levels, partition "/"
                "/a": 2 levels, partition "/a"
                "a/": 2 levels, partition "a/"
                "a//b": 3 levels, partition "a/"
                "$bus/x": 2 levels, partition "$bus/x", the bus only
                "$": 1 levels, partition "$", the bus only
                "a/$b": 2 levels, partition "a/$b"
                "!a": 1 levels, partition "!a"
                "+/#": 2 levels, partition "+/#"
                "ä/日本 語/…": 3 levels, partition "ä/日本 語"
                "a\u{a0}b": 1 levels, partition "a\u{a0}b"
            "#]],
        );
    }

    #[test]
    fn a_bad_topic_is_refused_with_what_where_and_what_would_be_right() {
        let deepest = ["x"; LEVELS_MAX].join("/");
        let too_deep = ["x"; LEVELS_MAX + 1].join("/");
        let longest = "é".repeat(TOPIC_BYTES_MAX / 2);
        let too_long = format!("{longest}x");
        check(
            &[
                "",
                "a/*",
                "a/**",
                "a*b/c",
                "a\0b",
                "a/b/\u{85}",
                "a\tb",
                "\u{7f}",
                &deepest,
                &too_deep,
                &longest,
                &too_long,
            ],
            expect![[r#"
                topic is empty: it needs 1 to 1024 bytes
                topic "a/*" has a '*' at byte 2, level 2: only filters may use it
                topic "a/**" has a '*' at byte 2, level 2: only filters may use it
                topic "a*b/c" has a '*' at byte 1, level 1: only filters may use it
                topic "a\0b" has the control character U+0000 at byte 1, level 1: none is allowed
                topic "a/b/\u{85}" has the control character U+0085 at byte 4, level 3: none is allowed
                topic "a\tb" has the control character U+0009 at byte 1, level 1: none is allowed
                topic "\u{7f}" has the control character U+007F at byte 0, level 1: none is allowed
                "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"…: 32 levels, partition "x/x"
                topic "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"… has 33 levels: at most 32 are allowed
                "éééééééééééééééééééééééééééééé"…: 1 levels, partition "éééééééééééééééééééééééééééééé"…
                topic "éééééééééééééééééééééééééééééé"… has 1025 bytes: at most 1024 are allowed
            "#]],
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_are_named() {
        let mut table = String::new();
        for bytes in [&b"a/\xff/c"[..], b"\xc3", b"ok/\xc3\xa4"] {
            let _ = match Topic::from_bytes(bytes) {
                Ok(topic) => writeln!(table, "{topic} is fine"),
                Err(error) => writeln!(table, "{error}"),
            };
        }
        expect![[r#"
            topic "a/�/c" is not UTF-8 at byte 2: every byte must belong to valid UTF-8
            topic "�" is not UTF-8 at byte 0: every byte must belong to valid UTF-8
            ok/ä is fine
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn a_reserved_topic_is_valid_but_not_publishable() {
        let error = Topic::new("$bus/health").unwrap().check_publishable().unwrap_err();
        expect![[r#"topic "$bus/health" can't be published to: a first level starting with '$' belongs to the bus, use another first level"#]].assert_eq(&error.to_string());
    }
}
