//! One AIS message: its type and its fields, each under its name.

use super::bits::Bits;
use super::fields::{self, Field, Kind, NoLayout};

/// Bits of the message type, in front of everything.
const TYPE_BITS: usize = 6;

/// A field's value. A field that begins after the end of a short message is [`Value::Missing`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The message ends before the field.
    Missing,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Uint(u64),
    /// A quantity.
    Float(f64),
    /// Text.
    Text(String),
    /// Bits that an application understands, left aligned.
    Data(Vec<u8>),
}

/// A decoded message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// 1 to 27.
    pub msg_type: u8,
    /// Its fields, in their order in the message.
    pub fields: Vec<(&'static str, Value)>,
}

/// Why a payload is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecodable {
    /// It has not even a message type.
    MissingPayload,
    /// Its message type is not defined.
    UnknownMessage,
    /// A static report of a part that is not defined.
    UnknownPartNo,
}

impl Undecodable {
    /// Its name in a record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Undecodable::MissingPayload => "MissingPayloadException",
            Undecodable::UnknownMessage => "UnknownMessageException",
            Undecodable::UnknownPartNo => "UnknownPartNoException",
        }
    }
}

impl Message {
    /// Decodes the bits of a whole payload.
    pub fn decode(bits: &Bits) -> Result<Self, Undecodable> {
        if bits.len() < TYPE_BITS {
            return Err(Undecodable::MissingPayload);
        }
        let msg_type = bits.unsigned(0, TYPE_BITS) as u8;
        let layout = fields::layout(msg_type, bits).map_err(|why| match why {
            NoLayout::Type => Undecodable::UnknownMessage,
            NoLayout::PartNumber => Undecodable::UnknownPartNo,
        })?;
        let mut fields = Vec::with_capacity(fields::HEAD.len() + layout.len() + 1);
        let mut at = TYPE_BITS;
        for field in fields::HEAD.iter().chain(layout) {
            if !matches!(field.kind, Kind::Spare) {
                fields.push((field.name, read(bits, at, field)));
            }
            at += field.bits;
        }
        let mut message = Self { msg_type, fields };
        if msg_type == 21 {
            message.join_name();
        }
        Ok(message)
    }

    /// An aid to navigation may continue its name at the end of the message.
    fn join_name(&mut self) {
        let part = |name| match self.get(name) {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        let full = match part("name") {
            "" => String::new(),
            name => format!("{name}{}", part("name_ext")),
        };
        self.fields.push(("full_name", Value::Text(full)));
    }

    /// The value of a field, if the message type has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The sender's number.
    #[must_use]
    pub fn mmsi(&self) -> Option<u32> {
        match self.get("mmsi")? {
            Value::Uint(mmsi) => u32::try_from(*mmsi).ok(),
            _ => None,
        }
    }

    /// Longitude and latitude in degrees, if the message tells a position that is on the globe. (AIS
    /// says "not available" with 181 and 91.)
    #[must_use]
    pub fn position(&self) -> Option<(f64, f64)> {
        match (self.get("lon")?, self.get("lat")?) {
            (Value::Float(lon), Value::Float(lat)) if lon.abs() <= 180.0 && lat.abs() <= 90.0 => Some((*lon, *lat)),
            _ => None,
        }
    }
}

fn read(bits: &Bits, at: usize, field: &Field) -> Value {
    if !bits.has(at) {
        return Value::Missing;
    }
    let unsigned = || bits.unsigned(at, field.bits);
    let signed = || bits.signed(at, field.bits);
    match field.kind {
        Kind::Uint => Value::Uint(unsigned()),
        Kind::Bool => Value::Bool(unsigned() == 1),
        Kind::Text => Value::Text(bits.text(at, field.bits)),
        Kind::Data | Kind::Spare => Value::Data(bits.data(at, field.bits)),
        Kind::Whole => Value::Float(unsigned() as f64),
        Kind::Over(divisor) => Value::Float(unsigned() as f64 / divisor),
        Kind::SignedOver(divisor) => Value::Float(signed() as f64 / divisor),
        Kind::Degrees(unit) => Value::Float(degrees(signed(), unit)),
        Kind::Turn => Value::Float(turn(signed())),
        Kind::Steps { scale, offset } => Value::Float((unsigned() as f64 + offset * scale) / scale),
        Kind::Above(offset) => Value::Uint(unsigned() + offset),
        Kind::Code(meaning) => Value::Uint(meaning(unsigned())),
    }
}

/// `value / unit` to six decimals, rounded half up in whole numbers so that no float is in between.
fn degrees(value: i64, unit: i64) -> f64 {
    let millionths = (value * 2_000_000 + unit).div_euclid(2 * unit);
    millionths as f64 / 1e6
}

/// Degrees a minute from the root scale: 4.733 √(degrees a minute).
fn turn(value: i64) -> f64 {
    match value {
        0 | 127 | -127 | -128 => value as f64,
        _ => (value as f64 / 4.733).powi(2).round().copysign(value as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(payload: &[u8]) -> Message {
        Message::decode(&Bits::unarmour(payload, 0)).unwrap()
    }

    #[test]
    fn a_position_report_tells_where_and_who() {
        let message = decode(b"14pWHb?P03rwO<F:RQOnROw<25bd");
        assert_eq!(message.mmsi(), Some(327_801_000));
        assert_eq!(message.position(), Some((-70.017_048, 18.418_985)));
    }

    #[test]
    fn a_position_that_is_not_available_is_none() {
        let message = Message { msg_type: 1, fields: vec![("lon", Value::Float(181.0)), ("lat", Value::Float(91.0))] };
        assert_eq!(message.position(), None);
    }

    #[test]
    fn fields_after_the_end_of_a_short_message_are_missing() {
        let message = decode(b"14pWHb");
        assert_eq!(message.get("repeat"), Some(&Value::Uint(0)));
        assert_eq!(message.get("radio"), Some(&Value::Missing));
    }

    #[test]
    fn types_and_parts_that_are_not_defined_are_undecodable() {
        let why = |payload: &[u8]| Message::decode(&Bits::unarmour(payload, 0)).unwrap_err();
        assert_eq!(why(b""), Undecodable::MissingPayload);
        assert_eq!(why(b"L4pWHb?P03rwO<F:RQOnROw<25bd"), Undecodable::UnknownMessage);
        assert_eq!(why(b"H00000>0"), Undecodable::UnknownPartNo);
    }

    #[test]
    fn degrees_are_rounded_to_the_nearest_millionth() {
        assert_eq!(degrees(1, 600_000), 0.000_002);
        assert_eq!(degrees(-1, 600_000), -0.000_002);
        assert_eq!(degrees(11_938, 600), 19.896_667);
    }
}
