//! The parser beside its yardsticks, on the same bodies in the same run.
//!
//! `tape` is simd-json's whole parse with all buffers reused: what a design that walks a tape
//! could reach at most, before it has validated or stored anything. `memcpy` is one copy of the
//! body. The others are what one would reach for first.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a bench that cannot run must stop"
)]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use millrace_benches::requests::WORKLOADS;
use millrace_parse::{Facts, KeyLookup, Limits, Parser, Project, Protocol};
use millrace_rows::{Micros, TeamId};
use serde::Deserialize;
use serde_json::value::RawValue;
use simd_json::{Buffers, Tape};
use std::borrow::Cow;
use std::hint::black_box;
use uuid::Uuid;

/// A batch as one would declare it for serde, properties kept as text.
#[derive(Deserialize)]
#[allow(dead_code, reason = "what is measured is reading the fields")]
struct RawBatch<'a> {
    api_key: &'a str,
    #[serde(borrow)]
    batch: Vec<RawEvent<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "what is measured is reading the fields")]
struct RawEvent<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    distinct_id: Cow<'a, str>,
    timestamp: &'a str,
    #[serde(default)]
    uuid: Option<&'a str>,
    #[serde(borrow)]
    properties: &'a RawValue,
}

fn facts() -> Facts<'static> {
    Facts {
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
    }
}

fn millrace(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, body: &[u8]) {
    let mut parser = Parser::default();
    let body = body.to_vec();
    let facts = facts();
    let project = Project {
        team_id: TeamId(1),
        anonymize_ips: false,
        ingested_event: true,
    };
    group.bench_function(format!("millrace/{name}"), |bencher| {
        bencher.iter(|| {
            let parsed = parser
                .parse(black_box(&body), &facts, &mut |_| KeyLookup::Found(project))
                .unwrap();
            assert_eq!(parsed.report.rejected_count, 0);
            parser.recycle(black_box(parsed.batch));
        });
    });
}

fn yardsticks(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, body: &[u8]) {
    let mut copy = Vec::with_capacity(body.len() + simd_json::INPUT_PADDING);
    group.bench_function(format!("memcpy/{name}"), |bencher| {
        bencher.iter(|| {
            copy.clear();
            copy.extend_from_slice(black_box(body));
            black_box(copy.len())
        });
    });
    let mut buffers = Buffers::new(body.len());
    let mut spare = Tape(Vec::new());
    let mut padded = body.to_vec();
    padded.resize(body.len() + simd_json::INPUT_PADDING, b' ');
    group.bench_function(format!("tape/{name}"), |bencher| {
        bencher.iter(|| {
            let mut tape = std::mem::replace(&mut spare, Tape(Vec::new())).reset();
            simd_json::fill_tape_padded(&mut padded, body.len(), &mut buffers, &mut tape).unwrap();
            spare = black_box(tape).reset();
        });
    });
    let mut stage_one = Buffers::with_max_depth(body.len(), 0);
    group.bench_function(format!("index/{name}"), |bencher| {
        bencher.iter(|| {
            let mut tape = std::mem::replace(&mut spare, Tape(Vec::new())).reset();
            let refused =
                simd_json::fill_tape_padded(&mut padded, body.len(), &mut stage_one, &mut tape);
            assert!(refused.is_err());
            spare = tape.reset();
            black_box(stage_one.structural_indexes().len())
        });
    });
}

fn peers(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, body: &[u8]) {
    group.bench_function(format!("serde_json_value/{name}"), |bencher| {
        bencher.iter(|| serde_json::from_slice::<serde_json::Value>(black_box(body)).unwrap());
    });
    group.bench_function(format!("serde_json_raw/{name}"), |bencher| {
        bencher.iter(|| {
            let batch: RawBatch<'_> = serde_json::from_slice(black_box(body)).unwrap();
            batch.batch.len()
        });
    });
    group.bench_function(format!("sonic_value/{name}"), |bencher| {
        bencher.iter(|| sonic_rs::from_slice::<sonic_rs::Value>(black_box(body)).unwrap());
    });
    group.bench_function(format!("sonic_lazy/{name}"), |bencher| {
        bencher.iter(|| {
            let batch: LazyBatch<'_> = sonic_rs::from_slice(black_box(body)).unwrap();
            batch.batch.len()
        });
    });
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "what is measured is reading the fields")]
struct LazyBatch<'a> {
    api_key: &'a str,
    #[serde(borrow)]
    batch: Vec<LazyEvent<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "what is measured is reading the fields")]
struct LazyEvent<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    distinct_id: Cow<'a, str>,
    timestamp: &'a str,
    #[serde(default)]
    uuid: Option<&'a str>,
    #[serde(borrow)]
    properties: sonic_rs::LazyValue<'a>,
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for workload in WORKLOADS {
        let body = workload.body(false);
        group.throughput(Throughput::Elements(workload.events as u64));
        yardsticks(&mut group, workload.name, &body);
        millrace(&mut group, workload.name, &body);
        peers(&mut group, workload.name, &body);
        if workload.properties > 0 {
            let escaped = format!("{}_escapes", workload.name);
            millrace(&mut group, &escaped, &workload.body(true));
        }
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
