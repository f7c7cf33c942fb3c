//! Health, metrics and the page, over HTTP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::metrics::COUNTERS;
use crate::node::Node;

/// How far a start has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes replayed.
    pub done: AtomicU64,
    /// Bytes to replay.
    pub total: AtomicU64,
}

impl Progress {
    /// Percent, and seconds to go at the speed so far.
    pub fn estimate(&self, elapsed_ns: i64) -> (u64, u64) {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed).max(1));
        let percent = (done * 100 / total).min(100);
        let seconds = elapsed_ns as f64 / 1e9;
        let left = total.saturating_sub(done) as f64 * seconds / done.max(1) as f64;
        (percent, left.ceil() as u64)
    }
}

/// What the pages are about: nothing yet while the server replays.
pub struct Site {
    /// The bus, when it is ready.
    pub node: RwLock<Option<Arc<Node>>>,
    /// How far the start has come.
    pub progress: Progress,
    /// Since the start.
    pub clock: Clock,
}

/// Serves until `stop` turns true.
pub async fn serve(listener: TcpListener, site: Arc<Site>, mut stop: watch::Receiver<bool>) -> io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .route("/", get(page))
        .with_state(site);
    let stopped = async move {
        // An error means that whoever stops is gone, which is a stop too.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    axum::serve(listener, router).with_graceful_shutdown(stopped).await
}

async fn healthz(State(site): State<Arc<Site>>) -> Response {
    let node = site.node.read().clone();
    match node {
        Some(node) if node.engine.lock().is_lost() => {
            (StatusCode::SERVICE_UNAVAILABLE, "{\"ready\":false,\"reason\":\"the journal is lost\"}\n").into_response()
        }
        Some(_) => "{\"ready\":true}\n".into_response(),
        None => {
            let (percent, eta) = site.progress.estimate(site.clock.mono());
            let body = format!("{{\"ready\":false,\"percent\":{percent},\"eta_s\":{eta}}}\n");
            let headers = [(header::RETRY_AFTER, eta.max(1).to_string())];
            (StatusCode::SERVICE_UNAVAILABLE, headers, body).into_response()
        }
    }
}

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let Some(node) = site.node.read().clone() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server replays\n").into_response();
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(NodeCollector(node)));
    let mut body = String::new();
    match text::encode(&mut body, &registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

struct NodeCollector(Arc<Node>);

impl std::fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeCollector")
    }
}

/// Gauges read where they are kept, not counted.
pub const GAUGES: &[(&str, &str)] = &[
    ("arioso_next_sequence", "The next number the sequencer will give."),
    ("arioso_settled_sequence", "Everything at or below is settled or void."),
    ("arioso_first_kept_sequence", "The first message kept."),
    ("arioso_topics", "Topics known."),
    ("arioso_names_bytes", "Memory of the topic tree."),
    ("arioso_tip_bytes", "Bytes of records in the tip."),
    ("arioso_tip_first_sequence", "The first message in the tip."),
    ("arioso_tip_index_bytes", "Memory of the tip's index."),
    ("arioso_tip_degraded", "Chunks of the tip that are scanned because the index lacks messages of them."),
    ("arioso_pending_bytes", "Bytes that wait for the journal or are being written."),
    ("arioso_history_held_bytes", "Memory given to subscriptions for records read from subtree stores."),
];

fn gauges(node: &Node) -> Vec<u64> {
    let (next, settled, pending) = {
        let engine = node.engine.lock();
        (engine.order().next_sequence().0, engine.settled_to().0, engine.order().pending_bytes() as u64)
    };
    let tip = node.tip.metrics();
    let (topics, names_bytes) = {
        let names = node.names.read();
        (names.len() as u64, names.memory_bytes() as u64)
    };
    vec![
        next,
        settled,
        node.history.first_kept().0,
        topics,
        names_bytes,
        tip.bytes,
        node.tip.first_sequence().0,
        node.tip.index_bytes() as u64,
        tip.chunks_degraded,
        pending,
        node.history.admission.held(),
    ]
}

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for ((name, kind, help), value) in COUNTERS.iter().zip(self.0.counters.read()) {
            if *kind == "counter" {
                let name = name.trim_end_matches("_total");
                let metric = ConstCounter::new(value);
                metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
            } else {
                let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
            }
        }
        for ((name, help), value) in GAUGES.iter().zip(gauges(&self.0)) {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

async fn page(State(site): State<Arc<Site>>) -> Response {
    let Some(node) = site.node.read().clone() else {
        let (percent, eta) = site.progress.estimate(site.clock.mono());
        let body =
            format!("<!doctype html><title>Arioso</title><p>The server replays: {percent} %, about {eta} s to go.");
        return Html(body).into_response();
    };
    let mut rows = String::new();
    let counters = COUNTERS.iter().map(|(name, _, help)| (*name, *help)).zip(node.counters.read());
    for ((name, help), value) in GAUGES.iter().copied().zip(gauges(&node)).chain(counters) {
        rows.push_str(&format!("<tr><td>{help}<td class=n>{value}<td><code>{name}</code>\n"));
    }
    let identity = &node.identity;
    let name = identity.stream_name.replace('&', "&amp;").replace('<', "&lt;");
    Html(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>Arioso: {name}</title><style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui;max-width:60rem;\
         margin:2rem auto;padding:0 1rem}}td{{padding:.1rem .8rem .1rem 0}}.n{{text-align:right;\
         font-variant-numeric:tabular-nums}}</style><h1>Stream {name}</h1>\
         <p>Stream id <code>{:032x}</code>, server epoch {}. <a href=/metrics>Metrics</a>, <a href=/healthz>health</a>.\
         <table>{rows}</table>",
        identity.stream_id, identity.server_epoch
    ))
    .into_response()
}
