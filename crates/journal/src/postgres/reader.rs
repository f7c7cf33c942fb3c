//! Batches for readers: the history of the stream, a piece at a time, over a few connections of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arioso_store::batch::BatchHeader;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::session::{Connector, Link, Trouble};
use super::write::{signed, unsigned};
use crate::backend::{Damage, From, Stored, StoredBatch};
use crate::error::Error;

/// Readers at a time: history must not take the connections that writes need.
const CONNECTIONS: usize = 4;
/// Rows looked at for one piece.
const ROWS_MAX: i64 = 2_048;
/// How long a database that is away is waited for before a reader is told.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Reads stored batches.
pub struct Reader {
    connector: Arc<Connector>,
    runtime: Handle,
    /// The journal is gone, and the runtime with it.
    closed: Arc<AtomicBool>,
    permits: Semaphore,
    idle: Mutex<Vec<Link>>,
}

impl Reader {
    pub(super) fn new(connector: Arc<Connector>, runtime: Handle, closed: Arc<AtomicBool>) -> Reader {
        let (permits, idle) = (Semaphore::new(CONNECTIONS), Mutex::new(Vec::with_capacity(CONNECTIONS)));
        Reader { connector, runtime, closed, permits, idle }
    }

    async fn piece(&self, from: From, bytes: usize) -> Result<Vec<StoredBatch>, Trouble> {
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| Trouble::Broken("the journal is closed".into()))?;
        let idle = self.idle.lock().pop().filter(|link| !link.client.is_closed());
        let link = match idle {
            Some(link) => link,
            None => self.connector.connect().await?,
        };
        let asked = tokio::time::timeout(self.connector.write_timeout() * 2, self.select(&link, from, bytes)).await;
        let found = asked.map_err(|_| Trouble::Broken("no answer".into()))??;
        self.idle.lock().push(link);
        Ok(found)
    }

    async fn select(&self, link: &Link, from: From, bytes: usize) -> Result<Vec<StoredBatch>, Trouble> {
        let of = |error: tokio_postgres::Error| Trouble::of(&error);
        let (lower, at) = match from {
            From::Number(number) => ("$1::bigint", number),
            // The last batch that begins at or before it; what it does not hold is passed over.
            From::Sequence(sequence) => (
                "coalesce((select number from @.batch where records > 0 and first_sequence <= $1::bigint \
                 order by first_sequence desc limit 1), 0)",
                sequence.0,
            ),
        };
        let statement = self.connector.names.sql(&format!(
            "select number, header, body from (select number, header, body, \
                 sum(octet_length(header) + octet_length(body)) over (order by number) \
                     - octet_length(header) - octet_length(body) as bytes_before \
             from (select * from @.batch where number >= {lower} order by number limit {ROWS_MAX}) n) n \
             where bytes_before < $2::bigint order by number"
        ));
        let budget = i64::try_from(bytes).unwrap_or(i64::MAX);
        let rows = link.client.query(&statement, &[&signed(at), &budget]).await.map_err(of)?;
        let mut found = Vec::with_capacity(rows.len());
        let mut expected = match from {
            From::Number(number) => Some(number),
            From::Sequence(_) => None,
        };
        for row in rows {
            let number = unsigned(row.try_get(0).map_err(of)?);
            let header: &[u8] = row.try_get(1).map_err(of)?;
            let body: &[u8] = row.try_get(2).map_err(of)?;
            let lost = expected.filter(|expected| *expected < number).map(|expected| expected..=number - 1);
            expected = Some(number + 1);
            let damage =
                lost.map(|batches| Damage { place: self.connector.place.clone(), batches: Some(batches), bytes: 0 });
            found.push(self.batch(number, header, body, damage));
        }
        Ok(found)
    }

    /// A batch whose checksums hold, or the damage in its place.
    fn batch(&self, number: u64, header: &[u8], body: &[u8], damage: Option<Damage>) -> StoredBatch {
        let taken = header.is_empty();
        let good = taken || BatchHeader::read(header).and_then(|header| header.verify_records(body)).is_ok();
        if good {
            let (header, records) = (Bytes::copy_from_slice(header), Bytes::copy_from_slice(body));
            return StoredBatch { number, header, records, damage_before: damage };
        }
        let first = damage.and_then(|damage| damage.batches).map_or(number, |batches| *batches.start());
        let place = format!("{}, batch {number}", self.connector.place);
        let damage = Damage { place, batches: Some(first..=number), bytes: body.len() as u64 };
        StoredBatch { number, header: Bytes::new(), records: Bytes::new(), damage_before: Some(damage) }
    }
}

impl Stored for Reader {
    fn read(&self, from: From, bytes: usize) -> Result<Vec<StoredBatch>, Error> {
        let began = Instant::now();
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(self.connector.error("reading history", "the journal is closed"));
            }
            match self.runtime.block_on(self.piece(from, bytes)) {
                Ok(found) => return Ok(found),
                Err(trouble) if began.elapsed() > PATIENCE || matches!(trouble, Trouble::Definite(_)) => {
                    return Err(self.connector.error("reading history", trouble.text()));
                }
                Err(_) => self.runtime.block_on(tokio::time::sleep(AGAIN_AFTER)),
            }
        }
    }
}
