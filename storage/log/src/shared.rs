//! State shared by the writer, the handles and the readers of a log.

use crate::fail_point::{FailPoint, pass};
use crate::fs::{File, Fs, LockGuard};
use crate::reserve::Reserve;
use crate::segment::{self, SEGMENT_HEADER_BYTES};
use crate::{Poisoned, Position, Usage};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

/// Bytes by which an unlinked segment is truncated at a time, with pauses. Freed at once, 64 MiB
/// take 4 ms of a core that has requests to serve, and 16 ms of ext4, 14 of which it waits.
const FREE_STEP_BYTES: u64 = 1 << 20;
const FREE_PAUSE: Duration = Duration::from_micros(500);
/// Most files that are held open for truncation at a time, since descriptors are few.
const FREE_FILES_MAX: usize = 16;

/// Shared state, held by the log and by every handle and reader; the directory stays locked until
/// the last of them is dropped.
#[derive(Debug)]
pub(crate) struct Shared {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    pub bytes_max: u64,
    /// End of the log when it was opened.
    pub opened_at: Position,
    /// Bytes of headers and frames in all segments. Outside the lock, so that an append does not
    /// take it.
    pub bytes_used: AtomicU64,
    state: Mutex<State>,
    poison: OnceLock<Poisoned>,
    /// Held while a checkpoint is stored: all use the same temporary file.
    pub checkpoint: Mutex<()>,
    pub reserve: Reserve,
    _lock: Box<dyn LockGuard>,
}

/// Segments and positions. `synced` is never beyond the durable part.
#[derive(Debug)]
pub(crate) struct State {
    pub segments: BTreeMap<u64, Segment>,
    pub synced: Position,
    pub sequence_synced: u64,
    /// Position below which everything is released.
    pub released: Position,
    /// Highest segment number used, also if the segment is gone.
    pub segment_newest: u64,
}

/// A segment as readers need it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Salt of the segment; `None` if nothing in it can be read.
    pub salt: Option<u64>,
    /// End of the readable part: all of it is durable.
    pub end: u64,
    /// Bytes that count towards the log's usage, without frames that are not synced yet.
    pub bytes: u64,
    /// Damaged ranges found when the log was opened; readers skip them.
    pub damaged: Vec<Range<u64>>,
}

impl Segment {
    pub fn new(salt: u64) -> Self {
        Self {
            salt: Some(salt),
            end: SEGMENT_HEADER_BYTES,
            bytes: SEGMENT_HEADER_BYTES,
            damaged: Vec::new(),
        }
    }
}

impl Shared {
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: PathBuf,
        bytes_max: u64,
        state: State,
        reserve: Reserve,
        lock: Box<dyn LockGuard>,
    ) -> Self {
        let bytes_used = state.segments.values().map(|segment| segment.bytes).sum();
        Self {
            fs,
            dir,
            bytes_max,
            opened_at: state.synced,
            bytes_used: AtomicU64::new(bytes_used),
            state: Mutex::new(state),
            poison: OnceLock::new(),
            checkpoint: Mutex::new(()),
            reserve,
            _lock: lock,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while holding the lock; if one did, the state would still be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn path_of(&self, segment: u64) -> PathBuf {
        self.dir.join(segment::file_name(segment))
    }

    pub fn usage(&self) -> Usage {
        Usage {
            bytes_used: self.bytes_used.load(Ordering::Relaxed),
            bytes_max: self.bytes_max,
        }
    }

    /// Allocates the reserve if it is missing, unless a checkpoint is being stored, which may have
    /// just given it up. Never waits.
    pub fn keep_reserve_if_idle(&self) -> io::Result<()> {
        let one = match self.checkpoint.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::ResourceBusy.into()),
        };
        let kept = self.reserve.keep(&*self.fs, &self.dir);
        drop(one);
        kept
    }

    /// Fails if the log is poisoned.
    pub fn check(&self) -> Result<(), Poisoned> {
        match self.poison.get() {
            Some(poisoned) => Err(poisoned.clone()),
            None => Ok(()),
        }
    }

    pub fn poisoned(&self) -> Option<Poisoned> {
        self.poison.get().cloned()
    }

    /// Poisons the log with its first failure and returns that.
    #[cold]
    pub fn poison(&self, action: &str, path: &Path, error: &dyn Display) -> Poisoned {
        let new = || Poisoned {
            reason: format!("cannot {action} {}: {error}", path.display()),
        };
        self.poison.get_or_init(new).clone()
    }

    /// Unlinks the segments that are released as a whole, but never the newest: its number must
    /// stay known, as positions are not used twice. Their space is free when this returns.
    pub fn unlink_released(&self) -> Result<u64, Poisoned> {
        let gone = self.take_released();
        let mut nameless = Vec::new();
        // Oldest first: a power cut in between leaves no hole.
        for &(number, bytes) in &gone {
            let path = self.path_of(number);
            // The space of a file that is not held open is freed at once, by the unlink.
            let file = (nameless.len() < FREE_FILES_MAX).then(|| self.fs.open_writable(&path).ok());
            pass(FailPoint::SegmentDue);
            self.fs
                .unlink(&path)
                .map_err(|error| self.poison("unlink", &path, &error))?;
            pass(FailPoint::SegmentDeleted);
            nameless.push((file.flatten(), bytes));
        }
        if !gone.is_empty() {
            self.fs
                .sync_dir(&self.dir)
                .map_err(|error| self.poison("sync", &self.dir, &error))?;
        }
        // Only now: a file that came back after a power cut would lack frames.
        for (file, bytes) in nameless {
            if let Some(file) = file {
                free_by_steps(&*file);
            }
            self.bytes_used.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(gone.len() as u64)
    }

    /// Takes the segments that are released as a whole out of the state; returns their numbers and
    /// bytes.
    fn take_released(&self) -> Vec<(u64, u64)> {
        let mut gone = Vec::new();
        let mut state = self.state();
        let released = state.released;
        let newest = state.segment_newest;
        state.segments.retain(|&number, segment| {
            let end = Position {
                segment: number,
                offset: segment.end,
            };
            let stays = number >= newest || end > released;
            if !stays {
                gone.push((number, segment.bytes));
            }
            stays
        });
        gone
    }
}

/// Frees the space of an unlinked file in steps, from its end. After an error the file system frees
/// the rest when the file is closed. A file with another hard link belongs to a backup (`cp -al`,
/// `rsync --link-dest`), and stays whole.
fn free_by_steps(file: &dyn File) {
    if !matches!(file.link_count(), Ok(0)) {
        return;
    }
    let Ok(mut bytes) = file.len() else { return };
    while bytes > FREE_STEP_BYTES {
        bytes -= FREE_STEP_BYTES;
        if file.truncate(bytes).is_err() {
            return;
        }
        std::thread::sleep(FREE_PAUSE);
    }
}
