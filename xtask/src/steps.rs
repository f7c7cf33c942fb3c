//! The steps of the check, each a command that is shown before it runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::{java, provision, tidy};

/// Done, or what went wrong.
pub type Done = Result<(), String>;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| ".".into(), Path::to_path_buf)
}

/// Runs a command in the repository, showing it and how long it took.
pub fn run(program: &str, arguments: &[&str], variables: &[(&str, String)]) -> Done {
    let shown = format!("{program} {}", arguments.join(" "));
    println!("xtask: {shown}");
    let start = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(root())
        .status()
        .map_err(|error| format!("{shown}: can't start: {error}"))?;
    println!("xtask: {shown}: {:.0} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

fn cargo(arguments: &[&str]) -> Done {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], variables: &[(&str, String)]) -> Done {
    run(&env::var("CARGO").unwrap_or_else(|_| "cargo".into()), arguments, variables)
}

/// Everything.
pub fn ci() -> Done {
    if env::var_os("CI").is_some() {
        browser()?; // elsewhere the test of the map page says what it needs, and is left out
    }
    provision::postgres()?;
    tidy()?;
    lint()?;
    test()?;
    sim()?;
    demo()?;
    // Behind what builds the release libraries they need.
    java::artefacts()
}

/// Rules that the compiler does not hold.
pub fn tidy() -> Done {
    let wrong = tidy::check(&root())?;
    for line in &wrong {
        eprintln!("{line}");
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("tidy: {} things to mend, named above", wrong.len())) }
}

/// The browser in which the map page is tested, from the system's package manager where it is missing.
pub fn browser() -> Done {
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    if ["chromium", "chromium-browser", "google-chrome"].into_iter().any(there) {
        return Ok(());
    }
    run("apt-get", &["update"], &[])?;
    run("apt-get", &["install", "-y", "--no-install-recommends", "chromium"], &[])
}

/// Formatting and lints.
pub fn lint() -> Done {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Every test.
pub fn test() -> Done {
    cargo(&["test", "--workspace"])
}

/// The simulator over its seeds.
pub fn sim() -> Done {
    cargo(&["run", "--release", "-p", "arioso-sim", "--", "--seeds", "200"])
}

/// The demo, on this repository's own sources.
pub fn demo() -> Done {
    cargo(&["run", "--release", "--", "demo", "--tree", "."])
}

/// How often a server is killed, and what decides when.
pub struct CrashOptions {
    kills: u64,
    seed: u64,
}

impl CrashOptions {
    /// From pairs of flag and number.
    pub fn read(mut options: &[&str]) -> Option<CrashOptions> {
        let mut read = CrashOptions { kills: 20, seed: 1 };
        while let [flag, number, rest @ ..] = options {
            let number = number.parse().ok()?;
            match *flag {
                "--kills" => read.kills = number,
                "--seed" => read.seed = number,
                _ => return None,
            }
            options = rest;
        }
        options.is_empty().then_some(read)
    }
}

/// A real server killed under load, release build.
pub fn crash(options: CrashOptions) -> Done {
    let CrashOptions { kills, seed } = options;
    let variables = [("ARIOSO_KILLS", kills.to_string()), ("ARIOSO_SEED", seed.to_string())];
    let test = ["test", "--release", "-p", "arioso-cli", "--test", "cli", "crash::", "--", "--nocapture"];
    cargo_with(&test, &variables)
}
