use super::*;
use crate::record::push_record;

fn order() -> Order {
    let resume =
        Resume { next: Sequence(1), reserved_to: Sequence(RESERVE_AHEAD), timestamp: 0, batch: 1, publisher: 1 };
    Order::new(OrderLimits { window_messages: 8, ..OrderLimits::default() }, resume)
}

fn records(topic: u32, payloads: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads {
        push_record(&mut out, topic, 0, &[], payload.as_bytes());
    }
    out
}

fn publish(order: &mut Order, opened: Opened, first: u64, payloads: &[&str]) -> Vec<Verdict> {
    let mut out = Vec::new();
    let publish = Publish {
        publisher: PublisherKey(opened.id),
        epoch: opened.epoch,
        first,
        messages: payloads.len() as u32,
        records: &records(7, payloads),
        topics: None,
        atomic: false,
    };
    order.publish(100, &publish, &|id| format!("topic/{id}").into(), &mut out);
    out
}

fn kinds(verdicts: &[Verdict]) -> Vec<(u64, u32, VerdictKind)> {
    verdicts.iter().map(|v| (v.first, v.messages, v.kind)).collect()
}

#[test]
fn a_retry_gets_its_original_number_and_nothing_is_stored_twice() {
    let mut order = order();
    let opened = order.open_named(1, Holder(1), "p", 0).unwrap();
    let first = publish(&mut order, opened, 1, &["a", "b"]);
    assert_eq!(kinds(&first), [(1, 2, VerdictKind::Stored { first: Sequence(2), batch: 1 })]);
    let retry = publish(&mut order, opened, 1, &["a", "b", "c"]);
    assert_eq!(
        kinds(&retry),
        [
            (1, 2, VerdictKind::Duplicate { first: Sequence(2) }),
            (3, 1, VerdictKind::Stored { first: Sequence(4), batch: 1 }),
        ]
    );
    assert_eq!(order.topic(7).messages, 3);
}

#[test]
fn a_publisher_that_comes_back_names_a_number_it_sent_before_and_gets_the_original() {
    let mut order = order();
    let opened = order.open_named(1, Holder(1), "p", 0).unwrap();
    publish(&mut order, opened, 1, &["a", "b"]);
    let again = order.open_named(2, Holder(2), "p", 2).unwrap();
    assert_eq!((again.epoch, again.next), (opened.epoch + 1, 3));
    assert_eq!(
        kinds(&publish(&mut order, again, 2, &["b", "c"])),
        [
            (2, 1, VerdictKind::Duplicate { first: Sequence(3) }),
            (3, 1, VerdictKind::Stored { first: Sequence(5), batch: 1 }),
        ]
    );
}

#[test]
fn numbers_that_a_closed_epoch_gave_back_are_stored_when_they_come_again() {
    let mut order = order();
    let opened = order.open_named(1, Holder(1), "p", 0).unwrap();
    publish(&mut order, opened, 1, &["a"]);
    publish(&mut order, opened, 2, &["b"]);
    order.void_published(opened.id, &[(Sequence(3), Sequence(3))]);
    let again = order.open_named(2, Holder(1), "p", 2).unwrap();
    assert_eq!(again.next, 2);
    let stored = publish(&mut order, again, 2, &["b"]);
    assert!(matches!(stored[0].kind, VerdictKind::Stored { .. }), "{stored:?}");
}

#[test]
fn a_number_ahead_of_its_turn_is_told_which_is_due() {
    let mut order = order();
    let opened = order.open_named(1, Holder(1), "p", 0).unwrap();
    assert_eq!(kinds(&publish(&mut order, opened, 2, &["b"])), [(2, 1, VerdictKind::Expected { due: 1 })]);
}

#[test]
fn skipped_numbers_are_not_stored_for_ever_and_forgotten_ones_too_old() {
    let mut order = order();
    let opened = order.open_named(1, Holder(1), "p", 0).unwrap();
    publish(&mut order, opened, 1, &["a"]);
    order.skip(2, PublisherKey(opened.id), opened.epoch, 4).unwrap();
    publish(&mut order, opened, 4, &["d"]);
    assert_eq!(
        kinds(&publish(&mut order, opened, 1, &["a", "b", "c", "d"])),
        [
            (1, 1, VerdictKind::Duplicate { first: Sequence(2) }),
            (2, 2, VerdictKind::NotStored),
            (4, 1, VerdictKind::Duplicate { first: Sequence(4) }),
        ]
    );
    for number in 5..20 {
        publish(&mut order, opened, number, &["x"]);
    }
    assert_eq!(kinds(&publish(&mut order, opened, 1, &["a"])), [(1, 1, VerdictKind::TooOld)]);
}

#[test]
fn a_new_epoch_closes_the_older_holder() {
    let mut order = order();
    let old = order.open_named(1, Holder(1), "p", 0).unwrap();
    publish(&mut order, old, 1, &["a"]);
    let new = order.open_named(2, Holder(2), "p", 0).unwrap();
    assert_eq!((new.next, new.fenced), (2, Some(Holder(1))));
    assert_eq!(kinds(&publish(&mut order, old, 2, &["b"])), [(2, 1, VerdictKind::Fenced)]);
    order.void_published(new.id, &[]);
    assert_eq!(kinds(&publish(&mut order, new, 2, &["b"])), [(2, 1, VerdictKind::Reopen)]);
}

#[test]
fn a_name_is_told_in_every_batch_until_it_is_durable() {
    let mut order = order();
    let opened = order.open_anonymous(Holder(1)).unwrap();
    let mut names = Vec::new();
    for number in 1..=4 {
        publish(&mut order, opened, number, &["a"]);
        let mut batches = Vec::new();
        order.take(&mut batches);
        names.push(batches[0].names.len());
        if number == 2 {
            order.durable(1, Sequence(0));
            order.durable(2, Sequence(0));
        }
    }
    assert_eq!(names, [1, 1, 0, 0]);
}

#[test]
fn no_number_above_the_durable_reservation_is_given() {
    let mut order = order();
    order.reserved_durable = Sequence(2);
    let opened = order.open_anonymous(Holder(1)).unwrap();
    assert_eq!(kinds(&publish(&mut order, opened, 1, &["a", "b", "c"])), [(1, 3, VerdictKind::Busy)]);
    publish(&mut order, opened, 1, &["a", "b"]);
    assert_eq!(kinds(&publish(&mut order, opened, 3, &["c"])), [(3, 1, VerdictKind::Busy)]);
    order.durable(1, Sequence(10));
    assert!(matches!(publish(&mut order, opened, 3, &["c"])[0].kind, VerdictKind::Stored { .. }));
}

#[test]
fn batches_lie_whole_in_chunks_and_share_them() {
    let limits = OrderLimits { chunk_bytes: 1 << 16, ..OrderLimits::default() };
    let resume =
        Resume { next: Sequence(1), reserved_to: Sequence(RESERVE_AHEAD), timestamp: 0, batch: 1, publisher: 1 };
    let mut order = Order::new(limits, resume);
    let opened = order.open_anonymous(Holder(1)).unwrap();
    let payload = "x".repeat(40_000);
    for number in 1..=3 {
        publish(&mut order, opened, number, &[&payload]);
    }
    let mut batches = Vec::new();
    order.take(&mut batches);
    assert_eq!(
        batches.iter().map(|b| (b.number, b.first.0, b.last.0)).collect::<Vec<_>>(),
        [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    );
    assert!(order.pending_bytes() > 120_000);
    for batch in 1..=3 {
        order.durable(batch, Sequence(0));
    }
    assert_eq!(order.pending_bytes(), 0);
}

#[test]
fn runs_name_what_their_publisher_stored_before() {
    let mut order = order();
    let a = order.open_anonymous(Holder(1)).unwrap();
    let b = order.open_anonymous(Holder(2)).unwrap();
    publish(&mut order, a, 1, &["1", "2"]);
    publish(&mut order, a, 3, &["3"]);
    publish(&mut order, b, 1, &["1"]);
    publish(&mut order, a, 4, &["4"]);
    let mut batches = Vec::new();
    order.take(&mut batches);
    let runs: Vec<_> = batches[0]
        .runs
        .iter()
        .map(|r| (r.publisher & 0xff, r.first_publisher_sequence, r.messages, r.stored_before))
        .collect();
    assert_eq!(runs, [(0, 1, 3, 0), (1, 1, 1, 0), (0, 4, 1, 3)]);
}

#[test]
fn voided_numbers_may_be_sent_again_in_the_next_epoch() {
    let mut order = order();
    let opened = order.open_named(1, Holder(1), "p", 0).unwrap();
    publish(&mut order, opened, 1, &["a", "b"]);
    publish(&mut order, opened, 3, &["c", "d"]);
    order.void_published(opened.id, &[(Sequence(3), Sequence(5))]);
    assert_eq!(kinds(&publish(&mut order, opened, 2, &["b"])), [(2, 1, VerdictKind::Reopen)]);
    let again = order.open_named(2, Holder(1), "p", 2).unwrap();
    assert_eq!(again.next, 2);
    let verdicts = publish(&mut order, again, 1, &["a", "b", "c", "d"]);
    assert_eq!(
        kinds(&verdicts),
        [
            (1, 1, VerdictKind::Duplicate { first: Sequence(2) }),
            (2, 3, VerdictKind::Stored { first: Sequence(7), batch: 1 }),
        ]
    );
}

#[test]
fn a_name_that_only_a_failed_batch_told_is_told_again() {
    let mut order = order();
    let opened = order.open_anonymous(Holder(1)).unwrap();
    let mut taken = Vec::new();
    publish(&mut order, opened, 1, &["a"]);
    order.take(&mut taken);
    publish(&mut order, opened, 2, &["b"]);
    order.take(&mut taken);
    publish(&mut order, opened, 3, &["c"]);
    order.take(&mut taken);
    let names: Vec<usize> = taken.iter().map(|batch| batch.names.len()).collect();
    assert_eq!(names, [1, 1, 1], "each is built before one that tells the name is durable");
    order.failed(taken[0].number);
    order.failed(taken[2].number);
    order.failed(taken[1].number);
    for batch in taken.drain(..) {
        order.durable(batch.number, Sequence::ZERO);
    }
    assert_eq!(order.pending_bytes(), 0);
    publish(&mut order, opened, 4, &["d"]);
    order.take(&mut taken);
    assert_eq!(taken[0].names.len(), 1);
    order.durable(taken[0].number, taken[0].reserved_to);
    publish(&mut order, opened, 5, &["e"]);
    order.take(&mut taken);
    assert_eq!(taken[1].names.len(), 0);
}

#[test]
fn opening_at_a_number_that_is_stored_changes_nothing_and_at_one_that_is_not_goes_on_there() {
    let mut order = order();
    let opened = order.open_named(1, Holder(1), "p", 0).unwrap();
    publish(&mut order, opened, 1, &["a", "b"]);
    order.consume(PublisherKey(opened.id), 5);
    let again = order.open_named(2, Holder(2), "p", 2).unwrap();
    assert_eq!(again.next, 6);
    let again = order.open_named(3, Holder(3), "p", 3).unwrap();
    assert_eq!(again.next, 3);
    let stored = publish(&mut order, again, 2, &["b", "c"]);
    assert!(
        matches!(kinds(&stored)[..], [(2, 1, VerdictKind::Duplicate { .. }), (3, 1, VerdictKind::Stored { .. })]),
        "{stored:?}"
    );
}
