//! The same workload again and again, each time with the machine stopping at the next sync: whatever was promised at that
//! moment must be there afterwards, wherever in a write, a seal, a checkpoint or a start it was.

use crate::plan::Options;
use crate::run::{Outcome, run};

/// Syncs of a run: far more than any has.
const SYNCS_MAX: u64 = 100_000;

/// What became of all the runs.
#[derive(Debug)]
pub struct Swept {
    /// Syncs at which the machine stopped.
    pub syncs: u64,
    /// The first that went wrong.
    pub failed: Option<(u64, Outcome)>,
}

/// Lets the machine stop at each sync of a workload in turn.
pub fn sweep(options: &Options) -> Swept {
    for k in 1..=SYNCS_MAX {
        let outcome = run(&Options { crash_at_sync: Some(k), ..options.clone() });
        if outcome.check.is_err() {
            return Swept { syncs: k, failed: Some((k, outcome)) };
        }
        // Every run ends with one power loss; without another the sync was never reached.
        if outcome.counts.crashes == 1 {
            return Swept { syncs: k - 1, failed: None };
        }
    }
    panic!("a run has more than {SYNCS_MAX} syncs");
}
