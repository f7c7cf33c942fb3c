//! The handle of a client: opens publishers and subscriptions, asks.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use arioso_stream::Sequence;
use arioso_wire::{
    Answer, BackUpRow, Begin, Blob, Code, CursorRows, ExplainRow, Filters, Kind, List, PublisherRows, Request, Rows,
    StatusRow, Text, TopicRows, Welcome,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::core::{PublisherEntry, Shared, SubscriptionEntry};
use super::drive::drive;
use super::publisher::Publisher;
use super::route::Route;
use super::subscription::Subscription;
use crate::completeness::{Completeness, SUM_ROWS_MAX};
use crate::machine::{Connection, Subscribe, SubscriptionId};
use crate::options::{Options, PAGE_ROWS_MAX};
use crate::{Error, Result};

/// Bytes of a snapshot's piece: every server takes frames of them.
const SNAPSHOT_PIECE_BYTES: usize = 64 << 10;
/// How often a snapshot may be retired while it is loaded.
const SNAPSHOT_TRIES: usize = 8;

/// An application's snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Everything up to this sequence is in it.
    pub as_of: Sequence,
    /// The application's bytes.
    pub bytes: Vec<u8>,
}

/// Bytes of a path.
const FOLDER_BYTES_MAX: usize = 4_096;

/// A connection to a server, made again whenever it is cut. Clones share it; when the last handle is gone, it closes
/// after everything published is answered.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
}

/// Closes the client when nobody holds it any more.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.shared.with(|core| core.connection.close(now));
    }
}

/// Ends a subscription nobody got to hold.
struct ReleaseUnheld<'h>(&'h Handle, Option<SubscriptionId>);

impl Drop for ReleaseUnheld<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.1 {
            self.0.release(id);
        }
    }
}

impl Handle {
    pub(crate) async fn request(&self, request: Request) -> Result<Vec<Answer>> {
        let (done, wait) = oneshot::channel();
        self.shared.with(|core| -> Result<()> {
            let id = core.connection.request(request)?;
            core.requests.insert(id, done);
            Ok(())
        })?;
        wait.await.unwrap_or(Err(Error::Closed))
    }

    pub(crate) fn release(&self, id: SubscriptionId) {
        self.shared.with(|core| {
            core.subscriptions.remove(&id);
            core.connection.unsubscribe(id);
        });
    }
}

impl Client {
    /// Connects to a server, `host:port`. Tries until `connect_timeout`. To be called within a tokio runtime, which then
    /// runs the client's task.
    pub async fn connect(address: impl Into<String>, options: Options) -> Result<Client> {
        Client::connect_by(Route::address(address), options).await
    }

    /// As [`Client::connect`], by any route.
    pub async fn connect_by(route: Route, options: Options) -> Result<Client> {
        let began = Instant::now();
        let seed = options.seed.unwrap_or_else(|| {
            let random = std::collections::hash_map::RandomState::new();
            random.build_hasher().finish()
        });
        let dial_timeout = options.connect_timeout;
        let connection = Connection::new(options, seed, began.elapsed())?;
        let shared = Arc::new(Shared::new(connection, began));
        let (up, wait_up) = oneshot::channel();
        shared.with(|core| core.wait_up.push(up));
        let handle = Arc::new(Handle { shared: shared.clone() });
        tokio::spawn(drive(shared, route, dial_timeout));
        wait_up.await.unwrap_or(Err(Error::Closed))?;
        Ok(Client { handle })
    }

    /// What the server told when it welcomed the client last: the stream's id and name, its limits.
    pub fn welcome(&self) -> Option<Welcome> {
        self.handle.shared.with(|core| core.connection.welcome().cloned())
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        self.handle.shared.with(|core| core.connection.is_up())
    }

    /// Opens a publisher: a named one keeps its place over connections and processes, an anonymous one doesn't.
    pub async fn publisher(&self, name: Option<&str>) -> Result<Publisher> {
        self.publisher_at(name.unwrap_or(""), 0).await
    }

    /// Opens a named publisher whose first message has this publisher sequence, by the caller's own count. What was
    /// published under a number before is answered with its original sequence.
    pub async fn publisher_at(&self, name: &str, first: u64) -> Result<Publisher> {
        let (done, wait) = oneshot::channel();
        let publisher = self.handle.shared.with(|core| -> Result<Publisher> {
            let id = core.connection.open_publisher(name, first)?;
            let entry = PublisherEntry::opening(done);
            let room = entry.room.clone();
            core.publishers.insert(id, entry);
            Ok(Publisher { handle: self.handle.clone(), id, room, open: true })
        })?;
        wait.await.unwrap_or(Err(Error::Closed))?;
        Ok(publisher)
    }

    /// Subscribes.
    pub async fn subscribe(&self, wanted: Subscribe) -> Result<Subscription> {
        let (done, wait) = oneshot::channel();
        let id = self.handle.shared.with(|core| -> Result<SubscriptionId> {
            let id = core.connection.subscribe(wanted)?;
            let entry = SubscriptionEntry { wait_open: Some(done), ..SubscriptionEntry::default() };
            core.subscriptions.insert(id, entry);
            Ok(id)
        })?;
        let mut unheld = ReleaseUnheld(&self.handle, Some(id));
        let started = wait.await.unwrap_or(Err(Error::Closed))?;
        unheld.1 = None;
        Ok(Subscription { handle: self.handle.clone(), id, started })
    }

    /// A page of the topics that match, behind the topic `after`.
    pub async fn topics(&self, filter: &str, after: &str, rows_max: u32) -> Result<Page<TopicRows>> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let request = Request::Topics { filter: name("a filter", filter)?, after: name("a topic", after)?, rows_max };
        self.page(request, rows_max, |rows| match rows {
            Rows::Topics(rows) => Some(rows),
            _ => None,
        })
        .await
    }

    /// A page of the named publishers, behind the name `after`.
    pub async fn publishers(&self, after: &str, rows_max: u32) -> Result<Page<PublisherRows>> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let after = name("a publisher's name", after)?;
        let request = Request::Publishers { after, rows_max };
        self.page(request, rows_max, |rows| match rows {
            Rows::Publishers(rows) => Some(rows),
            _ => None,
        })
        .await
    }

    /// Forgets a publisher and its numbers.
    pub async fn drop_publisher(&self, publisher: &str) -> Result<()> {
        let name = name("a publisher's name", publisher)?;
        self.handle.request(Request::DropPublisher { name }).await.map(|_| ())
    }

    /// What a subscription would read.
    pub async fn explain(&self, begin: Begin, filters: impl IntoIterator<Item = &str>) -> Result<ExplainRow> {
        let filters = filter_list(filters)?;
        match self.one(Request::Explain { begin, filters }).await? {
            Rows::Explain(row) => Ok(row),
            _ => Err(Error::protocol("an answer of another kind")),
        }
    }

    /// What a read of a stretch of the stream has to come to, piece by piece, as the directories tell: batches are added to it
    /// as they are delivered.
    pub async fn completeness(
        &self,
        first: Sequence,
        last: Sequence,
        filters: impl IntoIterator<Item = &str>,
    ) -> Result<Completeness> {
        let filters = filter_list(filters)?;
        let mut completeness = Completeness::default();
        let mut from = first;
        loop {
            let filters = filters.clone();
            let Rows::Sums(rows) = self.one(Request::Sums { first: from, last, filters }).await? else {
                return Err(Error::protocol("an answer of another kind"));
            };
            for row in rows.iter() {
                if row.first < from || row.last < row.first {
                    return Err(Error::protocol("pieces of the stream that do not ascend"));
                }
                from = row.last.next();
                completeness.push(row);
            }
            if rows.len() < SUM_ROWS_MAX {
                return Ok(completeness);
            }
        }
    }

    /// How the stream stands.
    pub async fn status(&self) -> Result<StatusRow> {
        match self.one(Request::Status).await? {
            Rows::Status(row) => Ok(row),
            _ => Err(Error::protocol("an answer of another kind")),
        }
    }

    /// Copies the stream to a folder on the server's side: an absolute path, made if missing, else empty.
    pub async fn back_up(&self, folder: &str) -> Result<BackUpRow> {
        crate::machine::check_length("a folder", folder, 1, FOLDER_BYTES_MAX)?;
        match self.one(Request::BackUp { folder: folder.into() }).await? {
            Rows::BackUp(row) => Ok(row),
            _ => Err(Error::protocol("an answer of another kind")),
        }
    }

    /// Keeps an application's snapshot under a name: its state when it had handled everything up to `as_of`. Durable when this
    /// returns. The two newest of a name are kept, whatever retention takes.
    pub async fn store_snapshot(&self, snapshot: &str, as_of: Sequence, bytes: &[u8]) -> Result<()> {
        let name = name("a snapshot's name", snapshot)?;
        let (total, hash) = (bytes.len() as u64, twox_hash::XxHash3_64::oneshot(bytes));
        let mut offset = 0;
        loop {
            let rest = &bytes[offset..];
            let piece = &rest[..rest.len().min(SNAPSHOT_PIECE_BYTES)];
            let blob = Blob(bytes::Bytes::copy_from_slice(piece));
            let at = offset as u64;
            let put = Request::PutSnapshot { name: name.clone(), as_of, total, hash, offset: at, bytes: blob };
            self.handle.request(put).await?;
            offset += piece.len();
            if offset == bytes.len() {
                return Ok(());
            }
        }
    }

    /// The newest snapshot kept under a name.
    pub async fn snapshot(&self, snapshot: &str) -> Result<Option<Snapshot>> {
        let name = name("a snapshot's name", snapshot)?;
        for _ in 0..SNAPSHOT_TRIES {
            match self.load_snapshot(&name).await {
                Err(Error::Refused { code: Code::NoSuchSnapshot, detail_a: 0, .. }) => return Ok(None),
                // It was retired while it was loaded: there is a newer one.
                Err(Error::Refused { code: Code::NoSuchSnapshot, .. }) => {}
                loaded => return loaded.map(Some),
            }
        }
        Err(Error::protocol("snapshots are retired faster than they are loaded"))
    }

    async fn load_snapshot(&self, name: &Text) -> Result<Snapshot> {
        let (mut as_of, mut told_hash) = (Sequence::ZERO, 0);
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let (offset, bytes_max) = (bytes.len() as u64, u32::try_from(SNAPSHOT_PIECE_BYTES).expect("64 KiB"));
            let get = Request::GetSnapshot { name: name.clone(), as_of, offset, bytes_max };
            let Rows::Snapshot(row) = self.one(get).await? else {
                return Err(Error::protocol("an answer of another kind"));
            };
            if as_of == Sequence::ZERO {
                (as_of, told_hash) = (row.as_of, row.hash);
            }
            bytes.extend_from_slice(&row.bytes.0);
            if bytes.len() as u64 >= row.total {
                break;
            }
            if row.bytes.0.is_empty() {
                return Err(Error::protocol("a piece of no bytes"));
            }
        }
        match twox_hash::XxHash3_64::oneshot(&bytes) == told_hash {
            true => Ok(Snapshot { as_of, bytes }),
            false => Err(Error::protocol("a snapshot's bytes are not those of its hash")),
        }
    }

    /// A page of the cursors, behind the name `after`.
    pub async fn cursors(&self, after: &str, rows_max: u32) -> Result<Page<CursorRows>> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let after = name("a cursor's name", after)?;
        let request = Request::Cursors { after, rows_max };
        self.page(request, rows_max, |rows| match rows {
            Rows::Cursors(rows) => Some(rows),
            _ => None,
        })
        .await
    }

    /// Makes or moves a cursor, and fences who holds it. Without filters it keeps those it has.
    pub async fn set_cursor(
        &self,
        cursor: &str,
        next: Sequence,
        filters: impl IntoIterator<Item = &str>,
    ) -> Result<()> {
        let mut filters = filters.into_iter().peekable();
        let filters = if filters.peek().is_none() { List::EMPTY } else { filter_list(filters)? };
        let request = Request::SetCursor { name: name("a cursor's name", cursor)?, next, filters };
        self.handle.request(request).await.map(|_| ())
    }

    /// Forgets a cursor.
    pub async fn drop_cursor(&self, cursor: &str) -> Result<()> {
        let name = name("a cursor's name", cursor)?;
        self.handle.request(Request::DropCursor { name }).await.map(|_| ())
    }

    /// Closes: nothing more is taken, what was published is answered, goodbye is said.
    pub async fn close(self) -> Result<()> {
        let now = self.handle.shared.now();
        let (done, wait) = oneshot::channel();
        let over = self.handle.shared.with(|core| {
            core.connection.close(now);
            match core.connection.is_over() {
                Some(error) => Some(error.clone()),
                None => {
                    core.wait_over.push(done);
                    None
                }
            }
        });
        let over = match over {
            Some(error) => error,
            None => wait.await.unwrap_or(Error::Closed),
        };
        match over {
            Error::Closed => Ok(()),
            error => Err(error),
        }
    }

    async fn page<K: Kind>(
        &self,
        request: Request,
        rows_max: u32,
        rows: impl Fn(Rows) -> Option<List<K>>,
    ) -> Result<Page<K>> {
        let answers = self.handle.request(request).await?;
        let parts = answers.into_iter().filter_map(|answer| rows(answer.rows));
        Ok(Page { parts: parts.collect(), rows_max: rows_max as usize })
    }

    async fn one(&self, request: Request) -> Result<Rows> {
        let answer = self.handle.request(request).await?.pop();
        answer.map(|answer| answer.rows).ok_or_else(|| Error::protocol("an answer without rows"))
    }
}

fn name(what: &'static str, name: &str) -> Result<Text> {
    crate::machine::check_length(what, name, 0, crate::NAME_BYTES_MAX)?;
    Ok(name.into())
}

fn filter_list<'a>(filters: impl IntoIterator<Item = &'a str>) -> Result<List<Filters>> {
    let filters = Subscribe::new(filters);
    filters.check()?;
    Ok(List::collect(filters.filters.iter().map(Text::as_str)))
}

/// Rows of one page, sorted.
#[derive(Clone, Debug)]
pub struct Page<K: Kind> {
    parts: Vec<List<K>>,
    rows_max: usize,
}

impl<K: Kind> Page<K> {
    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = K::Item<'_>> {
        self.parts.iter().flat_map(List::iter)
    }

    /// Rows there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(List::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing follows; otherwise ask again behind the last row.
    pub fn is_last(&self) -> bool {
        self.len() < self.rows_max
    }
}
