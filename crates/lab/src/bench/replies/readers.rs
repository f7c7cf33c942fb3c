//! Readers beside the publishers of a cell: how long after its reply a message is seen. One reader wants everything, so every
//! open write that lies before a message keeps it back; the other wants one topic, so only writes that hold messages of it do.

use std::collections::HashMap;
use std::time::Instant;

use arioso_client::{Begin, Client, Delivery, Options, Route, Subscribe, Subscription};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::report::{Latency, histogram};
use super::super::{Doing, Error, Result, io};

/// Topics of a cell; a publisher has one.
pub const TOPICS: u64 = 10;
/// The topic that the reader of one topic wants.
const WANTED: u64 = 3;

/// The topic of a publisher.
pub fn topic(publisher: u64) -> String {
    format!("replies/{}", publisher % TOPICS)
}

/// How long after its reply a message was seen; 0: before it.
#[derive(Clone, Debug, Serialize)]
pub struct Visible {
    /// By the reader that wants everything.
    pub everything: Latency,
    /// By the reader that wants one topic in ten.
    pub one_topic: Latency,
}

type Seen = HashMap<u64, Instant>;

struct Reader {
    wanted: Option<u64>,
    task: JoinHandle<Result<Seen>>,
}

/// The two readers.
pub struct Readers {
    readers: Vec<Reader>,
    expected: watch::Sender<Option<[u64; 2]>>,
}

impl Readers {
    /// Lets them begin.
    pub async fn start(route: impl Fn() -> Route, runtime: &Handle) -> Result<Readers> {
        let (expected, told) = watch::channel(None);
        let mut readers = Vec::new();
        for (at, wanted) in [None, Some(WANTED)].into_iter().enumerate() {
            let options = Options { name: format!("reader-{at}"), ..Options::default() };
            let client = Client::connect_by(route(), options).await.doing("connecting a reader")?;
            let filter = wanted.map_or("replies/**".into(), topic);
            let wants = Subscribe::new([&*filter]).from(Begin::Live);
            let subscription = client.subscribe(wants).await.doing("subscribing")?;
            let task = runtime.spawn(read(client, subscription, at, told.clone()));
            readers.push(Reader { wanted, task });
        }
        Ok(Readers { readers, expected })
    }

    /// Waits until they have seen all of these (publisher, sequence, reply), and counts those from `warm` on.
    pub async fn end(self, sent: &[(u64, u64, Instant)], warm: Instant) -> Result<Visible> {
        let matches = |wanted: Option<u64>, publisher: u64| wanted.is_none_or(|topic| publisher % TOPICS == topic);
        let count = |wanted| sent.iter().filter(|(publisher, ..)| matches(wanted, *publisher)).count() as u64;
        self.expected.send_replace(Some([count(None), count(Some(WANTED))]));
        let mut latencies = Vec::new();
        for reader in self.readers {
            let seen = reader.task.await.map_err(|error| io("a reader")(std::io::Error::other(error)))??;
            let mut after = histogram();
            for (_, sequence, replied) in
                sent.iter().filter(|(publisher, _, replied)| matches(reader.wanted, *publisher) && *replied >= warm)
            {
                let at = seen.get(sequence);
                let at = at.ok_or_else(|| Error::Wrong(format!("message {sequence} was answered and not seen")))?;
                let ns = at.saturating_duration_since(*replied).as_nanos();
                after.saturating_record(u64::try_from(ns).unwrap_or(u64::MAX));
            }
            latencies.push(Latency::of(&after));
        }
        let one_topic = latencies.remove(1);
        Ok(Visible { everything: latencies.remove(0), one_topic })
    }
}

async fn read(
    client: Client,
    mut subscription: Subscription,
    at: usize,
    mut expected: watch::Receiver<Option<[u64; 2]>>,
) -> Result<Seen> {
    let mut seen = Seen::new();
    loop {
        let wanted = *expected.borrow_and_update();
        if wanted.is_some_and(|wanted| seen.len() as u64 >= wanted[at]) {
            break;
        }
        let delivery = tokio::select! {
            delivery = subscription.next() => delivery.doing("reading")?,
            changed = expected.changed() => {
                changed.map_err(|_| Error::Wrong("the bench ended before its readers".into()))?;
                continue;
            }
        };
        let now = Instant::now();
        match delivery {
            Some(Delivery::Batch(batch)) => {
                for message in batch.messages() {
                    seen.insert(message.doing("reading")?.sequence().0, now);
                }
            }
            Some(Delivery::Mark { .. }) => {}
            other => return Err(Error::Wrong(format!("a reader got {other:?}"))),
        }
    }
    drop(subscription);
    client.close().await.doing("closing a reader")?;
    Ok(seen)
}
