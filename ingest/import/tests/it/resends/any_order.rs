//! Loads, corrections and resends in any order, with kills.

use super::TestEnv;
use millrace_rows::testing::number_from_env;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::Path;

/// Step of a random run: a user's action with its fault.
#[derive(Clone, Debug)]
enum Step {
    /// Loads a file, until the end or the fault.
    Load(u8, Ending),
    /// Mends some of the rejects where they are.
    Mend(u64),
    /// Copies the file of rejects.
    Copy,
    /// Mends some of the copy.
    MendCopy(u64),
    /// Sends the rejects again, or the copy.
    Resend(bool, Ending),
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Whole,
    Stopped(u32),
    Killed(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let ending = || {
        prop_oneof![
            2 => Just(Ending::Whole),
            1 => (0_u32..6).prop_map(Ending::Stopped),
            2 => (0_u32..6).prop_map(Ending::Killed),
        ]
    };
    prop_oneof![
        2 => (0_u8..2, ending()).prop_map(|(file, ending)| Step::Load(file, ending)),
        2 => (2_u64..5).prop_map(Step::Mend),
        1 => Just(Step::Copy),
        1 => (2_u64..5).prop_map(Step::MendCopy),
        3 => (any::<bool>(), ending()).prop_map(|(own, ending)| Step::Resend(own, ending)),
    ]
}

#[test]
fn counts_are_right_after_loads_mends_and_resends_in_any_order() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: number_from_env("MILLRACE_RESEND_CASES", 12),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let steps = proptest::collection::vec(step(), 1..9);
    runner
        .run(&steps, |steps| {
            run_steps(&steps);
            Ok(())
        })
        .unwrap();
}

fn run_steps(steps: &[Step]) {
    let env = TestEnv::start();
    let files = ["a.ndjson", "b.ndjson"];
    env.write(files[0], 0..13);
    env.write(files[1], 13..31);
    let copy = env.path("copy.ndjson");
    let end = |ending: Ending| {
        let mut state = env.state.lock().unwrap();
        match ending {
            Ending::Whole => {}
            Ending::Stopped(after) => state.requests_left = Some(after),
            Ending::Killed(after) => state.killed_in = Some(after),
        }
    };
    for step in steps {
        match step {
            Step::Load(file, ending) => {
                end(*ending);
                env.run(&[files[usize::from(*file)]], None).unwrap();
            }
            Step::Mend(of) => {
                if whole(&env.rejects()) {
                    env.mend(&env.rejects(), |number| number % of == 0);
                }
            }
            Step::MendCopy(of) => env.mend(&copy, |number| number % of == 0),
            Step::Copy => {
                if whole(&env.rejects()) {
                    std::fs::copy(env.rejects(), &copy).unwrap();
                }
            }
            Step::Resend(own, ending) => {
                let from = if *own { env.rejects() } else { copy.clone() };
                if from.exists() {
                    end(*ending);
                    env.run(&[], Some(&from)).unwrap();
                }
            }
        }
    }
    // In the end everything is loaded and resent.
    env.run(&files, None).unwrap();
    env.run(&[], Some(&env.rejects())).unwrap();
    env.check(31, "all loaded");
    env.mend(&env.rejects(), |_| true);
    env.run(&[], Some(&env.rejects())).unwrap();
    env.check(31, "all mended");
    assert_eq!(env.state.lock().unwrap().stored.len(), 31);
}

/// Returns true if no crash left a torn last line, which nobody would edit or copy.
fn whole(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.is_empty() || bytes.ends_with(b"\n"))
}
