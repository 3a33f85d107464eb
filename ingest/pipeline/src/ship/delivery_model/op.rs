//! Operations of the model.

use super::server::RowId;

/// Operation of the model: an event of the process and of its surroundings.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// A frame: per section a key, a number of rows, and which of them has the next one's key.
    Append(Vec<(u8, u8, u8)>),
    Wait(u16),
    /// Read, plan, persist the checkpoint, send so many of the batches, apply so many of their
    /// results, and crash unless all were applied.
    Ship {
        sent: u8,
        applied: u8,
    },
    /// From now on somebody waits for all person updates that are in the log.
    WantUpdates,
    RestartServer,
    /// From now on batches fail a few times before their outcome is known, or no longer do.
    ToggleFailing,
    RestartProcess,
    LoseCheckpoint,
    /// The data folder is copied …
    Copy,
    /// … and the copy takes its place, while the server has gone on.
    RestoreCopy,
    /// A snapshot of the machine with its memory is taken while nothing waits …
    Snapshot,
    /// … and put back, while the server has gone on.
    RestoreMemory,
    /// The disk loses a row, which may be stored already.
    Damage(RowId),
    /// A start finds one of the frames of the log damaged, and passes over it.
    LoseFrame(u8),
}
