//! Frames in any pieces, and bytes that are no frames.

use arioso_stream::Sequence;
use bytes::{BufMut, Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{bytes_of, frames_of, samples};
use crate::*;

fn some_text() -> impl Strategy<Value = Text> {
    "\\PC{0,12}".prop_map(Text::from)
}

fn some_code() -> impl Strategy<Value = Code> {
    any::<u16>().prop_map(Code::from_number)
}

fn some_level() -> impl Strategy<Value = AckLevel> {
    prop_oneof![Just(AckLevel::Durable), Just(AckLevel::Sequenced)]
}

fn some_begin() -> impl Strategy<Value = Begin> {
    prop_oneof![
        Just(Begin::Start),
        Just(Begin::Live),
        any::<u64>().prop_map(|value| Begin::Sequence(Sequence(value))),
        any::<i64>().prop_map(Begin::Time),
        Just(Begin::Last),
    ]
}

fn some_filters() -> impl Strategy<Value = List<Filters>> {
    vec(some_text(), 0..4).prop_map(|filters| List::collect(filters.iter().map(Text::as_str)))
}

fn some_bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..64).prop_map(Bytes::from)
}

fn some_publish() -> impl Strategy<Value = Frame> {
    let condition = prop::option::of((any::<u64>(), some_text()));
    (any::<u64>(), any::<u32>(), some_level(), any::<bool>(), condition, some_bytes()).prop_map(
        |(first, messages, level, atomic, condition, records)| {
            let condition = condition.map(|(sequence, filter)| Condition { sequence: Sequence(sequence), filter });
            Publish { first, messages, level, atomic, condition, records }.into()
        },
    )
}

fn some_replies() -> impl Strategy<Value = Frame> {
    let reply = (any::<u64>(), any::<u32>(), some_code(), some_level(), any::<u64>(), any::<u32>());
    vec(reply, 0..5).prop_map(|replies| {
        let replies = replies.into_iter().map(|(first, messages, code, level, sequence, retry_after_ms)| Reply {
            first,
            messages,
            code,
            level,
            sequence: Sequence(sequence),
            retry_after_ms,
        });
        Replies { replies: List::collect(replies) }.into()
    })
}

fn some_subscribe() -> impl Strategy<Value = Frame> {
    (any::<[bool; 3]>(), any::<u8>(), some_begin(), any::<u64>(), any::<u128>(), some_text(), some_filters()).prop_map(
        |([more, until_end, blocks], lanes, begin, credit_bytes, stream_id, cursor, filters)| {
            Subscribe { more, until_end, blocks, lanes, begin, credit_bytes, stream_id, cursor, filters }.into()
        },
    )
}

fn some_frame() -> impl Strategy<Value = Frame> {
    let names = vec((any::<u32>(), some_text()), 0..4).prop_map(|names| {
        let topics = List::collect(names.iter().map(|(id, name)| (*id, name.as_str())));
        Frame::from(Names { topics })
    });
    let deliver = (any::<u64>(), any::<u32>(), some_bytes()).prop_map(|(through, count, records)| {
        let through = Sequence(through);
        Frame::from(Deliver { through, count, records })
    });
    let error = (some_code(), any::<u32>(), any::<[u64; 2]>(), some_text()).prop_map(
        |(code, retry_after_ms, [detail_a, detail_b], text)| {
            Frame::from(ErrorFrame { code, retry_after_ms, detail_a, detail_b, text })
        },
    );
    prop_oneof![
        some_publish(),
        some_replies(),
        some_subscribe(),
        names,
        deliver,
        error,
        prop::sample::select(samples::all()),
    ]
}

/// Feeds `bytes` in pieces that end at the `cuts`.
fn frames_in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Vec<(u16, Frame)>, WireError> {
    let mut reader = FrameReader::new(u32::MAX);
    let mut frames = Vec::new();
    let mut at = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        let piece = &bytes[at.min(cut)..cut];
        at = at.max(cut);
        if piece.len().is_multiple_of(2) {
            reader.feed(piece);
        } else {
            reader.spare().put_slice(piece);
        }
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read_back_whatever_the_pieces(
        frames in vec((any::<u16>(), some_frame()), 1..5),
        mut cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut bytes = BytesMut::new();
        for (channel, frame) in &frames {
            frame.encode(*channel, &mut bytes);
        }
        let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(frames_in_pieces(&bytes, &cuts).unwrap(), frames);
    }

    #[test]
    fn changed_bytes_are_a_frame_or_an_error_and_what_is_read_is_written_alike(
        frame in some_frame(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = bytes_of(1, &frame);
        let mut body = whole[FRAME_HEADER_BYTES..].to_vec();
        for (at, value) in changes {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = value;
            }
        }
        body.truncate(cut.index(2 * body.len() + 1));
        if let Ok(Some(parsed)) = Frame::parse(frame.kind(), &Bytes::from(body)) {
            // Zeros that were not zero are not kept, everything else is.
            let again = bytes_of(1, &parsed);
            prop_assert_eq!(frames_of(&again).unwrap(), [(1, parsed)]);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), kind in any::<u8>()) {
        let _ = frames_of(&bytes);
        let _ = Frame::parse(kind, &Bytes::from(bytes));
    }
}

#[test]
fn every_frame_is_read_when_cut_at_every_byte() {
    for frame in samples::all() {
        let bytes = bytes_of(9, &frame);
        for cut in 0..=bytes.len() {
            assert_eq!(frames_in_pieces(&bytes, &[cut]).unwrap(), [(9, frame.clone())]);
        }
        let every: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(frames_in_pieces(&bytes, &every).unwrap(), [(9, frame)]);
    }
}

#[test]
fn a_body_that_is_too_short_or_too_long_is_refused() {
    for frame in samples::all() {
        let bytes = bytes_of(9, &frame);
        let body = bytes.slice(FRAME_HEADER_BYTES..);
        let takes_rest = matches!(&frame, Frame::Publish(_) | Frame::Deliver(_) | Frame::Block(_))
            || matches!(&frame, Frame::Request(Request::Other { .. }))
            || matches!(&frame, Frame::Answer(Answer { rows: Rows::Other { .. }, .. }));
        if takes_rest {
            continue;
        }
        for cut in 0..body.len() {
            let error = Frame::parse(frame.kind(), &body.slice(..cut)).unwrap_err();
            assert!(matches!(error, WireError::Short { .. }), "{error}");
        }
        let longer = Bytes::from([&body[..], b"x"].concat());
        let error = Frame::parse(frame.kind(), &longer).unwrap_err();
        let name = frame.name();
        let want = format!("frame {name} has 1 bytes behind its last field");
        assert_eq!(error.to_string(), want);
    }
}

#[test]
fn a_frame_over_the_maximum_is_refused_by_its_header_alone_and_nothing_is_reserved() {
    let mut reader = FrameReader::new(1_000);
    let mut bytes = bytes_of(0, &Ping { value: 1 }.into()).to_vec();
    bytes.extend_from_slice(&1_001u32.to_le_bytes());
    bytes.extend_from_slice(&[Deliver::KIND, 0, 0, 0]);
    reader.feed(&bytes);
    assert!(reader.next_frame().unwrap().is_some());
    let error = reader.next_frame().unwrap_err();
    assert_eq!(error.to_string(), "frame of type 38 has 1001 bytes, at most 1000 are taken");
    assert_eq!(error.code(), Code::FrameTooLarge);
    // It stays refused, whatever comes.
    reader.feed(&bytes);
    assert_eq!(reader.next_frame().unwrap_err(), error);
}

#[test]
fn a_header_alone_does_not_reserve_its_body() {
    let mut reader = FrameReader::new(16 << 20);
    let mut head = (16u32 << 20).to_le_bytes().to_vec();
    head.extend_from_slice(&[Deliver::KIND, 0, 1, 0]);
    reader.feed(&head);
    assert!(reader.next_frame().unwrap().is_none());
    assert!(reader.spare().capacity() < 256 << 10);
    reader.feed(&[0; 64 << 10]);
    assert!(reader.spare().capacity() >= 16 << 20);
}

#[test]
fn an_unknown_type_with_the_top_bit_is_passed_over_and_any_other_refused() {
    let mut bytes = vec![3, 0, 0, 0, 0x80, 0, 0, 0, 1, 2, 3];
    bytes.extend_from_slice(&bytes_of(4, &Ping { value: 1 }.into()));
    assert_eq!(frames_of(&bytes).unwrap(), [(4, Ping { value: 1 }.into())]);
    let error = frames_of(&[0, 0, 0, 0, 0x7f, 0, 0, 0]).unwrap_err();
    assert_eq!(error.to_string(), "frame type 127 is not known");
    assert_eq!(error.code(), Code::UnknownFrame);
}

#[test]
fn records_and_names_stay_where_they_were_received() {
    let frame = Deliver { through: Sequence(1), count: 1, records: samples::records() };
    let body = bytes_of(1, &frame.into()).slice(FRAME_HEADER_BYTES..);
    let inside = body.as_ptr_range();
    let Ok(Some(Frame::Deliver(deliver))) = Frame::parse(Deliver::KIND, &body) else {
        panic!("a deliver frame");
    };
    assert!(inside.contains(&deliver.records.as_ptr()));
    let names = Names { topics: List::collect([(1, "a/b")]) };
    let body = bytes_of(0, &names.into()).slice(FRAME_HEADER_BYTES..);
    let inside = body.as_ptr_range();
    let Ok(Some(Frame::Names(names))) = Frame::parse(Names::KIND, &body) else {
        panic!("a names frame");
    };
    assert!(inside.contains(&names.topics.iter().next().unwrap().1.as_ptr()));
}

#[test]
fn sixteen_thousand_filters_travel_in_pieces_and_one_more_is_refused() {
    let filters: Vec<String> = (0..FILTERS_MAX).map(|at| format!("fleet/{at}/**")).collect();
    let subscribe = Subscribe {
        more: false,
        until_end: false,
        blocks: false,
        lanes: 1,
        begin: Begin::Live,
        credit_bytes: 1,
        stream_id: 2,
        cursor: Text::EMPTY,
        filters: List::EMPTY,
    };
    let put_together = |filters: &[String]| -> Result<(Subscribe, Vec<Text>), Code> {
        let mut out = BytesMut::new();
        encode_subscribe(3, &subscribe, filters, &mut out);
        let mut frames = frames_of(&out).unwrap().into_iter();
        let Some((3, Frame::Subscribe(first))) = frames.next() else {
            panic!("subscribe comes first");
        };
        let mut pieces = FilterPieces::begin(first)?;
        for (channel, frame) in frames {
            let Frame::MoreFilters(piece) = frame else {
                panic!("then more filters");
            };
            assert_eq!(channel, 3);
            assert!(!pieces.is_complete());
            pieces.add(&piece)?;
        }
        assert!(pieces.is_complete());
        Ok(pieces.into_parts())
    };
    let (got, got_filters) = put_together(&filters).unwrap();
    assert_eq!(got, subscribe);
    assert!(got_filters.iter().map(Text::as_str).eq(filters.iter()));

    let (_, none) = put_together(&[]).unwrap();
    assert!(none.is_empty());
    let one_more = [filters, vec!["one/more".into()]].concat();
    assert_eq!(put_together(&one_more).unwrap_err(), Code::TooManyFilters);
    let long = ["x".repeat(FILTER_BYTES_MAX + 1)];
    assert_eq!(put_together(&long).unwrap_err(), Code::BadFilter);
}

#[test]
fn filters_behind_the_last_piece_and_empty_pieces_are_refused() {
    let Some(Frame::Subscribe(subscribe)) = samples::subscribing().into_iter().next() else {
        panic!("the first is subscribe");
    };
    let empty = MoreFilters { more: true, filters: List::EMPTY };
    let last = MoreFilters { more: false, filters: List::collect(["c"]) };
    let mut pieces = FilterPieces::begin(subscribe).unwrap();
    assert_eq!(pieces.add(&empty), Err(Code::BadFrame));
    assert_eq!(pieces.add(&last), Ok(()));
    assert_eq!(pieces.add(&last), Err(Code::BadFrame));
}
