//! The threads of a bus: one for the log, one for the work behind the writer's back (the next segment, footers,
//! checkpoints). The only places where a bus waits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arioso_journal::{Backend, Error};
use tokio::sync::watch;

use crate::clock::wall;
use crate::log::Log;
use crate::node::Node;

/// How long after the last batch an empty one carries `synced_to` forward; half of what docs/format.md allows.
const MARK_AFTER: Duration = Duration::from_millis(50);

/// Tells the log's thread to end when everything that waits is durable.
pub struct LogThread<B> {
    node: Arc<Node>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Log<B>, Error>>,
}

impl<B: Backend + 'static> LogThread<B> {
    /// Starts it. `lost` turns true when the journal is lost.
    pub fn start(log: Log<B>, node: Arc<Node>, lost: watch::Sender<bool>) -> io::Result<LogThread<B>> {
        let stop = Arc::new(AtomicBool::new(false));
        let (on, own) = (Arc::clone(&stop), Arc::clone(&node));
        let thread = std::thread::Builder::new().name("arioso-log".into()).spawn(move || {
            let ended = run(log, &own, &on);
            if ended.is_err() {
                own.engine.lock().lose();
                lost.send_replace(true);
            }
            ended
        })?;
        Ok(LogThread { node, stop, thread })
    }

    /// Makes durable what waits, then ends.
    pub fn stop(self) -> Result<Log<B>, Error> {
        {
            let _engine = self.node.engine.lock();
            self.stop.store(true, Ordering::Release);
        }
        self.node.work.notify_all();
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn run<B: Backend>(mut log: Log<B>, node: &Node, stop: &AtomicBool) -> Result<Log<B>, Error> {
    loop {
        let mark = wait(node, stop);
        let wrote = log.step(wall(), mark)?;
        if !wrote && stop.load(Ordering::Acquire) {
            return Ok(log);
        }
    }
}

/// Waits for work; true when nothing came for a while and a mark is wanted.
fn wait(node: &Node, stop: &AtomicBool) -> bool {
    let mut engine = node.engine.lock();
    loop {
        if engine.has_pending() || stop.load(Ordering::Acquire) {
            return false;
        }
        if engine.wants_sync_mark() {
            if node.work.wait_for(&mut engine, MARK_AFTER).timed_out() {
                return true;
            }
        } else {
            node.work.wait(&mut engine);
        }
    }
}
