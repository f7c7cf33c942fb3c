//! JSON lines, in and out (DESIGN.md section 8 fixes the keys).
//!
//! ```text
//! in   {"topic": "a/b", "payload": "text"}      "enc": "b64" for bytes, "ts" the event time (unix ns), "headers"
//! out  {"seq":1,"ts":1700000000000000000,"topic":"a/b","payload":"text"}   "enc", "event_ts", "headers" where needed
//!
//! headers   {"trace": "4711", "raw": {"b64": "AAH/"}}      or, where a key comes twice, [["trace", "1"], ["trace", "2"]]
//! ```

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use arioso::Received;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// A header: key and value.
pub type Pair<'a> = (Cow<'a, str>, Vec<u8>);

/// A message as a line tells it.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub topic: Cow<'a, str>,
    pub payload: Cow<'a, [u8]>,
    pub event_time: Option<i64>,
    pub headers: Vec<Pair<'a>>,
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
    #[serde(borrow)]
    headers: Option<Headers<'a>>,
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
    #[serde(borrow)]
    headers: Option<Headers<'a>>,
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
    let headers = raw.headers.map_or_else(|| Ok(Vec::new()), Headers::read)?;
    Ok(Line { topic, payload, event_time: raw.ts, headers })
}

/// Headers as a line tells them, in their order.
struct Headers<'a>(Vec<(Cow<'a, str>, Value)>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Bytes { b64: String },
}

impl<'a> Headers<'a> {
    fn read(self) -> Result<Vec<Pair<'a>>, String> {
        let one = |(key, value): (Cow<'a, str>, Value)| match value {
            Value::Text(text) => Ok((key, text.into_bytes())),
            Value::Bytes { b64 } => match STANDARD.decode(b64.as_bytes()) {
                Ok(bytes) => Ok((key, bytes)),
                Err(bad) => Err(format!("header {key:?} is not base64: {bad}")),
            },
        };
        self.0.into_iter().map(one).collect()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Headers<'a>, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Headers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("headers as an object or as pairs, each value a string or {\"b64\": \"...\"}")
            }

            fn visit_map<M: serde::de::MapAccess<'de>>(self, mut map: M) -> Result<Headers<'de>, M::Error> {
                let mut all = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    all.push((Cow::Owned(key), value));
                }
                Ok(Headers(all))
            }

            fn visit_seq<S: serde::de::SeqAccess<'de>>(self, mut seq: S) -> Result<Headers<'de>, S::Error> {
                let mut all = Vec::new();
                while let Some((key, value)) = seq.next_element::<(String, Value)>()? {
                    all.push((Cow::Owned(key), value));
                }
                Ok(Headers(all))
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// Writes one message as a line.
pub fn write(out: &mut impl Write, message: &Received<'_>) -> io::Result<()> {
    let (sequence, timestamp) = (message.sequence(), message.timestamp());
    write!(out, "{{\"seq\":{sequence},\"ts\":{timestamp},\"topic\":")?;
    serde_json::to_writer(&mut *out, message.topic())?;
    out.write_all(b",\"payload\":")?;
    match std::str::from_utf8(message.payload()) {
        Ok(text) => serde_json::to_writer(&mut *out, text)?,
        Err(_) => write!(out, "\"{}\",\"enc\":\"b64\"", STANDARD.encode(message.payload()))?,
    }
    if let Some(time) = message.event_time() {
        write!(out, ",\"event_ts\":{time}")?;
    }
    let headers: Vec<_> = message.headers().collect();
    if !headers.is_empty() {
        out.write_all(b",\"headers\":")?;
        write_headers(out, &headers)?;
    }
    out.write_all(b"}\n")
}

fn write_headers(out: &mut impl Write, headers: &[(&[u8], &[u8])]) -> io::Result<()> {
    let twice = headers.iter().enumerate().any(|(at, (key, _))| headers[..at].iter().any(|(other, _)| other == key));
    let (open, between, close) = if twice { ("[[", ",", "]]") } else { ("{", ":", "}") };
    out.write_all(open.as_bytes())?;
    for (at, (key, value)) in headers.iter().enumerate() {
        if at > 0 {
            out.write_all(if twice { b"],[" } else { b"," })?;
        }
        serde_json::to_writer(&mut *out, &String::from_utf8_lossy(key))?;
        out.write_all(between.as_bytes())?;
        match std::str::from_utf8(value) {
            Ok(text) => serde_json::to_writer(&mut *out, text)?,
            Err(_) => write!(out, "{{\"b64\":\"{}\"}}", STANDARD.encode(value))?,
        }
    }
    out.write_all(close.as_bytes())
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
            (br#"{"topic": "a", "payload": "x", "headers": 1}"#, "headers as an object or as pairs"),
            (br#"{"topic": "a", "payload": "x", "headers": {"k": {"b64": "*"}}}"#, "\"k\" is not base64"),
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
    fn headers_keep_their_order_whether_they_come_as_an_object_or_as_pairs() {
        let wanted = [("b".into(), b"1".to_vec()), ("a".into(), vec![0, 255])];
        let line = parse(br#"{"topic": "a", "payload": "", "headers": {"b": "1", "a": {"b64": "AP8="}}}"#, false);
        assert_eq!(line.unwrap().headers, wanted);
        let line = parse(br#"{"topic": "a", "payload": "", "headers": [["b", "1"], ["b", "2"]]}"#, false).unwrap();
        assert_eq!(line.headers, [("b".into(), b"1".to_vec()), ("b".into(), b"2".to_vec())]);
        let mut out = Vec::new();
        write_headers(&mut out, &[(b"b", b"1"), (b"a", &[0, 255])]).unwrap();
        out.push(b' ');
        write_headers(&mut out, &[(b"b", b"1"), (b"b", b"2")]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"b":"1","a":{"b64":"AP8="}} [["b","1"],["b","2"]]"#);
    }
}
