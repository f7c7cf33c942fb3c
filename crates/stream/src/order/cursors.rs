//! Cursors: durable named positions. Each change is a control record; what is not settled yet is kept apart, so that it can be
//! taken back.
//!
//! ```text
//!   settled: next 7, epoch 3  ◀── commit 9 ◀── commit 12        open changes, by the sequence of their record
//!                                                  └── what a holder is told, and judged by
//! ```

use std::collections::{BTreeMap, VecDeque};

use bytes::BufMut;
use hashbrown::HashMap;

use super::Holder;
use crate::record::Sequence;

/// Bytes of a cursor's name.
pub const CURSOR_NAME_BYTES_MAX: usize = 255;
/// Bytes of a cursor's filters together: with the most cursors by default they take 640 MB, with usual ones a thousandth.
pub const CURSOR_FILTER_BYTES_MAX: usize = 64 << 10;

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorPlace {
    /// The next message it wants.
    pub next: Sequence,
    /// One higher with every holder.
    pub holder_epoch: u32,
    /// When it was opened, set or committed last, unix ns.
    pub committed_at: i64,
}

/// A cursor as a start finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorState {
    /// Stream-wide id.
    pub id: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its filters, ascending.
    pub filters: Vec<Box<str>>,
    /// Where it stands.
    pub place: CursorPlace,
    /// The sequence of the record that says so; zero where it is not known.
    pub changed: Sequence,
}

/// One cursor.
#[derive(Debug)]
pub struct Cursor {
    /// Stream-wide id.
    pub id: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its filters, ascending.
    pub filters: Vec<Box<str>>,
    holder: Option<Holder>,
    settled: Option<CursorPlace>,
    /// The record of the settled place.
    changed: Sequence,
    /// What is not settled, by its record; `None`: dropped.
    open: VecDeque<(Sequence, Option<CursorPlace>)>,
    /// It has had no holder since then; `None`: since the last look.
    idle_since: Option<i64>,
}

impl Cursor {
    /// Where it stands when all that is under way gets settled; `None`: dropped.
    pub fn place(&self) -> Option<CursorPlace> {
        self.open.back().map_or(self.settled, |(_, place)| *place)
    }

    fn is_gone(&self) -> bool {
        self.settled.is_none() && self.open.is_empty()
    }
}

/// Why a cursor is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorRefused {
    /// As many as allowed.
    TooMany {
        /// The ceiling.
        max: usize,
    },
    /// It was made with other filters.
    OtherFilters,
    /// There is none of this name.
    NoSuch,
    /// Somebody else holds it.
    Fenced,
    /// A commit moves on, this would move back.
    Back {
        /// Where it stands.
        next: Sequence,
    },
    /// Too much waits for the journal, or it is being dropped.
    Busy,
}

/// A cursor that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOpened {
    /// Its id.
    pub id: u32,
    /// Where it stands, under the new holder's epoch.
    pub place: CursorPlace,
    /// Whether it was there before.
    pub existed: bool,
    /// Who held it and is fenced now, and its epoch.
    pub fenced: Option<(Holder, u32)>,
}

/// All cursors.
pub(super) struct Cursors {
    cursors_max: usize,
    table: HashMap<u32, Cursor, foldhash::fast::FixedState>,
    by_name: BTreeMap<Box<str>, u32>,
    next_id: u32,
    /// Changes that are not settled, oldest first.
    changes: VecDeque<(Sequence, u32)>,
    /// Dropped cursors that no sealed segment tells of yet.
    dropped: VecDeque<(Sequence, u32)>,
}

impl Cursors {
    pub fn new(cursors_max: usize) -> Cursors {
        Cursors {
            cursors_max,
            table: HashMap::default(),
            by_name: BTreeMap::new(),
            next_id: 1,
            changes: VecDeque::new(),
            dropped: VecDeque::new(),
        }
    }

    pub fn restore(&mut self, state: CursorState) {
        self.next_id = self.next_id.max(state.id.saturating_add(1));
        self.by_name.insert(state.name.clone(), state.id);
        let cursor = Cursor {
            id: state.id,
            name: state.name,
            filters: state.filters,
            holder: None,
            settled: Some(state.place),
            changed: state.changed,
            open: VecDeque::new(),
            idle_since: Some(state.place.committed_at),
        };
        self.table.insert(state.id, cursor);
    }

    pub fn restore_dropped(&mut self, id: u32, changed: Sequence) {
        self.next_id = self.next_id.max(id.saturating_add(1));
        self.dropped.push_back((changed, id));
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn get(&self, name: &str) -> Option<&Cursor> {
        self.by_name.get(name).and_then(|id| self.table.get(id))
    }

    pub fn by_id(&self, id: u32) -> Option<&Cursor> {
        self.table.get(&id)
    }

    /// By name, behind this one.
    pub fn behind(&self, after: &str) -> impl Iterator<Item = &Cursor> {
        let bounds = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.by_name.range::<str, _>(bounds).filter_map(|(_, id)| self.table.get(id))
    }

    /// The cursor's id and place, made at `fresh` if there is none. `filters` are ascending; none: whatever it has.
    fn find(
        &mut self,
        name: &str,
        filters: &[Box<str>],
        fresh: CursorPlace,
    ) -> Result<(u32, CursorPlace, bool), CursorRefused> {
        if let Some(cursor) = self.get(name) {
            let Some(place) = cursor.place() else { return Err(CursorRefused::Busy) };
            let same = filters.is_empty() || *filters == *cursor.filters;
            return if same { Ok((cursor.id, place, true)) } else { Err(CursorRefused::OtherFilters) };
        }
        if filters.is_empty() {
            return Err(CursorRefused::NoSuch);
        }
        if self.by_name.len() >= self.cursors_max {
            return Err(CursorRefused::TooMany { max: self.cursors_max });
        }
        let id = self.next_id;
        self.next_id = id.checked_add(1).expect("four billion cursors were made");
        let cursor = Cursor {
            id,
            name: name.into(),
            filters: filters.to_vec(),
            holder: None,
            settled: None,
            changed: Sequence::ZERO,
            open: VecDeque::new(),
            idle_since: None,
        };
        self.by_name.insert(name.into(), id);
        self.table.insert(id, cursor);
        Ok((id, fresh, false))
    }

    /// A holder takes it; `fresh` is where it begins if it is made. The caller notes the place.
    pub fn open(
        &mut self,
        holder: Holder,
        (name, filters): (&str, &[Box<str>]),
        fresh: Sequence,
        now: i64,
    ) -> Result<CursorOpened, CursorRefused> {
        let fresh = CursorPlace { next: fresh, holder_epoch: 0, committed_at: now };
        let (id, before, existed) = self.find(name, filters, fresh)?;
        let place = CursorPlace { holder_epoch: before.holder_epoch + 1, committed_at: now, ..before };
        let fenced = self.take(id, Some(holder)).map(|holder| (holder, before.holder_epoch));
        Ok(CursorOpened { id, place, existed, fenced })
    }

    /// Makes it or moves it, whoever holds it.
    pub fn set(
        &mut self,
        (name, filters): (&str, &[Box<str>]),
        next: Sequence,
        now: i64,
    ) -> Result<CursorOpened, CursorRefused> {
        let fresh = CursorPlace { next, holder_epoch: 0, committed_at: now };
        let (id, before, existed) = self.find(name, filters, fresh)?;
        let place = CursorPlace { next, holder_epoch: before.holder_epoch + 1, committed_at: now };
        let fenced = self.take(id, None).map(|holder| (holder, before.holder_epoch));
        Ok(CursorOpened { id, place, existed, fenced })
    }

    /// The holder moves it on.
    pub fn commit(
        &mut self,
        name: &str,
        holder_epoch: u32,
        next: Sequence,
        now: i64,
    ) -> Result<(u32, CursorPlace), CursorRefused> {
        let cursor = self.get(name).ok_or(CursorRefused::NoSuch)?;
        let place = cursor.place().ok_or(CursorRefused::NoSuch)?;
        if place.holder_epoch != holder_epoch {
            return Err(CursorRefused::Fenced);
        }
        if next < place.next {
            return Err(CursorRefused::Back { next: place.next });
        }
        Ok((cursor.id, CursorPlace { next, committed_at: now, ..place }))
    }

    /// Forgets it, whoever holds it.
    pub fn drop_named(&mut self, name: &str) -> Result<(u32, Option<(Holder, u32)>), CursorRefused> {
        let cursor = self.get(name).ok_or(CursorRefused::NoSuch)?;
        let (id, place) = (cursor.id, cursor.place().ok_or(CursorRefused::NoSuch)?);
        Ok((id, self.take(id, None).map(|holder| (holder, place.holder_epoch))))
    }

    fn take(&mut self, id: u32, holder: Option<Holder>) -> Option<Holder> {
        let cursor = self.table.get_mut(&id)?;
        cursor.idle_since = None;
        std::mem::replace(&mut cursor.holder, holder).filter(|before| Some(*before) != holder)
    }

    /// The holder of this epoch holds it no more.
    pub fn release(&mut self, id: u32, holder_epoch: u32) {
        if let Some(cursor) = self.table.get_mut(&id)
            && cursor.place().is_some_and(|place| place.holder_epoch == holder_epoch)
        {
            cursor.holder = None;
            cursor.idle_since = None;
        }
    }

    /// A record with this sequence says where it stands; `None`: that it is dropped.
    pub fn note(&mut self, id: u32, sequence: Sequence, place: Option<CursorPlace>) {
        let cursor = self.table.get_mut(&id).expect("only what is in the table changes");
        cursor.open.push_back((sequence, place));
        self.changes.push_back((sequence, id));
    }

    /// Everything at or below is settled or was taken back.
    pub fn settled(&mut self, to: Sequence) {
        while let Some((sequence, id)) = self.changes.pop_front_if(|(sequence, _)| *sequence <= to) {
            let Some(cursor) = self.table.get_mut(&id) else { continue };
            let Some((_, place)) = cursor.open.pop_front_if(|(at, _)| *at == sequence) else { continue };
            (cursor.settled, cursor.changed) = (place, sequence);
            if place.is_none() {
                self.dropped.push_back((sequence, id));
                self.forget_if_gone(id);
            }
        }
    }

    /// The changes whose records lie in these ascending ranges never were.
    pub fn take_back(&mut self, ranges: &[(Sequence, Sequence)]) {
        let is_void = |sequence: Sequence| {
            let at = ranges.partition_point(|(_, to)| *to < sequence);
            ranges.get(at).is_some_and(|(from, _)| *from <= sequence)
        };
        let (void, kept): (Vec<_>, Vec<_>) = self.changes.drain(..).partition(|(sequence, _)| is_void(*sequence));
        self.changes = kept.into();
        for (sequence, id) in void {
            if let Some(cursor) = self.table.get_mut(&id) {
                cursor.open.retain(|(at, _)| *at != sequence);
            }
            self.forget_if_gone(id);
        }
    }

    fn forget_if_gone(&mut self, id: u32) {
        if self.table.get(&id).is_some_and(Cursor::is_gone)
            && let Some(cursor) = self.table.remove(&id)
        {
            self.by_name.remove(&cursor.name);
        }
    }

    /// Names of those that nobody has held or moved for so long.
    pub fn expired(&mut self, now: i64, ttl_ns: i64) -> Vec<Box<str>> {
        let mut expired = Vec::new();
        for cursor in self.table.values_mut().filter(|cursor| cursor.holder.is_none()) {
            let since = *cursor.idle_since.get_or_insert(now);
            if now.saturating_sub(since) > ttl_ns && cursor.place().is_some() {
                expired.push(cursor.name.clone());
            }
        }
        expired.sort_unstable();
        expired
    }

    pub(super) fn forget_dropped(&mut self) {
        self.dropped.clear();
    }

    /// The bodies of control record 5 of all that changed at or after a sequence, settled as they are; dropped ones have holder
    /// epoch 0. What changed before is not asked for any more.
    pub fn bodies_from(&mut self, from: Sequence) -> Vec<Vec<u8>> {
        while self.dropped.pop_front_if(|(sequence, _)| *sequence < from).is_some() {}
        let gone = CursorPlace { next: Sequence::ZERO, holder_epoch: 0, committed_at: 0 };
        let dropped = self.dropped.iter().map(|(_, id)| body(*id, gone, "", &[]));
        let changed = self.table.values().filter(|cursor| cursor.changed >= from);
        let live = changed.filter_map(|cursor| Some(body(cursor.id, cursor.settled?, &cursor.name, &cursor.filters)));
        dropped.chain(live).collect()
    }
}

/// The body of control record 5.
pub(super) fn body(id: u32, place: CursorPlace, name: &str, filters: &[Box<str>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + name.len());
    out.put_u32_le(id);
    out.put_u32_le(place.holder_epoch);
    out.put_u64_le(place.next.0);
    out.put_i64_le(place.committed_at);
    put_text(&mut out, name);
    out.put_u32_le(u32::try_from(filters.len()).expect("filters of a cursor are bounded"));
    for filter in filters {
        put_text(&mut out, filter);
    }
    out
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.put_u16_le(u16::try_from(text.len()).expect("names and filters are checked where they come in"));
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters() -> Vec<Box<str>> {
        vec!["a/**".into()]
    }

    fn open(cursors: &mut Cursors, holder: u64, at: u64) -> CursorOpened {
        let opened = cursors.open(Holder(holder), ("c", &filters()), Sequence(1), 0).unwrap();
        cursors.note(opened.id, Sequence(at), Some(opened.place));
        opened
    }

    fn commit(cursors: &mut Cursors, epoch: u32, next: u64, at: u64) -> Result<(), CursorRefused> {
        let (id, place) = cursors.commit("c", epoch, Sequence(next), 0)?;
        cursors.note(id, Sequence(at), Some(place));
        Ok(())
    }

    fn next(cursors: &Cursors) -> Option<u64> {
        cursors.get("c").and_then(Cursor::place).map(|place| place.next.0)
    }

    #[test]
    fn a_newcomer_fences_the_holder_and_goes_on_where_it_committed() {
        let mut cursors = Cursors::new(8);
        let first = open(&mut cursors, 1, 1);
        assert_eq!((first.existed, first.fenced, first.place.holder_epoch), (false, None, 1));
        commit(&mut cursors, 1, 7, 2).unwrap();
        let second = open(&mut cursors, 2, 3);
        assert_eq!((second.place.next, second.fenced), (Sequence(7), Some((Holder(1), 1))));
        assert_eq!(commit(&mut cursors, 1, 8, 4), Err(CursorRefused::Fenced));
        assert_eq!(commit(&mut cursors, 2, 6, 4), Err(CursorRefused::Back { next: Sequence(7) }));
        commit(&mut cursors, 2, 9, 4).unwrap();
    }

    #[test]
    fn a_commit_that_is_taken_back_leaves_the_one_before() {
        let mut cursors = Cursors::new(8);
        open(&mut cursors, 1, 1);
        commit(&mut cursors, 1, 5, 2).unwrap();
        commit(&mut cursors, 1, 9, 3).unwrap();
        cursors.settled(Sequence(2));
        cursors.take_back(&[(Sequence(3), Sequence(3))]);
        assert_eq!(next(&cursors), Some(5));
        let mut other = Cursors::new(8);
        open(&mut other, 1, 1);
        other.take_back(&[(Sequence(1), Sequence(1))]);
        assert_eq!((next(&other), other.len()), (None, 0), "it was never made");
    }

    #[test]
    fn a_dropped_cursor_is_told_to_the_next_segment_that_is_sealed_and_to_no_later_one() {
        let mut cursors = Cursors::new(8);
        open(&mut cursors, 1, 1);
        cursors.settled(Sequence(1));
        assert_eq!(cursors.bodies_from(Sequence(1)).len(), 1);
        assert_eq!(cursors.bodies_from(Sequence(2)).len(), 0, "it did not change");
        let (id, fenced) = cursors.drop_named("c").unwrap();
        assert_eq!(fenced, Some((Holder(1), 1)));
        cursors.note(id, Sequence(5), None);
        let refused = cursors.open(Holder(2), ("c", &filters()), Sequence(1), 0);
        assert_eq!(refused, Err(CursorRefused::Busy), "until the drop is settled nobody knows");
        cursors.settled(Sequence(5));
        let bodies = cursors.bodies_from(Sequence(4));
        assert_eq!(bodies, [body(id, CursorPlace { next: Sequence(0), holder_epoch: 0, committed_at: 0 }, "", &[])]);
        assert_eq!(cursors.bodies_from(Sequence(6)).len(), 0);
        assert!(!open(&mut cursors, 2, 7).existed);
    }

    #[test]
    fn ceiling_filters_and_time_to_live_are_kept() {
        let mut cursors = Cursors::new(1);
        let opened = open(&mut cursors, 1, 1);
        let other: Vec<Box<str>> = vec!["b".into()];
        assert_eq!(cursors.open(Holder(2), ("d", &other), Sequence(1), 0), Err(CursorRefused::TooMany { max: 1 }));
        assert_eq!(cursors.open(Holder(2), ("c", &other), Sequence(1), 0), Err(CursorRefused::OtherFilters));
        assert_eq!(cursors.expired(1_000, 10), [], "it is held");
        cursors.release(opened.id, opened.place.holder_epoch);
        assert_eq!(cursors.expired(1_000, 10), [], "time counts from the release");
        assert_eq!(cursors.expired(1_011, 10), ["c".into()]);
    }
}
