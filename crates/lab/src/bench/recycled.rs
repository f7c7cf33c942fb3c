//! Segment files that were written before. A server that has run for a while writes into files that retention gave back; one
//! that was just started has none, and what it costs to write a file for the first time is not what is to be measured.
//!
//! ```text
//! pool/N ──give──▶ data/journal/free-N      the server's own name for a file to be written again
//! pool/N ◀──take── data/journal/*           after the run, whatever it became
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Result, io_at};

/// Bytes of one write while filling.
const PIECE_BYTES: usize = 1 << 20;

/// Files of a segment's size, all of them written and durable.
#[derive(Debug)]
pub struct Recycled {
    pool: PathBuf,
    segment_bytes: u64,
}

impl Recycled {
    /// Writes so many files into `folder`.
    pub fn make(folder: &Path, files: u64, segment_bytes: u64) -> Result<Recycled> {
        let pool = folder.join("pool");
        fs::create_dir_all(&pool).map_err(io_at(&pool))?;
        let piece = vec![0; PIECE_BYTES];
        for number in 0..files {
            let path = pool.join(number.to_string());
            let mut file = File::create(&path).map_err(io_at(&path))?;
            let mut left = segment_bytes;
            while left > 0 {
                let part = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                file.write_all(&piece[..part]).map_err(io_at(&path))?;
                left -= part as u64;
            }
            file.sync_all().map_err(io_at(&path))?;
        }
        Ok(Recycled { pool, segment_bytes })
    }

    /// Hands all of them to the data directory of a server that is stopped.
    pub fn give(&self, data: &Path) -> Result<()> {
        for (number, path) in (1u64..).zip(files(&self.pool)?) {
            let free = data.join("journal").join(format!("free-{number:016x}"));
            fs::rename(&path, &free).map_err(io_at(&path))?;
        }
        Ok(())
    }

    /// Takes back what a data directory has, and removes the directory.
    pub fn take(&self, data: &Path) -> Result<()> {
        let taken = files(&self.pool)?.len();
        for (number, path) in (taken..).zip(files(&data.join("journal"))?) {
            if fs::metadata(&path).map_err(io_at(&path))?.len() == self.segment_bytes {
                fs::rename(&path, self.pool.join(number.to_string())).map_err(io_at(&path))?;
            }
        }
        fs::remove_dir_all(data).map_err(io_at(data))
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(io_at(folder))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_to_a_server_and_come_back_as_what_they_became() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir_all(data.join("journal")).unwrap();
        let recycled = Recycled::make(folder.path(), 3, 5_000).unwrap();
        recycled.give(&data).unwrap();
        assert_eq!(fs::metadata(data.join("journal/free-0000000000000003")).unwrap().len(), 5_000);
        fs::rename(data.join("journal/free-0000000000000001"), data.join("journal/1.seg")).unwrap();
        fs::write(data.join("journal/2.seg"), [0; 100]).unwrap();
        recycled.take(&data).unwrap();
        assert!(!data.exists());
        assert_eq!(files(&folder.path().join("pool")).unwrap().len(), 3);
    }
}
