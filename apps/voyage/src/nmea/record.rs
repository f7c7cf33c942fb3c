//! What came of a line, or of the lines of one message, and how it is told as JSON.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::message::{Message, Undecodable, Value};
use super::sentence::{Channel, Kind};

/// One message or one rejection.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The lines it came from, counted from 1, in order of arrival.
    pub lines: Vec<u64>,
    /// What they hold.
    pub outcome: Outcome,
    /// When the last of them was received, in unix nanoseconds, if the receiver tells.
    pub received: Option<i64>,
}

/// Where a whole payload was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Two characters.
    pub talker: [u8; 2],
    /// Of the own vessel or others.
    pub kind: Kind,
    /// Radio channel.
    pub channel: Channel,
    /// In how many parts.
    pub parts: u8,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A message.
    Message(Heard, Message),
    /// A payload that is no message.
    Undecodable(Heard, Undecodable),
    /// The parts `have` came; the others did not.
    Incomplete {
        /// How many there should be.
        parts: u8,
        /// Which came.
        have: Vec<u8>,
    },
    /// A line without the form of a sentence.
    Malformed,
    /// A sentence whose checksum is wrong.
    BadChecksum,
}

impl Record {
    /// The line that completed it.
    #[must_use]
    pub fn last_line(&self) -> u64 {
        self.lines.last().copied().unwrap_or(0)
    }
}

impl Outcome {
    /// Its name in a record.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self {
            Outcome::Message(..) => "ok",
            Outcome::Undecodable(..) => "undecodable",
            Outcome::Incomplete { .. } => "incomplete",
            Outcome::Malformed => "malformed",
            Outcome::BadChecksum => "bad_checksum",
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("lines", &self.lines)?;
        if let Outcome::Message(heard, _) | Outcome::Undecodable(heard, _) = &self.outcome {
            map.serialize_entry("talker", &String::from_utf8_lossy(&heard.talker))?;
            map.serialize_entry("kind", heard.kind.as_str())?;
            map.serialize_entry("channel", heard.channel.as_str())?;
            map.serialize_entry("parts", &heard.parts)?;
        }
        map.serialize_entry("status", self.outcome.status())?;
        match &self.outcome {
            Outcome::Message(_, message) => {
                map.serialize_entry("msg_type", &message.msg_type)?;
                map.serialize_entry("fields", &Fields(message))?;
            }
            Outcome::Undecodable(_, why) => map.serialize_entry("error", why.as_str())?,
            Outcome::Incomplete { parts, have } => {
                map.serialize_entry("parts", parts)?;
                map.serialize_entry("have", have)?;
            }
            Outcome::Malformed | Outcome::BadChecksum => {}
        }
        map.end()
    }
}

struct Fields<'a>(&'a Message);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.fields.iter().map(|(name, value)| (name, value)))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Missing => serializer.serialize_none(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Uint(value) => serializer.serialize_u64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::Text(value) => serializer.serialize_str(value),
            Value::Data(value) => serializer.collect_str(&Hex(value)),
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
