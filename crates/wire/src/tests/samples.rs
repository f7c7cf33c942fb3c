//! At least one frame of every type, with every field different from its neighbours.

use arioso_stream::Sequence;
use arioso_stream::record::push_record;
use bytes::{Bytes, BytesMut};

use crate::*;

pub(super) fn records() -> Bytes {
    let mut out = BytesMut::new();
    push_record(&mut out, 1, 0, &[], b"hello");
    out.freeze()
}

pub(super) fn opening() -> Vec<Frame> {
    vec![
        Hello {
            magic: MAGIC,
            version_min: 1,
            version_max: 2,
            capabilities: 3,
            frame_bytes_max: 4,
            stream_id: 5,
            client_name: "me".into(),
            auth: Blob(Bytes::from_static(b"\x01\x02")),
        }
        .into(),
        Welcome {
            version: 1,
            capabilities: 2,
            frame_bytes_max: 3,
            heartbeat_ms: 4,
            stream_id: 5,
            server_epoch: 6,
            publish_window_bytes: 7,
            publish_window_messages: 8,
            payload_bytes_max: 9,
            next_sequence: Sequence(10),
            stream_name: "ship".into(),
        }
        .into(),
        Ping { value: 1 }.into(),
        Pong { value: 2 }.into(),
        ErrorFrame { code: Code::Busy, retry_after_ms: 1, detail_a: 2, detail_b: 3, text: "full".into() }.into(),
        Goodbye {}.into(),
    ]
}

pub(super) fn publishing() -> Vec<Frame> {
    let publish = Publish {
        first: 1,
        messages: 1,
        level: AckLevel::Sequenced,
        atomic: false,
        condition: None,
        records: records(),
    };
    vec![
        Topics { topics: List::collect([(1, "a/b"), (2, "c")]) }.into(),
        OpenPublisher { next: 1, name: "orders".into() }.into(),
        PublisherOpened { publisher: 1, epoch: 2, last_consumed: 3 }.into(),
        publish.clone().into(),
        Publish {
            level: AckLevel::Durable,
            atomic: true,
            condition: Some(Condition { sequence: Sequence(9), filter: "a/**".into() }),
            ..publish
        }
        .into(),
        Skip { next: 1 }.into(),
        Replies {
            replies: List::collect([
                Reply {
                    first: 1,
                    messages: 2,
                    code: Code::Ok,
                    level: AckLevel::Sequenced,
                    sequence: Sequence(3),
                    retry_after_ms: 0,
                },
                Reply {
                    first: 3,
                    messages: 1,
                    code: Code::Busy,
                    level: AckLevel::Durable,
                    sequence: Sequence(0),
                    retry_after_ms: 4,
                },
            ]),
        }
        .into(),
        ClosePublisher {}.into(),
        Closed {}.into(),
    ]
}

pub(super) fn subscribing() -> Vec<Frame> {
    vec![
        Subscribe {
            more: true,
            until_end: true,
            blocks: false,
            lanes: 1,
            begin: Begin::Sequence(Sequence(2)),
            credit_bytes: 3,
            stream_id: 4,
            cursor: "mine".into(),
            filters: List::collect(["a/**", "b"]),
        }
        .into(),
        MoreFilters { more: false, filters: List::collect(["c"]) }.into(),
        Subscribed { starts_at: Sequence(1), newest_settled: Sequence(2), first_kept: Sequence(3), holder_epoch: 4 }
            .into(),
        Credit { bytes: 1 }.into(),
        Unsubscribe {}.into(),
        Names { topics: List::collect([(7, "a/b")]) }.into(),
        Deliver { through: Sequence(1), count: 1, records: records() }.into(),
        Safe { through: Sequence(1) }.into(),
        Block {
            lane: 1,
            encoding: 2,
            record_bytes: 3,
            first: Sequence(4),
            last: Sequence(5),
            packed: Bytes::from_static(b"packed"),
        }
        .into(),
        Trimmed { wanted: Sequence(1), first: Sequence(2) }.into(),
        GoOn { begin: Sequence(1) }.into(),
        Ended { through: Sequence(1), code: Code::Damaged }.into(),
    ]
}

pub(super) fn requests() -> Vec<Frame> {
    [
        Request::Topics { filter: "a/**".into(), after: "a/b".into(), rows_max: 1 },
        Request::Publishers { after: "p".into(), rows_max: 1 },
        Request::DropPublisher { name: "p".into() },
        Request::Explain { begin: Begin::Time(-1), filters: List::collect(["a"]) },
        Request::Cursors { after: "".into(), rows_max: 1 },
        Request::SetCursor { name: "c".into(), next: Sequence(1), filters: List::collect(["a", "b"]) },
        Request::DropCursor { name: "c".into() },
        Request::Commit { name: "c".into(), holder_epoch: 1, next: Sequence(2) },
        Request::Status,
        Request::BackUp { folder: Text::from("/backup/monday") },
        Request::Sums { first: Sequence(1), last: Sequence(2), filters: List::collect(["a"]) },
        Request::Other { kind: 99, body: Bytes::from_static(b"?") },
    ]
    .into_iter()
    .map(Frame::from)
    .collect()
}

pub(super) fn answers() -> Vec<Frame> {
    [
        Rows::Topics(List::collect([TopicRow { topic: "a", messages: 1, bytes: 2, last: Sequence(3) }])),
        Rows::Publishers(List::collect([PublisherRow { name: "p", id: 1, epoch: 2, last_consumed: 3, last_used: -4 }])),
        Rows::Done { kind: 3 },
        Rows::Explain(ExplainRow {
            segments: 1,
            stores: 2,
            bytes_to_read: 3,
            bytes_useful: 4,
            messages: 5,
            tip_messages: 6,
        }),
        Rows::Cursors(List::collect([CursorRow {
            name: "c",
            next: Sequence(1),
            committed_at: 2,
            filters: List::collect(["a", "b"]),
        }])),
        Rows::Status(StatusRow {
            next_sequence: Sequence(1),
            settled: Sequence(2),
            first_kept: Sequence(3),
            topics: 4,
            tip_bytes: 5,
            tip_first: Sequence(6),
        }),
        Rows::Sums(List::collect([SumRow { first: Sequence(1), last: Sequence(2), messages: 3, bytes: 4, sum: 5 }])),
        Rows::Other { kind: 99, count: 1, rows: Bytes::from_static(b"?") },
    ]
    .into_iter()
    .map(|rows| {
        let more = rows.kind() == 1;
        Answer { more, rows }.into()
    })
    .collect()
}

pub(super) fn all() -> Vec<Frame> {
    [opening(), publishing(), subscribing(), requests(), answers()].concat()
}
