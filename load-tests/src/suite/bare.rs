//! Bare disk without the server: append and fdatasync, one frame after the other.

use super::bench::Bench;
use super::store::Store;
use crate::process::pin_this_thread;
use crate::summary::Percentiles;
use crate::worker_stats::histogram;
use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Size to which files are preallocated, that of a log's segments.
const FILE_BYTES: u64 = 64 << 20;

/// Result of the bare loop.
#[derive(Clone, Debug)]
pub struct Bare {
    /// Bytes made durable per second, new files included.
    pub bytes_per_second: f64,
    /// Latency of one append with its fdatasync.
    pub latency: Percentiles,
}

/// Appends frames of `frame_bytes` bytes for a while, on the CPU of the servers.
///
/// # Errors
/// The disk refuses.
pub fn append_and_sync(
    bench: &Bench<'_>,
    store: Store,
    frame_bytes: usize,
    duration: Duration,
) -> Result<Bare> {
    let dir = bench.folder(store)?;
    let cpu = bench.cpus.first();
    let thread = std::thread::Builder::new().name("bare".to_owned());
    let run = move || {
        pin_this_thread(cpu)?;
        append(dir.path(), frame_bytes.max(1), duration)
    };
    let thread = thread.spawn(run).context("cannot start a thread")?;
    thread
        .join()
        .map_err(|_| anyhow!("the bare loop panicked"))?
}

fn append(dir: &Path, frame_bytes: usize, duration: Duration) -> Result<Bare> {
    let frame: Vec<u8> = (0..frame_bytes).map(|at| (at % 251) as u8).collect();
    let frames_per_file = (FILE_BYTES / frame_bytes as u64).max(1);
    let file_bytes = FILE_BYTES.max(frame_bytes as u64);
    let mut latency: Histogram<u64> = histogram();
    let mut bytes = 0;
    let started = Instant::now();
    while started.elapsed() < duration {
        let mut file = new_file(dir, file_bytes)?;
        for _ in 0..frames_per_file {
            let before = Instant::now();
            file.write_all(&frame).context("write")?;
            file.sync_data().context("fdatasync")?;
            latency
                .saturating_record(u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX));
            bytes += frame_bytes;
            if started.elapsed() >= duration {
                break;
            }
        }
    }
    Ok(Bare {
        bytes_per_second: bytes as f64 / started.elapsed().as_secs_f64(),
        latency: Percentiles::of(&latency),
    })
}

/// Replaces the last file, so that the loop leaves only one behind.
fn new_file(dir: &Path, bytes: u64) -> Result<File> {
    let file = File::create(dir.join("frames")).context("cannot make a file")?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes).context("fallocate")?;
    file.sync_all().context("fsync")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_appends_have_latencies_and_a_rate() {
        let dir = tempfile::tempdir().unwrap();
        let bare = append(dir.path(), 4096, Duration::from_millis(20)).unwrap();
        assert!(bare.latency.count > 0);
        assert!(bare.bytes_per_second > 0.0);
    }
}
