//! Ways by sea: a network that knows where ships turn, and what is asked of it.
//!
//! ```text
//! sphere ── coast, barrier ── network, tops ── place (joins a position) ── climb ──▶ route ──▶ router
//!                              ▲  ▲
//!                           file  lines (networks of others)
//! ```

pub mod barrier;
pub mod between;
pub mod climb;
pub mod coast;
pub mod file;
pub mod lines;
pub mod nearby;
pub mod network;
pub mod place;
pub mod route;
pub mod router;
pub mod sphere;
pub mod tops;

use std::path::Path;

use crate::error::Result;
use crate::input::Input;

/// The network that belongs to this crate: oceans of the whole globe.
const OCEANS: &[u8] = include_bytes!("../../data/oceans.sea");

/// Most bytes of a network file.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// The network that belongs to this crate.
pub fn oceans() -> Result<network::Network> {
    file::read(OCEANS)
}

/// Reads a network: a file that `voyage build-network` wrote, or GeoJSON lines.
pub fn open(path: &Path) -> Result<network::Network> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name.contains(".geojson") || name.contains(".json") {
        return lines::read(path);
    }
    file::read(&Input::open(path)?.read_all(FILE_BYTES_MAX)?)
}
