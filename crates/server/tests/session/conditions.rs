//! Conditions: judged on what is kept, and again when it is taken back.

use crate::support::*;

#[test]
fn a_condition_is_judged_on_what_is_kept_and_topics_are_counted_so() {
    let mut bus = Bus::new();
    let mut writer = bus.peer();
    writer.open(&mut bus, 1, "");
    writer.open(&mut bus, 2, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "x")]))]);
    bus.commit();
    writer.say(&bus, &[(1, publish(2, &[(1, "y")]))]);
    bus.write();
    bus.fail_oldest();
    bus.write();
    bus.commit();
    writer.hear(&bus);
    let Frame::Publish(mut conditional) = publish(1, &[(1, "z")]) else { panic!() };
    conditional.condition = Some(Condition { sequence: Sequence(1), filter: Text::from("a") });
    writer.say(&bus, &[(2, Frame::Publish(conditional))]);
    bus.commit();
    assert_eq!(shown(&writer.hear(&bus)), ["2 replies 1x1 ok 4"]);
    let ask = Request::Topics { filter: Text::from("a"), after: Text::EMPTY, rows_max: 1 };
    let got = writer.say(&bus, &[(3, Frame::Request(ask))]);
    let [(3, Frame::Answer(answer))] = &got[..] else { panic!("{got:?}") };
    let Rows::Topics(rows) = &answer.rows else { panic!("{answer:?}") };
    let told: Vec<_> = rows.iter().map(|row| (row.messages, row.bytes, row.last)).collect();
    assert_eq!(told, [(2, 80, Sequence(4))]);
}

fn expecting(first: u64, (topic, payload): (u32, &str), filter: &str, sequence: u64) -> Frame {
    let Frame::Publish(mut frame) = publish(first, &[(topic, payload)]) else { panic!() };
    frame.condition = Some(Condition { sequence: Sequence(sequence), filter: Text::from(filter) });
    Frame::Publish(frame)
}

#[test]
fn a_refusal_that_rested_on_a_voided_message_is_judged_again() {
    for (wanted, answer) in [(2, "1 replies 1x1 reopen 0"), (1, "1 replies 1x1 condition failed 2")] {
        let mut bus = Bus::new();
        let (mut a, mut b) = (bus.peer(), bus.peer());
        a.open(&mut bus, 1, "a");
        a.say(&bus, &[(0, topics(&["s"])), (1, publish(1, &[(1, "kept")]))]);
        bus.commit();
        assert_eq!(shown(&a.hear(&bus)), ["1 replies 1x1 ok 2"]);
        a.say(&bus, &[(1, publish(2, &[(1, "falls")]))]);
        bus.write();
        b.open_without_commit(&bus, 1);
        b.say(&bus, &[(0, topics(&["s"])), (1, expecting(1, (1, "next"), "s", wanted))]);
        assert_eq!(shown(&b.hear(&bus)), Vec::<String>::new(), "it rests on what is not settled");
        bus.fail_oldest();
        bus.log.step(bus.now.wall, false).unwrap();
        bus.commit();
        bus.commit();
        assert_eq!(shown(&b.hear(&bus)), [answer]);
    }
}

#[test]
fn a_condition_on_a_subtree_sees_what_was_published_below_it_since_and_what_was_taken_back() {
    let mut bus = Bus::new();
    let mut a = bus.peer();
    a.open_without_commit(&bus, 1);
    a.say(&bus, &[(0, topics(&["s/x/1", "s/y", "t"])), (1, expecting(1, (1, "1"), "s/**", 0))]);
    a.say(&bus, &[(1, expecting(2, (2, "2"), "s/**", 1)), (1, publish(3, &[(3, "3")]))]);
    a.say(&bus, &[(1, expecting(4, (1, "4"), "s/**", 2)), (1, expecting(5, (1, "5"), "s/x/**", 4))]);
    a.say(&bus, &[(1, expecting(6, (1, "6"), "**", 5)), (1, expecting(7, (1, "7"), "s/**", 3))]);
    bus.commit();
    assert_eq!(
        shown(&a.hear(&bus)),
        ["1 replies 1x1 ok 1, 2x1 ok 2, 3x1 ok 3, 4x1 ok 4, 5x1 ok 5, 6x1 ok 6, 7x1 condition failed 6"]
    );
    a.say(&bus, &[(1, publish(8, &[(2, "8")]))]);
    bus.write();
    bus.fail_oldest();
    bus.log.step(bus.now.wall, false).unwrap();
    bus.commit();
    a.hear(&bus);
    let mut b = bus.peer();
    b.open_without_commit(&bus, 1);
    b.say(&bus, &[(0, topics(&["s/y"])), (1, expecting(1, (1, "9"), "s/**", 6))]);
    bus.commit();
    assert_eq!(shown(&b.hear(&bus)), ["1 replies 1x1 ok 9"]);
}
