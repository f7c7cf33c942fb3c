//! Publishing: windows, coalescing, refusals, reconnections.

use arioso_stream::Sequence;
use arioso_wire::*;
use expect_test::expect;

use super::world::{World, options, reply, welcome};
use crate::{Error, Expect, Message, Options, RecordBlock};

#[test]
fn what_waits_together_travels_in_one_frame() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    for payload in ["m1", "m2", "m3"] {
        world.publish(orders, payload);
    }
    world.pump();
    world.publish(orders, "m4");
    world.pump();
    world.replies(1, &[reply(1, 3, Code::Ok, 11), reply(4, 1, Code::Ok, 20)]);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1 m2 m3
        > 1 publish 4: m4
        < 1 replies [1 x3 ok 11] [4 x1 ok 20]
        * 1 ok 11..13
        * 1 ok 20..20
    "#]]);
}

#[test]
fn another_level_a_condition_and_an_atomic_batch_are_frames_of_their_own() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.publish(orders, "m1");
    let sequenced = Message { level: AckLevel::Sequenced, ..Message::new(b"m2") };
    world.client.publish(orders, "a/b", &sequenced).unwrap();
    let conditional =
        Message { condition: Some(Expect { filter: "a/**", newest: Sequence(3) }), ..Message::new(b"m3") };
    world.client.publish(orders, "a/b", &conditional).unwrap();
    world.publish(orders, "m4");
    let atomic = [
        ("a/b", Message { condition: conditional.condition, ..Message::new(b"m5") }),
        ("a/c", Message::new(b"m6")),
        ("a/d", Message::new(b"m7")),
    ];
    world.client.publish_atomic(orders, &atomic).unwrap();
    world.publish(orders, "m8");
    world.pump();
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b"), (2, "a/c"), (3, "a/d")]
        > 1 publish 1: m1
        > 1 publish 2: m2 sequenced
        > 1 publish 3: m3?3 if a/** is 3
        > 1 publish 4: m4
        > 1 publish 5: m5(?3 m6 m7) atomic if a/** is 3
        > 1 publish 8: m8
    "#]]);
}

#[test]
fn an_atomic_batch_answered_in_parts_is_one_answer_and_goes_again_as_a_whole() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    let atomic = ["m1", "m2", "m3"].map(|payload| ("a", Message::new(payload.as_bytes())));
    world.client.publish_atomic(orders, &atomic).unwrap();
    world.pump();
    world.replies(1, &[reply(1, 1, Code::Busy, 0)]);
    world.replies(1, &[reply(2, 2, Code::Expected, 1)]);
    world.wait(50);
    world.replies(1, &[reply(1, 1, Code::Ok, 11), reply(2, 1, Code::Ok, 12)]);
    world.replies(1, &[reply(3, 1, Code::Ok, 13)]);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a")]
        > 1 publish 1: m1( m2 m3) atomic
        < 1 replies [1 x1 busy 0]
        < 1 replies [2 x2 expected 1]
        > 1 publish 1: m1( m2 m3) atomic
        < 1 replies [1 x1 ok 11] [2 x1 ok 12]
        < 1 replies [3 x1 ok 13]
        * 1 ok 11..13
    "#]]);
}

#[test]
fn an_atomic_batch_answered_in_part_before_a_cut_is_asked_for_as_a_whole() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    let atomic = ["m1", "m2"].map(|payload| ("a", Message::new(payload.as_bytes())));
    world.client.publish_atomic(orders, &atomic).unwrap();
    world.pump();
    world.replies(1, &[reply(1, 1, Code::Ok, 11)]);
    world.cut();
    world.log.clear();
    world.connect();
    world.opened(1, 2, 2);
    world.replies(1, &[reply(1, 1, Code::Ok, 11), reply(2, 1, Code::Ok, 12)]);
    world.check(expect![[r#"
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a")]
        > 1 open publisher "orders" next 1
        < 1 publisher opened epoch 2 last 2
        * 1 opened epoch 2
        > 1 publish 1: m1( m2) atomic
        < 1 replies [1 x1 ok 11] [2 x1 ok 12]
        * 1 ok 11..12
    "#]]);
}

#[test]
fn what_was_refused_message_by_message_is_joined_again_where_it_may_be() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    for payload in ["m1", "m2"] {
        world.publish(orders, payload);
        world.pump();
    }
    let sequenced = Message { level: AckLevel::Sequenced, ..Message::new(b"m3") };
    world.client.publish(orders, "a/b", &sequenced).unwrap();
    let atomic = ["m4", "m5"].map(|payload| ("a/b", Message::new(payload.as_bytes())));
    world.client.publish_atomic(orders, &atomic).unwrap();
    for payload in ["m6", "m7"] {
        world.publish(orders, payload);
        world.pump();
    }
    world.log.clear();
    world.replies(1, &[reply(1, 1, Code::Busy, 0), reply(2, 6, Code::Expected, 1)]);
    world.wait(50);
    world.check(expect![[r#"
        < 1 replies [1 x1 busy 0] [2 x6 expected 1]
        > 1 publish 1: m1 m2
        > 1 publish 3: m3 sequenced
        > 1 publish 4: m4( m5) atomic
        > 1 publish 6: m6 m7
    "#]]);
}

#[test]
fn an_atomic_batch_whose_messages_differ_is_refused_and_sends_nothing() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.log.clear();
    let sequenced = Message { level: AckLevel::Sequenced, ..Message::new(b"m2") };
    let late = Message { condition: Some(Expect { filter: "a", newest: Sequence(0) }), ..Message::new(b"m2") };
    let mut refused = |messages: &[(&str, Message<'_>)]| {
        let error = world.client.publish_atomic(orders, messages).unwrap_err();
        world.pump();
        error.to_string()
    };
    let first = ("a", Message::new(b"m1"));
    assert_eq!(
        refused(&[first, ("a", sequenced)]),
        "message 1 of an atomic batch: its ack level differs from the first one's"
    );
    assert_eq!(refused(&[first, ("a", late)]), "message 1 of an atomic batch: only the first may have a condition");
    assert_eq!(refused(&vec![first; 4_097]), "an atomic batch, in messages, has 4097, at most 4096 are taken");
    world.check(expect![[""]]);
}

#[test]
fn the_window_counts_messages_and_bytes_exactly() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    for _ in 0..10 {
        world.publish(orders, "m");
    }
    let refused = world.client.publish(orders, "a/b", &Message::new(b"m"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "busy: 10 messages of 400 bytes are unanswered, the window is 10 and 100000"
    );
    world.pump();
    world.replies(1, &[reply(1, 1, Code::Ok, 1)]);
    world.publish(orders, "m");
    let refused = world.client.publish(orders, "a/b", &Message::new(b"m"));
    assert!(matches!(refused, Err(Error::Busy { messages: 10, .. })));
    world.pump();
    world.replies(1, &[reply(2, 10, Code::Ok, 2)]);

    // 60,040 and 39,960 bytes of records fill it to the byte.
    let (long, rest) = (vec![0; 60_000], vec![0; 39_920]);
    world.client.publish(orders, "a/b", &Message::new(&long)).unwrap();
    let refused = world.client.publish(orders, "a/b", &Message::new(&long));
    assert!(matches!(refused, Err(Error::Busy { messages: 1, bytes: 60_032, .. })));
    world.client.publish(orders, "a/b", &Message::new(&rest)).unwrap();
    let refused = world.client.publish(orders, "a/b", &Message::new(b""));
    assert!(matches!(refused, Err(Error::Busy { messages: 2, bytes: 99_984, .. })));
}

#[test]
fn a_message_longer_than_the_window_goes_alone() {
    let mut world = World::with(Options { window_bytes: 100, ..options() });
    world.connect();
    let orders = world.publisher("orders", 0);
    world.client.publish(orders, "a", &Message::new(&[0; 500])).unwrap();
    let refused = world.client.publish(orders, "a", &Message::new(b"m"));
    assert!(matches!(refused, Err(Error::Busy { .. })));
    assert_eq!(world.client.unanswered(orders), 1);
}

#[test]
fn a_payload_topic_or_name_over_its_limit_is_refused_here() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.log.clear();
    let mut refused = |topic: &str, message: &Message<'_>| {
        let error = world.client.publish(orders, topic, message).unwrap_err();
        world.pump();
        error.to_string()
    };
    assert_eq!(refused("a", &Message::new(&[0; 65_537])), "a payload, in bytes, has 65537, at most 65536 are taken");
    assert_eq!(refused("", &Message::new(b"")), "a topic of 0 bytes, want 1 to 1024");
    let value = vec![0; 65_000];
    let headers: [(&[u8], &[u8]); 2] = [(b"k", &value), (b"k", &value)];
    let long = Message { headers: &headers, ..Message::new(b"") };
    assert_eq!(refused("a", &long), "a message's extensions, in bytes, has 130014, at most 65535 are taken");
    world.check(expect![[""]]);
}

#[test]
fn after_busy_everything_later_is_sent_again_in_order_from_there() {
    let mut world = World::up();
    let orders = world.publisher("orders", 40);
    for payload in ["m1", "m2", "m3"] {
        world.publish(orders, payload);
    }
    world.pump();
    world.publish(orders, "m4");
    world.pump();
    // The first is taken, the second meets a ceiling; what comes after is not looked at.
    world.replies(1, &[reply(41, 1, Code::Ok, 100), reply(42, 1, Code::Busy, 0)]);
    world.publish(orders, "m5");
    world.pump();
    world.replies(1, &[reply(43, 1, Code::Expected, 42)]);
    world.replies(1, &[reply(44, 1, Code::Expected, 42)]);
    world.wait(49);
    writeln_note(&mut world, "49 ms later: nothing");
    world.wait(1);
    world.replies(1, &[reply(42, 4, Code::Ok, 101)]);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 40
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 41: m1 m2 m3
        > 1 publish 44: m4
        < 1 replies [41 x1 ok 100] [42 x1 busy 0]
        * 1 ok 100..100
        < 1 replies [43 x1 expected 42]
        < 1 replies [44 x1 expected 42]
          49 ms later: nothing
        > 1 publish 42: m2 m3 m4
        > 1 publish 45: m5
        < 1 replies [42 x4 ok 101]
        * 1 ok 101..103
        * 1 ok 104..104
    "#]]);
}

fn writeln_note(world: &mut World, note: &str) {
    world.log.push_str(&format!("  {note}\n"));
}

#[test]
fn a_definite_refusal_is_told_and_what_follows_goes_on() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    for payload in ["m1", "m2", "m3", "m4"] {
        world.publish(orders, payload);
    }
    world.pump();
    world.replies(
        1,
        &[
            reply(1, 1, Code::Ok, 5),
            reply(2, 1, Code::ConditionFailed, 3),
            reply(3, 1, Code::NotStored, 0),
            reply(4, 1, Code::Ok, 6),
        ],
    );
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1 m2 m3 m4
        < 1 replies [1 x1 ok 5] [2 x1 condition failed 3] [3 x1 not stored 0] [4 x1 ok 6]
        * 1 ok 5..5
        * 1 x1 condition failed: the newest matching message is 3
        * 1 x1 refused: not stored: that publisher sequence was consumed without a message
        * 1 ok 6..6
    "#]]);
}

#[test]
fn a_named_publisher_sends_what_is_unanswered_again_under_the_same_numbers() {
    let mut world = World::up();
    let orders = world.publisher("orders", 40);
    for payload in ["m1", "m2", "m3"] {
        world.publish(orders, payload);
    }
    world.pump();
    world.replies(1, &[reply(41, 1, Code::Ok, 100)]);
    world.cut();
    world.publish(orders, "m4");
    world.connect();
    // The server had stored 42 and 43 before the cut; it answers them with their sequences.
    world.opened(1, 2, 43);
    world.replies(1, &[reply(42, 2, Code::Ok, 101), reply(44, 1, Code::Ok, 103)]);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 40
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 41: m1 m2 m3
        < 1 replies [41 x1 ok 100]
        * 1 ok 100..100
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a/b")]
        > 1 open publisher "orders" next 42
        < 1 publisher opened epoch 2 last 43
        * 1 opened epoch 2
        > 1 publish 42: m2 m3
        > 1 publish 44: m4
        < 1 replies [42 x2 ok 101] [44 x1 ok 103]
        * 1 ok 101..102
        * 1 ok 103..103
    "#]]);
}

#[test]
fn an_anonymous_publisher_ends_what_was_under_way_as_unknown_and_goes_on_with_the_rest() {
    let mut world = World::up();
    let publisher = world.publisher("", 0);
    world.publish(publisher, "m1");
    world.publish(publisher, "m2");
    world.pump();
    world.replies(1, &[reply(1, 1, Code::Ok, 1)]);
    world.cut();
    world.publish(publisher, "m3");
    world.connect();
    world.opened(1, 1, 0);
    world.replies(1, &[reply(1, 1, Code::Ok, 2)]);
    world.check(expect![[r#"
        > 1 open publisher "" next 1
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1 m2
        < 1 replies [1 x1 ok 1]
        * 1 ok 1..1
          cut
        * drop
        * 1 x1 the connection was cut before the answer, an anonymous publisher can't ask again
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a/b")]
        > 1 open publisher "" next 1
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 1 publish 1: m3
        < 1 replies [1 x1 ok 2]
        * 1 ok 2..2
    "#]]);
}

#[test]
fn an_anonymous_publisher_sends_again_what_surely_was_not_taken() {
    let mut world = World::up();
    let publisher = world.publisher("", 0);
    world.publish(publisher, "m1");
    world.pump();
    world.publish(publisher, "m2");
    world.pump();
    // m2 lies behind m1, which was not taken: it can't have been taken either.
    world.replies(1, &[reply(1, 1, Code::Busy, 0)]);
    world.cut();
    world.connect();
    world.opened(1, 1, 0);
    world.check(expect![[r#"
        > 1 open publisher "" next 1
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1
        > 1 publish 2: m2
        < 1 replies [1 x1 busy 0]
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a/b")]
        > 1 open publisher "" next 1
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 1 publish 1: m1 m2
    "#]]);
}

#[test]
fn a_publisher_opened_by_somebody_else_meanwhile_is_fenced() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.publish(orders, "m1");
    world.pump();
    world.cut();
    world.connect();
    // One opening of ours would have made it epoch 2.
    world.opened(1, 3, 9);
    let refused = world.client.publish(orders, "a/b", &Message::new(b"m"));
    assert!(matches!(refused, Err(Error::Fenced { .. })));
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a/b")]
        > 1 open publisher "orders" next 1
        < 1 publisher opened epoch 3 last 9
        * 1 x1 another holder opened "orders"; open it again to take it back
        * 1 over: another holder opened "orders"; open it again to take it back
    "#]]);
}

#[test]
fn a_fenced_publisher_ends_with_all_it_has() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    for payload in ["m1", "m2"] {
        world.publish(orders, payload);
        world.pump();
    }
    world.publish(orders, "m3");
    world.error(1, Code::Fenced);
    world.client.close_publisher(orders);
    // Its channel rests: a frame of it may be under way.
    assert_ne!(world.client.open_publisher("others", 0).unwrap(), orders);
    world.pump();
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1
        > 1 publish 2: m2
        < 1 error fenced
        * 1 x3 another holder opened "orders"; open it again to take it back
        * 1 over: another holder opened "orders"; open it again to take it back
        > 2 open publisher "others" next 0
    "#]]);
}

#[test]
fn a_reply_that_fences_ends_everything_open() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.publish(orders, "m1");
    world.publish(orders, "m2");
    world.pump();
    world.replies(1, &[reply(1, 2, Code::Fenced, 0)]);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1 m2
        < 1 replies [1 x2 fenced 0]
        * 1 x2 another holder opened "orders"; open it again to take it back
        * 1 over: another holder opened "orders"; open it again to take it back
    "#]]);
}

#[test]
fn a_closed_epoch_is_opened_again_and_what_was_voided_is_sent_again_in_order() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    for payload in ["m1", "m2", "m3"] {
        world.publish(orders, payload);
        world.pump();
    }
    world.replies(1, &[reply(1, 1, Code::Ok, 1), reply(2, 1, Code::Failed, 0), reply(3, 1, Code::Reopen, 0)]);
    world.wait(5);
    world.opened(1, 2, 1);
    world.replies(1, &[reply(2, 2, Code::Ok, 7)]);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1
        > 1 publish 2: m2
        > 1 publish 3: m3
        < 1 replies [1 x1 ok 1] [2 x1 failed 0] [3 x1 reopen 0]
        * 1 ok 1..1
        > 1 open publisher "orders" next 2
        < 1 publisher opened epoch 2 last 1
        * 1 opened epoch 2
        > 1 publish 2: m2 m3
        < 1 replies [2 x2 ok 7]
        * 1 ok 7..8
    "#]]);
}

#[test]
fn an_outcome_that_will_not_be_known_here_is_asked_for_on_another_connection() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.publish(orders, "m1");
    world.publish(orders, "m2");
    world.pump();
    world.replies(1, &[reply(1, 1, Code::Ok, 1), reply(2, 1, Code::Unknown, 0)]);
    world.connect();
    world.opened(1, 2, 2);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1 m2
        < 1 replies [1 x1 ok 1] [2 x1 unknown 0]
        * 1 ok 1..1
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a/b")]
        > 1 open publisher "orders" next 2
        < 1 publisher opened epoch 2 last 2
        * 1 opened epoch 2
        > 1 publish 2: m2
    "#]]);
}

#[test]
fn a_busy_opening_is_tried_again_and_a_refused_one_told() {
    let mut world = World::up();
    world.client.open_publisher("orders", 0).unwrap();
    world.pump();
    world.error(1, Code::Busy);
    world.wait(50);
    world.error(1, Code::TooManyPublishers);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 error busy
        > 1 open publisher "orders" next 0
        < 1 error too many publishers
        * 1 over: refused: too many publishers: publishers-max is reached
    "#]]);
}

#[test]
fn topics_are_announced_once_a_connection_before_their_first_use() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    for topic in ["a", "b", "a"] {
        world.client.publish(orders, topic, &Message::new(b"m")).unwrap();
    }
    world.pump();
    world.client.publish(orders, "c", &Message::new(b"m")).unwrap();
    world.pump();
    world.cut();
    world.connect();
    world.opened(1, 2, 4);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a"), (2, "b")]
        > 1 publish 1: m m m
        > 0 topics [(3, "c")]
        > 1 publish 4: m
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a"), (2, "b"), (3, "c")]
        > 1 open publisher "orders" next 1
        < 1 publisher opened epoch 2 last 4
        * 1 opened epoch 2
        > 1 publish 1: m m m m
    "#]]);
}

#[test]
fn the_table_of_topics_has_a_ceiling() {
    let mut world = World::with(Options { topics_max: 1, ..options() });
    world.connect();
    let orders = world.publisher("orders", 0);
    world.client.publish(orders, "a", &Message::new(b"m")).unwrap();
    let refused = world.client.publish(orders, "b", &Message::new(b"m"));
    assert_eq!(refused.unwrap_err().to_string(), "the client's table of topics has 2, at most 1 are taken");
}

#[test]
fn a_block_built_beforehand_is_one_frame_between_its_neighbours() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    let topic = world.client.topic("a/b").unwrap();
    let mut block = RecordBlock::new(AckLevel::Durable);
    for payload in ["m2", "m3"] {
        assert!(block.push(topic, &Message::new(payload.as_bytes())).unwrap());
    }
    world.publish(orders, "m1");
    world.client.publish_block(orders, &mut block).unwrap();
    assert!(block.is_empty());
    world.publish(orders, "m4");
    world.pump();
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1
        > 1 publish 2: m2 m3
        > 1 publish 4: m4
    "#]]);
}

#[test]
fn no_more_is_under_way_than_the_server_of_the_day_takes() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.cut();
    for payload in ["m1", "m2"] {
        let sequenced = Message {
            level: if payload == "m1" { AckLevel::Sequenced } else { AckLevel::Durable },
            ..Message::new(payload.as_bytes())
        };
        world.client.publish(orders, "a/b", &sequenced).unwrap();
    }
    world.dial();
    let small = Welcome { publish_window_messages: 1, ..welcome() };
    world.serve(0, small);
    world.opened(1, 2, 0);
    world.replies(1, &[reply(1, 1, Code::Ok, 1)]);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a/b")]
        > 1 open publisher "orders" next 1
        < 1 publisher opened epoch 2 last 0
        * 1 opened epoch 2
        > 1 publish 1: m1 sequenced
        < 1 replies [1 x1 ok 1]
        * 1 ok 1..1
        > 1 publish 2: m2
    "#]]);
}

#[test]
fn closing_waits_for_the_answers_then_says_goodbye() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.publish(orders, "m1");
    world.pump();
    world.client.close(world.now);
    let refused = world.client.publish(orders, "a/b", &Message::new(b"m"));
    assert_eq!(refused, Err(Error::Closed));
    world.pump();
    world.replies(1, &[reply(1, 1, Code::Ok, 1)]);
    world.serve(1, Closed {});
    assert_eq!(world.client.is_over(), Some(&Error::Closed));
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1
        < 1 replies [1 x1 ok 1]
        * 1 ok 1..1
        > 1 close publisher
        < 1 closed
        * 1 over: closed
        * drop after all
        * over: closed
        > 0 goodbye
    "#]]);
}

#[test]
fn closing_does_not_wait_for_ever() {
    let mut world = World::up();
    let orders = world.publisher("", 0);
    world.publish(orders, "m1");
    world.pump();
    world.client.close(world.now);
    world.serve(0, Ping { value: 3 });
    for _ in 0..5 {
        world.serve(0, Ping { value: 3 });
        world.wait(1_000);
    }
    assert_eq!(world.client.is_over(), Some(&Error::Closed));
    assert_eq!(world.client.next_deadline(), None);
    assert!(world.log.ends_with("* 1 x1 closed\n* 1 over: closed\n* over: closed\n> 0 goodbye\n"), "{}", world.log);
}

#[test]
fn a_reply_out_of_turn_ends_the_connection_and_nothing_else() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.publish(orders, "m1");
    world.publish(orders, "m2");
    world.pump();
    world.replies(1, &[reply(2, 1, Code::Ok, 1)]);
    world.connect();
    world.opened(1, 2, 2);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        > 0 topics [(1, "a/b")]
        > 1 publish 1: m1 m2
        < 1 replies [2 x1 ok 1]
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 0 topics [(1, "a/b")]
        > 1 open publisher "orders" next 1
        < 1 publisher opened epoch 2 last 2
        * 1 opened epoch 2
        > 1 publish 1: m1 m2
    "#]]);
}

#[test]
fn an_open_that_is_refused_for_now_gives_no_epoch_that_could_be_taken_for_its_own() {
    let mut world = World::up();
    let publisher = world.publisher("p", 0);
    world.cut();
    world.connect();
    world.error(1, Code::Busy);
    world.wait(100);
    // Epoch 2 was somebody else's.
    world.opened(1, 3, 0);
    assert_eq!(world.client.unanswered(publisher), 0);
    assert!(world.log.contains("another holder opened"), "{}", world.log);
}

#[test]
fn behind_a_refused_message_of_an_anonymous_publisher_nothing_is_unknown() {
    let mut world = World::up();
    let publisher = world.publisher("", 0);
    world.publish(publisher, "one");
    world.pump();
    world.publish(publisher, "two");
    world.pump();
    world.replies(1, &[reply(1, 1, Code::Busy, 0), reply(2, 1, Code::Unknown, 0)]);
    assert_eq!(world.client.unanswered(publisher), 2, "{}", world.log);
}

#[test]
fn blocks_made_for_longer_frames_are_cut_to_what_this_server_takes() {
    let mut world = World::with(Options { window_bytes: 1 << 20, ..options() });
    world.connect();
    let orders = world.publisher("orders", 0);
    let long = vec![b'x'; 60_000];
    world.cut();
    for _ in 0..4 {
        let message = Message::new(&long);
        world.client.publish(orders, "a/b", &message).unwrap();
    }
    world.dial();
    let short = Welcome { frame_bytes_max: 128 << 10, ..welcome() };
    world.serve(0, short);
    world.log.clear();
    world.opened(1, 2, 0);
    // From now on blocks are made shorter.
    for _ in 0..4 {
        let message = Message::new(&long);
        world.client.publish(orders, "a/b", &message).unwrap();
    }
    world.pump();
    let short = Welcome { frame_bytes_max: (128 << 10) - 1, ..welcome() };
    world.check(expect![[r#"
        < 1 publisher opened epoch 2 last 0
        * 1 opened epoch 2
        > 1 publish 1: long long
        > 1 publish 3: long long
        > 1 publish 5: long long
        > 1 publish 7: long long
    "#]]);
    world.cut();
    world.dial();
    world.serve(0, short);
    assert!(world.log.ends_with("* drop\n"), "{}", world.log);
}

#[test]
fn a_publisher_that_the_server_opens_for_nobody_is_closed() {
    let mut world = World::up();
    let orders = world.publisher("orders", 0);
    world.error(1, Code::Fenced);
    world.client.close_publisher(orders);
    world.pump();
    // Its next open had crossed the error.
    world.serve(1, PublisherOpened { publisher: 1, epoch: 2, last_consumed: 0 });
    world.pump();
    assert_eq!(orders.0, 1);
    world.check(expect![[r#"
        > 1 open publisher "orders" next 0
        < 1 publisher opened epoch 1 last 0
        * 1 opened epoch 1
        < 1 error fenced
        * 1 over: another holder opened "orders"; open it again to take it back
        < 1 publisher opened epoch 2 last 0
        > 1 close publisher
    "#]]);
}
