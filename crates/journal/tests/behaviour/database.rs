//! The database of the tests: one throw-away server for all that need nothing of their own, a schema each.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arioso_journal::local::NewStream;
use arioso_journal::postgres::cluster::{Cluster, programs};
use arioso_journal::postgres::{Postgres, PostgresOptions};
use arioso_journal::{Backend, Completion, Error, Outcome, Write};

use crate::suite::Kind;

/// Longer than anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
static SCHEMAS: AtomicU32 = AtomicU32::new(1);

/// Whether PostgreSQL is there. Where it must be (`CI` is set) a missing one is an error.
pub fn installed() -> bool {
    if programs().is_some() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed, and CI is set: it must be");
    eprintln!("omitted: PostgreSQL is not installed");
    false
}

/// A server that tests share while any of them runs.
pub fn shared() -> Arc<Cluster> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cluster) = shared.upgrade() {
        return cluster;
    }
    let cluster = Arc::new(Cluster::start(&std::env::temp_dir(), &[]).unwrap());
    *shared = Arc::downgrade(&cluster);
    cluster
}

/// Options for a schema of its own.
pub fn options(url: String) -> PostgresOptions {
    PostgresOptions {
        schema: format!("stream_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed)),
        connect_timeout: Duration::from_secs(5),
        write_timeout: Duration::from_secs(5),
        new_stream: Some(NewStream { id: 5 << 64 | 9, name: "suite".into(), now: 1 }),
        ..PostgresOptions::new(url)
    }
}

/// The row `postgres` of the suite.
pub struct Database {
    pub cluster: Arc<Cluster>,
    pub options: PostgresOptions,
    news: Option<Receiver<()>>,
}

impl Database {
    pub fn new() -> Option<Database> {
        installed().then(|| {
            let cluster = shared();
            Database { options: options(cluster.url()), cluster, news: None }
        })
    }

    pub fn on(cluster: Arc<Cluster>, options: PostgresOptions) -> Database {
        Database { cluster, options, news: None }
    }

    /// One more server of the same stream.
    pub fn open(&mut self) -> Postgres {
        let mut journal = Postgres::open(&self.options).unwrap();
        self.news = Some(news(&mut journal));
        journal
    }
}

impl Kind for Database {
    type Journal = Postgres;

    fn first(&mut self) -> Postgres {
        self.open()
    }

    fn again(&mut self, before: Postgres) -> Postgres {
        drop(before);
        self.open()
    }

    fn attend(&mut self, _: &mut Postgres) {
        if let Some(news) = &self.news {
            let _ = news.recv_timeout(Duration::from_millis(20));
        }
    }
}

/// Submits, without waiting.
pub fn submit(journal: &mut Postgres, writes: impl IntoIterator<Item = Write>) {
    writes.into_iter().for_each(|write| journal.submit(write));
}

/// Hears of news from now on; what was known before is told by `advance`.
pub fn news(journal: &mut Postgres) -> Receiver<()> {
    let (told, news) = sync_channel(1);
    journal.wake_by(Arc::new(move || {
        // One notice is as good as many.
        let _ = told.try_send(());
    }));
    news
}

/// What becomes known until `enough` says so.
pub fn until(journal: &mut Postgres, mut enough: impl FnMut(&[Completion]) -> bool) -> Vec<Completion> {
    let news = news(journal);
    let mut told = Vec::new();
    loop {
        journal.advance(&mut told).unwrap();
        if enough(&told) {
            return told;
        }
        news.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{told:?}, {:?}", journal.trouble()));
    }
}

/// What ends the journal; nothing may become known before.
pub fn end_of(journal: &mut Postgres) -> Error {
    let news = news(journal);
    loop {
        let mut told = Vec::new();
        if let Err(error) = journal.advance(&mut told) {
            return error;
        }
        assert_eq!(known(&told), 0, "{told:?}");
        news.recv_timeout(PATIENCE).unwrap();
    }
}

/// How many are durable or failed.
pub fn known(told: &[Completion]) -> usize {
    told.iter().filter(|done| done.outcome != Outcome::Unknown).count()
}
