//! What is too much is told so: requests beyond the limit get 503 and when to come again; connections
//! beyond theirs wait in the listen queue.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::REQUEST_TIME_MAX;
use super::api::problem;

/// Seconds after which a request that was refused may come again: most take milliseconds.
const RETRY_AFTER: &str = "1";

/// Lets so many requests in at once.
#[derive(Debug)]
pub struct Gate {
    slots: Arc<Semaphore>,
    in_flight: usize,
}

impl Gate {
    /// A gate for `in_flight` requests.
    #[must_use]
    pub fn new(in_flight: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(in_flight)), in_flight }
    }
}

/// Passes a request on if there is a slot.
pub async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let Ok(_slot) = Arc::clone(&gate.slots).try_acquire_owned() else {
        let busy = format!("{} requests are being answered; try again in {RETRY_AFTER} s", gate.in_flight);
        let mut refused = problem(StatusCode::SERVICE_UNAVAILABLE, &busy).into_response();
        refused.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
        return refused;
    };
    match tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let slow = format!("not read and answered within {} s", REQUEST_TIME_MAX.as_secs());
            problem(StatusCode::REQUEST_TIMEOUT, &slow).into_response()
        }
    }
}

/// A listener that accepts while fewer than its limit of connections are open.
#[derive(Debug)]
pub struct Gated {
    listener: TcpListener,
    slots: Arc<Semaphore>,
}

impl Gated {
    /// At most `connections` at once.
    #[must_use]
    pub fn new(listener: TcpListener, connections: usize) -> Self {
        Self { listener, slots: Arc::new(Semaphore::new(connections)) }
    }
}

impl Listener for Gated {
    type Io = Counted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Counted, SocketAddr) {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        // axum's own accept waits and tries again when the system has no descriptor left.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Counted { stream, _slot: slot.ok() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that gives its slot back when it is closed.
#[derive(Debug)]
pub struct Counted {
    stream: TcpStream,
    _slot: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
