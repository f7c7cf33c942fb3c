//! One seed from beginning to end, with whatever stops it caught.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::plan::Options;
use crate::world::{Counts, World};
use crate::{Check, Violation};

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// Whether all was well.
    pub check: Check,
    /// The hash of the trace.
    pub digest: u64,
    /// Events in it.
    pub events: u64,
    /// What happened.
    pub counts: Counts,
    /// The last lines of the trace.
    pub lines: Vec<String>,
    /// What the seed stands for.
    pub plan: String,
}

/// Runs a seed.
pub fn run(options: &Options) -> Outcome {
    let mut world = World::new(options);
    let check = catch_unwind(AssertUnwindSafe(|| world.run()));
    let check = check.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation(format!("panicked: {}", text.unwrap_or_default())))
    });
    let outcome = Outcome {
        check,
        digest: world.trace.digest(),
        events: world.trace.events(),
        counts: world.counts,
        lines: world.trace.lines().map(str::to_owned).collect(),
        plan: format!("{:?}", world.plan()),
    };
    // What a panic left half done may panic again when it is dropped.
    if outcome.check.is_err() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(world)));
    }
    outcome
}
