//! What publishers hear.

use crate::support::*;

#[test]
fn a_message_is_answered_after_it_is_durable_and_delivered_to_whom_it_matches() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    assert_eq!(shown(&writer.open(&mut bus, 1, "w")), ["1 opened epoch 1 last 0"]);
    let got =
        reader.say(&bus, &[(1, subscribe(&["a/*"], Begin::Live, false)), (2, subscribe(&["b"], Begin::Live, false))]);
    assert_eq!(shown(&got), ["1 subscribed", "2 subscribed"]);
    let got = writer.say(&bus, &[(0, topics(&["a/x", "c"])), (1, publish(1, &[(1, "one"), (2, "two")]))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    bus.write();
    assert_eq!(shown(&writer.hear(&bus)), Vec::<String>::new());
    assert!(!reader.session.mailbox().is_pending());
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x2 ok 2"]);
    assert!(reader.session.mailbox().is_pending());
    assert_eq!(shown(&reader.hear(&bus)), ["0 names 1=a/x", "1 deliver through 3: 2:one"]);
}

#[test]
fn a_retry_on_another_connection_gets_the_original_number_and_the_older_holder_is_refused() {
    let mut bus = Bus::new();
    let (mut old, mut new) = (bus.peer(), bus.peer());
    old.open(&mut bus, 1, "p");
    old.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "one")]))]);
    bus.commit();
    assert_eq!(shown(&old.hear(&bus)), ["1 replies 1x1 ok 2"]);
    assert_eq!(shown(&new.open(&mut bus, 5, "p")), ["5 opened epoch 2 last 1"]);
    let got = new.say(&bus, &[(0, topics(&["a"])), (5, publish(1, &[(1, "one"), (1, "two")]))]);
    assert_eq!(shown(&got), ["5 replies 1x1 ok 2"]);
    bus.commit();
    assert_eq!(shown(&new.hear(&bus)), ["5 replies 2x1 ok 4"]);
    let got = old.say(&bus, &[(1, publish(2, &[(1, "late")]))]);
    assert_eq!(shown(&got), ["1 error fenced: another holder opened this publisher"]);
    assert_eq!(shown(&old.say(&bus, &[(1, publish(3, &[(1, "later")]))])), Vec::<String>::new());
}

#[test]
fn a_bad_record_is_refused_alone_and_consumes_its_number() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    let got = writer
        .say(&bus, &[(0, topics(&["a", "$bus", "b"])), (1, publish(1, &[(1, "x"), (2, "y"), (3, "z"), (9, "q")]))]);
    assert!(shown(&got)[0].starts_with("65535 error bad topic"), "{got:?}");
    bus.commit();
    let got = shown(&writer.hear(&bus));
    assert_eq!(got, ["1 replies 1x1 ok 1, 2x1 bad topic 0, 3x1 ok 2, 4x1 bad topic 0"]);
}

#[test]
fn a_failed_write_voids_what_came_after_it_from_its_publisher_and_nothing_else() {
    let mut bus = Bus::with(Settings { write_reply_ordering_groups: "per-publisher".into(), ..Settings::default() });
    let (mut a, mut b, mut reader) = (bus.peer(), bus.peer(), bus.peer());
    a.open(&mut bus, 1, "a");
    b.open(&mut bus, 1, "b");
    a.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "a1")]))]);
    bus.write();
    a.say(&bus, &[(1, publish(2, &[(1, "a2")]))]);
    b.say(&bus, &[(0, topics(&["b"])), (1, publish(1, &[(1, "b1")]))]);
    bus.write();
    reader.say(&bus, &[(1, subscribe(&["**"], Begin::Start, false))]);
    let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
    assert_eq!(flying.len(), 2);
    bus.log.backend().complete(flying[1], Outcome::Durable);
    bus.log.backend().complete(flying[0], Outcome::Failed);
    bus.write();
    assert_eq!(shown(&b.hear(&bus)), ["1 replies 1x1 ok 5"]);
    assert_eq!(shown(&a.hear(&bus)), Vec::<String>::new(), "failed is answered after the void record is durable");
    bus.commit();
    assert_eq!(shown(&a.hear(&bus)), ["1 replies 1x1 failed 0, 2x1 failed 0"]);
    assert_eq!(shown(&reader.hear(&bus)).last().unwrap(), "1 deliver through 6: 5:b1");
    assert_eq!(shown(&a.open(&mut bus, 1, "a")), ["1 opened epoch 2 last 2"]);
}

#[test]
fn what_is_beyond_the_window_is_answered_in_its_turn_and_nothing_behind_it_is_taken() {
    let mut bus = Bus::with(Settings { publish_window_messages: 3, ..Settings::default() });
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "w");
    let two = |first| publish(first, &[(1, "x"), (1, "y")]);
    let got = writer.say(&bus, &[(0, topics(&["a"])), (1, two(1)), (1, two(3)), (1, publish(5, &[(1, "z")]))]);
    assert_eq!(shown(&got), Vec::<String>::new(), "the first two are not answered yet");
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x2 ok 2, 3x2 busy 0, 5x1 expected 3"]);
    writer.say(&bus, &[(1, two(3))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 3x2 ok 4"]);
}

#[test]
fn a_retry_of_a_refused_number_is_not_stored_whatever_comes_with_it() {
    let mut bus = Bus::new();
    let (mut old, mut new) = (bus.peer(), bus.peer());
    old.open(&mut bus, 1, "w");
    let three = publish(1, &[(1, "x"), (9, "no topic"), (1, "z")]);
    old.say(&bus, &[(0, topics(&["a"])), (1, three.clone())]);
    bus.commit();
    assert_eq!(shown(&old.hear(&bus)), ["1 replies 1x1 ok 2, 2x1 bad topic 0, 3x1 ok 3"]);
    new.open(&mut bus, 1, "w");
    let got = new.say(&bus, &[(0, topics(&["a"])), (1, three)]);
    assert_eq!(shown(&got), ["1 replies 1x1 ok 2, 2x1 not stored 0, 3x1 ok 3"]);
}

#[test]
fn a_retry_on_a_full_disk_is_answered_with_the_original_number() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "w");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    writer.hear(&bus);
    bus.node.engine.lock().set_room(Room::DiskFull { free: 0, need: 1 });
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "x"), (1, "y")])), (1, publish(3, &[(1, "z")]))]);
    assert_eq!(shown(&got), ["1 replies 1x1 ok 2, 2x1 disk full 0, 3x1 expected 2"]);
}

#[test]
fn a_publisher_opens_again_at_the_first_number_that_is_not_stored_or_at_one_it_asks_again_for() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    let open = |next| (1, Frame::OpenPublisher(OpenPublisher { next, name: Text::from("w") }));
    writer.open(&mut bus, 1, "w");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    bus.write();
    bus.fail_oldest();
    bus.write();
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 2x1 failed 0"]);
    writer.say(&bus, &[open(2)]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 opened epoch 2 last 1"]);
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 2x1 ok 6"]);
    writer.say(&bus, &[open(1)]);
    bus.commit();
    writer.hear(&bus);
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "x"), (1, "y")]))]);
    assert_eq!(shown(&got), ["1 replies 1x1 ok 2, 2x1 ok 6"]);
}

#[test]
fn a_channel_that_stands_for_another_publisher_gets_no_answers_of_the_one_before() {
    let mut bus = Bus::new();
    let (mut one, mut other) = (bus.peer(), bus.peer());
    one.open(&mut bus, 1, "p");
    one.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    let open = |next| Frame::OpenPublisher(OpenPublisher { next, name: Text::from("p") });
    other.say(&bus, &[(1, open(0))]);
    assert_eq!(shown(&one.hear(&bus)), ["1 error fenced: another holder opened this publisher"]);
    one.say(&bus, &[(1, open(0))]);
    bus.commit();
    assert_eq!(shown(&one.hear(&bus)), ["1 opened epoch 3 last 1"]);
}

#[test]
fn a_skip_is_answered_by_its_number() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "w");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")])), (1, Frame::Skip(Skip { next: 5 }))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2", "1 replies 5x0 ok 0"]);
}

#[test]
fn an_anonymous_publisher_begins_anew_on_its_channel_after_a_void() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.write();
    bus.fail_oldest();
    bus.write();
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 failed 0"]);
    assert_eq!(shown(&writer.open(&mut bus, 1, "")), ["1 opened epoch 1 last 0"]);
    writer.say(&bus, &[(1, publish(1, &[(1, "x")]))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 3"]);
}

#[test]
fn batches_wait_while_the_journal_takes_no_more_and_failed_ones_give_their_room_back() {
    let mut bus = Bus::with(Settings { pending_bytes_max: 200, ..Settings::default() });
    bus.log =
        Log::new(Arc::clone(&bus.node), MemoryBackend::on_demand(1 << 30, 1), TipWriter::new(TipConfig::default()).0);
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a", "b"]))]);
    for round in 0..20u64 {
        writer.say(&bus, &[(1, publish(1, &[(1, "x")]))]);
        bus.write();
        let flying: Vec<BatchNumber> = bus.log.backend().flying().collect();
        assert_eq!(flying.len(), 1);
        bus.log.backend().complete(flying[0], Outcome::Failed);
        bus.write();
        // The void record waits until there is a slot.
        bus.commit();
        bus.commit();
        assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 failed 0"], "round {round}");
        writer.open(&mut bus, 1, "");
    }
    assert!(!bus.log.has_held());
}

#[test]
fn an_idle_stream_is_told_once_what_is_durable_and_then_left_alone() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    let mut marks = 0;
    for _ in 0..5 {
        marks += u32::from(bus.log.step(bus.now.wall, true).unwrap());
        bus.commit();
    }
    assert_eq!(marks, 1);
}

#[test]
fn an_atomic_batch_may_be_marked_as_it_will_lie() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    let mut records = BytesMut::new();
    push_record(&mut records, 1, FLAG_ATOMIC_FIRST, &[], b"x");
    push_record(&mut records, 1, FLAG_ATOMIC_LAST, &[], b"y");
    let Frame::Publish(mut batch) = publish(1, &[(1, "x"), (1, "y")]) else { panic!() };
    batch.records = records.freeze();
    let marked = Frame::Publish(batch.clone());
    batch.atomic = true;
    let got = writer.say(&bus, &[(0, topics(&["a"])), (1, marked), (1, Frame::Publish(Publish { first: 3, ..batch }))]);
    assert_eq!(shown(&got), ["1 replies 1x2 bad record 0"]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 3x2 ok 1"]);
}

#[test]
fn where_another_server_may_take_over_retries_and_refusals_wait_for_a_commit_that_began_later() {
    let mut bus = Bus::new();
    bus.node.engine.lock().prove_answers();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "p");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "one")]))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2"]);
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "one")])), (1, publish(9, &[(1, "nine")]))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    bus.write();
    assert_eq!(shown(&writer.hear(&bus)), Vec::<String>::new());
    // One record proves both; what comes when it is on its way needs another.
    assert_eq!(bus.log.backend().flying().count(), 1);
    let got = writer.say(&bus, &[(1, publish(1, &[(1, "one")]))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    let first = bus.log.backend().flying().next().unwrap();
    bus.log.backend().complete(first, Outcome::Durable);
    bus.write();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2, 9x1 expected 2"]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 ok 2"]);
    bus.log.backend().fence(7);
    assert_eq!(shown(&writer.say(&bus, &[(1, publish(1, &[(1, "one")]))])), Vec::<String>::new());
    assert!(bus.log.step(bus.now.wall, false).is_err());
}
