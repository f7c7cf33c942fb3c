//! Becoming the one server of a stream, and reading what is there.
//!
//! ```text
//!  announce (its own transaction) ─▶ begin ─▶ epoch FOR UPDATE: no write of the old epoch is open, none begins
//!        ─▶ epoch one higher ─▶ rows read ─▶ [first write: numbers taken, batch] ─▶ commit
//! ```

use arioso_store::batch::BatchHeader;
use arioso_stream::Sequence;
use futures_util::StreamExt;

use super::session::{Connector, Link, Trouble};
use super::write::{signed, unsigned};
use crate::backend::{Damage, Replay, ReplayEnd};
use crate::entry::BatchNumber;
use crate::error::Error;

/// How often the lock on the epoch is asked for before the newcomer gives up.
const TRIES: u32 = 5;
/// How long the replay may pause between two statements.
const IDLE_MS: u32 = 600_000;

/// Which batches a scan shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Those that reach to a sequence or above it.
    From(Sequence),
    /// Those that hold void records.
    Voids,
}

/// What taking over found.
#[derive(Clone, Debug)]
pub struct TakenOver {
    /// Where the stream goes on.
    pub end: ReplayEnd,
    /// The highest durable `settled_to`.
    pub settled_to: Sequence,
    /// The highest durable `reserved_to`.
    pub reserved_to: Sequence,
    /// The last sequence in a batch.
    pub last_sequence: Sequence,
    /// The first sequence kept.
    pub first_kept: Sequence,
    /// Whether the last stop was clean.
    pub clean: bool,
}

/// The open transaction.
pub(super) struct Takeover {
    link: Link,
    settled_to: u64,
    /// Numbers above `settled_to` that no row has.
    missing: Vec<(u64, u64)>,
}

const DOING: &str = "taking the stream over";

/// Announces, locks, bumps, and tells where the stream ends.
pub(super) async fn begin(connector: &Connector) -> Result<(Takeover, TakenOver), Error> {
    let failed = |trouble: Trouble| connector.error(DOING, trouble.text());
    let link = connector.connect().await.map_err(failed)?;
    let mut tried = 0;
    let (epoch, clean, next_sequence, last_timestamp) = loop {
        match lock(connector, &link).await {
            Ok(locked) => break locked,
            Err(Trouble::Refused(_)) if tried < TRIES => tried += 1,
            Err(trouble) => return Err(failed(trouble)),
        }
    };
    let found = ends(connector, &link).await.map_err(failed)?;
    let (mut next, mut timestamp) = (found.reserved_to + 1, found.timestamp);
    if clean {
        (next, timestamp) = (next_sequence.max(found.last_sequence + 1), timestamp.max(last_timestamp));
    }
    let end = ReplayEnd {
        newest_batch: found.newest.map(BatchNumber),
        next_sequence: Sequence(next),
        timestamp_floor: timestamp,
        server_epoch: epoch,
    };
    let taken = TakenOver {
        end,
        settled_to: Sequence(if clean { next - 1 } else { found.settled_to }),
        reserved_to: Sequence(found.reserved_to),
        last_sequence: Sequence(found.last_sequence),
        first_kept: Sequence(found.first_kept),
        clean,
    };
    let mut takeover = Takeover { link, settled_to: taken.settled_to.0, missing: Vec::new() };
    takeover.missing = takeover.find_missing(connector).await.map_err(failed)?;
    Ok((takeover, taken))
}

/// Announces this server and takes the lock on the epoch, in a transaction that stays open. Gives the new epoch, and what
/// stood beside the old one.
async fn lock(connector: &Connector, link: &Link) -> Result<(u64, bool, u64, i64), Trouble> {
    let of = |error: tokio_postgres::Error| Trouble::of(&error);
    let (client, names) = (&link.client, &connector.names);
    let ms = i64::try_from(connector.write_timeout().as_millis()).unwrap_or(i64::MAX / 4);
    client.batch_execute("rollback").await.map_err(of)?;
    let announce = format!(
        "update @.announced set epoch = (select epoch + 1 from @.epoch), until = clock_timestamp() + interval '{} ms'",
        ms * 3
    );
    client.batch_execute(&names.sql(&announce)).await.map_err(of)?;
    // A holder that is dead is ended by its own time-outs meanwhile.
    let begin = format!(
        "begin isolation level read committed; set local lock_timeout = {}; set local statement_timeout = 0; \
         set local idle_in_transaction_session_timeout = {IDLE_MS}",
        ms * 2
    );
    client.batch_execute(&begin).await.map_err(of)?;
    let select = names.sql("select epoch, clean, next_sequence, last_timestamp from @.epoch for update");
    let row = client.query_one(&select, &[]).await.map_err(of)?;
    let epoch = unsigned(row.try_get(0).map_err(of)?) + 1;
    let (clean, next) = (row.try_get(1).map_err(of)?, unsigned(row.try_get(2).map_err(of)?));
    let timestamp: i64 = row.try_get(3).map_err(of)?;
    client.execute(&names.sql("update @.epoch set epoch = $1, clean = false"), &[&signed(epoch)]).await.map_err(of)?;
    client.execute(&names.sql("update @.announced set epoch = $1"), &[&signed(epoch)]).await.map_err(of)?;
    Ok((epoch, clean, next, timestamp))
}

#[derive(Default)]
struct Ends {
    /// The highest number a row has.
    newest: Option<u64>,
    settled_to: u64,
    reserved_to: u64,
    last_sequence: u64,
    first_kept: u64,
    timestamp: i64,
}

async fn ends(connector: &Connector, link: &Link) -> Result<Ends, Trouble> {
    let of = |error: tokio_postgres::Error| Trouble::of(&error);
    let (client, names) = (&link.client, &connector.names);
    let highest = client.query_one(&names.sql("select max(number) from @.batch"), &[]).await.map_err(of)?;
    let newest: Option<i64> = highest.try_get(0).map_err(of)?;
    let mut ends = Ends { newest: newest.map(unsigned), first_kept: 1, ..Ends::default() };
    // What a batch tells of how far things are never goes back from one batch to the next.
    let select = names.sql("select header from @.batch where header <> '' order by number desc limit 1");
    if let Some(row) = client.query_opt(&select, &[]).await.map_err(of)? {
        let header: &[u8] = row.try_get(0).map_err(of)?;
        let bad = |bad: arioso_store::batch::BadBatch| Trouble::Definite(format!("the newest batch: {bad}"));
        let header = BatchHeader::read(header).map_err(bad)?;
        (ends.settled_to, ends.reserved_to) = (header.settled_to(), header.reserved_to());
        (ends.last_sequence, ends.timestamp) = (header.last_sequence(), header.timestamp());
    }
    let select = names.sql("select first_sequence from @.batch where number > 1 order by number limit 1");
    let trimmed = names.sql("select 1 from @.batch where number = 1");
    if client.query_opt(&trimmed, &[]).await.map_err(of)?.is_none()
        && let Some(row) = client.query_opt(&select, &[]).await.map_err(of)?
    {
        ends.first_kept = unsigned(row.try_get(0).map_err(of)?).max(1);
    }
    Ok(ends)
}

impl Takeover {
    pub(super) fn into_parts(self) -> (Link, Vec<(u64, u64)>) {
        (self.link, self.missing)
    }

    /// Numbers missing before rows that lie above `settled_to`.
    async fn find_missing(&self, connector: &Connector) -> Result<Vec<(u64, u64)>, Trouble> {
        let of = |error: tokio_postgres::Error| Trouble::of(&error);
        let select = connector.names.sql(
            "select before + 1, number - 1 from (select number, first_sequence, records, header, \
             lag(number) over (order by number) as before from @.batch \
             where number >= coalesce((select max(number) from @.batch where records > 0 and last_sequence <= $1), 0)) n \
             where number > before + 1 and (header = '' or first_sequence - least(records, 1) > $1)",
        );
        let rows = self.link.client.query(&select, &[&signed(self.settled_to)]).await.map_err(of)?;
        let range = |row: &tokio_postgres::Row| Ok((unsigned(row.try_get(0)?), unsigned(row.try_get(1)?)));
        rows.iter().map(range).collect::<Result<_, tokio_postgres::Error>>().map_err(of)
    }

    /// Shows batches in the order of their numbers.
    pub(super) async fn scan(
        &mut self,
        connector: &Connector,
        scan: Scan,
        replay: &mut dyn Replay,
    ) -> Result<(), Error> {
        let failed = |error: tokio_postgres::Error| connector.error("replaying", Trouble::of(&error).text());
        let (clause, from) = match scan {
            Scan::From(from) => ("last_sequence >= $1", from.0),
            Scan::Voids => ("voids and number >= $1", 0),
        };
        let select = format!("select number, header, body from @.batch where {clause} order by number");
        let rows = self.link.client.query_raw(&connector.names.sql(&select), [signed(from)]).await.map_err(failed)?;
        let mut rows = std::pin::pin!(rows);
        let mut before: Option<u64> = None;
        while let Some(row) = rows.next().await {
            let row = row.map_err(failed)?;
            let number = unsigned(row.try_get(0).map_err(failed)?);
            let header: &[u8] = row.try_get(1).map_err(failed)?;
            let body: &[u8] = row.try_get(2).map_err(failed)?;
            let lost = before
                .filter(|before| scan != Scan::Voids && before + 1 < number)
                .map(|before| before + 1..=number - 1);
            if let Some(batches) = lost.filter(|lost| !self.missing.contains(&(*lost.start(), *lost.end()))) {
                replay.damage(Damage { place: connector.place.clone(), batches: Some(batches), bytes: 0 })?;
            }
            before = Some(number);
            if header.is_empty() {
                continue;
            }
            let good = BatchHeader::read(header).and_then(|header| header.verify_records(body));
            match good {
                Ok(()) => replay.batch(header, body)?,
                Err(bad) => {
                    let place = format!("{}, batch {number}: {bad}", connector.place);
                    replay.damage(Damage { place, batches: Some(number..=number), bytes: body.len() as u64 })?;
                }
            }
        }
        Ok(())
    }
}
