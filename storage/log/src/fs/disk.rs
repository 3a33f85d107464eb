//! The real file system.

use super::{File, Fs, LockGuard};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Files of the operating system, by descriptor and offset; no mmap, which would turn a failing
/// disk into a SIGBUS.
#[derive(Copy, Clone, Debug, Default)]
pub struct DiskFs;

#[derive(Debug)]
struct DiskFile(fs::File);

#[derive(Debug)]
struct DiskLock(#[expect(dead_code, reason = "held for its drop")] fs::File);

impl LockGuard for DiskLock {}

impl Fs for DiskFs {
    fn create_dir(&self, dir: &Path) -> io::Result<bool> {
        match fs::create_dir(dir) {
            Ok(()) => Ok(true),
            // Also on a read-only mount, where no directory can be made.
            Err(_) if dir.is_dir() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(DiskFile(fs::File::open(path)?)))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // A name that is not UTF-8 is not ours.
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(DiskLock(file)))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn random(&self) -> u64 {
        // The standard library seeds its hash maps from the operating system.
        RandomState::new().hash_one(0u64)
    }
}

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()> {
        let (mut filled, full) = (out.len(), out.len() + bytes);
        let first = filled;
        // Not into the spare capacity: `out` may have capacity for far more than was asked for, all
        // of which would be read.
        out.resize(full, 0);
        while let Some(rest) = out.get_mut(filled..full).filter(|it| !it.is_empty()) {
            let at = offset + (filled - first) as u64;
            match rustix::io::pread(&self.0, rest, at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(error) => {
                    out.truncate(filled);
                    return Err(error.into());
                }
            }
        }
        out.truncate(filled);
        Ok(())
    }

    fn read_cached_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<bool> {
        let start = out.len();
        out.resize(start + bytes, 0);
        let space = out.get_mut(start..).unwrap_or_default();
        let flags = ReadWriteFlags::NOWAIT;
        let read = rustix::io::preadv2(&self.0, &mut [IoSliceMut::new(space)], offset, flags);
        if read == Ok(bytes) {
            return Ok(true);
        }
        out.truncate(start);
        // tmpfs is all cache, and does not know the flag. Any other error is left to the blocking
        // read.
        if read == Err(Errno::OPNOTSUPP) && self.is_in_memory()? {
            self.read_at(out, bytes, offset)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn write_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        write_all(slices, offset, |slices, offset| {
            rustix::io::pwritev(&self.0, slices, offset)
        })
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        let bytes = range.end.saturating_sub(range.start);
        loop {
            match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), range.start, bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) => return self.fill_with_zeros(range),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn link_count(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.nlink())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl DiskFile {
    fn is_in_memory(&self) -> io::Result<bool> {
        // TMPFS_MAGIC of linux/magic.h, statfs(2).
        Ok(rustix::fs::fstatfs(&self.0)?.f_type == 0x0102_1994)
    }

    /// Allocates by writing zeros, for file systems without fallocate.
    #[cold]
    fn fill_with_zeros(&self, range: Range<u64>) -> io::Result<()> {
        let zeros = [0u8; 65_536];
        let mut offset = range.start;
        while offset < range.end {
            let n = (range.end - offset).min(zeros.len() as u64);
            let chunk = zeros.get(..n as usize).unwrap_or_default();
            self.write_at(&mut [IoSlice::new(chunk)], offset)?;
            offset += n;
        }
        Ok(())
    }
}

/// Writes all of `slices` from `offset` on, however little each call of `write` takes.
///
/// Linux writes at most 0x7ffff000 bytes at once, and less where a signal or a file system cuts a
/// call short (write(2)).
///
/// # Errors
///
/// The first error of `write` but an interruption; `WriteZero` when it takes nothing.
fn write_all(
    mut slices: &mut [IoSlice<'_>],
    mut offset: u64,
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match write(slices, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut slices, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_or_interrupted_writes_resume_where_they_ended() {
        let file = DiskFile(tempfile::tempfile().unwrap());
        let expected: Vec<u8> = (0..250).collect();
        for cut in [1, 3, 7, 100, 250] {
            let (first, rest) = expected.split_at(11);
            let mut slices = [first, &[], rest].map(IoSlice::new);
            let mut interrupted = false;
            write_all(&mut slices, 5, |slices, offset| {
                interrupted = !interrupted;
                if interrupted {
                    return Err(Errno::INTR);
                }
                let bytes: Vec<u8> = slices.iter().flat_map(|it| it.iter().copied()).collect();
                let bytes = &bytes[..cut.min(bytes.len())];
                rustix::io::pwrite(&file.0, bytes, offset)
            })
            .unwrap();
            let mut found = Vec::new();
            file.read_at(&mut found, 300, 5).unwrap();
            assert_eq!(found, expected, "{cut} bytes at once");
        }
    }

    #[test]
    fn a_write_that_takes_nothing_or_fails_is_an_error() {
        for (outcome, expected) in [
            (Ok(0), io::ErrorKind::WriteZero),
            (Err(Errno::NOSPC), io::ErrorKind::StorageFull),
        ] {
            let error = write_all(&mut [IoSlice::new(b"some")], 0, |_, _| outcome).unwrap_err();
            assert_eq!(error.kind(), expected);
        }
    }

    #[test]
    fn a_read_appends_what_was_asked_for_and_no_more() {
        let file = DiskFile(tempfile::tempfile().unwrap());
        file.write_at(&mut [IoSlice::new(b"0123456789")], 0)
            .unwrap();
        let mut out = Vec::with_capacity(1 << 20);
        for (bytes, offset, expected) in [
            (3, 2, "234"),
            (4, 6, "2346789"),
            (0, 0, "2346789"),
            (5, 8, "234678989"),
            (5, 10, "234678989"),
        ] {
            file.read_at(&mut out, bytes, offset).unwrap();
            assert_eq!(out, expected.as_bytes(), "{bytes} from {offset}");
        }
    }

    #[test]
    fn a_cached_read_returns_all_bytes_or_none() {
        for dir in [Path::new("/dev/shm"), &std::env::temp_dir()] {
            let file = DiskFile(tempfile::tempfile_in(dir).unwrap());
            file.write_at(&mut [IoSlice::new(b"0123456789")], 0)
                .unwrap();
            let mut out = b"before".to_vec();
            assert!(file.read_cached_at(&mut out, 4, 3).unwrap(), "{dir:?}");
            assert_eq!(out, b"before3456", "{dir:?}");
            if !file.is_in_memory().unwrap() {
                assert!(!file.read_cached_at(&mut out, 4, 8).unwrap(), "{dir:?}");
                assert_eq!(out, b"before3456", "{dir:?}");
            }
        }
    }

    #[test]
    fn without_fallocate_space_is_allocated_by_writing_zeros() {
        let file = DiskFile(tempfile::tempfile().unwrap());
        file.write_at(&mut [IoSlice::new(&[7; 100])], 0).unwrap();
        for range in [100..150, 150..150, 150..200_000] {
            file.fill_with_zeros(range.clone()).unwrap();
            assert_eq!(file.len().unwrap(), range.end, "{range:?}");
        }
        let mut read = Vec::new();
        file.read_at(&mut read, 300_000, 0).unwrap();
        assert!(read[..100].iter().all(|byte| *byte == 7));
        assert!(read[100..].iter().all(|byte| *byte == 0));
        let empty = DiskFile(tempfile::tempfile().unwrap());
        empty.fill_with_zeros(0..70_000).unwrap();
        assert_eq!(empty.len().unwrap(), 70_000);
    }
}
