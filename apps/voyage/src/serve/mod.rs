//! The path finder as a web service: JSON over HTTP, a map, a description of itself.
//!
//! ```text
//! connection ──▶ at most CONNECTIONS_MAX; others wait in the listen queue (LISTEN_QUEUE)
//!   request  ──▶ at most `in_flight` at once; others: 503 with Retry-After
//!     routes ──▶ computed on the spot: tens of microseconds each, ROUTES_MAX in one request
//! ```

pub mod api;
pub mod gate;
pub mod map;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router as Service;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};
use crate::sea::router::Router;
use gate::{Gate, Gated};

/// Connections open at once. Each may hold a request of [`BODY_BYTES_MAX`]: 256 MiB together.
pub const CONNECTIONS_MAX: usize = 256;

/// Connections that wait to be accepted; the system refuses more.
pub const LISTEN_QUEUE: i32 = 128;

/// Most bytes of a request's body: ten thousand pairs of positions.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// A request that is not read and answered in this time is given up.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// What a handler needs.
#[derive(Debug)]
pub struct State {
    /// Answers.
    pub router: Router,
    /// The coast, drawn once.
    pub coast: String,
    /// The ports of the map.
    pub ports: String,
}

/// A service over `router` that works at `in_flight` requests at once.
pub fn service(router: Router, in_flight: usize) -> Result<Service> {
    let coast = map::coast(router.network())?;
    let state = Arc::new(State { router, coast, ports: map::ports()? });
    let gate = Arc::new(Gate::new(in_flight));
    let asked = Service::new()
        .route("/api/route", get(api::get_route).post(api::post_route))
        .route("/api/routes", post(api::post_routes))
        .route("/api/feasible", post(api::post_feasible))
        .route_layer(middleware::from_fn_with_state(gate, gate::pass));
    Ok(asked
        .route("/", get(map::page))
        .route("/api", get(map::api_page))
        .route("/api/openapi.json", get(map::openapi))
        .route("/api/passages", get(api::passages))
        .route("/api/coast", get(map::get_coast))
        .route("/api/ports", get(map::get_ports))
        .route("/map.js", get(map::script))
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(api::not_found)
        .method_not_allowed_fallback(api::not_allowed)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(state))
}

/// Listens at `address` with a queue of [`LISTEN_QUEUE`].
pub fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener> {
    let failed = |source| Error::Listen { address, source };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
    socket.set_reuse_address(true).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(LISTEN_QUEUE).map_err(failed)?;
    tokio::net::TcpListener::from_std(socket.into()).map_err(failed)
}

/// Serves until `stop` is ready, then answers what is open.
pub async fn serve(
    listener: tokio::net::TcpListener,
    service: Service,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let listener = Gated::new(listener, CONNECTIONS_MAX);
    axum::serve(listener, service).with_graceful_shutdown(stop).await.map_err(Error::Serve)
}

/// Ready when the process is asked to end.
pub async fn stop_signal() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let Ok(mut ended) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
            let _ = interrupted.await; // only one of the two can be heard
            return;
        };
        tokio::select! {
            _ = interrupted => {}
            _ = ended.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = interrupted.await;
}
