//! The parser beside its baselines, on the same bodies in the same run.
//!
//! `tape` is simd-json's whole parse with all buffers reused: the upper limit of a design that
//! walks a tape, before it has validated or stored anything. `memcpy` is one copy of the body,
//! `lz4` one compression of it. The others are the usual choices of a Rust program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a bench that cannot run must stop"
)]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use millrace_benches::hot_path::Parsing;
use millrace_benches::requests::WORKLOADS;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use simd_json::{Buffers, Tape};
use std::borrow::Cow;
use std::hint::black_box;
use uuid::Uuid;

/// A batch declared for serde, with properties kept as text.
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

fn millrace(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, body: &[u8]) {
    let mut parsing = Parsing::of(body.to_vec());
    group.bench_function(format!("millrace/{name}"), |bencher| {
        bencher.iter(|| parsing.once().unwrap());
    });
}

fn baselines(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, body: &[u8]) {
    let mut copy = Vec::with_capacity(body.len() + simd_json::INPUT_PADDING);
    group.bench_function(format!("memcpy/{name}"), |bencher| {
        bencher.iter(|| {
            copy.clear();
            copy.extend_from_slice(black_box(body));
            black_box(copy.len())
        });
    });
    let mut compressed = vec![0; get_maximum_output_size(body.len())];
    let mut table = CompressTable::large();
    group.bench_function(format!("lz4/{name}"), |bencher| {
        bencher.iter(|| {
            compress_into_with_table(black_box(body), &mut compressed, &mut table).unwrap()
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
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for workload in WORKLOADS {
        let body = workload.body(false);
        group.throughput(Throughput::Elements(workload.events as u64));
        baselines(&mut group, workload.name, &body);
        millrace(&mut group, workload.name, &body);
        peers(&mut group, workload.name, &body);
        if workload.properties > 0 {
            let escaped = format!("{}_escapes", workload.name);
            millrace(&mut group, &escaped, &workload.body(true));
        }
    }
    group.finish();
}

/// Measures validation alone. Our parser validates while it reads the fields, so its figure is
/// that of `parse`.
fn validate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("validate");
    for workload in WORKLOADS {
        let (name, body) = (workload.name, workload.body(false));
        group.throughput(Throughput::Elements(workload.events as u64));
        millrace(&mut group, name, &body);
        group.bench_function(format!("utf8/{name}"), |bencher| {
            bencher.iter(|| simdutf8::basic::from_utf8(black_box(&body)).unwrap().len());
        });
        group.bench_function(format!("serde_json_syntax/{name}"), |bencher| {
            bencher.iter(|| serde_json::from_slice::<IgnoredAny>(black_box(&body)).unwrap());
        });
        group.bench_function(format!("serde_json_typed/{name}"), |bencher| {
            bencher.iter(|| typed_and_checked(black_box(&body)));
        });
    }
    group.finish();
}

/// The plain implementation: declared types, then a check of each event.
fn typed_and_checked(body: &[u8]) -> usize {
    let batch: RawBatch<'_> = serde_json::from_slice(body).unwrap();
    let is_sound = |event: &&RawEvent<'_>| {
        !event.event.is_empty()
            && (1..=200).contains(&event.distinct_id.chars().count())
            && event.properties.get().starts_with('{')
            && event.uuid.is_none_or(|text| text.parse::<Uuid>().is_ok())
    };
    batch.batch.iter().filter(is_sound).count()
}

criterion_group!(benches, parse, validate);
criterion_main!(benches);
