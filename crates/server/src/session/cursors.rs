//! Cursors on a session: a subscription that takes one begins when that is durable; requests that set, commit and drop.

use std::collections::BTreeMap;

use arioso_journal::{Reply, Verdict};
use arioso_stream::Sequence;
use arioso_stream::filter::{Filter, FilterSet};
use arioso_stream::order::{CURSOR_FILTER_BYTES_MAX, CURSOR_NAME_BYTES_MAX};
use arioso_wire::{Answer, Begin, Code, Frame, Request, Rows, Subscribe};

use super::Session;
use super::subscribing::{Refusal, begins};
use crate::clock::Now;
use crate::engine::Refused;
use crate::mailbox::{About, Address};
use crate::node::Node;
use crate::output::Output;

/// A cursor that a subscription holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub cursor: u32,
    pub epoch: u32,
}

/// A subscription that waits for its cursor.
struct Opening {
    tenant: u8,
    held: Held,
    subscribe: Subscribe,
    filters: FilterSet,
}

/// The cursors of a session's subscriptions, by channel.
#[derive(Default)]
pub(super) struct HeldCursors {
    opening: BTreeMap<u16, Opening>,
    held: BTreeMap<u16, Held>,
    /// Openings counted around, as publishers are.
    tenants: u8,
}

impl HeldCursors {
    /// Subscriptions that wait for theirs.
    pub fn opening(&self) -> usize {
        self.opening.len()
    }

    /// Whether the channel's subscription waits for its cursor.
    pub fn is_opening(&self, channel: u16) -> bool {
        self.opening.contains_key(&channel)
    }

    /// The channel's subscription is over. Gives whether it was still waiting.
    pub fn release(&mut self, channel: u16, node: &Node) -> bool {
        let opening = self.opening.remove(&channel);
        let was_opening = opening.is_some();
        if let Some(held) = self.held.remove(&channel).or(opening.map(|opening| opening.held)) {
            node.engine.lock().release_cursor(held.cursor, held.epoch);
        }
        was_opening
    }

    /// The session is over.
    pub fn release_all(&mut self, node: &Node) {
        let opening = std::mem::take(&mut self.opening).into_values().map(|opening| opening.held);
        let all: Vec<Held> = std::mem::take(&mut self.held).into_values().chain(opening).collect();
        if all.is_empty() {
            return;
        }
        let mut engine = node.engine.lock();
        all.iter().for_each(|held| engine.release_cursor(held.cursor, held.epoch));
    }
}

impl Session {
    /// Takes the cursor; the subscription begins when the reply is there.
    pub(super) fn open_cursor(
        &mut self,
        now: Now,
        channel: u16,
        mut subscribe: Subscribe,
        filters: FilterSet,
    ) -> Result<(), Refusal> {
        let name = subscribe.cursor.clone();
        let texts = check_cursor(&name, &filters).map_err(|(code, text)| (code, (0, 0), text))?;
        let fresh =
            begins(&self.node, &subscribe, &filters, &self.mailbox).map_err(|(code, text)| (code, (0, 0), text))?.first;
        let cursors = &mut self.subscriptions.cursors;
        cursors.tenants = cursors.tenants.wrapping_add(1);
        let tenant = cursors.tenants;
        let address = Address { session: self.number, channel, tenant, about: About::OpenCursor };
        let opened = self.node.engine.lock().open_cursor(now.wall, address, (&name, &texts), fresh);
        let opened = opened.map_err(|refused| refusal(&name, refused))?;
        self.node.work.notify_one();
        let next = opened.place.next;
        subscribe.begin = match subscribe.begin {
            // A connection that was cut goes on behind its last mark, not behind its last commit.
            Begin::Sequence(sequence) => Begin::Sequence(sequence),
            begin @ (Begin::Time(_) | Begin::Last) if !opened.existed => begin,
            _ => Begin::Sequence(next),
        };
        let held = Held { cursor: opened.id, epoch: opened.place.holder_epoch };
        cursors.opening.insert(channel, Opening { tenant, held, subscribe, filters });
        Ok(())
    }

    /// What became of a cursor that was to be opened.
    pub(super) fn cursor_opened(&mut self, now: i64, address: Address, reply: &Reply, out: &mut Output) {
        let channel = address.channel;
        let cursors = &mut self.subscriptions.cursors;
        if cursors.opening.get(&channel).is_none_or(|opening| opening.tenant != address.tenant) {
            return;
        }
        let Some(opening) = cursors.opening.remove(&channel) else { return };
        cursors.held.insert(channel, opening.held);
        if !matches!(reply.verdict, Verdict::Ok { .. }) {
            // Its record was taken back: nothing was changed, it may be tried again. Where the outcome is not known the
            // connection ends.
            cursors.release(channel, &self.node);
            if reply.verdict != Verdict::Unknown {
                self.fail(channel, Code::Busy, (0, 0), Code::Busy.text(), out);
            }
            return;
        }
        let begun = self.begin(now, channel, &opening.subscribe, &opening.filters, opening.held.epoch, out);
        if let Err((code, detail, text)) = begun {
            self.subscriptions.cursors.release(channel, &self.node);
            self.fail(channel, code, detail, &text, out);
        }
    }

    /// Another holder took the cursor of a channel's subscription.
    pub(super) fn cursor_fenced(&mut self, channel: u16, fenced: Held, out: &mut Output) {
        let cursors = &mut self.subscriptions.cursors;
        let opening = cursors.opening.get(&channel).map(|opening| opening.held);
        if cursors.held.get(&channel).copied().or(opening) != Some(fenced) {
            return;
        }
        self.subscriptions.remove(channel, &self.node);
        self.subscriptions.cursors.release(channel, &self.node);
        self.fail(channel, Code::Fenced, (0, 0), "another holder opened this cursor, or it was set or dropped", out);
    }

    /// A request that changes a cursor; its answer comes when the change is durable.
    pub(super) fn change_cursor(&mut self, now: i64, channel: u16, request: &Request, out: &mut Output) {
        let address = |about| Address { session: self.number, channel, tenant: 0, about };
        let mut engine = self.node.engine.lock();
        let (name, done) = match request {
            Request::Commit { name, holder_epoch, next } => {
                (name, engine.commit_cursor(now, address(About::Commit), (name, *holder_epoch), *next))
            }
            Request::DropCursor { name } => (name, engine.drop_cursor(now, address(About::DropCursor), name)),
            Request::SetCursor { name, next, filters } => {
                let parsed = FilterSet::parse(filters.iter());
                let parsed = parsed.map_err(|bad| (Code::BadFilter, bad.to_string()));
                match parsed.and_then(|filters| check_cursor(name, &filters)) {
                    Ok(texts) => {
                        let next = if next.0 == 0 { Sequence(1) } else { *next };
                        (name, engine.set_cursor(now, address(About::SetCursor), (name, &texts), next))
                    }
                    Err((code, text)) => {
                        drop(engine);
                        return self.fail(channel, code, (0, 0), &text, out);
                    }
                }
            }
            other => panic!("request kind {} does not change a cursor", other.kind()),
        };
        drop(engine);
        match done {
            Ok(()) => {
                self.node.work.notify_one();
            }
            Err(refused) => {
                let (code, detail, text) = refusal(name, refused);
                self.fail(channel, code, detail, &text, out);
            }
        }
    }

    /// The answer to a request that changed a cursor.
    pub(super) fn cursor_changed(&self, kind: u16, channel: u16, reply: &Reply, out: &mut Output) {
        match reply.verdict {
            Verdict::Ok { .. } => {
                out.push(channel, &Frame::Answer(Answer { more: false, rows: Rows::Done { kind } }));
            }
            // The connection ends.
            Verdict::Unknown => {}
            // Its record was taken back: nothing was changed.
            _ => self.fail(channel, Code::Busy, (0, 0), Code::Busy.text(), out),
        }
    }
}

/// The filters as a cursor keeps them.
fn check_cursor(name: &str, filters: &FilterSet) -> Result<Vec<Box<str>>, (Code, String)> {
    if name.is_empty() || name.len() > CURSOR_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let text = format!("a cursor's name has 1 to {CURSOR_NAME_BYTES_MAX} bytes and no control character");
        return Err((Code::BadRecord, text));
    }
    let texts: Vec<Box<str>> = filters.iter().map(Filter::as_str).map(Box::from).collect();
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    if bytes > CURSOR_FILTER_BYTES_MAX {
        let text =
            format!("a cursor's filters have {bytes} bytes together, at most {CURSOR_FILTER_BYTES_MAX} are kept");
        return Err((Code::TooManyFilters, text));
    }
    Ok(texts)
}

fn refusal(name: &str, Refused { code, detail }: Refused) -> Refusal {
    let text = match code {
        Code::TooManyCursors => format!("{detail} cursors are kept, cursors-max is reached"),
        Code::BadPosition => format!(
            "cursor {name:?}: {detail} is the limit: a commit moves on, and nothing can be wanted behind the next message; \
             cursors set moves back"
        ),
        Code::OtherFilters => {
            format!("cursor {name:?} was made with other filters; drop it first, or take another name")
        }
        code => format!("cursor {name:?}: {}", code.text()),
    };
    (code, (detail, 0), text)
}
