use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::shared::{cases, filter, filters_of, real_topics, topic};
use crate::topic::partition;

fn named(topics: &[&str]) -> Names {
    let mut names = Names::new(1_000, 1);
    for (number, topic) in topics.iter().enumerate() {
        names.insert(TopicId(number as u32), topic).unwrap();
    }
    names
}

fn visited(names: &Names, filter: &Filter) -> Vec<TopicId> {
    let mut found = Vec::new();
    names.visit(filter, |topic| found.push(topic));
    found.sort_unstable();
    found
}

/// Nodes a whole walk looks at.
fn steps(names: &Names, filter: &str) -> u64 {
    let mut walk = TopicWalk::new(&Filter::new(filter).unwrap());
    let mut left = u64::MAX;
    while walk.advance(names, &mut left) != Walked::Done {}
    u64::MAX - left
}

#[test]
fn what_is_refused_is_told_and_changes_nothing() {
    let mut names = Names::new(4, 1);
    let mut told = String::new();
    for (id, name) in [
        (3, "a/b"),
        (3, "a/b"),
        (3, "a/c"),
        (4, "a/b"),
        (2, "a/c"),
        (9, "a/*"),
        (9, ""),
        (u32::MAX, "a/c"),
        (10, "a/c"),
        (11, "a"),
        (12, "a//b"),
        (13, "one/more"),
        (12, "a//b"),
    ] {
        let before = names.len();
        let _ = match names.insert(TopicId(id), name) {
            Ok(()) => writeln!(told, "{id} {name} fine, {} topics", names.len()),
            Err(error) => {
                assert_eq!(names.len(), before);
                writeln!(told, "{error}")
            }
        };
    }
    expect![[r#"
        3 a/b fine, 1 topics
        3 a/b fine, 1 topics
        topic "a/c" can't have id 3: that is "a/b", and ids are never reused
        topic "a/b" can't have id 4: it already has id 3
        topic "a/c" can't have id 2: a new topic's id is above 3 and below 4294967295
        topic "a/*" has a '*' at byte 2, level 2: only filters may use it
        topic is empty: it needs 1 to 1024 bytes
        topic "a/c" can't have id 4294967295: a new topic's id is above 3 and below 4294967295
        10 a/c fine, 2 topics
        11 a fine, 3 topics
        12 a//b fine, 4 topics
        topic "one/more" is refused: a stream has at most 4 topics (topics-max)
        12 a//b fine, 4 topics
    "#]]
    .assert_eq(&told);
    assert_eq!(names.find("one"), None);
}

#[test]
fn a_tree_of_nodes_nobody_needs_is_refused() {
    let mut names = Names::new(1_000, 1);
    let refused = (0..1_000).find_map(|number| {
        let deep = ["x"; LEVELS_MAX - 1].map(|x| format!("{x}{number}")).join("/");
        names.insert(TopicId(number), &deep).err().map(|error| (number, error.to_string()))
    });
    expect![[r#"Some((258, "topic \"x258/x258/x258/x258/x258/x258/x258/x258/x258/x258/x258/x258/\"… is refused: a stream has at most 8000 levels in its topic tree (8 × topics-max)"))"#]].assert_eq(&format!("{refused:?}"));

    let mut names = Names::new(10_000, 1);
    let refused = (0..).find_map(|number: u32| {
        let long = format!("{}{number}", "x".repeat(1_000));
        names.insert(TopicId(number), &long).err().map(|error| error.to_string())
    });
    expect![[r#"Some("topic \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"… is refused: a stream has at most 4194304 bytes of level text (256 × topics-max)")"#]].assert_eq(&format!("{refused:?}"));
}

#[test]
fn ids_may_have_gaps_and_tell_names_and_partitions() {
    let mut names = Names::new(1_000, 1);
    let ids = [0, 1, 5, 6, 7, 1_000_000, 4_000_000_000, u32::MAX - 1];
    for (number, &id) in ids.iter().enumerate() {
        assert_eq!(names.last_id(), number.checked_sub(1).map(|before| TopicId(ids[before])));
        names.insert(TopicId(id), &format!("p/{}/t{number}", number % 3)).unwrap();
    }
    for (number, &id) in ids.iter().enumerate() {
        assert_eq!(names.name(TopicId(id)), Some(format!("p/{}/t{number}", number % 3)));
        assert_eq!(names.partition_of(TopicId(id)), Some(PartitionId(number as u32 % 3)));
        let after: Vec<u32> = names.topics_after(Some(TopicId(id))).map(|topic| topic.0).collect();
        assert_eq!(after, ids[number + 1..]);
    }
    for id in [2, 4, 8, 999_999, 1_000_001, u32::MAX] {
        assert_eq!(
            (names.name(TopicId(id)), names.partition_of(TopicId(id)), names.node(TopicId(id))),
            (None, None, None)
        );
    }
    assert_eq!(names.topics_after(Some(TopicId(3))).next(), Some(TopicId(5)));
    assert_eq!(names.topics_after(Some(TopicId(u32::MAX))).next(), None);
    assert_eq!(names.topics_after(None).count(), ids.len());
}

#[test]
fn a_one_level_topic_is_a_partition_of_its_own() {
    let names = named(&["a/b/c", "a", "/x", "a/b", "/", "b", "b/", "/x/y/z"]);
    let mut told = String::new();
    for number in 0..names.partition_count() {
        let node = names.partition_node(PartitionId(number)).unwrap();
        assert_eq!(names.partition_at(node), Some(PartitionId(number)));
        let mut path = String::new();
        names.path_into(node, &mut path);
        let _ = write!(told, "{number}={path} ");
    }
    expect!["0=a/b 1=a 2=/x 3=/ 4=b 5=b/ "].assert_eq(&told);
    assert_eq!(names.partition_at(NodeId::ROOT), None);
    assert_eq!(names.partition_at(names.find("a/b/c").unwrap()), None);
    assert_eq!(names.partition_at(names.find("").unwrap()), None, "a mere first level");
}

#[test]
fn nodes_know_their_neighbours() {
    let names = named(&["a/b/c", "a/d"]);
    let leaf = names.find("a/b/c").unwrap();
    let middle = names.parent(leaf).unwrap();
    assert_eq!((names.level(leaf), names.level(middle), names.level_count(leaf)), ("c", "b", 3));
    assert_eq!((names.topic_at(leaf), names.topic_at(middle)), (Some(TopicId(0)), None));
    let top = names.find("a").unwrap();
    let children: Vec<&str> = names.children(top).map(|child| names.level(child)).collect();
    assert_eq!(children, ["d", "b"]);
    assert_eq!((names.parent(top), names.parent(NodeId::ROOT)), (Some(NodeId::ROOT), None));
    assert_eq!(names.children(leaf).count(), 0);
}

#[test]
fn a_walk_costs_what_the_filter_leads_to() {
    let mut names = Names::new(20_000, 1);
    for number in 0..10_000 {
        names.insert(TopicId(number), &format!("a/{}/{}/x", number % 100, number / 100)).unwrap();
    }
    // One more step than nodes: the one that finds no further.
    assert_eq!(steps(&names, "a/7/3/x"), 5);
    assert_eq!(steps(&names, "a/7/none/**"), 3);
    assert_eq!(steps(&names, "a/7/**"), 2 + 200 + 1);
    assert_eq!(steps(&names, "a/*/3"), 1 + 100 * 2 + 1);
    assert_eq!(steps(&names, "b/**"), 1);
}

#[test]
fn a_walk_stops_anywhere_and_goes_on() {
    let names = named(&["a/b/c", "a/b", "a", "b/b/c", "$s/b", "/b"]);
    for text in ["**", "*/b", "*/b/**", "a/*/c"] {
        let filter = Filter::new(text).unwrap();
        let mut walk = TopicWalk::new(&filter);
        let mut found = Vec::new();
        loop {
            match walk.advance(&names, &mut 1) {
                Walked::Topic(topic) => found.push(topic),
                Walked::Paused => {}
                Walked::Done => break,
            }
        }
        assert_eq!(walk.advance(&names, &mut 1), Walked::Done);
        found.sort_unstable();
        assert_eq!(found, visited(&names, &filter), "{filter}");
    }
}

#[test]
fn a_walk_finds_a_level_that_came_to_be_while_it_paused() {
    let mut names = named(&["a/x"]);
    let mut walk = TopicWalk::new(&Filter::new("a/new/**").unwrap());
    assert_eq!(walk.advance(&names, &mut 1), Walked::Paused);
    names.insert(TopicId(1), "a/new/y").unwrap();
    assert_eq!(walk.advance(&names, &mut 100), Walked::Topic(TopicId(1)));
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn visiting_finds_what_the_filter_matches(
        topics in prop::collection::vec((topic(), 1u32..4), 0..40),
        filters in prop::collection::vec(filter(), 1..12),
    ) {
        let mut names = Names::new(100, 1);
        let mut model: BTreeMap<String, TopicId> = BTreeMap::new();
        let mut id = 0;
        for (topic, gap) in topics {
            id += gap;
            let known = model.contains_key(&topic);
            prop_assert_eq!(names.insert(TopicId(id), &topic).is_ok(), !known);
            model.entry(topic).or_insert(TopicId(id));
        }
        for (topic, &id) in &model {
            prop_assert_eq!(names.get(topic), Some(id));
            prop_assert_eq!(names.name(id), Some(topic.clone()));
            let mut path = String::new();
            names.path_into(names.partition_node(names.partition_of(id).unwrap()).unwrap(), &mut path);
            prop_assert_eq!(path, partition(topic));
        }
        let partitions: BTreeSet<&str> = model.keys().map(|topic| partition(topic)).collect();
        prop_assert_eq!(names.partition_count() as usize, partitions.len());
        for filter in filters {
            let mut expected: Vec<TopicId> =
                model.iter().filter(|(topic, _)| filter.matches(topic)).map(|(_, &id)| id).collect();
            expected.sort_unstable();
            prop_assert_eq!(visited(&names, &filter), expected, "{}", filter);
        }
    }
}

#[test]
fn real_topics_are_named_and_visited() {
    let Some(streams) = real_topics("real_topics_are_named_and_visited") else {
        return;
    };
    for (stream, topics) in streams {
        let mut names = Names::new(topics.len() as u32, 1);
        for (number, topic) in topics.iter().enumerate() {
            names.insert(TopicId(number as u32 * 2), topic).unwrap();
        }
        assert_eq!(names.len(), topics.len(), "{stream}");
        for (number, topic) in topics.iter().enumerate() {
            let id = TopicId(number as u32 * 2);
            assert_eq!((names.get(topic), names.name(id).as_ref()), (Some(id), Some(topic)));
        }
        for filter in filters_of(&topics[topics.len() / 2]) {
            let matched = topics.iter().enumerate().filter(|(_, topic)| filter.matches(topic));
            let expected: Vec<TopicId> = matched.map(|(number, _)| TopicId(number as u32 * 2)).collect();
            assert!(!expected.is_empty());
            assert_eq!(visited(&names, &filter), expected, "{stream} {filter}");
        }
    }
}
