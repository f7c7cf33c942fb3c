//! Many sessions that recover at once, on one thread. Time is counted in slices of recovery: what a live delivery waits for.

use std::sync::atomic::Ordering;

use arioso_server::clock::Clock;
use arioso_server::connection;
use arioso_server::subscription::SLICE_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

use crate::support::*;

const HERD: usize = 48;
const ROUNDS: u64 = 20;
/// What each of the herd recovers.
const STREAM_BYTES: usize = 8 << 20;
const PAYLOAD_BYTES: usize = 4 << 10;

fn hello() -> Frame {
    Frame::Hello(Hello {
        magic: MAGIC,
        version_min: 1,
        version_max: 1,
        capabilities: 0,
        frame_bytes_max: 32 << 20,
        stream_id: 0,
        client_name: Text::from("herd"),
        auth: Default::default(),
    })
}

/// A client's end of a session that is served as on a socket.
async fn client(bus: &Bus, stop: &watch::Receiver<bool>, filter: &str, begin: Begin) -> DuplexStream {
    let (mut ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(connection::serve(theirs, Arc::clone(&bus.node), Clock::new(), stop.clone()));
    let mut bytes = BytesMut::new();
    hello().encode(0, &mut bytes);
    subscribe(&[filter], begin, false).encode(1, &mut bytes);
    Frame::Credit(Credit { bytes: 1 << 30 }).encode(1, &mut bytes);
    ours.write_all(&bytes).await.unwrap();
    ours
}

async fn drain(mut pipe: DuplexStream) {
    let mut bytes = vec![0; 64 << 10];
    while pipe.read(&mut bytes).await.unwrap_or(0) > 0 {}
}

/// Tells, for each delivery, what the bus had delivered to anyone by then.
async fn watch_live(mut pipe: DuplexStream, node: Arc<Node>, told: mpsc::UnboundedSender<u64>) {
    let mut frames = FrameReader::new(32 << 20);
    while pipe.read_buf(frames.spare()).await.unwrap_or(0) > 0 {
        while let Some((_, frame)) = frames.next_frame().unwrap() {
            if matches!(frame, Frame::Deliver(_)) {
                told.send(node.counters.delivered_bytes.load(Ordering::Relaxed)).unwrap();
            }
        }
    }
}

fn fill(bus: &mut Bus) -> Peer {
    let mut peer = bus.peer();
    peer.open_without_commit(bus, 1);
    peer.say(bus, &[(0, topics(&["bulk/a", "live/x"]))]);
    let payload = "x".repeat(PAYLOAD_BYTES);
    let each = 64;
    for batch in 0..STREAM_BYTES / PAYLOAD_BYTES / each {
        let messages = vec![(1, payload.as_str()); each];
        peer.say(bus, &[(1, publish((batch * each) as u64 + 1, &messages))]);
        bus.commit();
        peer.hear(bus);
    }
    peer
}

#[test]
fn a_live_delivery_waits_for_one_slice_of_recovery_at_most_however_many_recover() {
    let mut bus = Bus::new();
    let mut publisher = fill(&mut bus);
    let others = bus.node.slices.available_permits() - 1;
    bus.node.slices.forget_permits(others);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (stop_all, stop) = watch::channel(false);
        let (told, mut tellings) = mpsc::unbounded_channel();
        let live = client(&bus, &stop, "live/**", Begin::Live).await;
        tokio::spawn(watch_live(live, Arc::clone(&bus.node), told));
        for _ in 0..HERD {
            tokio::spawn(drain(client(&bus, &stop, "bulk/**", Begin::Start).await));
        }
        let delivered = |bus: &Bus| bus.node.counters.delivered_bytes.load(Ordering::Relaxed);
        let first = (STREAM_BYTES / PAYLOAD_BYTES) as u64 + 1;
        let mut worst = 0;
        for number in first..first + ROUNDS {
            // The herd goes on for a while.
            let before = delivered(&bus);
            while delivered(&bus) < before + (4 << 20) {
                tokio::task::yield_now().await;
            }
            publisher.say(&bus, &[(1, publish(number, &[(2, "now")]))]);
            let committed = delivered(&bus);
            bus.commit();
            worst = worst.max(tellings.recv().await.unwrap() - committed);
        }
        let all = (HERD * STREAM_BYTES) as u64;
        assert!(delivered(&bus) < all, "the herd was over before the last commit");
        assert!(worst <= SLICE_BYTES as u64 + 200, "{worst} bytes of recovery were read before a live delivery");
        // Nobody is forgotten meanwhile.
        while delivered(&bus) < all {
            tokio::task::yield_now().await;
        }
        stop_all.send_replace(true);
    });
}
