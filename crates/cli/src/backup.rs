//! `arioso backup`.

use std::io::{self, Write};

use serde_json::json;

use crate::args::BackupArgs;
use crate::connect::{connect, failed};
use crate::fail::{Done, Failure};

/// Copies a running server's stream.
pub fn run(arguments: &BackupArgs) -> Done {
    let folder = std::path::absolute(&arguments.out)?;
    let folder = folder.to_str().ok_or_else(|| Failure::Use(format!("{}: not UTF-8", folder.display())))?;
    let bus = connect(&arguments.at)?;
    let what = format!("backing up to {folder}");
    let fail = failed(&arguments.at, &what);
    let done = bus.back_up(folder).map_err(&fail)?;
    let (through, files, bytes) = (done.through.0, done.files, done.bytes);
    writeln!(io::stdout(), "{}", json!({ "through": through, "files": files, "bytes": bytes }))?;
    bus.close().map_err(fail)
}
