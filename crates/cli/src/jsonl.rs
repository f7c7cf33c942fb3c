//! JSON lines, in and out (DESIGN.md section 8 fixes the keys).
//!
//! ```text
//! in   {"topic": "a/b", "payload": "text"}      "enc": "b64" for bytes, "ts" the event time (unix ns)
//! out  {"seq":1,"ts":1700000000000000000,"topic":"a/b","payload":"text"}   "enc", "event_ts" where needed
//! ```

use std::borrow::Cow;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// A message as a line tells it.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub topic: Cow<'a, str>,
    pub payload: Cow<'a, [u8]>,
    pub event_time: Option<i64>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<Cow<'a, str>>,
    #[serde(borrow)]
    enc: Option<Cow<'a, str>>,
    ts: Option<i64>,
    headers: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict<'a> {
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<Cow<'a, str>>,
    #[serde(borrow)]
    enc: Option<Cow<'a, str>>,
    ts: Option<i64>,
    headers: Option<serde::de::IgnoredAny>,
}

/// Parses a line; the error says what is wrong with it and what would be right.
pub fn parse(line: &[u8], ignore_unknown: bool) -> Result<Line<'_>, String> {
    let text = std::str::from_utf8(line).map_err(|bad| format!("not UTF-8 at byte {}", bad.valid_up_to()))?;
    let wrong = |error: serde_json::Error| format!("{error}");
    let raw = if ignore_unknown {
        serde_json::from_str::<Raw>(text).map_err(wrong)?
    } else {
        let Strict { topic, payload, enc, ts, headers } = serde_json::from_str::<Strict>(text).map_err(|error| {
            let hint =
                if error.to_string().contains("unknown field") { " (--ignore-unknown passes over others)" } else { "" };
            format!("{error}{hint}")
        })?;
        Raw { topic, payload, enc, ts, headers }
    };
    if raw.headers.is_some() {
        return Err("the key \"headers\" is reserved".into());
    }
    let topic = raw.topic.ok_or("the key \"topic\" is missing")?;
    let text = raw.payload.ok_or("the key \"payload\" is missing")?;
    let payload = match raw.enc.as_deref() {
        None => match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        Some("b64") => {
            Cow::Owned(STANDARD.decode(text.as_bytes()).map_err(|bad| format!("payload is not base64: {bad}"))?)
        }
        Some(other) => return Err(format!("enc {other:?} is unknown: \"b64\" or no enc is wanted")),
    };
    Ok(Line { topic, payload, event_time: raw.ts })
}

/// Writes one message as a line.
pub fn write(
    out: &mut impl Write,
    sequence: u64,
    timestamp: i64,
    topic: &str,
    payload: &[u8],
    event_time: Option<i64>,
) -> io::Result<()> {
    write!(out, "{{\"seq\":{sequence},\"ts\":{timestamp},\"topic\":")?;
    serde_json::to_writer(&mut *out, topic)?;
    out.write_all(b",\"payload\":")?;
    match std::str::from_utf8(payload) {
        Ok(text) => serde_json::to_writer(&mut *out, text)?,
        Err(_) => write!(out, "\"{}\",\"enc\":\"b64\"", STANDARD.encode(payload))?,
    }
    if let Some(time) = event_time {
        write!(out, ",\"event_ts\":{time}")?;
    }
    out.write_all(b"}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_with_text_bytes_and_event_time() {
        let line = parse(br#"{"topic": "a/b", "payload": "h\u00e9", "ts": 5}"#, false).unwrap();
        assert_eq!((&*line.topic, &*line.payload, line.event_time), ("a/b", "hé".as_bytes(), Some(5)));
        let line = parse(br#"{"topic": "a/b", "payload": "AAH/", "enc": "b64"}"#, false).unwrap();
        assert_eq!(&*line.payload, [0, 1, 255]);
    }

    #[test]
    fn a_bad_line_says_what_is_wrong_with_it() {
        for (line, says) in [
            (&br#"{"payload": "x"}"#[..], "\"topic\" is missing"),
            (br#"{"topic": "a"}"#, "\"payload\" is missing"),
            (br#"{"topic": "a", "payload": "x", "color": 1}"#, "--ignore-unknown"),
            (br#"{"topic": "a", "payload": "x", "headers": {}}"#, "reserved"),
            (br#"{"topic": "a", "payload": "x", "enc": "hex"}"#, "\"b64\""),
            (br#"{"topic": "a", "payload": "*", "enc": "b64"}"#, "base64"),
            (b"\xff", "UTF-8 at byte 0"),
            (b"", "EOF"),
        ] {
            let error = parse(line, false).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        parse(br#"{"topic": "a", "payload": "x", "color": 1}"#, true).unwrap();
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        write(&mut out, 1, 2, "a/\"b\"", "line\nbreak".as_bytes(), Some(3)).unwrap();
        write(&mut out, 2, 2, "c", &[0xff, 0], None).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"seq\":1,\"ts\":2,\"topic\":\"a/\\\"b\\\"\",\"payload\":\"line\\nbreak\",\"event_ts\":3}\n\
             {\"seq\":2,\"ts\":2,\"topic\":\"c\",\"payload\":\"/wA=\",\"enc\":\"b64\"}\n"
        );
    }
}
