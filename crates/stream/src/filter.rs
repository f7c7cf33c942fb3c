//! What a filter is, the plain rule of what it matches, and sets of filters.
//!
//! | filter | matches |
//! |---|---|
//! | `a/b/c` | that topic |
//! | `a/b/**` | `a/b` and everything below it |
//! | `a/*/c` | `*` is exactly one level, an empty one too |
//! | `**` | everything |
//!
//! A first level starting with `$` belongs to the bus: `*` and `**` in first place do not match it, `$bus/**` does.
//! [`Filter::matches`] is the rule itself, read off the table; the quick structures are tested against it.
//! A topic that starts with `!` has no filter of its own, because that start is reserved; `*` matches it.

use std::collections::{BTreeSet, btree_set};
use std::fmt;

use crate::Result;
use crate::error::{Error, Shown, Text};
use crate::topic::{LEVELS_MAX, TOPIC_BYTES_MAX, check_text, is_reserved, level_at, level_count, levels, utf8};

/// The longest filter: the longest topic's subtree.
pub const FILTER_BYTES_MAX: usize = TOPIC_BYTES_MAX + "/**".len();
/// The most filters of one subscription: 16 MiB of text at the very most, 1 MiB as people write them.
pub const FILTERS_MAX: usize = 16_384;

/// One filter: a text known to be valid. Ordered and compared by its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter(Box<str>);

/// One level of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// This very level.
    Level(&'a str),
    /// `*`: any one level.
    One,
    /// `**`: whatever follows, nothing too. Always the last.
    Rest,
}

impl Filter {
    /// Checks a text.
    pub fn new(value: &str) -> Result<Filter> {
        check_text(Text::Filter, value)?;
        if value.starts_with('!') {
            return Err(Error::FilterReserved { value: Shown::new(value) });
        }
        let count = level_count(value);
        let rest = value == "**" || value.ends_with("/**");
        if count - usize::from(rest) > LEVELS_MAX {
            let levels = count - usize::from(rest);
            return Err(Error::TooDeep { what: Text::Filter, levels, value: Shown::new(value) });
        }
        let mut start = 0;
        for (index, text) in levels(value).enumerate() {
            let level = index + 1;
            if text == "**" && level < count {
                return Err(Error::FilterRest { byte: start, level, levels: count, value: Shown::new(value) });
            }
            if let (Some(star), false) = (text.find('*'), matches!(text, "*" | "**")) {
                let byte = start + star;
                return Err(Error::FilterStar { byte, level: level_at(value, byte), value: Shown::new(value) });
            }
            start += text.len() + 1;
        }
        Ok(Filter(value.into()))
    }

    /// Checks bytes that came from outside.
    pub fn from_bytes(value: &[u8]) -> Result<Filter> {
        Filter::new(utf8(Text::Filter, value)?)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels from the first to the last.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        levels(&self.0).map(|level| match level {
            "*" => Part::One,
            "**" => Part::Rest,
            _ => Part::Level(level),
        })
    }

    /// Whether it names one topic.
    pub fn is_exact(&self) -> bool {
        // A `*` is never a part of a longer level.
        !self.0.contains('*')
    }

    /// Whether it is `**`.
    pub fn is_everything(&self) -> bool {
        &*self.0 == "**"
    }

    /// Whether a topic matches. This is the rule, level by level; nothing is looked up.
    pub fn matches(&self, topic: &str) -> bool {
        let reserved = is_reserved(topic);
        let mut rest = levels(topic);
        for (index, part) in self.parts().enumerate() {
            let wild = index > 0 || !reserved;
            match part {
                Part::Rest => return wild,
                Part::One if rest.next().is_none() || !wild => return false,
                Part::Level(level) if rest.next() != Some(level) => return false,
                Part::One | Part::Level(_) => {}
            }
        }
        rest.next().is_none()
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::str::FromStr for Filter {
    type Err = Error;

    fn from_str(value: &str) -> Result<Filter> {
        Filter::new(value)
    }
}

/// The filters of one subscription: each once, in the order of their bytes, so that equal sets are equal whatever
/// pieces they came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterSet {
    filters: BTreeSet<Filter>,
}

impl FilterSet {
    /// A set of no filters, which matches nothing.
    pub fn new() -> FilterSet {
        FilterSet::default()
    }

    /// A set of these texts.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<FilterSet> {
        let mut set = FilterSet::new();
        for value in values {
            set.insert(Filter::new(value)?)?;
        }
        Ok(set)
    }

    /// Adds one; false if it was there. One above [`FILTERS_MAX`] is refused and the set stays as it was.
    pub fn insert(&mut self, filter: Filter) -> Result<bool> {
        if self.filters.contains(&filter) {
            return Ok(false);
        }
        if self.filters.len() >= FILTERS_MAX {
            return Err(Error::FilterSetFull { filters_max: FILTERS_MAX, value: Shown::new(filter.as_str()) });
        }
        Ok(self.filters.insert(filter))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// The filters in the order of their bytes.
    pub fn iter(&self) -> btree_set::Iter<'_, Filter> {
        self.filters.iter()
    }

    /// Whether any filter matches a topic. This is the rule, filter by filter; for many topics use a
    /// [`crate::matcher::Matcher`] or a [`crate::selection::Selection`].
    pub fn matches(&self, topic: &str) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }
}

impl<'a> IntoIterator for &'a FilterSet {
    type Item = &'a Filter;
    type IntoIter = btree_set::Iter<'a, Filter>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::topic::Topic;

    fn check(filters: &[&str], expected: Expect) {
        let mut table = String::new();
        for &text in filters {
            let _ = match Filter::new(text) {
                Ok(filter) => {
                    assert_eq!(filter.to_string(), text);
                    let kind = match (filter.is_exact(), filter.is_everything()) {
                        (true, _) => "exact",
                        (_, true) => "everything",
                        _ => "pattern",
                    };
                    writeln!(table, "{}: {kind} {:?}", Shown::new(text), filter.parts().last().unwrap())
                }
                Err(error) => writeln!(table, "{error}"),
            };
        }
        expected.assert_eq(&table);
    }

    #[test]
    fn a_filter_is_a_topic_with_stars_for_whole_levels() {
        check(
            &[
                "a", "a/b/c", "a/**", "**", "*", "*/**", "a/*/c", "*/*/*", "/", "/**", "/*", "a//**", "$bus/**",
                "$bus/*/x", "a/!b", "日本/*",
            ],
            expect![[r#"
                "a": exact Level("a")
                "a/b/c": exact Level("c")
                "a/**": pattern Rest
                "**": everything Rest
                "*": pattern One
                "*/**": pattern Rest
                "a/*/c": pattern Level("c")
                "*/*/*": pattern One
                "/": exact Level("")
                "/**": pattern Rest
                "/*": pattern One
                "a//**": pattern Rest
                "$bus/**": pattern Rest
                "$bus/*/x": pattern Level("x")
                "a/!b": exact Level("!b")
                "日本/*": pattern One
            "#]],
        );
    }

    #[test]
    fn a_bad_filter_is_refused_with_what_where_and_what_would_be_right() {
        let deepest = format!("{}/**", ["*"; LEVELS_MAX].join("/"));
        let too_deep = ["x"; LEVELS_MAX + 1].join("/");
        let too_deep_subtree = format!("{too_deep}/**");
        let longest = format!("{}/**", "x".repeat(TOPIC_BYTES_MAX));
        let too_long = format!("y{longest}");
        check(
            &[
                "",
                "!a",
                "!",
                "**/a",
                "a/**/b",
                "a/**/",
                "a*",
                "a/b*c/d",
                "***",
                "a/***",
                "a\0",
                "a/b\n",
                &deepest,
                &too_deep,
                &too_deep_subtree,
                &longest,
                &too_long,
            ],
            expect![[r#"
                filter is empty: it needs 1 to 1027 bytes
                filter "!a" starts with '!', which is reserved: write what is wanted instead of what is not
                filter "!" starts with '!', which is reserved: write what is wanted instead of what is not
                filter "**/a" has '**' at byte 0, level 1 of 2: it may only be the last level
                filter "a/**/b" has '**' at byte 2, level 2 of 3: it may only be the last level
                filter "a/**/" has '**' at byte 2, level 2 of 3: it may only be the last level
                filter "a*" mixes '*' with other characters at byte 1, level 1: '*' is a whole level and stands for exactly one, '**' may be the last level
                filter "a/b*c/d" mixes '*' with other characters at byte 3, level 2: '*' is a whole level and stands for exactly one, '**' may be the last level
                filter "***" mixes '*' with other characters at byte 0, level 1: '*' is a whole level and stands for exactly one, '**' may be the last level
                filter "a/***" mixes '*' with other characters at byte 2, level 2: '*' is a whole level and stands for exactly one, '**' may be the last level
                filter "a\0" has the control character U+0000 at byte 1, level 1: none is allowed
                filter "a/b\n" has the control character U+000A at byte 3, level 2: none is allowed
                "*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/"…: pattern Rest
                filter "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"… has 33 levels: at most 32 are allowed
                filter "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"… has 33 levels: at most 32 are allowed
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…: pattern Rest
                filter "yxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… has 1028 bytes: at most 1027 are allowed
            "#]],
        );
        expect![[r#"filter "a/�" is not UTF-8 at byte 2: every byte must belong to valid UTF-8"#]]
            .assert_eq(&Filter::from_bytes(b"a/\xfe").unwrap_err().to_string());
    }

    #[test]
    fn filters_match_as_the_table_says() {
        let deepest = ["x"; LEVELS_MAX].join("/");
        let topics = [
            "a",
            "a/",
            "a/b",
            "a/b/c",
            "a//c",
            "/",
            "/a",
            "//",
            "$bus",
            "$bus/x",
            "a/$x",
            "ü/ß",
            "!a",
            deepest.as_str(),
        ];
        let deep_one = ["*"; LEVELS_MAX].join("/");
        let deep_rest = format!("{deepest}/**");
        let mut table = String::new();
        for text in [
            "a", "a/", "a/b", "a/**", "a/b/**", "a/*", "a/*/c", "a/*/**", "*", "*/*", "*/**", "**", "/", "/*", "/**",
            "*/", "$bus/**", "$bus/*", "$bus", "ü/*", "Ü/*", &deep_one, &deep_rest,
        ] {
            let filter = Filter::new(text).unwrap();
            let matched: Vec<String> = topics
                .iter()
                .filter(|topic| filter.matches(topic))
                .map(|topic| Shown::new(topic).to_string())
                .collect();
            let _ = writeln!(table, "{} -> {}", Shown::new(text), matched.join(" "));
        }
        for topic in topics {
            assert!(Topic::new(topic).is_ok());
        }
        expect![[r#"
            "a" -> "a"
            "a/" -> "a/"
            "a/b" -> "a/b"
            "a/**" -> "a" "a/" "a/b" "a/b/c" "a//c" "a/$x"
            "a/b/**" -> "a/b" "a/b/c"
            "a/*" -> "a/" "a/b" "a/$x"
            "a/*/c" -> "a/b/c" "a//c"
            "a/*/**" -> "a/" "a/b" "a/b/c" "a//c" "a/$x"
            "*" -> "a" "!a"
            "*/*" -> "a/" "a/b" "/" "/a" "a/$x" "ü/ß"
            "*/**" -> "a" "a/" "a/b" "a/b/c" "a//c" "/" "/a" "//" "a/$x" "ü/ß" "!a" "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"…
            "**" -> "a" "a/" "a/b" "a/b/c" "a//c" "/" "/a" "//" "a/$x" "ü/ß" "!a" "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"…
            "/" -> "/"
            "/*" -> "/" "/a"
            "/**" -> "/" "/a" "//"
            "*/" -> "a/" "/"
            "$bus/**" -> "$bus" "$bus/x"
            "$bus/*" -> "$bus/x"
            "$bus" -> "$bus"
            "ü/*" -> "ü/ß"
            "Ü/*" -> 
            "*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/"… -> "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"…
            "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"… -> "x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/"…
        "#]].assert_eq(&table);
    }

    #[test]
    fn a_set_holds_each_filter_once_whatever_the_pieces() {
        let mut set = FilterSet::parse(["b", "a/**", "b"]).unwrap();
        assert!(!set.insert(Filter::new("a/**").unwrap()).unwrap());
        assert_eq!(set, FilterSet::parse(["a/**", "b"]).unwrap());
        assert_ne!(set, FilterSet::parse(["a/**", "c"]).unwrap());
        assert!(set.matches("a/x") && set.matches("b") && !set.matches("c"));
        assert!(!FilterSet::new().matches("a"));
    }

    #[test]
    fn a_set_refuses_one_filter_too_many_and_names_the_limit() {
        let mut set = FilterSet::new();
        for number in 0..FILTERS_MAX {
            assert!(set.insert(Filter::new(&format!("a/{number}")).unwrap()).unwrap());
        }
        assert!(!set.insert(Filter::new("a/7").unwrap()).unwrap(), "one that is there is no more");
        let error = set.insert(Filter::new("one/more").unwrap()).unwrap_err();
        expect![[r#"filter "one/more" is one too many: a subscription has at most 16384 filters"#]]
            .assert_eq(&error.to_string());
        assert_eq!(set.len(), FILTERS_MAX);
    }
}
