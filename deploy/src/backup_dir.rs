//! The folder that ClickHouse writes backups to, and removal of incomplete backups.
//!
//! A backup is written to `<uuid>.part` and moved from there by the command that requested it,
//! which holds a shared lock on the folder meanwhile. A process that gets the lock exclusively
//! removes what is left: no command will move it.

use crate::locked_file::LockedFile;
use anyhow::Context;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Suffix of the names of incomplete backups.
const PART: &str = ".part";

/// Shared lock for one backup; released when dropped.
#[derive(Debug)]
pub struct BackupLock {
    _dir: LockedFile,
    part: PathBuf,
}

impl BackupLock {
    /// Folder to write to; it does not exist yet.
    pub fn part(&self) -> &Path {
        &self.part
    }
}

/// Creates a missing folder, removes leftovers of earlier backups, and locks the folder for a new
/// one.
///
/// # Errors
/// When the folder cannot be created or opened.
pub fn begin(dir: &Path) -> anyhow::Result<BackupLock> {
    let unusable = || {
        format!(
            "cannot use {} for backups of ClickHouse; make it a folder that this user and ClickHouse may write to, or name \
             another with clickhouse_backup_dir, for the server as well",
            dir.display()
        )
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let opened = builder.create(dir).and_then(|()| File::open(dir));
    let opened = LockedFile(opened.with_context(unusable)?);
    if is_alone(&opened) {
        clear(dir);
    }
    opened.lock_shared().with_context(unusable)?;
    Ok(BackupLock {
        _dir: opened,
        part: dir.join(format!("{}{PART}", Uuid::new_v4())),
    })
}

/// Removes leftovers of earlier backups, unless a backup is being written or moved.
pub fn clear_unused(dir: &Path) {
    if let Ok(opened) = File::open(dir).map(LockedFile)
        && is_alone(&opened)
    {
        clear(dir);
    }
}

fn is_alone(dir: &File) -> bool {
    dir.try_lock().is_ok()
}

fn clear(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(PART));
        if id.is_none_or(|id| Uuid::try_parse(id).is_err()) {
            continue;
        }
        let path = entry.path();
        // Neither of the two follows links.
        let removed = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => {
                tracing::info!(path = %path.display(), "removed the remains of an interrupted backup");
            }
            Err(error) => tracing::warn!(
                path = %path.display(), %error,
                "cannot remove the remains of an interrupted backup; delete them"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tempfile::TempDir;

    fn names(dir: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(dir).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect()
    }

    /// Creates a folder with leftovers of backups, and with names that must stay; returns these.
    fn filled() -> (TempDir, BTreeSet<String>) {
        let dir = TempDir::new().unwrap();
        let [part, file] = [(); 2].map(|()| format!("{}.part", Uuid::new_v4()));
        fs::create_dir_all(dir.path().join(part).join("data")).unwrap();
        fs::write(dir.path().join(file), "a").unwrap();
        let other = Uuid::new_v4().to_string();
        let kept = ["today", "kept.part", ".part", other.as_str()];
        for name in kept {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let kept = kept.map(str::to_owned).into();
        (dir, kept)
    }

    #[test]
    fn leftovers_of_a_killed_backup_are_removed_at_the_next_start() {
        let (dir, kept) = filled();
        clear_unused(dir.path());
        assert_eq!(names(dir.path()), kept);
        let (dir, kept) = filled();
        let writing = begin(dir.path()).unwrap();
        assert!(!writing.part().exists());
        assert_eq!(names(dir.path()), kept);
    }

    #[test]
    fn a_running_backup_is_not_removed() {
        let (dir, mut kept) = filled();
        let writing = begin(dir.path()).unwrap();
        fs::create_dir(writing.part()).unwrap();
        let part = writing.part().file_name().unwrap().to_str().unwrap();
        kept.insert(part.to_owned());
        clear_unused(dir.path());
        let second = begin(dir.path()).unwrap();
        assert_ne!(second.part(), writing.part());
        assert_eq!(names(dir.path()), kept, "both of them may write");
        drop(writing);
        clear_unused(dir.path());
        assert_eq!(names(dir.path()), kept, "one of them still writes");
        drop(second);
        clear_unused(dir.path());
        assert_eq!(names(dir.path()).len() + 1, kept.len());
    }

    #[test]
    fn links_are_not_followed_and_a_missing_folder_is_not_created() {
        let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(elsewhere.path().join("kept"), "a").unwrap();
        let link = dir.path().join(format!("{}.part", Uuid::new_v4()));
        std::os::unix::fs::symlink(elsewhere.path(), link).unwrap();
        clear_unused(dir.path());
        assert!(names(dir.path()).is_empty());
        assert!(elsewhere.path().join("kept").exists());
        clear_unused(&dir.path().join("missing"));
        assert!(!dir.path().join("missing").exists());
        let file = elsewhere.path().join("kept");
        let error = begin(&file).unwrap_err();
        assert!(
            format!("{error:#}").contains("clickhouse_backup_dir"),
            "{error:#}"
        );
    }
}
