//! Subscribing on a session: filters gathered from their pieces, begin positions, turns shared fairly, marks in time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arioso_stream::Sequence;
use arioso_stream::filter::{Filter, FilterSet};
use arioso_stream::record::Records;
use arioso_stream::selection::Selection;
use arioso_stream::tip::Slice;
use arioso_stream::topic::TopicId;
use arioso_wire::{
    Begin, CHANNEL_CONNECTION, Code, Ended, FilterPieces, Frame, ListWriter, MoreFilters, Names as NamesFrame,
    Subscribe, Subscribed,
};

use super::cursors::HeldCursors;
use super::{Read, Session, Ticket};
use crate::clock::Now;
use crate::history::Supplied;
use crate::mailbox::Mailbox;
use crate::metrics::{add, sub};
use crate::newest::Newest;
use crate::node::Node;
use crate::output::Output;
use crate::subscription::{Begins, Subscription, Turn};

/// Subscriptions of one session that may be at the newest of each topic at the same time: each holds 8 bytes a topic.
const NEWEST_MAX: usize = 4;

/// A session's subscriptions.
#[derive(Default)]
pub(super) struct Subscriptions {
    by_channel: BTreeMap<u16, Subscription>,
    /// Channels that want a turn, each once.
    runnable: VecDeque<u16>,
    /// Slices of recovery that may be read; none: as many as there is room for.
    granted: Option<u32>,
    pieces: BTreeMap<u16, FilterPieces>,
    pub cursors: HeldCursors,
    told: Told,
    /// Reads asked for.
    reads: u64,
}

/// Topics whose names were told on this connection: a bit each.
#[derive(Default)]
struct Told {
    bits: Vec<u64>,
    count: usize,
    name: String,
}

/// Why a subscription is refused: code, its details, in words.
pub(super) type Refusal = (Code, (u64, u64), String);

impl Session {
    pub(super) fn subscribe(
        &mut self,
        now: Now,
        channel: u16,
        subscribe: Subscribe,
        out: &mut Output,
    ) -> Result<(), (Code, String)> {
        let subscriptions = &mut self.subscriptions;
        let pending = subscriptions.pieces.contains_key(&channel) || subscriptions.cursors.is_opening(channel);
        if pending || subscriptions.by_channel.contains_key(&channel) {
            return Err((Code::BadFrame, format!("channel {channel} is a subscription already")));
        }
        let max = self.node.settings.subscriptions_max as usize;
        let waiting = subscriptions.pieces.len() + subscriptions.cursors.opening();
        if subscriptions.by_channel.len() + waiting >= max {
            let text = format!("subscriptions-max of {max} is reached on this connection");
            self.fail(channel, Code::TooManySubscriptions, (max as u64, 0), &text, out);
            return Ok(());
        }
        match FilterPieces::begin(subscribe) {
            Ok(pieces) if pieces.is_complete() => self.start(now, channel, pieces, out),
            Ok(pieces) => {
                self.subscriptions.pieces.insert(channel, pieces);
            }
            Err(code) => self.fail(channel, code, (0, 0), code.text(), out),
        }
        Ok(())
    }

    pub(super) fn more_filters(
        &mut self,
        now: Now,
        channel: u16,
        more: &MoreFilters,
        out: &mut Output,
    ) -> Result<(), (Code, String)> {
        let Some(mut pieces) = self.subscriptions.pieces.remove(&channel) else {
            // What was refused already may have had pieces under way.
            return Ok(());
        };
        match pieces.add(more) {
            Ok(()) if pieces.is_complete() => self.start(now, channel, pieces, out),
            Ok(()) => {
                self.subscriptions.pieces.insert(channel, pieces);
            }
            Err(code) => self.fail(channel, code, (0, 0), code.text(), out),
        }
        Ok(())
    }

    fn start(&mut self, now: Now, channel: u16, pieces: FilterPieces, out: &mut Output) {
        if let Err((code, detail, text)) = self.try_start(now, channel, pieces, out) {
            self.fail(channel, code, detail, &text, out);
        }
    }

    fn try_start(&mut self, now: Now, channel: u16, pieces: FilterPieces, out: &mut Output) -> Result<(), Refusal> {
        let refuse = |code: Code, text: String| (code, (0, 0), text);
        let (subscribe, texts) = pieces.into_parts();
        let node = &self.node;
        if subscribe.stream_id != 0 && subscribe.stream_id != node.identity.stream_id {
            let (wanted, have) = (subscribe.stream_id, node.identity.stream_id);
            let text = format!("the position is of stream {wanted:032x}, this is {have:032x}");
            return Err(refuse(Code::WrongStream, text));
        }
        let mut filters = FilterSet::new();
        for text in &texts {
            let filter = Filter::new(text).map_err(|bad| refuse(Code::BadFilter, bad.to_string()))?;
            filters.insert(filter).map_err(|bad| refuse(Code::TooManyFilters, bad.to_string()))?;
        }
        if filters.is_empty() {
            return Err(refuse(Code::BadFilter, "a subscription has at least one filter".into()));
        }
        if !subscribe.cursor.is_empty() {
            return self.open_cursor(now, channel, subscribe, filters);
        }
        self.begin(now.mono, channel, &subscribe, &filters, 0, out)
    }

    /// Begins a subscription of which everything is known.
    pub(super) fn begin(
        &mut self,
        now: i64,
        channel: u16,
        subscribe: &Subscribe,
        filters: &FilterSet,
        holder_epoch: u32,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let refuse = |code: Code, text: String| (code, (0, 0), text);
        let node = Arc::clone(&self.node);
        let at_newest = self.subscriptions.by_channel.values().filter(|other| other.is_at_newest()).count();
        if subscribe.begin == Begin::Last && at_newest >= NEWEST_MAX {
            return Err(refuse(Code::Busy, format!("{NEWEST_MAX} subscriptions are being given the newest messages")));
        }
        let heard = node.hub.lock().add(filters, Arc::clone(&self.mailbox), channel);
        let heard = heard.map_err(|bad| refuse(Code::TooManyFilters, bad.to_string()))?;
        let id = heard.0;
        let begins = match begins(&node, subscribe, filters, &self.mailbox) {
            Ok(begins) => begins,
            Err((code, text)) => {
                node.hub.lock().remove(id);
                return Err(refuse(code, text));
            }
        };
        let settled = node.engine.lock().settled_to();
        let subscribed = Subscribed {
            starts_at: begins.first,
            newest_settled: settled,
            first_kept: node.history.first_kept(),
            holder_epoch,
        };
        out.push(channel, &Frame::Subscribed(subscribed));
        let selection = Selection::new(filters, &node.names.read());
        let subscription = Subscription::new(channel, heard, selection, begins, now, &node);
        add(&node.counters.subscriptions, 1);
        self.subscriptions.by_channel.insert(channel, subscription);
        self.subscriptions.run(channel);
        Ok(())
    }
}

/// Where a subscription begins and ends.
pub(super) fn begins(
    node: &Node,
    subscribe: &Subscribe,
    filters: &FilterSet,
    mailbox: &Arc<Mailbox>,
) -> Result<Begins, (Code, String)> {
    let settled = node.engine.lock().settled_to();
    let (first, not_before) = match subscribe.begin {
        Begin::Start => (node.history.first_kept(), None),
        Begin::Live => (settled.next(), None),
        Begin::Sequence(sequence) if sequence.0 == 0 => (node.history.first_kept(), None),
        Begin::Sequence(sequence) => (sequence, None),
        Begin::Time(time) => (node.history.sequence_at(time), Some(time)),
        Begin::Last => (settled.next(), None),
    };
    let newest = (subscribe.begin == Begin::Last).then(|| Newest::find(node, filters, settled));
    Ok(Begins {
        first: newest.as_ref().map_or(first, Newest::next),
        not_before,
        newest,
        until: subscribe.until_end.then_some(settled),
        credit: subscribe.credit_bytes,
        filters: filters.iter().map(|filter| filter.as_str().into()).collect(),
        mailbox: Arc::clone(mailbox),
    })
}

impl Subscriptions {
    /// Channels whose subscriptions were woken.
    pub fn ready(&mut self, channels: &mut Vec<u16>) {
        for channel in channels.drain(..) {
            // While a read is under way its end wakes it.
            if self.by_channel.get(&channel).is_some_and(|subscription| !subscription.busy) {
                self.run(channel);
            }
        }
    }

    fn run(&mut self, channel: u16) {
        if let Some(subscription) = self.by_channel.get_mut(&channel)
            && !std::mem::replace(&mut subscription.queued, true)
        {
            self.runnable.push_back(channel);
        }
    }

    pub fn credit(&mut self, channel: u16, bytes: u64) {
        if let Some(subscription) = self.by_channel.get_mut(&channel) {
            subscription.add_credit(bytes);
            if !subscription.busy {
                self.run(channel);
            }
        }
    }

    pub fn go_on(&mut self, channel: u16, node: &Node, next: Sequence) {
        if let Some(subscription) = self.by_channel.get_mut(&channel) {
            subscription.go_on(node, next);
            subscription.awaits = None;
            subscription.busy = false;
            self.run(channel);
        }
    }

    pub fn supply(&mut self, ticket: Ticket, node: &Node, read: Result<Supplied, String>) {
        // It may have been ended while the disk was busy, and another one begun on its channel.
        let channel = ticket.channel;
        let waits = |subscription: &&mut Subscription| subscription.awaits == Some(ticket.number);
        if let Some(subscription) = self.by_channel.get_mut(&channel).filter(waits) {
            subscription.awaits = None;
            subscription.supply(node, read);
            subscription.busy = false;
            self.run(channel);
        }
    }

    pub fn unsubscribe(&mut self, channel: u16, node: &Node, out: &mut Output) {
        // Otherwise it ended by itself while this was under way, and that was told.
        if self.by_channel.contains_key(&channel) {
            self.end(channel, Code::Ok, node, out);
        } else if self.pieces.remove(&channel).is_some() || self.cursors.release(channel, node) {
            out.push(channel, &Frame::Ended(Ended { through: Sequence::ZERO, code: Code::Ok }));
        }
    }

    fn end(&mut self, channel: u16, code: Code, node: &Node, out: &mut Output) {
        if let Some(through) = self.remove(channel, node) {
            self.cursors.release(channel, node);
            out.push(channel, &Frame::Ended(Ended { through, code }));
        }
    }

    /// Takes a subscription off, if there is one; gives its last mark.
    pub fn remove(&mut self, channel: u16, node: &Node) -> Option<Sequence> {
        let subscription = self.by_channel.remove(&channel)?;
        self.runnable.retain(|other| *other != channel);
        node.hub.lock().remove(subscription.id);
        sub(&node.counters.subscriptions, 1);
        subscription.count_end(node);
        Some(subscription.through())
    }

    /// From now on a slice of recovery is read only when one was granted; live subscriptions need no grant.
    pub fn pace(&mut self) {
        self.granted = Some(0);
    }

    /// Whether slices of recovery are granted one by one.
    pub fn is_paced(&self) -> bool {
        self.granted.is_some()
    }

    /// One slice of recovery more.
    pub fn grant(&mut self) {
        self.granted = Some(1);
    }

    /// Gives turns while there is room for what they put out; true when one wants another turn.
    pub fn turn(&mut self, now: i64, node: &Node, out: &mut Output, reads: &mut Vec<Read>) -> bool {
        let mut turns = self.runnable.len();
        while turns > 0 && out.has_room() {
            turns -= 1;
            let Some(channel) = self.runnable.pop_front() else { break };
            let Some(subscription) = self.by_channel.get_mut(&channel) else { continue };
            if let Some(granted) = &mut self.granted
                && !subscription.is_live()
            {
                if *granted == 0 {
                    self.runnable.push_back(channel);
                    continue;
                }
                *granted -= 1;
            }
            subscription.queued = false;
            let told = &mut self.told;
            let turn = subscription.turn(now, node, out, &mut |out, slices| told.announce(node, out, slices));
            match turn {
                Turn::Again => {
                    subscription.queued = true;
                    self.runnable.push_back(channel);
                }
                Turn::Waits | Turn::NoCredit | Turn::Crowded => {}
                Turn::Reads(request) => {
                    subscription.busy = true;
                    self.reads += 1;
                    subscription.awaits = Some(self.reads);
                    reads.push(Read { ticket: Ticket { channel, number: self.reads }, request });
                }
                Turn::Trimmed => subscription.busy = true,
                Turn::Ended(code) => self.end(channel, code, node, out),
            }
        }
        !self.runnable.is_empty() && out.has_room()
    }

    /// When the next mark is due. Subscriptions that wait at the end are passed on then too.
    pub fn mark_due(&self) -> Option<i64> {
        self.by_channel.values().map(Subscription::mark_due).min()
    }

    /// Passes on what waits at the end, and sends the marks that are due.
    pub fn mark_all(&mut self, now: i64, node: &Node, out: &mut Output) {
        let settled = node.tip.settled_to();
        for (channel, subscription) in &mut self.by_channel {
            if now < subscription.mark_due() {
                continue;
            }
            // One without credit takes no turns.
            subscription.make_way(now, node);
            if subscription.owes_mark() {
                subscription.mark(now, out);
                continue;
            }
            if !subscription.busy && !subscription.queued && subscription.pass_unmatched(node) {
                subscription.mark(now, out);
                continue;
            }
            subscription.put_off_mark(now);
            let behind = subscription.through() < settled && !subscription.busy;
            if behind && !std::mem::replace(&mut subscription.queued, true) {
                self.runnable.push_back(*channel);
            }
        }
    }

    /// The session is over.
    pub fn clear(&mut self, node: &Node) {
        self.cursors.release_all(node);
        for subscription in std::mem::take(&mut self.by_channel).into_values() {
            node.hub.lock().remove(subscription.id);
            sub(&node.counters.subscriptions, 1);
            subscription.count_end(node);
        }
    }
}

impl Told {
    fn announce(&mut self, node: &Node, out: &mut Output, slices: &[Slice]) {
        let names = node.names.read();
        if self.count == names.len() {
            return;
        }
        let mut new: Vec<u32> = Vec::new();
        for slice in slices {
            for record in Records::new(&slice.bytes) {
                let topic = record.expect("a slice is whole records").topic();
                if self.set(topic) {
                    new.push(topic);
                }
            }
        }
        if new.is_empty() {
            return;
        }
        let mut writer = ListWriter::begin::<NamesFrame>(CHANNEL_CONNECTION, out.buffer());
        for topic in new {
            self.name.clear();
            let known = names.name_into(TopicId(topic), &mut self.name);
            assert!(known, "topic {topic} of a record has a name");
            writer.push(&(topic, self.name.as_str()));
        }
        writer.finish();
    }

    fn set(&mut self, topic: u32) -> bool {
        let (word, bit) = (topic as usize / 64, 1u64 << (topic % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.count += usize::from(new);
        new
    }
}
