//! scratch
use clap::Parser;
#[derive(Parser)]
enum Cli {
    Merge(arioso_lab::merge_bench::Args),
    Tip(arioso_lab::tip_bench::Args),
}
fn main() {
    match Cli::parse() {
        Cli::Merge(args) => arioso_lab::merge_bench::run(&args, &mut std::io::stdout()).unwrap(),
        Cli::Tip(args) => arioso_lab::tip_bench::run(&args, &mut std::io::stdout()).unwrap(),
    }
}
