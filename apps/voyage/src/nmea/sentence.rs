//! One NMEA 0183 sentence that carries AIS.
//!
//! ```text
//! \g:1-2-73874,n:157036*1E\!AIVDM,2,1,3,B,55P5TL01VIaAL@7W,0*50,r003669945
//! └── tag block, skipped ─┘││ │   │ │ │ │ │                │ │  └ station fields, skipped
//!                  talker ─┘│ │   │ │ │ │ └ payload        │ └ checksum of all between ! and *
//!                     kind ─┘ parts, part, sequence, channel └ fill bits
//! ```

/// Most parts a message may have: one digit in the sentence.
pub const PARTS_MAX: u8 = 9;

/// Fill bits at the end of a payload are fewer than one character's six.
const FILL_BITS_MAX: u8 = 5;

/// Which ships' reports a sentence carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `VDM`: of other vessels.
    Others,
    /// `VDO`: of the own vessel.
    Own,
}

impl Kind {
    /// As in the sentence.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Others => "VDM",
            Kind::Own => "VDO",
        }
    }
}

/// The radio channel, as far as a sentence tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// The field is empty.
    Unknown,
    /// One of `A`, `B`, `1`, `2`.
    Named(u8),
}

impl Channel {
    /// As in the sentence.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Channel::Named(b'A') => "A",
            Channel::Named(b'B') => "B",
            Channel::Named(b'1') => "1",
            Channel::Named(b'2') => "2",
            _ => "",
        }
    }
}

/// A sentence whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentence<'a> {
    /// Two printable characters that name the sender's kind, such as `AI` or `BS`.
    pub talker: [u8; 2],
    /// Of the own vessel or others.
    pub kind: Kind,
    /// How many parts the message has, 1 to 9.
    pub parts: u8,
    /// Which of them this is, from 1.
    pub part: u8,
    /// What holds the parts of one message together; may be missing.
    pub group: Option<u8>,
    /// Radio channel.
    pub channel: Channel,
    /// Six bits a character, armoured.
    pub payload: &'a [u8],
    /// Bits at the end of the payload that mean nothing.
    pub fill_bits: u8,
}

/// Why a line that should hold a sentence does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reject {
    /// It has not the seven fields, each of its form, and a checksum.
    Malformed,
    /// Its checksum is not that of its bytes.
    BadChecksum,
}

/// The sentence in `line` from its `!` on, if the line means to hold one and is no comment.
#[must_use]
pub fn find(line: &[u8]) -> Option<&[u8]> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let starts = |at: usize| {
        let head = line.get(at..at + 7)?;
        let talker_fits = head[1..3].iter().all(|b| b.is_ascii_graphic() && *b != b',');
        (head[0] == b'!' && talker_fits && matches!(&head[3..7], b"VDM," | b"VDO,")).then_some(&line[at..])
    };
    (0..line.len()).find_map(starts)
}

/// Reads a sentence that [`find`] has found.
pub fn parse(sentence: &[u8]) -> Result<Sentence<'_>, Reject> {
    let body = sentence.get(1..).ok_or(Reject::Malformed)?;
    let star = body.iter().position(|b| *b == b'*').ok_or(Reject::Malformed)?;
    let (body, after) = (&body[..star], &body[star + 1..]);
    let checksum = match after {
        [high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
        _ => None,
    };
    let checksum = checksum.ok_or(Reject::Malformed)?;

    let mut fields = body.split(|b| *b == b',');
    let mut next = || fields.next().ok_or(Reject::Malformed);
    let tag: [u8; 5] = next()?.try_into().map_err(|_| Reject::Malformed)?;
    let parts = digit(next()?).ok_or(Reject::Malformed)?;
    let part = digit(next()?).ok_or(Reject::Malformed)?;
    let group = match next()? {
        [] => None,
        field => Some(digit(field).ok_or(Reject::Malformed)?),
    };
    let channel = match next()? {
        [] => Channel::Unknown,
        [name @ (b'A' | b'B' | b'1' | b'2')] => Channel::Named(*name),
        _ => return Err(Reject::Malformed),
    };
    let payload = next()?;
    let fill_bits = digit(next()?).ok_or(Reject::Malformed)?;
    let kind = match &tag[2..] {
        b"VDM" => Kind::Others,
        b"VDO" => Kind::Own,
        _ => return Err(Reject::Malformed),
    };
    let counts_fit = (1..=PARTS_MAX).contains(&parts) && (1..=parts).contains(&part);
    let payload_fits = payload.iter().all(|b| is_armour(*b));
    if fields.next().is_some() || !counts_fit || !payload_fits || fill_bits > FILL_BITS_MAX {
        return Err(Reject::Malformed);
    }
    if body.iter().fold(0, |sum, b| sum ^ b) != checksum {
        return Err(Reject::BadChecksum);
    }
    Ok(Sentence { talker: [tag[0], tag[1]], kind, parts, part, group, channel, payload, fill_bits })
}

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

fn digit(field: &[u8]) -> Option<u8> {
    match field {
        [d @ b'0'..=b'9'] => Some(d - b'0'),
        _ => None,
    }
}

fn is_armour(byte: u8) -> bool {
    matches!(byte, b'0'..=b'W' | b'`'..=b'w')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"!AIVDM,1,1,,A,13HOI:0P0000VOHLCnHQKwvL05Ip,0*23";

    fn read(line: &[u8]) -> Option<Result<Sentence<'_>, Reject>> {
        find(line).map(parse)
    }

    #[test]
    fn a_sentence_stands_after_a_tag_block_and_before_station_fields() {
        let mut line = b"\\s:r003669945,c:1241544035*4A\\".to_vec();
        line.extend_from_slice(GOOD);
        line.extend_from_slice(b",r003669945,1241544035");
        let got = read(&line).unwrap().unwrap();
        assert_eq!((got.talker, got.kind, got.channel), (*b"AI", Kind::Others, Channel::Named(b'A')));
        assert_eq!(got.payload, b"13HOI:0P0000VOHLCnHQKwvL05Ip");
    }

    #[test]
    fn other_sentences_comments_and_text_are_no_candidates() {
        for line in [
            &b"$GPGGA,184353.07,1929.045,S,02410.506,E,1,04,2.6,100.00,M,-33.9,M,,0000*6D"[..],
            b"# !AIVDM,1,1,,A,13HOI:0P0000VOHLCnHQKwvL05Ip,0*23",
            b"AIVDM,1,1,,A,13HOI:0P0000VOHLCnHQKwvL05Ip,0*23",
            b"!,VDM,1",
            b"",
            b"!",
        ] {
            assert_eq!(read(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_changed_byte_breaks_the_checksum() {
        let mut line = GOOD.to_vec();
        line[20] = b'3';
        assert_eq!(read(&line), Some(Err(Reject::BadChecksum)));
    }

    #[test]
    fn each_field_out_of_its_form_is_malformed() {
        let rows: [(&str, &str); 10] = [
            ("no checksum", "AIVDM,1,1,,A,13HOI,0"),
            ("parts 0", "AIVDM,0,1,,A,13HOI,0"),
            ("part past parts", "AIVDM,1,2,,A,13HOI,0"),
            ("group is a letter", "AIVDM,1,1,x,A,13HOI,0"),
            ("channel C", "AIVDM,1,1,,C,13HOI,0"),
            ("payload character", "AIVDM,1,1,,A,13H~I,0"),
            ("fill bits 6", "AIVDM,1,1,,A,13HOI,6"),
            ("a field less", "AIVDM,1,1,A,13HOI,0"),
            ("a field more", "AIVDM,1,1,,A,13HOI,0,0"),
            ("one checksum digit", "AIVDM,1,1,,A,13HOI,0"),
        ];
        for (what, body) in rows {
            let sum = body.bytes().fold(0, |sum, b| sum ^ b);
            let line = match what {
                "no checksum" => format!("!{body}"),
                "one checksum digit" => format!("!{body}*7"),
                _ => format!("!{body}*{sum:02X}"),
            };
            assert_eq!(read(line.as_bytes()), Some(Err(Reject::Malformed)), "{what}: {line}");
        }
    }
}
