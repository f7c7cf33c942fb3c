//! One subscription's selection as the tip and the history ask it: topic names are locked for a verdict or sixty-four, never
//! while records are read.

use arioso_stream::names::{Names, PartitionId as NamedPartition};
use arioso_stream::record::CONTROL_TOPIC;
use arioso_stream::selection::{SelectedPartition, Selection};
use arioso_stream::tip::{PartitionId, Selector};
use arioso_stream::topic::TopicId;
use parking_lot::RwLock;

/// A selection and the names it is about.
pub struct Selecting<'a> {
    selection: &'a mut Selection,
    names: &'a RwLock<Names>,
    everything: bool,
    partitions: Vec<SelectedPartition>,
}

impl<'a> Selecting<'a> {
    /// For one read.
    pub fn new(selection: &'a mut Selection, names: &'a RwLock<Names>) -> Selecting<'a> {
        let everything = selection.is_everything(&names.read());
        Selecting { selection, names, everything, partitions: Vec::new() }
    }
}

impl Selector for Selecting<'_> {
    fn selects(&mut self, topic: u32) -> bool {
        self.everything || self.selection.selects(&self.names.read(), TopicId(topic))
    }

    fn everything(&self) -> bool {
        self.everything
    }

    fn partitions(&mut self, from_count: u32, out: &mut Vec<PartitionId>) -> u32 {
        let count = self.selection.partitions(&self.names.read(), NamedPartition(from_count), &mut self.partitions);
        out.extend(self.partitions.iter().map(|selected| PartitionId(selected.partition.0)));
        count.0
    }

    fn exact_topics(&self) -> Option<&[u32]> {
        None
    }

    fn selects_each(&mut self, topics: &[u32]) -> u64 {
        let names = self.names.read();
        let mut wanted = 0;
        for (bit, topic) in topics.iter().enumerate() {
            let yes = *topic != CONTROL_TOPIC && (self.everything || self.selection.selects(&names, TopicId(*topic)));
            wanted |= u64::from(yes) << bit;
        }
        wanted
    }
}
