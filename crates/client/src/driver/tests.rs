//! The handles over a real loopback socket, against a small server that keeps what it gets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arioso_stream::record::Header;
use arioso_stream::{Records, Sequence};
use arioso_wire::*;
use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use crate::machine::Subscribe;
use crate::{Client, Delivery, Error, Message, Options, Publisher, RecordBlock, Subscription};

/// One stream with topic ids, kept over connections.
#[derive(Default)]
struct Store {
    /// Whole records, numbered from 1.
    records: Vec<Vec<u8>>,
    topics: Vec<String>,
    /// The last publisher sequence, the epoch, and the sequence of each number.
    publishers: HashMap<String, (u64, u32, HashMap<u64, u64>)>,
    /// Publishes are taken but not answered.
    mute: bool,
    /// The connection ends after this many publish frames.
    publishes_left: Option<u32>,
}

struct Server {
    store: Mutex<Store>,
    changed: Notify,
    address: String,
}

impl Server {
    async fn start() -> Arc<Server> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Server {
            store: Mutex::default(),
            changed: Notify::new(),
            address: listener.local_addr().unwrap().to_string(),
        });
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(Session::new(accepting.clone()).run(socket));
            }
        });
        server
    }

    async fn client(&self) -> Client {
        let options =
            Options { window_messages: 64, seed: Some(1), backoff_min: Duration::from_millis(1), ..Options::default() };
        Client::connect(self.address.as_str(), options).await.unwrap()
    }
}

/// One connection.
struct Session {
    server: Arc<Server>,
    /// Names of publishers and next messages of subscriptions, by channel.
    publishers: HashMap<u16, String>,
    subscriptions: HashMap<u16, usize>,
    topics: Vec<String>,
    named: usize,
    out: BytesMut,
    over: bool,
}

impl Session {
    fn new(server: Arc<Server>) -> Session {
        Session {
            server,
            publishers: HashMap::new(),
            subscriptions: HashMap::new(),
            topics: Vec::new(),
            named: 0,
            out: BytesMut::new(),
            over: false,
        }
    }

    async fn run(mut self, mut socket: TcpStream) {
        let server = self.server.clone();
        let mut reader = FrameReader::new(1 << 20);
        while !self.over {
            let changed = server.changed.notified();
            self.deliver();
            if socket.write_all_buf(&mut self.out).await.is_err() {
                return;
            }
            tokio::select! {
                read = socket.read_buf(reader.spare()) => match read {
                    Ok(1..) => while let Some((channel, frame)) = reader.next_frame().unwrap() {
                        self.frame(channel, frame);
                    },
                    _ => return,
                },
                () = changed => {}
            }
        }
        // What was said last arrives in half, or not at all.
        let half = self.out.len() / 2;
        let _ = socket.write_all(&self.out.chunk()[..half]).await;
    }

    fn frame(&mut self, channel: u16, frame: Frame) {
        if self.over {
            return;
        }
        match frame {
            Frame::Hello(_) => Welcome {
                version: 1,
                capabilities: 0,
                frame_bytes_max: 1 << 20,
                heartbeat_ms: 10_000,
                stream_id: 7,
                server_epoch: 1,
                publish_window_bytes: 1 << 20,
                publish_window_messages: 1_000,
                payload_bytes_max: 1 << 19,
                next_sequence: Sequence(1),
                stream_name: "ship".into(),
            }
            .encode(0, &mut self.out),
            Frame::Topics(topics) => {
                let names = topics.topics.iter().map(|(_, name)| name.to_string());
                self.topics.extend(names);
            }
            Frame::OpenPublisher(open) => self.open(channel, &open),
            Frame::Publish(publish) => self.publish(channel, &publish),
            Frame::ClosePublisher(_) => Closed {}.encode(channel, &mut self.out),
            Frame::Subscribe(subscribe) => {
                let at = match subscribe.begin {
                    Begin::Sequence(sequence) => sequence.0,
                    _ => 1,
                };
                self.subscriptions.insert(channel, usize::try_from(at).unwrap());
                Subscribed {
                    starts_at: Sequence(at),
                    newest_settled: Sequence(0),
                    first_kept: Sequence(1),
                    holder_epoch: 0,
                }
                .encode(channel, &mut self.out);
            }
            Frame::Unsubscribe(_) => {
                self.subscriptions.remove(&channel);
                let (through, code) = (Sequence(0), Code::Ok);
                Ended { through, code }.encode(channel, &mut self.out);
            }
            Frame::Request(request) => self.request(channel, &request),
            Frame::Goodbye(_) => self.over = true,
            Frame::Credit(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn open(&mut self, channel: u16, open: &OpenPublisher) {
        let mut store = self.server.store.lock();
        // An anonymous one keeps its numbers as long as this connection.
        let name = match open.name.is_empty() {
            true => format!("anonymous {channel} {:p}", &raw const self.server),
            false => open.name.to_string(),
        };
        let entry = store.publishers.entry(name.clone()).or_default();
        entry.1 += 1;
        PublisherOpened { publisher: 1, epoch: entry.1, last_consumed: entry.0 }.encode(channel, &mut self.out);
        self.publishers.insert(channel, name);
    }

    fn publish(&mut self, channel: u16, publish: &Publish) {
        let mut store = self.server.store.lock();
        let store = &mut *store;
        let name = &self.publishers[&channel];
        let mut writer = ListWriter::begin::<Replies>(channel, &mut self.out);
        for (at, record) in Records::new(&publish.records).enumerate() {
            let number = publish.first + at as u64;
            let (last, _, sequences) = store.publishers.get_mut(name).unwrap();
            if number > *last {
                assert_eq!(number, *last + 1);
                let mut bytes = record.unwrap().bytes().to_vec();
                let (header, _) = Header::mut_from_prefix(&mut bytes).unwrap();
                let topic = &self.topics[header.topic.get() as usize - 1];
                let known = store.topics.iter().position(|known| known == topic);
                let topic = known.unwrap_or_else(|| {
                    store.topics.push(topic.clone());
                    store.topics.len() - 1
                });
                header.topic = U32::new(u32::try_from(topic).unwrap() + 1);
                header.sequence = U64::new(store.records.len() as u64 + 1);
                store.records.push(bytes);
                *last = number;
                sequences.insert(number, store.records.len() as u64);
            }
            writer.push(&Reply {
                first: number,
                messages: 1,
                code: Code::Ok,
                level: publish.level,
                sequence: Sequence(sequences[&number]),
                retry_after_ms: 0,
            });
        }
        let whole = writer.bytes();
        writer.finish();
        if store.mute {
            self.out.truncate(self.out.len() - whole);
        }
        if let Some(left) = &mut store.publishes_left {
            *left = left.saturating_sub(1);
            self.over = *left == 0;
            if self.over {
                store.publishes_left = None;
            }
        }
        self.server.changed.notify_waiters();
    }

    /// Whatever is new, to every subscription.
    fn deliver(&mut self) {
        let store = self.server.store.lock();
        if !self.subscriptions.is_empty() && self.named < store.topics.len() {
            let mut writer = ListWriter::begin::<Names>(0, &mut self.out);
            for (at, topic) in store.topics.iter().enumerate().skip(self.named) {
                writer.push(&(u32::try_from(at).unwrap() + 1, topic));
            }
            writer.finish();
            self.named = store.topics.len();
        }
        for (channel, next) in &mut self.subscriptions {
            let records = &store.records[*next - 1..];
            if !records.is_empty() {
                *next += records.len();
                let through = Sequence(*next as u64 - 1);
                let count = u32::try_from(records.len()).unwrap();
                let records = records.concat();
                encode_deliver(*channel, through, count, &records, &mut self.out);
            }
        }
    }

    fn request(&mut self, channel: u16, request: &Request) {
        let store = self.server.store.lock();
        let Request::Topics { after, rows_max, .. } = request else {
            let text = "only topics".into();
            ErrorFrame { code: Code::NotOffered, retry_after_ms: 0, detail_a: 0, detail_b: 0, text }
                .encode(channel, &mut self.out);
            return;
        };
        let mut topics: Vec<&String> = store.topics.iter().filter(|topic| ***topic > **after).collect();
        topics.sort();
        topics.truncate(*rows_max as usize);
        let rows = topics.into_iter().map(|topic| TopicRow { topic, messages: 1, bytes: 0, last: Sequence(0) });
        let rows = Rows::Topics(List::collect(rows));
        Answer { more: false, rows }.encode(channel, &mut self.out);
    }
}

/// The payloads of the next messages, in order.
async fn payloads(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut payloads = Vec::new();
    while payloads.len() < count {
        let Some(Delivery::Batch(batch)) = subscription.next().await.unwrap() else {
            continue;
        };
        for message in batch.messages() {
            let payload = message.unwrap().payload();
            payloads.push(String::from_utf8(payload.to_vec()).unwrap());
        }
    }
    payloads
}

fn message(payload: &str) -> Message<'_> {
    Message::new(payload.as_bytes())
}

#[tokio::test]
async fn what_is_published_is_answered_and_delivered() {
    let server = Server::start().await;
    let client = server.client().await;
    assert_eq!(&*client.welcome().unwrap().stream_name, "ship");
    let publisher = client.publisher(Some("orders")).await.unwrap();
    let wanted = Subscribe::new(["**"]).from(Begin::Start);
    let mut subscription = client.subscribe(wanted).await.unwrap();
    let headers: [(&[u8], &[u8]); 2] = [(b"from", b"me"), (b"to", b"")];
    let rich = Message { headers: &headers, event_time: Some(-5), ..message("one") };
    let receipt = publisher.send("a/b", rich).await.unwrap();
    let ack = receipt.await.unwrap();
    assert_eq!((ack.sequence, ack.messages), (Sequence(1), 1));
    assert_eq!(publisher.next_number(), Some(2));

    let Some(Delivery::Batch(batch)) = subscription.next().await.unwrap() else {
        panic!("a batch");
    };
    let messages: Vec<_> = batch.messages().map(Result::unwrap).collect();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].sequence(), Sequence(1));
    assert_eq!(messages[0].topic(), "a/b");
    assert_eq!(messages[0].payload(), b"one");
    assert_eq!(messages[0].event_time(), Some(-5));
    assert!(messages[0].headers().eq(headers));
    assert_eq!(batch.through(), Sequence(1));

    publisher.close().await.unwrap();
    drop(subscription);
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_a_publisher_over_cuts_and_nothing_is_lost_or_doubled() {
    let server = Server::start().await;
    let client = server.client().await;
    let wanted = Subscribe::new(["**"]).from(Begin::Start);
    let mut subscription = client.subscribe(wanted).await.unwrap();
    let publisher = Arc::new(client.publisher(Some("orders")).await.unwrap());
    server.store.lock().publishes_left = Some(5);
    let mut tasks = Vec::new();
    for task in 0..16 {
        let publisher = publisher.clone();
        tasks.push(tokio::spawn(async move {
            let mut receipts = Vec::new();
            for at in 0..50 {
                let payload = format!("{task} {at}");
                receipts.push(publisher.send("a/b", message(&payload)).await.unwrap());
            }
            let mut sequences = Vec::new();
            for receipt in receipts {
                sequences.push(receipt.await.unwrap().sequence.0);
            }
            assert!(sequences.is_sorted_by(|a, b| a < b));
            sequences
        }));
    }
    let cutter = server.clone();
    let cutting = tokio::spawn(async move {
        for left in [3, 2, 7, 1] {
            cutter.changed.notified().await;
            cutter.store.lock().publishes_left.get_or_insert(left);
        }
    });
    let delivered = payloads(&mut subscription, 800).await;
    let mut sequences = Vec::new();
    for task in tasks {
        sequences.extend(task.await.unwrap());
    }
    cutting.abort();
    sequences.sort_unstable();
    assert_eq!(sequences, (1..=800).collect::<Vec<_>>());
    let mut unique = delivered.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 800);
    for task in 0..16 {
        let prefix = format!("{task} ");
        let own = delivered.iter().filter(|payload| payload.starts_with(&prefix));
        assert!(own.eq((0..50).map(|at| format!("{task} {at}")).collect::<Vec<_>>().iter()));
    }
}

#[tokio::test]
async fn a_full_window_makes_send_wait_and_try_send_refuse() {
    let server = Server::start().await;
    let client = server.client().await;
    let publisher = client.publisher(None).await.unwrap();
    server.store.lock().mute = true;
    for _ in 0..64 {
        drop(publisher.send("a", message("m")).await.unwrap());
    }
    let refused = publisher.try_send("a", message("m"));
    assert!(matches!(refused, Err(Error::Busy { messages: 64, .. })));
    let waits = publisher.send("a", message("m"));
    let waited = tokio::time::timeout(Duration::from_millis(50), waits).await;
    assert!(waited.is_err());
    // The connection is cut; an anonymous publisher's messages end, which makes room.
    {
        let mut store = server.store.lock();
        store.mute = false;
        store.publishes_left = Some(1);
    }
    let other = client.publisher(Some("cut")).await.unwrap();
    let cut = other.send("a", message("cut")).await.unwrap();
    let receipt = publisher.send("a", message("m")).await.unwrap();
    receipt.await.unwrap();
    cut.await.unwrap();
    publisher.flush().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_can_wait_for_a_receipt_and_blocks_are_answered_as_one() {
    let server = Server::start().await;
    let client = server.client().await;
    let publisher: Publisher = client.publisher(Some("bulk")).await.unwrap();
    let topic = publisher.topic("a/b").unwrap();
    let mut block: RecordBlock = publisher.block(AckLevel::Durable);
    for at in 0..40 {
        assert!(block.push(topic, &message(&at.to_string())).unwrap());
    }
    let receipt = publisher.send_many(&mut block).await.unwrap();
    let long = vec![b'x'; 100_000];
    let second = publisher.send("a/c", Message::new(&long)).await.unwrap();
    let thread = std::thread::spawn(move || (receipt.wait(), second.wait()));
    let (first, second) = tokio::task::spawn_blocking(move || thread.join()).await.unwrap().unwrap();
    let first = first.unwrap();
    assert_eq!((first.sequence.0, first.last.0, first.messages), (1, 40, 40));
    assert_eq!(second.unwrap().sequence.0, 41);
    let atomic = [("a/b", message("x")), ("a/c", message("y"))];
    let both = publisher.send_atomic(&atomic).await.unwrap().await.unwrap();
    assert_eq!((both.sequence.0, both.last.0), (42, 43));
}

#[tokio::test]
async fn pages_end_and_a_refused_request_is_told() {
    let server = Server::start().await;
    let client = server.client().await;
    let publisher = client.publisher(None).await.unwrap();
    for topic in ["c", "a", "b"] {
        publisher.send(topic, message("m")).await.unwrap();
    }
    publisher.flush().await;
    let page = client.topics("**", "", 2).await.unwrap();
    let topics: Vec<&str> = page.iter().map(|row| row.topic).collect();
    assert_eq!(topics, ["a", "b"]);
    assert!(!page.is_last());
    let page = client.topics("**", "b", 2).await.unwrap();
    assert_eq!(page.iter().map(|row| row.topic).collect::<Vec<_>>(), ["c"]);
    assert!(page.is_last());
    let refused = client.status().await.unwrap_err();
    assert_eq!(refused.to_string(), "refused: not offered: only topics");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_in_time_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let options = Options { connect_timeout: Duration::from_millis(200), ..Options::default() };
    let error = Client::connect(address.as_str(), options).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&address), "{text}");
    assert!(matches!(error, Error::Unreachable { ms: 200.., .. }), "{text}");
}

#[tokio::test]
async fn dropped_handles_close_the_client_after_the_last_answer() {
    let server = Server::start().await;
    let client = server.client().await;
    let publisher = client.publisher(None).await.unwrap();
    let receipt = publisher.send("a", message("m")).await.unwrap();
    drop(publisher);
    drop(client);
    assert_eq!(receipt.await.unwrap().sequence, Sequence(1));
}

#[test]
fn a_runtime_that_stops_ends_what_is_open() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (receipt, publisher) = runtime.block_on(async {
        let server = Server::start().await;
        let client = server.client().await;
        let publisher = client.publisher(Some("orders")).await.unwrap();
        server.store.lock().mute = true;
        (publisher.send("a", message("m")).await.unwrap(), publisher)
    });
    drop(runtime);
    assert_eq!(receipt.wait(), Err(Error::Closed));
    assert!(matches!(publisher.try_send("a", message("m")), Err(Error::Closed)));
}
