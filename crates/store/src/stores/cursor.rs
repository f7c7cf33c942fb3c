//! A cursor over one span: merges the groups that are wanted back into the order of the stream. It says what it needs;
//! whoever drives it reads that. It holds, of each store, what is wanted of one group.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arioso_stream::Records;
use bytes::{Bytes, BytesMut};

use super::view::View;
use crate::segment::SLICE_BYTES;
use crate::segment::{Selector, Slices};

/// What is to be read of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRequest {
    /// The span.
    pub span: u64,
    /// The store.
    pub store: u32,
    /// The group.
    pub group: u32,
    /// Stretches of it; empty: all.
    pub ranges: Arc<[(u32, u32)]>,
    /// Bytes they have on disk.
    pub disk_bytes: u64,
}

/// What a step came to.
#[derive(Debug)]
pub enum SpanStep {
    /// Read this, give it to [`SpanCursor::supply`] or [`SpanCursor::pass_over`], step again.
    Need(GroupRequest),
    /// Records; none if nothing in what was passed was selected.
    Slices(Slices),
    /// Everything wanted of the span was given.
    End,
}

/// A store being read.
#[derive(Debug)]
struct Lane {
    /// The group being read, or next to be.
    at: usize,
    loaded: bool,
    records: Bytes,
}

/// Merges a span.
#[derive(Debug)]
pub struct SpanCursor {
    view: Arc<View>,
    lanes: Vec<Lane>,
    /// The lowest sequence each lane may have next.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    next: u64,
    asked: Option<usize>,
}

impl SpanCursor {
    /// From the first message at or above `next`.
    pub fn new(view: Arc<View>, next: u64) -> SpanCursor {
        let lane = |_| Lane { at: 0, loaded: false, records: Bytes::new() };
        let lanes = view.stores.iter().map(lane).collect();
        let first = |(lane, store): (usize, &super::view::StoreWanted)| {
            store.groups.first().map(|group| Reverse((group.first, lane)))
        };
        let heap = view.stores.iter().enumerate().filter_map(first).collect();
        SpanCursor { view, lanes, heap, next, asked: None }
    }

    /// The span.
    pub fn span(&self) -> u64 {
        self.view.span
    }

    /// The next sequence wanted.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Bytes of records it holds at most.
    pub fn held_bytes_max(&self) -> u64 {
        self.view.held_bytes_max
    }

    /// Goes on at a sequence ahead: groups that end below are never asked for. Not while one is under way.
    pub fn seek(&mut self, next: u64) {
        assert!(self.asked.is_none(), "a group that was asked for comes before a seek to {next}");
        self.next = self.next.max(next);
        self.heap.clear();
        for number in 0..self.lanes.len() {
            self.skip(number);
            let (lane, groups) = (&mut self.lanes[number], &self.view.stores[number].groups);
            if lane.records.is_empty() {
                lane.at += usize::from(lane.loaded);
                lane.loaded = false;
                lane.at +=
                    groups.get(lane.at..).map_or(0, |ahead| ahead.partition_point(|group| group.last < self.next));
            }
            self.enlist(number);
        }
    }

    /// The group that was asked for, in the order of the stream.
    pub fn supply(&mut self, records: Bytes) {
        if let Some(lane) = self.asked.take() {
            (self.lanes[lane].records, self.lanes[lane].loaded) = (records, true);
            self.skip(lane);
            self.enlist(lane);
        }
    }

    /// The group that was asked for can't be read: it is passed over. Gives the first and the last sequence in it.
    pub fn pass_over(&mut self) -> Option<(u64, u64)> {
        let lane = self.asked?;
        let group = &self.view.stores[lane].groups[self.lanes[lane].at];
        let range = (group.first, group.last);
        self.supply(Bytes::new());
        Some(range)
    }

    /// Takes off what lies below the position.
    fn skip(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        let mut at = 0;
        for record in Records::new(&lane.records).map_while(Result::ok) {
            if record.sequence().0 >= self.next {
                break;
            }
            at += record.bytes().len();
        }
        lane.records = lane.records.slice(at..);
    }

    /// Puts a lane back by the lowest sequence it may have next.
    fn enlist(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        if lane.loaded {
            if let Some(Ok(record)) = Records::new(&lane.records).next() {
                self.heap.push(Reverse((record.sequence().0, number)));
                return;
            }
            (lane.at, lane.loaded, lane.records) = (lane.at + 1, false, Bytes::new());
        }
        if let Some(group) = self.view.stores[number].groups.get(lane.at) {
            self.heap.push(Reverse((group.first.max(self.next), number)));
        }
    }

    /// Goes on until there is something to tell. Looks at no more than a slice of records.
    pub fn step(&mut self, selector: &mut dyn Selector) -> SpanStep {
        if let Some(number) = self.asked {
            return self.ask(number);
        }
        let (mut out, mut walked) = (BytesMut::new(), 0);
        while walked < SLICE_BYTES {
            let Some(Reverse((_, number))) = self.heap.pop() else {
                if walked == 0 {
                    self.next = self.next.max(self.view.last.saturating_add(1));
                    return SpanStep::End;
                }
                break;
            };
            if !self.lanes[number].loaded {
                if walked > 0 {
                    self.enlist(number);
                    break;
                }
                return self.ask(number);
            }
            let until = self.heap.peek().map_or(u64::MAX, |Reverse((sequence, _))| *sequence);
            walked += self.walk(number, until, SLICE_BYTES - walked, selector, &mut out);
            self.enlist(number);
        }
        // What was walked is passed; what the others have lies above.
        let lowest = self.heap.peek().map_or(self.view.last + 1, |Reverse((sequence, _))| *sequence);
        self.next = self.next.max(lowest);
        let bytes = out.len();
        let slices = if out.is_empty() { Vec::new() } else { vec![out.freeze()] };
        SpanStep::Slices(Slices { slices, through: self.next - 1, bytes })
    }

    /// Asks for a lane's next group; again, if it was not supplied.
    fn ask(&mut self, number: usize) -> SpanStep {
        self.asked = Some(number);
        let (store, lane) = (&self.view.stores[number], &self.lanes[number]);
        let group = &store.groups[lane.at];
        SpanStep::Need(GroupRequest {
            span: self.view.span,
            store: store.store,
            group: group.group,
            ranges: Arc::clone(&group.ranges),
            disk_bytes: group.disk_bytes,
        })
    }

    /// Copies what is selected of a lane, up to a sequence and about so many bytes; gives the bytes it looked at.
    fn walk(
        &mut self,
        number: usize,
        until: u64,
        budget: usize,
        selector: &mut dyn Selector,
        out: &mut BytesMut,
    ) -> usize {
        let lane = &mut self.lanes[number];
        let everything = selector.everything();
        let (mut at, mut run) = (0, 0..0);
        for record in Records::new(&lane.records).map_while(Result::ok) {
            let sequence = record.sequence().0;
            // The others' lowest may only be a bound: a record that meets it comes before what they have.
            if sequence > until || at >= budget {
                break;
            }
            let end = at + record.bytes().len();
            if everything || selector.selects(record.topic()) {
                if run.end != at {
                    out.extend_from_slice(&lane.records[run]);
                    run = at..end;
                }
                run.end = end;
            }
            at = end;
            self.next = self.next.max(sequence + 1);
        }
        out.extend_from_slice(&lane.records[run]);
        lane.records = lane.records.slice(at..);
        at
    }
}
