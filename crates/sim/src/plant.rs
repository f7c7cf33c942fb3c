//! Mistakes made on purpose, at the simulator's own border with the product. The product has no hook for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arioso_disk::{Access, Advice, Disk, Entry, File, Lock, Result, SimDisk, Space};

use crate::rng::mix;

/// A disk that, sometimes, says that bytes are durable before they are.
pub struct LyingDisk {
    inner: SimDisk,
    syncs: Arc<AtomicU64>,
}

impl LyingDisk {
    /// In front of a disk that tells the truth.
    pub fn new(inner: SimDisk) -> LyingDisk {
        LyingDisk { inner, syncs: Arc::default() }
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(LyingFile { inner: file, syncs: Arc::clone(&self.syncs) })
    }
}

impl Disk for LyingDisk {
    fn create(&self, path: &str) -> Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.create(path)?))
    }

    fn open(&self, path: &str, access: Access) -> Result<Arc<dyn File>> {
        Ok(self.wrap(self.inner.open(path, access)?))
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.link(from, to)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.inner.sync_dir(dir)
    }

    fn space(&self) -> Result<Space> {
        self.inner.space()
    }

    fn lock(&self, path: &str) -> Result<Lock> {
        self.inner.lock(path)
    }
}

struct LyingFile {
    inner: Arc<dyn File>,
    syncs: Arc<AtomicU64>,
}

impl File for LyingFile {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn write_vectored_at(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        self.inner.write_vectored_at(parts, offset)
    }

    fn sync_data(&self) -> Result<()> {
        let count = self.syncs.fetch_add(1, Ordering::Relaxed);
        if mix(count).is_multiple_of(2) { Ok(()) } else { self.inner.sync_data() }
    }

    fn sync_all(&self) -> Result<()> {
        self.inner.sync_all()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes)
    }

    fn advise(&self, advice: Advice) -> Result<()> {
        self.inner.advise(advice)
    }
}
