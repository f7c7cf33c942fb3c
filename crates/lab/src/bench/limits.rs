//! What the machine itself can do, measured in the same run: appends with a sync each, and bytes through loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use arioso_disk::{Disk, RealDisk};
use serde::Serialize;

use super::report::{Latency, histogram};
use super::{Error, Result, io, io_at};

/// The file that is written over and over: a segment's size.
const FILE_BYTES: u64 = 64 << 20;
const PAGE: u64 = 4_096;
/// Bytes of one write and one read on loopback: what the bus writes and reads at once.
const COPY_BYTES: usize = 256 << 10;

/// How fast appends with a sync each are.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SyncLimit {
    /// Bytes of an append, whole pages.
    pub append_bytes: u64,
    /// Appends a second.
    pub per_s: f64,
    /// What an append and its sync take.
    pub latency: Latency,
}

/// Appends `bytes` (rounded up to pages) with an `fdatasync` each to a file that was written in full before, for so long.
pub fn syncs(folder: &Path, bytes: u64, lasting: Duration) -> Result<SyncLimit> {
    let wrong = |error: arioso_disk::Error| io_at(folder)(std::io::Error::other(error.to_string()));
    let bytes = bytes.max(1).next_multiple_of(PAGE);
    let file_bytes = FILE_BYTES.max(bytes * 4);
    let disk = RealDisk::open(folder).map_err(wrong)?;
    let file = disk.create("limit").map_err(wrong)?;
    let fill = vec![0x5a; COPY_BYTES];
    for at in (0..file_bytes).step_by(COPY_BYTES) {
        file.write_at(&fill, at).map_err(wrong)?;
    }
    file.sync_all().map_err(wrong)?;
    let append = vec![0xa5; usize::try_from(bytes).expect("an append fits into memory")];
    let mut took = histogram();
    let began = Instant::now();
    let mut at = 0;
    while began.elapsed() < lasting {
        if at + bytes > file_bytes {
            at = 0;
        }
        let one = Instant::now();
        file.write_at(&append, at).map_err(wrong)?;
        file.sync_data().map_err(wrong)?;
        took.saturating_record(u64::try_from(one.elapsed().as_nanos()).unwrap_or(u64::MAX));
        at += bytes;
    }
    let per_s = took.len() as f64 / began.elapsed().as_secs_f64();
    disk.remove("limit").map_err(wrong)?;
    Ok(SyncLimit { append_bytes: bytes, per_s, latency: Latency::of(&took) })
}

/// Seconds that so many bytes take through a loopback connection, from one thread to another.
pub fn loopback_s(bytes: u64) -> Result<f64> {
    let wrong = || io("loopback");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong())?;
    let address = listener.local_addr().map_err(wrong())?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || -> std::io::Result<()> {
            let (mut socket, _) = listener.accept()?;
            socket.set_nodelay(true)?;
            let chunk = vec![0x5a; COPY_BYTES];
            let mut left = bytes;
            while left > 0 {
                let part = usize::try_from(left).unwrap_or(usize::MAX).min(COPY_BYTES);
                socket.write_all(&chunk[..part])?;
                left -= part as u64;
            }
            Ok(())
        });
        let mut socket = TcpStream::connect(address).map_err(wrong())?;
        let mut chunk = vec![0; COPY_BYTES];
        let began = Instant::now();
        let mut got = 0;
        while got < bytes {
            match socket.read(&mut chunk).map_err(wrong())? {
                0 => return Err(Error::Wrong(format!("loopback ended after {got} of {bytes} bytes"))),
                count => got += count as u64,
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(wrong())?;
        Ok(seconds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_are_whole_pages_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let limit = syncs(dir.path(), 5_000, Duration::from_millis(20)).unwrap();
        assert_eq!(limit.append_bytes, 8_192);
        assert!(limit.latency.count > 0 && limit.per_s > 0.0, "{limit:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn loopback_takes_every_byte() {
        assert!(loopback_s(3 << 20).unwrap() > 0.0);
    }
}
