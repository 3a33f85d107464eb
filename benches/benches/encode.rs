//! Rows into buffers: the floor under every parser that stores what it reads.

#![allow(missing_docs, reason = "macros of criterion")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millrace_rows::{EventRow, Micros, RejectedRow, TeamId};
use std::hint::black_box;
use uuid::Uuid;

const ROWS: usize = 250;

fn event<'a>(properties: &'a [&'a [u8]]) -> EventRow<'a> {
    EventRow {
        uuid: Uuid::from_u128(0x0191_f99b_b499_70c4_9505_90a4_7f19_f05a),
        event: "$pageview",
        properties,
        timestamp: Micros(1_795_189_091_100_000),
        team_id: TeamId(1),
        distinct_id: "user-00000001",
        created_at: Micros(1_795_189_091_100_000),
        historical_migration: false,
    }
}

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
    let rejected = RejectedRow {
        team_id: TeamId(1),
        received_at: Micros(1_795_189_091_100_000),
        request_id: Uuid::nil(),
        index: 7,
        code: "missing_distinct_id",
        attr: "batch[7].distinct_id",
        detail: "The event does not say whose it is.",
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

criterion_group!(benches, encode);
criterion_main!(benches);
