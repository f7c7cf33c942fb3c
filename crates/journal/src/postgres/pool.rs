//! The connections that batches are written over: made when they are needed, reused the last used first, never more than set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::session::{Connector, Session, Trouble};

/// The first wait after a connection could not be made; it doubles up to the second.
const BACK_OFF_MIN: Duration = Duration::from_millis(20);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// The connections.
pub(super) struct Pool {
    pub(super) connector: Arc<Connector>,
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
    /// Told when a connection comes back.
    returned: Notify,
    open: AtomicU32,
    /// Draws that tell apart who tries again when.
    draws: AtomicU64,
}

/// A connection in use. Dropped it is closed; [`Leased::give_back`] keeps it.
pub(super) struct Leased<'a> {
    pool: &'a Pool,
    session: Option<Session>,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub(super) fn new(connector: Arc<Connector>, connections: u32) -> Pool {
        Pool {
            connector,
            permits: Semaphore::new(connections as usize),
            idle: Mutex::new(Vec::with_capacity(connections as usize)),
            returned: Notify::new(),
            open: AtomicU32::new(0),
            draws: AtomicU64::new(0),
        }
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// One that is idle, or a new one.
    pub(super) async fn lease(&self) -> Result<Leased<'_>, Trouble> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| Trouble::Broken("the journal is closed".into()))?;
        let idle = self.idle.lock().pop();
        let session = match idle {
            Some(session) if !session.link.client.is_closed() => session,
            was => {
                if was.is_some() {
                    self.open.fetch_sub(1, Ordering::Relaxed);
                }
                let session = self.connector.session().await?;
                self.open.fetch_add(1, Ordering::Relaxed);
                session
            }
        };
        Ok(Leased { pool: self, session: Some(session), _permit: permit })
    }

    /// Waits before the try of this number, longer every time and never twice the same; not longer than until a connection
    /// comes back, if the database has none to give.
    pub(super) async fn back_off(&self, tries: u32, trouble: &Trouble) {
        let most = BACK_OFF_MIN.saturating_mul(1 << tries.min(10)).min(BACK_OFF_MAX);
        // Spread by a golden ratio's multiples: half of it to all of it.
        let draw = self.draws.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let share = 0.5 + 0.5 * (draw >> 40) as f64 / f64::from(1 << 24);
        let wait = tokio::time::sleep(most.mul_f64(share));
        if matches!(trouble, Trouble::TooMany(_)) && self.open() > 0 {
            tokio::select! {
                () = wait => {}
                () = self.returned.notified() => {}
            }
        } else {
            wait.await;
        }
    }
}

impl Leased<'_> {
    pub(super) fn session(&self) -> &Session {
        self.session.as_ref().expect("a lease holds its session until it ends")
    }

    /// Keeps the connection for the next write.
    pub(super) fn give_back(mut self) {
        if let Some(session) = self.session.take() {
            self.pool.idle.lock().push(session);
            self.pool.returned.notify_one();
        }
    }
}

impl Drop for Leased<'_> {
    fn drop(&mut self) {
        if self.session.take().is_some() {
            self.pool.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
