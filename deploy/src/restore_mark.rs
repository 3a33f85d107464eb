//! Mark of a data folder that a restore has not filled. It is the first file that a restore writes
//! and the one that it removes at last: a folder of a restore that was cut off has a catalog, and
//! some of the events, or none. Its `credentials.json` may have the addresses of the old server, so
//! no command but `restore` uses such a folder, either.

use crate::data_dir;
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Creates the mark, durably.
///
/// # Errors
/// When the folder cannot be written.
pub fn set(dir: &Path) -> anyhow::Result<()> {
    let path = path(dir);
    data_dir::replace(&path, b"").with_context(|| format!("cannot write {}", path.display()))
}

/// Removes the mark. Everything else is on disk.
///
/// # Errors
/// When the folder cannot be written.
pub fn remove(dir: &Path) -> anyhow::Result<()> {
    let path = path(dir);
    let removed = fs::remove_file(&path).and_then(|()| File::open(dir)?.sync_all());
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

/// Fails for a folder with the mark.
///
/// # Errors
/// A restore was cut off, or is still filling the folder.
pub fn require_none(dir: &Path) -> anyhow::Result<()> {
    if path(dir).exists() {
        bail!(
            "{} is not whole: a restore fills it, or was cut off; wait for it, or delete the folder and \
             restore the backup again",
            dir.display()
        );
    }
    Ok(())
}

fn path(dir: &Path) -> PathBuf {
    dir.join("restoring")
}
