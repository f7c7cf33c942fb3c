//! The whole check of this repository, the same everywhere: `cargo xtask ci`.

mod provision;
mod steps;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci      everything below, in order, then the simulator and the demo; what must pass before a change is sent
  tidy    the arrows between crates, what the core may not use, the length of files
  lint    formatting and clippy, warnings are errors
  test    every test of the workspace
  sim     the simulator, 200 seeds (release build)
  demo    the demo on a small tree (release build)
  crash   a real server killed under load; --kills N (20), with --seed N (1)

Examples:
  cargo xtask ci
  cargo xtask tidy && cargo xtask test
  cargo xtask crash --kills 100 --seed 7";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => steps::ci(),
        ["tidy"] => steps::tidy(),
        ["lint"] => steps::lint(),
        ["test"] => steps::test(),
        ["sim"] => steps::sim(),
        ["demo"] => steps::demo(),
        ["crash", ref options @ ..] => match steps::CrashOptions::read(options) {
            Some(options) => steps::crash(options),
            None => Err(format!("crash {}: --kills N and --seed N are wanted, N a number", options.join(" "))),
        },
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
