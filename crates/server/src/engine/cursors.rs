//! Cursors in the engine: each change is numbered and entered as a control record, and answered when that is settled.

use arioso_journal::{Group, NO_PUBLISHER};
use arioso_store::cursors::Cursors;
use arioso_stream::Sequence;
use arioso_stream::order::{Cursor, CursorOpened, CursorRefused, Holder};
use arioso_wire::Code;

use super::{Engine, Refused, holder};
use crate::mailbox::{About, Address, Mail};

/// How often it is looked for cursors that nobody uses any more.
const SWEEP_NS: i64 = 60_000_000_000;
/// What a commit or a drop takes in the journal.
const NOTE_BYTES: u64 = 256;

impl Engine {
    /// A session's subscription takes a cursor, which is made at `fresh` if there is none; done when the reply
    /// [`About::OpenCursor`] says so. The older holder is fenced at once.
    pub fn open_cursor(
        &mut self,
        now: i64,
        address: Address,
        (name, filters): (&str, &[Box<str>]),
        fresh: Sequence,
    ) -> Result<CursorOpened, Refused> {
        self.admit(cursor_bytes(name, filters))?;
        let holder = holder(address.session, address.channel);
        let taken = self.order.open_cursor(now, holder, (name, filters), fresh);
        let (opened, note) = taken.map_err(cursor_refused)?;
        self.control(address, 0, (NO_PUBLISHER, 0, Group::OWN), note);
        self.fence_cursor(opened.id, opened.fenced);
        Ok(opened)
    }

    /// Makes or moves a cursor; done when the reply [`About::SetCursor`] says so. Without filters it keeps those it has.
    pub fn set_cursor(
        &mut self,
        now: i64,
        address: Address,
        (name, filters): (&str, &[Box<str>]),
        next: Sequence,
    ) -> Result<(), Refused> {
        self.admit(cursor_bytes(name, filters))?;
        self.check_position(next)?;
        let set = self.order.set_cursor(now, (name, filters), next);
        let (opened, note) = set.map_err(cursor_refused)?;
        self.control(address, 0, (NO_PUBLISHER, 0, Group::OWN), note);
        self.fence_cursor(opened.id, opened.fenced);
        Ok(())
    }

    /// The holder moves its cursor on; done when the reply [`About::Commit`] says so.
    pub fn commit_cursor(
        &mut self,
        now: i64,
        address: Address,
        (name, holder_epoch): (&str, u32),
        next: Sequence,
    ) -> Result<(), Refused> {
        self.admit(NOTE_BYTES)?;
        self.check_position(next)?;
        let note = self.order.commit_cursor(now, name, holder_epoch, next).map_err(cursor_refused)?;
        self.control(address, 0, (NO_PUBLISHER, 0, Group::OWN), note);
        Ok(())
    }

    /// Forgets a cursor; done when the reply [`About::DropCursor`] says so.
    pub fn drop_cursor(&mut self, now: i64, address: Address, name: &str) -> Result<(), Refused> {
        self.admit(NOTE_BYTES)?;
        let (note, fenced, id) = self.order.drop_cursor(now, name).map_err(cursor_refused)?;
        self.control(address, 0, (NO_PUBLISHER, 0, Group::OWN), note);
        self.fence_cursor(id, fenced);
        Ok(())
    }

    /// The holder of this epoch holds it no more.
    pub fn release_cursor(&mut self, id: u32, holder_epoch: u32) {
        self.order.release_cursor(id, holder_epoch);
    }

    /// Cursors by name, behind this one.
    pub fn cursors_behind(&self, after: &str) -> impl Iterator<Item = &Cursor> {
        self.order.cursors_behind(after).filter(|cursor| cursor.place().is_some())
    }

    /// The cursors part of the footer of a segment that begins with this sequence.
    pub fn cursors_part(&mut self, from: Sequence) -> Vec<u8> {
        let mut part = Cursors::default();
        for body in self.order.cursor_bodies_from(from) {
            assert!(part.add(&body), "the sequencer writes bodies that parse");
        }
        if part.is_empty() { Vec::new() } else { part.encode() }
    }

    /// Nothing will be sealed that would have to tell of dropped cursors.
    pub fn forget_dropped_cursors(&mut self) {
        self.order.forget_dropped_cursors();
    }

    /// Drops cursors that nobody has held or moved for longer than `cursor-ttl`; looks once a minute.
    pub fn sweep_cursors(&mut self, now: i64) {
        if self.cursor_ttl_ns == 0 || now < self.sweep_at || self.order.cursors_len() == 0 {
            return;
        }
        self.sweep_at = now.saturating_add(SWEEP_NS);
        for name in self.order.expired_cursors(now, self.cursor_ttl_ns) {
            tracing::info!(%name, "cursor dropped: cursor-ttl has passed without a holder or a commit");
            // Session 0 does not exist: the reply goes nowhere.
            let address = Address { session: 0, channel: 0, tenant: 0, about: About::DropCursor };
            if self.drop_cursor(now, address, &name).is_err() {
                return;
            }
        }
    }

    /// A position behind everything that was given a number means messages that nobody has seen.
    fn check_position(&self, next: Sequence) -> Result<(), Refused> {
        let end = self.order.next_sequence();
        if next <= end { Ok(()) } else { Err(Refused { code: Code::BadPosition, detail: end.0 }) }
    }

    fn fence_cursor(&mut self, cursor: u32, fenced: Option<(Holder, u32)>) {
        let Some((before, holder_epoch)) = fenced else { return };
        let (session, channel) = ((before.0 >> 16) as u32, before.0 as u16);
        if let Some(mailbox) = self.sessions.get(&session) {
            mailbox.put(Mail::CursorFenced { channel, cursor, holder_epoch });
            mailbox.wake();
        }
    }
}

fn cursor_bytes(name: &str, filters: &[Box<str>]) -> u64 {
    let filters: usize = filters.iter().map(|filter| filter.len() + 2).sum();
    NOTE_BYTES + (name.len() + filters) as u64
}

fn cursor_refused(refused: CursorRefused) -> Refused {
    let (code, detail) = match refused {
        CursorRefused::TooMany { max } => (Code::TooManyCursors, max as u64),
        CursorRefused::OtherFilters => (Code::OtherFilters, 0),
        CursorRefused::NoSuch => (Code::NoSuchCursor, 0),
        CursorRefused::Fenced => (Code::Fenced, 0),
        CursorRefused::Back { next } => (Code::BadPosition, next.0),
        CursorRefused::Busy => (Code::Busy, 0),
    };
    Refused { code, detail }
}
