//! For tests: topics and filters by chance, and the topics of real streams.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::sample::select;

use crate::filter::{Filter, FilterSet};
use crate::topic::Topic;

static OMITTED: AtomicUsize = AtomicUsize::new(0);

/// The topics of every real stream: (stream, topics). None, and a line that says so, where there is no data; in CI that
/// is an error.
pub(crate) fn real_topics(test: &str) -> Option<Vec<(String, Vec<String>)>> {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let streams = std::env::var_os("ARIOSO_SHARED").map_or_else(default, PathBuf::from).join("data/streams");
    let Ok(directory) = std::fs::read_dir(&streams) else {
        assert!(std::env::var_os("CI").is_none(), "no shared data at {}: set ARIOSO_SHARED", streams.display());
        let omitted = OMITTED.fetch_add(1, Ordering::Relaxed) + 1;
        println!("omitted ({omitted}): {test} needs shared data, none is at {}", streams.display());
        return None;
    };
    let mut files: Vec<PathBuf> = directory.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".volumes.tsv.zst"));
    files.sort();
    assert!(!files.is_empty(), "no volumes at {}", streams.display());
    let read = |path: PathBuf| {
        let table = zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap();
        let table = String::from_utf8(table).unwrap();
        let topics = table.lines().skip(1).map(|line| line.split('\t').next().unwrap().to_owned()).collect();
        (path.file_name().unwrap().to_string_lossy().into_owned(), topics)
    };
    Some(files.into_iter().map(read).collect())
}

/// Filters made of a topic: the topic, its subtrees, and both with levels replaced by `*`.
pub(crate) fn filters_of(topic: &str) -> Vec<Filter> {
    let levels: Vec<&str> = topic.split('/').collect();
    let mut texts = vec![topic.to_owned(), "**".to_owned()];
    for end in 1..=levels.len() {
        texts.push(format!("{}/**", levels[..end].join("/")));
        let mut starred = levels.clone();
        starred[end - 1] = "*";
        texts.push(starred.join("/"));
        texts.push(format!("{}/**", starred[..end].join("/")));
    }
    texts.iter().map(|text| Filter::new(text).unwrap()).collect()
}

/// Few levels and little depth, so that topics and filters meet.
fn level() -> impl Strategy<Value = &'static str> {
    select(&["", "a", "b", "c", "$x", "ü", "!"][..])
}

pub(crate) fn topic() -> impl Strategy<Value = String> {
    let topic = prop::collection::vec(level(), 1..6).prop_map(|levels| levels.join("/"));
    topic.prop_filter("topics have bytes", |topic| Topic::new(topic).is_ok())
}

pub(crate) fn filter() -> impl Strategy<Value = Filter> {
    let part = prop_oneof![3 => level(), 2 => Just("*")];
    (prop::collection::vec(part, 0..5), any::<bool>()).prop_filter_map("valid", |(mut parts, rest)| {
        if rest {
            parts.push("**");
        }
        Filter::new(&parts.join("/")).ok()
    })
}

pub(crate) fn filter_set() -> impl Strategy<Value = FilterSet> {
    prop::collection::vec(filter(), 0..5).prop_map(|filters| {
        let mut set = FilterSet::new();
        for filter in filters {
            set.insert(filter).unwrap();
        }
        set
    })
}

/// A fixed number of cases from a fixed seed: the same everywhere.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..Default::default()
    }
}
