//! The connection itself, and requests.

use std::time::Duration;

use arioso_stream::Sequence;
use arioso_wire::*;
use expect_test::expect;

use super::world::{World, options, welcome};
use crate::machine::{Connection, Event};
use crate::{Error, Options};

#[test]
fn hello_comes_first_and_nothing_else_before_welcome() {
    let mut world = World::new();
    world.client.open_publisher("orders", 0).unwrap();
    world.dial();
    world.serve(0, welcome());
    world.check(expect![[r#"
        > 0 hello stream 0
        < 0 welcome
        * up
        > 1 open publisher "orders" next 0
    "#]]);
}

#[test]
fn a_quiet_client_pings_and_a_silent_server_is_left() {
    let mut world = World::up();
    world.wait(999);
    assert_eq!(world.log, "");
    world.wait(1);
    world.serve(0, Pong { value: 1 });
    world.wait(1_000);
    world.wait(1_999);
    world.wait(1);
    world.check(expect![[r#"
        > 0 ping 1
        < 0 pong 1
        > 0 ping 1
        > 0 ping 1
        * drop
    "#]]);
}

#[test]
fn deadlines_are_never_in_the_past_while_the_socket_takes_nothing() {
    let mut world = World::up();
    let mut now = world.now;
    for _ in 0..2 {
        let deadline = world.client.next_deadline().unwrap();
        assert!(deadline > now);
        now = deadline;
        world.client.on_time(now);
    }
    // Ping was due, then the silence was too long; nothing was written in between.
    assert_eq!(now, world.now + Duration::from_millis(3_000));
    assert!(matches!(world.client.poll_event(), Some(Event::Drop { .. })));
}

#[test]
fn a_ping_is_answered_with_its_value_and_many_with_the_last() {
    let mut world = World::up();
    let mut bytes = bytes::BytesMut::new();
    for value in 1..=1_000 {
        Ping { value }.encode(0, &mut bytes);
    }
    world.client.receive(world.now, &bytes);
    world.pump();
    world.check(expect![[r#"
        > 0 pong 1000
    "#]]);
}

#[test]
fn pauses_between_tries_are_random_grow_and_repeat_by_seed() {
    let pauses = |seed: u64| -> Vec<u128> {
        let options = Options { connect_timeout: Duration::from_secs(1_000), ..Options::default() };
        let mut client = Connection::new(options, seed, Duration::ZERO).unwrap();
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let at = client.next_deadline().unwrap();
            pauses.push((at - now).as_millis());
            now = at;
            client.on_time(now);
            assert!(matches!(client.poll_event(), Some(Event::Dial)));
            client.connect_failed(now, "refused");
        }
        pauses
    };
    assert_eq!(pauses(1), pauses(1));
    assert_ne!(pauses(1), pauses(2));
    for (at, pause) in pauses(3).into_iter().enumerate().skip(1) {
        assert!(pause <= (50 << at).min(5_000), "{at}: {pause}");
    }
    assert!(pauses(3).into_iter().skip(6).sum::<u128>() > 2_000);
}

#[test]
fn a_server_that_says_when_is_not_dialled_before() {
    let mut world = World::new();
    world.dial();
    let frame =
        ErrorFrame { code: Code::NotReady, retry_after_ms: 3_000, detail_a: 0, detail_b: 0, text: "replaying".into() };
    world.serve(0, frame);
    let at = world.client.next_deadline().unwrap();
    assert!(at >= world.now + Duration::from_millis(3_000));
}

#[test]
fn a_server_that_is_not_reached_in_time_ends_everything() {
    let mut world = World::new();
    world.client.open_publisher("orders", 0).unwrap();
    while world.client.is_over().is_none() {
        world.now = world.client.next_deadline().unwrap();
        world.client.on_time(world.now);
        world.client.connect_failed(world.now, "connection refused");
    }
    world.pump();
    assert_eq!(world.now, Duration::from_secs(5));
    let over = world.log.lines().rev().take(2).collect::<Vec<_>>();
    let text = "over: no connection to the server for 5000 ms; last: connection cut: connection refused";
    assert_eq!(over, [format!("* {text}"), format!("* 1 {text}")]);
}

#[test]
fn another_stream_another_version_and_a_refusal_for_good_are_final() {
    let other = Welcome { stream_id: 8, ..welcome() };
    let mut world = World::with(Options { stream_id: 7, ..options() });
    world.dial();
    world.serve(0, other.clone());
    let want = Error::WrongStream { want: 7, got: 8 };
    assert_eq!(world.client.is_over(), Some(&want));

    // Once connected it stays with the stream it found.
    let mut world = World::up();
    world.cut();
    world.dial();
    assert!(world.log.ends_with("> 0 hello stream 7\n"), "{}", world.log);
    world.serve(0, other);
    assert_eq!(world.client.is_over(), Some(&want));

    let mut world = World::new();
    world.dial();
    let version = 9;
    world.serve(0, Welcome { version, ..welcome() });
    let over = world.client.is_over().map(Error::to_string);
    let want = "the server speaks protocol version 9, want 1 to 1";
    assert_eq!(over.as_deref(), Some(want));

    let mut world = World::new();
    world.dial();
    world.error(0, Code::Version);
    let over = world.client.is_over().map(Error::to_string);
    let want = "refused: version: no common protocol version";
    assert_eq!(over.as_deref(), Some(want));
    assert_eq!(world.client.next_deadline(), None);
}

#[test]
fn a_request_is_answered_with_all_its_parts() {
    let mut world = World::up();
    let request = Request::Topics { filter: "**".into(), after: Text::EMPTY, rows_max: 2 };
    world.client.request(request).unwrap();
    world.pump();
    for (topic, more) in [("a", true), ("b", false)] {
        let rows = Rows::Topics(List::collect([TopicRow { topic, messages: 1, bytes: 2, last: Sequence(3) }]));
        world.serve(1, Answer { more, rows });
    }
    world.check(expect![[r#"
        > 1 request Topics { filter: "**", after: "", rows_max: 2 }
        < 1 answer more true Topics([TopicRow { topic: "a", messages: 1, bytes: 2, last: Sequence(3) }])
        < 1 answer more false Topics([TopicRow { topic: "b", messages: 1, bytes: 2, last: Sequence(3) }])
        * 1 answered [Answer { more: true, rows: Topics([TopicRow { topic: "a", messages: 1, bytes: 2, last: Sequence(3) }]) }, Answer { more: false, rows: Topics([TopicRow { topic: "b", messages: 1, bytes: 2, last: Sequence(3) }]) }]
    "#]]);
}

#[test]
fn after_a_cut_what_only_asks_is_asked_again_and_what_changes_something_is_told() {
    let mut world = World::up();
    world.client.request(Request::Status).unwrap();
    world.client.request(Request::DropPublisher { name: "p".into() }).unwrap();
    world.pump();
    world.client.request(Request::DropPublisher { name: "q".into() }).unwrap();
    world.cut();
    world.connect();
    world.check(expect![[r#"
        > 1 request Status
        > 2 request DropPublisher { name: "p" }
          cut
        * drop
        * 2 failed: connection cut: cut
        > 0 hello stream 7
        < 0 welcome
        * up
        > 3 request DropPublisher { name: "q" }
        > 1 request Status
    "#]]);
}

#[test]
fn a_busy_request_is_asked_again_and_a_refused_one_told() {
    let mut world = World::up();
    world.client.request(Request::Status).unwrap();
    world.pump();
    world.error(1, Code::Busy);
    world.wait(50);
    world.error(1, Code::NotOffered);
    world.check(expect![[r#"
        > 1 request Status
        < 1 error busy
        > 1 request Status
        < 1 error not offered
        * 1 failed: refused: not offered: known, but this server does not offer it
    "#]]);
}

#[test]
fn more_rows_than_asked_for_end_the_connection() {
    let mut world = World::up();
    let after = Text::EMPTY;
    let rows_max = 1;
    world.client.request(Request::Publishers { after, rows_max }).unwrap();
    world.pump();
    let row = PublisherRow { name: "p", id: 1, epoch: 1, last_consumed: 1, last_used: 1 };
    let rows = Rows::Publishers(List::collect([row.clone(), row]));
    world.serve(1, Answer { more: false, rows });
    assert!(world.log.contains("* drop"), "{}", world.log);
}

#[test]
fn bytes_that_are_no_frame_end_the_connection_and_another_is_tried() {
    let mut world = World::up();
    world.client.receive(world.now, &[0, 0, 0, 0, 99, 0, 0, 0]);
    world.pump();
    world.connect();
    world.check(expect![[r#"
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
    "#]]);
}
