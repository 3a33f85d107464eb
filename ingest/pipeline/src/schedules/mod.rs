//! The way into the log, in a great many orders: the code that is shipped, on shuttle's threads and a disk
//! in memory. Whatever goes wrong is printed with its schedule, which `shuttle::replay` runs again.
//!
//! `MILLRACE_SCHEDULES` says how many orders of each test, as `make torture` does.

mod marks;
mod order;
mod room;
mod stage;
mod tally;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Orders that a test tries unless it is told otherwise.
const SCHEDULES: usize = 2_000;
/// Changes of mind of a scheduler that otherwise lets the same threads go first: most races need two.
const PCT_DEPTH: usize = 3;
const STACK_BYTES: usize = 256 << 10;

#[expect(clippy::disallowed_methods, reason = "a test's own setting")]
fn schedules() -> usize {
    let text = std::env::var("MILLRACE_SCHEDULES").ok();
    text.map_or(SCHEDULES, |text| text.parse().unwrap())
}

/// Tries a test in many orders: half of them any, half of them such as are found by few switches.
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
