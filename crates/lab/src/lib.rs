//! Workloads and measurements.

pub mod merge_bench;
pub mod tip_bench;

use std::time::Duration;

/// What this thread has used of a processor: others on the machine do not count.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
