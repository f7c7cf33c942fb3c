use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::shared::{cases, filter_set, filters_of, real_topics, topic};

fn set(filters: &[&str]) -> FilterSet {
    FilterSet::parse(filters.iter().copied()).unwrap()
}

fn named(topics: &[&str]) -> Names {
    let mut names = Names::new(100_000, 1);
    for (number, topic) in topics.iter().enumerate() {
        names.insert(TopicId(number as u32), topic).unwrap();
    }
    names
}

/// The partitions of a selection as text, whole ones with `!`.
fn partitions(selection: &Selection, names: &Names, from: u32) -> String {
    let mut found = Vec::new();
    let next = selection.partitions(names, PartitionId(from), &mut found);
    assert_eq!(next.0, names.partition_count().max(from));
    let mut told = Vec::new();
    for SelectedPartition { partition, whole } in found {
        let mut path = String::new();
        names.path_into(names.partition_node(partition).unwrap(), &mut path);
        told.push(path + if whole { "!" } else { "" });
    }
    told.join(" ")
}

#[test]
fn everything_is_constant_until_the_bus_has_topics() {
    let mut names = named(&["a", "b/c"]);
    let mut selection = Selection::new(&set(&["**", "$bus/x"]), &names);
    assert!(selection.is_everything(&names) && selection.selects(&names, TopicId(1)));
    names.insert(TopicId(2), "$bus/x").unwrap();
    names.insert(TopicId(3), "$bus/y").unwrap();
    assert!(!selection.is_everything(&names));
    let selected: Vec<bool> = (0..4).map(|id| selection.selects(&names, TopicId(id))).collect();
    assert_eq!(selected, [true, true, true, false]);
    assert!(!Selection::new(&set(&["*/**"]), &named(&["a"])).is_everything(&named(&["a"])));
}

#[test]
fn topics_named_later_are_selected() {
    for filters in [&["a/b", "x", "y"][..], &["a/b", "*"], &["a/b", "x", "nowhere/**"]] {
        let mut names = named(&["a/b", "a/c"]);
        let mut selection = Selection::new(&set(filters), &names);
        assert!(selection.selects(&names, TopicId(0)) && !selection.selects(&names, TopicId(1)));
        names.insert(TopicId(8), "a/d").unwrap();
        assert!(!selection.selects(&names, TopicId(8)));
        names.insert(TopicId(9), "x").unwrap();
        assert!(selection.selects(&names, TopicId(9)) && !selection.selects(&names, TopicId(8)));
        for id in 10..20 {
            names.insert(TopicId(id), &format!("many/{id}")).unwrap();
        }
        names.insert(TopicId(20), "y").unwrap();
        assert!(!selection.selects(&names, TopicId(15)));
        assert_eq!(selection.selects(&names, TopicId(20)), filters[2..] != ["nowhere/**"]);
    }
}

#[test]
fn partitions_are_those_that_can_hold_a_selected_topic() {
    let mut names = named(&["a/b/c", "a/d", "a", "b/b", "b", "$s/b", "c"]);
    for (filters, expected) in [
        (&["a/b/c"][..], "a/b"),
        (&["a/b"], "a/b"),
        (&["a/b/**"], "a/b!"),
        (&["a/**"], "a/b! a/d! a!"),
        (&["a/*"], "a/b a/d"),
        (&["a/*/x"], "a/b a/d"),
        (&["a"], "a!"),
        (&["*"], "a! b! c!"),
        (&["*/b"], "a/b b/b"),
        (&["*/b/**", "$s/*"], "a/b! b/b! $s/b"),
        (&["*/*/**"], "a/b! a/d! b/b!"),
        (&["**"], "a/b! a/d! a! b/b! b! c!"),
        (&["**", "$s/**"], "a/b! a/d! a! b/b! b! $s/b! c!"),
        (&["nowhere/**", "a/x"], ""),
        (&[], ""),
    ] {
        let selection = Selection::new(&set(filters), &names);
        assert_eq!(partitions(&selection, &names, 0), expected, "{filters:?}");
    }
    let selection = Selection::new(&set(&["*/new/**", "a/b"]), &names);
    let before = names.partition_count();
    names.insert(TopicId(50), "a/new/x").unwrap();
    names.insert(TopicId(51), "a/other").unwrap();
    assert_eq!(partitions(&selection, &names, before), "a/new!");
    assert_eq!(partitions(&selection, &names, 0), "a/b a/new!");
    assert_eq!(partitions(&selection, &names, 1_000), "");
}

#[test]
fn verdicts_stay_within_their_pages_and_are_right_when_judged_anew() {
    let mut verdicts = Verdicts::default();
    let topics = ((VERDICT_PAGES_MAX + 10) * VERDICT_PAGE_TOPICS) as u32;
    let selected = |topic: u32| topic.is_multiple_of(3);
    let mut judged = 0;
    for _ in 0..2 {
        for topic in (0..topics).step_by(512) {
            let verdict = verdicts.get_or_judge(TopicId(topic), || {
                judged += 1;
                selected(topic)
            });
            assert_eq!(verdict, selected(topic));
            assert_eq!(verdicts.get_or_judge(TopicId(topic), || unreachable!()), selected(topic));
        }
    }
    assert_eq!(verdicts.order.len(), VERDICT_PAGES_MAX);
    assert!(judged > topics / 512);
    assert!(verdicts.memory_bytes() < VERDICT_PAGES_MAX * 1_024 * 5 / 4);
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_selection_tells_what_the_rule_tells(
        filters in filter_set(),
        topics in prop::collection::vec((topic(), 1u32..3_000, any::<bool>()), 1..40),
        known in 0usize..20,
    ) {
        let mut names = Names::new(1_000, 1);
        let mut selection = None;
        let mut named = Vec::new();
        let mut next = PartitionId(0);
        let mut seen: BTreeSet<SelectedPartition> = BTreeSet::new();
        let mut out = Vec::new();
        let mut id = 0;
        for (number, (topic, gap, ask)) in topics.into_iter().enumerate() {
            if number == known {
                selection = Some(Selection::new(&filters, &names));
            }
            id += gap;
            if names.insert(TopicId(id), &topic).is_err() {
                continue;
            }
            named.push((TopicId(id), topic));
            let Some(selection) = selection.as_mut().filter(|_| ask) else { continue };
            next = selection.partitions(&names, next, &mut out);
            seen.extend(&out);
            for (id, topic) in &named {
                prop_assert_eq!(selection.selects(&names, *id), filters.matches(topic), "{}", topic);
            }
        }
        let mut selection = selection.unwrap_or_else(|| Selection::new(&filters, &names));
        selection.partitions(&names, next, &mut out);
        seen.extend(&out);
        // In pieces or at once, the partitions are the same.
        selection.partitions(&names, PartitionId(0), &mut out);
        prop_assert!(out.is_sorted() && out.iter().eq(seen.iter()));
        for (id, topic) in &named {
            let selected = filters.matches(topic);
            prop_assert_eq!(selection.selects(&names, *id), selected, "{}", topic);
            let partition = names.partition_of(*id).unwrap();
            let found = out.iter().find(|found| found.partition == partition);
            prop_assert!(!selected || found.is_some(), "{} in no partition", topic);
            prop_assert!(selected || !found.is_some_and(|found| found.whole), "{} is not selected", topic);
        }
    }
}

#[test]
fn real_topics_are_selected() {
    let Some(streams) = real_topics("real_topics_are_selected") else {
        return;
    };
    for (stream, topics) in streams {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        let names = named(&topics);
        for filter in filters_of(topics[topics.len() / 3]).into_iter().step_by(3) {
            let mut filters = FilterSet::new();
            filters.insert(filter).unwrap();
            let mut selection = Selection::new(&filters, &names);
            let mut found = Vec::new();
            selection.partitions(&names, PartitionId(0), &mut found);
            for (number, topic) in topics.iter().enumerate() {
                let (id, selected) = (TopicId(number as u32), filters.matches(topic));
                assert_eq!(selection.selects(&names, id), selected, "{stream} {filters:?} {topic}");
                let partition = names.partition_of(id).unwrap();
                assert!(!selected || found.iter().any(|found| found.partition == partition), "{stream} {topic}");
            }
        }
    }
}
