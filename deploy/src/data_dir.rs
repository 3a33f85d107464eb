//! The data folder: made, checked and held by one process at a time.

use anyhow::{Context, bail};
use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions, rename};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The right to use a data folder; given back when dropped.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
    path: PathBuf,
    /// Whether the folder was made for it.
    made_dir: bool,
}

impl DataDirLock {
    /// Takes away a folder that was made for this lock, if nothing else is in it.
    pub fn leave_no_trace(self) {
        let Some(dir) = self.path.parent().filter(|_| self.made_dir) else {
            return;
        };
        let is_alone = std::fs::read_dir(dir).is_ok_and(|files| files.count() == 1);
        if is_alone && std::fs::remove_file(&self.path).is_ok() {
            // Somebody else may have put something there meanwhile.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// Takes a folder that this role has used before for this process; `None` if it has not, and then
/// nothing is made.
///
/// # Errors
/// When it cannot be written, or another process has it.
pub fn take_used(dir: &Path, role: &str) -> anyhow::Result<Option<DataDirLock>> {
    let existing = dir.ancestors().find(|dir| dir.exists());
    if let Some(file) = existing.filter(|existing| !existing.is_dir()) {
        let below = if file == dir {
            String::new()
        } else {
            format!(", so that {} can be none", dir.display())
        };
        bail!(
            "{} is no folder{below}; give another with --data-dir",
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

fn cannot_write(dir: &Path) -> String {
    format!(
        "cannot write to the data folder {}; check its owner, or give another with --data-dir",
        dir.display()
    )
}

fn lock_path(dir: &Path, role: &str) -> PathBuf {
    dir.join(format!("{role}.lock"))
}

/// Makes the folder where it is missing and takes it for this process. Processes of different
/// roles may share a folder.
///
/// # Errors
/// When it cannot be made or written, or another process has it.
pub fn take(dir: &Path, role: &str) -> anyhow::Result<DataDirLock> {
    let made_dir = !dir.exists();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| {
            format!(
                "cannot make the data folder {}; give another with --data-dir",
                dir.display()
            )
        })?;
    let path = lock_path(dir, role);
    let mut options = OpenOptions::new();
    let opened = options.create(true).truncate(false).write(true).open(&path);
    let file = opened.with_context(|| cannot_write(dir))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(DataDirLock {
            _file: file,
            path,
            made_dir,
        }),
        Err(Errno::WOULDBLOCK) => bail!(
            "another millrace uses the data folder {}; stop it, or give another with --data-dir",
            dir.display()
        ),
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// The name of this node, made at the first start: no two nodes that write to one ClickHouse may
/// share it.
///
/// # Errors
/// When its file cannot be read or written.
pub fn node_name(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("node");
    match std::fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let name = Uuid::now_v7().simple().to_string();
    replace(&path, name.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(name)
}

/// Puts a file in its place as a whole, for its owner's eyes only; it survives a power cut once this returns.
///
/// # Errors
/// When the folder cannot be written or the disk is full: then the old file is still there.
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
