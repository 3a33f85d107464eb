//! Encoding of rows into buffers: the least that any parser which stores rows must spend.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot run must stop"
)]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use millrace_benches::hot_path::{PROJECT, RECEIVED_AT, event};
use millrace_rows::RejectedRow;
use serde::Serialize;
use std::hint::black_box;
use uuid::Uuid;

const ROWS: usize = 250;

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Elements(ROWS as u64));
    let properties = [b'x'; 800];
    let pieces: [&[u8]; 2] = [b"{\"$ip\":\"192.0.2.1\",", &properties];
    let mut out = Vec::new();
    group.bench_function("event_800B_properties", |bencher| {
        bencher.iter(|| {
            out.clear();
            for _ in 0..ROWS {
                black_box(event(&pieces)).append_to(&mut out);
            }
            black_box(out.len())
        });
    });
    alternatives(&mut group, &out);
    let rejected = RejectedRow {
        team_id: PROJECT.id,
        received_at: RECEIVED_AT,
        request_id: Uuid::nil(),
        index: 7,
        code: "missing_distinct_id",
        attr: "batch[7].distinct_id",
        detail: "The event has no distinct id.",
        raw: &properties,
        historical_migration: false,
    };
    group.bench_function("rejected_800B_raw", |bencher| {
        bencher.iter(|| {
            out.clear();
            for _ in 0..ROWS {
                black_box(rejected).append_to(&mut out);
            }
            black_box(out.len())
        });
    });
    group.finish();
}

/// An event row declared for serde.
#[derive(Serialize)]
struct JsonRow<'a> {
    uuid: Uuid,
    event: &'a str,
    properties: &'a str,
    timestamp: i64,
    team_id: i64,
    distinct_id: &'a str,
    created_at: i64,
    historical_migration: bool,
}

/// Alternatives: the rows as lines of JSON, which ClickHouse takes too; one copy of the encoded
/// rows; one compression of them.
fn alternatives(group: &mut BenchmarkGroup<'_, WallTime>, encoded: &[u8]) {
    let text = "x".repeat(819);
    let row = JsonRow {
        uuid: event(&[]).uuid,
        event: "$pageview",
        properties: &text,
        timestamp: RECEIVED_AT.0,
        team_id: 1,
        distinct_id: "user-00000001",
        created_at: RECEIVED_AT.0,
        historical_migration: false,
    };
    let mut out = Vec::new();
    group.bench_function("serde_json_lines", |bencher| {
        bencher.iter(|| {
            out.clear();
            for _ in 0..ROWS {
                serde_json::to_writer(&mut out, black_box(&row)).unwrap();
                out.push(b'\n');
            }
            black_box(out.len())
        });
    });
    let mut copy = Vec::with_capacity(encoded.len());
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| {
            copy.clear();
            copy.extend_from_slice(black_box(encoded));
            black_box(copy.len())
        });
    });
    let mut compressed = vec![0; get_maximum_output_size(encoded.len())];
    let mut table = CompressTable::large();
    group.bench_function("lz4", |bencher| {
        bencher.iter(|| {
            compress_into_with_table(black_box(encoded), &mut compressed, &mut table).unwrap()
        });
    });
}

criterion_group!(benches, encode);
criterion_main!(benches);
