//! The publishers part of a footer or a base (docs/format.md section 6.1), and how publishers' states add up.
//!
//! A footer has the publishers touched in its segment, with the runs that lie in it; a base has them all. Later
//! states are merged into earlier ones: the newest epoch and number count, runs are strung together and cut to the
//! window within which a retry gets its original number.

use std::collections::BTreeMap;

use arioso_stream::Sequence;
use arioso_stream::order::{ANONYMOUS_FROM, PublisherState, Run, WindowRun};
use bytes::BufMut;

use crate::control::Control;
use crate::head::{BadPart, Cut};
use crate::part;
use crate::voids::Voids;

const MAGIC: [u8; 4] = *b"APUB";
const ALIGN: usize = 8;
const RUN_BYTES: usize = 24;

/// Publishers by id. One with epoch 0 was dropped; one without a name was named earlier.
#[derive(Clone, Debug)]
pub struct Publishers {
    window_messages: u64,
    table: BTreeMap<u32, PublisherState>,
}

impl Publishers {
    /// None yet. At least so many messages of each are remembered for retries.
    pub fn new(window_messages: u32) -> Publishers {
        Publishers { window_messages: u64::from(window_messages), table: BTreeMap::new() }
    }

    /// Every publisher, by id.
    pub fn iter(&self) -> impl Iterator<Item = &PublisherState> {
        self.table.values()
    }

    /// Gives every publisher out, by id.
    pub fn into_states(self) -> impl Iterator<Item = PublisherState> {
        self.table.into_values()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// A publisher's name.
    pub fn name(&mut self, id: u32, name: &str) {
        if id < ANONYMOUS_FROM {
            self.entry(id).name = name.into();
        }
    }

    /// A run that was stored; messages in it may be void. Anonymous publishers keep no state.
    pub fn run(&mut self, run: &Run, timestamp: i64, voids: &Voids) {
        if run.publisher >= ANONYMOUS_FROM || run.messages == 0 {
            return;
        }
        let window = self.window_messages;
        let state = self.entry(run.publisher);
        state.epoch = state.epoch.max(run.epoch);
        state.last_used = state.last_used.max(timestamp);
        let end = run.first_publisher_sequence.saturating_add(u64::from(run.messages));
        state.last = state.last.max(end - 1);
        for kept in kept_runs(run, voids) {
            push_run(&mut state.runs, kept);
        }
        cut_to_window(&mut state.runs, window);
    }

    /// A control record; those that are not about publishers are passed over.
    pub fn control(&mut self, control: &Control<'_>, timestamp: i64) {
        match *control {
            Control::EpochOpened { publisher, epoch, next, name } => {
                let state = self.entry(publisher);
                state.name = name.into();
                state.epoch = state.epoch.max(epoch);
                state.last = state.last.max(next.saturating_sub(1));
                state.last_used = state.last_used.max(timestamp);
            }
            Control::Skip { publisher, epoch, next } => {
                let state = self.entry(publisher);
                state.epoch = state.epoch.max(epoch);
                state.last = state.last.max(next.saturating_sub(1));
                state.last_used = state.last_used.max(timestamp);
            }
            Control::PublisherDropped { publisher } => {
                let state = empty(publisher);
                self.table.insert(publisher, state);
            }
            Control::Void(_) | Control::Other { .. } => {}
        }
    }

    /// Merges a later part into this one.
    pub fn extend(&mut self, later: &Publishers) {
        for state in later.table.values() {
            self.add(state);
        }
    }

    /// Merges a publisher's later state into this.
    pub fn add(&mut self, later: &PublisherState) {
        let window = self.window_messages;
        match self.table.get_mut(&later.id) {
            Some(state) if later.epoch != 0 && state.epoch != 0 => {
                state.epoch = state.epoch.max(later.epoch);
                state.last = state.last.max(later.last);
                state.last_used = state.last_used.max(later.last_used);
                if !later.name.is_empty() {
                    state.name = later.name.clone();
                }
                for run in &later.runs {
                    push_run(&mut state.runs, *run);
                }
                cut_to_window(&mut state.runs, window);
            }
            _ => drop(self.table.insert(later.id, later.clone())),
        }
    }

    /// Forgets those that were dropped: for a base, where nothing older lies beneath.
    pub fn forget_dropped(&mut self) {
        self.table.retain(|_, state| state.epoch != 0);
    }

    fn entry(&mut self, id: u32) -> &mut PublisherState {
        self.table.entry(id).or_insert_with(|| empty(id))
    }

    /// As a part.
    pub fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        rest.put_u32_le(self.table.len() as u32);
        rest.put_u32_le(0);
        for state in self.table.values() {
            rest.put_u32_le(state.id);
            rest.put_u32_le(state.epoch);
            rest.put_u64_le(state.last);
            rest.put_i64_le(state.last_used);
            rest.put_u16_le(state.name.len() as u16);
            rest.put_u16_le(0);
            rest.put_u32_le(state.runs.len() as u32);
            rest.put_slice(state.name.as_bytes());
            rest.resize(rest.len().next_multiple_of(ALIGN), 0);
            for run in &state.runs {
                rest.put_u64_le(run.first);
                rest.put_u64_le(run.sequence.0);
                rest.put_u32_le(run.messages);
                rest.put_u32_le(0);
            }
        }
        part::seal(MAGIC, &rest)
    }

    /// Reads a part.
    pub fn read(bytes: &[u8], window_messages: u32) -> Result<Publishers, BadPart> {
        let mut rest = Cut(part::check(MAGIC, bytes)?);
        let mut publishers = Publishers::new(window_messages);
        let mut read = || {
            let (count, _) = (rest.u32()?, rest.u32()?);
            for _ in 0..count {
                let mut state = read_state(&mut rest)?;
                cut_to_window(&mut state.runs, u64::from(window_messages));
                publishers.table.insert(state.id, state);
            }
            Some(())
        };
        read().ok_or(BadPart::Field { field: "list of publishers" })?;
        Ok(publishers)
    }
}

fn empty(id: u32) -> PublisherState {
    PublisherState { id, name: "".into(), epoch: 0, last: 0, last_used: 0, runs: Vec::new() }
}

fn read_state(rest: &mut Cut<'_>) -> Option<PublisherState> {
    let (id, epoch, last, last_used) = (rest.u32()?, rest.u32()?, rest.u64()?, rest.i64()?);
    let (name_bytes, _, runs) = (usize::from(rest.u16()?), rest.u16()?, rest.u32()? as usize);
    let name = std::str::from_utf8(rest.bytes(name_bytes)?).ok()?.into();
    rest.bytes(name_bytes.next_multiple_of(ALIGN) - name_bytes)?;
    let mut lie = Cut(rest.bytes(runs.checked_mul(RUN_BYTES)?)?);
    let mut read = Vec::with_capacity(runs);
    for _ in 0..runs {
        let run = WindowRun { first: lie.u64()?, sequence: Sequence(lie.u64()?), messages: lie.u32()? };
        lie.u32()?;
        let fits = |first: u64| first.checked_add(u64::from(run.messages)).is_some();
        if !fits(run.first) || !fits(run.sequence.0) {
            return None;
        }
        read.push(run);
    }
    Some(PublisherState { id, name, epoch, last, last_used, runs: read })
}

/// The pieces of a run that are not void.
fn kept_runs<'a>(run: &'a Run, voids: &'a Voids) -> impl Iterator<Item = WindowRun> + 'a {
    let (low, end) = (run.first_sequence.0, run.first_sequence.0.saturating_add(u64::from(run.messages)));
    let inside = voids.ranges().iter().filter(move |range| range.1 >= low && range.0 < end);
    let bounds = inside.map(|range| (range.0, range.1.saturating_add(1))).chain([(end, end)]);
    bounds
        .scan(low, move |from, (void_from, void_end)| {
            let piece = (*from, void_from.clamp(*from, end));
            *from = (*from).max(void_end.min(end));
            Some(piece)
        })
        .filter(|(from, to)| from < to)
        .map(move |(from, to)| WindowRun {
            first: run.first_publisher_sequence.saturating_add(from - low),
            sequence: Sequence(from),
            messages: (to - from) as u32,
        })
}

/// Strings a run to the last one if both numbers go on.
fn push_run(runs: &mut Vec<WindowRun>, run: WindowRun) {
    if let Some(last) = runs.last_mut() {
        let messages = u64::from(last.messages);
        let goes_on = last.first.checked_add(messages) == Some(run.first)
            && last.sequence.0.checked_add(messages) == Some(run.sequence.0);
        if let Some(sum) = last.messages.checked_add(run.messages).filter(|_| goes_on) {
            last.messages = sum;
            return;
        }
    }
    runs.push(run);
}

/// Drops the oldest runs as long as the rest still fills the window. Done at twice the window, so that the
/// cost is spread; the sequencer cuts exactly.
fn cut_to_window(runs: &mut Vec<WindowRun>, window: u64) {
    let total: u64 = runs.iter().map(|run| u64::from(run.messages)).sum();
    if total < window.saturating_mul(2) {
        return;
    }
    let (mut rest, mut drop) = (total, 0);
    while drop < runs.len() && rest - u64::from(runs[drop].messages) >= window {
        rest -= u64::from(runs[drop].messages);
        drop += 1;
    }
    runs.drain(..drop);
}
