//! The lab's page: plain files from `crates/lab/page`, and what they ask for as JSON.
//!
//! ```text
//!  GET /                    the page; /lab.js, /lab.css
//!  GET /api/info            the table: name, topics, planners, what was asked on the command line
//!  GET /api/plan            a plan: figures under each lens and their distribution
//!  GET /api/view            the tree under a plan, small things aggregated
//!  GET /api/cost            what reading one node costs under a plan
//!  GET /api/find            topics by the beginning of their name
//! ```
//!
//! Planning takes up to seconds at a million topics: it runs beside the sockets, at most
//! [`PLANNING_MAX`] at a time, and the latest plans are kept.

mod answers;
mod plans;
mod view;

use crate::planners::{Demands, Question};
use crate::{Error, volumes::Volumes};
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the page is about.
pub(crate) struct Shown {
    /// The table's name.
    pub name: String,
    pub volumes: Volumes,
    pub demands: Demands,
    /// What the page begins with.
    pub question: Question,
}

/// The page's state, shared by its requests.
struct Lab {
    shown: Shown,
    plans: plans::Plans,
}

/// Plans that are made at the same time: two cores are enough for a page.
const PLANNING_MAX: usize = 2;

/// Serves the page until SIGINT or SIGTERM.
pub(crate) fn serve(shown: Shown, address: SocketAddr, out: &mut dyn Write) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listen = |source| Error::Listen { address, source };
        let listener = tokio::net::TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        writeln!(out, "the lab is at http://{address}/ until stopped")?;
        out.flush()?;
        axum::serve(listener, router(shown)).with_graceful_shutdown(stopped()).await.map_err(listen)
    })
}

async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminated) => {
            tokio::select! { _ = interrupted => {}, _ = terminated.recv() => {} }
        }
        Err(_) => {
            let _ = interrupted.await;
        }
    }
}

fn router(shown: Shown) -> Router {
    let lab = Arc::new(Lab { shown, plans: plans::Plans::new(PLANNING_MAX) });
    Router::new()
        .route("/", get(|| async { file("text/html; charset=utf-8", include_bytes!("../../page/index.html")) }))
        .route("/lab.js", get(|| async { file("text/javascript; charset=utf-8", include_bytes!("../../page/lab.js")) }))
        .route(
            "/draw.js",
            get(|| async { file("text/javascript; charset=utf-8", include_bytes!("../../page/draw.js")) }),
        )
        .route("/lab.css", get(|| async { file("text/css; charset=utf-8", include_bytes!("../../page/lab.css")) }))
        .route("/api/info", get(answers::info))
        .route("/api/plan", get(answers::plan))
        .route("/api/view", get(answers::view))
        .route("/api/cost", get(answers::cost))
        .route("/api/find", get(answers::find))
        .with_state(lab)
}

/// A file of the page. Names come from messages, so nothing but the page's own files may run.
fn file(kind: &'static str, bytes: &'static [u8]) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"),
    ];
    (headers, bytes)
}

#[cfg(test)]
mod tests;
