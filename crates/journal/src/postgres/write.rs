//! One write: tried until it is known.

use std::sync::Arc;
use std::time::Instant;

use arioso_store::batch::BatchHeader;
use arioso_stream::Sequence;
use arioso_stream::record::{FLAG_VOID, Records};
use bytes::Bytes;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;

use super::pool::Pool;
use super::session::{Link, Session, Trouble};
use super::takeover::Takeover;
use super::{Ended, Shared};
use crate::backend::Outcome;

/// A batch as it goes into the table.
pub(super) struct Row {
    pub(super) number: u64,
    first_sequence: u64,
    last_sequence: u64,
    records: i32,
    voids: bool,
    settled_to: u64,
    header: Bytes,
    body: Bytes,
}

/// A number as the database takes it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("numbers of a stream stay below 2^63")
}

/// A number as the database gives it.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

impl Row {
    pub(super) fn new(parts: &BatchHeader<'_>, header: Bytes, body: Bytes) -> Row {
        let is_void = |record: &arioso_stream::Record<'_>| record.header().flags.get() & FLAG_VOID != 0;
        let voids = !parts.messages_only() && Records::new(&body).map_while(Result::ok).any(|record| is_void(&record));
        Row {
            number: parts.number(),
            first_sequence: parts.first_sequence(),
            last_sequence: parts.last_sequence(),
            records: i32::try_from(parts.records_count()).expect("a batch of 32 MiB has fewer records"),
            voids,
            settled_to: parts.settled_to(),
            header,
            body,
        }
    }

    /// Inserts it; whether it was there before is for the caller to find out when this did nothing.
    async fn insert(&self, session: &Session, epoch: u64) -> Result<bool, tokio_postgres::Error> {
        let numbers = [epoch, self.number, self.first_sequence, self.last_sequence, self.settled_to].map(signed);
        let [epoch, number, first, last, settled_to] = &numbers;
        let (header, body) = (&self.header[..], &self.body[..]);
        let arguments: [&(dyn ToSql + Sync); 9] =
            [epoch, number, first, last, &self.records, &self.voids, settled_to, &header, &body];
        Ok(session.link.client.execute(&session.insert, &arguments).await? == 1)
    }
}

/// What a try came to.
enum Tried {
    Durable,
    Failed,
    Fenced {
        theirs: u64,
    },
    /// A newcomer is announced.
    Yield,
}

/// Writes a batch, again and again until it is known.
pub(super) async fn write(shared: Arc<Shared>, row: Row, bytes: u64, was_full: bool) {
    let began = Instant::now();
    let mut tries = 0;
    loop {
        let trouble = match attempt(&shared, &row).await {
            Ok(Tried::Durable) => return shared.known(row.number, Outcome::Durable, bytes, began.elapsed(), was_full),
            Ok(Tried::Failed) => return shared.known(row.number, Outcome::Failed, bytes, began.elapsed(), was_full),
            Ok(Tried::Fenced { theirs }) => return shared.end(Ended::Fenced { theirs }),
            Ok(Tried::Yield) => Trouble::Refused("another server is about to take the stream over".into()),
            Err(trouble) => trouble,
        };
        shared.unknown(row.number, &trouble);
        shared.pool.back_off(tries, &trouble).await;
        tries += 1;
    }
}

fn late() -> Trouble {
    Trouble::Broken("no answer within write-timeout".into())
}

async fn attempt(shared: &Shared, row: &Row) -> Result<Tried, Trouble> {
    let pool = &shared.pool;
    // The database's own time-out comes first; this one is for a network that says nothing.
    let patience = pool.connector.write_timeout() * 2;
    let epoch = shared.epoch();
    let lease = pool.lease().await?;
    let inserted = timeout(patience, row.insert(lease.session(), epoch)).await.map_err(|_| late())?;
    let tried = match inserted {
        Ok(true) => Ok(Tried::Durable),
        Ok(false) => {
            timeout(patience, look(pool, &lease.session().link, row.number, epoch)).await.map_err(|_| late())?
        }
        Err(error) => match Trouble::of(&error) {
            Trouble::Definite(text) => {
                shared.books.lock().trouble = Some(text.clone());
                let taking = take_number(pool, &lease.session().link, row.number, epoch);
                timeout(patience, taking).await.map_err(|_| late())?
            }
            Trouble::Broken(text) => return Err(Trouble::Broken(text)),
            trouble => Err(trouble),
        },
    };
    match tried {
        Err(Trouble::Broken(text)) => Err(Trouble::Broken(text)),
        other => {
            lease.give_back();
            other
        }
    }
}

/// Why nothing was inserted.
async fn look(pool: &Pool, link: &Link, number: u64, epoch: u64) -> Result<Tried, Trouble> {
    let row = link.client.query_one(&pool.connector.names.look(), &[&signed(number)]).await;
    let row = row.map_err(|error| Trouble::of(&error))?;
    let of = |error: tokio_postgres::Error| Trouble::of(&error);
    let theirs = unsigned(row.try_get(0).map_err(of)?);
    let there: Option<i64> = row.try_get(1).map_err(of)?;
    let is_batch: Option<bool> = row.try_get(2).map_err(of)?;
    Ok(match (there.map(unsigned), is_batch) {
        (Some(by), Some(true)) if by == epoch => Tried::Durable,
        (Some(by), Some(false)) if by == epoch => Tried::Failed,
        _ if theirs != epoch => Tried::Fenced { theirs },
        _ => Tried::Yield,
    })
}

/// Sees to it that no try of this number can succeed any more.
async fn take_number(pool: &Pool, link: &Link, number: u64, epoch: u64) -> Result<Tried, Trouble> {
    let statement = pool.connector.names.take_numbers();
    let (epoch_arg, number_arg) = (signed(epoch), signed(number));
    let taken = link.client.execute(&statement, &[&epoch_arg, &number_arg, &number_arg]).await;
    match taken {
        Ok(1) => Ok(Tried::Failed),
        Ok(_) => look(pool, link, number, epoch).await,
        // The write was refused for good, but nothing is known until its number is taken.
        Err(error) => Err(match Trouble::of(&error) {
            Trouble::Definite(text) => Trouble::Refused(text),
            other => other,
        }),
    }
}

/// The write that ends the takeover: in its transaction, once. A failure leaves the stream to whoever had it.
pub(super) async fn first(shared: Arc<Shared>, takeover: Takeover, row: Row, bytes: u64) {
    let began = Instant::now();
    let number = row.number;
    let patience = shared.pool.connector.write_timeout() * 3;
    let done = match timeout(patience, commit(&shared, takeover, &row)).await {
        Ok(done) => done,
        Err(_) => Err(late()),
    };
    let trouble = match done {
        Ok(()) => return shared.known(number, Outcome::Durable, bytes, began.elapsed(), false),
        Err(Trouble::Broken(text)) => Trouble::Broken(text),
        Err(trouble) => {
            let text = format!("taking the stream over: {}", trouble.text());
            return shared.end(Ended::Lost { batch: number, text });
        }
    };
    // Lost inside the commit, perhaps: then the batch is there.
    shared.unknown(number, &trouble);
    for tries in 0..8 {
        shared.pool.back_off(tries, &trouble).await;
        let Ok(lease) = shared.pool.lease().await else { continue };
        let looked = timeout(patience, look(&shared.pool, &lease.session().link, number, shared.epoch())).await;
        match looked {
            Ok(Ok(Tried::Durable)) => {
                lease.give_back();
                return shared.known(number, Outcome::Durable, bytes, began.elapsed(), false);
            }
            Ok(Ok(_)) => break,
            _ => {}
        }
    }
    let text = format!("taking the stream over: {}", trouble.text());
    shared.end(Ended::Lost { batch: number, text });
}

async fn commit(shared: &Shared, takeover: Takeover, row: &Row) -> Result<(), Trouble> {
    let of = |error: tokio_postgres::Error| Trouble::of(&error);
    let epoch = shared.epoch();
    let names = &shared.pool.connector.names;
    let (link, missing) = takeover.into_parts();
    for (first, last) in missing {
        let arguments = (signed(epoch), signed(first), signed(last));
        link.client.execute(&names.take_numbers(), &[&arguments.0, &arguments.1, &arguments.2]).await.map_err(of)?;
    }
    let insert = link.client.prepare(&names.insert()).await.map_err(of)?;
    let session = Session { link, insert };
    if !row.insert(&session, epoch).await.map_err(of)? {
        return Err(Trouble::Refused("the first batch's number or sequence is there already".into()));
    }
    session.link.client.batch_execute("commit").await.map_err(of)
}

/// The epoch that may write.
pub(super) async fn epoch(pool: &Pool) -> Result<u64, Trouble> {
    let lease = pool.lease().await?;
    let statement = pool.connector.names.sql("select epoch from @.epoch");
    let asked = timeout(pool.connector.write_timeout(), lease.session().link.client.query_one(&statement, &[])).await;
    let row = asked.map_err(|_| late())?.map_err(|error| Trouble::of(&error))?;
    let epoch = row.try_get(0).map_err(|error| Trouble::of(&error))?;
    lease.give_back();
    Ok(unsigned(epoch))
}

/// Marks a clean stop. Another's epoch is told instead.
pub(super) async fn stop(shared: &Shared, next: Sequence, timestamp: i64) -> Result<Option<u64>, Trouble> {
    let pool = &shared.pool;
    {
        let lease = pool.lease().await?;
        let statement = pool
            .connector
            .names
            .sql("update @.epoch set clean = true, next_sequence = $2, last_timestamp = $3 where epoch = $1");
        let (ours, next) = (signed(shared.epoch()), signed(next.0));
        let arguments: [&(dyn ToSql + Sync); 3] = [&ours, &next, &timestamp];
        let marking = lease.session().link.client.execute(&statement, &arguments);
        let marked = timeout(pool.connector.write_timeout(), marking).await.map_err(|_| late())?;
        let marked = marked.map_err(|error| Trouble::of(&error))?;
        lease.give_back();
        if marked == 1 {
            return Ok(None);
        }
    }
    epoch(pool).await.map(Some)
}
