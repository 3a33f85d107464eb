//! Folders of the configuration, and the capacity that their disk allows.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// Upper bound of the logs' default capacity on small disks, in percent of the disk's size.
const LOG_DISK_PERCENT_MAX: u64 = 80;
/// Default capacity of the logs, in bytes.
const LOG_BYTES_MAX_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;

/// Makes a path absolute.
pub(super) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot make {} absolute", path.display()))
}

/// Default capacity of the logs: 10 GiB, or 80 % of the disk where that is less.
pub(super) fn default_log_bytes(log_dir: &Path) -> u64 {
    let existing = log_dir
        .ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("/"));
    let disk_bytes = rustix::fs::statvfs(existing)
        .map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    LOG_BYTES_MAX_DEFAULT.min(disk_bytes / 100 * LOG_DISK_PERCENT_MAX)
}
