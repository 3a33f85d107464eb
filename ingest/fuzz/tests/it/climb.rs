//! Hill climbing for bodies that take ever more memory or core time for each byte sent, as a maker
//! of bombs would search.

use crate::short::{corpus, runs};
use millrace_fuzz::{Cost, Mutator, cost_of, time_of};

/// Divisor of the number of runs: an input that decodes to megabytes takes its time.
const RUNS_SHARE: u64 = 200;
/// Divisor of the number of timed runs, each of which runs several times.
const TIMED_RUNS_SHARE: u64 = 2_000;
/// Factor on the time bound in an unoptimised build, which checks each sum and each index and
/// inlines nothing.
const SLACK: u64 = 25;
/// Factor on the time bound in an optimised build, for machines that are slower than those which
/// the bounds were set on.
const SLACK_OPTIMIZED: u64 = 6;

/// Searches from the corpus by random changes, keeping each input that costs more than the best.
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
fn hill_climbing_finds_no_body_over_its_memory_bound() {
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
fn hill_climbing_finds_no_body_over_its_time_bound() {
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

/// Factor on the time bound for the build that runs.
fn slack() -> u64 {
    match option_env!("CARGO_PROFILE_DEV_OPT_LEVEL") {
        Some("2" | "3") => SLACK_OPTIMIZED,
        _ => SLACK,
    }
}
