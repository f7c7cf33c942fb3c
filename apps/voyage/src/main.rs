//! The command line.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use arioso_voyage::error::{Error, Result};
use arioso_voyage::input::Input;
use arioso_voyage::nmea;
use clap::{Parser, Subcommand};

/// Vessel positions and ways by sea.
#[derive(Debug, Parser)]
#[command(name = "voyage", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read recorded positions.
    #[command(subcommand)]
    Import(Import),
}

#[derive(Debug, Subcommand)]
enum Import {
    /// AIS in NMEA 0183 sentences, one a line.
    Nmea {
        /// Print one line of JSON for each message and each rejected line.
        #[arg(long, required = true)]
        dry_run: bool,
        /// Files (`.zst` is unpacked); `-` is standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Write(e)) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("voyage: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Import(Import::Nmea { dry_run: _, files }) => import_nmea(&files),
    }
}

fn import_nmea(files: &[PathBuf]) -> Result<()> {
    let mut sink = nmea::JsonLines(BufWriter::new(std::io::stdout().lock()));
    for path in files {
        let counts = nmea::import(Input::open(path)?, &mut sink)?;
        eprintln!("{}: {counts}", path.display());
    }
    sink.0.flush().map_err(Error::Write)
}
