//! The file system as the log needs it, a trait so that tests can make it fail.
//!
//! The contract is the weakest one that real file systems keep: written bytes survive a power
//! cut only after [`File::sync_data`], names (created, renamed, unlinked) only after
//! [`Fs::sync_dir`], and nothing is known about either after an error.

mod disk;

pub use disk::DiskFs;

use rustix::io::Errno;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// File system: directories and names.
pub trait Fs: Send + Sync + Debug {
    /// Makes a directory in an existing one; true if it was missing.
    fn create_dir(&self, dir: &Path) -> io::Result<bool>;
    /// Creates an empty file, or empties the one of that name; open for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading and writing.
    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Renames within a directory, replacing what had the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable; not those in the directories in it, nor its own.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Lists the names of the files in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Takes an exclusive lock on a file, made if absent; `None` if another holder has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>>;
    /// Returns a number that senders of events cannot guess.
    fn random(&self) -> u64;
}

/// Makes a directory and its missing parents, and its name durable. An existing directory may have
/// been made by a process that died before it could sync the name.
pub(crate) fn make_dir(fs: &dyn Fs, dir: &Path) -> io::Result<()> {
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let was_missing = match fs.create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && parent != dir => {
            make_dir(fs, parent)?;
            fs.create_dir(dir)
        }
        made => made,
    }?;
    match fs.sync_dir(parent) {
        // Made by a process that may read the parent, as this one may not.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !was_missing => Ok(()),
        synced => synced,
    }
}

/// Guard that holds a lock until dropped.
pub trait LockGuard: Send + Sync + Debug {}

/// One open file.
#[expect(clippy::len_without_is_empty, reason = "nobody asks")]
pub trait File: Send + Sync + Debug {
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
    /// Appends `bytes` bytes from `offset` on to `out`; fewer only at the end of the file.
    fn read_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()>;
    /// Reads like [`read_at`](Self::read_at) if that takes no waiting for a disk; otherwise, or if
    /// that is not known, returns `false`, and nothing is appended.
    fn read_cached_at(&self, _out: &mut Vec<u8>, _bytes: usize, _offset: u64) -> io::Result<bool> {
        Ok(false)
    }
    /// Waits before a failed read is tried again.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
    /// Writes all slices, one after the other, from `offset` on.
    fn write_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Allocates disk space for a range, whose bytes are zero where nothing was written, and grows
    /// the file to its end.
    fn allocate(&self, range: Range<u64>) -> io::Result<()>;
    /// Cuts the file to `bytes`.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Number of the file's hard links: its own name, and others.
    fn link_count(&self) -> io::Result<u64>;
    /// Makes the written bytes and the length durable. Must not be called again after an error: the
    /// kernel marks the failed pages clean, and the next call reports success.
    fn sync_data(&self) -> io::Result<()>;
}

/// Returns true if a disk or a descriptor table is full: it may empty again, and nothing is broken.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    let full = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| full.iter().any(|errno| errno.raw_os_error() == code))
}
