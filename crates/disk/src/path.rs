//! Which paths are ours. Both disks check the same way, so that a path that works in the simulation
//! works on a file system and none leads out of the data directory.

use crate::{Error, Operation, Result};

/// Refuses what is not the path of a file below the data directory.
pub fn check_file(operation: Operation, path: &str) -> Result<()> {
    let good = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    if path.split('/').all(good) {
        return Ok(());
    }
    Err(Error::Path { operation, path: path.to_owned() })
}

/// The same for a directory; `""` is the data directory itself.
pub fn check_dir(operation: Operation, dir: &str) -> Result<()> {
    if dir.is_empty() { Ok(()) } else { check_file(operation, dir) }
}

/// The directory a path lies in.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}
