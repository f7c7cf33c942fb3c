//! The tables (docs/format.md section 11) and the statements on them.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::session::Connector;
use crate::error::Error;
use crate::local::NewStream;

/// The version of the tables.
const VERSION: i32 = 1;
/// PostgreSQL's own limit.
const SCHEMA_BYTES_MAX: usize = 63;

/// A schema's name, quoted, and the statements that name it.
#[derive(Clone, Debug)]
pub(super) struct Names {
    schema: String,
}

/// Whose stream the tables hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRow {
    /// Its id.
    pub id: u128,
    /// Its name.
    pub name: String,
    /// It was made just now.
    pub made: bool,
}

impl Names {
    pub(super) fn new(schema: &str) -> Result<Names, Error> {
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if schema.is_empty() || schema.len() > SCHEMA_BYTES_MAX || !schema.bytes().all(good) {
            return Err(Error::Database {
                doing: "naming the schema",
                place: format!("postgres-schema = {schema:?}"),
                text: "1 to 63 of a-z, 0-9 and _ are wanted".into(),
            });
        }
        Ok(Names { schema: format!("\"{schema}\"") })
    }

    /// Replaces `@` by the schema.
    pub(super) fn sql(&self, text: &str) -> String {
        text.replace('@', &self.schema)
    }

    /// Writes one batch, if this epoch may.
    pub(super) fn insert(&self) -> String {
        self.sql(
            "insert into @.batch (number, first_sequence, last_sequence, records, voids, settled_to, epoch, header, body) \
             select $2::bigint, $3::bigint, $4::bigint, $5::int, $6::bool, $7::bigint, $1::bigint, $8::bytea, $9::bytea \
             from @.epoch e, @.announced a where e.epoch = $1::bigint and (a.epoch <= $1::bigint or a.until < clock_timestamp()) \
             for share of e on conflict do nothing",
        )
    }

    /// Takes numbers that no batch has and never will have, if this epoch may. A write of one of them that is still on its way
    /// finds its number taken.
    pub(super) fn take_numbers(&self) -> String {
        self.sql(
            "insert into @.batch (number, first_sequence, last_sequence, records, voids, settled_to, epoch, header, body) \
             select n, 0, 0, 0, false, 0, $1::bigint, '', '' from @.epoch e, generate_series($2::bigint, $3::bigint) n \
             where e.epoch = $1::bigint for share of e on conflict do nothing",
        )
    }

    /// Who may write, who is announced, and what a number holds: its epoch and whether it is a batch.
    pub(super) fn look(&self) -> String {
        self.sql("select e.epoch, b.epoch, b.header <> '' from @.epoch e left join @.batch b on b.number = $1::bigint")
    }

    fn make(&self) -> String {
        self.sql(
            "create schema if not exists @; \
             create table @.stream (one bool primary key default true check (one), version int not null, id bytea not null, \
                 name text not null, made_at bigint not null); \
             create table @.epoch (one bool primary key default true check (one), epoch bigint not null, clean bool not null, \
                 next_sequence bigint not null, last_timestamp bigint not null); \
             create table @.announced (one bool primary key default true check (one), epoch bigint not null, until timestamptz not null); \
             create table @.batch (number bigint primary key, first_sequence bigint not null, last_sequence bigint not null, \
                 records int not null, voids bool not null, settled_to bigint not null, epoch bigint not null, \
                 header bytea not null, body bytea not null); \
             alter table @.batch alter column body set storage external; \
             create unique index batch_first on @.batch (first_sequence) where records > 0; \
             create index batch_voids on @.batch (number) where voids; \
             insert into @.epoch (epoch, clean, next_sequence, last_timestamp) values (0, true, 1, 0); \
             insert into @.announced (epoch, until) values (0, clock_timestamp())",
        )
    }
}

/// Reads whose stream it is; makes the tables where there are none and a stream is to be made.
pub(super) async fn stream(
    connector: &Connector,
    client: &mut Client,
    new: Option<&NewStream>,
) -> Result<StreamRow, Error> {
    let names = &connector.names;
    let failed = |error: tokio_postgres::Error| {
        connector.error("opening the journal", super::session::Trouble::of(&error).text())
    };
    let fsync = client.query_one("select current_setting('fsync', true)", &[]).await.map_err(failed)?;
    if fsync.try_get::<_, Option<&str>>(0).map_err(failed)? == Some("off") {
        let text = "the server runs with fsync = off: what it commits may not survive; set it on";
        return Err(connector.error("opening the journal", text));
    }
    if let Some(found) = find(connector, client).await? {
        return Ok(found);
    }
    let Some(new) = new else {
        return Err(connector.error("opening the journal", "there is no stream in this schema"));
    };
    match make(names, client, new).await {
        Ok(()) => Ok(StreamRow { id: new.id, name: new.name.clone(), made: true }),
        // Somebody else made it at the same time.
        Err(error) => match find(connector, client).await? {
            Some(found) => Ok(found),
            None => Err(failed(error)),
        },
    }
}

/// Makes the tables, all or none.
async fn make(names: &Names, client: &mut Client, new: &NewStream) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&names.make()).await?;
    let insert = names.sql("insert into @.stream (version, id, name, made_at) values ($1, $2, $3, $4)");
    transaction.execute(&insert, &[&VERSION, &&new.id.to_le_bytes()[..], &new.name, &new.now]).await?;
    transaction.commit().await
}

async fn find(connector: &Connector, client: &Client) -> Result<Option<StreamRow>, Error> {
    let bad = |text: String| connector.error("opening the journal", text);
    let found = client.query_opt(&connector.names.sql("select version, id, name from @.stream"), &[]).await;
    let row = match found {
        Ok(Some(row)) => row,
        Ok(None) => return Err(bad("the table stream is empty: it was not made by arioso".into())),
        Err(error) if matches!(error.code(), Some(code) if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(bad(super::session::Trouble::of(&error).text().into())),
    };
    let read = || {
        let version: i32 = row.try_get(0).ok()?;
        let id: &[u8] = row.try_get(1).ok()?;
        Some((version, u128::from_le_bytes(id.try_into().ok()?), row.try_get::<_, String>(2).ok()?))
    };
    let (version, id, name) = read().ok_or_else(|| bad("the table stream is not one of arioso's".into()))?;
    if version != VERSION {
        return Err(bad(format!("the tables have version {version}, this program knows {VERSION}")));
    }
    Ok(Some(StreamRow { id, name, made: false }))
}
