//! Conditions: what the newest matching message must be, judged when a message is numbered, and again when what a refusal
//! rested on became void.

use arioso_journal::{Judgement, Rejudge, Ticket};
use arioso_stream::Sequence;
use arioso_stream::filter::Filter;
use arioso_wire::Code;

use super::{ClientPublish, Engine, some};

/// A condition that did not hold.
pub(super) struct Refusal {
    wanted: Sequence,
    filter: Filter,
    /// The newest message then.
    rests_on: Sequence,
}

impl Engine {
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

    /// The newest sequence that matches; costs the topics below a subtree.
    pub fn newest(&self, filter: &Filter) -> Sequence {
        let names = self.names.read();
        let mut newest = Sequence::ZERO;
        names.visit(filter, |id| newest = newest.max(self.order.topic(id.0).last));
        newest
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
    /// and what it sent behind it, in its order. Any other publisher sequence was consumed without a message, or its original
    /// was voided: both are `not stored`.
    pub(super) fn judge_again(&mut self, rejudge: &Rejudge) -> Judgement {
        let Some(mut refusal) = self.refusals.remove(&rejudge.ticket) else {
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
