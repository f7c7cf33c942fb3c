//! The backend's contract, for an engine that gives it a thread of its own: `advance` runs the write where it is called.

use std::sync::Arc;

use arioso_disk::Access;
use arioso_store::Error as StoreError;
use arioso_store::segment::{KnownEnd, Scan, Scanned, SegmentHeader, segment_path};
use arioso_stream::Sequence;

use super::Local;
use crate::backend::{Backend, Completion, Damage, Replay, ReplayEnd, Room, Write};
use crate::entry::BatchNumber;
use crate::error::Error;

impl Backend for Local {
    fn replay(&mut self, from: Sequence, replay: &mut dyn Replay) -> Result<ReplayEnd, Error> {
        let segments = self.table.iter().filter(|info| info.last_sequence >= from.0);
        let segments: Vec<(u64, u64)> = segments.map(|info| (info.number, info.batches_end)).collect();
        for (number, end) in segments {
            self.replay_segment(number, end, from, replay)?;
        }
        Ok(ReplayEnd {
            newest_batch: (self.chain.batch > 0).then_some(BatchNumber(self.chain.batch)),
            next_sequence: Sequence(self.last_sequence + 1),
            timestamp_floor: self.timestamp,
            server_epoch: self.epoch,
        })
    }

    fn fails(&self) -> bool {
        // An error is the end: nothing is known of what was written.
        false
    }

    fn room(&self) -> Room {
        Local::room(self)
    }

    fn submit(&mut self, write: Write) {
        Local::submit(self, write);
    }

    fn advance(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        match self.take_write() {
            Some(job) => self.wrote(job.run(), out),
            None => Ok(()),
        }
    }

    fn confirm(&mut self) -> Result<(), Error> {
        // The lock on the directory is held.
        Ok(())
    }

    fn stop(&mut self, next: Sequence, timestamp: i64) -> Result<(), Error> {
        self.close(next.0, timestamp)
    }
}

impl Local {
    fn replay_segment(&self, number: u64, end: u64, from: Sequence, replay: &mut dyn Replay) -> Result<(), Error> {
        let path = segment_path(number);
        let file = self.disk.open(&path, Access::Read)?;
        let info = self.table.get(number).expect("the segment was listed");
        let header = SegmentHeader::load(&*file, self.identity.stream, number)?
            .map_err(|bad| StoreError::part(&path, 0, bad))?;
        // Where it ends is known; which batch that is only matters if the end is damaged.
        let known = info.trailer.as_ref().map(|trailer| KnownEnd::of_trailer(trailer));
        let known = known.unwrap_or(KnownEnd { end, batch: 0, checksum: 0, last_sequence: info.last_sequence });
        let mut scan = Scan::new(Arc::clone(&file), &header, Some(known))?;
        loop {
            let before = scan.chain().batch;
            match scan.step()? {
                Scanned::Batch(header, records) if header.last_sequence() >= from.0 => {
                    replay.batch(header.bytes(), records)?;
                }
                Scanned::Batch(..) => {}
                Scanned::Damage(damage) => {
                    let (place, bytes) = (format!("{} at {}", damage.file, damage.offset), damage.bytes);
                    let batches = Some(before + 1..=scan.chain().batch);
                    replay.damage(Damage { place, batches, bytes })?;
                }
                Scanned::End(_) => return Ok(()),
            }
        }
    }
}
