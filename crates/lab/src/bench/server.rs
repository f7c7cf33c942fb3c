//! The server under measurement: a process of its own, or one that runs already.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{Error, Result, io, io_at, machine};

/// How much of a server's log is told when it fails.
const LOG_BYTES: usize = 2_000;
/// How long the server's pages may take.
const HTTP_WAIT: Duration = Duration::from_secs(10);

/// Where the bench takes place.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Measure on the disk of this directory: a folder is made in it and removed afterwards [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A setting of the server, as its flag; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
}

impl Place {
    /// A folder that is removed when dropped.
    pub fn folder(&self) -> Result<TempDir> {
        folder(self.data.as_deref())
    }

    /// The settings as flags of `serve`, behind the bench's own.
    pub fn flags(&self, own: &[(&str, String)]) -> Result<Vec<OsString>> {
        let mut flags: Vec<OsString> = Vec::new();
        for (name, value) in own {
            let given =
                self.settings.iter().any(|given| given.split_once('=').is_some_and(|(given, _)| given == *name));
            if !given {
                flags.extend([format!("--{name}").into(), value.into()]);
            }
        }
        for given in &self.settings {
            let Some((name, value)) = given.split_once('=') else {
                return Err(Error::Use(format!("--set {given:?}: NAME=VALUE is wanted, such as tip-bytes=64MiB")));
            };
            flags.extend([format!("--{name}").into(), value.into()]);
        }
        Ok(flags)
    }
}

/// A folder in `parent`, or where temporary files go; removed when dropped.
pub fn folder(parent: Option<&Path>) -> Result<TempDir> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
    fs::create_dir_all(&parent).map_err(io_at(&parent))?;
    tempfile::Builder::new().prefix("arioso-bench-").tempdir_in(&parent).map_err(io_at(&parent))
}

/// A server.
#[derive(Debug)]
pub struct Server {
    process: Option<Child>,
    /// Its address.
    pub listen: String,
    /// The address of its metrics.
    pub http: String,
    /// Seconds from its start until it was ready.
    pub ready_s: f64,
    log: PathBuf,
}

impl Server {
    /// Starts one on `folder`, where its log goes too, and waits until it is ready.
    pub fn start(folder: &Path, flags: &[OsString]) -> Result<Server> {
        let program = std::env::current_exe().map_err(io("this program"))?;
        let log_path = folder.join("server.log");
        let log = File::create(&log_path).map_err(io_at(&log_path))?;
        let began = Instant::now();
        let mut process = Command::new(&program)
            .arg("serve")
            .arg("--data")
            .arg(folder.join("data"))
            .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(io_at(&program))?;
        let mut line = String::new();
        let told = process.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let ready: Option<Value> = serde_json::from_str(&line).ok();
        let address = |key: &str| ready.as_ref().and_then(|ready| Some(ready.get(key)?.as_str()?.to_string()));
        if let (Some(Ok(_)), Some(listen), Some(http)) = (told, address("listen"), address("http")) {
            return Ok(Server {
                process: Some(process),
                listen,
                http,
                ready_s: began.elapsed().as_secs_f64(),
                log: log_path,
            });
        }
        // Whether it is still there does not matter any more.
        let _ = process.kill();
        let _ = process.wait();
        Err(Error::Server { what: "did not become ready".into(), said: log_end(&log_path) })
    }

    /// One that runs already.
    pub fn running(listen: &str, http: &str) -> Server {
        Server { process: None, listen: listen.into(), http: http.into(), ready_s: f64::NAN, log: PathBuf::new() }
    }

    /// Its process, if it is ours.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Resident bytes.
    pub fn rss_bytes(&self) -> u64 {
        self.id().map_or(0, machine::rss_bytes)
    }

    /// Stops it cleanly.
    pub fn stop(mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw).expect("a process has a number above 0");
        kill_process(id, Signal::TERM).map_err(|error| io("stopping the server")(error.into()))?;
        let status = process.wait().map_err(io("stopping the server"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Server { what: format!("ended with {status}"), said: log_end(&self.log) })
    }

    /// Kills it as `kill -9` does.
    pub fn kill(mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.kill().and_then(|()| process.wait()).map(drop).map_err(io("killing the server"))
    }

    /// Its metrics by name.
    pub fn metrics(&self) -> Result<Metrics> {
        let fetch = || {
            let mut socket = TcpStream::connect(&self.http)?;
            socket.set_read_timeout(Some(HTTP_WAIT))?;
            write!(socket, "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http)?;
            let mut text = String::new();
            socket.read_to_string(&mut text)?;
            Ok(text)
        };
        let text = fetch().map_err(io(format!("metrics at {}", self.http)))?;
        let rows = text.lines().filter(|line| line.starts_with("arioso_")).filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_string(), value.trim().parse().ok()?))
        });
        Ok(Metrics(rows.collect()))
    }
}

/// The end of a log, as one line.
fn log_end(path: &Path) -> String {
    let log = fs::read(path).unwrap_or_default();
    let tail = log.get(log.len().saturating_sub(LOG_BYTES)..).unwrap_or_default();
    String::from_utf8_lossy(tail).trim().replace('\n', " / ")
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // A bench that failed: what the server said may tell why, and its folder is about to go.
            let _ = process.kill();
            let _ = process.wait();
            eprintln!("the server said: {}", log_end(&self.log));
        }
    }
}

/// What a server counts.
#[derive(Clone, Debug)]
pub struct Metrics(HashMap<String, f64>);

impl Metrics {
    /// One of them.
    pub fn get(&self, name: &str) -> Result<f64> {
        self.0.get(name).copied().ok_or_else(|| Error::Wrong(format!("the server has no metric {name}")))
    }

    /// How far one has grown since.
    pub fn since(&self, before: &Metrics, name: &str) -> Result<f64> {
        Ok(self.get(name)? - before.get(name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(settings: &[&str]) -> Place {
        Place { data: None, settings: settings.iter().map(|text| (*text).to_string()).collect() }
    }

    #[test]
    fn a_setting_given_replaces_the_bench_s_own() {
        let own = [("tip-bytes", "8MiB".to_string()), ("topics-max", "9".to_string())];
        let flags = place(&["tip-bytes=64MiB", "segment-bytes=1MiB"]).flags(&own).unwrap();
        assert_eq!(flags, ["--topics-max", "9", "--tip-bytes", "64MiB", "--segment-bytes", "1MiB"]);
        let error = place(&["tip-bytes"]).flags(&own).unwrap_err().to_string();
        assert!(error.contains("NAME=VALUE is wanted"), "{error}");
    }
}
