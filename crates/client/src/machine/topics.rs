//! The client's own numbers for topics: dense from 1, the same over all its connections, announced on each.

use std::sync::Arc;

use arioso_wire::{ListWriter, Topics};
use bytes::BytesMut;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::message::TopicId;
use crate::options::TOPIC_BYTES_MAX;
use crate::{Error, Result};

/// Bytes of names in one frame.
const ANNOUNCE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct TopicTable {
    ids: HashMap<Arc<str>, u32, RandomState>,
    names: Vec<Arc<str>>,
    topics_max: u32,
    /// Topics told on this connection.
    announced: usize,
}

impl TopicTable {
    pub(crate) fn new(topics_max: u32) -> TopicTable {
        TopicTable { ids: HashMap::default(), names: Vec::new(), topics_max, announced: 0 }
    }

    /// The topic's number, given now if it has none.
    pub(crate) fn id(&mut self, topic: &str) -> Result<TopicId> {
        if let Some(id) = self.ids.get(topic) {
            return Ok(TopicId(*id));
        }
        if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX {
            return Err(Error::Length {
                what: "a topic",
                bytes: topic.len(),
                bytes_min: 1,
                bytes_max: TOPIC_BYTES_MAX,
            });
        }
        if self.names.len() >= self.topics_max as usize {
            return Err(Error::TooLarge {
                what: "the client's table of topics",
                count: self.names.len() as u64 + 1,
                count_max: self.topics_max.into(),
            });
        }
        let name: Arc<str> = topic.into();
        self.names.push(name.clone());
        let id = u32::try_from(self.names.len()).expect("bounded by topics_max");
        self.ids.insert(name, id);
        Ok(TopicId(id))
    }

    /// A new connection knows none.
    pub(crate) fn forget_announced(&mut self) {
        self.announced = 0;
    }

    /// Whether the connection knows all.
    pub(crate) fn all_announced(&self) -> bool {
        self.announced == self.names.len()
    }

    /// Appends the next announcement.
    pub(crate) fn announce(&mut self, out: &mut BytesMut) {
        let mut writer = ListWriter::begin::<Topics>(0, out);
        for name in &self.names[self.announced..] {
            if writer.bytes() > ANNOUNCE_BYTES {
                break;
            }
            self.announced += 1;
            let id = u32::try_from(self.announced).expect("bounded by topics_max");
            writer.push(&(id, name));
        }
        writer.finish();
    }
}
