//! A short run through the same code that libFuzzer runs.

use millrace_fuzz::{Mutator, TARGETS, Target, frame_blocks};
use millrace_rows::testing::number_from_env;
use std::path::Path;

/// Number of changed inputs per target, unless `MILLRACE_FUZZ_RUNS` says otherwise.
const RUNS: u64 = 20_000;

pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Input that a target is running, printed when it panics.
struct Current<'a>(&'a str, Vec<u8>);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "{} finds something in {:?}",
                self.0,
                self.1.escape_ascii().to_string()
            );
        }
    }
}

pub fn runs() -> u64 {
    number_from_env("MILLRACE_FUZZ_RUNS", RUNS)
}

fn run(name: &str, target: Target) {
    let known = corpus(name);
    assert!(!known.is_empty(), "{name} has a corpus");
    for input in &known {
        let current = Current(name, input.clone());
        target(&current.1);
    }
    // An input that decodes to megabytes takes its time.
    let runs = if name == "cost" { runs() / 400 } else { runs() };
    let count = known.len();
    let mut mutator = Mutator::new(known, 1);
    for _ in 0..runs {
        let current = Current(name, mutator.input());
        target(&current.1);
    }
    println!("{name}: {count} inputs of the corpus, {runs} changed ones");
}

/// Defines a test for each target, and the list of their names.
macro_rules! short_runs {
    ($($target:ident: $sentence:ident,)*) => {
        const TESTED: &[&str] = &[$(stringify!($target)),*];

        $(#[test]
        fn $sentence() {
            run(stringify!($target), millrace_fuzz::$target);
        })*
    };
}

short_runs! {
    body: bodies_decode_as_other_libraries_decode_them,
    cost: no_body_takes_more_memory_than_its_bound,
    frame: an_accepted_frame_is_byte_for_byte_what_we_would_write,
    parse: an_accepted_body_is_json_to_serde_json_and_matches_the_model,
    record: mapped_events_are_read_by_the_parser,
    recovery: any_two_segments_open_and_accept_a_further_frame,
    timestamp: timestamps_match_the_calendar,
}

#[test]
fn every_target_has_a_test() {
    assert_eq!(TARGETS.map(|(name, _)| name), TESTED);
}

#[test]
fn frames_of_several_blocks_are_read_and_written() {
    let known = corpus("frame");
    // The first byte chooses the check that the others go through.
    let several = |inputs: &[Vec<u8>], kind: u8| {
        let of_kind = inputs.iter().filter(|input| input[0] % 3 == kind);
        of_kind.filter(|input| frame_blocks(input) > 1).count()
    };
    let (read, written) = (0, 2);
    assert!(several(&known, read) > 0, "none of the corpus is read");
    let mut mutator = Mutator::new(known, 1);
    let inputs = (0..1_000).map(|_| mutator.input());
    let changed: Vec<_> = inputs.filter(|input| !input.is_empty()).collect();
    assert!(several(&changed, written) > 10, "few changed ones make one");
}

#[test]
fn the_corpora_are_of_moderate_size() {
    let bytes: usize = TESTED
        .iter()
        .flat_map(|name| corpus(name))
        .map(|input| input.len())
        .sum();
    assert!(bytes < 500_000, "{bytes} bytes of corpora");
}
