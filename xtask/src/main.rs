//! The whole check of this repository, the same everywhere: `cargo xtask ci`.

mod java;
mod provision;
mod steps;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci      tidy, lint, test, sim, demo, java, voyage-java, in this order; what must pass before a change is sent
  tidy    the arrows between crates, what the core may not use, the length of files
  lint    formatting and clippy, warnings are errors
  test    every test of the workspace
  sim     the simulator, 200 seeds (release build)
  demo    the demo on a small tree (release build)
  browser chromium, in which the map page is tested, by apt-get where it is missing (ci does so if CI is set)
  java    the Maven artefact: its native library, its jars, its tests (JDK and Maven are installed where missing if CI is set)
  java-long   its tests at full length: 10,000 openings, 100 million messages
  java-bench  JMH and the Rust client on the same bus; so many messages are replayed (10000000)
  native  the native library of the Maven artefact, copied into DIR as the jar holds it
  server  the command line, copied into DIR, for the Maven artefact's tests
  voyage-java, voyage-native DIR: the same for the path finder's artefact, io.arioso:voyage
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
        ["browser"] => steps::browser(),
        ["java"] => java::bus(),
        ["java-long"] => java::java_long(),
        ["java-bench"] => java::java_bench("10000000"),
        ["java-bench", messages] => java::java_bench(messages),
        ["server", directory] => java::server(directory),
        ["native", directory] => java::native("arioso-jvm", directory),
        ["voyage-java"] => java::voyage(),
        ["voyage-native", directory] => java::native("arioso-voyage-jvm", directory),
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
