//! Writing rows to the log: blocks (`frame`), then a file (`append`, with its sync).
//!
//! The log lies in memory (`/dev/shm`): every instruction runs, and the disk's speed is no factor.
//! Beside it: a copy, LZ4 alone, and the bare system calls on a file of the same kind.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot run must stop"
)]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use millrace_benches::hot_path::{Parsing, memory_dir};
use millrace_benches::requests::{WORKLOADS, Workload};
use millrace_blocks::{Compressor, store_into};
use millrace_log::fs::DiskFs;
use millrace_log::{Log, LogOptions, Section, SectionHeader};
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;

const SEGMENT_BYTES: u64 = 64 << 20;

/// A workload's rows and their section header.
fn rows(workload: Workload) -> (SectionHeader, Vec<u8>) {
    let groups = Parsing::of(workload.body(false)).rows().unwrap();
    let group = groups.into_iter().next().unwrap();
    let header = SectionHeader {
        insert_target: group.table.insert_target().to_owned(),
        month: group.month.0,
        rows: group.rows,
        uncompressed_bytes: group.bytes.len() as u64,
        keys: group.keys.iter().map(|key| key.to_bytes()).collect(),
    };
    (header, group.bytes.to_vec())
}

fn frame(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame");
    for workload in WORKLOADS {
        let (name, (_, rows)) = (workload.name, rows(workload));
        group.throughput(Throughput::Elements(workload.events as u64));
        let mut out = Vec::new();
        group.bench_function(format!("stored/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                store_into(black_box(&rows), &mut out);
                black_box(out.len())
            });
        });
        let mut compressor = Compressor::new();
        group.bench_function(format!("compressed/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                compressor.compress_into(black_box(&rows), &mut out);
                black_box(out.len())
            });
        });
        group.bench_function(format!("memcpy/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                out.extend_from_slice(black_box(&rows));
                black_box(out.len())
            });
        });
        let mut table = CompressTable::large();
        let mut compressed = vec![0; get_maximum_output_size(rows.len())];
        group.bench_function(format!("lz4/{name}"), |bencher| {
            bencher.iter(|| {
                compress_into_with_table(black_box(&rows), &mut compressed, &mut table).unwrap()
            });
        });
    }
    group.finish();
}

fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    for workload in WORKLOADS {
        let (name, (header, rows)) = (workload.name, rows(workload));
        group.throughput(Throughput::Elements(workload.events as u64));
        let mut blocks = Vec::new();
        store_into(&rows, &mut blocks);
        millrace(&mut group, name, &header, &blocks);
        bare(&mut group, name, &blocks);
    }
    group.finish();
}

fn millrace(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    header: &SectionHeader,
    blocks: &[u8],
) {
    let dir = tempfile::tempdir_in(memory_dir()).unwrap();
    let options = LogOptions {
        dir: dir.path().to_owned(),
        segment_bytes: SEGMENT_BYTES,
        bytes_max: 8 * SEGMENT_BYTES,
    };
    let (mut log, _) = Log::open(options, Arc::new(DiskFs)).unwrap();
    let handle = log.handle();
    let section = Section { header, blocks };
    let mut unreleased = 0;
    group.bench_function(format!("millrace/{name}"), |bencher| {
        bencher.iter(|| {
            log.append(black_box(&[section])).unwrap();
            let end = log.sync().unwrap();
            unreleased += blocks.len() as u64;
            // As the shipper does; without it the log would fill up.
            if unreleased > 2 * SEGMENT_BYTES {
                handle.release(end).unwrap();
                unreleased = 0;
            }
        });
    });
}

/// Measures a write into a preallocated file, and a sync.
fn bare(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, blocks: &[u8]) {
    let mut file = tempfile::tempfile_in(memory_dir()).unwrap();
    file.set_len(SEGMENT_BYTES).unwrap();
    let mut offset = 0;
    group.bench_function(format!("bare_write/{name}"), |bencher| {
        bencher.iter(|| {
            if offset + blocks.len() as u64 > SEGMENT_BYTES {
                // Free the file's pages: a log writes into new ones, too.
                file.set_len(0).unwrap();
                file.set_len(SEGMENT_BYTES).unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
                offset = 0;
            }
            file.write_all(black_box(blocks)).unwrap();
            file.sync_data().unwrap();
            offset += blocks.len() as u64;
        });
    });
}

criterion_group!(benches, frame, append);
criterion_main!(benches);
