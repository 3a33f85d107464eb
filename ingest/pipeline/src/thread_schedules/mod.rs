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

use millrace_rows::testing::number_from_env;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Default number of schedules of a test: enough for most mistakes. `make torture` finds the rare
/// ones.
const SCHEDULES: usize = 500;
/// Priority changes of the PCT scheduler: most races need two.
const PCT_DEPTH: usize = 3;
const STACK_BYTES: usize = 256 << 10;

/// Runs a test in many schedules: half of them random, half of them with few switches between
/// threads.
fn try_orders(test: impl Fn() + Send + Sync + Copy + 'static) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config
    };
    let half = number_from_env("MILLRACE_SCHEDULES", SCHEDULES) / 2;
    Runner::new(RandomScheduler::new(half), config()).run(test);
    Runner::new(PctScheduler::new(PCT_DEPTH, half), config()).run(test);
}
