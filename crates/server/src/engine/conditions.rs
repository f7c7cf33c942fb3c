//! Conditions: what the newest matching message must be, judged when a message is numbered, and again when what a refusal
//! rested on became void.

use arioso_journal::{Judgement, Rejudge};
use arioso_stream::Sequence;
use arioso_stream::filter::Filter;
use arioso_wire::Code;

use super::{ClientPublish, Engine, some};

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

    /// What a refusal rested on is void. Whatever it was, its publisher sequence was consumed without a message, or its
    /// original was voided: both are `not stored`.
    pub(super) fn judge_again(&mut self, _: &Rejudge) -> Judgement {
        Judgement::Answer { code: Code::NotStored.number(), detail: 0, conditioned_on: None }
    }
}
