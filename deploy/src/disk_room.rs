//! Room on the disks of a server: bytes that logs and ClickHouse may take, and bytes available.
//!
//! A start warns where there is less, and `millrace doctor` says the same.

use crate::config::{Config, Engine};
use crate::serve::Parts;
use bytesize::ByteSize;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that the logs need where nobody gave their capacity: minutes of events.
const LOG_BYTES_MIN: u64 = 1 << 30;
/// Bytes that the embedded ClickHouse needs to begin with.
const ENGINE_BYTES_MIN: u64 = 1 << 30;
/// Bytes that a data folder needs without it.
const DATA_BYTES_MIN: u64 = 64 << 20;
/// Bytes of a block, as the system counts those of a file.
const BLOCK_BYTES: u64 = 512;

/// Disk of one or more folders of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// Folder on the disk: the first that exists.
    pub dir: PathBuf,
    /// Bytes that may be needed beyond those that are taken.
    pub needed_bytes: u64,
    /// Bytes available to this user.
    pub available_bytes: u64,
}

impl DiskRoom {
    /// Returns true if the disk may become full before the server has what it needs.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.available_bytes < self.needed_bytes
    }

    /// Description, with both sizes.
    #[must_use]
    pub fn described(&self) -> String {
        format!(
            "the disk of {} has {} available, and {} may be needed",
            self.dir.display(),
            ByteSize::b(self.available_bytes),
            ByteSize::b(self.needed_bytes)
        )
    }
}

/// Next step where a disk is short.
pub const ADVICE: &str = "free space there, name folders on another disk with --data-dir and --log-dir, or lower \
                          log_bytes_max; while a disk is full, events are rejected with 503";

/// Measures the disks of logs and data, each once. A disk that cannot be measured is left out.
pub fn measure(config: &Config, parts: Parts) -> Vec<DiskRoom> {
    let is_embedded = matches!(config.engine, Engine::Embedded { .. });
    let of_data = match parts.ingest && is_embedded {
        true => ENGINE_BYTES_MIN,
        false => DATA_BYTES_MIN,
    };
    let mut needs = vec![(config.data_dir.as_path(), of_data)];
    if parts.ingest {
        needs.push((config.log_dir.as_path(), log_bytes(config)));
    }
    let mut disks: BTreeMap<u64, DiskRoom> = BTreeMap::new();
    for (dir, bytes) in needs {
        let Some((dir, device, available_bytes)) = disk_of(dir) else {
            continue;
        };
        let disk = disks.entry(device).or_insert(DiskRoom {
            dir,
            needed_bytes: 0,
            available_bytes,
        });
        disk.needed_bytes = disk.needed_bytes.saturating_add(bytes);
    }
    disks.into_values().collect()
}

/// First folder above a path that exists.
#[must_use]
pub fn existing(path: &Path) -> &Path {
    let mut above = path.ancestors();
    above.find(|dir| dir.exists()).unwrap_or(Path::new("/"))
}

/// Bytes that the logs may still take: the rest of a capacity that was given.
fn log_bytes(config: &Config) -> u64 {
    let needed = match config.has_default_log_capacity() {
        true => LOG_BYTES_MIN.min(config.log_bytes_max),
        false => config.log_bytes_max,
    };
    needed.saturating_sub(taken_bytes(&config.log_dir))
}

/// Bytes on disk of the files in a folder of logs: a folder for each lane.
fn taken_bytes(log_dir: &Path) -> u64 {
    let lanes = std::fs::read_dir(log_dir).into_iter().flatten().flatten();
    let files = lanes.flat_map(|lane| std::fs::read_dir(lane.path()).into_iter().flatten());
    let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.blocks()));
    sizes.fold(0, |sum, blocks| {
        sum.saturating_add(blocks.saturating_mul(BLOCK_BYTES))
    })
}

/// Existing folder, device and available bytes of a path's disk.
fn disk_of(path: &Path) -> Option<(PathBuf, u64, u64)> {
    let dir = existing(path);
    let device = dir.metadata().ok()?.dev();
    let disk = rustix::fs::statvfs(dir).ok()?;
    let available = disk.f_bavail.saturating_mul(disk.f_frsize);
    Some((dir.to_owned(), device, available))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_disk_is_short_below_what_may_be_needed() {
        let room = |needed_bytes, available_bytes| DiskRoom {
            dir: PathBuf::from("/data"),
            needed_bytes,
            available_bytes,
        };
        assert!(room(2, 1).is_short());
        assert!(!room(2, 2).is_short());
        let told = room(2 << 30, 1 << 30).described();
        assert!(told.contains("/data") && told.contains("1.0 GiB"), "{told}");
    }

    #[test]
    fn files_of_all_lanes_count_as_taken() {
        let dir = TempDir::new().unwrap();
        assert_eq!(taken_bytes(&dir.path().join("missing")), 0);
        for lane in ["live", "historical"] {
            std::fs::create_dir(dir.path().join(lane)).unwrap();
            std::fs::write(dir.path().join(lane).join("1.log"), vec![1; 1 << 16]).unwrap();
        }
        assert!(taken_bytes(dir.path()) >= 2 << 16);
    }

    #[test]
    fn a_missing_folder_is_on_the_disk_of_the_one_above() {
        let dir = TempDir::new().unwrap();
        assert_eq!(existing(&dir.path().join("a/b")), dir.path());
    }
}
