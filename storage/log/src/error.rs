//! One error per operation, so that a caller need not think of what cannot happen.

use crate::Position;
use std::io;
use std::path::PathBuf;

/// Why a log could not be opened. Nothing in the directory has been thrown away.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process works on the directory.
    #[error("{} is in use: another process holds its lock", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("log: cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A newer program wrote this segment; use that one, or let it ship everything first.
    #[error("{}: format version {version} is newer than this program reads", path.display())]
    Version {
        /// The segment's file.
        path: PathBuf,
        /// The version found.
        version: u16,
    },
    /// The checkpoint cannot be read, or a newer program wrote it. A damaged one is set aside instead,
    /// see [`Recovery::checkpoint_damaged`](crate::Recovery::checkpoint_damaged).
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Options that cannot work.
    #[error("log options: {0}")]
    Options(&'static str),
}

/// Why a frame was not appended.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The log has no room for this frame; nothing was written. Goes away as segments are
    /// released.
    #[error("the log is full: {bytes_used} of {bytes_max} bytes used")]
    Full {
        /// Bytes used.
        bytes_used: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The disk has no room for another segment, or the process no descriptor; nothing was
    /// written to the log. Goes away when there is some again.
    #[error("no room for a segment of {bytes_needed} bytes: {source}")]
    NoRoom {
        /// Bytes the segment would take.
        bytes_needed: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The reserve of the checkpoint was given up on a full disk, and there is still no room for it; nothing was
    /// written to the log. Goes away when there is some again.
    #[error(
        "no room for the {bytes_needed} bytes that shipping keeps back for a full disk: {source}"
    )]
    NoReserve {
        /// Bytes of the reserve.
        bytes_needed: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A frame the format cannot hold.
    #[error("not a frame: {0}")]
    Invalid(&'static str),
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

/// Why a sync failed.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum SyncError {
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

/// A write or sync failed, now or earlier. What the disk holds beyond the last sync is unknown,
/// and asking again would not tell: after a failed fsync the kernel calls the pages clean and
/// the next one succeeds ("Can Applications Recover from fsync Failures?", ATC '20). Nothing
/// unsynced may be acknowledged; stop the process, and the next start finds out what is there.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("the log stopped for good and must be reopened: {reason}")]
pub struct Poisoned {
    /// The first failure.
    pub reason: String,
}

/// Why a read failed.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file system refused; trying again may help.
    #[error("log: cannot read at {position}: {source}")]
    Io {
        /// Where.
        position: Position,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are not what was written (they were checked when the log was opened, so this
    /// happened since). [`Reader::skip_damage`](crate::Reader::skip_damage) goes on behind.
    #[error("log: damaged at {position}: {reason}")]
    Corrupt {
        /// Where.
        position: Position,
        /// What does not fit.
        reason: &'static str,
    },
}

/// Why segments were not released.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ReleaseError {
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

/// What is wrong with a checkpoint, or with storing one.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file's bytes do not fit together.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The checkpoint file.
        path: PathBuf,
        /// What does not fit.
        reason: &'static str,
    },
    /// A newer program wrote it.
    #[error("{}: version {version} is newer than this program reads", path.display())]
    Version {
        /// The checkpoint file.
        path: PathBuf,
        /// The version found.
        version: u16,
    },
    /// The disk has no room, even with the reserve given up; the old checkpoint stands.
    #[error("the disk has no room for a checkpoint")]
    DiskFull,
    /// More than [`CHECKPOINT_BYTES_MAX`](crate::CHECKPOINT_BYTES_MAX).
    #[error("a checkpoint of {bytes} bytes is too large")]
    TooLarge {
        /// Bytes given.
        bytes: u64,
    },
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The checkpoint file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}
