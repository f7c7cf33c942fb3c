use std::collections::BTreeMap;

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::shared::{cases, filter_set, filters_of, real_topics, topic};

fn set(filters: &[&str]) -> FilterSet {
    FilterSet::parse(filters.iter().copied()).unwrap()
}

fn matched(matcher: &Matcher, topic: &str) -> Vec<u32> {
    // What is in the buffer before must not matter.
    let mut out = vec![SubscriptionId(99)];
    matcher.matches_topic(topic, &mut out);
    let mut found: Vec<u32> = out.into_iter().map(|subscription| subscription.0).collect();
    found.sort_unstable();
    found
}

fn matched_id(matcher: &mut Matcher, names: &Names, id: u32) -> Vec<u32> {
    let mut out = vec![SubscriptionId(99)];
    matcher.matches_id(names, TopicId(id), &mut out);
    let mut found: Vec<u32> = out.into_iter().map(|subscription| subscription.0).collect();
    found.sort_unstable();
    found
}

#[test]
fn a_subscription_whose_filters_overlap_is_told_once() {
    let mut matcher = Matcher::new(MatcherLimits::default(), 1);
    matcher.subscribe(SubscriptionId(4), &set(&["**", "a/**", "a/*", "a/b"])).unwrap();
    matcher.subscribe(SubscriptionId(2), &set(&["a/b"])).unwrap();
    assert_eq!(matched(&matcher, "a/b"), [2, 4]);
    assert_eq!(matched(&matcher, "c"), [4]);
    assert_eq!(matched(&matcher, "$bus"), []);
    assert!(matcher.unsubscribe(SubscriptionId(4)));
    assert!(!matcher.unsubscribe(SubscriptionId(4)));
    assert_eq!(matched(&matcher, "a/b"), [2]);
    assert_eq!((matcher.len(), matcher.filters_held()), (1, 1));
}

#[test]
fn filters_beyond_the_ceiling_are_refused_whole() {
    let mut matcher = Matcher::new(MatcherLimits { filters_held_max: 3, ..Default::default() }, 1);
    matcher.subscribe(SubscriptionId(1), &set(&["a", "b"])).unwrap();
    let error = matcher.subscribe(SubscriptionId(2), &set(&["c", "d"])).unwrap_err();
    expect!["a subscription of 2 filters is refused: 2 of at most 3 filters are in use, end other subscriptions first"]
        .assert_eq(&error.to_string());
    assert_eq!((matched(&matcher, "c"), matcher.filters_held()), (vec![], 2));
    matcher.unsubscribe(SubscriptionId(1));
    matcher.subscribe(SubscriptionId(2), &set(&["c", "d"])).unwrap();
    assert_eq!(matched(&matcher, "c"), [2]);
}

/// Topics `v/0/p` … with ids 0 …, each asked for once.
fn warm(matcher: &mut Matcher, topics: u32) -> Names {
    let mut names = Names::new(topics, 1);
    for id in 0..topics {
        names.insert(TopicId(id), &format!("v/{id}/p")).unwrap();
        matched_id(matcher, &names, id);
    }
    names
}

/// How many of the topics have to be looked up again.
fn looked_up(matcher: &mut Matcher, names: &Names) -> u64 {
    let before = matcher.counts().looked_up;
    for id in 0..names.len() as u32 {
        matched_id(matcher, names, id);
    }
    matcher.counts().looked_up - before
}

#[test]
fn a_known_topic_is_looked_up_once() {
    let mut matcher = Matcher::new(MatcherLimits::default(), 1);
    matcher.subscribe(SubscriptionId(1), &set(&["v/**"])).unwrap();
    let names = warm(&mut matcher, 10_000);
    assert_eq!(matcher.counts(), MatcherCounts { remembered: 0, looked_up: 10_000 });
    assert_eq!(looked_up(&mut matcher, &names), 0);
}

#[test]
fn a_change_of_one_subscription_leaves_other_topics_remembered() {
    let mut matcher = Matcher::new(MatcherLimits::default(), 1);
    let names = warm(&mut matcher, 5_000);
    matcher.subscribe(SubscriptionId(7), &set(&["v/17/**", "v/18/p", "other/*"])).unwrap();
    let again = looked_up(&mut matcher, &names);
    assert!((2..10).contains(&again), "{again} topics were looked up again");
    assert_eq!(matched_id(&mut matcher, &names, 17), [7]);
    assert_eq!(matched_id(&mut matcher, &names, 18), [7]);

    // One more with a filter that is known: nothing is looked up and it is told all the same.
    matcher.subscribe(SubscriptionId(8), &set(&["v/17/**"])).unwrap();
    assert_eq!(looked_up(&mut matcher, &names), 0);
    assert_eq!(matched_id(&mut matcher, &names, 17), [7, 8]);

    matcher.unsubscribe(SubscriptionId(7));
    assert_eq!(matched_id(&mut matcher, &names, 17), [8]);
    assert_eq!(matched_id(&mut matcher, &names, 18), []);
    let again = looked_up(&mut matcher, &names);
    assert!(again < 10, "{again} topics were looked up again");

    // A filter that can match any topic concerns them all.
    matcher.subscribe(SubscriptionId(9), &set(&["*/17/p"])).unwrap();
    assert_eq!(looked_up(&mut matcher, &names), 5_000);
    assert_eq!(matched_id(&mut matcher, &names, 17), [8, 9]);
}

#[test]
fn what_is_remembered_stays_within_its_bytes() {
    for cache_bytes_max in [0, 10_000, 100_000] {
        let mut matcher = Matcher::new(MatcherLimits { cache_bytes_max, ..Default::default() }, 1);
        // Seven filters match each topic: more than fit a remembered topic inline.
        let filters = ["**", "v/**", "v/*/**", "v/*/p", "*/*/p", "*/**", "*/*/*"];
        matcher.subscribe(SubscriptionId(1), &set(&filters)).unwrap();
        let empty = matcher.memory_bytes();
        let names = warm(&mut matcher, 5_000);
        assert!(matcher.remembered.bytes() <= cache_bytes_max);
        assert!(matcher.memory_bytes() <= empty + cache_bytes_max);
        let spilled: usize = matcher.remembered.topics.iter().map(RememberedTopic::spilled_bytes).sum();
        assert_eq!(matcher.remembered.spilled_bytes, spilled);
        assert_eq!(cache_bytes_max == 0, spilled == 0);
        assert!((0..5_000).all(|id| matched_id(&mut matcher, &names, id) == [1]));
    }
}

#[test]
fn memory_goes_back_when_subscriptions_end() {
    let mut matcher = Matcher::new(MatcherLimits::default(), 1);
    let empty = matcher.memory_bytes();
    for number in 0..20_000 {
        let filters = [format!("ship/{number}/**"), format!("ship/{number}/*/x")];
        matcher
            .subscribe(SubscriptionId(number), &FilterSet::parse(filters.iter().map(String::as_str)).unwrap())
            .unwrap();
    }
    assert!(matcher.memory_bytes() > empty + 20_000 * 100);
    for number in 0..20_000 {
        assert!(matcher.unsubscribe(SubscriptionId(number)));
    }
    assert!(matcher.is_empty());
    let left = matcher.memory_bytes() - empty;
    assert!(left < 100_000, "{left} bytes are left");
}

#[derive(Clone, Debug)]
enum Operation {
    Subscribe(u32, FilterSet),
    Unsubscribe(u32),
    Topic(String),
    Ask(prop::sample::Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => (0u32..12, filter_set()).prop_map(|(subscription, filters)| Operation::Subscribe(subscription, filters)),
        1 => (0u32..12).prop_map(Operation::Unsubscribe),
        2 => topic().prop_map(Operation::Topic),
        6 => any::<prop::sample::Index>().prop_map(Operation::Ask),
    ]
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn a_matcher_tells_what_the_rule_tells(operations in prop::collection::vec(operation(), 1..80)) {
        let limits = [MatcherLimits::default(), MatcherLimits { cache_bytes_max: 12_000, ..Default::default() }];
        let mut matchers = limits.map(|limits| Matcher::new(limits, 1));
        let mut names = Names::new(1_000, 1);
        let mut model: BTreeMap<u32, FilterSet> = BTreeMap::new();
        let mut topics: Vec<(TopicId, String)> = Vec::new();
        for operation in operations {
            match operation {
                Operation::Subscribe(subscription, filters) => {
                    for matcher in &mut matchers {
                        matcher.unsubscribe(SubscriptionId(subscription));
                        matcher.subscribe(SubscriptionId(subscription), &filters).unwrap();
                    }
                    model.insert(subscription, filters);
                }
                Operation::Unsubscribe(subscription) => {
                    let there = model.remove(&subscription).is_some_and(|filters| !filters.is_empty());
                    for matcher in &mut matchers {
                        prop_assert_eq!(matcher.unsubscribe(SubscriptionId(subscription)), there);
                    }
                }
                Operation::Topic(topic) => {
                    // Far apart ids share places in what is remembered.
                    let id = TopicId(topics.len() as u32 * 64);
                    if names.insert(id, &topic).is_ok() {
                        topics.push((id, topic));
                    }
                }
                Operation::Ask(index) if !topics.is_empty() => {
                    let (id, topic) = index.get(&topics);
                    let expected: Vec<u32> =
                        model.iter().filter(|(_, filters)| filters.matches(topic)).map(|(&subscription, _)| subscription).collect();
                    for matcher in &mut matchers {
                        prop_assert_eq!(&matched(matcher, topic), &expected, "{}", topic);
                        prop_assert_eq!(&matched_id(matcher, &names, id.0), &expected, "{}", topic);
                    }
                }
                Operation::Ask(_) => {}
            }
        }
    }
}

#[test]
fn real_topics_are_matched() {
    let Some(streams) = real_topics("real_topics_are_matched") else {
        return;
    };
    let mut matcher = Matcher::new(MatcherLimits::default(), 1);
    let mut model: Vec<FilterSet> = Vec::new();
    for (_, topics) in &streams {
        for topic in topics.iter().step_by(topics.len() / 2 + 1) {
            let mut filters = FilterSet::new();
            for filter in filters_of(topic).into_iter().filter(|filter| !filter.is_everything()) {
                filters.insert(filter).unwrap();
            }
            matcher.subscribe(SubscriptionId(model.len() as u32), &filters).unwrap();
            model.push(filters);
        }
    }
    for topic in streams.iter().flat_map(|(_, topics)| topics.iter().step_by(7)) {
        let expected: Vec<u32> = model
            .iter()
            .enumerate()
            .filter(|(_, filters)| filters.matches(topic))
            .map(|(number, _)| number as u32)
            .collect();
        assert_eq!(matched(&matcher, topic), expected, "{topic}");
    }
}
