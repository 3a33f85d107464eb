//! Folders of the configuration, and the capacity that their disk allows.

use anyhow::Context;
use std::path::{Component, Path, PathBuf};

/// Upper bound of the logs' default capacity on small disks, in percent of the disk's size.
const LOG_DISK_PERCENT_MAX: u64 = 80;
/// Default capacity of the logs, in bytes.
const LOG_BYTES_MAX_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;

/// Makes a path absolute, without `..`: ClickHouse compares the path of a backup with that of the
/// folder for backups by their letters.
pub(super) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path)
        .with_context(|| format!("cannot make {} absolute", path.display()))?;
    if path.components().all(|part| part != Component::ParentDir) {
        return Ok(path);
    }
    // Only the disk knows where `..` leads behind a link.
    let mut dirs = path.ancestors();
    let Some((known, mut resolved)) = dirs.find_map(|dir| Some((dir, dir.canonicalize().ok()?)))
    else {
        return Ok(path);
    };
    let missing = path.strip_prefix(known).unwrap_or(Path::new(""));
    for part in missing.components() {
        if part == Component::ParentDir {
            resolved.pop();
        } else {
            resolved.push(part);
        }
    }
    Ok(resolved)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_parents_is_resolved_and_any_other_stays() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("real/deep")).unwrap();
        std::os::unix::fs::symlink(home.join("real/deep"), home.join("link")).unwrap();
        let table = [
            ("real/../new", "new"),
            ("real/deep/../../new/data", "new/data"),
            ("link/../data", "real/data"),
            ("missing/../new", "new"),
            ("link/data", "link/data"),
            ("missing/data", "missing/data"),
        ];
        for (path, expected) in table {
            let found = absolute(&home.join(path)).unwrap();
            assert_eq!(found, home.join(expected), "{path}");
        }
    }
}
