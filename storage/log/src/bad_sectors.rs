//! Reads files on a disk that cannot read some of its sectors.
//!
//! A disk answers for such a sector with an error instead of wrong bytes. The bytes around it are
//! read in small steps, and those that cannot be read after some tries are filled with bytes that
//! pass no checksum, so that they are damage like any other: skipped and reported, and nothing else
//! is lost. A disk that is gone altogether fails writes as well, which poisons the log.

use crate::fs::File;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of one step near a bad sector: a sector of any disk, or a page of the system.
const STEP_BYTES: u64 = 4096;
/// Pauses between tries to read all at once: a path to a disk may fail for seconds.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// Consecutive failed steps after which the rest of a read is given up: a disk may take seconds for
/// each.
const STEPS_FAILED_MAX: u32 = 64;
/// Filler for bytes that cannot be read. Zeros would pass for bytes that were never written.
const FILL: u8 = 0xee;

/// A file whose unreadable bytes are damaged, and all others unchanged.
#[derive(Debug)]
pub(crate) struct TolerantFile {
    file: Arc<dyn File>,
    /// Offsets of steps that could not be read.
    unreadable: Mutex<Vec<u64>>,
}

impl TolerantFile {
    pub(crate) fn new(file: Arc<dyn File>) -> Arc<Self> {
        let unreadable = Mutex::default();
        Arc::new(Self { file, unreadable })
    }

    /// Returns true if bytes in a range could not be read.
    pub(crate) fn has_failed(&self, range: &Range<u64>) -> bool {
        self.unreadable()
            .iter()
            .any(|start| *start < range.end && range.start < start + STEP_BYTES)
    }

    fn unreadable(&self) -> MutexGuard<'_, Vec<u64>> {
        self.unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn read_at_once(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()> {
        let start = out.len();
        for pause in PAUSES {
            match self.file.read_at(out, bytes, offset) {
                Err(error) if is_bad_sector(&error) => {}
                read => return read,
            }
            out.truncate(start);
            self.file.pause(pause);
        }
        self.file.read_at(out, bytes, offset)
    }

    fn read_in_steps(&self, out: &mut Vec<u8>, range: Range<u64>) -> io::Result<()> {
        let end = range.end.min(self.file.len()?);
        let (mut at, mut failed) = (range.start, 0);
        while at < end {
            let step = at - at % STEP_BYTES;
            let step_end = (step + STEP_BYTES).min(end);
            let (bytes, start) = ((step_end - at) as usize, out.len());
            let is_known = self.unreadable().contains(&step);
            let read = match is_known || failed >= STEPS_FAILED_MAX {
                true => Err(Errno::IO.into()),
                false => self.file.read_at(out, bytes, at),
            };
            match read {
                Ok(()) => failed = 0,
                Err(error) if is_bad_sector(&error) => {
                    failed += 1;
                    out.resize(start, 0);
                    out.resize(start + bytes, FILL);
                    if !is_known {
                        self.unreadable().push(step);
                    }
                }
                Err(error) => return Err(error),
            }
            at = step_end;
        }
        Ok(())
    }
}

/// Returns true if the disk cannot read the bytes, and the request itself was valid.
fn is_bad_sector(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

impl File for TolerantFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()> {
        let range = offset..offset.saturating_add(bytes as u64);
        let start = out.len();
        // Steps that failed before are not waited for again.
        if !self.has_failed(&range) {
            match self.read_at_once(out, bytes, offset) {
                Err(error) if is_bad_sector(&error) => out.truncate(start),
                read => return read,
            }
        }
        self.read_in_steps(out, range)
    }

    fn read_cached_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<bool> {
        let start = out.len();
        match self.file.read_cached_at(out, bytes, offset) {
            // Read later, with retries.
            Err(error) if is_bad_sector(&error) => {
                out.truncate(start);
                Ok(false)
            }
            read => read,
        }
    }

    fn write_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_at(slices, offset)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.file.allocate(range)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn link_count(&self) -> io::Result<u64> {
        self.file.link_count()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A file whose first reads fail; counts reads.
    #[derive(Debug)]
    struct Failing {
        times: u32,
        errno: Errno,
        reads: AtomicU32,
    }

    impl File for Failing {
        fn len(&self) -> io::Result<u64> {
            Ok(3 * STEP_BYTES)
        }

        fn read_at(&self, out: &mut Vec<u8>, bytes: usize, _: u64) -> io::Result<()> {
            if self.reads.fetch_add(1, Ordering::Relaxed) < self.times {
                out.extend([7, 7]);
                return Err(self.errno.into());
            }
            out.resize(out.len() + bytes, 1);
            Ok(())
        }

        fn pause(&self, _: Duration) {}

        fn write_at(&self, _: &mut [IoSlice<'_>], _: u64) -> io::Result<()> {
            Ok(())
        }

        fn allocate(&self, _: Range<u64>) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn link_count(&self) -> io::Result<u64> {
            Ok(1)
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_transient_read_error_damages_nothing_and_a_lasting_one_only_its_steps() {
        // Number of failures, and the bytes that are filled in the end.
        let table = [
            (0, 0..0),
            (1, 0..0),
            (4, 0..0),
            // All at once five times, then its first step, of which only a part is asked for.
            (6, 0..4000),
            (7, 0..8096),
        ];
        for (times, filled) in table {
            let reads = AtomicU32::new(0);
            let errno = Errno::IO;
            let file = TolerantFile::new(Arc::new(Failing {
                times,
                errno,
                reads,
            }));
            let mut out = vec![9];
            file.read_at(&mut out, 10_000, 96).unwrap();
            assert_eq!((out.len(), out[0]), (10_001, 9), "{times}");
            for (at, byte) in out[1..].iter().enumerate() {
                let is_filled = filled.contains(&at);
                assert_eq!(*byte, if is_filled { FILL } else { 1 }, "{times}: {at}");
            }
            assert_eq!(file.has_failed(&(0..1)), !filled.is_empty());
            assert!(!file.has_failed(&(2 * STEP_BYTES..3 * STEP_BYTES)));
        }
    }

    #[test]
    fn other_errors_are_passed_on() {
        for errno in [Errno::NOMEM, Errno::STALE, Errno::PERM] {
            let reads = AtomicU32::new(0);
            let file = TolerantFile::new(Arc::new(Failing {
                times: 1,
                errno,
                reads,
            }));
            let read = file.read_at(&mut Vec::new(), 10, 0);
            let code = read.unwrap_err().raw_os_error();
            assert_eq!(code, Some(errno.raw_os_error()));
        }
    }
}
