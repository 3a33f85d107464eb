//! Files on a disk that cannot read some of its sectors.
//!
//! A disk answers for such a sector with an error instead of wrong bytes. What is to be read beside it is
//! read in small steps, and what cannot be read after some tries is filled with bytes that pass no checksum,
//! so that it is damage like any other: passed over, told of, and no more than that is lost. A disk that is
//! gone altogether refuses writes as well, which nothing here forgives.

use crate::fs::File;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that are read at once where not all can be: a sector of any disk, or a page of the system's.
const STEP_BYTES: u64 = 4096;
/// Pauses between tries to read all at once: a path to a disk may be away for seconds.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// Steps without success in a row, after which the rest of a read is given up: a disk may think for seconds
/// about each.
const STEPS_FAILED_MAX: u32 = 64;
/// Stands for what cannot be read. Zeros would pass for what was never written.
const FILL: u8 = 0xee;

/// A file of which what cannot be read is damaged, and all else is as it is.
#[derive(Debug)]
pub(crate) struct TolerantFile {
    file: Arc<dyn File>,
    /// Steps that could not be read, by their start.
    unreadable: Mutex<Vec<u64>>,
}

impl TolerantFile {
    pub(crate) fn new(file: Arc<dyn File>) -> Arc<Self> {
        let unreadable = Mutex::default();
        Arc::new(Self { file, unreadable })
    }

    /// Whether something in a range could not be read.
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

/// Tells that the disk cannot give the bytes, and not that we asked for the wrong ones.
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
        // What is known to fail is not waited for again.
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
            // To be read with patience.
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

    fn names(&self) -> io::Result<u64> {
        self.file.names()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Fails so many times; counts reads.
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

        fn names(&self) -> io::Result<u64> {
            Ok(1)
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_fails_for_a_while_damages_nothing_and_one_that_goes_on_a_step() {
        // How often it fails, and which bytes are filled in the end.
        let table = [
            (0, 0..0),
            (1, 0..0),
            (4, 0..0),
            // All at once five times, then its first step, which is cut off by what is asked for.
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
