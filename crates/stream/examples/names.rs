//! What names and the matcher cost: memory and time a topic, a look-up, a subscription.
//!
//! `cargo run --release -p arioso-stream --example names [TOPICS] [SUBSCRIPTIONS]`
//!
//! Two shapes of tree: `shared` has 2,000 partitions of 500 topics whose levels repeat, `own` has a level of its own for
//! every topic, as vessels do. Topics come in shuffled order. The digest tells that two runs did the same.

use std::time::Instant;

use arioso_stream::Error;
use arioso_stream::filter::{Filter, FilterSet};
use arioso_stream::matcher::{Matcher, MatcherLimits, SubscriptionId};
use arioso_stream::names::{Names, PartitionId};
use arioso_stream::selection::Selection;
use arioso_stream::topic::TopicId;

const HASH_SEED: u64 = 11;
/// Asked for at random places, enough to leave the processor's caches.
const QUESTIONS: usize = 200_000;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let mut number = |default: u32| match arguments.next() {
        Some(Ok(number)) => number,
        Some(Err(error)) => panic!("arguments are two numbers, TOPICS and SUBSCRIPTIONS: {error}"),
        None => default,
    };
    let (topics, subscriptions) = (number(1_000_000), number(300_000));
    println!("topics {topics}, subscriptions {subscriptions}, questions {QUESTIONS}, shuffled");
    measure("shared", &shuffled(topics, shared_levels), subscriptions)?;
    measure("own", &shuffled(topics, own_level), subscriptions)
}

fn shared_levels(number: u32) -> String {
    let (partition, within) = (number / 500, number % 500);
    let (region, vessel) = (partition / 50, partition % 50);
    format!("region{region:03}/vessel{vessel:05}/sensor{:02}/m{:03}", within / 20, within % 20)
}

fn own_level(number: u32) -> String {
    format!("ais/ship/{:03}/{:09}/position", number % 300, number)
}

fn measure(shape: &str, topics: &[String], subscriptions: u32) -> Result<(), Error> {
    let text: usize = topics.iter().map(String::len).sum();
    println!("\n{shape}: {} of {:.1} bytes, such as {}", topics.len(), text as f64 / topics.len() as f64, topics[0]);
    let questions = questions(topics.len());
    let mut names = Names::new(topics.len() as u32, HASH_SEED);
    let mut slowest = 0;
    timed("insert", topics.len(), || {
        for (number, topic) in topics.iter().enumerate() {
            let start = Instant::now();
            names.insert(TopicId(number as u32), topic)?;
            slowest = slowest.max(start.elapsed().as_nanos());
        }
        Ok(names.len())
    })?;
    println!("  slowest insert {} µs", slowest / 1_000);
    let bytes = names.memory_bytes();
    println!("  memory {:.1} MB, {:.1} bytes a topic", bytes as f64 / 1e6, bytes as f64 / topics.len() as f64);

    timed("get, by name", questions.len(), || {
        Ok(questions.iter().filter_map(|&at| names.get(&topics[at as usize])).map(|id| id.0 as usize).sum())
    })?;
    let mut buffer = String::new();
    timed("name, by id", questions.len(), || {
        let mut bytes = 0;
        for &at in &questions {
            names.name_into(TopicId(at), &mut buffer);
            bytes += buffer.len();
        }
        Ok(bytes)
    })?;
    timed("partition of id", questions.len(), || {
        Ok(questions.iter().filter_map(|&at| names.partition_of(TopicId(at))).map(|p| p.0 as usize).sum())
    })?;
    let third = topics[0].split('/').take(3).collect::<Vec<_>>().join("/");
    let subtree = Filter::new(&format!("{third}/**"))?;
    let mut visited = 0;
    names.visit(&subtree, |_| visited += 1);
    timed(&format!("visit {subtree}, a topic"), visited, || {
        let mut sum = 0;
        names.visit(&subtree, |topic| sum += topic.0 as usize);
        Ok(sum)
    })?;
    measure_selection(&names, &subtree, &questions)?;
    measure_matcher(&names, topics, &questions, subscriptions)
}

fn measure_selection(names: &Names, subtree: &Filter, questions: &[u32]) -> Result<(), Error> {
    let mut filters = FilterSet::new();
    filters.insert(subtree.clone())?;
    filters.insert(Filter::new("*/*/*/m001")?)?;
    let mut selection = Selection::new(&filters, names);
    for round in ["selects, first", "selects, again"] {
        timed(round, questions.len(), || {
            Ok(questions.iter().filter(|&&at| selection.selects(names, TopicId(at))).count())
        })?;
    }
    let mut partitions = Vec::new();
    timed("partitions, all at once", 1, || {
        selection.partitions(names, PartitionId(0), &mut partitions);
        Ok(partitions.len())
    })?;
    Ok(())
}

fn measure_matcher(names: &Names, topics: &[String], questions: &[u32], subscriptions: u32) -> Result<(), Error> {
    let mut matcher = Matcher::new(MatcherLimits::default(), HASH_SEED);
    let sets: Vec<FilterSet> = (0..subscriptions as usize)
        .map(|number| {
            let topic = &topics[number * 3 % topics.len()];
            FilterSet::parse([format!("{topic}/**").as_str()])
        })
        .collect::<Result<_, _>>()?;
    timed("subscribe", sets.len(), || {
        for (number, set) in sets.iter().enumerate() {
            matcher.subscribe(SubscriptionId(number as u32), set)?;
        }
        Ok(matcher.len())
    })?;
    println!("  memory {:.1} bytes a subscription", matcher.memory_bytes() as f64 / sets.len() as f64);
    let mut out = Vec::new();
    timed("match, by name", questions.len(), || {
        let mut matched = 0;
        for &at in questions {
            matcher.matches_topic(&topics[at as usize], &mut out);
            matched += out.len();
        }
        Ok(matched)
    })?;
    // As many topics as are remembered, asked for again and again, is what a busy stream looks like.
    let busy: Vec<TopicId> = questions.iter().map(|&at| TopicId(at % 50_000.min(topics.len() as u32))).collect();
    for round in ["match, by id, first", "match, by id, again"] {
        timed(round, busy.len(), || {
            let mut matched = 0;
            for &topic in &busy {
                matcher.matches_id(names, topic, &mut out);
                matched += out.len();
            }
            Ok(matched)
        })?;
    }
    timed("match, by id, a change of subscriptions before each 10", busy.len(), || {
        let mut matched = 0;
        for (number, &topic) in busy.iter().enumerate() {
            if number % 10 == 0 {
                let change = (number / 10 * 7919 % sets.len()) as u32;
                matcher.unsubscribe(SubscriptionId(change));
                matcher.subscribe(SubscriptionId(change), &sets[change as usize])?;
            }
            matcher.matches_id(names, topic, &mut out);
            matched += out.len();
        }
        Ok(matched)
    })?;
    println!("  {:?}", matcher.counts());
    timed("unsubscribe", sets.len(), || {
        Ok((0..sets.len() as u32).filter(|&number| matcher.unsubscribe(SubscriptionId(number))).count())
    })?;
    println!("  memory after that {:.1} MB", matcher.memory_bytes() as f64 / 1e6);
    Ok(())
}

fn timed(what: &str, count: usize, work: impl FnOnce() -> Result<usize, Error>) -> Result<(), Error> {
    let start = Instant::now();
    let digest = work()?;
    let nanoseconds = start.elapsed().as_nanos() as f64 / count as f64;
    println!("  {what:<56} {nanoseconds:>9.0} ns each   (digest {digest})");
    Ok(())
}

/// Numbers that look random and are the same every time.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn shuffled(topics: u32, name: fn(u32) -> String) -> Vec<String> {
    let mut topics: Vec<String> = (0..topics).map(name).collect();
    let mut state = 1;
    for last in (1..topics.len()).rev() {
        topics.swap(last, random(&mut state) as usize % (last + 1));
    }
    topics
}

fn questions(topics: usize) -> Vec<u32> {
    let mut state = 2;
    (0..QUESTIONS).map(|_| (random(&mut state) as usize % topics) as u32).collect()
}
