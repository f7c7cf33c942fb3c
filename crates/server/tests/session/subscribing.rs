//! What subscribers hear.

use crate::support::*;

#[test]
fn a_subscription_without_matches_is_told_how_far_it_is_within_a_second() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    reader.say(&bus, &[(1, subscribe(&["b"], Begin::Start, false))]);
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "one"), (1, "two")]))]);
    bus.commit();
    assert!(!reader.session.mailbox().is_pending());
    bus.now.mono += 1_000_000_000;
    assert!(reader.session.deadline() <= bus.now.mono);
    let mut got = reader.hear(&bus);
    bus.now.mono += 1_000_000_000;
    got.extend(reader.hear(&bus));
    assert_eq!(shown(&got), ["1 safe 2"]);
}

#[test]
fn a_subscription_until_the_end_ends_behind_what_was_acknowledged_when_it_began() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a", "b"])), (1, publish(1, &[(1, "1"), (2, "2"), (1, "3")]))]);
    bus.commit();
    writer.say(&bus, &[(1, publish(4, &[(1, "4")]))]);
    let got =
        reader.say(&bus, &[(1, subscribe(&["a"], Begin::Start, true)), (2, subscribe(&["zz"], Begin::Start, true))]);
    bus.commit();
    let mut got = shown(&got);
    got.extend(shown(&reader.hear(&bus)));
    assert_eq!(
        got,
        [
            "1 subscribed",
            "2 subscribed",
            "0 names 1=a",
            "1 deliver through 3: 1:1 3:3",
            "1 ended through 3 ok",
            "2 ended through 3 ok",
        ]
    );
}

#[test]
fn nothing_but_marks_is_sent_without_credit_and_delivery_goes_on_where_it_stopped() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "1"), (1, "2"), (1, "3")]))]);
    bus.commit();
    let Frame::Subscribe(mut wanted) = subscribe(&["a"], Begin::Start, false) else { panic!() };
    wanted.credit_bytes = 1;
    let got = reader.say(&bus, &[(1, Frame::Subscribe(wanted))]);
    assert_eq!(shown(&got), ["1 subscribed", "0 names 1=a", "1 deliver through 1: 1:1"]);
    // The first went over by 55 bytes: what comes next is owed first.
    let got = reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 55 }))]);
    assert_eq!(shown(&got), Vec::<String>::new());
    let got = reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 56 }))]);
    assert_eq!(shown(&got), ["1 deliver through 2: 2:2"]);
    let got = reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 1_000 }))]);
    assert_eq!(shown(&got), ["1 deliver through 3: 3:3"]);
}

#[test]
fn what_is_void_is_not_delivered_though_its_batch_was_taken_later() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "w");
    reader.say(&bus, &[(1, subscribe(&["**"], Begin::Start, false))]);
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.write();
    // Behind the failed one, and not with the journal yet.
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    bus.fail_oldest();
    bus.write();
    bus.commit();
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["1 replies 1x1 failed 0, 2x1 failed 0"]);
    let mut got = Vec::new();
    for _ in 0..3 {
        bus.now.mono += 1_000_000_000;
        got.extend(reader.hear(&bus));
    }
    assert_eq!(shown(&got), ["1 safe 1", "1 safe 4"]);
}

#[test]
fn a_record_longer_than_the_credit_is_owed_before_another_one_is_sent() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    let messages = [(1, "1"), (1, "2"), (1, "3")];
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &messages))]);
    bus.commit();
    let Frame::Subscribe(mut wanted) = subscribe(&["a"], Begin::Start, false) else { panic!() };
    wanted.credit_bytes = 1;
    let got = reader.say(&bus, &[(1, Frame::Subscribe(wanted))]);
    assert_eq!(shown(&got).last().unwrap(), "1 deliver through 1: 1:1");
    // One record of 40 bytes and the frame's 16: one byte of credit was there.
    assert_eq!(shown(&reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 55 }))])), Vec::<String>::new());
    assert_eq!(shown(&reader.say(&bus, &[(1, Frame::Credit(Credit { bytes: 1 }))])), ["1 deliver through 2: 2:2"]);
}

#[test]
fn the_newest_of_each_topic_come_in_order_then_what_follows_without_a_gap() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    let first = publish(1, &[(1, "a1"), (2, "b1"), (1, "a2"), (3, "c1"), (2, "b2")]);
    writer.say(&bus, &[(0, topics(&["t/a", "t/b", "c"])), (1, first)]);
    bus.commit();
    // What is not settled when it begins is delivered when it is.
    writer.say(&bus, &[(1, publish(6, &[(1, "a3")]))]);
    bus.write();
    let got = reader.say(&bus, &[(1, subscribe(&["t/*", "t/**"], Begin::Last, false))]);
    assert_eq!(shown(&got), ["1 subscribed", "0 names 1=t/a 2=t/b", "1 deliver through 5: 3:a2 5:b2"]);
    bus.commit();
    assert_eq!(shown(&reader.hear(&bus)), ["1 deliver through 6: 6:a3"]);
    let got = reader.say(&bus, &[(2, subscribe(&["**"], Begin::Last, true))]);
    assert_eq!(
        shown(&got),
        ["2 subscribed", "0 names 3=c", "2 deliver through 6: 4:c1 5:b2 6:a3", "2 ended through 6 ok"]
    );
    let got = reader.say(&bus, &[(3, subscribe(&["nothing"], Begin::Last, true))]);
    assert_eq!(shown(&got), ["3 subscribed", "3 ended through 6 ok"]);
}
