//! What is said on a connection, in words: the trace of a failure is read by people.

use std::fmt::Write;

use arioso_stream::Records;
use arioso_wire::{Frame, FrameReader};

/// Frames are no longer than this in a run.
const FRAME_BYTES_MAX: u32 = 32 << 20;

/// Listens to one direction of a connection.
#[derive(Debug)]
pub struct Tap(FrameReader);

impl Tap {
    /// From the connection's beginning.
    pub fn new() -> Tap {
        Tap(FrameReader::new(FRAME_BYTES_MAX))
    }

    /// What these bytes complete, with a space before each frame.
    pub fn hear(&mut self, bytes: &[u8]) -> String {
        self.0.feed(bytes);
        let mut said = String::new();
        while let Ok(Some((channel, frame))) = self.0.next_frame() {
            let told = say(&mut said, channel, &frame);
            told.expect("a string takes everything");
        }
        said
    }
}

fn say(out: &mut String, channel: u16, frame: &Frame) -> std::fmt::Result {
    write!(out, " {channel}:")?;
    match frame {
        Frame::OpenPublisher(open) => write!(out, "open {:?} at {}", open.name.as_str(), open.next),
        Frame::PublisherOpened(opened) => write!(out, "opened epoch {} last {}", opened.epoch, opened.last_consumed),
        Frame::Publish(publish) => {
            write!(out, "publish {} x{} {:?}", publish.first, publish.messages, publish.level)?;
            if let Some(condition) = &publish.condition {
                write!(out, " if {} is at {}", condition.filter.as_str(), condition.sequence)?;
            }
            let uid = |payload: &[u8]| payload.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            let uids = Records::new(&publish.records).map_while(Result::ok).map(|record| uid(record.payload()));
            write!(out, " {:?}", uids.flatten().collect::<Vec<u32>>())
        }
        Frame::Replies(replies) => replies.replies.iter().try_for_each(|row| {
            write!(out, "[{} x{} {} {} {:?}]", row.first, row.messages, row.code, row.sequence, row.level)
        }),
        Frame::Subscribe(subscribe) => {
            write!(out, "subscribe from {:?} credit {}", subscribe.begin, subscribe.credit_bytes)
        }
        Frame::Subscribed(subscribed) => write!(out, "subscribed at {}", subscribed.starts_at),
        Frame::Deliver(deliver) => write!(out, "deliver x{} through {}", deliver.count, deliver.through),
        Frame::Safe(safe) => write!(out, "safe {}", safe.through),
        Frame::Credit(credit) => write!(out, "credit {}", credit.bytes),
        Frame::Trimmed(trimmed) => write!(out, "trimmed {} to {}", trimmed.wanted, trimmed.first),
        Frame::Ended(ended) => write!(out, "ended through {} {}", ended.through, ended.code),
        Frame::Error(error) => write!(out, "error {}: {}", error.code, error.text.as_str()),
        frame => out.write_str(frame.name()),
    }
}
