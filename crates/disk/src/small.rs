//! Small files that are read and replaced whole: manifests, checkpoints' heads, settings.

use crate::{Access, Disk, Error, Result, path};

/// The name a file has while it is written, before it takes the place of `path`. A crash may leave one
/// behind; the next [`replace`] of the same path removes it.
pub fn temporary(path: &str) -> String {
    format!("{path}.tmp")
}

/// Replaces the file at `path` durably: after a crash there is the old file or the new one, whole, and
/// after `Ok` there is the new one. Two at once on one path are the caller's mistake.
pub fn replace(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    let file = match disk.create(&temporary) {
        Err(error) if error.is_taken() => {
            disk.remove(&temporary)?;
            disk.create(&temporary)?
        }
        other => other?,
    };
    file.write_at(bytes, 0)?;
    file.sync_all()?;
    disk.rename(&temporary, path)?;
    disk.sync_dir(path::parent(path))
}

/// Reads a whole file that has at most `bytes_max` bytes, and refuses a larger one.
pub fn read_small(disk: &dyn Disk, path: &str, bytes_max: usize) -> Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let bytes = file.len()?;
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= bytes_max => {
            let mut buf = vec![0; bytes];
            file.read_exact_at(&mut buf, 0)?;
            Ok(buf)
        }
        _ => Err(Error::TooLarge { path: path.to_owned(), bytes, bytes_max: bytes_max as u64 }),
    }
}
