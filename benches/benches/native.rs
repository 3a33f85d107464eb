//! Rows to a native block, as the shipper sends it to ClickHouse.
//!
//! Beside it: a copy of the rows, and LZ4 of the rows and of the block, by the log's compressor.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot run must stop"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millrace_benches::native::{shipped_rows, write_block};
use millrace_benches::requests::{SHIPPED, Workload};
use millrace_blocks::Compressor;
use millrace_native::NativeBlock;
use millrace_rows::Table;
use std::hint::black_box;

/// Rows without properties beside those of the usual size.
const SMALL: Workload = Workload {
    name: "136B_x10000",
    event_bytes: 136,
    properties: 0,
    ..SHIPPED
};

fn native(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("native");
    for workload in [SHIPPED, SMALL] {
        let (name, rows) = (workload.name, shipped_rows(workload).unwrap());
        group.throughput(Throughput::Elements(workload.events as u64));
        let target = Table::Events.insert_target();
        group.bench_function(format!("sorted/{name}"), |bencher| {
            bencher.iter(|| NativeBlock::of(target, black_box(rows.as_slice())).unwrap());
        });
        group.bench_function(format!("block/{name}"), |bencher| {
            bencher.iter(|| write_block(&rows).unwrap());
        });
        group.bench_function(format!("memcpy/{name}"), |bencher| {
            let mut out = Vec::new();
            bencher.iter(|| {
                out.clear();
                out.extend_from_slice(black_box(&rows));
                black_box(out.len())
            });
        });
        let block = NativeBlock::of(target, rows.as_slice()).unwrap();
        let pieces: Vec<Vec<u8>> = (0..).map_while(|nth| block.piece(nth)).collect();
        let block = pieces.concat();
        for (what, bytes) in [("lz4_rows", &rows), ("lz4_block", &block)] {
            let (mut compressor, mut out) = (Compressor::new(), Vec::new());
            group.bench_function(format!("{what}/{name}"), |bencher| {
                bencher.iter(|| {
                    out.clear();
                    compressor.compress_into(black_box(bytes), &mut out);
                    black_box(out.len())
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, native);
criterion_main!(benches);
