//! One directory out of many, in one pass over each.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::bytes::Figures;
use super::{Entry, add, text};
use crate::{Error, Result};

/// Entries in the order of their names, each name once: a walk over a directory, or a row in memory.
pub trait Entries {
    /// Goes on to the next entry; false behind the last.
    fn advance(&mut self) -> Result<bool>;

    /// The entry it stands on; only after [`advance`](Entries::advance) gave true.
    fn entry(&self) -> Entry<'_>;

    /// Where the entries come from, for errors.
    fn origin(&self) -> &str;

    /// The next entry, or none behind the last.
    fn next_entry(&mut self) -> Result<Option<Entry<'_>>> {
        Ok(if self.advance()? { Some(self.entry()) } else { None })
    }
}

/// Hands on every name of the sources once, in order: messages, bytes and sums added up, the highest last
/// sequence, and the place that goes with it (of the later source, if two are equal). Sources that know one
/// name by different ids are refused. It holds one name a source.
pub fn merge(sources: &mut [&mut dyn Entries], emit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
    let mut heap = BinaryHeap::with_capacity(sources.len());
    for (at, source) in sources.iter_mut().enumerate() {
        if source.advance()? {
            heap.push(Reverse((source.entry().name.to_vec(), at)));
        }
    }
    let mut name = Vec::new();
    let mut merged = Figures::default();
    let mut owner = 0;
    while let Some(mut top) = heap.peek_mut() {
        let at = top.0.1;
        let entry = sources[at].entry();
        match entry.name.cmp(&name) {
            Ordering::Equal => {
                if entry.topic != merged.topic {
                    return Err(Error::TopicIds {
                        topic: text(&name),
                        id: merged.topic,
                        file: sources[owner].origin().to_owned(),
                        other_id: entry.topic,
                        other_file: sources[at].origin().to_owned(),
                    });
                }
                combine(&mut merged, &entry)?;
            }
            order => {
                assert!(order.is_gt(), "the entries of {} are in order", sources[at].origin());
                if !name.is_empty() {
                    emit(merged.named(&name))?;
                }
                name.clear();
                name.extend_from_slice(entry.name);
                merged = figures(&entry);
                owner = at;
            }
        }
        if sources[at].advance()? {
            // The top is sorted in again when it goes out of sight.
            let Reverse((next, _)) = &mut *top;
            next.clear();
            next.extend_from_slice(sources[at].entry().name);
        } else {
            PeekMut::pop(top);
        }
    }
    if name.is_empty() { Ok(()) } else { emit(merged.named(&name)) }
}

fn figures(entry: &Entry<'_>) -> Figures {
    let Entry { topic, messages, bytes, last_sequence, last_place, sum, .. } = *entry;
    Figures { topic, messages, bytes, last_sequence, last_place, sum }
}

fn combine(merged: &mut Figures, entry: &Entry<'_>) -> Result<()> {
    merged.messages = add(merged.messages, entry.messages, entry.name, "messages")?;
    merged.bytes = add(merged.bytes, entry.bytes, entry.name, "bytes")?;
    merged.sum = merged.sum.wrapping_add(entry.sum);
    if entry.last_sequence >= merged.last_sequence {
        merged.last_sequence = entry.last_sequence;
        merged.last_place = entry.last_place;
    }
    Ok(())
}
