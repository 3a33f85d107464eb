//! The smallest time of many, for machines that are not quiet: a disturbed run is only ever
//! slower. With the argument `once`, a hundred parses and nothing else, for callgrind.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that cannot run must stop"
)]

use millrace_benches::requests::{WORKLOADS, Workload};
use millrace_parse::{Facts, KeyLookup, Limits, Parser, Project, Protocol};
use millrace_rows::{Micros, TeamId};
use simd_json::{Buffers, INPUT_PADDING, Tape};
use std::hint::black_box;
use std::time::{Duration, Instant};
use uuid::Uuid;

const MEASURE_FOR: Duration = Duration::from_secs(1);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("once") {
        let mut parse = parse_of(WORKLOADS[0].body(false));
        (0..100).for_each(|_| parse());
        return;
    }
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
    let facts = Facts {
        received_at: Micros(1_795_189_091_100_000),
        request_id: Uuid::from_u128(0x0191_f99b_0000_7000_8000_0000_0000_0001),
        engage: false,
        sent_at_query: None,
        historical_query: false,
        strict: false,
        dry_run: false,
        client_ip: Some([192, 0, 2, 1].into()),
        protocol: Protocol::V0,
        limits: Limits::default(),
    };
    let project = Project {
        team_id: TeamId(1),
        anonymize_ips: false,
        ingested_event: true,
    };
    let mut parser = Parser::default();
    move || {
        let parsed = parser
            .parse(black_box(&body), &facts, &mut |_| KeyLookup::Found(project))
            .unwrap();
        parser.recycle(black_box(parsed.batch));
    }
}

/// With depth 0 simd-json stops after its first stage.
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
