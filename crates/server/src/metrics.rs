//! Counts a bus keeps about itself. The hot path adds to plain atomics; `/metrics` reads them.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $metric:literal, $kind:literal, $help:literal;)*) => {
        /// The counts.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* #[doc = $help] pub $name: AtomicU64,)*
        }

        /// Name, kind and help of each count.
        pub const COUNTERS: &[(&str, &str, &str)] = &[$(($metric, $kind, $help),)*];

        impl Counters {
            /// The counts, in the order of [`COUNTERS`].
            pub fn read(&self) -> Vec<u64> {
                vec![$(self.$name.load(Ordering::Relaxed),)*]
            }
        }
    };
}

counters! {
    publishes = "arioso_publish_messages_total", "counter", "Messages that came in publish frames, refused ones included.";
    publish_bytes = "arioso_publish_bytes_total", "counter", "Bytes of records that came in publish frames.";
    busy = "arioso_publish_busy_total", "counter", "Messages answered busy, expected or disk full.";
    replies = "arioso_replies_total", "counter", "Messages answered.";
    batches = "arioso_journal_batches_total", "counter", "Batches written.";
    batch_bytes = "arioso_journal_bytes_total", "counter", "Bytes written to the journal.";
    syncs = "arioso_journal_syncs_total", "counter", "Times the journal made something durable.";
    delivered = "arioso_delivered_messages_total", "counter", "Messages sent to subscriptions.";
    delivered_bytes = "arioso_delivered_bytes_total", "counter", "Bytes of records sent to subscriptions.";
    history_bytes = "arioso_history_read_bytes_total", "counter", "Bytes read from disk for subscriptions.";
    history_touched = "arioso_history_touched_bytes_total", "counter", "Bytes looked at on disk for subscriptions: decompressed blocks of stores, directories and indexes, pieces of segments.";
    history_useful = "arioso_history_useful_bytes_total", "counter", "Bytes of records among them that were selected; touched over useful is the read amplification.";
    disk_readers = "arioso_disk_readers_total", "counter", "Subscriptions that ended and had read from disk.";
    disk_readers_above_2 = "arioso_disk_readers_above_2_total", "counter", "Those of them whose read amplification was above 2.";
    disk_readers_above_10 = "arioso_disk_readers_above_10_total", "counter", "Those of them whose read amplification was above 10.";
    spans = "arioso_spans", "gauge", "Spans of subtree stores.";
    split_spans = "arioso_split_spans_total", "counter", "Spans of segments that were split into subtree stores.";
    split_bytes = "arioso_split_bytes_total", "counter", "Bytes that splitting read and wrote.";
    falls = "arioso_subscription_falls_total", "counter", "Times a subscription fell from the tip to the disk.";
    climbs = "arioso_subscription_climbs_total", "counter", "Times a subscription climbed from the disk to the tip.";
    database_connections = "arioso_database_connections", "gauge", "Connections to the database for writing (journal postgres).";
    database_writes = "arioso_database_writes_in_flight", "gauge", "Writes that the database has and that are not known (journal postgres).";
    database_limit = "arioso_database_writes_max", "gauge", "Writes that may be in flight, as set or as adaptive has it now (journal postgres).";
    database_unknown = "arioso_database_unknown_total", "counter", "Times a write was of unknown outcome and was tried again (journal postgres).";
    database_trouble = "arioso_database_trouble", "gauge", "1 while writes are tried again and none became durable (journal postgres).";
    connections = "arioso_connections", "gauge", "Connections now.";
    subscriptions = "arioso_subscriptions", "gauge", "Subscriptions now.";
}

/// Adds to a count.
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Takes from a gauge.
pub fn sub(counter: &AtomicU64, amount: u64) {
    counter.fetch_sub(amount, Ordering::Relaxed);
}
