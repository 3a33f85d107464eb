//! Bodies that take ever more memory, or time of a core, for each byte sent, as somebody who makes bombs would look for
//! them.

use crate::short::{corpus, runs};
use millrace_fuzz::{Cost, Mutator, cost_of, time_of};

/// One in so many inputs of other targets: what stands for megabytes takes its time.
const RUNS_SHARE: u64 = 200;
/// The same of what is timed, and several times.
const TIMED_RUNS_SHARE: u64 = 2_000;
/// How many times longer than a release build a body may take in a test's build, which checks each sum and each index and
/// puts nothing into its callers.
const SLACK: u64 = 25;
/// The same where it is optimized all the same: room for machines that are slower than those which bounds were set on.
const SLACK_OPTIMIZED: u64 = 6;

/// Climbs from the corpus for so many steps; the inputs that were found on the way up.
fn climb(
    runs: u64,
    cost: impl Fn(&[u8]) -> Option<Cost>,
    height: impl Fn(&Cost) -> u64,
    check: impl Fn(&Cost, &[u8]),
) {
    let known = corpus("cost");
    let mut best = 0;
    for input in &known {
        if let Some(cost) = cost(input) {
            check(&cost, input);
            best = best.max(height(&cost));
        }
    }
    let mut mutator = Mutator::new(known, 7);
    let mut steps = 0;
    for _ in 0..runs {
        let input = mutator.input();
        let Some(cost) = cost(&input) else {
            continue;
        };
        check(&cost, &input);
        if height(&cost) > best {
            best = height(&cost);
            steps += 1;
            mutator.keep(input);
        }
    }
    println!("{best} at the highest, after {steps} steps");
}

#[test]
fn no_climb_finds_a_body_that_takes_more_memory_than_it_may() {
    let check = |cost: &Cost, input: &[u8]| {
        assert!(
            cost.allocated_bytes <= cost.allowed_bytes(),
            "{cost:?}, {} bytes are allowed: {:?}",
            cost.allowed_bytes(),
            input.escape_ascii().to_string()
        );
    };
    climb(runs() / RUNS_SHARE, cost_of, Cost::per_byte_sent, check);
}

#[test]
fn no_climb_finds_a_body_that_takes_more_time_than_it_may() {
    let slack = slack();
    let check = |cost: &Cost, input: &[u8]| {
        assert!(
            cost.nanoseconds <= cost.allowed_nanoseconds() * slack,
            "{cost:?}, {} times {slack} ns are allowed: {:?}",
            cost.allowed_nanoseconds(),
            input.escape_ascii().to_string()
        );
    };
    climb(
        runs() / TIMED_RUNS_SHARE,
        time_of,
        Cost::thousandths_of_time,
        check,
    );
}

/// How many times longer than a release build this one may take, as it was compiled.
fn slack() -> u64 {
    match option_env!("CARGO_PROFILE_DEV_OPT_LEVEL") {
        Some("2" | "3") => SLACK_OPTIMIZED,
        _ => SLACK,
    }
}
