//! From decoded lines to a bus.
//!
//! ```text
//! record ──▶ ais/<type>/<mmsi>          payload: {"msg_type": …, fields}, event time: when it was received
//!       └──▶ ais-rejected/<status>      payload: the record, for lines that are no message
//! ```

use std::collections::VecDeque;
use std::path::Path;

use arioso::{Bus, Message, Publisher, Receipt};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::nmea::{Outcome, Record, Sink};

/// Most publishes whose answers are still open; beyond it the oldest is waited for.
const OPEN_MAX: usize = 1024;

/// A bus: on a server, or in a directory inside this process.
pub fn open(data: Option<&Path>, server: &str) -> Result<Bus> {
    Ok(match data {
        Some(dir) => Bus::open(dir)?,
        None => Bus::connect(server)?,
    })
}

/// Publishes records.
#[derive(Debug)]
pub struct Feed {
    publisher: Publisher,
    open: VecDeque<Receipt>,
    published: u64,
    last: u64,
}

impl Feed {
    /// Publishes to `bus`. Under a name, records are numbered from the first one on: what an earlier run under
    /// that name published is not stored again.
    pub fn new(bus: &Bus, name: Option<&str>) -> Result<Self> {
        let publisher = match name {
            Some(name) => bus.publisher_at(name, 1)?,
            None => bus.publisher(None)?,
        };
        Ok(Self { publisher, open: VecDeque::with_capacity(OPEN_MAX), published: 0, last: 0 })
    }

    fn settle(&mut self, open_max: usize) -> Result<()> {
        while self.open.len() > open_max {
            let Some(receipt) = self.open.pop_front() else { break };
            let ack = receipt.wait().map_err(arioso::Error::from)?;
            self.last = self.last.max(ack.sequence.0);
        }
        Ok(())
    }

    /// Publishes `payload` on `topic`; waits only while too many answers are open.
    pub fn publish(&mut self, topic: &str, payload: &[u8], event_time: Option<i64>) -> Result<()> {
        self.settle(OPEN_MAX - 1)?;
        let message = Message { event_time, ..Message::new(payload) };
        self.open.push_back(self.publisher.send(topic, message)?);
        self.published += 1;
        Ok(())
    }

    /// Waits for all answers: how many were published, and the highest sequence among the answers.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        self.settle(0)?;
        Ok((self.published, self.last))
    }
}

/// The topic of a record.
#[must_use]
pub fn topic(record: &Record) -> String {
    match &record.outcome {
        Outcome::Message(_, message) => format!("ais/{}/{}", message.msg_type, message.mmsi().unwrap_or(0)),
        rejected => format!("ais-rejected/{}", rejected.status()),
    }
}

/// The payload of a record.
pub fn payload(record: &Record) -> Result<Vec<u8>> {
    let json = |e: serde_json::Error| Error::Write(e.into());
    let Outcome::Message(_, message) = &record.outcome else {
        return serde_json::to_vec(record).map_err(json);
    };
    let mut object = Map::new();
    object.insert("msg_type".to_owned(), message.msg_type.into());
    for (name, value) in &message.fields {
        object.insert((*name).to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
    }
    serde_json::to_vec(&object).map_err(json)
}

impl Sink for Feed {
    fn take(&mut self, record: Record) -> Result<()> {
        self.publish(&topic(&record), &payload(&record)?, record.received)
    }
}
