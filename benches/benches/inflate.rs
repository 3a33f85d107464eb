//! Decompression of bodies: the libraries that ingestion uses (`ours`), called as it calls them,
//! beside those it does not use, on the same bodies.
//!
//! `memcpy` is one copy of the decompressed body.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot run must stop"
)]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use millrace_benches::requests::WORKLOADS;
use std::hint::black_box;
use std::io::{Read, Write};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

fn gzip(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, plain: &[u8]) {
    let mut compressor = Compressor::new(CompressionLvl::new(6).unwrap());
    let mut body = vec![0; compressor.gzip_compress_bound(plain.len())];
    let len = compressor.gzip_compress(plain, &mut body).unwrap();
    body.truncate(len);
    let mut out = vec![0; plain.len() + 1];
    let mut decompressor = Decompressor::new();
    group.bench_function(format!("gzip/ours_libdeflater/{name}"), |bencher| {
        bencher.iter(|| {
            decompressor
                .gzip_decompress(black_box(&body), &mut out)
                .unwrap()
        });
    });
    streamed(group, &format!("gzip/flate2/{name}"), plain.len(), || {
        flate2::read::GzDecoder::new(black_box(body.as_slice()))
    });
}

fn zstandard(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, plain: &[u8]) {
    let body = zstd::encode_all(plain, 3).unwrap();
    let mut out = vec![0; plain.len() + 1];
    let mut decoder = Decoder::new().unwrap();
    group.bench_function(format!("zstd/ours_raw/{name}"), |bencher| {
        bencher.iter(|| {
            let mut input = InBuffer::around(black_box(body.as_slice()));
            let mut output = OutBuffer::around(out.as_mut_slice());
            while decoder.run(&mut input, &mut output).unwrap() != 0 {}
            decoder.reinit().unwrap();
            output.pos()
        });
    });
    streamed(group, &format!("zstd/reader/{name}"), plain.len(), || {
        zstd::Decoder::new(black_box(body.as_slice())).unwrap()
    });
}

fn brotli(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, plain: &[u8]) {
    let mut body = Vec::new();
    brotli::CompressorWriter::new(&mut body, 4096, 4, 22)
        .write_all(plain)
        .unwrap();
    streamed(
        group,
        &format!("br/ours_brotli/{name}"),
        plain.len(),
        || brotli::Decompressor::new(black_box(body.as_slice()), 4096),
    );
}

/// Measures a decoder that is created for each body and read to its end, as the decompression
/// layer of a web framework does it.
fn streamed<R: Read>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    plain_bytes: usize,
    decoder: impl Fn() -> R,
) {
    let mut out = Vec::with_capacity(plain_bytes + 1);
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            out.clear();
            decoder().read_to_end(&mut out).unwrap()
        });
    });
    assert_eq!(out.len(), plain_bytes, "{name}");
}

fn inflate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("inflate");
    for workload in WORKLOADS {
        let (name, plain) = (workload.name, workload.body(false));
        group.throughput(Throughput::Elements(workload.events as u64));
        let mut copy = Vec::with_capacity(plain.len());
        group.bench_function(format!("memcpy/{name}"), |bencher| {
            bencher.iter(|| {
                copy.clear();
                copy.extend_from_slice(black_box(&plain));
                black_box(copy.len())
            });
        });
        gzip(&mut group, name, &plain);
        zstandard(&mut group, name, &plain);
        brotli(&mut group, name, &plain);
    }
    group.finish();
}

criterion_group!(benches, inflate);
criterion_main!(benches);
