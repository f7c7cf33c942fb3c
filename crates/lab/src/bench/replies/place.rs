//! Where the cells of `bench replies` find a disk or a database: made for the bench, gone with it.

use tokio::runtime::Handle;

use super::cell::{Cell, Outcome};
use super::{Backend, RepliesArgs};
use crate::bench::Result;

/// What all cells share.
pub struct Place<'a> {
    arguments: &'a RepliesArgs,
    #[cfg(feature = "postgres")]
    database: Option<database::Database>,
}

impl<'a> Place<'a> {
    /// Starts what the backend needs.
    pub fn new(arguments: &'a RepliesArgs) -> Result<Place<'a>> {
        Ok(Place {
            arguments,
            #[cfg(feature = "postgres")]
            database: match arguments.backend {
                Backend::Postgres => Some(database::Database::start(arguments)?),
                _ => None,
            },
        })
    }

    /// Runs a cell on it.
    pub fn run(&self, cell: Cell, runtime: &Handle) -> Result<Outcome> {
        #[cfg(feature = "postgres")]
        if let Some(database) = &self.database {
            return database.run(cell, runtime);
        }
        if self.arguments.backend == Backend::Memory {
            return cell.run(runtime);
        }
        let folder = crate::bench::server::folder(self.arguments.data.as_deref())?;
        Cell { folder: Some(folder.path().into()), ..cell }.run(runtime)
    }
}

#[cfg(feature = "postgres")]
mod database {
    use std::sync::atomic::{AtomicU32, Ordering};

    use arioso_journal::local::NewStream;
    use arioso_journal::postgres::PostgresOptions;
    use arioso_journal::postgres::cluster::Cluster;
    use arioso_journal::postgres::proxy::{Faults, Proxy};

    use super::*;
    use crate::bench::{Error, io};

    /// A server, and a schema a cell.
    pub struct Database {
        cluster: Cluster,
        options: PostgresOptions,
        schemas: AtomicU32,
    }

    impl Database {
        pub fn start(arguments: &RepliesArgs) -> Result<Database> {
            let parent = arguments.data.clone().unwrap_or_else(std::env::temp_dir);
            let more = format!("max_connections={}", arguments.connections + 20);
            let cluster = Cluster::start(&parent, &[&more]).map_err(io("a PostgreSQL server"))?;
            let writes = arioso_journal::settings::writes_in_flight(Some(&arguments.writes_in_flight));
            let options = PostgresOptions {
                connections: arguments.connections,
                writes: writes.map_err(|error| Error::Use(error.to_string()))?,
                new_stream: Some(NewStream { id: 1, name: "bench".into(), now: 0 }),
                ..PostgresOptions::new(cluster.url())
            };
            Ok(Database { cluster, options, schemas: AtomicU32::new(0) })
        }

        pub fn run(&self, cell: Cell, runtime: &Handle) -> Result<Outcome> {
            let schema = format!("cell_{}", self.schemas.fetch_add(1, Ordering::Relaxed));
            let mut options = PostgresOptions { schema, ..self.options.clone() };
            let _proxy = if cell.network && cell.slow_percent > 0.0 {
                let faults = Faults {
                    delay_percent: cell.slow_percent,
                    delay_ms: cell.slow_us.0 / 1_000..=cell.slow_us.1 / 1_000,
                    ..Faults::none()
                };
                let proxy = Proxy::start(self.cluster.port(), cell.seed, faults).map_err(io("a proxy"))?;
                options.url = self.cluster.url_at(proxy.port());
                Some(proxy)
            } else {
                None
            };
            Cell { database: Some(options), ..cell }.run(runtime)
        }
    }
}
