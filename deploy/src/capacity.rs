//! Metrics of capacity: free space in the logs, and on the disks of logs and data.

use crate::config::Config;
use metrics::{Unit, describe_gauge, gauge};
use millrace_pipeline::Pipeline;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

const LOG_BYTES: &str = "millrace_log_bytes";
const LOG_BYTES_MAX: &str = "millrace_log_bytes_max";
const RESERVES_MISSING: &str = "millrace_log_reserves_missing";
const DISK_BYTES: &str = "millrace_disk_bytes";
const DISK_AVAILABLE_BYTES: &str = "millrace_disk_available_bytes";

/// Interval of measurements.
const MEASURE_INTERVAL: Duration = Duration::from_secs(5);

/// Measures capacity at once and then periodically, on the runtime.
pub fn watch(config: &Config, pipeline: Pipeline) {
    describe();
    let folders = [
        ("data", config.data_dir.clone()),
        ("log", config.log_dir.clone()),
    ];
    tokio::spawn(async move {
        let mut every = tokio::time::interval(MEASURE_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            measure(&folders, &pipeline);
        }
    });
}

fn describe() {
    let bytes = Unit::Bytes;
    describe_gauge!(
        LOG_BYTES,
        bytes,
        "Bytes in the logs that are not yet released"
    );
    describe_gauge!(
        LOG_BYTES_MAX,
        bytes,
        "Capacity of the logs; at 85 % of it historical requests are rejected, at 95 % all"
    );
    describe_gauge!(
        RESERVES_MISSING,
        "Lanes of the log that reject events until their disk has space for the checkpoint's reserve again"
    );
    describe_gauge!(DISK_BYTES, bytes, "Size of the disk that a folder is on");
    describe_gauge!(
        DISK_AVAILABLE_BYTES,
        bytes,
        "Bytes available to this process on the disk of a folder, by folder"
    );
}

fn measure(folders: &[(&'static str, PathBuf)], pipeline: &Pipeline) {
    gauge!(LOG_BYTES).set(pipeline.log_bytes_used() as f64);
    gauge!(LOG_BYTES_MAX).set(pipeline.log_bytes_max() as f64);
    gauge!(RESERVES_MISSING).set(pipeline.reserves_missing() as f64);
    for (name, path) in folders {
        if let Some((size, available)) = disk(path) {
            gauge!(DISK_BYTES, "folder" => *name).set(size as f64);
            gauge!(DISK_AVAILABLE_BYTES, "folder" => *name).set(available as f64);
        }
    }
}

/// Size and free bytes of a folder's disk; `None` if they cannot be read.
fn disk(path: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some((bytes(disk.f_blocks), bytes(disk.f_bavail)))
}
