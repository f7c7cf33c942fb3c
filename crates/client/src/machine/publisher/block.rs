//! Messages that travel in one frame, and how they are cut and joined.

use std::collections::VecDeque;

use arioso_stream::Record;
use arioso_wire::{AckLevel, Code, Condition, Reply};
use bytes::{Bytes, BytesMut};

use crate::options::{COPY_BYTES, JOIN_BYTES};

/// Consecutive messages that travel in one frame.
#[derive(Debug)]
pub(super) struct Block {
    /// Index of the first.
    pub(super) first: u64,
    pub(super) messages: u32,
    pub(super) level: AckLevel,
    pub(super) atomic: bool,
    pub(super) condition: Option<Box<Condition>>,
    pub(super) records: Bytes,
    /// An atomic batch answered in parts: how many messages, and the part that decides.
    pub(super) part: Option<(u32, Reply)>,
}

impl Block {
    /// Bytes of the first `messages` records.
    fn bytes_of(&self, messages: u32) -> usize {
        if messages >= self.messages {
            return self.records.len();
        }
        let mut bytes = 0;
        for _ in 0..messages {
            let record = Record::read(&self.records[bytes..]).expect("this client built it");
            bytes += record.bytes().len();
        }
        bytes
    }

    /// How many of the first messages have at most these bytes of records; at least one.
    pub(super) fn messages_within(&self, bytes_max: usize) -> u32 {
        let mut bytes = 0;
        let mut messages = 0;
        while messages < self.messages {
            let record = Record::read(&self.records[bytes..]).expect("this client built it");
            bytes += record.bytes().len();
            if bytes > bytes_max {
                break;
            }
            messages += 1;
        }
        messages.max(1)
    }

    /// Publisher sequences answered so far, of an atomic batch.
    pub(super) fn answered(&self) -> u32 {
        self.part.map_or(0, |(messages, _)| messages)
    }

    /// Notes a reply to some messages of an atomic batch; the first that is not ok speaks for all. Gives it when all are
    /// answered.
    pub(super) fn answer_part(&mut self, messages: u32, reply: Reply) -> Option<Reply> {
        let (before, decides) = self.part.unwrap_or((0, reply));
        let decides = match decides.code {
            Code::Ok if reply.code != Code::Ok => reply,
            _ => decides,
        };
        let answered = before + messages;
        self.part = (answered < self.messages).then_some((answered, decides));
        self.part.is_none().then_some(decides)
    }

    /// Takes the first messages off.
    pub(super) fn split_front(&mut self, messages: u32) -> Block {
        let bytes = self.bytes_of(messages);
        let front = Block {
            first: self.first,
            messages,
            level: self.level,
            atomic: self.atomic,
            condition: self.condition.take(),
            records: self.records.split_to(bytes),
            part: None,
        };
        self.first += u64::from(messages);
        self.messages -= messages;
        front
    }
}

/// Puts short neighbours together, so that what was refused message by message does not travel so.
#[derive(Default)]
pub(super) struct Joined {
    blocks: VecDeque<Block>,
    /// Records of the last block, while it grows.
    records: BytesMut,
}

impl Joined {
    pub(super) fn push(&mut self, block: Block) {
        let plain = |block: &Block| !block.atomic && block.condition.is_none();
        let joins = self.blocks.back().is_some_and(|last| {
            let short = block.records.len() <= COPY_BYTES
                && last.records.len() <= COPY_BYTES
                && self.records.len() + block.records.len() <= JOIN_BYTES;
            short && plain(&block) && plain(last) && last.level == block.level
        });
        match self.blocks.back_mut() {
            Some(last) if joins => {
                if self.records.is_empty() {
                    self.records.extend_from_slice(&last.records);
                }
                self.records.extend_from_slice(&block.records);
                last.messages += block.messages;
            }
            _ => {
                self.seal();
                self.blocks.push_back(block);
            }
        }
    }

    fn seal(&mut self) {
        if let Some(last) = self.blocks.back_mut()
            && !self.records.is_empty()
        {
            last.records = self.records.split().freeze();
        }
    }

    pub(super) fn finish(mut self) -> VecDeque<Block> {
        self.seal();
        self.blocks
    }
}
