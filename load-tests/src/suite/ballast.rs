//! Memory that a log in memory grows into.
//!
//! A virtual machine may give memory that nobody uses back to its host, and getting it again costs
//! eight times as much as writing to it: 0.3 instead of 2.7 GB/s were measured. A log that grows for
//! some seconds gets there, and then the host is what is measured. So the suite holds memory that is
//! there, as a file on the file system of such logs, and gives as much of it back as they take.

use anyhow::{Context, Result, ensure};
use rustix::fs::statvfs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Written at once.
static STEP: [u8; 1 << 20] = [0; 1 << 20];
/// How often is looked what logs have taken: some MiB at most in between.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Less than this is not worth a step.
const SLACK_BYTES: u64 = 16 << 20;
/// How long it may take until all of it is held again.
const PATIENCE: Duration = Duration::from_secs(120);

/// Holds memory until it is dropped.
#[derive(Debug)]
pub struct Ballast {
    folder: PathBuf,
    /// Bytes used on the file system when all of it is held.
    used_max: u64,
    failure: Arc<Mutex<Option<String>>>,
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The file, and how much of it there is.
#[derive(Debug)]
struct Held {
    folder: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    used_max: u64,
}

impl Ballast {
    /// Begins to hold so many bytes in a folder in memory.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn hold(folder: &Path, bytes: u64) -> Result<Self> {
        let file = tempfile::tempfile_in(folder)
            .with_context(|| format!("cannot make a file in {}", folder.display()))?;
        let used_max = used_bytes(folder)? + bytes;
        let mut held = Held {
            folder: folder.to_owned(),
            file,
            bytes: 0,
            bytes_max: bytes,
            used_max,
        };
        let (stop, stopped) = sync_channel(0);
        let failure = Arc::new(Mutex::new(None));
        let told = Arc::clone(&failure);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = held.balance() {
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                    return;
                }
            }
        });
        Ok(Self {
            folder: folder.to_owned(),
            used_max,
            failure,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Waits until what logs of before have left is held.
    ///
    /// # Errors
    /// It could not be.
    pub fn settle(&self) -> Result<()> {
        let begun = Instant::now();
        while used_bytes(&self.folder)? + SLACK_BYTES < self.used_max {
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            ensure!(failure.is_none(), "memory cannot be held: {failure:?}");
            drop(failure);
            ensure!(begun.elapsed() < PATIENCE, "memory is not there in time");
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has told why, if it ended before.
            let _ = thread.join();
        }
    }
}

impl Held {
    /// Takes what is left of the memory that is meant for logs, or gives back what they took.
    fn balance(&mut self) -> Result<()> {
        let used = used_bytes(&self.folder)?;
        if used > self.used_max {
            let bytes = self.bytes.saturating_sub(used - self.used_max);
            self.file.set_len(bytes)?;
            self.bytes = bytes;
            return Ok(());
        }
        let left = (self.used_max - used).min(self.bytes_max.saturating_sub(self.bytes));
        if left >= SLACK_BYTES {
            for _ in 0..left / STEP.len() as u64 {
                self.file.write_all_at(&STEP, self.bytes)?;
                self.bytes += STEP.len() as u64;
            }
        }
        Ok(())
    }
}

fn used_bytes(folder: &Path) -> Result<u64> {
    let there = statvfs(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    Ok((there.f_blocks - there.f_bfree) * there.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_given_back_as_is_taken_and_held_again_when_it_is_left() {
        const HELD: u64 = 64 << 20;
        let folder = Path::new("/dev/shm");
        let before = used_bytes(folder).unwrap();
        let ballast = Ballast::hold(folder, HELD).unwrap();
        ballast.settle().unwrap();
        let full = used_bytes(folder).unwrap();
        assert!(full + SLACK_BYTES >= before + HELD, "{before} {full}");
        let log = tempfile::tempfile_in(folder).unwrap();
        log.write_all_at(&vec![1; HELD as usize / 2], 0).unwrap();
        let begun = Instant::now();
        while used_bytes(folder).unwrap() > full + SLACK_BYTES {
            assert!(begun.elapsed() < PATIENCE, "nothing is given back");
        }
        drop(log);
        ballast.settle().unwrap();
    }
}
