//! Room that is given up when a disk is so full that not even a checkpoint can be stored: only shipping, which
//! needs checkpoints, makes room again.
//!
//! While it is missing, nothing is appended: an append would take the room that shipping needs to get out of a
//! full disk, and the log would stay as it is until somebody else makes room.

use crate::fs::Fs;
use crate::log::is_want_of_room;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "reserve";
/// Bytes of it: room for a checkpoint while the one before is still there.
pub(crate) const RESERVE_BYTES: u64 = 2 << 20;

/// The reserve of a log, known to be there or not without asking the disk.
#[derive(Debug)]
pub(crate) struct Reserve(AtomicBool);

impl Reserve {
    /// The reserve of a folder, made if there is room. An error is one of a disk that fails.
    pub fn of(fs: &dyn Fs, dir: &Path) -> io::Result<Self> {
        let reserve = Self(AtomicBool::new(false));
        match reserve.keep(fs, dir) {
            // Without, a log is opened all the same: it has to be shipped.
            Err(error) if is_want_of_room(&error) => Ok(reserve),
            kept => kept.map(|()| reserve),
        }
    }

    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sets it aside if it is not there, or not all of it: a crash may have come before it had its room. An error
    /// says why it still is not, and changes nothing.
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

    /// Gives its room up; whether there was any. Only once the folder is synced does the room count as free.
    pub fn give_up(&self, fs: &dyn Fs, dir: &Path) -> bool {
        // First, so that no append takes what becomes free.
        self.0.store(false, Ordering::Release);
        fs.unlink(&dir.join(NAME)).is_ok()
    }
}
