//! Once-only publishing: per publisher its epoch, the number that is due, and the window within which a retry gets its
//! original sequence.
//!
//! ```text
//!            floor            last consumed
//!   too old    │  window: runs    │  due: last + 1
//!  ────────────┼──[===]···[====]──┼───────▶ publisher sequences      ··· consumed without a message: not stored
//! ```

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::VerdictKind;
use crate::record::Sequence;

/// Ids from here up belong to anonymous publishers and live as long as their connection.
pub const ANONYMOUS_FROM: u32 = 0x8000_0000;

/// Who holds a publisher: a connection's session, or a handle inside the process. Chosen by the engine, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder(pub u64);

/// A publisher's stream-wide id, used as its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublisherKey(pub u32);

/// Consecutive publisher sequences with consecutive sequences, remembered for retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRun {
    /// Publisher sequence of the first.
    pub first: u64,
    /// Sequence of the first.
    pub sequence: Sequence,
    /// How many.
    pub messages: u32,
}

/// A publisher as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherState {
    /// Stream-wide id.
    pub id: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its newest epoch.
    pub epoch: u32,
    /// The last publisher sequence consumed.
    pub last: u64,
    /// Timestamp of its last use.
    pub last_used: i64,
    /// The window, oldest first.
    pub runs: Vec<WindowRun>,
}

/// One publisher.
#[derive(Debug)]
pub struct Publisher {
    /// Stream-wide id.
    pub id: u32,
    /// Its name; empty for an anonymous one.
    pub name: Box<str>,
    /// Its newest epoch.
    pub epoch: u32,
    /// The last publisher sequence consumed.
    pub last: u64,
    /// Timestamp of its last use.
    pub last_used: i64,
    /// Who holds it.
    pub holder: Option<Holder>,
    closed: bool,
    stored: u64,
    floor: u64,
    runs: VecDeque<WindowRun>,
    remembered: u64,
}

/// An epoch that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Stream-wide id.
    pub id: u32,
    /// The epoch to publish under.
    pub epoch: u32,
    /// The next publisher sequence due.
    pub next: u64,
    /// Where the opening is noted: to be answered when that is durable. `None`: nothing to wait for.
    pub note: Option<(Sequence, u64)>,
    /// Who held it before and is closed now.
    pub fenced: Option<Holder>,
}

/// Why an epoch can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRefused {
    /// As many named publishers as allowed.
    TooMany {
        /// The ceiling.
        max: usize,
    },
    /// Too much waits for the journal.
    Busy,
}

pub(super) enum Seen {
    New,
    Known { messages: u32, kind: VerdictKind },
}

pub(super) struct Stored {
    pub id: u32,
    pub before: u64,
}

pub(super) struct Publishers {
    publishers_max: usize,
    window: u64,
    table: HashMap<u32, Publisher, foldhash::fast::FixedState>,
    by_name: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    next_id: u32,
    next_anonymous: u32,
}

impl Publishers {
    pub fn new(publishers_max: usize, window: u32, next_id: u32) -> Publishers {
        Publishers {
            publishers_max,
            window: u64::from(window),
            table: HashMap::with_hasher(foldhash::fast::FixedState::default()),
            by_name: HashMap::with_hasher(foldhash::fast::RandomState::default()),
            next_id: next_id.max(1),
            next_anonymous: ANONYMOUS_FROM,
        }
    }

    pub fn named(&self) -> impl Iterator<Item = &Publisher> {
        self.by_name.values().map(|id| &self.table[id])
    }

    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    pub fn by_name(&self, name: &str) -> Option<&Publisher> {
        self.by_name.get(name).map(|id| &self.table[id])
    }

    pub fn get(&self, key: PublisherKey) -> Option<&Publisher> {
        self.table.get(&key.0)
    }

    pub fn restore(&mut self, state: PublisherState) {
        assert!(state.id < ANONYMOUS_FROM, "anonymous publishers keep no state");
        self.next_id = self.next_id.max(state.id + 1);
        let stored = state.runs.last().map_or(0, |run| run.first + u64::from(run.messages) - 1);
        let remembered = state.runs.iter().map(|run| u64::from(run.messages)).sum();
        let floor = state.runs.first().map_or(state.last + 1, |run| run.first);
        self.by_name.insert(state.name.clone(), state.id);
        self.table.insert(
            state.id,
            Publisher {
                id: state.id,
                name: state.name,
                epoch: state.epoch,
                last: state.last,
                last_used: state.last_used,
                holder: None,
                closed: false,
                stored,
                floor,
                runs: state.runs.into(),
                remembered,
            },
        );
    }

    pub fn open_anonymous(&mut self, holder: Holder) -> Result<Opened, OpenRefused> {
        // Wraps after two billion connections; an id in use is stepped over.
        while self.table.contains_key(&self.next_anonymous) {
            self.next_anonymous = self.next_anonymous.wrapping_add(1) | ANONYMOUS_FROM;
        }
        let id = self.next_anonymous;
        self.next_anonymous = id.wrapping_add(1) | ANONYMOUS_FROM;
        let mut publisher = Publisher::new(id, "".into());
        publisher.epoch = 1;
        publisher.holder = Some(holder);
        self.table.insert(id, publisher);
        Ok(Opened { id, epoch: 1, next: 1, note: None, fenced: None })
    }

    pub fn open_named(&mut self, holder: Holder, name: &str, next: u64) -> Result<Opened, OpenRefused> {
        let id = match self.by_name.get(name) {
            Some(id) => *id,
            None => self.admit(name)?,
        };
        let publisher = self.table.get_mut(&id).expect("by_name names entries of the table");
        // At or below what is stored it goes on as it was: its publisher is about to ask again. Above, what was consumed without a
        // message may be named anew.
        if next > publisher.stored {
            publisher.last = next - 1;
            publisher.floor = publisher.floor.min(next);
        }
        publisher.epoch += 1;
        publisher.closed = false;
        let fenced = publisher.holder.replace(holder).filter(|before| *before != holder);
        Ok(Opened { id, epoch: publisher.epoch, next: publisher.last + 1, note: None, fenced })
    }

    fn admit(&mut self, name: &str) -> Result<u32, OpenRefused> {
        if self.by_name.len() >= self.publishers_max {
            return Err(OpenRefused::TooMany { max: self.publishers_max });
        }
        let id = self.next_id;
        self.next_id += 1;
        assert!(id < ANONYMOUS_FROM, "two billion named publishers were opened");
        self.by_name.insert(name.into(), id);
        self.table.insert(id, Publisher::new(id, name.into()));
        Ok(id)
    }

    pub fn drop_named(&mut self, name: &str) -> Option<u32> {
        let id = self.by_name.remove(name)?;
        self.table.remove(&id);
        Some(id)
    }

    pub fn release(&mut self, key: PublisherKey) {
        if key.0 >= ANONYMOUS_FROM {
            self.table.remove(&key.0);
        } else if let Some(publisher) = self.table.get_mut(&key.0) {
            publisher.holder = None;
        }
    }

    pub fn void(&mut self, id: u32, ranges: &[(Sequence, Sequence)]) {
        let Some(publisher) = self.table.get_mut(&id) else { return };
        publisher.closed = true;
        // An entry is void as a whole, but a remembered run may join several entries.
        let runs = std::mem::take(&mut publisher.runs);
        publisher.runs = runs.into_iter().flat_map(|run| without(run, ranges)).collect();
        publisher.remembered = publisher.runs.iter().map(|run| u64::from(run.messages)).sum();
        publisher.stored = publisher.runs.back().map_or(0, |run| run.first + u64::from(run.messages) - 1);
    }

    pub fn skip(&mut self, key: PublisherKey, epoch: u32, next: u64) -> Result<u32, VerdictKind> {
        let publisher = self.current(key, epoch)?;
        if next <= publisher.last {
            return Err(VerdictKind::Expected { due: publisher.last + 1 });
        }
        publisher.last = next - 1;
        Ok(publisher.id)
    }

    /// A definite refusal consumes its numbers.
    pub fn consume(&mut self, key: PublisherKey, last: u64) {
        if let Some(publisher) = self.table.get_mut(&key.0) {
            publisher.last = publisher.last.max(last);
        }
    }

    /// Judges the first of some messages, with as many of the following as share its fate.
    pub fn judge(&mut self, key: PublisherKey, epoch: u32, first: u64, messages: u32) -> Seen {
        let publisher = match self.current(key, epoch) {
            Ok(publisher) => publisher,
            Err(kind) => return Seen::Known { messages, kind },
        };
        let due = publisher.last + 1;
        if first == due {
            return Seen::New;
        }
        if first > due {
            return Seen::Known { messages, kind: VerdictKind::Expected { due } };
        }
        let below_due = u32::try_from(due - first).unwrap_or(u32::MAX).min(messages);
        let (known, kind) = publisher.look_up(first);
        Seen::Known { messages: below_due.min(u32::try_from(known).unwrap_or(u32::MAX)), kind }
    }

    /// Notes messages that were sequenced.
    pub fn stored(&mut self, key: PublisherKey, first: u64, messages: u32, sequence: Sequence, now: i64) -> Stored {
        let window = self.window;
        let publisher = self.table.get_mut(&key.0).expect("judged before");
        assert_eq!(first, publisher.last + 1, "judged before");
        let before = publisher.stored;
        publisher.last = first + u64::from(messages) - 1;
        publisher.stored = publisher.last;
        publisher.last_used = now;
        if key.0 < ANONYMOUS_FROM {
            publisher.remember(WindowRun { first, sequence, messages }, window);
        }
        Stored { id: publisher.id, before }
    }

    pub fn due(&mut self, key: PublisherKey, epoch: u32) -> Result<u64, VerdictKind> {
        self.current(key, epoch).map(|publisher| publisher.last + 1)
    }

    fn current(&mut self, key: PublisherKey, epoch: u32) -> Result<&mut Publisher, VerdictKind> {
        match self.table.get_mut(&key.0) {
            Some(publisher) if publisher.epoch != epoch => Err(VerdictKind::Fenced),
            Some(publisher) if publisher.closed => Err(VerdictKind::Reopen),
            Some(publisher) => Ok(publisher),
            None => Err(VerdictKind::Fenced),
        }
    }
}

impl Publisher {
    fn new(id: u32, name: Box<str>) -> Publisher {
        Publisher {
            id,
            name,
            epoch: 0,
            last: 0,
            last_used: 0,
            holder: None,
            closed: false,
            stored: 0,
            floor: 1,
            runs: VecDeque::new(),
            remembered: 0,
        }
    }

    /// As a checkpoint keeps it.
    pub fn state(&self) -> PublisherState {
        PublisherState {
            id: self.id,
            name: self.name.clone(),
            epoch: self.epoch,
            last: self.last,
            last_used: self.last_used,
            runs: self.runs.iter().copied().collect(),
        }
    }

    /// What a consumed number came to, and how many from it on came to the same.
    fn look_up(&self, wanted: u64) -> (u64, VerdictKind) {
        if wanted < self.floor {
            return (self.floor - wanted, VerdictKind::TooOld);
        }
        let at = self.runs.partition_point(|run| run.first <= wanted);
        if let Some(run) = at.checked_sub(1).map(|before| self.runs[before]) {
            let inside = wanted - run.first;
            if inside < u64::from(run.messages) {
                let first = Sequence(run.sequence.0 + inside);
                return (u64::from(run.messages) - inside, VerdictKind::Duplicate { first });
            }
        }
        let until = self.runs.get(at).map_or(self.last + 1, |run| run.first);
        (until - wanted, VerdictKind::NotStored)
    }

    fn remember(&mut self, run: WindowRun, window: u64) {
        self.remembered += u64::from(run.messages);
        match self.runs.back_mut() {
            Some(before)
                if before.first + u64::from(before.messages) == run.first
                    && before.sequence.0 + u64::from(before.messages) == run.sequence.0
                    && u64::from(before.messages) < window / 4 =>
            {
                before.messages += run.messages;
            }
            _ => self.runs.push_back(run),
        }
        while let Some(oldest) = self.runs.front()
            && self.remembered - u64::from(oldest.messages) >= window
        {
            self.remembered -= u64::from(oldest.messages);
            self.floor = oldest.first + u64::from(oldest.messages);
            self.runs.pop_front();
        }
    }
}

/// What is left of a run when ascending ranges of sequences are taken out.
fn without(run: WindowRun, ranges: &[(Sequence, Sequence)]) -> Vec<WindowRun> {
    let mut left = Vec::new();
    let mut at = run.sequence.0;
    let end = run.sequence.0 + u64::from(run.messages);
    let mut keep = |from: u64, to: u64| {
        if from < to {
            let first = run.first + (from - run.sequence.0);
            let messages = u32::try_from(to - from).expect("a part of a run");
            left.push(WindowRun { first, sequence: Sequence(from), messages });
        }
    };
    for (first, last) in ranges.iter().filter(|(first, last)| last.0 >= run.sequence.0 && first.0 < end) {
        keep(at, first.0);
        at = at.max(last.0 + 1);
    }
    keep(at, end);
    left
}
