//! One connection to the database: how it is made, what is set on it, and what its errors mean.

use std::error::Error as _;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresOptions;
use super::schema::Names;
use crate::error::Error;

/// What went wrong with a statement, as far as it matters for what is done next.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection broke, or time ran out: nothing is known of what was on its way.
    Broken(String),
    /// The database refused, and trying again may help.
    Refused(String),
    /// The database has no room.
    Full(String),
    /// The database has no connection to give.
    TooMany(String),
    /// The database refused, and the statement was rolled back for good.
    Definite(String),
}

impl Trouble {
    pub(super) fn of(error: &tokio_postgres::Error) -> Trouble {
        let Some(db) = error.as_db_error() else {
            let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            return Trouble::Broken(format!("{error}{source}"));
        };
        let text = format!("{} ({})", db.message(), db.code().code());
        match db.code() {
            code if *code == SqlState::DISK_FULL => Trouble::Full(text),
            code if *code == SqlState::TOO_MANY_CONNECTIONS => Trouble::TooMany(text),
            code => match &code.code()[..2] {
                "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX" => Trouble::Refused(text),
                _ => Trouble::Definite(text),
            },
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Trouble::Broken(text)
            | Trouble::Refused(text)
            | Trouble::Full(text)
            | Trouble::TooMany(text)
            | Trouble::Definite(text) => text,
        }
    }
}

/// How connections are made.
pub(super) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    connect_timeout: Duration,
    write_timeout: Duration,
    pub(super) names: Names,
    /// Host, port, database and schema, for errors.
    pub(super) place: String,
}

/// A connection. It ends when this is dropped, whatever it was doing.
pub(super) struct Link {
    pub(super) client: Client,
    task: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        // A stalled network would keep it waiting for an answer that nobody wants any more.
        self.task.abort();
    }
}

/// A connection for writing.
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) insert: Statement,
}

impl Connector {
    pub(super) fn new(options: &PostgresOptions) -> Result<Connector, Error> {
        let wrong = |text: String| Error::Database { doing: "reading the address", place: "postgres".into(), text };
        let mut config = Config::from_str(&options.url).map_err(|error| {
            wrong(format!("{error}; postgres://user:password@host:port/database is wanted, with sslmode=disable, prefer or require"))
        })?;
        config.connect_timeout(options.connect_timeout);
        config.tcp_user_timeout(options.write_timeout);
        if config.get_application_name().is_none() {
            config.application_name("arioso");
        }
        let tls = match (&options.authorities, config.get_ssl_mode()) {
            (_, SslMode::Disable) => None,
            (Some(path), _) => {
                // A certificate that is to be verified must not be got around by falling back to plain text.
                config.ssl_mode(SslMode::Require);
                Some(MakeRustlsConnect::new(authorities(path).map_err(wrong)?))
            }
            (None, SslMode::Require) => {
                return Err(wrong(
                    "sslmode=require needs postgres-ca, a PEM file with the authorities that vouch for the server"
                        .into(),
                ));
            }
            (None, _) => None,
        };
        let names = Names::new(&options.schema)?;
        let hosts: Vec<String> = config
            .get_hosts()
            .iter()
            .map(|host| match host {
                tokio_postgres::config::Host::Tcp(name) => name.clone(),
                tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let ports: Vec<String> = config.get_ports().iter().map(ToString::to_string).collect();
        let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
        let place = format!("{}:{}/{database} schema {}", hosts.join(","), ports.join(","), options.schema);
        let (connect_timeout, write_timeout) = (options.connect_timeout, options.write_timeout);
        Ok(Connector { config, tls, connect_timeout, write_timeout, names, place })
    }

    pub(super) fn error(&self, doing: &'static str, text: impl Into<String>) -> Error {
        Error::Database { doing, place: self.place.clone(), text: text.into() }
    }

    pub(super) fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    /// Connects, and sets what must hold on every connection.
    pub(super) async fn connect(&self) -> Result<Link, Trouble> {
        let connected = tokio::time::timeout(self.connect_timeout, self.connect_any());
        connected.await.unwrap_or_else(|_| {
            Err(Trouble::Broken(format!("no connection within {} ms", self.connect_timeout.as_millis())))
        })
    }

    async fn connect_any(&self) -> Result<Link, Trouble> {
        let of = |error: tokio_postgres::Error| Trouble::of(&error);
        // What goes wrong on a connection is told to whoever waits for an answer.
        let (client, task) = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await.map_err(of)?;
                (client, tokio::spawn(async move { drop(connection.await) }))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(of)?;
                (client, tokio::spawn(async move { drop(connection.await) }))
            }
        };
        let link = Link { client, task: task.abort_handle() };
        let ms = self.write_timeout.as_millis();
        let settings = format!(
            "set statement_timeout = {ms}; set idle_in_transaction_session_timeout = {ms}; set tcp_user_timeout = {ms}; \
             set tcp_keepalives_idle = {0}; set tcp_keepalives_interval = {0}; set tcp_keepalives_count = 2; \
             select set_config('synchronous_commit', 'on', false) \
             where current_setting('synchronous_commit') in ('off', 'local', 'remote_write')",
            (ms / 3_000).clamp(1, 60)
        );
        link.client.batch_execute(&settings).await.map_err(of)?;
        Ok(link)
    }

    /// A connection that writes batches.
    pub(super) async fn session(&self) -> Result<Session, Trouble> {
        let link = self.connect().await?;
        let prepared = tokio::time::timeout(self.connect_timeout, link.client.prepare(&self.names.insert())).await;
        let insert = prepared
            .map_err(|_| Trouble::Broken("no answer to the first statement".into()))?
            .map_err(|error| Trouble::of(&error))?;
        Ok(Session { link, insert })
    }
}

/// A configuration that trusts the authorities in a PEM file and nobody else.
fn authorities(path: &Path) -> Result<ClientConfig, String> {
    let told = |what: String| format!("postgres-ca {}: {what}", path.display());
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| told(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| told(error.to_string()))?;
        roots.add(certificate).map_err(|error| told(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(told("there is no certificate in it".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| told(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
