//! The journal's settings: what was typed, and what it means.
//!
//! | name | values | default |
//! |---|---|---|
//! | `write-reply-ordering-groups` | a whole number from 1 to the limit below, or `per-publisher` | 1 |
//! | `max-write-reply-ordering-groups` | a whole number from 1 | 10,000 |
//! | `max-writes-in-flight` | a whole number from 1 to 1,024, or `adaptive` | 8 |
//!
//! Values come as text, from wherever they were read; a number given as text is a number.

use crate::error::Error;
use crate::groups::Groups;
use crate::limit::WritesInFlight;

/// One order for all replies, unless asked for otherwise.
pub const GROUPS_DEFAULT: &str = "1";
/// Guards against typing errors: more groups than this are hardly meant.
pub const GROUPS_MAX_DEFAULT: &str = "10000";
/// Where every publisher is a group.
pub const PER_PUBLISHER: &str = "per-publisher";
/// The highest value of the guard itself: a group's number is a `u32`, and the last one means "its own".
pub const GROUPS_LIMIT: u32 = u32::MAX - 1;

/// Enough to hide a slow write among the others; each takes a connection of a database.
pub const WRITES_IN_FLIGHT_DEFAULT: &str = "8";
/// Where the limit follows the backend's latency.
pub const ADAPTIVE: &str = "adaptive";
/// Connections that a database still likes.
pub const WRITES_IN_FLIGHT_LIMIT: u32 = 1_024;

/// The meaning of `write-reply-ordering-groups` under `max-write-reply-ordering-groups`; `None` is the default.
pub fn groups(groups: Option<&str>, groups_max: Option<&str>) -> Result<Groups, Error> {
    let groups = groups.unwrap_or(GROUPS_DEFAULT);
    let groups_max = groups_max.unwrap_or(GROUPS_MAX_DEFAULT);
    let Some(max) = whole_number(groups_max, GROUPS_LIMIT) else {
        return Err(Error::GroupsMax {
            groups_max: groups_max.to_string(),
            groups: groups.to_string(),
            limit: GROUPS_LIMIT,
        });
    };
    if groups.trim() == PER_PUBLISHER {
        return Ok(Groups::PerPublisher);
    }
    match whole_number(groups, max) {
        Some(groups) => Ok(Groups::Shared(groups)),
        None => Err(Error::Groups { groups: groups.to_string(), groups_max: groups_max.to_string() }),
    }
}

/// The meaning of `max-writes-in-flight`; `None` is the default.
pub fn writes_in_flight(value: Option<&str>) -> Result<WritesInFlight, Error> {
    let value = value.unwrap_or(WRITES_IN_FLIGHT_DEFAULT);
    if value.trim() == ADAPTIVE {
        return Ok(WritesInFlight::Adaptive);
    }
    whole_number(value, WRITES_IN_FLIGHT_LIMIT)
        .map(WritesInFlight::Fixed)
        .ok_or_else(|| Error::WritesInFlight { value: value.to_string(), limit: WRITES_IN_FLIGHT_LIMIT })
}

/// A whole number from 1 to `max` in decimal digits; spaces around it do no harm.
fn whole_number(text: &str, max: u32) -> Option<u32> {
    let digits = text.trim();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|n| (1..=max).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(groups_given: Option<&str>, max_given: Option<&str>, want: Expect) {
        let got = match groups(groups_given, max_given) {
            Ok(groups) => format!("{groups:?}"),
            Err(error) => error.to_string(),
        };
        want.assert_eq(&got);
    }

    #[test]
    fn groups_are_a_number_given_as_text_or_per_publisher() {
        check(None, None, expect!["Shared(1)"]);
        check(Some("4"), None, expect!["Shared(4)"]);
        check(Some(" 4 "), None, expect!["Shared(4)"]);
        check(Some("10000"), None, expect!["Shared(10000)"]);
        check(Some("20000"), Some("20000"), expect!["Shared(20000)"]);
        check(Some("1"), Some("1"), expect!["Shared(1)"]);
        check(Some("per-publisher"), Some("1"), expect!["PerPublisher"]);
    }

    #[test]
    fn groups_below_one_above_the_limit_or_not_numbers_are_refused_naming_both_settings() {
        check(
            Some("0"),
            None,
            expect![[
                r#"write-reply-ordering-groups is "0" and max-write-reply-ordering-groups is "10000": the first must be per-publisher or a whole number from 1 to the second"#
            ]],
        );
        check(
            Some("10001"),
            None,
            expect![[
                r#"write-reply-ordering-groups is "10001" and max-write-reply-ordering-groups is "10000": the first must be per-publisher or a whole number from 1 to the second"#
            ]],
        );
        check(
            Some("5"),
            Some("4"),
            expect![[
                r#"write-reply-ordering-groups is "5" and max-write-reply-ordering-groups is "4": the first must be per-publisher or a whole number from 1 to the second"#
            ]],
        );
        for bad in ["-1", "+4", "1.5", "1e3", "", "four", "true", "0x4", "per publisher", "99999999999999999999"] {
            let error = groups(Some(bad), Some("77")).unwrap_err().to_string();
            assert!(error.contains("write-reply-ordering-groups is"), "{error}");
            assert!(error.contains(&format!("{bad:?}")), "{error}");
            assert!(error.contains(r#"max-write-reply-ordering-groups is "77""#), "{error}");
        }
    }

    #[test]
    fn a_limit_below_one_or_not_a_number_is_refused_naming_both_settings() {
        check(
            None,
            Some("0"),
            expect![[
                r#"max-write-reply-ordering-groups is "0" and write-reply-ordering-groups is "1": the first must be a whole number from 1 to 4294967294"#
            ]],
        );
        check(
            Some("per-publisher"),
            Some("many"),
            expect![[
                r#"max-write-reply-ordering-groups is "many" and write-reply-ordering-groups is "per-publisher": the first must be a whole number from 1 to 4294967294"#
            ]],
        );
    }

    #[test]
    fn writes_in_flight_are_a_number_from_one() {
        assert_eq!(writes_in_flight(None).unwrap(), WritesInFlight::Fixed(8));
        assert_eq!(writes_in_flight(Some("1")).unwrap(), WritesInFlight::Fixed(1));
        assert_eq!(writes_in_flight(Some("adaptive")).unwrap(), WritesInFlight::Adaptive);
        let error = writes_in_flight(Some("0")).unwrap_err().to_string();
        expect![[r#"max-writes-in-flight is "0": it must be adaptive or a whole number from 1 to 1024"#]]
            .assert_eq(&error);
        assert!(writes_in_flight(Some("1025")).is_err());
        assert!(writes_in_flight(Some("auto")).is_err());
    }
}
