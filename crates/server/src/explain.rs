//! What a subscription would read, told beforehand: the same views of spans and the same choice of segments as the reader's.

use std::sync::Arc;

use arioso_store::directory::DirectoryReader;
use arioso_store::history::{Explained, PieceSum};
use arioso_store::segment::{SegmentInfo, Trailer};
use arioso_store::stores::view::matching;
use arioso_stream::Sequence;
use arioso_stream::filter::{Filter, FilterSet};
use arioso_stream::selection::Selection;
use arioso_stream::tip::{ReadState, TipCursor};
use arioso_wire::{Begin, Code};

use crate::node::Node;
use crate::selecting::Selecting;
use crate::subscription::SLICE_BYTES;

/// Where a subscription that begins so would.
pub fn first(node: &Node, begin: Begin) -> Result<Sequence, (Code, String)> {
    Ok(match begin {
        Begin::Start => node.history.first_kept(),
        Begin::Live => node.engine.lock().settled_to().next(),
        Begin::Sequence(sequence) => sequence.max(node.history.first_kept()),
        Begin::Time(time) => node.history.sequence_at(time),
        Begin::Last => return Err((Code::NotOffered, "the last values are not explained".into())),
    })
}

/// Explains a subscription that begins at `next`. Blocks.
pub fn explain(node: &Node, filters: &[Filter], next: Sequence) -> Result<Explained, String> {
    let mut told = Explained::default();
    let tip_first = node.tip.first_sequence();
    if next < tip_first {
        explain_disk(node, filters, (next.0, tip_first.0), &mut told).map_err(|error| error.to_string())?;
    }
    let mut set = FilterSet::new();
    for filter in filters {
        set.insert(filter.clone()).map_err(|error| error.to_string())?;
    }
    told.tip_messages = count_tip(node, &set, next.max(tip_first));
    Ok(told)
}

fn explain_disk(
    node: &Node,
    filters: &[Filter],
    (next, end): (u64, u64),
    told: &mut Explained,
) -> arioso_store::Result<()> {
    let (spans, segments) = node.history.with_table(|table| {
        let spans: Vec<u64> = table
            .spans()
            .iter()
            .filter(|info| info.last_sequence >= next && info.first_sequence < end)
            .map(|info| info.span)
            .collect();
        let touched = |info: &&SegmentInfo| info.last_sequence >= next && info.first_sequence < end;
        (spans, table.iter().filter(touched).cloned().collect::<Vec<_>>())
    });
    for span in spans {
        let view = node.history.view(span, filters, next)?;
        told.stores += view.stores.len() as u64;
        told.bytes_to_read += view.index_bytes + view.disk_bytes;
        told.bytes_useful += view.useful_bytes;
        told.messages += view.messages;
    }
    for info in segments {
        match &info.trailer {
            Some(trailer) => explain_segment(node, filters, &info, trailer, told)?,
            None => {
                told.segments += 1;
                told.bytes_to_read += info.batches_end;
            }
        }
    }
    Ok(())
}

fn explain_segment(
    node: &Node,
    filters: &[Filter],
    info: &SegmentInfo,
    trailer: &Trailer,
    told: &mut Explained,
) -> arioso_store::Result<()> {
    // One that is gone meanwhile lies in a span, or is not kept.
    let Some(file) = node.history.file(info.number)? else { return Ok(()) };
    let range = trailer.directory.offset..trailer.directory.offset + trailer.directory.bytes;
    let directory = DirectoryReader::open(Arc::clone(&file), range)?;
    let (mut messages, mut bytes) = (0, 0);
    told.bytes_to_read += matching(&directory, filters, &mut |entry| {
        (messages, bytes) = (messages + entry.messages, bytes + entry.bytes);
        Ok(())
    })?;
    told.bytes_to_read += directory.index_bytes();
    if messages > 0 {
        told.segments += 1;
        told.bytes_to_read += info.batches_end;
        told.messages += messages;
        told.bytes_useful += bytes;
    }
    Ok(())
}

/// Pieces told in one answer.
pub const PIECES_MAX: usize = 1_024;

/// What directories tell of the pieces of a stretch of the stream. Blocks.
pub fn sums(node: &Node, filters: &[Filter], first: Sequence, last: Sequence) -> Result<Vec<PieceSum>, String> {
    let inside = |low: u64, high: u64| low >= first.0 && high <= last.0 && low <= high;
    let (spans, segments) = node.history.with_table(|table| {
        let spans = table.spans().iter().filter(|info| inside(info.first_sequence, info.last_sequence));
        let segments = table.iter().filter(|info| inside(info.first_sequence, info.last_sequence));
        (spans.copied().collect::<Vec<_>>(), segments.cloned().collect::<Vec<_>>())
    });
    let mut pieces = Vec::new();
    for info in spans {
        let piece = PieceSum { first: info.first_sequence, last: info.last_sequence, ..PieceSum::default() };
        let span = node.history.span(info.span).map_err(|error| error.to_string())?;
        pieces.push(add_up(span.directory(), filters, piece).map_err(|error| error.to_string())?);
        if pieces.len() == PIECES_MAX {
            return Ok(pieces);
        }
    }
    for info in segments {
        let Some(trailer) = info.trailer.as_ref().filter(|trailer| trailer.damaged == 0) else { continue };
        if node.history.has_voids(info.first_sequence, info.last_sequence) {
            continue;
        }
        // One that is gone meanwhile lies in a span: it is not told this time.
        let Some(file) = node.history.file(info.number).map_err(|error| error.to_string())? else { continue };
        let range = trailer.directory.offset..trailer.directory.offset + trailer.directory.bytes;
        let piece = PieceSum { first: info.first_sequence, last: info.last_sequence, ..PieceSum::default() };
        let told = DirectoryReader::open(Arc::clone(&file), range).and_then(|read| add_up(&read, filters, piece));
        pieces.push(told.map_err(|error| error.to_string())?);
        if pieces.len() == PIECES_MAX {
            return Ok(pieces);
        }
    }
    Ok(pieces)
}

fn add_up(directory: &DirectoryReader, filters: &[Filter], mut piece: PieceSum) -> arioso_store::Result<PieceSum> {
    matching(directory, filters, &mut |entry| {
        piece.messages += entry.messages;
        piece.bytes += entry.bytes;
        piece.sum = piece.sum.wrapping_add(entry.sum);
        Ok(())
    })?;
    Ok(piece)
}

/// Messages in the tip that match, from a sequence on.
fn count_tip(node: &Node, filters: &FilterSet, next: Sequence) -> u64 {
    let mut selection = Selection::new(filters, &node.names.read());
    let mut cursor = TipCursor::new(Arc::clone(&node.tip), next);
    let (mut count, mut slices) = (0, Vec::new());
    loop {
        let mut selecting = Selecting::new(&mut selection, &node.names);
        let end = cursor.read(&mut selecting, SLICE_BYTES, &mut slices);
        count += slices.drain(..).map(|slice| u64::from(slice.records)).sum::<u64>();
        match end.state {
            ReadState::AtEnd => return count,
            // What fell out of the tip meanwhile is not counted.
            ReadState::FellOff(first) => cursor = TipCursor::new(Arc::clone(&node.tip), first),
            _ => {}
        }
    }
}
