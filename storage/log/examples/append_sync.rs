//! Measures the log against the bare disk: appends and syncs groups of 250 kB and prints the
//! throughput, next to plain write + fdatasync of as many bytes into a preallocated file.
//!
//! `cargo run --release -p millrace-log --example append_sync -- <directory> [groups] [bytes]`

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a measurement may fail"
)]

use millrace_blocks::{Compressor, decompress_into_vec, store_into};
use millrace_log::fs::{DiskFs, Fs};
use millrace_log::{Log, LogOptions, Position, Section, SectionHeader};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SEGMENT_BYTES: u64 = 64 << 20;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("a directory"));
    let groups: usize = args.next().map_or(2000, |n| n.parse().unwrap());
    let bytes: usize = args.next().map_or(250_000, |n| n.parse().unwrap());
    let dir = dir.join("append-sync-measurement");
    std::fs::create_dir_all(&dir).unwrap();
    let mut blocks = Vec::new();
    store_into(&noise(bytes), &mut blocks);
    for sync in [true, false] {
        bare(&dir, &blocks, groups, sync);
        log(&dir.join("log"), &blocks, groups, sync);
    }
    codec();
    std::fs::remove_dir_all(&dir).unwrap();
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn report(what: &str, mut times: Vec<Duration>, bytes: usize) {
    let total: Duration = times.iter().sum();
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!(
        "{what:34} {:8.0} MB/s  mean {:.3} ms  p50 {:.3}  p99 {:.3}  max {:.3}",
        (bytes * times.len()) as f64 / total.as_secs_f64() / 1e6,
        total.as_secs_f64() * 1e3 / times.len() as f64,
        at(50),
        at(99),
        at(100),
    );
}

fn bare(dir: &Path, blocks: &[u8], groups: usize, sync: bool) {
    let per_file = (SEGMENT_BYTES as usize / blocks.len()).max(1);
    let mut times = Vec::with_capacity(groups);
    let mut file = None;
    for group in 0..groups {
        let start = Instant::now();
        if group % per_file == 0 {
            let path = dir.join(format!("bare-{group}"));
            let new = DiskFs.create(&path).unwrap();
            new.allocate(0..SEGMENT_BYTES.max(blocks.len() as u64))
                .unwrap();
            file = Some(new);
        }
        let file = file.as_ref().unwrap();
        let offset = (group % per_file * blocks.len()) as u64;
        file.write_at(&mut [IoSlice::new(blocks)], offset).unwrap();
        if sync {
            file.sync_data().unwrap();
        }
        times.push(start.elapsed());
    }
    let what = if sync {
        "bare write + fdatasync"
    } else {
        "bare write"
    };
    report(what, times, blocks.len());
    for entry in std::fs::read_dir(dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

fn log(dir: &Path, blocks: &[u8], groups: usize, sync: bool) {
    let options = || LogOptions {
        dir: dir.to_owned(),
        segment_bytes: SEGMENT_BYTES,
        bytes_max: 64 << 30,
    };
    let (mut log, _) = Log::open(options(), Arc::new(DiskFs)).unwrap();
    let header = SectionHeader {
        insert_target: "events(uuid,event,properties,timestamp,team_id,distinct_id)".into(),
        month: 202_611,
        rows: 1000,
        uncompressed_bytes: 1_000_000,
        keys: vec![[1; 24]; 8],
    };
    let section = Section {
        header: &header,
        blocks,
    };
    let mut times = Vec::with_capacity(groups);
    for _ in 0..groups {
        let start = Instant::now();
        log.append(&[section]).unwrap();
        if sync {
            log.sync().unwrap();
        }
        times.push(start.elapsed());
    }
    report(
        if sync {
            "log append + sync"
        } else {
            "log append"
        },
        times,
        blocks.len(),
    );
    log.sync().unwrap();
    read(&log, blocks.len());
    let times = (0..50).map(|_| {
        let start = Instant::now();
        log.handle().store_checkpoint(&[7; 500]).unwrap();
        start.elapsed()
    });
    report("checkpoint of 500 bytes", times.collect(), 500);
    drop(log);
    let start = Instant::now();
    let (_, recovery) = Log::open(options(), Arc::new(DiskFs)).unwrap();
    let total = recovery.frames as usize * blocks.len();
    report("open, all bytes checked", vec![start.elapsed()], total);
    std::fs::remove_dir_all(dir).unwrap();
}

fn read(log: &Log, bytes: usize) {
    let handle = log.handle();
    let mut reader = handle.reader(Position::FIRST);
    let mut heads = Vec::new();
    let mut whole = Vec::new();
    loop {
        let start = Instant::now();
        let Some(frame) = reader.next().unwrap() else {
            break;
        };
        heads.push(start.elapsed());
        let start = Instant::now();
        reader.read_blocks(&frame.sections[0]).unwrap();
        whole.push(start.elapsed());
    }
    report("reader: headers (of 250 kB frames)", heads, bytes);
    report("reader: blocks", whole, bytes);
}

fn codec() {
    let row = br#"{"$browser":"Firefox","$current_url":"https://example.org/a/b","n":"#;
    let mut rows = Vec::new();
    let mut n = 7u64;
    while rows.len() < 8 << 20 {
        rows.extend_from_slice(row);
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        rows.extend_from_slice(format!("{n}}}").as_bytes());
    }
    let mut compressor = Compressor::new();
    let mut out = Vec::new();
    for _ in 0..2 {
        out.clear();
        let start = Instant::now();
        compressor.compress_into(&rows, &mut out);
        report("compress into blocks", vec![start.elapsed()], rows.len());
        let mut back = Vec::new();
        let start = Instant::now();
        decompress_into_vec(&out, &mut back, rows.len()).unwrap();
        report("decompress and check", vec![start.elapsed()], rows.len());
        println!("ratio {:.2}", rows.len() as f64 / out.len() as f64);
    }
}
