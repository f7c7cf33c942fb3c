//! The calls of the simulated disk, each: count and judge, check the path, do it.

use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::file::{FileNode, SECTOR_BYTES};
use super::names::{NodeId, Target};
use super::{SimDisk, State, hold};
use crate::path::{check_dir, check_file};
use crate::{Access, Advice, Disk, Entry, Error, File, Lock, Operation, Result, Space};

/// The id of every process in the simulation: the real one would differ from run to run.
const PROCESS: u32 = 1;

impl Disk for SimDisk {
    fn create(&self, path: &str) -> Result<Arc<dyn File>> {
        let operation = Operation::Create;
        check_file(operation, path)?;
        let mut state = self.state();
        state.enter(operation, path, None, 0)?;
        state.create(path).map_err(|errno| Error::errno(operation, path, None, errno))?;
        let node = state.names.find_file(path).map_err(|errno| Error::errno(operation, path, None, errno))?;
        Ok(self.handle(&mut state, path, node, Access::ReadWrite))
    }

    fn open(&self, path: &str, access: Access) -> Result<Arc<dyn File>> {
        let operation = Operation::Open;
        check_file(operation, path)?;
        let mut state = self.state();
        state.enter(operation, path, None, 0)?;
        let node = state.names.find_file(path).map_err(|errno| Error::errno(operation, path, None, errno))?;
        Ok(self.handle(&mut state, path, node, access))
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        let operation = Operation::List;
        check_dir(operation, dir)?;
        let mut state = self.state();
        state.enter(operation, dir, None, 0)?;
        let node = state.names.find_dir(dir).map_err(|errno| Error::errno(operation, dir, None, errno))?;
        let entry = |(name, target): (&str, Target)| {
            let (bytes, is_dir) = match target {
                Target::File(node) => (state.files.get(&node).map_or(0, |file| file.bytes().len() as u64), false),
                Target::Dir(_) => (0, true),
            };
            Entry { name: name.to_owned(), bytes, is_dir }
        };
        Ok(state.names.entries(node).map(entry).collect())
    }

    fn create_dir(&self, dir: &str) -> Result<()> {
        let operation = Operation::CreateDir;
        check_file(operation, dir)?;
        let mut state = self.state();
        state.enter(operation, dir, None, 0)?;
        if state.names.find_dir(dir).is_ok() {
            return Ok(());
        }
        let node = state.node_next();
        state.names.add(dir, Target::Dir(node)).map_err(|errno| Error::errno(operation, dir, None, errno))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let operation = Operation::Rename;
        check_file(operation, from)?;
        check_file(operation, to)?;
        let mut state = self.state();
        state.enter(operation, from, None, 0)?;
        let replaced = state.names.rename(from, to).map_err(|errno| Error::errno(operation, from, None, errno))?;
        if let Some(node) = replaced {
            state.release(node, |file| file.links -= 1);
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let operation = Operation::Remove;
        check_file(operation, path)?;
        let mut state = self.state();
        state.enter(operation, path, None, 0)?;
        let target = state.names.remove(path).map_err(|errno| Error::errno(operation, path, None, errno))?;
        if let Target::File(node) = target {
            state.release(node, |file| file.links -= 1);
        }
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let operation = Operation::Link;
        check_file(operation, from)?;
        check_file(operation, to)?;
        let mut state = self.state();
        state.enter(operation, from, None, 0)?;
        let refuse = |errno| Error::errno(operation, from, None, errno);
        match state.names.find(from).map_err(refuse)? {
            Target::Dir(_) => Err(refuse(Errno::PERM)),
            Target::File(node) => {
                state.names.add(to, Target::File(node)).map_err(refuse)?;
                state.file(node).links += 1;
                Ok(())
            }
        }
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        let operation = Operation::SyncDir;
        check_dir(operation, dir)?;
        let mut state = self.state();
        state.enter(operation, dir, None, 0)?;
        let node = state.names.find_dir(dir).map_err(|errno| Error::errno(operation, dir, None, errno))?;
        state.names.sync(node);
        state.forget();
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        let mut state = self.state();
        state.enter(Operation::Space, "", None, 0)?;
        Ok(state.space())
    }

    fn lock(&self, path: &str) -> Result<Lock> {
        let operation = Operation::Lock;
        check_file(operation, path)?;
        let mut state = self.state();
        state.enter(operation, path, None, 0)?;
        let refuse = |errno| Error::errno(operation, path, None, errno);
        match state.names.find_file(path) {
            Err(Errno::NOENT) => state.create(path).map_err(refuse)?,
            other => drop(other.map_err(refuse)?),
        }
        let holder = Some(PROCESS);
        if !state.locks.insert(path.to_owned()) {
            return Err(Error::Locked { path: path.to_owned(), holder });
        }
        let node = state.names.find_file(path).map_err(refuse)?;
        let text = format!("{PROCESS}\n");
        if let Ok(bytes) = state.resize(node, text.len() as u64) {
            state.file(node).write(0, &text.as_bytes()[..bytes]);
        }
        Ok(Lock::new(SimLock { state: Arc::clone(&self.state), path: path.to_owned() }))
    }
}

impl SimDisk {
    fn handle(&self, state: &mut State, path: &str, node: NodeId, access: Access) -> Arc<dyn File> {
        state.file(node).opens += 1;
        Arc::new(SimFile { state: Arc::clone(&self.state), path: path.to_owned(), node, access })
    }
}

impl State {
    fn node_next(&mut self) -> NodeId {
        self.node_next += 1;
        self.node_next - 1
    }

    fn create(&mut self, path: &str) -> Result<(), Errno> {
        let node = self.node_next();
        self.names.add(path, Target::File(node))?;
        self.files.insert(node, FileNode::named());
        Ok(())
    }

    /// Makes room for a file of so many bytes, or of as many as the disk has room for; gives that number.
    /// A file takes its length in room, zeros included.
    fn resize(&mut self, node: NodeId, bytes: u64) -> Result<usize, Errno> {
        let old = self.file(node).bytes().len() as u64;
        let granted = bytes.min(old.saturating_add(self.space().available));
        let granted_len = usize::try_from(granted).map_err(|_| Errno::FBIG)?;
        self.used = self.used - old + granted.max(old);
        Ok(granted_len)
    }
}

struct SimLock {
    state: Arc<Mutex<State>>,
    path: String,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        hold(&self.state).locks.remove(&self.path);
    }
}

struct SimFile {
    state: Arc<Mutex<State>>,
    path: String,
    node: NodeId,
    access: Access,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = hold(&self.state);
        state.release(self.node, |file| file.opens -= 1);
    }
}

impl SimFile {
    fn refuse<T>(&self, operation: Operation, offset: Option<u64>, errno: Errno) -> Result<T> {
        Err(Error::errno(operation, &self.path, offset, errno))
    }

    /// What each part of a write shares: room first, then as many bytes as there is room for.
    fn write(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        let operation = Operation::Write;
        let mut state = hold(&self.state);
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let verdict = state.enter(operation, &self.path, Some(offset), bytes as u64);
        if verdict.as_ref().is_err_and(Error::is_crashed) {
            return verdict;
        }
        if self.access == Access::Read {
            return self.refuse(operation, Some(offset), Errno::BADF);
        }
        let Some(end) = offset.checked_add(bytes as u64).filter(|end| i64::try_from(*end).is_ok()) else {
            return self.refuse(operation, Some(offset), Errno::INVAL);
        };
        if bytes == 0 {
            return verdict;
        }
        // A write that fails has reached the cache up to some sector.
        let wanted = match verdict {
            Ok(()) => end,
            Err(_) => offset + state.rng.below(bytes as u64) / SECTOR_BYTES as u64 * SECTOR_BYTES as u64,
        };
        let granted = match state.resize(self.node, wanted) {
            Ok(granted) => granted,
            Err(errno) => return self.refuse(operation, Some(offset), errno),
        };
        let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
        for part in parts {
            let part = &part[..part.len().min(granted.saturating_sub(at))];
            state.file(self.node).write(at, part);
            at = at.saturating_add(part.len());
        }
        verdict?;
        if (granted as u64) < end { self.refuse(operation, Some(offset), Errno::NOSPC) } else { Ok(()) }
    }

    fn sync(&self, operation: Operation) -> Result<()> {
        let mut state = hold(&self.state);
        let verdict = state.enter(operation, &self.path, None, 0);
        let State { files, rng, .. } = &mut *state;
        let file = files.get_mut(&self.node);
        match (&verdict, file) {
            (Ok(()), Some(file)) => file.sync(),
            (Err(error), Some(file)) if !error.is_crashed() => file.sync_failed(rng),
            _ => {}
        }
        verdict
    }
}

impl File for SimFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let operation = Operation::Read;
        let mut state = hold(&self.state);
        state.enter(operation, &self.path, Some(offset), buf.len() as u64)?;
        if i64::try_from(offset).is_err() {
            return self.refuse(operation, Some(offset), Errno::INVAL);
        }
        let file = state.file(self.node);
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(file.bytes().len());
        let there = &file.bytes()[from..];
        let bytes = there.len().min(buf.len());
        buf[..bytes].copy_from_slice(&there[..bytes]);
        state.plan.counts.bytes_read += bytes as u64;
        Ok(bytes)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write(&[bytes], offset)
    }

    fn write_vectored_at(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        self.write(parts, offset)
    }

    fn sync_data(&self) -> Result<()> {
        self.sync(Operation::SyncData)
    }

    fn sync_all(&self) -> Result<()> {
        self.sync(Operation::SyncAll)
    }

    fn len(&self) -> Result<u64> {
        let mut state = hold(&self.state);
        state.enter(Operation::Len, &self.path, None, 0)?;
        Ok(state.file(self.node).bytes().len() as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        let operation = Operation::SetLen;
        let mut state = hold(&self.state);
        state.enter(operation, &self.path, Some(bytes), 0)?;
        if self.access == Access::Read || i64::try_from(bytes).is_err() {
            return self.refuse(operation, Some(bytes), Errno::INVAL);
        }
        let old = state.file(self.node).bytes().len() as u64;
        if bytes > old.saturating_add(state.space().available) {
            return self.refuse(operation, Some(bytes), Errno::NOSPC);
        }
        match usize::try_from(bytes) {
            Ok(to) => state.file(self.node).set_len(to),
            Err(_) => return self.refuse(operation, Some(bytes), Errno::FBIG),
        }
        state.used = state.used - old + bytes;
        Ok(())
    }

    fn advise(&self, _: Advice) -> Result<()> {
        hold(&self.state).enter(Operation::Advise, &self.path, None, 0)
    }
}
