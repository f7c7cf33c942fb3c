//! Cursors: taken, committed, dropped.

use crate::support::*;

fn with_cursor(name: &str, filters: &[&str], begin: Begin) -> Frame {
    let Frame::Subscribe(mut wanted) = subscribe(filters, begin, false) else { panic!() };
    wanted.cursor = Text::from(name);
    Frame::Subscribe(wanted)
}

fn commit(name: &str, holder_epoch: u32, next: u64) -> Frame {
    Frame::Request(Request::Commit { name: Text::from(name), holder_epoch, next: Sequence(next) })
}

#[test]
fn a_cursor_begins_when_it_is_durable_and_goes_on_where_it_was_committed() {
    let mut bus = Bus::new();
    let (mut writer, mut reader) = (bus.peer(), bus.peer());
    writer.open(&mut bus, 1, "");
    writer.say(&bus, &[(0, topics(&["a"])), (1, publish(1, &[(1, "1"), (1, "2"), (1, "3")]))]);
    bus.commit();
    assert_eq!(shown(&reader.say(&bus, &[(1, with_cursor("c", &["a"], Begin::Start))])), Vec::<String>::new());
    bus.commit();
    let got = shown(&reader.hear(&bus));
    assert_eq!(got, ["1 subscribed at 1 epoch 1", "0 names 1=a", "1 deliver through 4: 1:1 2:2 3:3"]);
    assert_eq!(shown(&reader.say(&bus, &[(9, commit("c", 1, 3))])), Vec::<String>::new(), "not durable yet");
    bus.commit();
    assert!(shown(&reader.hear(&bus)).contains(&"9 answer".to_string()));
    reader.say(&bus, &[(1, Frame::Unsubscribe(Unsubscribe {}))]);
    reader.say(&bus, &[(2, with_cursor("c", &["a"], Begin::Start))]);
    bus.commit();
    let got = shown(&reader.hear(&bus));
    assert_eq!(got[..2], ["2 subscribed at 3 epoch 2", "2 deliver through 6: 3:3"]);
}

#[test]
fn a_newcomer_takes_a_cursor_and_the_older_holder_can_commit_no_more() {
    let mut bus = Bus::new();
    let (mut old, mut new) = (bus.peer(), bus.peer());
    old.say(&bus, &[(1, with_cursor("c", &["a"], Begin::Start))]);
    bus.commit();
    assert_eq!(shown(&old.hear(&bus))[0], "1 subscribed at 1 epoch 1");
    let got = shown(&new.say(&bus, &[(4, with_cursor("c", &["a", "b"], Begin::Start))]));
    assert!(got[0].starts_with("4 error cursor has other filters"), "{got:?}");
    new.say(&bus, &[(4, with_cursor("c", &["a"], Begin::Start))]);
    let got = shown(&old.say(&bus, &[(9, commit("c", 1, 2))]));
    assert_eq!(got[0], "1 error fenced: another holder opened this cursor, or it was set or dropped");
    assert!(got[1].starts_with("9 error fenced"), "{got:?}");
    bus.commit();
    assert_eq!(shown(&new.hear(&bus))[0], "4 subscribed at 1 epoch 2");
    let drop = Frame::Request(Request::DropCursor { name: Text::from("c") });
    old.say(&bus, &[(9, drop)]);
    bus.commit();
    assert_eq!(shown(&old.hear(&bus)), ["9 answer"]);
    assert!(shown(&new.hear(&bus))[0].starts_with("4 error fenced"));
}

#[test]
fn a_commit_whose_write_failed_did_not_move_the_cursor() {
    let mut bus = Bus::new();
    let mut reader = bus.peer();
    reader.say(&bus, &[(1, with_cursor("c", &["a"], Begin::Start))]);
    bus.commit();
    reader.hear(&bus);
    reader.say(&bus, &[(9, commit("c", 1, 2))]);
    bus.write();
    bus.fail_oldest();
    bus.log.step(bus.now.wall, false).unwrap();
    bus.commit();
    let got = shown(&reader.hear(&bus));
    assert!(got.contains(&"9 error busy: a ceiling is reached; the number is not consumed".to_string()), "{got:?}");
    let engine = bus.node.engine.lock();
    assert_eq!(engine.order().cursor("c").unwrap().place().unwrap().next, Sequence(1));
}

#[test]
fn a_cursor_that_nobody_holds_or_moves_is_dropped_after_its_time_to_live() {
    let mut bus = Bus::with(Settings { cursor_ttl_s: 60, ..Settings::default() });
    let mut reader = bus.peer();
    reader.say(&bus, &[(1, with_cursor("held", &["a"], Begin::Start)), (2, with_cursor("left", &["a"], Begin::Start))]);
    bus.commit();
    reader.hear(&bus);
    reader.say(&bus, &[(2, Frame::Unsubscribe(Unsubscribe {}))]);
    let minute = 60_000_000_000;
    let mut kept = Vec::new();
    for _ in 0..4 {
        bus.now.wall += minute;
        // Something happens, so that it is looked.
        reader.say(&bus, &[(9, commit("held", 1, 1))]);
        bus.commit();
        reader.hear(&bus);
        bus.commit();
        kept.push(bus.node.engine.lock().cursors_behind("").map(|cursor| cursor.name.to_string()).collect::<Vec<_>>());
    }
    assert_eq!(kept.first().unwrap().len(), 2, "time counts from when it is seen to be left");
    assert_eq!(kept.last().unwrap(), &["held"]);
}

#[test]
fn cursors_beyond_the_ceiling_and_names_and_filters_too_long_are_refused() {
    let mut bus = Bus::with(Settings { cursors_max: 1, ..Settings::default() });
    let mut reader = bus.peer();
    reader.say(&bus, &[(1, with_cursor("c", &["a"], Begin::Start))]);
    bus.commit();
    reader.hear(&bus);
    let got = shown(&reader.say(&bus, &[(2, with_cursor("d", &["a"], Begin::Start))]));
    assert_eq!(got, ["2 error too many cursors: 1 cursors are kept, cursors-max is reached"]);
    let got = shown(&reader.say(&bus, &[(2, with_cursor(&"n".repeat(256), &["a"], Begin::Start))]));
    assert!(got[0].starts_with("2 error bad record"), "{got:?}");
    let long: Vec<String> = (0..80).map(|at| format!("{at}/{}", "x".repeat(1_000))).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let got = shown(&reader.say(&bus, &[(2, with_cursor("c", &long, Begin::Start))]));
    assert!(got[0].starts_with("2 error too many filters"), "{got:?}");
}
