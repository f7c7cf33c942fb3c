//! What goes wrong, how lives of the server end, and how they begin.

use arioso_disk::Operation;

use super::process::{Left, Process};
use super::queue::Event;
use super::{MS, World};
use crate::plan::Fault;
use crate::{Check, Violation};

impl World {
    /// Something goes wrong, unless the server is not there: then it does a little later.
    pub(super) fn fault(&mut self, fault: Fault) -> Check {
        let ready = self.process.as_ref().is_some_and(|process| !process.stopping && !process.lost);
        if !ready {
            self.queue.push(self.now + 30 * MS, Event::Fault(fault));
            return Ok(());
        }
        if fault == Fault::Takeover && self.ghost.is_some() {
            self.queue.push(self.now + 30 * MS, Event::Fault(fault));
            return Ok(());
        }
        self.faults_open -= 1;
        self.trace.note(self.now, format_args!("fault {fault:?}"), &[]);
        match fault {
            Fault::Kill => self.die(false),
            Fault::Power => self.die(true),
            Fault::PowerInCall => {
                if let Left::Disk(disk) = &self.left {
                    disk.crash_at_call(disk.counts().all() + 1 + self.chance.below(60));
                }
                Ok(())
            }
            Fault::Disk => {
                let operation = self.chance.pick(&[Operation::Write, Operation::SyncData, Operation::SyncAll]);
                if let Left::Disk(disk) = &self.left {
                    disk.fail(operation, 1 + self.chance.below(4));
                }
                Ok(())
            }
            Fault::Full => {
                if let Left::Disk(disk) = &self.left {
                    disk.set_capacity(0);
                }
                let at = self.now + self.chance.within(100 * MS, 2_000 * MS);
                self.queue.push(at, Event::Room);
                Ok(())
            }
            Fault::Stop => self.stop(),
            Fault::Takeover => self.taken_over(),
            Fault::Lost => {
                if let Some(process) = &mut self.process {
                    process.lose();
                }
                let life = self.life;
                self.finish_round(life)
            }
        }
    }

    /// The disk has room again.
    pub(super) fn room(&mut self) -> Check {
        if let Left::Disk(disk) = &self.left {
            disk.set_capacity(super::process::DISK_BYTES);
        }
        Ok(())
    }

    /// The server is asked to stop cleanly.
    fn stop(&mut self) -> Check {
        let Some(process) = &mut self.process else { return Ok(()) };
        process.stopping = true;
        for number in self.links_of(self.life) {
            let Some(link) = self.links.get_mut(&number) else { continue };
            if let Some(session) = &mut link.session {
                session.shut_down(&mut link.out);
                link.farewell = Some(self.now + super::link::FAREWELL_NS);
            }
            self.turn_soon(number, self.now);
        }
        self.log_soon(false);
        Ok(())
    }

    /// Everything is written: the mark of a clean stop, then the end.
    pub(super) fn close(&mut self) -> Check {
        let process = self.end_life();
        self.trace.note(self.now, format_args!("stopped cleanly"), &[]);
        let clean = process.close(&mut self.left)?;
        if self.is_crashed() {
            self.lose_power();
            return self.boot_later(false);
        }
        self.outlive();
        self.boot_later(clean)
    }

    /// The process of this life ends.
    pub(super) fn die_of(&mut self, life: u32, power: bool) -> Check {
        if life == self.life && self.process.is_some() { self.die(power) } else { Ok(()) }
    }

    /// The process ends, or the whole machine.
    pub(super) fn die(&mut self, power: bool) -> Check {
        let process = self.end_life();
        self.trace.note(self.now, format_args!("{}", if power { "power is lost" } else { "killed" }), &[]);
        process.abandon(&mut self.left, self.chance.draw());
        if power {
            self.lose_power();
        } else {
            self.outlive();
        }
        self.boot_later(false)
    }

    fn boot_later(&mut self, clean: bool) -> Check {
        let pause = if self.chance.percent(20) { 2_000 * MS } else { 60 * MS };
        let at = self.now + self.chance.within(MS, pause);
        self.queue.push(at, Event::Boot(clean));
        Ok(())
    }

    /// Takes the process away; its connections end.
    fn end_life(&mut self) -> Process {
        self.count();
        let process = self.process.take().expect("a life that ends was there");
        let next = process.node.engine.lock().order().next_sequence();
        self.model.life_ended(next.0);
        self.end_sessions(self.life);
        process
    }

    fn links_of(&self, life: u32) -> Vec<u32> {
        self.links.iter().filter(|(_, link)| link.life == life).map(|(number, _)| *number).collect()
    }

    /// The connections of a life end.
    pub(super) fn end_sessions(&mut self, life: u32) {
        let silent = self.chance.percent(20);
        for number in self.links_of(life) {
            if silent && let Some(link) = self.links.get_mut(&number) {
                // The machine is gone without a word.
                link.down.kill();
            }
            self.end_session(number);
        }
    }

    pub(super) fn is_crashed(&self) -> bool {
        matches!(&self.left, Left::Disk(disk) if disk.is_crashed())
    }

    /// What is left when the machine stops.
    pub(super) fn lose_power(&mut self) {
        self.counts.crashes += 1;
        let seed = self.chance.draw();
        if let Left::Disk(disk) = &mut self.left {
            *disk = disk.crash(seed);
        }
    }

    /// What is left when the process ends and the machine goes on.
    pub(super) fn outlive(&mut self) {
        if let Left::Disk(disk) = &mut self.left {
            *disk = disk.kill();
        }
    }

    /// The server starts, and what it kept is looked at. A crash on the way: once more.
    pub(super) fn boot(&mut self, clean: bool) -> Check {
        let mut clean = clean;
        loop {
            self.life += 1;
            self.counts.lives += 1;
            (self.mark_due, self.retry_due) = (false, false);
            let mut chance = self.chance.fork();
            let wall = self.wall();
            let opened = Process::open(self.life, &self.plan, self.plant, &mut self.left, &mut chance, wall)?;
            self.counts.crashes += u64::from(opened.crashes);
            let next = opened.process.node.engine.lock().order().next_sequence();
            let what = (self.life, next, opened.crashes);
            self.trace.note(
                self.now,
                format_args!("life {} begins at {} after {} crashes", what.0, what.1, what.2),
                &[],
            );
            self.model.life_began(next.0, clean && opened.crashes == 0)?;
            self.process = Some(opened.process);
            match self.read_back(false) {
                Err(_) if self.is_crashed() => {
                    let process = self.end_life();
                    process.abandon(&mut self.left, self.chance.draw());
                    self.lose_power();
                    clean = false;
                }
                Err(Violation(what)) => {
                    return crate::violated(format!("after the start of life {}: {what}", self.life));
                }
                Ok(()) => break,
            }
        }
        self.after_server();
        Ok(())
    }
}
