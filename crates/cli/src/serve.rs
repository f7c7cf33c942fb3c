//! `arioso serve`.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use arioso_server::assemble;
use arioso_server::serving::{self, Addresses};
use arioso_server::settings::{SETTINGS, Settings, setting};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::ServeArgs;
use crate::fail::{Done, Failure};

/// File, then variables, then flags.
fn settings(arguments: &ServeArgs) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let bad = |error: arioso_server::settings::SettingError| Failure::Use(error.to_string());
    if let Some(path) = &arguments.config {
        let origin = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| Failure::Use(format!("{origin}: {error}")))?;
        let table: toml::Table = text.parse().map_err(|error| Failure::Use(format!("{origin}: {error}")))?;
        for (key, value) in table {
            let row = setting(&key).ok_or_else(|| {
                let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
                Failure::Use(format!("{origin}: {key:?} is no setting; there are {}", known.join(", ")))
            })?;
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => on.to_string(),
                other => {
                    let kind = other.type_str();
                    return Err(Failure::Use(format!(
                        "{origin}: {key} is a {kind}; text, a number or a switch is wanted"
                    )));
                }
            };
            row.set(&mut settings, &value, &origin).map_err(bad)?;
        }
    }
    for (name, variable, value) in &arguments.variables {
        if let Some(row) = setting(name) {
            row.set(&mut settings, value, variable).map_err(bad)?;
        }
    }
    for (name, value) in &arguments.flags {
        if let Some(row) = setting(name) {
            row.set(&mut settings, value, &format!("--{name}")).map_err(bad)?;
        }
    }
    settings.check().map_err(bad)?;
    journal_settings(&settings)?;
    Ok(settings)
}

/// Refused at start, before anything is opened.
fn journal_settings(settings: &Settings) -> Done {
    let checked = assemble::groups(settings).map(drop).and_then(|()| assemble::writes_in_flight(settings).map(drop));
    checked.map_err(|error| Failure::Use(error.to_string()))
}

/// Runs the server until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArgs) -> Done {
    let settings = settings(arguments)?;
    if arguments.print_config {
        io::stdout().write_all(settings.to_toml().as_bytes())?;
        return Ok(());
    }
    log_from("info");
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stopping = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("stopping");
        };
        serving::run(settings, stopping, ready).await.map_err(Failure::new)
    })
}

/// Runs a server on ports of the system's choice until standard input ends: it dies with whoever started it.
pub fn run_for_demo(data: PathBuf, segment_bytes: u64) -> Done {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = Settings { data, listen: any, http: any, segment_bytes, ..Settings::default() };
    log_from("warn");
    let (ended, mut end) = tokio::sync::mpsc::channel::<()>(1);
    // Not a task: a read that blocks would keep the runtime from ending.
    std::thread::Builder::new().name("arioso-stdin".into()).spawn(move || {
        // However it ends, it ends.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(ended);
    })?;
    let stopping = async move {
        end.recv().await;
    };
    runtime()?.block_on(async { serving::run(settings, stopping, ready).await.map_err(Failure::new) })
}

fn log_from(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ARIOSO_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false).init();
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().thread_name("arioso").max_blocking_threads(32).enable_all().build()
}

/// Tells where the server listens: one JSON line on standard output, for whoever started it.
fn ready(addresses: Addresses, recovered: &arioso_journal::local::Recovered) {
    if let Some(torn) = &recovered.torn {
        tracing::warn!("{torn}; nothing of it was acknowledged, it is not part of the stream");
    }
    for damage in &recovered.damage {
        tracing::error!("{damage}");
    }
    for repair in &recovered.repairs {
        tracing::warn!("{}: {}", repair.file, repair.what);
    }
    for file in &recovered.unknown_files {
        tracing::warn!("{file}: not a file of the bus, left alone");
    }
    let (listen, http) = (addresses.listen, addresses.http);
    let next = recovered.next_sequence.0;
    tracing::info!(%listen, %http, next_sequence = next, clean = recovered.clean, "ready");
    let clean = recovered.clean || recovered.made;
    let line = json!({ "listen": listen.to_string(), "http": http.to_string(), "next_sequence": next, "clean": clean });
    let mut out = io::stdout().lock();
    // Whoever does not read it does not need it.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
