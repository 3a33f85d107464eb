//! Hill climbing for bodies that take ever more memory or core time of what they may, as a maker
//! of bombs would search: in each encoding, each way of sending it, with a known key and without.
//!
//! Memory is counted exactly and judged by its bound. Core time is judged with a wide factor, which
//! finds work that grows faster than the body and says nothing of the machine; and with a small one
//! if `MILLRACE_FUZZ_TIME` is set, as in `make torture-log`, which builds with optimisations.

use crate::short::{corpus, runs};
use millrace_fuzz::{Cost, Mutator, cost_of, time_of};
use std::collections::{BTreeMap, BTreeSet};

/// Divisor of the number of runs: an input that decodes to megabytes takes its time.
const RUNS_SHARE: u64 = 200;
/// Divisor of the number of timed runs, each of which runs several times.
const TIMED_RUNS_SHARE: u64 = 2_000;
/// Factor on the time bound in an optimised build, for machines that are slower than those which
/// the bounds were set on. `make bench-check` holds the bounds in instructions, without a factor.
const SLACK: u64 = 6;
/// Factor on the time bound in any build: one without optimisations checks each sum and each index
/// and inlines little, and other work on the machine takes the processor's caches.
const SLACK_UNOPTIMIZED: u64 = 50;
/// Parts of a request that carry a text.
const CARRIERS: usize = 9;
/// Bytes of an input that are printed.
const SHOWN_BYTES: usize = 200;

/// A quantity that the search maximises, and its bound.
struct Goal {
    name: &'static str,
    unit: &'static str,
    cost: fn(&[u8]) -> Option<Cost>,
    taken: fn(&Cost) -> u64,
    allowed: fn(&Cost) -> u64,
    /// Thousandths of what is allowed.
    thousandths: fn(&Cost) -> u64,
    /// Factor on what is allowed.
    slack: u64,
}

/// Way and encoding in which a body is sent, and whether its key is known.
type RequestKind = ([&'static str; 2], bool);

/// Costliest bodies by how they are sent and whether their key is known.
#[derive(Default)]
struct CostliestBodies(BTreeMap<RequestKind, (Cost, Vec<u8>)>);

impl CostliestBodies {
    /// Keeps a body that costs more than those that are sent alike; returns true if it is.
    fn keep(&mut self, cost: Cost, input: &[u8], thousandths: fn(&Cost) -> u64) -> bool {
        let kind = (cost.way, cost.is_key_known);
        let best = self.0.get(&kind);
        let is_costlier = best.is_none_or(|(best, _)| thousandths(&cost) > thousandths(best));
        if is_costlier {
            self.0.insert(kind, (cost, input.to_vec()));
        }
        is_costlier
    }
}

/// Searches from the corpus by random changes, keeping each input that costs more than the best of
/// those that are sent alike.
fn climb(goal: &Goal, runs: u64) {
    let known = corpus("cost");
    let mut costliest = CostliestBodies::default();
    let mut mutator = Mutator::new(known.clone(), 7);
    let changed = (0..runs).map(|_| None);
    for input in known.into_iter().map(Some).chain(changed) {
        let is_known = input.is_some();
        let input = input.unwrap_or_else(|| mutator.input());
        let Some(cost) = (goal.cost)(&input) else {
            continue;
        };
        assert_within_bound(goal, &cost, &input);
        if costliest.keep(cost, &input, goal.thousandths) && !is_known {
            mutator.keep(input);
        }
    }
    print(goal, &costliest);
}

fn assert_within_bound(goal: &Goal, cost: &Cost, input: &[u8]) {
    let (taken, allowed) = ((goal.taken)(cost), (goal.allowed)(cost));
    assert!(
        taken <= allowed * goal.slack,
        "{taken} {} are taken, {} times {allowed} are allowed: {cost:?}, {:?}",
        goal.unit,
        goal.slack,
        input.escape_ascii().to_string()
    );
}

/// Prints the costliest body of each kind, with the input that makes it again.
fn print(goal: &Goal, costliest: &CostliestBodies) {
    println!("{} of each kind of body at the highest:", goal.name);
    for (([carrier, encoding], is_key_known), (cost, input)) in &costliest.0 {
        let key = if *is_key_known { "known" } else { "unknown" };
        let each = (goal.taken)(cost) as f64 / cost.counted_bytes().max(1) as f64;
        let shown = &input[..input.len().min(SHOWN_BYTES)];
        println!(
            "{carrier} {encoding}, key {key}: {} thousandths, {each:.1} {} a byte, {} sent: {:?}",
            (goal.thousandths)(cost),
            goal.unit,
            cost.sent_bytes,
            shown.escape_ascii().to_string()
        );
    }
    let carriers: BTreeSet<_> = costliest
        .0
        .keys()
        .map(|([carrier, _], _)| carrier)
        .collect();
    assert_eq!(carriers.len(), CARRIERS, "{carriers:?}");
}

#[test]
fn hill_climbing_finds_no_body_over_its_memory_bound() {
    let goal = Goal {
        name: "memory",
        unit: "bytes",
        cost: cost_of,
        taken: |cost| cost.allocated_bytes,
        allowed: Cost::allowed_bytes,
        thousandths: Cost::thousandths_of_memory,
        slack: 1,
    };
    climb(&goal, runs() / RUNS_SHARE);
}

#[test]
fn hill_climbing_finds_no_body_over_its_time_bound() {
    let is_optimized = std::env::var_os("MILLRACE_FUZZ_TIME").is_some();
    let goal = Goal {
        name: "core time",
        unit: "ns",
        cost: time_of,
        taken: |cost| cost.nanoseconds,
        allowed: Cost::allowed_nanoseconds,
        thousandths: Cost::thousandths_of_time,
        slack: match is_optimized {
            true => SLACK,
            false => SLACK_UNOPTIMIZED,
        },
    };
    climb(&goal, runs() / TIMED_RUNS_SHARE);
}
