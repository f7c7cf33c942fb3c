//! The steps that read: from the tip, from disk, from a mark, everything, and the files themselves.

use std::time::Instant;

use arioso::{Begin, Bus, Sequence, Subscription};
use arioso_disk::RealDisk;
use arioso_store::inspect::{Finding, inspect};

use super::Demo;
use super::say::{bytes, count, rate, time};
use super::table::{Checked, Reading};
use crate::fail::{Done, Failure};
use crate::progress::Progress;

/// One of the counts a bus keeps about itself.
pub fn counted(bus: &Bus, name: &str) -> u64 {
    let counts = bus.counts().unwrap_or_default();
    counts.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
}

fn read_from_disk(bus: &Bus) -> u64 {
    counted(bus, "arioso_history_read_bytes_total")
}

impl Demo {
    /// Step: a subtree of what is still in memory.
    pub fn recover_from_tip(&mut self, bus: &Bus) -> Done {
        self.say.step("Recover a subtree from memory")?;
        let status = bus.status().map_err(Failure::new)?;
        let filter = self.plan.slice.filter();
        self.say.line(&format!(
            "The tip holds the newest {} of the stream, from number {} on, with an index by topic.",
            bytes(status.tip_bytes),
            count(status.tip_first.0)
        ))?;
        let from_disk = read_from_disk(bus);
        let began = Instant::now();
        let mut checked = Checked::new(Reading::Tip);
        let subscription = bus.subscribe([&*filter], Begin::Sequence(status.tip_first), true).map_err(Failure::new)?;
        self.drain(subscription, &mut checked, u64::MAX)?;
        let took = began.elapsed();
        let (wanted, _) = self.table().slice(status.tip_first);
        let all = self.table().len();
        self.say.line(&format!(
            "{filter}: {} of {} messages, {}, in {}.",
            count(checked.messages),
            count(all),
            bytes(checked.bytes),
            time(took)
        ))?;
        self.say.check_none(checked.problem(), "tip: in order, once, byte for byte the files")?;
        self.say.check(checked.messages == wanted, &format!("tip: all {} messages of the subtree", count(wanted)))?;
        self.say.check(read_from_disk(bus) == from_disk, "tip: not a byte was read from disk")?;
        Ok(())
    }

    /// Step: the same subtree, all of it, most of it from disk.
    pub fn recover_from_disk(&mut self, bus: &Bus) -> Done {
        self.say.step("Recover the subtree from disk")?;
        let filter = self.plan.slice.filter();
        let from_disk = read_from_disk(bus);
        let tip_before = bus.status().map_err(Failure::new)?.tip_first;
        let began = Instant::now();
        let mut checked = Checked::new(Reading::Disk);
        let subscription = bus.subscribe([&*filter], Begin::Start, true).map_err(Failure::new)?;
        self.drain(subscription, &mut checked, u64::MAX)?;
        let took = began.elapsed();
        let read = read_from_disk(bus) - from_disk;
        let (wanted, wanted_bytes) = self.table().slice(Sequence(0));
        let (_, all_bytes) = self.table().totals();
        self.say.line(&format!(
            "{filter}: {} messages, {}, in {}; {} were read from disk for it, of {} that were published.",
            count(checked.messages),
            bytes(checked.bytes),
            time(took),
            bytes(read),
            bytes(all_bytes)
        ))?;
        self.say.check_none(checked.problem(), "disk: in order, once, byte for byte the files")?;
        let complete = checked.messages == wanted && checked.bytes == wanted_bytes;
        self.say.check(
            complete,
            &format!("disk: all {} messages of the subtree, also those of before the kill", count(wanted)),
        )?;
        // The tip is refilled in the background: what it ever held of the subtree need not be read.
        let tip_first = tip_before.min(bus.status().map_err(Failure::new)?.tip_first);
        let (in_tip, _) = self.table().slice(tip_first);
        if in_tip < wanted {
            return Ok(self.say.check(read > 0, "disk: it was read from disk")?);
        }
        self.say.line("All of it fits the smallest tip there is: nothing had to be read. A larger tree shows more.")?;
        Ok(())
    }

    /// Step: a subscription is dropped half way and goes on at its last mark.
    pub fn resume(&mut self, bus: &Bus) -> Done {
        self.say.step("Leave, and resume at a mark")?;
        let filter = self.plan.slice.filter();
        let (wanted, _) = self.table().slice(Sequence(0));
        let mut checked = Checked::new(Reading::Resumed);
        let subscription = bus.subscribe([&*filter], Begin::Start, false).map_err(Failure::new)?;
        let mark = self.drain(subscription, &mut checked, wanted / 2)?;
        let before = checked.messages;
        let next = Sequence(mark.0 + 1);
        let subscription = bus.subscribe([&*filter], Begin::Sequence(next), true).map_err(Failure::new)?;
        self.drain(subscription, &mut checked, u64::MAX)?;
        self.say.line(&format!(
            "Left after {} messages with the mark \"all through {} is done\"; resumed at {}, {} more came.",
            count(before),
            count(mark.0),
            count(next.0),
            count(checked.messages - before)
        ))?;
        self.say.check_none(checked.problem(), "resumed: in order, nothing twice")?;
        self.say
            .check(checked.messages == wanted, &format!("resumed: all {} messages, none left out", count(wanted)))?;
        Ok(())
    }

    /// Step: everything, held against every file.
    pub fn read_whole(&mut self, bus: &Bus) -> Done {
        self.say.step("Read everything, and hold every byte against the files")?;
        let began = Instant::now();
        let mut checked = Checked::new(Reading::Whole);
        let subscription = bus.subscribe(["files/**"], Begin::Start, true).map_err(Failure::new)?;
        self.drain(subscription, &mut checked, u64::MAX)?;
        let took = began.elapsed();
        let files = self.table().len();
        let seen = self.table().seen(Reading::Whole);
        let (acknowledged, all_bytes) = self.table().totals();
        self.say.line(&format!(
            "{} messages, {}, in {}: {}/s, {}/s, hashed and compared on the way.",
            count(checked.messages),
            bytes(checked.bytes),
            time(took),
            count(rate(checked.messages, took)),
            bytes(rate(checked.bytes, took))
        ))?;
        self.say.check_none(
            checked.problem(),
            "everything: in one order, each once, byte for byte the files, where it was acknowledged",
        )?;
        let lost = files - seen;
        self.say
            .check(lost == 0 && acknowledged == files, &format!("everything: {} files, none lost", count(files)))?;
        self.say.check(checked.bytes == all_bytes, &format!("everything: {} bytes", count(all_bytes)))?;
        let mut listed = (0u64, 0u64);
        let row = |row: arioso::TopicInfo<'_>| listed = (listed.0 + 1, listed.1 + row.messages);
        bus.topics("files/**", row).map_err(Failure::new)?;
        self.say
            .check(listed == (files, files), &format!("the list of topics has {}, a message each", count(files)))?;
        Ok(())
    }

    /// Step: the directory, closed, file by file.
    pub fn inspect(&mut self) -> Done {
        self.say.step("Inspect the files")?;
        let began = Instant::now();
        let disk = RealDisk::open(self.home.path()).map_err(Failure::new)?;
        let _held = disk.lock_unchanged("lock").map_err(Failure::new)?;
        let (mut sealed, mut wrong) = (0u64, None);
        let totals = inspect(&disk, &mut |finding| match finding {
            Finding::Segment(row) if row.state == arioso_store::inspect::State::Sealed => sealed += 1,
            Finding::Damage(damage) => wrong = wrong.take().or(Some(damage.to_string())),
            Finding::Repairable { file, what } => wrong = wrong.take().or(Some(format!("{file}: {what}"))),
            _ => {}
        });
        let totals = totals.map_err(Failure::new)?;
        self.say.line(&format!(
            "{} segments ({} sealed), {} batches, {} messages: every checksum computed again in {}.",
            count(totals.segments),
            count(sealed),
            count(totals.batches),
            count(totals.messages),
            time(began.elapsed())
        ))?;
        self.say.check_none(wrong, "files: every checksum holds, nothing is missing")?;
        self.say.check(totals.clean, "files: the last stop was clean")?;
        // The one message that ended the live subscription is in the stream too.
        let complete = totals.messages == self.table().len() + 1;
        self.say.check(complete, "files: as many messages as were published")?;
        Ok(())
    }

    /// Takes what a subscription delivers until its end, or until so many messages; gives the last mark.
    fn drain(
        &mut self,
        mut subscription: Subscription,
        checked: &mut Checked,
        enough: u64,
    ) -> Result<Sequence, Failure> {
        let mut progress = Progress::new("reading", None);
        let mut mark = Sequence(0);
        while checked.messages < enough
            && let Some(batch) = subscription.next_batch().map_err(Failure::new)?
        {
            for message in batch.messages() {
                checked.message(&mut self.table(), &message.map_err(Failure::new)?);
            }
            mark = batch.through();
            progress.set(checked.messages);
        }
        Ok(mark)
    }
}
