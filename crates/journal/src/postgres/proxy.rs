//! A TCP proxy that makes a network bad on purpose, for tests and measurements: delay, jitter, cut and stall, a chunk at a
//! time, everything drawn from one seed.
//!
//! ```text
//! client ──chunk──▶ draw: pass, delay, cut ──▶ server       both ways; a stalled proxy holds what it has
//!        ◀──chunk── draw: pass, delay, cut ◀──
//! ```

use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// What is read at once.
const CHUNK_BYTES: usize = 16 << 10;

/// What happens to chunks. Percentages are of all chunks, both ways.
#[derive(Clone, Debug)]
pub struct Faults {
    /// How many are delayed.
    pub delay_percent: f64,
    /// Milliseconds of a delay.
    pub delay_ms: RangeInclusive<u64>,
    /// Microseconds that every chunk takes beside that.
    pub jitter_us: RangeInclusive<u64>,
    /// How many end their connection, unsent.
    pub cut_percent: f64,
    /// The next chunk from the server that holds these bytes ends its connection, unsent: the answer to a commit that
    /// happened, say. Once.
    pub cut_answer: Option<Vec<u8>>,
}

impl Faults {
    /// A good network.
    pub fn none() -> Faults {
        Faults { delay_percent: 0.0, delay_ms: 0..=0, jitter_us: 0..=0, cut_percent: 0.0, cut_answer: None }
    }
}

struct Shared {
    faults: Mutex<Faults>,
    draws: AtomicU64,
    stalled: watch::Sender<bool>,
    cut: watch::Sender<u64>,
    refusing: AtomicBool,
    connections: AtomicU64,
}

/// A running proxy; it ends when dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Shared {
    /// The next number of the seed's sequence (splitmix64), from 0 to 1.
    fn draw(&self) -> f64 {
        let mut mixed = self.draws.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn within(&self, range: &RangeInclusive<u64>) -> u64 {
        range.start() + ((range.end() - range.start()) as f64 * self.draw()).round() as u64
    }

    /// How long a chunk takes; `None`: its connection ends.
    fn fate(&self, chunk: &[u8], from_server: bool) -> Option<Duration> {
        let mut faults = self.faults.lock();
        if from_server && faults.cut_answer.as_ref().is_some_and(|wanted| holds(chunk, wanted)) {
            faults.cut_answer = None;
            return None;
        }
        if faults.cut_percent > 0.0 && self.draw() * 100.0 < faults.cut_percent {
            return None;
        }
        let mut us = self.within(&faults.jitter_us);
        if faults.delay_percent > 0.0 && self.draw() * 100.0 < faults.delay_percent {
            us += self.within(&faults.delay_ms) * 1_000;
        }
        Some(Duration::from_micros(us))
    }
}

fn holds(chunk: &[u8], wanted: &[u8]) -> bool {
    chunk.windows(wanted.len()).any(|window| window == wanted)
}

impl Proxy {
    /// Starts one in front of a server on this machine.
    pub fn start(server: u16, seed: u64, faults: Faults) -> io::Result<Proxy> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("proxy").enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            faults: Mutex::new(faults),
            draws: AtomicU64::new(seed),
            stalled: watch::Sender::new(false),
            cut: watch::Sender::new(0),
            refusing: AtomicBool::new(false),
            connections: AtomicU64::new(0),
        });
        let own = Arc::clone(&shared);
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !own.refusing.load(Ordering::Relaxed) {
                    own.connections.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(connection(Arc::clone(&own), client, server));
                }
            }
        });
        Ok(Proxy { shared, address, runtime: Some(runtime) })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Connections it took so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// What happens to chunks from now on.
    pub fn set(&self, faults: Faults) {
        *self.shared.faults.lock() = faults;
    }

    /// Whether the next answer that was to be cut is still to come.
    pub fn waits_to_cut(&self) -> bool {
        self.shared.faults.lock().cut_answer.is_some()
    }

    /// Holds everything back, or lets it go.
    pub fn stall(&self, stalled: bool) {
        self.shared.stalled.send_replace(stalled);
    }

    /// Ends every connection.
    pub fn cut(&self) {
        self.shared.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Takes no new connections, or takes them again.
    pub fn refuse(&self, refusing: bool) {
        self.shared.refusing.store(refusing, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn connection(shared: Arc<Shared>, client: TcpStream, server: u16) {
    let mut cut = shared.cut.subscribe();
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = pass(&shared, from_client, to_server, false) => {}
        _ = pass(&shared, from_server, to_client, true) => {}
        _ = cut.changed() => {}
    }
}

async fn pass<R, W>(shared: &Shared, mut from: R, mut to: W, from_server: bool) -> io::Result<()>
where
    R: AsyncReadExt + Unpin,
    W: AsyncWriteExt + Unpin,
{
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut stalled = shared.stalled.subscribe();
    loop {
        let got = from.read(&mut chunk).await?;
        if got == 0 {
            return Ok(());
        }
        let Some(wait) = shared.fate(&chunk[..got], from_server) else { return Ok(()) };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        stalled.wait_for(|stalled| !*stalled).await.map_err(io::Error::other)?;
        to.write_all(&chunk[..got]).await?;
    }
}
