//! Concurrency tests of the write path in a great many thread schedules: the shipped code on
//! shuttle's threads and a disk in memory. A failure is printed with its schedule, which
//! `shuttle::replay` runs again.
//!
//! `MILLRACE_SCHEDULES` sets the number of schedules of each test, as `make torture` does.

mod flush_barrier;
mod full_disk;
mod import_count;
mod order;
mod test_env;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Default number of schedules of a test: enough for most mistakes. `make torture` finds the rare
/// ones.
const SCHEDULES: usize = 500;
/// Priority changes of the PCT scheduler: most races need two.
const PCT_DEPTH: usize = 3;
const STACK_BYTES: usize = 256 << 10;

#[expect(clippy::disallowed_methods, reason = "a test's own setting")]
fn schedules() -> usize {
    let text = std::env::var("MILLRACE_SCHEDULES").ok();
    text.map_or(SCHEDULES, |text| text.parse().unwrap())
}

/// Runs a test in many schedules: half of them random, half of them with few switches between
/// threads.
fn try_orders(test: impl Fn() + Send + Sync + Copy + 'static) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config
    };
    let half = schedules() / 2;
    Runner::new(RandomScheduler::new(half), config()).run(test);
    Runner::new(PctScheduler::new(PCT_DEPTH, half), config()).run(test);
}
