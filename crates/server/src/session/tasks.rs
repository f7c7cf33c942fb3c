//! Requests that read and write files: done elsewhere, a few at a time, answered when they are.

use std::sync::Arc;

use arioso_store::history::{Explained, PieceSum};
use arioso_store::snapshot::SnapshotHeader;
use arioso_stream::Sequence;
use arioso_stream::filter::{FILTERS_MAX, Filter};
use arioso_wire::{Answer, BackUpRow, Blob, Code, ExplainRow, Frame, List, Request, Rows, SnapshotRow, SumRow};

use super::{Read, Session, Ticket};
use crate::backup::BackedUp;
use crate::explain;
use crate::history::{ReadRequest, Supplied};
use crate::output::Output;
use crate::snapshots::{PIECE_BYTES_MAX, SnapshotAsk, SnapshotTold};

/// Tasks of one session at the same time.
const TASKS_MAX: usize = 4;

/// Tells tasks' numbers from those of subscriptions' reads.
const TASK: u64 = 1 << 63;

/// A session's tasks.
#[derive(Default)]
pub(super) struct Tasks {
    wanted: Vec<Read>,
    under_way: Vec<Ticket>,
    count: u64,
    done: Vec<(u16, Result<Supplied, String>)>,
}

impl Tasks {
    /// Takes what a task came to; gives it back if it is none of these.
    pub fn supply(&mut self, ticket: Ticket, read: Result<Supplied, String>) -> Result<(), Result<Supplied, String>> {
        let Some(at) = self.under_way.iter().position(|waiting| *waiting == ticket) else { return Err(read) };
        self.under_way.swap_remove(at);
        self.done.push((ticket.channel, read));
        Ok(())
    }
}

impl Session {
    /// Begins the task of a request; false: it is none.
    pub(super) fn begin_task(&mut self, channel: u16, request: &Request, out: &mut Output) -> bool {
        let wanted = match request {
            Request::BackUp { folder } => {
                if self.node.settings.insecure {
                    let text = "backups are not offered while the server listens to anybody (insecure)";
                    self.fail(channel, Code::NotOffered, (0, 0), text, out);
                    return true;
                }
                ReadRequest::BackUp { folder: folder.as_str().into() }
            }
            Request::PutSnapshot { name, as_of, total, hash, offset, bytes } => {
                if bytes.0.len() > PIECE_BYTES_MAX as usize {
                    self.fail(channel, Code::PayloadTooLarge, (0, 0), "a piece has at most 1 MiB", out);
                    return true;
                }
                let header = SnapshotHeader {
                    stream: self.node.identity.stream_id,
                    as_of: as_of.0,
                    bytes: *total,
                    hash: *hash,
                    name: name.as_str().into(),
                };
                let (session, offset, bytes) = (self.number, *offset, bytes.0.clone());
                ReadRequest::Snapshot(SnapshotAsk::Put { session, header, offset, bytes })
            }
            Request::GetSnapshot { name, as_of, offset, bytes_max } => {
                let (name, as_of, offset, bytes_max) = (name.as_str().into(), as_of.0, *offset, *bytes_max);
                ReadRequest::Snapshot(SnapshotAsk::Get { name, as_of, offset, bytes_max })
            }
            Request::Explain { begin, filters } => {
                let asked = tested(filters).and_then(|filters| Ok((explain::first(&self.node, *begin)?, filters)));
                match asked {
                    Ok((next, filters)) => ReadRequest::Explain { next, filters },
                    Err((code, text)) => {
                        self.fail(channel, code, (0, 0), &text, out);
                        return true;
                    }
                }
            }
            Request::Sums { first, last, filters } => match tested(filters) {
                Ok(filters) => ReadRequest::Sums { first: *first, last: *last, filters },
                Err((code, text)) => {
                    self.fail(channel, code, (0, 0), &text, out);
                    return true;
                }
            },
            _ => return false,
        };
        if self.tasks.under_way.len() >= TASKS_MAX {
            let text = format!("{TASKS_MAX} requests that read or write files are being done on this connection");
            self.fail(channel, Code::Busy, (0, 0), &text, out);
            return true;
        }
        self.tasks.count += 1;
        let ticket = Ticket { channel, number: self.tasks.count | TASK };
        self.tasks.under_way.push(ticket);
        self.tasks.wanted.push(Read { ticket, request: wanted });
        true
    }

    /// Hands out what is to be done and answers what is.
    pub(super) fn turn_tasks(&mut self, reads: &mut Vec<Read>, out: &mut Output) {
        reads.append(&mut self.tasks.wanted);
        for (channel, done) in std::mem::take(&mut self.tasks.done) {
            let rows = match done {
                Ok(Supplied::BackedUp(BackedUp { through, files, bytes })) => {
                    Rows::BackUp(BackUpRow { through, files, bytes })
                }
                Ok(Supplied::Explained(told)) => Rows::Explain(explain_row(&told)),
                Ok(Supplied::Summed(pieces)) => Rows::Sums(sum_rows(&pieces)),
                Ok(Supplied::Snapshot(Ok(SnapshotTold::Stored))) => Rows::Done { kind: 11 },
                Ok(Supplied::Snapshot(Ok(SnapshotTold::Piece(header, bytes)))) => Rows::Snapshot(SnapshotRow {
                    as_of: Sequence(header.as_of),
                    total: header.bytes,
                    hash: header.hash,
                    bytes: Blob(bytes),
                }),
                Ok(Supplied::Snapshot(Err((code, detail, text)))) => {
                    self.fail(channel, code, (detail, 0), &text, out);
                    continue;
                }
                Ok(_) => panic!("channel {channel} has a task, no subscription"),
                Err(text) => {
                    self.fail(channel, Code::Internal, (0, 0), &text, out);
                    continue;
                }
            };
            out.push(channel, &Frame::Answer(Answer { more: false, rows }));
        }
    }
}

/// Filters as they are handed on.
fn tested(filters: &List<arioso_wire::Filters>) -> Result<Arc<[Box<str>]>, (Code, String)> {
    let mut texts: Vec<Box<str>> = Vec::new();
    for text in filters.iter() {
        texts.push(Filter::new(text).map_err(|bad| (Code::BadFilter, bad.to_string()))?.as_str().into());
    }
    if texts.is_empty() || texts.len() > FILTERS_MAX {
        return Err((Code::TooManyFilters, format!("{} filters, 1 to {FILTERS_MAX} are wanted", texts.len())));
    }
    Ok(texts.into())
}

fn sum_rows(pieces: &[PieceSum]) -> List<arioso_wire::SumRows> {
    List::collect(pieces.iter().map(|piece| SumRow {
        first: Sequence(piece.first),
        last: Sequence(piece.last),
        messages: piece.messages,
        bytes: piece.bytes,
        sum: piece.sum,
    }))
}

fn explain_row(told: &Explained) -> ExplainRow {
    let Explained { segments, stores, bytes_to_read, bytes_useful, messages, tip_messages } = *told;
    ExplainRow { segments, stores, bytes_to_read, bytes_useful, messages, tip_messages }
}
