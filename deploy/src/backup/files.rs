//! Copies of files and folders that survive a power cut.

use anyhow::Context;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

/// Moves the backup that ClickHouse wrote to its target, maybe on another disk.
pub fn move_backup(made: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::rename(made, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let copied = copy(made, to);
            // Copied or not, the original is not needed any more.
            let removed = fs::remove_dir_all(made);
            copied?;
            removed.with_context(|| format!("cannot remove {}", made.display()))
        }
        moved => moved.with_context(|| {
            format!(
                "cannot move {}, which ClickHouse wrote, to {}",
                made.display(),
                to.display()
            )
        }),
    }
}

/// Copies a file, or a folder with everything in it.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = copy_all(from, to);
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return match fs::copy(from, to) {
            // The operator has removed the file meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            copied => copied.map(drop),
        };
    }
    match fs::create_dir(to) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Syncs the disk of a folder, as ClickHouse does not sync what it copies.
pub fn make_durable(dir: &Path) -> anyhow::Result<()> {
    let synced = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    synced.with_context(|| format!("cannot sync the disk of {}", dir.display()))
}

/// Text of a path, as ClickHouse needs it.
pub fn utf8(path: &Path) -> anyhow::Result<&str> {
    let utf8 = path.to_str();
    utf8.with_context(|| format!("{} is not UTF-8, which ClickHouse needs", path.display()))
}
