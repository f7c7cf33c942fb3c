//! Conditions: what the newest matching message must be, judged when a message is numbered, and again when what a refusal
//! rested on became void.

use std::collections::HashMap;

use arioso_journal::{Judgement, Rejudge, Ticket};
use arioso_stream::filter::Filter;
use arioso_stream::names::NodeId;
use arioso_stream::order::{Verdict, VerdictKind};
use arioso_stream::topic::TopicId;
use arioso_stream::{Records, Sequence};
use arioso_wire::Code;

use super::{ClientPublish, Engine, some};

/// Subtrees kept in mind at the same time.
const WATCHED_MAX: usize = 1_024;

/// A condition that did not hold.
pub(super) struct Refusal {
    wanted: Sequence,
    filter: Filter,
    /// The newest message then.
    rests_on: Sequence,
}

/// The newest message of subtrees that conditions ask for, by their node: kept up with what is stored, forgotten when anything
/// is taken back.
#[derive(Default)]
pub(super) struct Watched {
    newest: HashMap<u32, Sequence>,
}

impl Watched {
    fn insert(&mut self, node: u32, newest: Sequence) {
        if self.newest.len() >= WATCHED_MAX {
            self.newest.clear();
        }
        self.newest.insert(node, newest);
    }

    /// Something was taken back.
    pub(super) fn clear(&mut self) {
        self.newest.clear();
    }
}

/// The path above a subtree filter's `**`, if that is its only wildcard.
fn subtree_of(filter: &str) -> Option<&str> {
    filter.strip_suffix("/**").filter(|path| !path.split('/').any(|level| level == "*"))
}

impl Engine {
    /// Voids what failed, judges again what rested on it, and lets out what may leave.
    pub(super) fn settle_accounts(&mut self, now: i64) {
        loop {
            while let Some(set) = self.ledger.take_void_request() {
                self.void(now, &set);
            }
            // What is withdrawn takes back more: one at a time.
            let Some(rejudge) = self.ledger.next_rejudge() else { break };
            let judgement = self.judge_again(&rejudge);
            self.ledger.judged(rejudge.ticket, judgement);
        }
        self.forget_refusals();
        self.dispatch();
    }

    /// What the verdict on a condition rests on; an error is the newest matching sequence when it fails. A retry is not judged
    /// again: it gets its original answer.
    pub(super) fn judge_condition(&mut self, publish: &ClientPublish<'_>) -> Result<Option<Sequence>, Sequence> {
        let Some((wanted, filter)) = &publish.condition else { return Ok(None) };
        if self.order.due(publish.publisher, publish.epoch) != Ok(publish.first) {
            return Ok(None);
        }
        let newest = self.newest(filter);
        if newest == *wanted { Ok(some(newest)) } else { Err(newest) }
    }

    /// The newest sequence that matches. Of a subtree it costs the topics below when it is first asked for, then as much as what
    /// is published below it.
    pub fn newest(&mut self, filter: &Filter) -> Sequence {
        let names = self.names.read();
        if filter.is_exact() {
            return names.get(filter.as_str()).map_or(Sequence::ZERO, |id| self.order.topic(id.0).last);
        }
        let node = match subtree_of(filter.as_str()).map(|path| names.find(path)) {
            _ if filter.is_everything() => Some(NodeId::ROOT.0),
            // Nothing was named below it yet.
            Some(None) => return Sequence::ZERO,
            Some(Some(node)) => Some(node.0),
            None => None,
        };
        if let Some(newest) = node.and_then(|node| self.watched.newest.get(&node)) {
            return *newest;
        }
        let mut newest = Sequence::ZERO;
        names.visit(filter, |id| newest = newest.max(self.order.topic(id.0).last));
        if let Some(node) = node {
            self.watched.insert(node, newest);
        }
        newest
    }

    /// What was stored is the newest of the subtrees above it that conditions ask for.
    pub(super) fn watch_stored(&mut self, publish: &ClientPublish<'_>, verdicts: &[Verdict]) {
        if self.watched.newest.is_empty() {
            return;
        }
        let Some(Verdict { messages, kind: VerdictKind::Stored { first, .. }, .. }) = verdicts.last() else { return };
        let names = self.names.read();
        let before = (publish.messages - messages) as usize;
        let stored = Records::new(publish.records).map_while(Result::ok).skip(before);
        for (at, record) in stored.enumerate() {
            let sequence = Sequence(first.0 + at as u64);
            let mut node = names.node(TopicId(publish.topics[record.topic() as usize]));
            while let Some(above) = node {
                if let Some(newest) = self.watched.newest.get_mut(&above.0) {
                    *newest = sequence;
                }
                node = names.parent(above);
            }
        }
    }

    /// Remembers a refused condition as long as what it was judged on may become void.
    pub(super) fn note_refusal(&mut self, ticket: Ticket, publish: &ClientPublish<'_>, newest: Sequence) {
        let Some((wanted, filter)) = publish.condition.as_ref().filter(|_| self.may_void) else { return };
        if newest > self.ledger.settled_to() {
            let refusal = Refusal { wanted: *wanted, filter: filter.clone(), rests_on: newest };
            self.refusals.insert(ticket, refusal);
        }
    }

    /// What rests on something settled is not judged again.
    pub(super) fn forget_refusals(&mut self) {
        if !self.refusals.is_empty() {
            let settled_to = self.ledger.settled_to();
            self.refusals.retain(|_, refusal| refusal.rests_on > settled_to);
        }
    }

    /// What a refusal rested on is void. A condition that holds now is answered `reopen`: its publisher sends the message again,
    /// and what it sent behind it, in its order; so is whatever may have rested on nothing but a proof that this server is the
    /// newest. Any other publisher sequence was consumed without a message, or its original was voided: both are `not stored`.
    pub(super) fn judge_again(&mut self, rejudge: &Rejudge) -> Judgement {
        let Some(mut refusal) = self.refusals.remove(&rejudge.ticket) else {
            if self.proof.is_wanted() {
                return Judgement::Withdrawn;
            }
            return Judgement::Answer { code: Code::NotStored.number(), detail: 0, conditioned_on: None };
        };
        let newest = self.newest(&refusal.filter);
        if newest == refusal.wanted {
            return Judgement::Withdrawn;
        }
        refusal.rests_on = newest;
        if newest > self.ledger.settled_to() {
            self.refusals.insert(rejudge.ticket, refusal);
        }
        let code = Code::ConditionFailed.number();
        Judgement::Answer { code, detail: newest.0, conditioned_on: some(newest) }
    }
}
