//! The bytes of every frame, as they must stay.

use arioso_stream::Sequence;
use bytes::{Bytes, BytesMut};
use expect_test::{Expect, expect};

use super::{bytes_of, frames_of, samples};
use crate::*;

/// Writes each frame on channel 0x0201 and shows its bytes: the header, then the body by eights.
fn check(frames: Vec<Frame>, expect: Expect) {
    let mut text = String::new();
    for frame in frames {
        let bytes = bytes_of(0x0201, &frame);
        let (head, body) = bytes.split_at(FRAME_HEADER_BYTES);
        text.push_str(&format!("{}: {}\n", frame.name(), hex(head)));
        for part in body.chunks(16) {
            let halves: Vec<String> = part.chunks(8).map(hex).collect();
            text.push_str(&format!("    {}\n", halves.join("  ")));
        }
        assert_eq!(frames_of(&bytes).unwrap(), [(0x0201, frame)]);
    }
    expect.assert_eq(&text);
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

#[test]
fn the_samples_hold_every_type_of_frame() {
    let mut kinds: Vec<u8> = samples::all().iter().map(Frame::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut known: Vec<u8> = Frame::KINDS.iter().map(|(kind, _)| *kind).collect();
    known.sort_unstable();
    assert_eq!(kinds, known);
}

#[test]
fn every_type_in_the_document_is_a_frame_of_that_name() {
    let document = include_str!("../../../../docs/protocol.md");
    let body = document.split("## 6. Error numbers").next().unwrap();
    let mut rows = 0;
    for line in body.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Ok(kind) = cells[1].parse::<u8>() else {
            continue;
        };
        assert!(Frame::KINDS.contains(&(kind, cells[2])), "{kind} {}", cells[2]);
        rows += 1;
    }
    assert_eq!(rows, Frame::KINDS.len());
}

#[test]
fn opening_frames_keep_their_bytes() {
    check(
        samples::opening(),
        expect![[r#"
        hello: 2e 00 00 00 01 00 01 02
            41 52 49 4f 01 00 02 00  03 00 00 00 00 00 00 00
            04 00 00 00 05 00 00 00  00 00 00 00 00 00 00 00
            00 00 00 00 02 00 6d 65  02 00 00 00 01 02
        welcome: 46 00 00 00 02 00 01 02
            01 00 00 00 02 00 00 00  00 00 00 00 03 00 00 00
            04 00 00 00 05 00 00 00  00 00 00 00 00 00 00 00
            00 00 00 00 06 00 00 00  00 00 00 00 07 00 00 00
            08 00 00 00 09 00 00 00  0a 00 00 00 00 00 00 00
            04 00 73 68 69 70
        ping: 08 00 00 00 03 00 01 02
            01 00 00 00 00 00 00 00
        pong: 08 00 00 00 04 00 01 02
            02 00 00 00 00 00 00 00
        error: 1e 00 00 00 05 00 01 02
            12 00 00 00 01 00 00 00  02 00 00 00 00 00 00 00
            03 00 00 00 00 00 00 00  04 00 66 75 6c 6c
        goodbye: 00 00 00 00 06 00 01 02
    "#]],
    );
}

#[test]
fn publishing_frames_keep_their_bytes() {
    check(
        samples::publishing(),
        expect![[r#"
        topics: 14 00 00 00 10 00 01 02
            02 00 00 00 01 00 00 00  03 00 61 2f 62 02 00 00
            00 01 00 63
        open publisher: 10 00 00 00 11 00 01 02
            01 00 00 00 00 00 00 00  06 00 6f 72 64 65 72 73
        publisher opened: 10 00 00 00 12 00 01 02
            01 00 00 00 02 00 00 00  03 00 00 00 00 00 00 00
        publish: 38 00 00 00 13 00 01 02
            01 00 00 00 00 00 00 00  01 00 00 00 01 00 00 00
            05 00 00 00 01 00 00 00  00 00 00 00 00 00 00 00
            00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
            68 65 6c 6c 6f 00 00 00
        publish: 48 00 00 00 13 00 01 02
            01 00 00 00 00 00 00 00  01 00 00 00 00 01 0c 00
            09 00 00 00 00 00 00 00  61 2f 2a 2a 00 00 00 00
            05 00 00 00 01 00 00 00  00 00 00 00 00 00 00 00
            00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
            68 65 6c 6c 6f 00 00 00
        skip: 08 00 00 00 14 00 01 02
            01 00 00 00 00 00 00 00
        replies: 48 00 00 00 15 00 01 02
            02 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00
            02 00 00 00 00 00 01 00  03 00 00 00 00 00 00 00
            00 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00
            01 00 00 00 12 00 00 00  00 00 00 00 00 00 00 00
            04 00 00 00 00 00 00 00
        close publisher: 00 00 00 00 16 00 01 02
        closed: 00 00 00 00 17 00 01 02
    "#]],
    );
}

#[test]
fn subscribing_frames_keep_their_bytes() {
    check(
        samples::subscribing(),
        expect![[r#"
            subscribe: 3b 00 00 00 20 00 01 02
                03 01 00 00 02 00 00 00  02 00 00 00 00 00 00 00
                03 00 00 00 00 00 00 00  04 00 00 00 00 00 00 00
                00 00 00 00 00 00 00 00  04 00 6d 69 6e 65 02 00
                00 00 04 00 61 2f 2a 2a  01 00 62
            more filters: 0b 00 00 00 21 00 01 02
                00 00 00 00 01 00 00 00  01 00 63
            subscribed: 20 00 00 00 22 00 01 02
                01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00
                03 00 00 00 00 00 00 00  04 00 00 00 00 00 00 00
            credit: 08 00 00 00 23 00 01 02
                01 00 00 00 00 00 00 00
            unsubscribe: 00 00 00 00 24 00 01 02
            names: 0d 00 00 00 25 00 01 02
                01 00 00 00 07 00 00 00  03 00 61 2f 62
            deliver: 38 00 00 00 26 00 01 02
                01 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00
                05 00 00 00 01 00 00 00  00 00 00 00 00 00 00 00
                00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
                68 65 6c 6c 6f 00 00 00
            safe: 08 00 00 00 27 00 01 02
                01 00 00 00 00 00 00 00
            block: 1e 00 00 00 28 00 01 02
                01 00 02 00 03 00 00 00  04 00 00 00 00 00 00 00
                05 00 00 00 00 00 00 00  70 61 63 6b 65 64
            trimmed: 10 00 00 00 29 00 01 02
                01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00
            go on: 08 00 00 00 2a 00 01 02
                01 00 00 00 00 00 00 00
            ended: 0c 00 00 00 2b 00 01 02
                01 00 00 00 00 00 00 00  1e 00 00 00
        "#]],
    );
}

#[test]
fn requests_keep_their_bytes() {
    check(
        samples::requests(),
        expect![[r#"
            request: 13 00 00 00 30 00 01 02
                01 00 00 00 04 00 61 2f  2a 2a 03 00 61 2f 62 01
                00 00 00
            request: 0b 00 00 00 30 00 01 02
                02 00 00 00 01 00 70 01  00 00 00
            request: 07 00 00 00 30 00 01 02
                03 00 00 00 01 00 70
            request: 1b 00 00 00 30 00 01 02
                04 00 00 00 03 00 00 00  00 00 00 00 ff ff ff ff
                ff ff ff ff 01 00 00 00  01 00 61
            request: 0a 00 00 00 30 00 01 02
                05 00 00 00 00 00 01 00  00 00
            request: 19 00 00 00 30 00 01 02
                06 00 00 00 01 00 63 01  00 00 00 00 00 00 00 02
                00 00 00 01 00 61 01 00  62
            request: 07 00 00 00 30 00 01 02
                07 00 00 00 01 00 63
            request: 13 00 00 00 30 00 01 02
                08 00 00 00 01 00 63 01  00 00 00 02 00 00 00 00
                00 00 00
            request: 04 00 00 00 30 00 01 02
                09 00 00 00
            request: 14 00 00 00 30 00 01 02
                0a 00 00 00 0e 00 2f 62  61 63 6b 75 70 2f 6d 6f
                6e 64 61 79
            request: 1b 00 00 00 30 00 01 02
                0d 00 00 00 01 00 00 00  00 00 00 00 02 00 00 00
                00 00 00 00 01 00 00 00  01 00 61
            request: 05 00 00 00 30 00 01 02
                63 00 00 00 3f
        "#]],
    );
}

#[test]
fn answers_keep_their_bytes() {
    check(
        samples::answers(),
        expect![[r#"
            answer: 23 00 00 00 31 00 01 02
                01 00 01 00 01 00 00 00  01 00 61 01 00 00 00 00
                00 00 00 02 00 00 00 00  00 00 00 03 00 00 00 00
                00 00 00
            answer: 23 00 00 00 31 00 01 02
                02 00 00 00 01 00 00 00  01 00 70 01 00 00 00 02
                00 00 00 03 00 00 00 00  00 00 00 fc ff ff ff ff
                ff ff ff
            answer: 08 00 00 00 31 00 01 02
                03 00 00 00 00 00 00 00
            answer: 38 00 00 00 31 00 01 02
                04 00 00 00 01 00 00 00  01 00 00 00 00 00 00 00
                02 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00
                04 00 00 00 00 00 00 00  05 00 00 00 00 00 00 00
                06 00 00 00 00 00 00 00
            answer: 25 00 00 00 31 00 01 02
                05 00 00 00 01 00 00 00  01 00 63 01 00 00 00 00
                00 00 00 02 00 00 00 00  00 00 00 02 00 00 00 01
                00 61 01 00 62
            answer: 38 00 00 00 31 00 01 02
                09 00 00 00 01 00 00 00  01 00 00 00 00 00 00 00
                02 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00
                04 00 00 00 00 00 00 00  05 00 00 00 00 00 00 00
                06 00 00 00 00 00 00 00
            answer: 30 00 00 00 31 00 01 02
                0d 00 00 00 01 00 00 00  01 00 00 00 00 00 00 00
                02 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00
                04 00 00 00 00 00 00 00  05 00 00 00 00 00 00 00
            answer: 09 00 00 00 31 00 01 02
                63 00 00 00 01 00 00 00  3f
        "#]],
    );
}

#[test]
fn a_list_written_row_by_row_has_the_bytes_of_the_frame() {
    let Some(Frame::Replies(frame)) = samples::publishing().into_iter().nth(6) else {
        panic!("the seventh is replies");
    };
    let mut out = BytesMut::new();
    let mut writer = ListWriter::begin::<Replies>(3, &mut out);
    for reply in frame.replies.iter() {
        writer.push(&reply);
    }
    assert_eq!(writer.bytes(), 8 + 8 + 64);
    assert_eq!(writer.finish(), 2);
    assert_eq!(ListWriter::begin::<Replies>(4, &mut out).finish(), 0);
    assert_eq!(out, bytes_of(3, &frame.into()));
}

#[test]
fn the_parts_of_a_deliver_frame_make_the_frame() {
    let records = samples::records();
    let twice = [&records[..], &records[..]].concat();
    let frame = Deliver { through: Sequence(8), count: 2, records: Bytes::from(twice.clone()) };
    let want = bytes_of(5, &frame.into());

    let mut parts = Vec::new();
    let mut scratch = BytesMut::new();
    Ping { value: 1 }.encode(0, &mut scratch);
    let before = scratch.clone();
    deliver_parts(5, Sequence(8), 2, [records.clone(), records], &mut scratch, &mut parts);
    assert_eq!(parts.len(), 3);
    assert_eq!(parts.concat(), [&before[..], &want[..]].concat());

    let mut copied = BytesMut::new();
    encode_deliver(5, Sequence(8), 2, &twice, &mut copied);
    assert_eq!(copied, want);
}

#[test]
fn a_publish_prefix_and_its_records_make_the_frame() {
    for frame in samples::publishing() {
        let want = bytes_of(5, &frame);
        let Frame::Publish(publish) = frame else {
            continue;
        };
        let condition = publish.condition.as_ref();
        let mut out = BytesMut::new();
        publish_prefix(
            5,
            publish.first,
            publish.messages,
            publish.level,
            publish.atomic,
            condition,
            publish.records.len(),
            &mut out,
        );
        assert_eq!(out.len(), publish_prefix_bytes(condition));
        assert_eq!([&out[..], &publish.records[..]].concat(), want);
    }
}
