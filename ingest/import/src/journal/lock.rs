//! Lock of an import's folder: only its holder writes, empties and removes the files in there.
//!
//! The lock is on the journal itself, and another process may open the journal just before it is
//! removed. A lock on a removed file excludes nobody, so it is dropped for one on the file that is
//! at the path.

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most times that a journal may be removed between its opening and its lock.
const TRIES_MAX: u32 = 100;

/// A locked journal, which no other process writes until this is dropped.
#[derive(Debug)]
pub struct Lock {
    pub(super) file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the journal at a path; creates it and its folder if there is none.
    ///
    /// # Errors
    /// The journal cannot be created, or another process holds the lock.
    pub fn take(path: &Path) -> anyhow::Result<Self> {
        let at = || format!("cannot write {}", path.display());
        for _ in 0..TRIES_MAX {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).with_context(at)?;
            }
            let opened = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(path);
            let file = match opened {
                // Its folder was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.with_context(at)?,
            };
            flock(&file, FlockOperation::NonBlockingLockExclusive)
                .with_context(|| format!("another import is writing {}", path.display()))?;
            if is_at(&file, path).with_context(at)? {
                let path = path.to_owned();
                return Ok(Self { file, path });
            }
        }
        bail!(
            "other imports keep starting in the folder of {}; run the command again",
            path.display()
        )
    }

    /// Path of the journal.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the journal.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn journal_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Empties the journal.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn empty(&self) -> anyhow::Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.sync_all());
        emptied.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Returns true if the open file is the one at the path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::Staging;

    #[test]
    fn a_lock_is_always_on_the_journal_at_its_path_while_others_remove_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Staging::open(dir.path()).unwrap().load("phc_a");
        let path = folder.journal();
        let taken = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let Ok(lock) = Lock::take(&path) else {
                            continue;
                        };
                        assert!(is_at(&lock.file, &path).unwrap());
                        taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        folder.remove(&lock).unwrap();
                    }
                });
            }
        });
        assert!(taken.into_inner() > 0);
        assert!(!path.exists());
    }
}
