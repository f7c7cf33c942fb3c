//! What lies in a segment, gathered from its batches: the matter of its footer, and of a start's view of the tail.

use arioso_stream::order::NameKind;
use arioso_stream::record::CONTROL_TOPIC;
use arioso_stream::{Records, Sequence};
use hashbrown::HashMap;
use twox_hash::XxHash3_64;

use super::header::SegmentHeader;
use crate::batch::BatchHeader;
use crate::control::Control;
use crate::places::{BatchPlace, Places};
use crate::publishers::Publishers;
use crate::voids::Voids;

/// One topic's messages in a segment. Void ones are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicSum {
    /// How many.
    pub messages: u64,
    /// The bytes of their records.
    pub bytes: u64,
    /// The last one's sequence.
    pub last_sequence: Sequence,
    /// The offset of the last one's batch.
    pub last_place: u64,
    /// The sum mod 2^64 of the XXH3 of each record.
    pub sum: u64,
}

type Table<T> = HashMap<u32, T, foldhash::fast::FixedState>;

/// What lies in a stretch of batches.
#[derive(Debug)]
pub struct Summary {
    /// Topics by id; one that was only named has no messages.
    pub topics: Table<TopicSum>,
    /// Names told here.
    pub names: Table<Box<str>>,
    /// Publishers touched here.
    pub publishers: Publishers,
    /// What void records here name.
    pub voids: Voids,
    /// Where batches begin.
    pub places: Places,
    /// The first record's sequence, 0 if there is none.
    pub first_sequence: u64,
    /// The last sequence given.
    pub last_sequence: u64,
    /// The first record's timestamp.
    pub first_timestamp: i64,
    /// The last batch's timestamp.
    pub last_timestamp: i64,
    /// Good batches.
    pub batches: u64,
    /// Records that are no control records.
    pub records: u64,
    /// Their bytes.
    pub records_bytes: u64,
    /// The highest told.
    pub settled_to: u64,
    /// The highest told.
    pub reserved_to: u64,
    /// The next topic id.
    pub next_topic: u32,
    /// The next publisher id.
    pub next_publisher: u32,
    /// Control records of a kind that is not known here, or that do not parse.
    pub unknown_control: u64,
}

/// The kinds of control records there are (docs/format.md section 3.3).
const CONTROL_KIND_LAST: u16 = 8;

impl Summary {
    /// Of a segment that begins like this.
    pub fn new(header: &SegmentHeader, window_messages: u32) -> Summary {
        Summary {
            topics: HashMap::default(),
            names: HashMap::default(),
            publishers: Publishers::new(window_messages),
            voids: Voids::default(),
            places: Places::default(),
            first_sequence: 0,
            last_sequence: header.next_sequence.saturating_sub(1),
            first_timestamp: header.timestamp,
            last_timestamp: header.timestamp,
            batches: 0,
            records: 0,
            records_bytes: 0,
            settled_to: header.settled_to,
            reserved_to: 0,
            next_topic: header.next_topic,
            next_publisher: header.next_publisher,
            unknown_control: 0,
        }
    }

    /// Adds a batch. What `voids` names is left out of the topics' figures and the publishers' windows.
    pub fn add(&mut self, header: &BatchHeader<'_>, records: &[u8], voids: &Voids) {
        self.places.note(BatchPlace {
            offset: header.offset(),
            first_sequence: header.first_sequence(),
            timestamp_before: self.last_timestamp,
        });
        for name in header.names() {
            match name.kind {
                NameKind::Topic => {
                    self.names.insert(name.id, name.name.into());
                    self.topics.entry(name.id).or_default();
                    self.next_topic = self.next_topic.max(name.id.saturating_add(1));
                }
                NameKind::Publisher => {
                    self.publishers.name(name.id, name.name);
                    self.publisher_seen(name.id);
                }
            }
        }
        for run in header.runs() {
            self.publishers.run(&run, header.timestamp(), voids);
            self.publisher_seen(run.publisher);
        }
        for record in Records::new(records).map_while(Result::ok) {
            let sequence = record.sequence();
            if self.first_sequence == 0 {
                (self.first_sequence, self.first_timestamp) = (sequence.0, record.timestamp());
            }
            if record.topic() == CONTROL_TOPIC {
                self.add_control(Control::read(&record), record.timestamp());
                continue;
            }
            let bytes = record.bytes().len() as u64;
            self.records += 1;
            self.records_bytes += bytes;
            self.next_topic = self.next_topic.max(record.topic().saturating_add(1));
            let topic = self.topics.entry(record.topic()).or_default();
            if voids.contains(sequence.0) {
                continue;
            }
            topic.messages += 1;
            topic.bytes += bytes;
            topic.sum = topic.sum.wrapping_add(XxHash3_64::oneshot(record.bytes()));
            (topic.last_sequence, topic.last_place) = (sequence, header.offset());
        }
        self.batches += 1;
        self.last_sequence = self.last_sequence.max(header.last_sequence());
        self.last_timestamp = self.last_timestamp.max(header.timestamp());
        self.settled_to = self.settled_to.max(header.settled_to());
        self.reserved_to = self.reserved_to.max(header.reserved_to());
    }

    fn add_control(&mut self, control: Option<Control<'_>>, timestamp: i64) {
        let Some(control) = control else {
            self.unknown_control += 1;
            return;
        };
        self.publishers.control(&control, timestamp);
        match control {
            Control::Void(ranges) => ranges.iter().for_each(|(first, last)| self.voids.add(first, last)),
            Control::EpochOpened { publisher, .. } => self.publisher_seen(publisher),
            Control::Other { kind } if kind > CONTROL_KIND_LAST || kind == 0 => self.unknown_control += 1,
            _ => {}
        }
    }

    fn publisher_seen(&mut self, id: u32) {
        if id < arioso_stream::order::ANONYMOUS_FROM {
            self.next_publisher = self.next_publisher.max(id + 1);
        }
    }
}
