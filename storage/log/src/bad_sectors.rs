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
/// Consecutive failed steps from which on only some are tried, as a disk may take seconds for each.
const STEPS_FAILED_MAX: u32 = 64;
/// Steps from one that is tried to the next one then. Those between are read once that can be read.
const STRIDE_STEPS: u64 = 16;
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

    /// Reads step by step. Behind many steps that cannot be read every [`STRIDE_STEPS`]th is tried,
    /// until one can be read; then those before it are, so that no frame behind the damage is lost.
    fn read_in_steps(&self, out: &mut Vec<u8>, range: Range<u64>) -> io::Result<()> {
        let end = range.end.min(self.file.len()?);
        let (mut at, mut failed) = (range.start, 0_u32);
        while at < end {
            if failed >= STEPS_FAILED_MAX {
                let sound = self.sound_at(at, end)?;
                fill(out, sound - at);
                at = sound;
                failed = 0;
                continue;
            }
            let step_end = (step_of(at) + STEP_BYTES).min(end);
            let is_read = self.read_step(out, at..step_end)?;
            failed = if is_read { 0 } else { failed + 1 };
            at = step_end;
        }
        Ok(())
    }

    /// Reads bytes of a step, or fills them. Returns true if they could be read.
    fn read_step(&self, out: &mut Vec<u8>, range: Range<u64>) -> io::Result<bool> {
        let (step, start) = (step_of(range.start), out.len());
        let is_known = self.unreadable().contains(&step);
        let read = match is_known {
            true => Err(Errno::IO.into()),
            false => {
                let bytes = (range.end - range.start) as usize;
                self.file.read_at(out, bytes, range.start)
            }
        };
        match read {
            Ok(()) => Ok(true),
            Err(error) if is_bad_sector(&error) => {
                out.truncate(start);
                fill(out, range.end - range.start);
                if !is_known {
                    self.unreadable().push(step);
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the offset from which on steps are tried one by one again, at `end` at the latest;
    /// those before count as unreadable.
    fn sound_at(&self, from: u64, end: u64) -> io::Result<u64> {
        let last = step_of(end.saturating_sub(1));
        let (mut before, mut sound) = (from, end);
        let mut tried = (step_of(from) + (STRIDE_STEPS - 1) * STEP_BYTES).min(last);
        loop {
            let step_end = (tried + STEP_BYTES).min(end);
            if self.read_step(&mut Vec::new(), tried..step_end)? {
                sound = before;
                break;
            }
            if tried == last {
                break;
            }
            before = tried + STEP_BYTES;
            tried = (tried + STRIDE_STEPS * STEP_BYTES).min(last);
        }
        let mut unreadable = self.unreadable();
        let passed = (step_of(from)..sound).step_by(STEP_BYTES as usize);
        let passed: Vec<u64> = passed.filter(|step| !unreadable.contains(step)).collect();
        unreadable.extend(passed);
        Ok(sound)
    }
}

/// Start of the step that an offset is in.
const fn step_of(offset: u64) -> u64 {
    offset - offset % STEP_BYTES
}

fn fill(out: &mut Vec<u8>, bytes: u64) {
    let filled = out.len() + bytes as usize;
    out.resize(filled, FILL);
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

    /// A file whose first reads fail, and those of a range of steps; counts reads that fail.
    #[derive(Debug)]
    struct Failing {
        steps: u64,
        bad: Range<u64>,
        times: u32,
        errno: Errno,
        failed: AtomicU32,
    }

    impl Failing {
        fn new(times: u32, errno: Errno) -> Self {
            Self {
                steps: 3,
                bad: 0..0,
                times,
                errno,
                failed: AtomicU32::new(0),
            }
        }
    }

    impl File for Failing {
        fn len(&self) -> io::Result<u64> {
            Ok(self.steps * STEP_BYTES)
        }

        fn read_at(&self, out: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<()> {
            let steps = offset / STEP_BYTES..(offset + bytes as u64).div_ceil(STEP_BYTES);
            let is_bad = steps.start < self.bad.end && self.bad.start < steps.end;
            if is_bad || self.failed.load(Ordering::Relaxed) < self.times {
                self.failed.fetch_add(1, Ordering::Relaxed);
                out.extend([7, 7]);
                return Err(self.errno.into());
            }
            let there = (self.steps * STEP_BYTES)
                .saturating_sub(offset)
                .min(bytes as u64);
            out.resize(out.len() + there as usize, 1);
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
            let file = TolerantFile::new(Arc::new(Failing::new(times, Errno::IO)));
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
    fn bytes_behind_any_number_of_bad_sectors_are_read_after_few_tries() {
        let table = [
            (1024, 3..60),
            (1024, 0..64),
            (1024, 0..65),
            (1024, 10..200),
            (1024, 0..1000),
            (1024, 0..1023),
            (1024, 0..1024),
            (70, 2..69),
        ];
        for (steps, bad) in table {
            let disk = Arc::new(Failing {
                steps,
                bad: bad.clone(),
                ..Failing::new(0, Errno::IO)
            });
            let file = TolerantFile::new(Arc::clone(&disk) as Arc<dyn File>);
            for _ in 0..2 {
                let mut out = Vec::new();
                file.read_at(&mut out, 1 << 30, 0).unwrap();
                assert_eq!(out.len() as u64, steps * STEP_BYTES);
                for (step, bytes) in (0..).zip(out.chunks(STEP_BYTES as usize)) {
                    let expected = if bad.contains(&step) { FILL } else { 1 };
                    let is_filled = bytes.iter().all(|byte| *byte == expected);
                    assert!(is_filled, "step {step} of {bad:?}");
                }
            }
            let failed = disk.failed.load(Ordering::Relaxed);
            assert!(failed <= 5 + 64 + 64 + 16, "{failed} of {bad:?}");
        }
    }

    #[test]
    fn other_errors_are_passed_on() {
        for errno in [Errno::NOMEM, Errno::STALE, Errno::PERM] {
            let file = TolerantFile::new(Arc::new(Failing::new(1, errno)));
            let read = file.read_at(&mut Vec::new(), 10, 0);
            let code = read.unwrap_err().raw_os_error();
            assert_eq!(code, Some(errno.raw_os_error()));
        }
    }
}
