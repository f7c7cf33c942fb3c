//! Writing a store: records come in the order of the stream and leave in groups, by topic. It holds one group.

use std::sync::Arc;

use arioso_disk::{Disk, File};

use super::block::{BLOCK_BYTES, BLOCK_BYTES_SHARED, BlockBuilder};
use super::runs::{Run, RunsWriter};
use super::store::{Group, StoreHeader, StoreTrailer, encode_groups};
use super::store_path;
use crate::Result;
use crate::batch::PAGE_BYTES;
use crate::checkpoint::create_anew;
use crate::segment::seal::{PartsWriter, entry};
use crate::segment::{PartPlace, TopicSum};

/// A topic as the store's directory lists it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its id.
    pub topic: u32,
    /// Its figures in the span.
    pub sum: TopicSum,
}

/// A record in the group being gathered: its topic's row, its sequence, where it lies.
#[derive(Clone, Copy, Debug)]
struct Gathered {
    row: u32,
    at: u32,
    bytes: u32,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct RunOf {
    row: u32,
    run: Run,
}

/// Writes one store. Topics are told by their row: their place in the order of names over the whole span.
#[derive(Debug)]
pub struct StoreWriter {
    file: Arc<dyn File>,
    header: StoreHeader,
    group_bytes: usize,
    at: u64,
    arena: Vec<u8>,
    gathered: Vec<Gathered>,
    groups: Vec<Group>,
    runs: Vec<RunOf>,
    messages: u64,
    bytes: u64,
}

/// A group on its way out.
struct GroupBuilder {
    out: Vec<u8>,
    block: BlockBuilder,
    at: u64,
    group: u32,
    blocks: u32,
    /// Topics that end in the block being built: row, first block.
    ended: Vec<(u32, usize)>,
    /// The block being built begins here.
    begun: usize,
}

impl GroupBuilder {
    fn close(&mut self, runs: &mut Vec<RunOf>) {
        if self.block.is_empty() {
            return;
        }
        self.block.finish(self.at + self.begun as u64, &mut self.out);
        self.blocks += 1;
        let end = self.out.len();
        for (row, first) in self.ended.drain(..) {
            let run = Run { group: self.group, offset: first as u32, bytes: (end - first) as u32 };
            runs.push(RunOf { row, run });
        }
        self.begun = end;
    }
}

impl StoreWriter {
    /// Makes the file, in place of one that a crash may have left.
    pub fn create(disk: &dyn Disk, header: StoreHeader, group_bytes: usize) -> Result<StoreWriter> {
        let file = create_anew(disk, &store_path(header.span, header.store))?;
        file.write_at(&header.encode(), 0)?;
        Ok(StoreWriter {
            file,
            header,
            group_bytes,
            at: PAGE_BYTES as u64,
            arena: Vec::new(),
            gathered: Vec::new(),
            groups: Vec::new(),
            runs: Vec::new(),
            messages: 0,
            bytes: 0,
        })
    }

    /// Adds a record, whose sequence is above every one before. Gives the bytes that went to the disk by it.
    pub fn push(&mut self, row: u32, sequence: u64, record: &[u8]) -> Result<u64> {
        let mut wrote = 0;
        if !self.arena.is_empty() && self.arena.len() + record.len() > self.group_bytes {
            wrote = self.flush()?;
        }
        let (at, bytes) = (self.arena.len() as u32, record.len() as u32);
        self.arena.extend_from_slice(record);
        self.gathered.push(Gathered { row, at, bytes, sequence });
        Ok(wrote)
    }

    /// Writes the group gathered so far.
    fn flush(&mut self) -> Result<u64> {
        let (Some(first), Some(last)) = (self.gathered.first(), self.gathered.last()) else { return Ok(0) };
        let (first, last) = (first.sequence, last.sequence);
        // Stable: within a topic the order of the stream stays.
        self.gathered.sort_by_key(|record| record.row);
        let mut builder = GroupBuilder {
            out: Vec::with_capacity(self.arena.len() / 2),
            block: BlockBuilder::default(),
            at: self.at,
            group: self.groups.len() as u32,
            blocks: 0,
            ended: Vec::new(),
            begun: 0,
        };
        for run in self.gathered.chunk_by(|a, b| a.row == b.row) {
            let bytes: usize = run.iter().map(|record| record.bytes as usize).sum();
            if builder.block.len() >= BLOCK_BYTES_SHARED || bytes >= BLOCK_BYTES_SHARED {
                builder.close(&mut self.runs);
            }
            let first = builder.begun;
            for record in run {
                let bytes = &self.arena[record.at as usize..][..record.bytes as usize];
                if !builder.block.is_empty() && builder.block.len() + bytes.len() > BLOCK_BYTES {
                    builder.close(&mut self.runs);
                }
                builder.block.push(record.sequence, bytes);
            }
            builder.ended.push((run[0].row, first));
        }
        builder.close(&mut self.runs);
        let GroupBuilder { out, blocks, .. } = builder;
        self.file.write_at(&out, self.at)?;
        self.groups.push(Group {
            offset: self.at,
            bytes: out.len() as u64,
            first,
            last,
            records_bytes: self.arena.len() as u64,
            records: self.gathered.len() as u32,
            blocks,
        });
        self.at += out.len() as u64;
        self.messages += self.gathered.len() as u64;
        self.bytes += self.arena.len() as u64;
        self.arena.clear();
        self.gathered.clear();
        Ok(out.len() as u64)
    }

    /// Writes what is left, the parts and the trailer, and syncs. `describe` tells a row; gives each row's place in the
    /// runs part, ascending, and the bytes written.
    pub fn finish<'n>(mut self, describe: &dyn Fn(u32) -> Row<'n>) -> Result<(Vec<(u32, u64)>, u64)> {
        self.flush()?;
        (self.arena, self.gathered) = (Vec::new(), Vec::new());
        // Stable: groups ascend.
        self.runs.sort_by_key(|run| run.row);
        let mut places = Vec::new();
        let groups_end = self.at;
        let mut writer = PartsWriter::new(&*self.file, groups_end);
        let mut pages = RunsWriter::default();
        let mut of_topic = Vec::new();
        let runs_at = writer.offset();
        for runs in self.runs.chunk_by(|a, b| a.row == b.row) {
            of_topic.clear();
            of_topic.extend(runs.iter().map(|run| run.run));
            let place = pages.push(&of_topic, &mut |page| writer.write(page))?;
            places.push((runs[0].row, place));
        }
        let runs_bytes = pages.finish(&mut |page| writer.write(page))?;
        let runs = PartPlace { offset: runs_at, bytes: runs_bytes };
        writer.align(8)?;
        let groups = writer.part(&encode_groups(&self.groups))?;
        let directory = writer.directory(&mut |directory| {
            places.iter().try_for_each(|(row, place)| {
                let row = describe(*row);
                directory.push(entry(row.name, row.topic, &TopicSum { last_place: *place, ..row.sum }))
            })
        })?;
        let trailer = StoreTrailer {
            span: self.header.span,
            store: self.header.store,
            groups_count: self.groups.len() as u32,
            messages: self.messages,
            bytes: self.bytes,
            runs,
            groups,
            directory,
            groups_end,
        };
        writer.write(&trailer.encode())?;
        let end = writer.finish()?;
        self.file.sync_all()?;
        Ok((places, end))
    }
}
