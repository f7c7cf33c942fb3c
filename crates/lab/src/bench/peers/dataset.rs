//! The data set that every system is given, and which part of it a scenario wants.
//!
//! ```text
//! "PBDS0001"  u32 topics  u64 messages  u32 payload bytes                      little-endian
//! a topic:    u16 length  name  u64 messages  u64 sum of its messages' numbers
//! a message:  u32 topic   payload: u64 number (from 1, in order)  u32 topic  noise
//! ```
//!
//! | scenario | wants |
//! |---|---|
//! | mid | the topic nearest to 0.1 % of the messages |
//! | ten | the ten topics nearest to 0.01 % each |
//! | subtree | the siblings that are together nearest to 1 % |
//! | big | the largest topic |
//! | all | everything |
//!
//! Of topics equally near the one that comes first in the file counts; of subtrees the first by name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::super::{Error, Result, io_at};
use super::foreign;

const MAGIC: &[u8; 8] = b"PBDS0001";
/// More is no data set of this kind, and not worth its memory.
const TOPICS_MAX: u32 = 10_000_000;
const PAYLOAD_BYTES_MAX: u32 = 1 << 24;
/// Number and topic.
const PAYLOAD_BYTES_MIN: u32 = 12;

/// A topic of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetTopic {
    /// Its name.
    pub name: String,
    /// Its messages.
    pub messages: u64,
    /// Sum of their numbers.
    pub sum: u64,
}

/// A data set.
#[derive(Debug)]
pub struct Dataset {
    /// Its topics.
    pub topics: Vec<DatasetTopic>,
    /// Its messages.
    pub messages: u64,
    payload_bytes: usize,
    path: PathBuf,
    /// Where the messages begin.
    body: u64,
}

fn take<const N: usize>(file: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes).map(|()| bytes)
}

impl Dataset {
    /// Reads the head of a file.
    pub fn open(path: &Path) -> Result<Dataset> {
        let bad = |what: String| Error::Wrong(format!("{}: {what}", path.display()));
        let mut file = BufReader::new(File::open(path).map_err(io_at(path))?);
        let wrong = || io_at(path);
        if take(&mut file).map_err(wrong())? != *MAGIC {
            return Err(bad("no data set: PBDS0001 is wanted at its beginning".into()));
        }
        let count = u32::from_le_bytes(take(&mut file).map_err(wrong())?);
        let messages = u64::from_le_bytes(take(&mut file).map_err(wrong())?);
        let payload_bytes = u32::from_le_bytes(take(&mut file).map_err(wrong())?);
        if count == 0 || count > TOPICS_MAX || !(PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&payload_bytes) {
            return Err(bad(format!("{count} topics, payloads of {payload_bytes} bytes: too many or too few")));
        }
        let mut topics = Vec::new();
        for _ in 0..count {
            let mut name = vec![0; u16::from_le_bytes(take(&mut file).map_err(wrong())?).into()];
            file.read_exact(&mut name).map_err(wrong())?;
            let name = String::from_utf8(name).map_err(|error| bad(format!("a topic's name: {error}")))?;
            let messages = u64::from_le_bytes(take(&mut file).map_err(wrong())?);
            let sum = u64::from_le_bytes(take(&mut file).map_err(wrong())?);
            topics.push(DatasetTopic { name, messages, sum });
        }
        let body = file.stream_position().map_err(wrong())?;
        Ok(Dataset { topics, messages, payload_bytes: payload_bytes as usize, path: path.into(), body })
    }

    /// Gives every message's topic and payload, in order.
    pub fn read(&self, mut each: impl FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let wrong = || io_at(&self.path);
        let mut file = File::open(&self.path).map_err(wrong())?;
        file.seek(SeekFrom::Start(self.body)).map_err(wrong())?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut payload = vec![0; self.payload_bytes];
        for number in 1..=self.messages {
            let topic = u32::from_le_bytes(take(&mut file).map_err(wrong())?);
            if topic as usize >= self.topics.len() {
                let text = format!("{}: message {number} is of topic {topic}", self.path.display());
                return Err(Error::Wrong(format!("{text}, there are {}", self.topics.len())));
            }
            file.read_exact(&mut payload).map_err(wrong())?;
            each(topic, &payload)?;
        }
        Ok(())
    }

    /// The `count` topics nearest to a share of all messages.
    fn nearest(&self, share: f64, count: usize) -> Vec<&DatasetTopic> {
        let want = self.messages as f64 * share;
        let mut topics: Vec<&DatasetTopic> = self.topics.iter().collect();
        // Stable: of equally near ones the first stays first.
        topics.sort_by(|a, b| (a.messages as f64 - want).abs().total_cmp(&(b.messages as f64 - want).abs()));
        topics.truncate(count);
        topics
    }

    /// The subtree one level above the topics that is nearest to a share of all messages.
    fn nearest_subtree(&self, share: f64) -> Option<&str> {
        let mut subtrees: BTreeMap<&str, u64> = BTreeMap::new();
        for topic in &self.topics {
            if let Some((above, _)) = topic.name.rsplit_once('/') {
                *subtrees.entry(above).or_default() += topic.messages;
            }
        }
        let want = self.messages as f64 * share;
        let off = |messages: u64| (messages as f64 - want).abs();
        subtrees.into_iter().min_by(|a, b| off(a.1).total_cmp(&off(b.1))).map(|(above, _)| above)
    }
}

/// What a client asks for, and what it must get.
#[derive(Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The filters.
    pub filters: Vec<String>,
    /// Messages.
    pub messages: u64,
    /// Sum of their numbers.
    pub sum: u64,
}

impl Scenario {
    /// The scenario of this name.
    pub fn of(dataset: &Dataset, name: &str) -> Result<Scenario> {
        let below;
        let (filters, topics): (Option<String>, Vec<&DatasetTopic>) = match name {
            "mid" => (None, dataset.nearest(0.001, 1)),
            "ten" => (None, dataset.nearest(0.0001, 10)),
            "big" => (None, dataset.nearest(1.0, 1)),
            "all" => (Some("**".into()), dataset.topics.iter().collect()),
            "subtree" => {
                below = dataset.nearest_subtree(0.01).map(|above| format!("{above}/"));
                let below = below.ok_or_else(|| Error::Wrong("no topic of the data set has two levels".into()))?;
                let topics = dataset.topics.iter().filter(|topic| topic.name.starts_with(&below));
                (Some(format!("{below}**")), topics.collect())
            }
            other => {
                let text = format!("--scenario {other:?}: one of mid, ten, subtree, big, all is wanted");
                return Err(Error::Use(text));
            }
        };
        Ok(Scenario {
            messages: topics.iter().map(|topic| topic.messages).sum(),
            sum: topics.iter().fold(0, |sum, topic| sum.wrapping_add(topic.sum)),
            filters: match filters {
                Some(one) => vec![one],
                None => topics.into_iter().map(|topic| topic.name.clone()).collect(),
            },
        })
    }
}

/// What came back.
#[derive(Debug, Default)]
pub struct Seen {
    /// Messages.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Sum of their numbers.
    pub sum: u64,
    /// Messages whose number was not above the one before.
    pub disorder: u64,
    last: u64,
}

impl Seen {
    /// One more.
    pub fn see(&mut self, payload: &[u8]) -> Result<()> {
        let number = payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(|| foreign(payload))?;
        self.messages += 1;
        self.bytes += payload.len() as u64;
        self.sum = self.sum.wrapping_add(number);
        self.disorder += u64::from(number <= self.last);
        self.last = number;
        Ok(())
    }

    /// Whether it is all of a scenario, in order.
    pub fn is(&self, scenario: &Scenario) -> bool {
        self.messages == scenario.messages && self.sum == scenario.sum && self.disorder == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data set of these topics, by message.
    fn write(path: &Path, names: &[&str], topics: &[u32]) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((names.len() as u32).to_le_bytes());
        bytes.extend((topics.len() as u64).to_le_bytes());
        bytes.extend(16u32.to_le_bytes());
        for (id, name) in (0u32..).zip(names) {
            let numbers = (1u64..).zip(topics).filter(|(_, topic)| **topic == id).map(|(number, _)| number);
            let numbers: Vec<u64> = numbers.collect();
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend((numbers.len() as u64).to_le_bytes());
            bytes.extend(numbers.iter().sum::<u64>().to_le_bytes());
        }
        for (number, topic) in (1u64..).zip(topics) {
            bytes.extend(topic.to_le_bytes());
            bytes.extend(number.to_le_bytes());
            bytes.extend(topic.to_le_bytes());
            bytes.extend([0; 4]);
        }
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_data_set_gives_its_messages_back_and_each_scenario_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("set");
        write(&path, &["a/b/x", "a/b/y", "a/c/z"], &[2, 2, 0, 2, 1, 2]);
        let dataset = Dataset::open(&path).unwrap();
        let mut seen = Seen::default();
        let mut topics = Vec::new();
        dataset
            .read(|topic, payload| {
                topics.push(topic);
                seen.see(payload)
            })
            .unwrap();
        assert_eq!(topics, [2, 2, 0, 2, 1, 2]);
        assert!(seen.is(&Scenario::of(&dataset, "all").unwrap()), "{seen:?}");
        let big = Scenario::of(&dataset, "big").unwrap();
        assert_eq!(big, Scenario { filters: vec!["a/c/z".into()], messages: 4, sum: 1 + 2 + 4 + 6 });
        let subtree = Scenario::of(&dataset, "subtree").unwrap();
        assert_eq!(subtree, Scenario { filters: vec!["a/b/**".into()], messages: 2, sum: 3 + 5 });
        assert_eq!(Scenario::of(&dataset, "mid").unwrap().filters, ["a/b/x"]);
        assert_eq!(Scenario::of(&dataset, "ten").unwrap().filters.len(), 3);
        assert!(matches!(Scenario::of(&dataset, "half"), Err(Error::Use(_))));
    }

    #[test]
    fn a_message_missing_doubled_or_out_of_order_is_not_the_scenario() {
        let number = |number: u64| number.to_le_bytes();
        let scenario = Scenario { filters: Vec::new(), messages: 3, sum: 6 };
        for (numbers, ok) in
            [(vec![1, 2, 3], true), (vec![1, 3], false), (vec![1, 3, 2], false), (vec![2, 2, 2], false)]
        {
            let mut seen = Seen::default();
            numbers.iter().for_each(|n| seen.see(&number(*n)).unwrap());
            assert_eq!(seen.is(&scenario), ok, "{numbers:?}");
        }
    }

    #[test]
    fn what_is_no_data_set_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("set");
        for bytes in
            [&b"PBDS0002aaaaaaaaaaaaaaaa"[..], b"PBDS0001", b"PBDS0001\xff\xff\xff\xff\0\0\0\0\0\0\0\0\x10\0\0\0"]
        {
            std::fs::write(&path, bytes).unwrap();
            assert!(Dataset::open(&path).is_err(), "{bytes:?}");
        }
    }
}
