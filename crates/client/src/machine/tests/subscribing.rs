//! Subscribing: credit, marks, resumption, retention.

use arioso_stream::Sequence;
use arioso_wire::*;
use expect_test::expect;

use super::world::{World, deliver};
use crate::machine::{Subscribe, SubscriptionId};

fn subscribed(starts_at: u64, newest_settled: u64) -> Subscribed {
    Subscribed {
        starts_at: Sequence(starts_at),
        newest_settled: Sequence(newest_settled),
        first_kept: Sequence(1),
        holder_epoch: 0,
    }
}

/// A connected client with one subscription, begun at 10.
fn begun(wanted: Subscribe) -> (World, SubscriptionId) {
    let mut world = World::up();
    let subscription = world.client.subscribe(wanted).unwrap();
    world.pump();
    world.serve(1, subscribed(10, 50));
    let topics = List::collect([(5, "a/b")]);
    world.serve(0, Names { topics });
    (world, subscription)
}

fn wanted() -> Subscribe {
    Subscribe::new(["a/**"])
}

#[test]
fn a_subscription_goes_on_behind_its_last_mark_on_the_next_connection() {
    let (mut world, _) = begun(wanted());
    world.deliver(1, &[10, 12], 13);
    world.serve(1, Safe { through: Sequence(20) });
    world.cut();
    world.connect();
    world.serve(1, subscribed(21, 60));
    let topics = List::collect([(5, "a/b")]);
    world.serve(0, Names { topics });
    world.deliver(1, &[22], 22);
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Live credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
        < 1 deliver x2 through 13
        * 1 delivered 10 12
        < 1 safe through 20
        * 1 mark 20
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Sequence(Sequence(21)) credit 4194208
        < 1 subscribed
        * 1 subscribed at 21
        < 0 names
        < 1 deliver x1 through 22
        * 1 delivered 22
    "#]]);
}

#[test]
fn a_live_subscription_cut_before_anything_came_goes_on_where_it_began() {
    let (mut world, _) = begun(wanted());
    world.cut();
    world.connect();
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Live credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Sequence(Sequence(10)) credit 4194304
    "#]]);
}

#[test]
fn a_subscription_for_the_newest_of_each_topic_begins_again_until_something_came() {
    let (mut world, _) = begun(wanted().from(Begin::Last));
    world.cut();
    world.connect();
    world.serve(1, subscribed(3, 50));
    world.deliver(1, &[7], 7);
    world.cut();
    world.connect();
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Last credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Last credit 4194304
        < 1 subscribed
        * 1 subscribed at 3
        < 1 deliver x1 through 7
        * 1 delivered (the server broke the protocol: message 7 is of topic 5, which has no name)
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Sequence(Sequence(8)) credit 4194248
    "#]]);
}

#[test]
fn credit_comes_back_in_halves_as_batches_are_taken() {
    let (mut world, subscription) = begun(Subscribe { credit_bytes: 200, ..wanted() });
    world.log.clear();
    world.deliver(1, &[10], 10);
    world.deliver(1, &[11], 11);
    for batch in std::mem::take(&mut world.batches) {
        world.client.consumed(subscription, &batch);
        world.pump();
    }
    world.check(expect![[r#"
        < 1 deliver x1 through 10
        * 1 delivered 10
        < 1 deliver x1 through 11
        * 1 delivered 11
        > 1 credit 112
    "#]]);
}

#[test]
fn what_is_not_taken_yet_counts_against_the_credit_of_the_next_connection() {
    let (mut world, subscription) = begun(Subscribe { credit_bytes: 200, ..wanted() });
    world.deliver(1, &[10], 10);
    world.log.clear();
    world.cut();
    world.connect();
    world.serve(1, subscribed(11, 50));
    let batch = world.batches.remove(0);
    world.client.consumed(subscription, &batch);
    world.deliver(1, &[11], 11);
    let batch = world.batches.remove(0);
    world.client.consumed(subscription, &batch);
    world.pump();
    world.check(expect![[r#"
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Sequence(Sequence(11)) credit 144
        < 1 subscribed
        * 1 subscribed at 11
        < 1 deliver x1 through 11
        * 1 delivered (the server broke the protocol: message 11 is of topic 5, which has no name)
        > 1 credit 112
    "#]]);
}

#[test]
fn a_server_that_sends_without_credit_is_left() {
    let (mut world, _) = begun(Subscribe { credit_bytes: 100, ..wanted() });
    world.log.clear();
    // The first may take more than there is, the second finds nothing left.
    world.deliver(1, &[10, 11, 12, 13], 13);
    world.deliver(1, &[14], 14);
    assert!(world.log.contains("* drop"), "{}", world.log);
    assert_eq!(world.batches.len(), 1);
}

#[test]
fn a_server_that_goes_back_or_repeats_is_left() {
    for wrong in [deliver(&[12], 12), deliver(&[], 11), deliver(&[9, 14], 14)] {
        let (mut world, _) = begun(wanted());
        world.deliver(1, &[10, 12], 12);
        world.log.clear();
        world.serve(1, wrong);
        assert!(world.log.contains("* drop"), "{}", world.log);
    }
}

#[test]
fn trimmed_is_told_once_and_nothing_goes_on_unasked() {
    let (mut world, subscription) = begun(wanted().from(Begin::Sequence(Sequence(3))));
    let (wanted, first) = (Sequence(3), Sequence(30));
    world.serve(1, Trimmed { wanted, first });
    world.cut();
    world.connect();
    world.log.push_str("  not subscribed again before it is told where\n");
    assert!(world.client.go_on(subscription, Sequence(30)));
    assert!(!world.client.go_on(subscription, Sequence(31)));
    world.pump();
    world.serve(1, subscribed(30, 50));
    let first = Sequence(40);
    world.serve(1, Trimmed { wanted: Sequence(30), first });
    assert!(world.client.go_on(subscription, Sequence(40)));
    world.pump();
    world.deliver(1, &[41], 41);
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Sequence(Sequence(3)) credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
        < 1 trimmed wanted 3 first 30
        * 1 trimmed: wanted 3, first 30
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
          not subscribed again before it is told where
        > 1 subscribe ["a/**"] from Sequence(Sequence(30)) credit 4194304
        < 1 subscribed
        * 1 subscribed at 30
        < 1 trimmed wanted 30 first 40
        * 1 trimmed: wanted 30, first 40
        > 1 go on 40
        < 1 deliver x1 through 41
        * 1 delivered (the server broke the protocol: message 41 is of topic 5, which has no name)
    "#]]);
}

#[test]
fn until_end_ends_and_a_cut_behind_the_end_ends_it_too() {
    let (mut world, _) = begun(wanted().from(Begin::Start).until_end());
    world.deliver(1, &[10, 50], 50);
    world.cut();
    world.connect();
    world.client.subscribe(wanted().from(Begin::Start).until_end()).unwrap();
    world.pump();
    world.serve(2, subscribed(10, 50));
    let (through, code) = (Sequence(50), Code::Ok);
    world.serve(2, Ended { through, code });
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Start credit 4194304 until end
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
        < 1 deliver x2 through 50
        * 1 delivered 10 50
          cut
        * drop
        * 1 ended
        > 0 hello stream 7
        < 0 welcome
        * up
        > 2 subscribe ["a/**"] from Start credit 4194304 until end
        < 2 subscribed
        * 2 subscribed at 10
        < 2 ended through 50 ok
        * 2 ended
    "#]]);
}

#[test]
fn a_subscription_refused_for_now_is_tried_again_and_one_refused_for_good_told() {
    let (mut world, _) = begun(wanted());
    world.deliver(1, &[10], 10);
    world.error(1, Code::Busy);
    world.wait(50);
    world.error(1, Code::BadFilter);
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Live credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
        < 1 deliver x1 through 10
        * 1 delivered 10
        < 1 error busy
        > 1 subscribe ["a/**"] from Sequence(Sequence(11)) credit 4194248
        < 1 error bad filter
        * 1 ended: refused: bad filter: the filter does not parse
    "#]]);
}

#[test]
fn after_unsubscribing_nothing_is_told_and_the_channel_is_used_again_when_it_ended_and_rested() {
    let (mut world, subscription) = begun(wanted());
    world.client.unsubscribe(subscription);
    world.pump();
    world.deliver(1, &[10], 10);
    let other = world.client.subscribe(wanted()).unwrap();
    assert_ne!(other, subscription);
    world.pump();
    let (through, code) = (Sequence(10), Code::Ok);
    world.serve(1, Ended { through, code });
    let rests = world.client.subscribe(wanted()).unwrap();
    assert_ne!(rests, subscription);
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Live credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
        * 1 ended: closed
        > 1 unsubscribe
        < 1 deliver x1 through 10
        > 2 subscribe ["a/**"] from Live credit 4194304
        < 1 ended through 10 ok
    "#]]);
}

#[test]
fn a_cursor_taken_by_somebody_else_during_a_cut_is_fenced() {
    let mut world = World::up();
    let mut wanted = wanted();
    wanted.cursor = "mine".into();
    let subscription = world.client.subscribe(wanted).unwrap();
    world.pump();
    let epoch = |holder_epoch| Subscribed { holder_epoch, ..subscribed(10, 50) };
    world.serve(1, epoch(4));
    let held = world.client.holder(subscription);
    assert_eq!(held, Some(("mine".into(), 4)));
    world.cut();
    world.connect();
    world.serve(1, epoch(6));
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Live credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Sequence(Sequence(10)) credit 4194304
        < 1 subscribed
        * 1 ended: another holder opened "mine"; open it again to take it back
        > 1 unsubscribe
    "#]]);
}

#[test]
fn sixteen_thousand_filters_are_sent_in_pieces() {
    let mut world = World::up();
    let filters = (0..16_384).map(|at| format!("fleet/{at:05}/**"));
    world.client.subscribe(Subscribe::new(filters)).unwrap();
    world.log.clear();
    let mut pieces = FilterPieces::begin(Subscribe0::empty()).unwrap();
    let mut server = FrameReader::new(1 << 20);
    while let Some(bytes) = world.client.poll_transmit(world.now) {
        server.feed(&bytes);
    }
    while let Some((channel, frame)) = server.next_frame().unwrap() {
        assert_eq!(channel, 1);
        match frame {
            Frame::Subscribe(subscribe) => pieces = FilterPieces::begin(subscribe).unwrap(),
            Frame::MoreFilters(more) => pieces.add(&more).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert!(pieces.is_complete());
    assert_eq!(pieces.into_parts().1.len(), 16_384);
    let refused = world.client.subscribe(Subscribe::new(vec!["a"; 16_385]));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "a subscription, which needs filters, has 16385, at most 16384 are taken"
    );
}

/// The subscribe frame of the wire, which has the name of the client's own type.
struct Subscribe0;

impl Subscribe0 {
    fn empty() -> arioso_wire::Subscribe {
        arioso_wire::Subscribe {
            more: true,
            until_end: false,
            blocks: false,
            lanes: 1,
            begin: Begin::Live,
            credit_bytes: 0,
            stream_id: 0,
            cursor: Text::EMPTY,
            filters: List::EMPTY,
        }
    }
}

#[test]
fn a_record_of_a_topic_without_a_name_is_an_error_and_the_last_item() {
    let mut world = World::up();
    world.client.subscribe(wanted()).unwrap();
    world.pump();
    world.serve(1, subscribed(10, 50));
    world.log.clear();
    world.deliver(1, &[10, 11], 11);
    world.check(expect![[r#"
        < 1 deliver x2 through 11
        * 1 delivered (the server broke the protocol: message 10 is of topic 5, which has no name)
    "#]]);
}

#[test]
fn two_names_for_one_topic_end_the_connection() {
    let (mut world, _) = begun(wanted());
    world.log.clear();
    let topics = List::collect([(5, "a/c")]);
    world.serve(0, Names { topics });
    assert!(world.log.contains("* drop"), "{}", world.log);
}

#[test]
fn a_subscription_from_a_time_begins_there_again_until_something_came() {
    let (mut world, _) = begun(wanted().from(Begin::Time(77)));
    world.serve(1, Safe { through: Sequence(20) });
    world.cut();
    world.connect();
    world.serve(1, subscribed(10, 60));
    // Told before: no news.
    world.serve(1, Safe { through: Sequence(15) });
    let topics = List::collect([(5, "a/b")]);
    world.serve(0, Names { topics });
    world.deliver(1, &[30], 30);
    world.cut();
    world.connect();
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Time(77) credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
        < 1 safe through 20
        * 1 mark 20
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Time(77) credit 4194304
        < 1 subscribed
        * 1 subscribed at 10
        < 1 safe through 15
        < 0 names
        < 1 deliver x1 through 30
        * 1 delivered 30
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Sequence(Sequence(31)) credit 4194248
    "#]]);
}

#[test]
fn what_waits_beyond_the_credit_when_a_connection_begins_is_not_given_back() {
    let mut few = wanted();
    few.credit_bytes = 10;
    let (mut world, subscription) = begun(few);
    world.deliver(1, &[10], 10);
    world.cut();
    world.connect();
    world.serve(1, subscribed(11, 60));
    let batch = world.batches.remove(0);
    world.client.consumed(subscription, &batch);
    world.pump();
    world.check(expect![[r#"
        > 1 subscribe ["a/**"] from Live credit 10
        < 1 subscribed
        * 1 subscribed at 10
        < 0 names
        < 1 deliver x1 through 10
        * 1 delivered 10
          cut
        * drop
        > 0 hello stream 7
        < 0 welcome
        * up
        > 1 subscribe ["a/**"] from Sequence(Sequence(11)) credit 0
        < 1 subscribed
        * 1 subscribed at 11
        > 1 credit 10
    "#]]);
}
