//! The simulator on the command line.

use std::process::ExitCode;

use arioso_sim::plan::STEPS_DEFAULT;
use arioso_sim::sync_points::sweep;
use arioso_sim::world::Counts;
use arioso_sim::{Options, Plant, run};
use clap::Parser;

/// Runs the whole bus under virtual time, a seed a run, and stops at the first that goes wrong.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Seeds to run.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// This seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Acts of the clients in a run.
    #[arg(long, default_value_t = STEPS_DEFAULT)]
    steps: u64,
    /// Print every event.
    #[arg(long)]
    trace: bool,
    /// Run every seed twice and compare the traces.
    #[arg(long)]
    twice: bool,
    /// Make a mistake on purpose, which is to be found.
    #[arg(long)]
    plant: Option<Plant>,
    /// Let the machine stop at this sync of the disk, and nothing else go wrong.
    #[arg(long, value_name = "K")]
    crash_at_sync: Option<u64>,
    /// Let the machine stop at every sync of the first seed, one run for each.
    #[arg(long)]
    every_sync: bool,
    /// Go on after a seed that goes wrong.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.every_sync {
        return every_sync(&args);
    }
    let seeds = match args.seed {
        Some(seed) => seed..seed + 1,
        None => args.from..args.from + args.seeds,
    };
    let (mut runs, mut failed, mut events) = (0u64, 0u64, 0u64);
    let (mut digest, mut counts) = (0, Counts::default());
    for seed in seeds {
        let options = Options {
            seed,
            steps: args.steps,
            trace: args.trace,
            plant: args.plant,
            crash_at_sync: args.crash_at_sync,
        };
        let mut outcome = run(&options);
        if args.twice && outcome.check.is_ok() {
            let again = run(&options);
            if again.digest != outcome.digest {
                let (one, other) = (outcome.digest, again.digest);
                outcome.check = Err(arioso_sim::Violation(format!("two runs differ: {one:016x} and {other:016x}")));
            }
        }
        runs += 1;
        events += outcome.events;
        counts.add(&outcome.counts);
        digest = arioso_sim::hash(digest, &outcome.digest.to_le_bytes());
        if args.seed.is_some() {
            println!("seed {seed}: {} events, {:016x}, {:?}", outcome.events, outcome.digest, outcome.counts);
        }
        if let Err(arioso_sim::Violation(what)) = &outcome.check {
            failed += 1;
            let plant = args.plant.map(|plant| format!(" --plant {}", name(plant))).unwrap_or_default();
            eprintln!("seed {seed} went wrong: {what}");
            eprintln!("again: cargo run --release -p arioso-sim -- --seed {seed} --steps {}{plant}", args.steps);
            if !args.keep_going {
                eprintln!("{}", outcome.plan);
                outcome.lines.iter().for_each(|line| eprintln!("  {line}"));
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{counts:?}");
    println!("{runs} runs, {events} events, {failed} went wrong, all traces {digest:016x}");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn every_sync(args: &Args) -> ExitCode {
    let seed = args.seed.unwrap_or(args.from);
    let swept = sweep(&Options { steps: args.steps, ..Options::of(seed) });
    match swept.failed {
        None => {
            println!("a crash at each of {} syncs of seed {seed}: all is kept", swept.syncs);
            ExitCode::SUCCESS
        }
        Some((k, outcome)) => {
            eprintln!("a crash at sync {k} of seed {seed}: {:?}", outcome.check);
            eprintln!(
                "again: cargo run --release -p arioso-sim -- --seed {seed} --steps {} --crash-at-sync {k}",
                args.steps
            );
            outcome.lines.iter().for_each(|line| eprintln!("  {line}"));
            ExitCode::FAILURE
        }
    }
}

fn name(plant: Plant) -> String {
    use clap::ValueEnum;
    plant.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
