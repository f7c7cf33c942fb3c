//! Answers that depend on being the newest server, where another one may take the stream over: they wait for a commit that
//! began after the request came, which a server that was taken over does not get.
//!
//! ```text
//! retry, refusal ──▶ answer, resting on ──▶ a record that says nothing ──▶ its batch is durable ──▶ the answer leaves
//! ```

use arioso_journal::{BatchNumber, Entry, Group, Kind, Level, NO_PUBLISHER};
use arioso_stream::Sequence;
use arioso_wire::Code;

use super::Engine;

/// A void record without ranges: it takes nothing back (docs/format.md section 3.3).
const NOTHING: [u8; 16] = [1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Whether answers are proven, and the proof that waits to be written.
#[derive(Debug, Default)]
pub(super) struct Proof {
    wanted: bool,
    /// Its sequence, and what it rests on.
    open: Option<(Sequence, Option<Sequence>)>,
}

impl Proof {
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// What waited is on its way: a commit that begins later is another one.
    pub(super) fn taken(&mut self) {
        self.open = None;
    }
}

impl Engine {
    /// Another server may take the stream over.
    pub fn prove_answers(&mut self) {
        self.proof.wanted = true;
    }

    /// What an answer rests on so that it leaves only while this server is the newest.
    pub(super) fn proven(&mut self, kind: Kind, on: Option<Sequence>) -> Option<Sequence> {
        let Kind::Answer { code, .. } = kind else { return on };
        let is_of_the_moment = code == Code::Busy.number() || code == Code::DiskFull.number();
        if !self.proof.wanted || is_of_the_moment {
            return on;
        }
        let on = on.filter(|on| *on > self.ledger.settled_to());
        if let Some((sequence, rests_on)) = self.proof.open
            && (on.is_none() || on == rests_on)
        {
            return Some(sequence);
        }
        let (first, batch) = self.order.control(self.order.timestamp(), &NOTHING, 0);
        self.enter(Entry {
            kind: Kind::Control,
            publisher: NO_PUBLISHER,
            epoch: 0,
            first_publisher_sequence: 0,
            messages: 0,
            first,
            batch: BatchNumber(batch),
            level: Level::Durable,
            group: Group::OWN,
            conditioned_on: on,
            // Session 0 does not exist: the reply goes nowhere.
            tag: 0,
        });
        self.proof.open = Some((first, on));
        Some(first)
    }
}
