//! The data folder, the disks, and the time that they take for a sync.

use super::Finding;
use crate::config::Config;
use crate::disk_room::{self, ADVICE, existing};
use crate::serve::Parts;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::fs::{OpenOptions, remove_file};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const DATA_FOLDER: &str = "data folder";
const DISK: &str = "disk";
const SYNC: &str = "sync";
const ROOT: u32 = 0;
/// Rights of a folder that others must not have.
const OTHERS: u32 = 0o077;
/// Syncs that are measured; their median counts.
const SYNCS: usize = 15;
/// Bytes written before each sync.
const SYNC_BYTES: usize = 4_096;
/// Time of a sync from which on it is slow: each answer waits for one, or for two.
const SLOW_SYNC: Duration = Duration::from_millis(20);

/// Checks owner and mode of the data folder, or that it can be created.
pub(super) fn data_folder(dir: &Path) -> Finding {
    let (there, shown) = (existing(dir), dir.display());
    if !there.is_dir() {
        let found = format!("{} is not a folder", there.display());
        return Finding::error(DATA_FOLDER, found, "give another with --data-dir");
    }
    let is_writable = access(there, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    if !is_writable {
        let found = format!("{} cannot be written by this user", there.display());
        let advice = "run as its owner, or give another folder with --data-dir";
        return Finding::error(DATA_FOLDER, found, advice);
    }
    if there != dir {
        return Finding::ok(
            DATA_FOLDER,
            format!("{shown} is created by the first start"),
        );
    }
    let Ok(metadata) = dir.metadata() else {
        let advice = "check the folders above it";
        return Finding::error(DATA_FOLDER, format!("{shown} cannot be read"), advice);
    };
    let (owner, user) = (metadata.uid(), geteuid().as_raw());
    let mode = metadata.mode() & 0o7777;
    // Root works on the folder of the service's user, as the runbook has it.
    if owner != user && user != ROOT {
        let found = format!("{shown} belongs to the user {owner}, and this is the user {user}");
        let advice = "run this and the server as the owner of the folder: files of another user stop it later";
        return Finding::warning(DATA_FOLDER, found, advice);
    }
    if mode & OTHERS != 0 {
        let found = format!("{shown} has the mode {mode:04o}: others may see the files in it");
        return Finding::warning(DATA_FOLDER, found, format!("chmod 700 {shown}"));
    }
    Finding::ok(
        DATA_FOLDER,
        format!("{shown} is open to its owner alone, the user {owner}"),
    )
}

/// Checks the room on each disk.
pub(super) fn disks(config: &Config, parts: Parts) -> Vec<Finding> {
    let disks = disk_room::measure(config, parts).into_iter();
    let found = disks.map(|disk| match disk.is_short() {
        true => Finding::warning(DISK, disk.described(), ADVICE),
        false => Finding::ok(DISK, disk.described()),
    });
    found.collect()
}

/// Measures how long the disk of the logs takes to make bytes durable.
pub(super) fn sync(log_dir: &Path) -> Finding {
    let dir = existing(log_dir);
    let place = dir.display();
    match measured(dir) {
        Err(error) => Finding::error(
            SYNC,
            format!("a file in {place} cannot be written and synced: {error}"),
            "check the disk and its mount options, or give another folder with --log-dir",
        ),
        Ok(time) if time >= SLOW_SYNC => Finding::warning(
            SYNC,
            format!("a sync in {place} takes {time:.1?}, and each answer waits for one"),
            "put the logs on a faster disk with --log-dir, best an SSD of this machine",
        ),
        Ok(time) => Finding::ok(SYNC, format!("a sync in {place} takes {time:.1?}")),
    }
}

/// Median time of a sync of a few bytes to a new file.
fn measured(dir: &Path) -> io::Result<Duration> {
    let path = dir.join(format!(".millrace-doctor-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&path)?;
    // Nothing is left, however this ends.
    remove_file(&path)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[0; SYNC_BYTES])?;
        let begun = Instant::now();
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(SYNCS / 2).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use std::fs::{Permissions, create_dir, read_dir, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    #[test]
    fn a_data_folder_is_for_its_owner_alone_or_can_be_created() {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, mode) in [("closed", 0o700), ("open", 0o755)] {
            create_dir(path(name)).unwrap();
            set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        write(path("file"), "").unwrap();
        let table = [
            ("closed", Status::Ok, "alone"),
            ("open", Status::Warning, "0755"),
            ("missing/below", Status::Ok, "first start"),
            ("file", Status::Error, "not a folder"),
            ("file/below", Status::Error, "not a folder"),
        ];
        for (name, status, words) in table {
            let finding = data_folder(&path(name));
            assert_eq!(finding.status, status, "{name}: {finding:?}");
            assert!(finding.found.contains(words), "{name}: {finding:?}");
            assert_eq!(finding.advice.is_none(), status == Status::Ok, "{name}");
        }
    }

    #[test]
    fn a_measured_sync_leaves_no_file() {
        let dir = TempDir::new().unwrap();
        let finding = sync(&dir.path().join("log"));
        assert_ne!(finding.status, Status::Error, "{finding:?}");
        assert_eq!(read_dir(dir.path()).unwrap().count(), 0);
        let nowhere = sync(Path::new("/proc/millrace/log"));
        assert_eq!(nowhere.status, Status::Error, "{nowhere:?}");
    }
}
