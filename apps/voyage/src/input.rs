//! Input files, read as a stream: plain, compressed with zstd (`.zst`), or standard input (`-`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Longest line that is kept, in bytes, without its end. NMEA 0183 allows 82 and a tag block as many;
/// GeoJSON and JSON Lines that we read are shorter than this by far.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// A file that is read once from its start.
pub struct Input {
    path: PathBuf,
    reader: Box<dyn BufRead>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A line, or what was left of one that was too long.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Line {
    /// The buffer holds a whole line, without `\n` or `\r\n`.
    Whole,
    /// The buffer holds the first [`LINE_BYTES_MAX`] bytes; the rest was read and dropped.
    Cut,
}

impl Input {
    /// Opens `path`; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let reader: Box<dyn BufRead> = if path.as_os_str() == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(path).map_err(failed)?;
            if path.extension().is_some_and(|e| e == "zst") {
                Box::new(BufReader::new(zstd::stream::read::Decoder::new(file).map_err(failed)?))
            } else {
                Box::new(BufReader::new(file))
            }
        };
        Ok(Self { path: path.to_owned(), reader })
    }

    /// Where it comes from, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the next line into `line`; `None` at the end.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> Result<Option<Line>> {
        read_line(&mut self.reader, line).map_err(|source| Error::Read { path: self.path.clone(), source })
    }

    /// Reads all that is left, at most `bytes_max`.
    pub fn read_all(mut self, bytes_max: u64) -> Result<Vec<u8>> {
        let failed = |source| Error::Read { path: self.path.clone(), source };
        let mut bytes = Vec::new();
        self.reader.by_ref().take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > bytes_max {
            return Err(failed(io::Error::other(format!("longer than {bytes_max} bytes"))));
        }
        Ok(bytes)
    }
}

fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Option<Line>> {
    line.clear();
    if reader.take(LINE_BYTES_MAX as u64).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        return Ok(Some(Line::Whole));
    }
    if line.len() < LINE_BYTES_MAX {
        return Ok(Some(Line::Whole)); // the last line may have no end
    }
    let dropped = reader.skip_until(b'\n')?;
    Ok(Some(if dropped == 0 { Line::Whole } else { Line::Cut }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_either_line_end_and_at_the_end_of_the_file() {
        let mut reader: &[u8] = b"one\r\ntwo\n\nthree";
        let mut line = Vec::new();
        let mut got = Vec::new();
        while read_line(&mut reader, &mut line).unwrap().is_some() {
            got.push(String::from_utf8(line.clone()).unwrap());
        }
        assert_eq!(got, ["one", "two", "", "three"]);
    }

    #[test]
    fn a_line_beyond_the_limit_is_cut_and_the_next_one_is_whole() {
        let mut bytes = vec![b'x'; LINE_BYTES_MAX + 10];
        bytes.extend_from_slice(b"\nnext\n");
        let mut reader: &[u8] = &bytes;
        let mut line = Vec::new();
        assert_eq!(read_line(&mut reader, &mut line).unwrap(), Some(Line::Cut));
        assert_eq!(line.len(), LINE_BYTES_MAX);
        assert_eq!(read_line(&mut reader, &mut line).unwrap(), Some(Line::Whole));
        assert_eq!(line, b"next");
    }
}
