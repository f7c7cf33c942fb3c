//! A server that was taken over and does not know it: its sessions go on, writes of its that had landed may still become known
//! to it, no other lands. It finds out at the first write that did not, or when it asks.

use std::collections::BTreeSet;

use arioso_journal::{BatchNumber, Outcome};

use super::process::{Left, Process};
use super::queue::Event;
use super::{MS, World};
use crate::plan::Plant;
use crate::{Check, violated};

/// The server.
pub(super) struct Ghost {
    process: Process,
    /// Its writes that the newcomer found.
    landed: BTreeSet<BatchNumber>,
    /// Numbers of the newcomer begin here.
    theirs: u64,
    is_fenced: bool,
}

impl World {
    /// Another server takes the stream over.
    pub(super) fn taken_over(&mut self) -> Check {
        self.count();
        let process = self.process.take().expect("the server that is taken over is there");
        let found = process.take_over(self.chance.draw()).expect("only the journal in memory is taken over");
        let landed = process.flying_numbers().into_iter().filter(|number| found.is_durable(*number)).collect();
        self.counts.takeovers += 1;
        let (life, next) = (process.life, process.node.engine.lock().order().next_sequence());
        self.trace.note(self.now, format_args!("life {life} is taken over, landed: {landed:?}"), &[]);
        self.model.life_ended(next.0);
        self.left = Left::Memory(Some(Box::new(found)));
        self.boot(false)?;
        let theirs = self.process.as_ref().map_or(0, |process| process.node.engine.lock().order().next_sequence().0);
        self.ghost = Some(Ghost { process, landed, theirs, is_fenced: false });
        let at = self.now + self.chance.within(MS, 400 * MS);
        self.queue.push(at, Event::Fenced(life));
        Ok(())
    }

    pub(super) fn is_ghost(&self, life: u32) -> bool {
        self.ghost.as_ref().is_some_and(|ghost| ghost.process.life == life)
    }

    /// A write of it becomes known: it had landed, or never will.
    pub(super) fn ghost_knows(&mut self, number: BatchNumber) -> Check {
        let wall = self.wall();
        let Some(ghost) = self.ghost.as_mut().filter(|ghost| !ghost.is_fenced) else { return Ok(()) };
        let life = ghost.process.life;
        let lies = self.plant == Some(Plant::FencedAcknowledges) && self.chance.percent(50);
        if !ghost.landed.contains(&number) && !lies {
            return self.ghost_fenced(life);
        }
        ghost.process.complete(number, Outcome::Durable);
        let ended = ghost.process.finish(wall);
        let next = ghost.process.node.engine.lock().order().next_sequence().0;
        self.trace.note(self.now, format_args!("batch {number} is durable, life {life} is told"), &[]);
        if next > ghost.theirs {
            return violated(format!("life {life} gave {next}, the one that took over began at {}", ghost.theirs));
        }
        self.after_server();
        ended.map_err(|error| crate::Violation(format!("life {life}: {error}")))
    }

    /// It finds out.
    pub(super) fn ghost_fenced(&mut self, life: u32) -> Check {
        let Some(ghost) = self.ghost.as_mut().filter(|ghost| ghost.process.life == life && !ghost.is_fenced) else {
            return Ok(());
        };
        ghost.is_fenced = true;
        ghost.process.node.engine.lock().lose();
        self.trace.note(self.now, format_args!("life {life} is fenced"), &[]);
        let at = self.now + self.chance.within(MS, 20 * MS);
        self.queue.push(at, Event::Gone(life));
        self.after_server();
        Ok(())
    }

    /// It ends.
    pub(super) fn ghost_gone(&mut self, life: u32) -> Check {
        self.ghost = None;
        self.end_sessions(life);
        self.after_server();
        Ok(())
    }
}
