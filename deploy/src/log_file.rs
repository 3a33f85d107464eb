//! Log file that is rotated by size, for machines where nobody keeps standard error.
//!
//! A line is written as a whole. One that would make the file too long goes to a new one:
//! `millrace.log` becomes `millrace.log.1`, that becomes `millrace.log.2`, and the oldest is
//! replaced. The file is locked, so that no two processes rotate it. Nothing is synced: what was
//! logged just before a loss of power may be missing.

use crate::locked_file::LockedFile;
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Log file of this process; clones write to the same one.
#[derive(Clone, Debug)]
pub struct LogFile(Arc<Mutex<RotatedFile>>);

#[derive(Debug)]
struct RotatedFile {
    path: PathBuf,
    bytes_max: u64,
    /// Number of older files, at least 1.
    files_kept: u32,
    file: LockedFile,
    /// Bytes of the file, or since a rotation failed.
    bytes: u64,
}

// === impl LogFile ===

impl LogFile {
    /// Opens the file and appends to what is there.
    ///
    /// # Errors
    /// When it cannot be opened, or another process writes to it.
    pub fn open(path: &Path, bytes_max: u64, files_kept: u32) -> anyhow::Result<Self> {
        let file = appended(path).with_context(|| {
            format!(
                "cannot open log_file {}; give a file in a folder that exists and that this user may write to",
                path.display()
            )
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another process writes to log_file {}; stop it, or give each a file of its own",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error)
                    .with_context(|| format!("cannot lock log_file {}", path.display()));
            }
        }
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        Ok(Self(Arc::new(Mutex::new(RotatedFile {
            path: path.to_owned(),
            bytes_max,
            files_kept,
            file: LockedFile(file),
            bytes,
        }))))
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.append(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl RotatedFile ===

impl RotatedFile {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let bytes = line.len() as u64;
        if self.bytes > 0 && self.bytes.saturating_add(bytes) > self.bytes_max {
            if let Err(error) = self.rotate() {
                // Lines go on in the same file, and as many bytes later it is tried again.
                let path = self.path.display();
                let _ = writeln!(
                    io::stderr(),
                    "millrace: cannot rotate log_file {path}: {error}"
                );
            }
            self.bytes = 0;
        }
        self.file.write_all(line)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.files_kept).rev() {
            rename(&self.older(number), &self.older(number + 1))?;
        }
        rename(&self.path, &self.older(1))?;
        let file = appended(&self.path)?;
        // It is new: only a start in this moment can have opened it, and if it has the lock, both
        // write whole lines.
        let _ = file.try_lock();
        self.file = LockedFile(file);
        Ok(())
    }

    /// Path of an older file, from 1 for the newest.
    fn older(&self, number: u32) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(format!(".{number}"));
        path.into()
    }
}

/// Renames a file, if it is there: somebody may have removed it.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn appended(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn names_and_texts(dir: &TempDir) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
        let mut found: Vec<_> = entries
            .map(|entry| {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn a_full_file_becomes_the_newest_old_one_and_the_oldest_is_replaced() {
        let dir = TempDir::new().unwrap();
        let mut log = LogFile::open(&dir.path().join("log"), 10, 2).unwrap();
        for line in ["aaaa\n", "bbbb\n", "cc\n", "dddddddddddddd\n", "e\n", "f\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        let expected = [
            ("log", "e\nf\n"),
            ("log.1", "dddddddddddddd\n"),
            ("log.2", "cc\n"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(names_and_texts(&dir), expected);
    }

    #[test]
    fn a_start_goes_on_in_the_file_that_is_there() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("log");
        for line in ["aaaa\n", "bbbb\n", "cccc\n"] {
            let mut log = LogFile::open(&path, 10, 1).unwrap();
            log.write_all(line.as_bytes()).unwrap();
        }
        let texts: Vec<_> = names_and_texts(&dir)
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(texts, ["cccc\n", "aaaa\nbbbb\n"]);
    }

    #[test]
    fn a_file_has_one_writer_and_one_that_cannot_be_rotated_is_written_on() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("log");
        let mut log = LogFile::open(&path, 5, 1).unwrap();
        let refused = LogFile::open(&path, 5, 1).unwrap_err().to_string();
        assert!(refused.contains("another process writes to"), "{refused}");
        // A folder in the way.
        std::fs::create_dir_all(dir.path().join("log.1/full")).unwrap();
        for line in ["aaaa\n", "bbbb\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "aaaa\nbbbb\n");
        let missing = LogFile::open(&dir.path().join("none/log"), 5, 1).unwrap_err();
        assert!(missing.to_string().contains("a folder that exists"));
    }
}
