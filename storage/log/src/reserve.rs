//! Reserved disk space that is given up when a disk is so full that not even a checkpoint can be
//! stored: only shipping, which needs checkpoints, frees space again.
//!
//! While it is missing, nothing is appended: an append would take the space that shipping needs,
//! and the disk would stay full until somebody else frees space.

use crate::fs::{Fs, is_out_of_space};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest checkpoint, in bytes: the reserve has space for it, and earlier versions can read it,
/// although they store no more than half of it.
pub const CHECKPOINT_BYTES_MAX: usize = (2 << 20) - (16 << 10);

const NAME: &str = "reserve";
/// Bytes of the reserve: enough for a checkpoint while the one before is still there.
pub(crate) const RESERVE_BYTES: u64 = 2 << 20;

/// Reserve of a log; a flag tells whether it exists without asking the disk.
#[derive(Debug)]
pub(crate) struct Reserve(AtomicBool);

impl Reserve {
    /// Allocates the reserve of a folder, if the disk is not full. An error is one of a disk that
    /// fails.
    pub fn of(fs: &dyn Fs, dir: &Path) -> io::Result<Self> {
        let reserve = Self(AtomicBool::new(false));
        match reserve.keep(fs, dir) {
            // A log is opened without a reserve all the same: it has to be shipped.
            Err(error) if is_out_of_space(&error) => Ok(reserve),
            kept => kept.map(|()| reserve),
        }
    }

    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Allocates the reserve if it is missing, or a part of it: a crash may have come in between.
    /// After an error it still is missing.
    pub fn keep(&self, fs: &dyn Fs, dir: &Path) -> io::Result<()> {
        let path = dir.join(NAME);
        let opened = fs.open_writable(&path).or_else(|_| fs.create(&path));
        if let Err(error) = opened.and_then(|file| file.allocate(0..RESERVE_BYTES)) {
            let _ = fs.unlink(&path);
            return Err(error);
        }
        self.0.store(true, Ordering::Release);
        Ok(())
    }

    /// Gives the reserve up; true if there was one. Its space counts as free only once the folder
    /// is synced.
    pub fn give_up(&self, fs: &dyn Fs, dir: &Path) -> bool {
        // Before the unlink, so that no append takes the space that becomes free.
        self.0.store(false, Ordering::Release);
        fs.unlink(&dir.join(NAME)).is_ok()
    }
}
