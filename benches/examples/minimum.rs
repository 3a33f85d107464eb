//! The smallest of many times, for machines that are not quiet: a disturbed run is only ever
//! slower.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that cannot run must stop"
)]

use millrace_benches::hot_path::Parsing;
use millrace_benches::requests::{WORKLOADS, Workload};
use simd_json::{Buffers, INPUT_PADDING, Tape};
use std::hint::black_box;
use std::time::{Duration, Instant};

const MEASURE_FOR: Duration = Duration::from_secs(1);

fn main() {
    println!("millions of events a second      ours   tape  index   copy   ours/tape");
    for workload in WORKLOADS {
        for escapes in [false, true] {
            if !escapes || workload.properties > 0 {
                report(workload, escapes);
            }
        }
    }
}

fn report(workload: Workload, escapes: bool) {
    let body = workload.body(escapes);
    let plain = workload.body(false);
    let ours = minimum(parse_of(body.clone()));
    let tape = minimum(simd_json_of(&plain, 1_024));
    let index = minimum(simd_json_of(&plain, 0));
    let mut copy = Vec::new();
    let copying = minimum(|| {
        copy.clear();
        copy.extend_from_slice(black_box(&body));
    });
    let rate = |time: Duration| workload.events as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{:12}{:18}{:7.2}{:7.2}{:7.2}{:7.1}{:12.2}",
        workload.name,
        if escapes { " with escapes" } else { "" },
        rate(ours),
        rate(tape),
        rate(index),
        rate(copying),
        tape.as_secs_f64() / ours.as_secs_f64()
    );
}

fn minimum(mut run: impl FnMut()) -> Duration {
    let start = Instant::now();
    let mut least = MEASURE_FOR;
    while start.elapsed() < MEASURE_FOR {
        let before = Instant::now();
        run();
        least = least.min(before.elapsed());
    }
    least
}

fn parse_of(body: Vec<u8>) -> impl FnMut() {
    let mut parsing = Parsing::of(body);
    move || parsing.once().unwrap()
}

/// A parse by simd-json; with depth 0 it stops after its first stage.
fn simd_json_of(body: &[u8], depth_max: usize) -> impl FnMut() {
    let len = body.len();
    let mut padded = body.to_vec();
    padded.resize(len + INPUT_PADDING, b' ');
    let mut buffers = Buffers::with_max_depth(len, depth_max);
    let mut spare = Tape(Vec::new());
    move || {
        let mut tape = std::mem::replace(&mut spare, Tape(Vec::new())).reset();
        let _ = simd_json::fill_tape_padded(&mut padded, len, &mut buffers, &mut tape);
        spare = black_box(tape).reset();
    }
}
