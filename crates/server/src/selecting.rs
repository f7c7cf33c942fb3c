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

    fn whole_partition(&mut self, partition: PartitionId) -> bool {
        // Asked of those that were just told, which are in order.
        let found = self.partitions.binary_search_by_key(&partition.0, |selected| selected.partition.0);
        found.is_ok_and(|at| self.partitions[at].whole)
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

#[cfg(test)]
mod tests {
    use super::*;
    use arioso_stream::filter::FilterSet;

    #[test]
    fn a_partition_wanted_whole_is_told_apart_from_one_wanted_in_part() {
        let mut names = Names::new(10, 7);
        for (id, topic) in (1..).zip(["a/b/c", "a/c/d", "x/y/z", "x/y"]) {
            names.insert(TopicId(id), topic).unwrap();
        }
        let filters = FilterSet::parse(["a/b/**", "x/y/z"]).unwrap();
        let mut selection = Selection::new(&filters, &names);
        let names = RwLock::new(names);
        let mut selecting = Selecting::new(&mut selection, &names);
        let mut found = Vec::new();
        selecting.partitions(0, &mut found);
        let whole: Vec<bool> = found.iter().map(|partition| selecting.whole_partition(*partition)).collect();
        assert_eq!(whole, [true, false], "{found:?}");
    }
}
