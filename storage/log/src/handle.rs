//! Handle of a log, for everyone but the writer.

use crate::checkpoint::{self, HighWater};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::shared::Shared;
use crate::{CheckpointError, Poisoned, Position, Reader, ReleaseError, Usage};
use std::sync::{Arc, PoisonError};

/// Handle of a log: reads, releases, and stores the checkpoint, from any thread. The directory
/// stays locked until the log and all its handles and readers are dropped.
#[derive(Clone, Debug)]
pub struct LogHandle {
    shared: Arc<Shared>,
}

impl LogHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns a reader from a position on: a frame's start or end, [`start`](Self::start) or
    /// [`Position::FIRST`]. Released frames are skipped.
    #[must_use]
    pub fn reader(&self, from: Position) -> Reader {
        Reader::new(Arc::clone(&self.shared), from)
    }

    /// End of the durable and readable part.
    #[must_use]
    pub fn synced(&self) -> Position {
        self.shared.state().synced
    }

    /// End of the log when it was opened: frames below were written by an earlier process.
    #[must_use]
    pub fn opened_at(&self) -> Position {
        self.shared.opened_at
    }

    /// Oldest position that is kept.
    #[must_use]
    pub fn start(&self) -> Position {
        let state = self.shared.state();
        match state.segments.first_key_value() {
            Some((&segment, _)) => Position {
                segment,
                offset: SEGMENT_HEADER_BYTES,
            },
            None => state.synced,
        }
    }

    /// Usage of the log's capacity.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.shared.usage()
    }

    /// Returns true while space for a checkpoint on a full disk is reserved. Without, nothing is
    /// appended, see [`AppendError::NoReserve`](crate::AppendError::NoReserve).
    #[must_use]
    pub fn has_reserve(&self) -> bool {
        self.shared.reserve.is_there()
    }

    /// Failure that stopped the log, if any.
    #[must_use]
    pub fn failure(&self) -> Option<Poisoned> {
        self.shared.poisoned()
    }

    /// Releases all frames below a position: segments with nothing else in them are unlinked, and
    /// their number is returned. The segment being written stays, as does the newest. Blocks, for
    /// some 40 ms for a segment of 64 MiB, since its space is given back in steps.
    ///
    /// Store the checkpoint that says so first: a crash in between then loses nothing.
    ///
    /// # Errors
    ///
    /// If a name could not be removed durably; the log is then poisoned.
    pub fn release(&self, below: Position) -> Result<u64, ReleaseError> {
        self.shared.check()?;
        {
            let mut state = self.shared.state();
            state.released = state.released.max(below.min(state.synced));
        }
        let unlinked = self.shared.unlink_released()?;
        if unlinked > 0 {
            // If it fails, appends try again.
            let _ = self.shared.keep_reserve_if_idle();
        }
        Ok(unlinked)
    }

    /// Replaces the checkpoint. When this returns, the new one is durable; after a crash before,
    /// it is either the old one or the new one, whole.
    ///
    /// # Errors
    ///
    /// `DiskFull` and `TooLarge` leave the old checkpoint; any other failure poisons the log.
    pub fn store_checkpoint(&self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let shared = &self.shared;
        let _one = shared
            .checkpoint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        shared.check()?;
        let high_water = {
            let state = shared.state();
            HighWater {
                segment: state.segment_newest,
                sequence: state.sequence_synced,
            }
        };
        let stored =
            checkpoint::store(&*shared.fs, &shared.dir, &shared.reserve, high_water, bytes);
        stored.map_err(|error| match error {
            CheckpointError::Io { path, source } => shared.poison("store", &path, &source).into(),
            other => other,
        })
    }

    /// Loads the checkpoint stored last; `None` if there never was one.
    ///
    /// # Errors
    ///
    /// `Corrupt` if its bytes do not fit together, `Version` if a newer program wrote it, `Io`
    /// if it cannot be read.
    pub fn load_checkpoint(&self) -> Result<Option<Vec<u8>>, CheckpointError> {
        let stored = checkpoint::load(&*self.shared.fs, &self.shared.dir)?;
        Ok(stored.map(|stored| stored.bytes))
    }
}
