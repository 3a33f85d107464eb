//! The data folder: created, checked and locked by one process at a time.

use crate::created_dirs::CreatedDirs;
use crate::locked_file::LockedFile;
use anyhow::{Context, bail};
use rustix::fs::{Access, access};
use std::fs::{File, OpenOptions, TryLockError, rename};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Role of the lock that a process with ingestion holds.
pub const INGEST_ROLE: &str = "millrace";
/// Role of the lock that a process with the organization API alone holds.
pub const ADMIN_ROLE: &str = "admin";
/// File with the name of the node.
pub const NODE_FILE: &str = "node";
/// Folder of the rows that ClickHouse cannot read.
pub const DEAD_LETTERS: &str = "dead-letters";
/// Former name of that folder, in data folders and backups of before.
pub const FORMER_DEAD_LETTERS: &str = "poison";

/// Lock on a data folder; released when dropped.
#[derive(Debug)]
pub struct DataDirLock {
    _file: LockedFile,
    path: PathBuf,
    /// Folders that were created for this lock.
    created: CreatedDirs,
}

impl DataDirLock {
    /// Removes a folder that was created for this lock, with those above it, if nothing else is in
    /// them.
    pub fn remove_created_dir(self) {
        let Some(dir) = self.path.parent().filter(|_| !self.created.is_empty()) else {
            return;
        };
        let is_alone = std::fs::read_dir(dir).is_ok_and(|files| files.count() == 1);
        if is_alone && std::fs::remove_file(&self.path).is_ok() {
            self.created.remove_empty();
        }
    }
}

/// Locks a folder that this role has used before; `None` if it has not, and then nothing is
/// created.
///
/// # Errors
/// When the folder cannot be written, or another process holds the lock.
pub fn take_used(dir: &Path, role: &str) -> anyhow::Result<Option<DataDirLock>> {
    let existing = dir.ancestors().find(|dir| dir.exists());
    if let Some(file) = existing.filter(|existing| !existing.is_dir()) {
        let below = if file == dir {
            String::new()
        } else {
            format!(", so {} cannot be a folder", dir.display())
        };
        bail!(
            "{} is not a folder{below}; give another with --data-dir",
            file.display()
        );
    }
    if dir.exists() {
        let may = Access::WRITE_OK | Access::EXEC_OK;
        access(dir, may).with_context(|| cannot_write(dir))?;
    }
    let is_used = lock_path(dir, role).exists();
    is_used.then(|| take(dir, role)).transpose()
}

/// Tells whether a folder has nothing but the lock of this role, or is not there.
pub fn is_unused(dir: &Path, role: &str) -> bool {
    let lock = lock_path(dir, role);
    let mut files = std::fs::read_dir(dir).into_iter().flatten();
    files.all(|file| file.is_ok_and(|file| file.path() == lock))
}

fn cannot_write(dir: &Path) -> String {
    format!(
        "cannot write to the data folder {}; check its owner, or give another with --data-dir",
        dir.display()
    )
}

fn lock_path(dir: &Path, role: &str) -> PathBuf {
    dir.join(format!("{role}.lock"))
}

/// Creates a missing folder and locks it for this process. Processes of different roles may share a
/// folder.
///
/// # Errors
/// When the folder cannot be created or written, or another process holds the lock.
pub fn take(dir: &Path, role: &str) -> anyhow::Result<DataDirLock> {
    let created = CreatedDirs::create(dir).with_context(|| {
        format!(
            "cannot create the data folder {}; give another with --data-dir",
            dir.display()
        )
    })?;
    let path = lock_path(dir, role);
    let mut options = OpenOptions::new();
    let opened = options.create(true).truncate(false).write(true).open(&path);
    let file = LockedFile(opened.with_context(|| cannot_write(dir))?);
    match file.try_lock() {
        Ok(()) => Ok(DataDirLock {
            _file: file,
            path,
            created,
        }),
        Err(TryLockError::WouldBlock) => bail!(
            "another millrace uses the data folder {}; stop it, or give another with --data-dir",
            dir.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Returns true if a process of this role runs on a folder; creates nothing.
pub fn is_locked(dir: &Path, role: &str) -> bool {
    let opened = OpenOptions::new().write(true).open(lock_path(dir, role));
    let Ok(file) = opened.map(LockedFile) else {
        return false;
    };
    // Given back at once.
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Id of the lock of a role on a folder: as long as this machine runs, whoever holds it is alone
/// with the folder. A copy of the folder has another one. `None` if it cannot be told.
pub fn lock_id(dir: &Path, role: &str) -> Option<String> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let file = std::fs::metadata(lock_path(dir, role)).ok()?;
    Some(format!("{} {} {}", boot_id.trim(), file.dev(), file.ino()))
}

/// Name of this node, generated at the first start: no two nodes that write to one ClickHouse may
/// share it.
///
/// # Errors
/// When its file cannot be read or written.
pub fn node_name(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join(NODE_FILE);
    match std::fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let name = Uuid::now_v7().simple().to_string();
    replace(&path, name.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(name)
}

/// Renames the folder of dead letters, durably, where it still has its former name.
///
/// # Errors
/// When the folder cannot be renamed.
pub fn rename_former_folders(dir: &Path) -> anyhow::Result<()> {
    let (former, path) = (dir.join(FORMER_DEAD_LETTERS), dir.join(DEAD_LETTERS));
    if !former.exists() || path.exists() {
        return Ok(());
    }
    let renamed = rename(&former, &path).and_then(|()| File::open(dir)?.sync_all());
    renamed.with_context(|| format!("cannot rename {} to {}", former.display(), path.display()))
}

/// Replaces a file atomically and durably, readable by its owner only.
///
/// # Errors
/// When the folder cannot be written or the disk is full: the old file is still there then.
pub fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Returns true if a file could not be written for lack of space.
pub fn is_disk_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn the_lock_of_a_folder_keeps_its_id_and_a_copy_has_another() {
        let (folder, copied) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let id = |dir: &TempDir| lock_id(dir.path(), INGEST_ROLE);
        assert_eq!(id(&folder), None);
        drop(take(folder.path(), INGEST_ROLE).unwrap());
        let first = id(&folder);
        assert!(first.is_some());
        drop(take(folder.path(), INGEST_ROLE).unwrap());
        assert_eq!(id(&folder), first);
        let [from, to] = [&folder, &copied].map(|dir| lock_path(dir.path(), INGEST_ROLE));
        std::fs::copy(from, to).unwrap();
        drop(take(copied.path(), INGEST_ROLE).unwrap());
        assert_ne!(id(&copied), first);
    }

    #[test]
    fn a_folder_with_anything_but_the_lock_is_in_use() {
        let folder = TempDir::new().unwrap();
        let is_unused = || is_unused(folder.path(), INGEST_ROLE);
        assert!(is_unused());
        drop(take(folder.path(), INGEST_ROLE).unwrap());
        assert!(is_unused());
        drop(take(folder.path(), ADMIN_ROLE).unwrap());
        assert!(!is_unused());
        assert!(super::is_unused(
            &folder.path().join("missing"),
            INGEST_ROLE
        ));
    }
}
