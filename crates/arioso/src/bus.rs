//! One bus, embedded or connected.

use std::path::Path;
use std::sync::Arc;

use arioso_client::{Client, Completeness, Options, Route, Snapshot, Subscribe};
use arioso_journal::local::Recovered;
use arioso_server::metrics::COUNTERS;
use arioso_server::serving;
use arioso_server::settings::Settings;
use arioso_stream::Sequence;
use arioso_wire::{BackUpRow, Begin, ExplainRow, StatusRow};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::blocking::{CursorInfo, Publisher, PublisherInfo, Subscription, TopicInfo};
use crate::error::Result;
use crate::{Ack, Message};

/// Bytes on their way between client and engine inside the process.
const PIPE_BYTES: usize = 1 << 20;
/// Rows of one page of a listing.
const PAGE_ROWS: u32 = 10_000;

/// An ordered, durable message bus, inside this process or on a server. Any number of threads may use it.
///
/// Calls block and are not to be made from asynchronous tasks; those use [`Bus::client`].
pub struct Bus {
    runtime: Arc<Runtime>,
    client: Option<Client>,
    server: Mutex<Option<Arc<serving::Bus>>>,
    /// Publishes what [`Bus::publish`] is given.
    anonymous: Mutex<Option<Arc<Publisher>>>,
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus").field("embedded", &self.server.lock().is_some()).finish_non_exhaustive()
    }
}

fn runtime() -> Result<Arc<Runtime>> {
    Ok(Arc::new(Builder::new_multi_thread().worker_threads(2).thread_name("arioso").enable_all().build()?))
}

impl Bus {
    /// Opens the bus in a directory, which is made if missing, inside this process. Blocks while it replays what was not
    /// sealed. Another process that has it open is an error.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// assert!(arioso::Bus::open(dir.path()).is_err(), "it is open already");
    /// bus.close()?;
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn open(dir: impl AsRef<Path>) -> Result<Bus> {
        Bus::open_with(Settings { data: dir.as_ref().to_path_buf(), ..Settings::default() })
    }

    /// As [`Bus::open`], with settings; the addresses among them are not listened on.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use arioso::{Bus, Settings};
    /// let settings = Settings { data: dir.path().into(), tip_bytes: 16 << 20, retention_age_s: 86_400, ..Settings::default() };
    /// let bus = Bus::open_with(settings)?;
    /// bus.close()?;
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn open_with(settings: Settings) -> Result<Bus> {
        let runtime = runtime()?;
        let server = Arc::new(serving::Bus::open(settings)?);
        let (bus, handle) = (Arc::downgrade(&server), runtime.handle().clone());
        let route = Route::pipe(move || {
            let bus = bus.upgrade().ok_or_else(|| std::io::Error::other("the bus is closed"))?;
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            handle.spawn(bus.serve(theirs));
            Ok(ours)
        });
        let options = Options { name: "embedded".into(), ..Options::default() };
        let client = runtime.block_on(Client::connect_by(route, options))?;
        Ok(Bus { runtime, client: Some(client), server: Mutex::new(Some(server)), anonymous: Mutex::new(None) })
    }

    /// Connects to a server, `host:port`; gives up after 5 s.
    ///
    /// ```
    /// let refused = arioso::Bus::connect_with("127.0.0.1:1", arioso::Options {
    ///     connect_timeout: std::time::Duration::from_millis(50),
    ///     ..arioso::Options::default()
    /// });
    /// assert!(refused.is_err(), "nobody listens there");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn connect(address: &str) -> Result<Bus> {
        Bus::connect_with(address, Options::default())
    }

    /// As [`Bus::connect`], with options.
    ///
    /// ```
    /// let options = arioso::Options { name: "billing".into(), connect_timeout: std::time::Duration::from_millis(50), ..Default::default() };
    /// assert!(arioso::Bus::connect_with("127.0.0.1:1", options).is_err(), "nobody listens there");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn connect_with(address: &str, options: Options) -> Result<Bus> {
        let runtime = runtime()?;
        let client = runtime.block_on(Client::connect(address, options))?;
        Ok(Bus { runtime, client: Some(client), server: Mutex::new(None), anonymous: Mutex::new(None) })
    }

    /// The same bus for asynchronous code.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// assert!(bus.client().is_up());
    /// let stream = bus.client().welcome().expect("it is connected").stream_name;
    /// assert_eq!(&*stream, "main");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn client(&self) -> &Client {
        self.client.as_ref().expect("taken only when the bus is closed")
    }

    /// What the start of an embedded bus found; `None` for a connected one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let found = bus.recovered().expect("it is embedded");
    /// assert!(found.made && found.damage.is_empty());
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn recovered(&self) -> Option<Recovered> {
        self.server.lock().as_ref().map(|server| server.recovered.clone())
    }

    /// Publishes one message and waits until it is durable. For many, [`Bus::publisher`] keeps them flowing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let ack = bus.publish("a/b", b"hello")?;
    /// assert!(ack.sequence.0 > 0);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn publish(&self, topic: &str, payload: &[u8]) -> Result<Ack> {
        let publisher = {
            let mut slot = self.anonymous.lock();
            match &*slot {
                Some(publisher) => Arc::clone(publisher),
                None => Arc::clone(slot.insert(Arc::new(self.publisher(None)?))),
            }
        };
        publisher.publish(topic, Message::new(payload))
    }

    /// Opens a publisher. A named one stores a retry once, over connections and restarts; an anonymous one keeps no state.
    ///
    /// ```
    /// use arioso::{Bus, Message};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = Bus::open(dir.path())?;
    /// let sensor = bus.publisher(Some("sensor-7"))?;
    /// let receipts: Vec<_> = (0..100)
    ///     .map(|n: u32| sensor.send("sensors/7", Message::new(&n.to_le_bytes())))
    ///     .collect::<arioso::Result<_>>()?;
    /// for receipt in receipts {
    ///     receipt.wait()?;
    /// }
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn publisher(&self, name: Option<&str>) -> Result<Publisher> {
        let publisher = self.runtime.block_on(self.client().publisher(name))?;
        Ok(Publisher::new(publisher, Arc::clone(&self.runtime)))
    }

    /// Opens a named publisher whose first message has this publisher sequence, by the caller's own count from 1: what it
    /// published under a number before is answered with its original sequence, and not stored again.
    ///
    /// ```
    /// use arioso::{Bus, Message};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = Bus::open(dir.path())?;
    /// let first = bus.publisher(Some("sensor-7"))?.publish("sensors/7", Message::new(b"21.5"))?;
    /// let retried = bus.publisher_at("sensor-7", 1)?.publish("sensors/7", Message::new(b"21.5"))?;
    /// assert_eq!(first.sequence, retried.sequence);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn publisher_at(&self, name: &str, first: u64) -> Result<Publisher> {
        let publisher = self.runtime.block_on(self.client().publisher_at(name, first))?;
        Ok(Publisher::new(publisher, Arc::clone(&self.runtime)))
    }

    /// Follows topics and subtrees from a place on. `until_end`: ends behind what was acknowledged when it began.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.publish("a/b", b"1")?;
    /// let mut subscription = bus.subscribe(["a/**"], arioso::Begin::Start, true)?;
    /// assert_eq!(subscription.next_batch()?.expect("one message").len(), 1);
    /// assert!(subscription.next_batch()?.is_none(), "it ends behind what was acknowledged");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn subscribe<'a>(
        &self,
        filters: impl IntoIterator<Item = &'a str>,
        begin: Begin,
        until_end: bool,
    ) -> Result<Subscription> {
        let mut subscribe = Subscribe::new(filters).from(begin);
        subscribe.until_end = until_end;
        self.subscribe_with(subscribe)
    }

    /// As [`Bus::subscribe`], with everything that can be said.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// use arioso::{Begin, Subscribe};
    /// for (topic, payload) in [("t/a", "1"), ("t/b", "2"), ("t/a", "3")] {
    ///     bus.publish(topic, payload.as_bytes())?;
    /// }
    /// // The newest of every topic, in order.
    /// let mut newest = bus.subscribe_with(Subscribe::new(["t/*"]).from(Begin::Last).until_end())?;
    /// let batch = newest.next_batch()?.expect("two messages");
    /// let payloads: Vec<_> = batch.messages().map(|message| message.map(|m| m.payload().to_vec())).collect::<Result<_, _>>()?;
    /// assert_eq!(payloads, [b"2", b"3"]);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn subscribe_with(&self, subscribe: Subscribe) -> Result<Subscription> {
        let subscription = self.runtime.block_on(self.client().subscribe(subscribe))?;
        Ok(Subscription::new(subscription, Arc::clone(&self.runtime)))
    }

    /// Calls `each` with every topic that matches and has messages, in the order in which they were first published. Takes
    /// them page by page: memory is bounded however many there are.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.publish("a/b", b"1")?;
    /// let mut topics = Vec::new();
    /// bus.topics("a/**", |row| topics.push((row.topic.to_owned(), row.messages)))?;
    /// assert_eq!(topics, [("a/b".to_owned(), 1)]);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn topics(&self, filter: &str, mut each: impl FnMut(TopicInfo<'_>)) -> Result<()> {
        let mut after = String::new();
        loop {
            let page = self.runtime.block_on(self.client().topics(filter, &after, PAGE_ROWS))?;
            let mut last = None;
            for row in page.iter() {
                each(TopicInfo { topic: row.topic, messages: row.messages, bytes: row.bytes, last: row.last });
                last = Some(row.topic.to_string());
            }
            match last.filter(|_| !page.is_last()) {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    /// Every named publisher, by name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.publisher(Some("sensor-7"))?.publish("a", arioso::Message::new(b"1"))?;
    /// assert_eq!((&*bus.publishers()?[0].name, bus.publishers()?[0].last), ("sensor-7", 1));
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn publishers(&self) -> Result<Vec<PublisherInfo>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.runtime.block_on(self.client().publishers(&after, PAGE_ROWS))?;
            all.extend(page.iter().map(|row| PublisherInfo {
                name: row.name.to_string(),
                id: row.id,
                epoch: row.epoch,
                last: row.last_consumed,
                last_used: row.last_used,
            }));
            match all.last().filter(|_| !page.is_last()) {
                Some(last) => after.clone_from(&last.name),
                None => return Ok(all),
            }
        }
    }

    /// Forgets a named publisher; what it published stays.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.publisher(Some("sensor-7"))?.close()?;
    /// bus.drop_publisher("sensor-7")?;
    /// assert!(bus.publishers()?.is_empty());
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn drop_publisher(&self, name: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.client().drop_publisher(name))?)
    }

    /// Copies the stream, as it is kept now, to a folder on the server's side: an absolute path, made if missing, else empty. A
    /// bus that is opened on it has every message acknowledged up to `through`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path().join("data"))?;
    /// let sequence = bus.publish("a", b"kept")?.sequence;
    /// let folder = dir.path().join("backup");
    /// assert!(bus.back_up(&folder.display().to_string())?.through >= sequence);
    /// let restored = arioso::Bus::open(folder)?;
    /// assert!(restored.status()?.settled >= sequence);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn back_up(&self, folder: &str) -> Result<BackUpRow> {
        Ok(self.runtime.block_on(self.client().back_up(folder))?)
    }

    /// Keeps an application's snapshot under a name: its state when it had handled everything up to `as_of`. Durable when this
    /// returns. The two newest of a name are kept, whatever retention takes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let sequence = bus.publish("stock/bolts", b"+5")?.sequence;
    /// bus.store_snapshot("inventory", sequence, b"bolts 5")?;
    /// assert_eq!(bus.snapshot("inventory")?.expect("it was kept").bytes, b"bolts 5");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn store_snapshot(&self, name: &str, as_of: Sequence, bytes: &[u8]) -> Result<()> {
        Ok(self.runtime.block_on(self.client().store_snapshot(name, as_of, bytes))?)
    }

    /// The newest snapshot kept under a name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// assert_eq!(bus.snapshot("inventory")?, None);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn snapshot(&self, name: &str) -> Result<Option<Snapshot>> {
        Ok(self.runtime.block_on(self.client().snapshot(name))?)
    }

    /// What a state machine starts from: the newest snapshot kept under a name, and everything that came after it; without a
    /// snapshot, everything.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let first = bus.publish("stock/bolts", b"+5")?.sequence;
    /// bus.store_snapshot("inventory", first, b"bolts 5")?;
    /// bus.publish("stock/bolts", b"-1")?;
    /// let (snapshot, mut after) = bus.resume("inventory", ["stock/**"])?;
    /// assert_eq!(snapshot.expect("it was kept").bytes, b"bolts 5");
    /// let batch = after.next_batch()?.expect("it follows live");
    /// assert_eq!(batch.messages().next().expect("a message")?.payload(), b"-1");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn resume<'a>(
        &self,
        name: &str,
        filters: impl IntoIterator<Item = &'a str>,
    ) -> Result<(Option<Snapshot>, Subscription)> {
        let snapshot = self.snapshot(name)?;
        let begin = snapshot.as_ref().map_or(Begin::Start, |snapshot| Begin::Sequence(snapshot.as_of.next()));
        let subscription = self.subscribe(filters, begin, false)?;
        Ok((snapshot, subscription))
    }

    /// Every cursor, by name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.set_cursor("billing", arioso::Sequence(1), ["orders/**"])?;
    /// assert_eq!(bus.cursors()?[0].filters, ["orders/**"]);
    /// bus.drop_cursor("billing")?;
    /// assert!(bus.cursors()?.is_empty());
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn cursors(&self) -> Result<Vec<CursorInfo>> {
        let mut all: Vec<CursorInfo> = Vec::new();
        loop {
            let after = all.last().map_or("", |last| &last.name);
            let page = self.runtime.block_on(self.client().cursors(after, PAGE_ROWS))?;
            all.extend(page.iter().map(|row| CursorInfo {
                name: row.name.to_string(),
                next: row.next,
                committed_at: row.committed_at,
                filters: row.filters.iter().map(str::to_string).collect(),
            }));
            if page.is_last() {
                return Ok(all);
            }
        }
    }

    /// Makes or moves a cursor, and fences who holds it. Without filters it keeps those it has.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.set_cursor("billing", arioso::Sequence(1), ["orders/**"])?;
    /// bus.set_cursor("billing", arioso::Sequence(2), [])?;
    /// assert_eq!(bus.cursors()?[0].next, arioso::Sequence(2));
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn set_cursor<'a>(&self, name: &str, next: Sequence, filters: impl IntoIterator<Item = &'a str>) -> Result<()> {
        Ok(self.runtime.block_on(self.client().set_cursor(name, next, filters))?)
    }

    /// Forgets a cursor, and fences who holds it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.set_cursor("billing", arioso::Sequence(1), ["orders/**"])?;
    /// bus.drop_cursor("billing")?;
    /// assert!(bus.drop_cursor("billing").is_err(), "there is none of this name any more");
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn drop_cursor(&self, name: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.client().drop_cursor(name))?)
    }

    /// How the stream stands.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// let sequence = bus.publish("a", b"1")?.sequence;
    /// let status = bus.status()?;
    /// assert!(status.settled >= sequence && status.topics == 1);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn status(&self) -> Result<StatusRow> {
        Ok(self.runtime.block_on(self.client().status())?)
    }

    /// What a subscription that begins so would read, and how much of it is useful.
    pub fn explain<'a>(&self, filters: impl IntoIterator<Item = &'a str>, begin: Begin) -> Result<ExplainRow> {
        Ok(self.runtime.block_on(self.client().explain(begin, filters))?)
    }

    /// What a filtered read of a stretch of the stream has to come to, as the directories tell: batches are added as they are
    /// delivered, then it is checked.
    pub fn completeness<'a>(
        &self,
        first: Sequence,
        last: Sequence,
        filters: impl IntoIterator<Item = &'a str>,
    ) -> Result<Completeness> {
        Ok(self.runtime.block_on(self.client().completeness(first, last, filters))?)
    }

    /// What an embedded bus counts about itself, by the names that a server's `/metrics` has; `None` for a connected one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.publish("a", b"1")?;
    /// let counts = bus.counts().expect("it is embedded");
    /// assert!(counts.contains(&("arioso_publish_messages_total", 1)));
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn counts(&self) -> Option<Vec<(&'static str, u64)>> {
        let server = self.server.lock().clone()?;
        let names = COUNTERS.iter().map(|(name, _, _)| *name);
        Some(names.zip(server.node.counters.read()).collect())
    }

    /// Closes: what was published is answered; an embedded bus writes the mark of a clean stop.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let bus = arioso::Bus::open(dir.path())?;
    /// bus.publish("a", b"1")?;
    /// bus.close()?;
    /// assert!(arioso::Bus::open(dir.path())?.recovered().expect("it is embedded").clean);
    /// # Ok::<(), arioso::Error>(())
    /// ```
    pub fn close(mut self) -> Result<()> {
        self.shut()
    }

    fn shut(&mut self) -> Result<()> {
        *self.anonymous.lock() = None;
        let Some(client) = self.client.take() else { return Ok(()) };
        let closed = self.runtime.block_on(client.close());
        let server = self.server.lock().take();
        if let Some(server) = server.and_then(Arc::into_inner) {
            server.close()?;
        }
        Ok(closed?)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        if self.client.is_none() || tokio::runtime::Handle::try_current().is_ok() {
            // Closed already; or inside a runtime, where waiting is not allowed: the next start replays.
            return;
        }
        if let Err(error) = self.shut() {
            tracing::warn!("closing the bus: {error}");
        }
    }
}
