//! What stands where in each AIS message type (ITU-R M.1371-5): one table a layout.
//!
//! Where a type has several layouts, [`layout`] chooses by the bits that tell them apart. Binary
//! messages (types 6 and 8) have the layouts that shore stations here really send; any other
//! application's payload stays `data`.

use super::bits::Bits;

/// How the bits of a field become a value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Unsigned number.
    Uint,
    /// One bit, yes or no.
    Bool,
    /// Six-bit text.
    Text,
    /// Bytes, told in hexadecimal.
    Data,
    /// Bits without a meaning.
    Spare,
    /// Unsigned number, told as a float.
    Whole,
    /// Unsigned number over a divisor.
    Over(f64),
    /// Signed number over a divisor.
    SignedOver(f64),
    /// Signed number of so many units a degree, told in degrees to six decimals.
    Degrees(i64),
    /// Rate of turn, from its root scale to degrees a minute; ±127 and -128 stay as they are.
    Turn,
    /// Unsigned steps of 1/scale above an offset.
    Steps {
        /// Steps in one.
        scale: f64,
        /// What no steps mean.
        offset: f64,
    },
    /// Unsigned number above an offset.
    Above(u64),
    /// A code; those without a meaning become the code for "not defined".
    Code(fn(u64) -> u64),
}

/// One field of a layout.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name in the record.
    pub name: &'static str,
    /// Its width.
    pub bits: usize,
    /// What its bits mean.
    pub kind: Kind,
}

const fn field(name: &'static str, bits: usize, kind: Kind) -> Field {
    Field { name, bits, kind }
}
const fn uint(name: &'static str, bits: usize) -> Field {
    field(name, bits, Kind::Uint)
}
const fn flag(name: &'static str) -> Field {
    field(name, 1, Kind::Bool)
}
const fn text(name: &'static str, bits: usize) -> Field {
    field(name, bits, Kind::Text)
}
const fn data(name: &'static str, bits: usize) -> Field {
    field(name, bits, Kind::Data)
}
const fn spare(bits: usize) -> Field {
    field("", bits, Kind::Spare)
}
const fn tenth(name: &'static str, bits: usize) -> Field {
    field(name, bits, Kind::Over(10.0))
}
const fn signed_tenth(name: &'static str, bits: usize) -> Field {
    field(name, bits, Kind::SignedOver(10.0))
}
const fn steps(name: &'static str, bits: usize, scale: f64, offset: f64) -> Field {
    field(name, bits, Kind::Steps { scale, offset })
}
const LON: Field = field("lon", 28, Kind::Degrees(600_000));
const LAT: Field = field("lat", 27, Kind::Degrees(600_000));
const LON_MINUTES: Field = field("lon", 25, Kind::Degrees(60_000));
const LAT_MINUTES: Field = field("lat", 24, Kind::Degrees(60_000));
const EPFD: Field = field("epfd", 4, Kind::Code(epfd));
const SHIP_TYPE: Field = field("ship_type", 8, Kind::Code(ship_type));

/// Kinds of position source; 9 to 14 have no meaning.
fn epfd(code: u64) -> u64 {
    if (9..15).contains(&code) { 0 } else { code }
}

/// Ship types: those reserved within a ten share its first reserved code.
fn ship_type(code: u64) -> u64 {
    match code {
        20..=25 | 29..=37 | 49..=55 | 58..=60 => code,
        26..=28 => 25,
        56 | 57 => 56,
        40..=99 => match code % 10 {
            6..=8 => code - code % 10 + 5,
            _ => code,
        },
        _ => 0,
    }
}

/// Station types a base station may address.
fn station_type(code: u64) -> u64 {
    match code {
        7..=9 => 6,
        10.. => 1,
        _ => code,
    }
}

/// The head of every message, after its type.
pub const HEAD: &[Field] = &[uint("repeat", 2), uint("mmsi", 30)];

const POSITION_A: &[Field] = &[
    uint("status", 4),
    field("turn", 8, Kind::Turn),
    tenth("speed", 10),
    flag("accuracy"),
    LON,
    LAT,
    tenth("course", 12),
    uint("heading", 9),
    uint("second", 6),
    uint("maneuver", 2),
    spare(3),
    flag("raim"),
    uint("radio", 19),
];
const BASE_STATION: &[Field] = &[
    uint("year", 14),
    uint("month", 4),
    uint("day", 5),
    uint("hour", 5),
    uint("minute", 6),
    uint("second", 6),
    flag("accuracy"),
    LON,
    LAT,
    EPFD,
    spare(10),
    flag("raim"),
    uint("radio", 19),
];
const STATIC_A: &[Field] = &[
    uint("ais_version", 2),
    uint("imo", 30),
    text("callsign", 42),
    text("shipname", 120),
    SHIP_TYPE,
    uint("to_bow", 9),
    uint("to_stern", 9),
    uint("to_port", 6),
    uint("to_starboard", 6),
    EPFD,
    uint("month", 4),
    uint("day", 5),
    uint("hour", 5),
    uint("minute", 6),
    tenth("draught", 8),
    text("destination", 120),
    flag("dte"),
    spare(1),
];
const ADDRESSED: &[Field] = &[
    uint("seqno", 2),
    uint("dest_mmsi", 30),
    flag("retransmit"),
    spare(1),
    uint("dac", 10),
    uint("fid", 6),
    data("data", 920),
];
const CLEARANCE: &[Field] = &[
    uint("seqno", 2),
    uint("dest_mmsi", 30),
    flag("retransmit"),
    spare(1),
    uint("dac", 10),
    uint("fid", 6),
    uint("linkage", 10),
    uint("month", 4),
    uint("day", 5),
    uint("hour", 5),
    uint("minute", 6),
    text("port_name", 120),
    text("destination", 30),
    LON_MINUTES,
    LAT_MINUTES,
    spare(43),
];
const ACKNOWLEDGE: &[Field] = &[
    spare(2),
    uint("mmsi1", 30),
    uint("mmsiseq1", 2),
    uint("mmsi2", 30),
    uint("mmsiseq2", 2),
    uint("mmsi3", 30),
    uint("mmsiseq3", 2),
    uint("mmsi4", 30),
    uint("mmsiseq4", 2),
];
const BROADCAST: &[Field] = &[spare(2), uint("dac", 10), uint("fid", 6), data("data", 952)];
const TARGETS: &[Field] = &[spare(2), uint("dac", 10), uint("fid", 6), data("target_data", 840)];
const WEATHER_OLD: &[Field] = &[
    spare(2),
    uint("dac", 10),
    uint("fid", 6),
    LAT_MINUTES,
    LON_MINUTES,
    uint("day", 5),
    uint("hour", 5),
    uint("minute", 6),
    uint("wspeed", 7),
    uint("wgust", 7),
    uint("wdir", 9),
    uint("wgustdir", 9),
    steps("airtemp", 11, 10.0, -60.0),
    uint("humidity", 7),
    steps("dewpoint", 10, 10.0, -20.0),
    field("pressure", 9, Kind::Above(800)),
    uint("pressuretend", 2),
    tenth("visibility", 8),
    steps("waterlevel", 9, 10.0, -10.0),
    uint("leveltrend", 2),
    tenth("cspeed", 8),
    uint("cdir", 9),
    tenth("cspeed2", 8),
    uint("cdir2", 9),
    uint("cdepth2", 5),
    tenth("cspeed3", 8),
    uint("cdir3", 9),
    uint("cdepth3", 5),
    tenth("waveheight", 8),
    uint("waveperiod", 6),
    uint("wavedir", 9),
    tenth("swellheight", 8),
    uint("swellperiod", 6),
    uint("swelldir", 9),
    uint("seastate", 4),
    steps("watertemp", 10, 10.0, -10.0),
    uint("preciptype", 3),
    tenth("salinity", 9),
    uint("ice", 2),
];
const WEATHER: &[Field] = &[
    spare(2),
    uint("dac", 10),
    uint("fid", 6),
    LON_MINUTES,
    LAT_MINUTES,
    flag("accuracy"),
    uint("day", 5),
    uint("hour", 5),
    uint("minute", 6),
    uint("wspeed", 7),
    uint("wgust", 7),
    uint("wdir", 9),
    uint("wgustdir", 9),
    signed_tenth("airtemp", 11),
    uint("humidity", 7),
    signed_tenth("dewpoint", 10),
    field("pressure", 9, Kind::Above(799)),
    uint("pressuretend", 2),
    flag("visgreater"),
    tenth("visibility", 7),
    steps("waterlevel", 12, 100.0, -10.0),
    uint("leveltrend", 2),
    tenth("cspeed", 8),
    uint("cdir", 9),
    tenth("cspeed2", 8),
    uint("cdir2", 9),
    uint("cdepth2", 5),
    tenth("cspeed3", 8),
    uint("cdir3", 9),
    uint("cdepth3", 5),
    tenth("waveheight", 8),
    uint("waveperiod", 6),
    uint("wavedir", 9),
    tenth("swellheight", 8),
    uint("swellperiod", 6),
    uint("swelldir", 9),
    uint("seastate", 4),
    signed_tenth("watertemp", 10),
    uint("preciptype", 3),
    tenth("salinity", 9),
    uint("ice", 2),
];
const INLAND_SHIP: &[Field] = &[
    spare(2),
    uint("dac", 10),
    uint("fid", 6),
    text("vin", 48),
    tenth("length", 13),
    tenth("beam", 10),
    uint("shiptype", 14),
    uint("hazard", 3),
    field("draught", 11, Kind::Over(100.0)),
    uint("loaded", 2),
    flag("speed_q"),
    flag("course_q"),
    flag("heading_q"),
    spare(8),
];
const AIRCRAFT: &[Field] = &[
    uint("alt", 12),
    field("speed", 10, Kind::Whole),
    flag("accuracy"),
    LON,
    LAT,
    tenth("course", 12),
    uint("second", 6),
    uint("reserved_1", 8),
    flag("dte"),
    spare(3),
    flag("assigned"),
    flag("raim"),
    uint("radio", 20),
];
const TIME_INQUIRY: &[Field] = &[spare(2), uint("dest_mmsi", 30), spare(2)];
const ADDRESSED_TEXT: &[Field] =
    &[uint("seqno", 2), uint("dest_mmsi", 30), flag("retransmit"), spare(1), text("text", 936)];
const BROADCAST_TEXT: &[Field] = &[spare(2), text("text", 968)];
const INTERROGATION: &[Field] = &[
    spare(2),
    uint("mmsi1", 30),
    uint("type1_1", 6),
    uint("offset1_1", 12),
    spare(2),
    uint("type1_2", 6),
    uint("offset1_2", 12),
    spare(2),
    uint("mmsi2", 30),
    uint("type2_1", 6),
    uint("offset2_1", 12),
    spare(2),
];
const ASSIGN_ONE: &[Field] = &[spare(2), uint("mmsi1", 30), uint("offset1", 12), uint("increment1", 10), spare(4)];
const ASSIGN_TWO: &[Field] = &[
    spare(2),
    uint("mmsi1", 30),
    uint("offset1", 12),
    uint("increment1", 10),
    uint("mmsi2", 30),
    uint("offset2", 12),
    uint("increment2", 10),
];
const DIFFERENTIAL: &[Field] = &[
    spare(2),
    field("lon", 18, Kind::Degrees(600)),
    field("lat", 17, Kind::Degrees(600)),
    spare(5),
    data("data", 736),
];
const POSITION_B: &[Field] = &[
    uint("reserved_1", 8),
    tenth("speed", 10),
    flag("accuracy"),
    LON,
    LAT,
    tenth("course", 12),
    uint("heading", 9),
    uint("second", 6),
    uint("reserved_2", 2),
    flag("cs"),
    flag("display"),
    flag("dsc"),
    flag("band"),
    flag("msg22"),
    flag("assigned"),
    flag("raim"),
    uint("radio", 20),
];
const POSITION_B_LONG: &[Field] = &[
    uint("reserved_1", 8),
    tenth("speed", 10),
    flag("accuracy"),
    LON,
    LAT,
    tenth("course", 12),
    uint("heading", 9),
    uint("second", 6),
    uint("reserved_2", 4),
    text("shipname", 120),
    SHIP_TYPE,
    uint("to_bow", 9),
    uint("to_stern", 9),
    uint("to_port", 6),
    uint("to_starboard", 6),
    EPFD,
    flag("raim"),
    flag("dte"),
    flag("assigned"),
    spare(4),
];
const LINK_SLOTS: &[Field] = &[
    spare(2),
    uint("offset1", 12),
    uint("number1", 4),
    uint("timeout1", 3),
    uint("increment1", 11),
    uint("offset2", 12),
    uint("number2", 4),
    uint("timeout2", 3),
    uint("increment2", 11),
    uint("offset3", 12),
    uint("number3", 4),
    uint("timeout3", 3),
    uint("increment3", 11),
    uint("offset4", 12),
    uint("number4", 4),
    uint("timeout4", 3),
    uint("increment4", 11),
];
const AID: &[Field] = &[
    uint("aid_type", 5),
    text("name", 120),
    flag("accuracy"),
    LON,
    LAT,
    uint("to_bow", 9),
    uint("to_stern", 9),
    uint("to_port", 6),
    uint("to_starboard", 6),
    EPFD,
    uint("second", 6),
    flag("off_position"),
    uint("reserved_1", 8),
    flag("raim"),
    flag("virtual_aid"),
    flag("assigned"),
    spare(1),
    text("name_ext", 88),
];
const CHANNELS_AREA: &[Field] = &[
    spare(2),
    uint("channel_a", 12),
    uint("channel_b", 12),
    uint("txrx", 4),
    flag("power"),
    signed_tenth("ne_lon", 18),
    signed_tenth("ne_lat", 17),
    signed_tenth("sw_lon", 18),
    signed_tenth("sw_lat", 17),
    flag("addressed"),
    flag("band_a"),
    flag("band_b"),
    uint("zonesize", 3),
    spare(23),
];
const CHANNELS_ADDRESSED: &[Field] = &[
    spare(2),
    uint("channel_a", 12),
    uint("channel_b", 12),
    uint("txrx", 4),
    flag("power"),
    uint("dest1", 30),
    uint("empty_1", 5),
    uint("dest2", 30),
    uint("empty_2", 5),
    flag("addressed"),
    flag("band_a"),
    flag("band_b"),
    uint("zonesize", 3),
    spare(23),
];
const GROUP_ASSIGN: &[Field] = &[
    spare(2),
    signed_tenth("ne_lon", 18),
    signed_tenth("ne_lat", 17),
    signed_tenth("sw_lon", 18),
    signed_tenth("sw_lat", 17),
    field("station_type", 4, Kind::Code(station_type)),
    SHIP_TYPE,
    spare(22),
    uint("txrx", 2),
    field("interval", 4, Kind::Code(|code| code.min(11))),
    uint("quiet", 4),
    spare(6),
];
const STATIC_B_NAME: &[Field] = &[uint("partno", 2), text("shipname", 120), spare(8)];
const STATIC_B_SHIP: &[Field] = &[
    uint("partno", 2),
    uint("ship_type", 8),
    text("vendorid", 18),
    uint("model", 4),
    uint("serial", 20),
    text("callsign", 42),
    uint("to_bow", 9),
    uint("to_stern", 9),
    uint("to_port", 6),
    uint("to_starboard", 6),
    spare(6),
];
const STATIC_B_CRAFT: &[Field] = &[
    uint("partno", 2),
    uint("ship_type", 8),
    text("vendorid", 18),
    uint("model", 4),
    uint("serial", 20),
    text("callsign", 42),
    uint("mothership_mmsi", 30),
    spare(6),
];
const POSITION_FAR: &[Field] = &[
    flag("accuracy"),
    flag("raim"),
    uint("status", 4),
    field("lon", 18, Kind::Degrees(600)),
    field("lat", 17, Kind::Degrees(600)),
    field("speed", 6, Kind::Whole),
    field("course", 9, Kind::Whole),
    flag("gnss"),
    spare(1),
];
// Binary messages in one slot (25) and in several (26): whether they name a vessel and an application.
const SLOT: [[&[Field]; 2]; 2] = [
    [
        &[flag("addressed"), flag("structured"), data("data", 128)],
        &[flag("addressed"), flag("structured"), uint("app_id", 16), data("data", 112)],
    ],
    [
        &[flag("addressed"), flag("structured"), uint("dest_mmsi", 30), data("data", 98)],
        &[flag("addressed"), flag("structured"), uint("dest_mmsi", 30), uint("app_id", 16), data("data", 82)],
    ],
];
// The decoder whose values are expected reads an application id in every addressed message of type 26,
// structured or not, and has the radio state only after the longest data; so do we.
const SLOTS_ADDRESSED: &[Field] = &[
    flag("addressed"),
    flag("structured"),
    uint("dest_mmsi", 30),
    uint("app_id", 16),
    data("data", 958),
    uint("radio", 20),
];
const SLOTS: [[&[Field]; 2]; 2] = [
    [
        &[flag("addressed"), flag("structured"), data("data", 1004), uint("radio", 20)],
        &[flag("addressed"), flag("structured"), uint("app_id", 16), data("data", 988), uint("radio", 20)],
    ],
    [SLOTS_ADDRESSED, SLOTS_ADDRESSED],
];

/// Vessels' own boats have numbers of the form 98MIDxxxx.
const AUXILIARY_MMSI: std::ops::RangeInclusive<u64> = 980_000_000..=989_999_999;

/// Why a message has no layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLayout {
    /// A message type that is not defined.
    Type,
    /// Type 24 has the parts 0 and 1 only.
    PartNumber,
}

/// The layout of a message of type `msg_type` with these bits: what follows the [`HEAD`].
pub fn layout(msg_type: u8, bits: &Bits) -> Result<&'static [Field], NoLayout> {
    let bit = |at| bits.unsigned(at, 1) as usize;
    Ok(match msg_type {
        1..=3 => POSITION_A,
        4 | 11 => BASE_STATION,
        5 => STATIC_A,
        6 => match (bits.unsigned(72, 10), bits.unsigned(82, 6)) {
            (1, 18) => CLEARANCE,
            _ => ADDRESSED,
        },
        7 | 13 => ACKNOWLEDGE,
        8 => match (bits.unsigned(40, 10), bits.unsigned(50, 6)) {
            (1, 11) => WEATHER_OLD,
            (1, 16) => TARGETS,
            (1, 31) => WEATHER,
            (200, 10) => INLAND_SHIP,
            _ => BROADCAST,
        },
        9 => AIRCRAFT,
        10 => TIME_INQUIRY,
        12 => ADDRESSED_TEXT,
        14 => BROADCAST_TEXT,
        15 => INTERROGATION,
        16 if bits.len() > 96 => ASSIGN_TWO,
        16 => ASSIGN_ONE,
        17 => DIFFERENTIAL,
        18 => POSITION_B,
        19 => POSITION_B_LONG,
        20 => LINK_SLOTS,
        21 => AID,
        22 if bit(139) == 1 => CHANNELS_ADDRESSED,
        22 => CHANNELS_AREA,
        23 => GROUP_ASSIGN,
        24 => match bits.unsigned(38, 2) {
            0 => STATIC_B_NAME,
            1 if AUXILIARY_MMSI.contains(&bits.unsigned(8, 30)) => STATIC_B_CRAFT,
            1 => STATIC_B_SHIP,
            _ => return Err(NoLayout::PartNumber),
        },
        25 => SLOT[bit(38)][bit(39)],
        26 => SLOTS[bit(38)][bit(39)],
        27 => POSITION_FAR,
        _ => return Err(NoLayout::Type),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ship_types_without_a_meaning_become_the_reserved_or_the_undefined_code() {
        let rows = [(0, 0), (19, 0), (24, 24), (27, 25), (38, 0), (39, 0), (46, 45), (49, 49), (57, 56)];
        let more = [(59, 59), (60, 60), (68, 65), (77, 75), (80, 80), (98, 95), (99, 99), (100, 0), (255, 0)];
        for (code, want) in rows.into_iter().chain(more) {
            assert_eq!(ship_type(code), want, "ship type {code}");
        }
    }

    #[test]
    fn layouts_have_the_length_of_their_message_type() {
        let bits = |layout: &[Field]| layout.iter().map(|f| f.bits).sum::<usize>() + 38;
        let rows: [(&[Field], usize); 9] = [
            (POSITION_A, 168),
            (BASE_STATION, 168),
            (STATIC_A, 424),
            (ACKNOWLEDGE, 168),
            (POSITION_B, 168),
            (POSITION_B_LONG, 312),
            (LINK_SLOTS, 160),
            (STATIC_B_SHIP, 168),
            (POSITION_FAR, 96),
        ];
        for (at, (layout, want)) in rows.into_iter().enumerate() {
            assert_eq!(bits(layout), want, "row {at}");
        }
    }
}
