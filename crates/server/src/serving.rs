//! A bus in a process: opened, its threads running, and, where asked for, its listeners.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arioso_disk::{Disk, RealDisk};
use arioso_journal::local::Recovered;
use arioso_wire::{Code, ErrorFrame, Frame, Text};
use bytes::BytesMut;
use parking_lot::RwLock;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::{Clock, wall};
use crate::connection;
use crate::http::{self, Progress, Site};
use crate::node::Node;
use crate::opening::{self, Chance, OpenError};
use crate::settings::Settings;
use crate::threads::Threads;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1_024;
/// How long connections may take to end when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The threads of a bus, by its journal.
enum Running {
    Local(Threads),
    #[cfg(feature = "postgres")]
    Postgres(crate::database::Thread),
}

impl Running {
    fn stop(self) -> Result<(), arioso_journal::Error> {
        match self {
            Running::Local(threads) => threads.stop(),
            #[cfg(feature = "postgres")]
            Running::Postgres(thread) => thread.stop(),
        }
    }
}

/// A bus whose threads run.
pub struct Bus {
    /// What its parts share.
    pub node: Arc<Node>,
    /// What the start found.
    pub recovered: Recovered,
    threads: Running,
    clock: Clock,
    stop: watch::Sender<bool>,
    lost: watch::Receiver<bool>,
}

impl Bus {
    /// Opens the data directory of the settings. Blocks while it replays.
    pub fn open(settings: Settings) -> Result<Bus, OpenError> {
        let disk = RealDisk::create(&settings.data)?;
        Bus::open_on(settings, Arc::new(disk))
    }

    /// Opens a data directory behind a disk.
    pub fn open_on(settings: Settings, disk: Arc<dyn Disk>) -> Result<Bus, OpenError> {
        let (lost_in, lost) = watch::channel(false);
        #[cfg(feature = "postgres")]
        if settings.journal != crate::settings::LOCAL {
            let opened = crate::database::open(settings, disk, chance())?;
            let thread = crate::database::Thread::start(opened.log, Arc::clone(&opened.node), lost_in);
            let threads = Running::Postgres(thread.map_err(OpenError::Thread)?);
            return Ok(Bus::new(opened.node, opened.recovered, threads, lost));
        }
        let opened = opening::open(settings, disk, chance())?;
        let threads = Threads::start(opened.log, opened.refill, Arc::clone(&opened.node), lost_in);
        let threads = Running::Local(threads.map_err(OpenError::Thread)?);
        Ok(Bus::new(opened.node, opened.recovered, threads, lost))
    }

    fn new(node: Arc<Node>, recovered: Recovered, threads: Running, lost: watch::Receiver<bool>) -> Bus {
        let (stop, _) = watch::channel(false);
        Bus { node, recovered, threads, clock: Clock::new(), stop, lost }
    }

    /// Serves one session over a pipe or a socket until it ends or the bus stops.
    pub fn serve<S>(&self, stream: S) -> impl Future<Output = io::Result<()>> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        connection::serve(stream, Arc::clone(&self.node), self.clock, self.stop.subscribe())
    }

    /// Turns true when the journal is lost.
    pub fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    /// Ends sessions that were not ended yet, makes durable what waits, writes the mark of a clean stop. Blocks.
    pub fn close(self) -> Result<(), arioso_journal::Error> {
        self.stop.send_replace(true);
        self.threads.stop()
    }
}

fn chance() -> Chance {
    // Not secret: only unlike every other one.
    let random = |salt: u64| {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u64(salt);
        hasher.finish()
    };
    Chance { stream_id: u128::from(random(1)) << 64 | u128::from(random(2)), hash_seed: random(3), now: wall() }
}

/// The addresses a server listens on.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The bus.
    pub listen: SocketAddr,
    /// Health, metrics, the page.
    pub http: SocketAddr,
}

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address can't be listened on.
    #[error("{setting} = {address}: {source}")]
    Listen {
        /// The setting.
        setting: &'static str,
        /// Its value.
        address: SocketAddr,
        /// What is wrong.
        source: io::Error,
    },
    /// The bus can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The journal was lost, or its end could not be written.
    #[error("{0}")]
    Journal(arioso_journal::Error),
    /// The journal was lost: what was open was answered unknown.
    #[error("the journal was lost, see above; start the server again and it replays what is durable")]
    Lost,
    /// A task failed.
    #[error("{0}")]
    Task(io::Error),
}

/// Runs a server until `stopping` completes: listens first, so that health tells the progress of the replay, then opens the
/// bus, tells `ready`, and serves.
pub async fn run(
    settings: Settings,
    stopping: impl Future<Output = ()>,
    ready: impl FnOnce(Addresses, &Recovered),
) -> Result<(), ServeError> {
    let (listen, http_listen) = (settings.listen, settings.http);
    let listener = bind(listen).map_err(|source| ServeError::Listen { setting: "listen", address: listen, source })?;
    let bad_http = |source| ServeError::Listen { setting: "http", address: http_listen, source };
    let http_listener = bind(http_listen).map_err(bad_http)?;
    let addresses = Addresses {
        listen: listener.local_addr().map_err(ServeError::Task)?,
        http: http_listener.local_addr().map_err(ServeError::Task)?,
    };
    let site = Arc::new(Site { node: RwLock::new(None), progress: Progress::default(), clock: Clock::new() });
    let (http_stop, http_stopped) = watch::channel(false);
    let http = tokio::spawn(http::serve(http_listener, Arc::clone(&site), http_stopped));
    let opening = tokio::task::spawn_blocking(move || Bus::open(settings));
    let bus = tokio::select! {
        opened = opening => opened.map_err(|error| ServeError::Task(io::Error::other(error)))??,
        never = not_ready(&listener) => match never {},
    };
    *site.node.write() = Some(Arc::clone(&bus.node));
    ready(addresses, &bus.recovered);
    let ended = accept(&bus, &listener, stopping).await;
    http_stop.send_replace(true);
    // The page's last answers are not worth more than the stop.
    let _ = tokio::time::timeout(STOP_WAIT, http).await;
    *site.node.write() = None;
    let closed = tokio::task::spawn_blocking(move || bus.close());
    let closed = closed.await.map_err(|error| ServeError::Task(io::Error::other(error)))?;
    ended?;
    closed.map_err(ServeError::Journal)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Whoever connects while the server replays is told so.
async fn not_ready(listener: &TcpListener) -> std::convert::Infallible {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let mut bytes = BytesMut::new();
        let frame = ErrorFrame {
            code: Code::NotReady,
            retry_after_ms: 200,
            detail_a: 0,
            detail_b: 0,
            text: Text::from_static("the server replays"),
        };
        Frame::Error(frame).encode(0, &mut bytes);
        // It may be gone already; it will try again either way.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
    }
}

async fn accept(bus: &Bus, listener: &TcpListener, stopping: impl Future<Output = ()>) -> Result<(), ServeError> {
    let mut sessions: JoinSet<()> = JoinSet::new();
    let mut lost = bus.lost();
    tokio::pin!(stopping);
    let ended = loop {
        let most = bus.node.settings.connections_max;
        let full = bus.node.counters.connections.load(Ordering::Relaxed) >= most;
        tokio::select! {
            () = &mut stopping => break Ok(()),
            _ = lost.wait_for(|lost| *lost) => break Err(ServeError::Lost),
            Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((stream, peer)) => {
                    let session = session(bus, stream);
                    sessions.spawn(async move {
                        if let Err(error) = session.await {
                            tracing::debug!(%peer, "{error}");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!("accepting: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    };
    bus.stop.send_replace(true);
    let all = async { while sessions.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_WAIT, all).await.is_err() {
        tracing::warn!("{} connections did not end within {} s and are cut", sessions.len(), STOP_WAIT.as_secs());
    }
    ended
}

fn session(bus: &Bus, stream: TcpStream) -> impl Future<Output = io::Result<()>> + Send + use<> {
    let served = stream.set_nodelay(true).map(|()| bus.serve(stream));
    async move { served?.await }
}
