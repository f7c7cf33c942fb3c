//! The one binary: commands, their flags, how they end.

mod args;
mod backup;
mod connect;
mod cursors;
mod demo;
mod explain;
mod fail;
mod inspect;
mod jsonl;
mod progress;
mod publish;
mod serve;
mod subscribe;
mod topics;

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};
use fail::{Done, Failure};

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}

fn run(verb: Verb) -> Done {
    match verb {
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::DemoServer { data, segment_bytes } => serve::run_for_demo(data, segment_bytes),
        Verb::Inspect(arguments) => inspect::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Pub(arguments) => publish::run(&arguments),
        Verb::Sub(arguments) => subscribe::run(&arguments),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Topics(arguments) => topics::topics(&arguments),
        Verb::Backup(arguments) => backup::run(&arguments),
        Verb::Cursors(arguments) => cursors::run(&arguments),
        Verb::Publishers(arguments) => topics::publishers(&arguments),
        Verb::Lab(arguments) => {
            let options =
                arioso_lab::LabOptions::try_from(arguments).map_err(|error| Failure::Use(error.to_string()))?;
            arioso_lab::run(options, &mut io::stdout().lock()).map_err(Failure::new)
        }
        Verb::Bench(bench) => bench.run().map_err(bench_failure),
        Verb::Completions { shell } => {
            clap_complete::generate(shell, &mut args::command(), "arioso", &mut io::stdout());
            Ok(())
        }
        Verb::Man { out: None } => Ok(clap_mangen::Man::new(args::command()).render(&mut io::stdout())?),
        Verb::Man { out: Some(dir) } => manual(&dir),
    }
}

fn bench_failure(error: arioso_lab::bench::Error) -> Failure {
    match error {
        arioso_lab::bench::Error::Use(text) => Failure::Use(text),
        error => Failure::new(error),
    }
}

/// A page for the command and for each of its verbs.
fn manual(dir: &std::path::Path) -> Done {
    let wrong = |error: io::Error| Failure::new(format!("{}: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(wrong)?;
    let command = args::command();
    let mut pages = vec![("arioso.1".to_string(), command.clone())];
    for verb in command.get_subcommands() {
        let name = format!("arioso-{}", verb.get_name());
        let title: &'static str = Box::leak(name.clone().into_boxed_str());
        pages.push((format!("{name}.1"), verb.clone().name(title)));
    }
    for (file, command) in pages {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        fs::write(dir.join(file), page).map_err(wrong)?;
    }
    writeln!(io::stdout(), "{}", dir.display())?;
    Ok(())
}
