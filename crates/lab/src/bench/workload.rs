//! What is published: topics with their shares, and payloads.
//!
//! Topics are `bench/g<GG>/t<T>`, at most 100 to a group, so a group is a partition and a subtree. Shares are Zipf's over a fixed
//! shuffle of the topics: the heavy ones lie anywhere in the tree.

use std::fmt::Write;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Topics of one group.
const GROUP_TOPICS: usize = 100;

/// Topics and how often each is drawn.
#[derive(Debug)]
pub struct Topics {
    names: Vec<Box<str>>,
    /// Topic of each rank.
    ranked: Vec<u32>,
    /// Sums of the weights of the ranks up to each.
    cumulative: Vec<f64>,
}

impl Topics {
    /// So many topics; the rank r is drawn in proportion to r to the power of minus `exponent` (0: all alike).
    pub fn zipf(count: usize, exponent: f64, seed: u64) -> Topics {
        assert!(count > 0, "at least one topic");
        let names = (0..count).map(name).collect();
        let count = u32::try_from(count).expect("topics are counted in 32 bits");
        let mut ranked: Vec<u32> = (0..count).collect();
        ranked.shuffle(&mut SmallRng::seed_from_u64(seed));
        let mut sum = 0.0;
        let weight = |rank: u32| f64::from(rank).powf(-exponent);
        let cumulative = (1..=count).map(|rank| {
            sum += weight(rank);
            sum
        });
        Topics { names, ranked, cumulative: cumulative.collect() }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All names, by number.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// The topic of a number.
    pub fn name(&self, topic: u32) -> &str {
        &self.names[topic as usize]
    }

    /// Draws a topic's number.
    pub fn draw(&self, random: &mut SmallRng) -> u32 {
        let all = self.cumulative.last().copied().unwrap_or(0.0);
        let at = random.random::<f64>() * all;
        let rank = self.cumulative.partition_point(|sum| *sum <= at).min(self.ranked.len() - 1);
        self.ranked[rank]
    }

    /// The topic whose count is nearest to `share` of all.
    pub fn nearest_topic(&self, counts: &[u64], share: f64) -> u32 {
        let want = counts.iter().sum::<u64>() as f64 * share;
        let nearest = (0..counts.len()).min_by(|a, b| {
            let off = |at: &usize| (counts[*at] as f64 - want).abs();
            off(a).total_cmp(&off(b))
        });
        u32::try_from(nearest.unwrap_or(0)).expect("topics are counted in 32 bits")
    }

    /// The group whose count is nearest to `share` of all: its filter, and its count.
    pub fn nearest_group(&self, counts: &[u64], share: f64) -> (String, u64) {
        let want = counts.iter().sum::<u64>() as f64 * share;
        let groups = counts.chunks(GROUP_TOPICS).map(|group| group.iter().sum::<u64>()).enumerate();
        let nearest = groups.min_by(|a, b| (a.1 as f64 - want).abs().total_cmp(&(b.1 as f64 - want).abs()));
        let (group, count) = nearest.unwrap_or((0, 0));
        (format!("bench/g{group:02}/**"), count)
    }
}

fn name(topic: usize) -> Box<str> {
    let mut name = String::new();
    let (group, topic) = (topic / GROUP_TOPICS, topic % GROUP_TOPICS);
    write!(name, "bench/g{group:02}/t{topic}").expect("a string takes everything");
    name.into_boxed_str()
}

/// Numbers drawn beforehand: what a publisher pays for its topic is a look at a table.
#[derive(Debug)]
pub struct Draws(Vec<u32>);

/// Draws kept: a table that fits the cache and is long against the heavy topics' distances.
const DRAWS: usize = 1 << 16;

impl Draws {
    /// Draws of these topics.
    pub fn of(topics: &Topics, seed: u64) -> Draws {
        let mut random = SmallRng::seed_from_u64(seed);
        Draws((0..DRAWS).map(|_| topics.draw(&mut random)).collect())
    }

    /// The draw of a number.
    pub fn get(&self, number: u64) -> u32 {
        self.0[number as usize % DRAWS]
    }
}

/// A payload whose first 8 bytes are a number, the rest the same noise.
#[derive(Clone, Debug)]
pub struct Payload(Vec<u8>);

/// The smallest payload: its number.
pub const PAYLOAD_BYTES_MIN: usize = 8;

impl Payload {
    /// Of this size.
    pub fn new(bytes: usize) -> Payload {
        assert!(bytes >= PAYLOAD_BYTES_MIN, "a payload holds its number");
        let mut random = SmallRng::seed_from_u64(1);
        Payload((0..bytes).map(|_| random.random()).collect())
    }

    /// With this number.
    pub fn numbered(&mut self, number: u64) -> &[u8] {
        self.0[..8].copy_from_slice(&number.to_le_bytes());
        &self.0
    }
}

/// The number of a payload; `None`: it is not one of ours.
pub fn number_of(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_zipf_and_a_seed_repeats() {
        let topics = Topics::zipf(1_000, 1.1, 7);
        let mut random = SmallRng::seed_from_u64(3);
        let mut counts = vec![0u64; 1_000];
        (0..200_000).for_each(|_| counts[topics.draw(&mut random) as usize] += 1);
        let first = counts[topics.ranked[0] as usize] as f64;
        let tenth = counts[topics.ranked[9] as usize] as f64;
        let ratio = first / tenth;
        assert!((11.0..14.5).contains(&ratio), "10 to the power of 1.1 is 12.6, not {ratio}");
        let again = Topics::zipf(1_000, 1.1, 7);
        assert_eq!(again.ranked, topics.ranked);
        assert_eq!(topics.name(0), "bench/g00/t0");
        assert_eq!(topics.name(999), "bench/g09/t99");
    }

    #[test]
    fn the_nearest_share_is_found_among_topics_and_groups() {
        let topics = Topics::zipf(300, 0.0, 1);
        let mut counts = vec![1u64; 300];
        counts[5] = 700;
        counts[150] = 30;
        assert_eq!(topics.nearest_topic(&counts, 0.03), 150);
        assert_eq!(topics.nearest_group(&counts, 0.12), ("bench/g01/**".to_string(), 129));
    }

    #[test]
    fn a_payload_gives_its_number_back() {
        let mut payload = Payload::new(200);
        assert_eq!(number_of(payload.numbered(77)), Some(77));
        assert_eq!(payload.numbered(77).len(), 200);
        assert_eq!(number_of(b"short"), None);
    }
}
