//! The machine and its processes, as `/proc` tells: CPU seconds, memory, and what everybody else used meanwhile.

use std::fs;
use std::path::Path;
use std::time::Instant;

use arioso_disk::{Access, Advice, Disk, RealDisk};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Error, Result, io_at};

/// Clock ticks a second in `/proc`: 100 on every Linux there is.
const TICKS: f64 = 100.0;

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Processor, cores, load.
pub fn describe() -> Value {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    let load: Option<f64> = read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({ "processor": model, "cores": cores, "load1": load })
}

/// CPU seconds that a process has used, all its threads together; a grain of 10 ms.
pub fn cpu_s(process: u32) -> f64 {
    let stat = read(&format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may hold anything; the fields begin behind its closing bracket with the third.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let field = |at: usize| fields.get(at - 3).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (field(14) + field(15)) / TICKS
}

/// Resident bytes of a process.
pub fn rss_bytes(process: u32) -> u64 {
    let status = read(&format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Busy CPU seconds of the whole machine.
fn machine_cpu_s() -> f64 {
    let stat = read("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (ticks.iter().sum::<f64>() - idle) / TICKS
}

/// Time and CPU from a moment on.
#[derive(Debug)]
pub struct Meter {
    began: Instant,
    server: Option<u32>,
    server_cpu_s: f64,
    own_cpu_s: f64,
    machine_cpu_s: f64,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Used {
    /// Seconds that passed.
    pub wall_s: f64,
    /// CPU seconds of the server.
    pub server_cpu_s: f64,
    /// CPU seconds of this process.
    pub client_cpu_s: f64,
    /// CPU seconds of everybody else: with much of it the figures beside it are too low.
    pub others_cpu_s: f64,
}

impl Meter {
    /// Begins now; `server` is the server's process.
    pub fn begin(server: Option<u32>) -> Meter {
        Meter {
            began: Instant::now(),
            server,
            server_cpu_s: server.map_or(0.0, cpu_s),
            own_cpu_s: cpu_s(std::process::id()),
            machine_cpu_s: machine_cpu_s(),
        }
    }

    /// What was used since.
    pub fn used(&self) -> Used {
        let wall_s = self.began.elapsed().as_secs_f64();
        let server_cpu_s = self.server.map_or(0.0, cpu_s) - self.server_cpu_s;
        let client_cpu_s = cpu_s(std::process::id()) - self.own_cpu_s;
        let all = machine_cpu_s() - self.machine_cpu_s;
        Used { wall_s, server_cpu_s, client_cpu_s, others_cpu_s: (all - server_cpu_s - client_cpu_s).max(0.0) }
    }
}

/// Lets the files below a directory leave the page cache; tells how many bytes they have.
pub fn evict(root: &Path) -> Result<u64> {
    let disk = RealDisk::open(root).map_err(|error| evicting(root, &error))?;
    let mut open = vec![String::new()];
    let mut bytes = 0;
    while let Some(dir) = open.pop() {
        for entry in disk.list(&dir).map_err(|error| evicting(root, &error))? {
            let path = if dir.is_empty() { entry.name } else { format!("{dir}/{}", entry.name) };
            if entry.is_dir {
                open.push(path);
                continue;
            }
            // What is dirty stays in the cache, so it is written first.
            let file = disk.open(&path, Access::Read);
            let done = file.and_then(|file| file.sync_data().and_then(|()| file.advise(Advice::DontNeed)));
            match done {
                Ok(()) => bytes += entry.bytes,
                // A running server renames and removes files.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(evicting(root, &error)),
            }
        }
    }
    Ok(bytes)
}

fn evicting(root: &Path, error: &arioso_disk::Error) -> Error {
    io_at(root)(std::io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_uses_time() {
        assert!(rss_bytes(std::process::id()) > 1 << 20);
        let meter = Meter::begin(None);
        let mut sum = 0u64;
        while meter.began.elapsed().as_millis() < 60 {
            sum = std::hint::black_box(sum + 1);
        }
        let used = meter.used();
        assert!(used.client_cpu_s > 0.0 && used.wall_s >= 0.06, "{used:?}");
        assert_eq!(rss_bytes(u32::MAX), 0);
    }

    #[test]
    fn evicting_sees_every_file_below_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b"), [1; 1000]).unwrap();
        fs::write(dir.path().join("c"), [1; 24]).unwrap();
        assert_eq!(evict(dir.path()).unwrap(), 1024);
    }
}
