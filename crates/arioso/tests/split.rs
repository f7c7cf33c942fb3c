//! History that was split into stores, through the facade.

use std::time::{Duration, Instant};

use arioso::{Begin, Bus, Message, Sequence, Settings};

/// How long a split may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for_spans(bus: &Bus, spans: u64) {
    let started = Instant::now();
    let spans_of = |(name, count)| (name == "arioso_spans").then_some(count);
    let count = || bus.counts().into_iter().flatten().find_map(spans_of).unwrap_or(0);
    while count() < spans {
        assert!(started.elapsed() < PATIENCE, "{} spans after {PATIENCE:?}", count());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_filtered_read_of_split_history_is_proven_complete() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        data: dir.path().join("data"),
        segment_bytes: 1 << 20,
        tip_bytes: 8 << 20,
        checkpoint_segments: 1,
        split_segments: 3,
        stores_per_span: 8,
        ..Settings::default()
    };
    let bus = Bus::open_with(settings).unwrap();
    let publisher = bus.publisher(None).unwrap();
    let payload = |number: usize| format!("message {number} ").repeat(40);
    let mut receipts = Vec::new();
    for number in 0..30_000 {
        let topic = format!("a/{}/t{}", number % 4, number % 40);
        receipts.push(publisher.send(&topic, Message::new(payload(number).as_bytes())).unwrap());
        if receipts.len() == 1_000 {
            for receipt in receipts.drain(..) {
                receipt.wait().unwrap();
            }
        }
    }
    wait_for_spans(&bus, 2);
    for filters in [&["a/2/t6"][..], &["a/1/**", "a/1/t5"], &["a/*/t7", "a/3/t3"], &["**"], &["nothing"]] {
        let (first, last) = (Sequence(1), bus.status().unwrap().settled);
        let mut completeness = bus.completeness(first, last, filters.iter().copied()).unwrap();
        let mut subscription = bus.subscribe(filters.iter().copied(), Begin::Start, true).unwrap();
        let mut messages = 0;
        while let Some(batch) = subscription.next_batch().unwrap() {
            completeness.add(&batch).unwrap();
            for message in batch.messages() {
                let message = message.unwrap();
                let text = std::str::from_utf8(message.payload()).unwrap();
                let number: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
                assert_eq!(text, payload(number));
                assert_eq!(message.topic(), format!("a/{}/t{}", number % 4, number % 40));
                messages += 1;
            }
        }
        let wanted = match filters {
            ["a/2/t6"] => 750,
            ["a/1/**", _] => 7_500,
            ["a/*/t7", _] => 1_500,
            ["**"] => 30_000,
            _ => 0,
        };
        assert_eq!(messages, wanted, "{filters:?}");
        let proven = completeness.check(last).unwrap();
        assert!(proven.pieces >= 2 && proven.messages * 10 >= wanted * 2, "{filters:?}: {proven:?}");
    }
    let row = bus.explain(["a/2/t6"], Begin::Start).unwrap();
    assert!(row.stores >= 2 && row.bytes_useful > 0 && row.tip_messages > 0, "{row:?}");
    bus.close().unwrap();
}
