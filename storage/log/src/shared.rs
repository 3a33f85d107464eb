//! What the writer, the handles and the readers of one log have in common.

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

/// A segment's room is given back in steps of so many bytes, with pauses. At once, 64 MiB take 4 ms of a
/// core that has requests to serve, and 16 ms of ext4, 14 of which it waits.
const FREE_STEP_BYTES: u64 = 1 << 20;
const FREE_PAUSE: Duration = Duration::from_micros(500);
/// Files that are held for it at a time, as descriptors are few.
const FREE_FILES_MAX: usize = 16;

/// Held by the log and by every handle and reader; the directory stays locked until the last of
/// them is gone.
#[derive(Debug)]
pub(crate) struct Shared {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    pub bytes_max: u64,
    /// Where the log ended when it was opened.
    pub opened_at: Position,
    /// Bytes of headers and frames in all segments. Beside the lock, so that an append does not
    /// take it.
    pub bytes_used: AtomicU64,
    state: Mutex<State>,
    poison: OnceLock<Poisoned>,
    /// One checkpoint at a time: all go through the same temporary file.
    pub checkpoint: Mutex<()>,
    pub reserve: Reserve,
    _lock: Box<dyn LockGuard>,
}

/// The segments there are. `synced` is never beyond what is durable.
#[derive(Debug)]
pub(crate) struct State {
    pub segments: BTreeMap<u64, Segment>,
    pub synced: Position,
    pub sequence_synced: u64,
    /// Everything below may go.
    pub released: Position,
    /// The highest number used, whether or not the segment is still there.
    pub segment_newest: u64,
}

/// What readers need to know of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Differs from segment to segment; `None` if nothing in it can be read.
    pub salt: Option<u64>,
    /// Where reading ends: all of it is durable.
    pub end: u64,
    /// What it counts towards the log's usage; what was appended and not yet synced is not in it.
    pub bytes: u64,
    /// Found when the log was opened; readers pass over it.
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
        // No code panics while holding it; were there any, the state would still be whole.
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

    /// Sets the reserve aside if it is missing, unless a checkpoint is being stored: that may be what has just
    /// given it up. Never waits.
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

    /// Fails if anything has failed before.
    pub fn check(&self) -> Result<(), Poisoned> {
        match self.poison.get() {
            Some(poisoned) => Err(poisoned.clone()),
            None => Ok(()),
        }
    }

    pub fn poisoned(&self) -> Option<Poisoned> {
        self.poison.get().cloned()
    }

    /// Remembers the first failure and returns it.
    #[cold]
    pub fn poison(&self, action: &str, path: &Path, error: &dyn Display) -> Poisoned {
        let new = || Poisoned {
            reason: format!("cannot {action} {}: {error}", path.display()),
        };
        self.poison.get_or_init(new).clone()
    }

    /// Unlinks the segments that are released as a whole, but never the newest: its number
    /// must stay known, as positions are not used twice. Their room is free when this returns.
    pub fn unlink_released(&self) -> Result<u64, Poisoned> {
        let gone = self.take_released();
        let mut nameless = Vec::new();
        // Oldest first: should the power go in between, no hole is left.
        for &(number, bytes) in &gone {
            let path = self.path_of(number);
            // Whose file is not held, its room is given back at once, by the unlink.
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
        // Only now: a file that came back with a power cut would be one that lacks frames.
        for (file, bytes) in nameless {
            if let Some(file) = file {
                free_by_steps(&*file);
            }
            self.bytes_used.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(gone.len() as u64)
    }

    /// Numbers and bytes of the segments that are released as a whole, which nobody finds any more.
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

/// Gives back the room of a file that has no name any more, from its end. What goes wrong is the file
/// system's to mend: it has the rest when the file is closed. A file that still has one is a backup's by hard
/// links (`cp -al`, `rsync --link-dest`), and stays whole.
fn free_by_steps(file: &dyn File) {
    if !matches!(file.names(), Ok(0)) {
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
