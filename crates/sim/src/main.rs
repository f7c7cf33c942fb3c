//! The simulator on the command line.

use std::process::ExitCode;

use arioso_sim::plan::STEPS_DEFAULT;
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
    /// Go on after a seed that goes wrong.
    #[arg(long)]
    keep_going: bool,
    /// Seeds that are known to go wrong and still open: run and told, but not counted as new.
    #[arg(long, value_delimiter = ',')]
    known: Vec<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seeds = match args.seed {
        Some(seed) => seed..seed + 1,
        None => args.from..args.from + args.seeds,
    };
    let (mut runs, mut failed, mut known, mut events) = (0u64, 0u64, 0u64, 0u64);
    let mut digest = 0;
    for seed in seeds {
        let options = Options { seed, steps: args.steps, trace: args.trace, plant: args.plant };
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
        digest = arioso_sim::hash(digest, &outcome.digest.to_le_bytes());
        if args.seed.is_some() {
            println!("seed {seed}: {} events, {:016x}, {:?}", outcome.events, outcome.digest, outcome.counts);
        }
        if let Err(arioso_sim::Violation(what)) = &outcome.check {
            if args.known.contains(&seed) {
                known += 1;
                eprintln!("seed {seed} goes wrong, as is known: {what}");
                continue;
            }
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
    println!("{runs} runs, {events} events, {failed} went wrong anew, {known} as is known, all traces {digest:016x}");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn name(plant: Plant) -> String {
    use clap::ValueEnum;
    plant.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
