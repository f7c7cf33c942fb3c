//! What holds for a connection whatever it is for.

use crate::support::*;

#[test]
fn topics_and_status_are_told_as_asked() {
    let mut bus = Bus::new();
    let mut peer = bus.peer();
    peer.open(&mut bus, 1, "");
    peer.say(&bus, &[(0, topics(&["a/x", "b", "a/y"])), (1, publish(1, &[(1, "1"), (2, "22"), (3, "3"), (1, "4")]))]);
    bus.commit();
    peer.hear(&bus);
    let ask = Request::Topics { filter: Text::from("a/**"), after: Text::EMPTY, rows_max: 100 };
    let got = peer.say(&bus, &[(3, Frame::Request(ask)), (4, Frame::Request(Request::Status))]);
    let mut told = Vec::new();
    for (channel, frame) in got {
        let Frame::Answer(answer) = frame else { panic!("{frame:?}") };
        match answer.rows {
            Rows::Topics(rows) => {
                told.extend(
                    rows.iter()
                        .map(|row| format!("{channel} {} {} {} {}", row.topic, row.messages, row.bytes, row.last)),
                );
            }
            Rows::Status(status) => {
                told.push(format!("{channel} next {} settled {}", status.next_sequence, status.settled))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, ["4 next 5 settled 4", "3 a/x 2 80 4", "3 a/y 1 40 3"]);
}

#[test]
fn frames_for_a_channel_that_stands_for_nothing_are_passed_over() {
    let mut bus = Bus::new();
    let mut peer = bus.peer();
    let frames = [
        (7, Frame::Unsubscribe(Unsubscribe {})),
        (7, Frame::ClosePublisher(ClosePublisher {})),
        (7, publish(1, &[(1, "x")])),
        (7, Frame::Skip(Skip { next: 4 })),
        (7, Frame::Credit(Credit { bytes: 5 })),
    ];
    assert_eq!(shown(&peer.say(&bus, &frames)), Vec::<String>::new());
    peer.open(&mut bus, 7, "");
    peer.say(&bus, &[(0, topics(&["a"])), (7, publish(1, &[(1, "x")])), (7, Frame::ClosePublisher(ClosePublisher {}))]);
    bus.commit();
    assert_eq!(shown(&peer.hear(&bus)), ["7 replies 1x1 ok 1", "7 closed"]);
}

#[test]
fn a_connection_that_never_says_hello_is_let_go_without_being_looked_after_meanwhile() {
    let mut bus = Bus::new();
    let mut session = Session::new(Arc::clone(&bus.node), 0);
    let mut out = Output::default();
    let heartbeat = bus.node.settings.heartbeat_ms as i64 * 1_000_000;
    assert_eq!(session.deadline(), 3 * heartbeat);
    bus.now.mono = 3 * heartbeat;
    assert!(session.turn(bus.now, &mut out).close);
}

#[test]
fn bytes_that_are_no_frames_end_the_connection_with_a_reason() {
    let bus = Bus::new();
    let mut peer = bus.peer();
    peer.session.frames().feed(&Bytes::from_static(&[0xff; 64]));
    let got = shown(&peer.hear(&bus));
    assert!(got[0].starts_with("0 error frame too large"), "{got:?}");
    assert!(peer.session.turn(bus.now, &mut peer.out).close);
    let _ = Code::Ok;
}
