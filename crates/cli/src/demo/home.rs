//! What the demo leaves nothing of: its data directory, and the server it starts as a process of its own to kill it.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::signal::unix::{SignalKind, signal};

use crate::fail::Failure;

type Slot = Arc<Mutex<Option<Child>>>;

/// The demo's data directory; removed when dropped, unless it is to be kept, and when a signal ends the demo.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    keep: bool,
    server: Slot,
}

impl Home {
    /// Makes one among the temporary files, for this user only.
    pub fn new(keep: bool) -> Result<Home, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let path = std::env::temp_dir().join(format!("arioso-demo-{}-{since}", std::process::id()));
        let wrong = |error: io::Error| Failure::new(format!("{}: {error}; TMPDIR names another place", path.display()));
        DirBuilder::new().mode(0o700).create(&path).map_err(wrong)?;
        // Walks compare with it: no links in it.
        let path = fs::canonicalize(&path).map_err(wrong)?;
        let home = Home { path, keep, server: Slot::default() };
        home.watch()?;
        Ok(home)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it stays.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// Cleans up when a signal ends the demo.
    fn watch(&self) -> Result<(), Failure> {
        let (path, keep, server) = (self.path.clone(), self.keep, Arc::clone(&self.server));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut terminate, mut interrupt) = {
            let _inside = runtime.enter();
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
        };
        std::thread::Builder::new().name("arioso-signals".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            });
            end(&server);
            remove(&path, keep);
            eprintln!("arioso: interrupted");
            std::process::exit(1);
        })?;
        Ok(())
    }

    /// Starts a server on it, a process of its own, and gives its address once it is ready.
    pub fn start_server(&self, segment_bytes: u64) -> Result<String, Failure> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .arg("demo-server")
            .arg(&self.path)
            .arg(segment_bytes.to_string())
            // It ends when this end of the pipe does: no way of dying leaves it behind.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take();
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        if let Some(out) = out {
            BufReader::new(out).read_line(&mut line)?;
        }
        let told: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        let address = told.as_ref().and_then(|told| told["listen"].as_str());
        address.map(str::to_owned).ok_or_else(|| Failure::new(format!("the server did not start: it told {line:?}")))
    }

    /// Kills it with SIGKILL: nothing it holds in memory gets anywhere. Gives the signal it died of.
    pub fn kill_server(&self) -> Result<Option<i32>, Failure> {
        let mut slot = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut child) = slot.take() else { return Ok(None) };
        child.kill()?;
        Ok(child.wait()?.signal())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        end(&self.server);
        remove(&self.path, self.keep);
    }
}

fn end(server: &Slot) {
    if let Some(mut child) = server.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // It may be gone already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn remove(path: &Path, keep: bool) {
    if keep {
        eprintln!("arioso: the data directory is kept: {}", path.display());
        return;
    }
    // Under another name first: a bus that still runs in it makes no new files while the old ones are removed.
    let gone = path.with_extension("gone");
    let path = if fs::rename(path, &gone).is_ok() { &gone } else { path };
    if let Err(error) = fs::remove_dir_all(path) {
        eprintln!("arioso: {}: {error}; what is left of the demo's data directory can be removed", path.display());
    }
}
