//! How a command ends: 0 done, 1 failed (one line on standard error says what, where and what to do), 2 wrong use.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Something went wrong; the text is one line.
    Failed(String),
    /// The command was used wrongly.
    Use(String),
    /// Whoever read the output went away: a quiet end.
    PipeClosed,
}

impl Failure {
    /// What went wrong, with where.
    pub fn new(text: impl fmt::Display) -> Failure {
        Failure::Failed(text.to_string())
    }

    /// The exit status, after saying why.
    pub fn exit(self) -> ExitCode {
        match self {
            Failure::Failed(text) => {
                eprintln!("arioso: {}", text.replace('\n', " "));
                ExitCode::from(1)
            }
            Failure::Use(text) => {
                eprintln!("arioso: {text}");
                ExitCode::from(2)
            }
            Failure::PipeClosed => ExitCode::SUCCESS,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe { Failure::PipeClosed } else { Failure::new(error) }
    }
}

/// What a command comes to.
pub type Done = Result<(), Failure>;
