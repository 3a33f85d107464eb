//! What everyone but the writer uses of a log.

use crate::checkpoint::{self, Floor};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::shared::Shared;
use crate::{CheckpointError, Poisoned, Position, Reader, ReleaseError, Usage};
use std::sync::{Arc, PoisonError};

/// Reads, releases and remembers, from any thread. The directory stays locked until the log
/// and all its handles and readers are dropped.
#[derive(Clone, Debug)]
pub struct LogHandle {
    shared: Arc<Shared>,
}

impl LogHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Reads frames from a position on: one of a frame, of a frame's end,
    /// [`start`](Self::start) or [`Position::FIRST`]. What has been released is passed over.
    #[must_use]
    pub fn reader(&self, from: Position) -> Reader {
        Reader::new(Arc::clone(&self.shared), from)
    }

    /// The end of what is durable and readable.
    #[must_use]
    pub fn synced(&self) -> Position {
        self.shared.state().synced
    }

    /// Where the log ended when it was opened: what lies below was written by an earlier process.
    #[must_use]
    pub fn opened_at(&self) -> Position {
        self.shared.opened_at
    }

    /// The oldest place kept.
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

    /// How full the log is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.shared.usage()
    }

    /// True while the room is set aside that a checkpoint takes on a full disk. Without, nothing is appended, see
    /// [`AppendError::NoReserve`](crate::AppendError::NoReserve).
    #[must_use]
    pub fn has_reserve(&self) -> bool {
        self.shared.reserve.is_there()
    }

    /// The failure that stopped the log, if one has.
    #[must_use]
    pub fn failure(&self) -> Option<Poisoned> {
        self.shared.poisoned()
    }

    /// Lets go of all frames below a position: segments with nothing else in them are
    /// unlinked, and how many is returned. The segment being written stays, as does the newest.
    /// Blocks, for some 40 ms where a segment has 64 MiB, as its room is given back in steps.
    ///
    /// Store the checkpoint that says so first: a crash in between then loses nothing.
    ///
    /// # Errors
    ///
    /// If a name could not be taken away for good; the log is then poisoned.
    pub fn release(&self, below: Position) -> Result<u64, ReleaseError> {
        self.shared.check()?;
        {
            let mut state = self.shared.state();
            state.released = state.released.max(below.min(state.synced));
        }
        let unlinked = self.shared.unlink_released()?;
        if unlinked > 0 {
            // What keeps it away may pass; appends try again.
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
        let floor = {
            let state = shared.state();
            Floor {
                segment: state.segment_newest,
                sequence: state.sequence_synced,
            }
        };
        let stored = checkpoint::store(&*shared.fs, &shared.dir, &shared.reserve, floor, bytes);
        stored.map_err(|error| match error {
            CheckpointError::Io { path, source } => shared.poison("store", &path, &source).into(),
            other => other,
        })
    }

    /// The checkpoint stored last; `None` if there never was one.
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
