//! Errors, one per operation, so that a caller need not handle impossible ones.

use crate::Position;
use crate::segment::FORMAT_VERSION;
use std::io;
use std::path::PathBuf;

/// Error of opening a log. Nothing in the directory has been thrown away.
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
        /// Action that failed.
        action: &'static str,
        /// Path it failed on.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A newer program wrote this segment; use that program, or let it ship everything first.
    #[error("{}: format version {version} is newer than this program reads", path.display())]
    Version {
        /// The segment's file.
        path: PathBuf,
        /// The version found.
        version: u16,
    },
    /// An earlier program wrote this segment. That of commit 4bbccd5 reads it, and leaves a log
    /// that this one reads once it has accepted an event in each lane and shipped everything: the
    /// newest segment of a log is never deleted.
    #[error(
        "{}: format version {version} is older than this program reads; deploy/RUNBOOK.md (an upgrade) \
         has the step between",
        path.display()
    )]
    OlderVersion {
        /// The segment's file.
        path: PathBuf,
        /// The version found.
        version: u16,
    },
    /// The checkpoint cannot be read, or a newer program wrote it. A damaged one is moved away
    /// instead, see [`Recovery::checkpoint_damaged`](crate::Recovery::checkpoint_damaged).
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Options that cannot work.
    #[error("log options: {0}")]
    Options(&'static str),
}

impl OpenError {
    /// Error of a segment whose version is not [`FORMAT_VERSION`].
    pub(crate) fn of_version(path: PathBuf, version: u16) -> Self {
        if version < FORMAT_VERSION {
            Self::OlderVersion { path, version }
        } else {
            Self::Version { path, version }
        }
    }
}

/// Error of appending a frame.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The log is full; nothing was written. Ends as segments are released.
    #[error("the log is full: {bytes_used} of {bytes_max} bytes used")]
    Full {
        /// Bytes used.
        bytes_used: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The disk has no space for another segment, or the process no descriptor; nothing was written
    /// to the log. Ends when there is some again.
    #[error("no space for a segment of {bytes_needed} bytes: {source}")]
    DiskFull {
        /// Bytes the segment would take.
        bytes_needed: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The reserve of the checkpoint was given up on a full disk, and there is still no space for
    /// it; nothing was written to the log. Ends when there is some again.
    #[error(
        "no space for the {bytes_needed} bytes that shipping keeps back for a full disk: {source}"
    )]
    NoReserve {
        /// Bytes of the reserve.
        bytes_needed: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A frame the format cannot hold.
    #[error("not a frame: {0}")]
    Invalid(&'static str),
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

/// Error of a sync.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum SyncError {
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

/// Error of a log whose write or sync failed, now or earlier. The disk's contents beyond the last
/// sync are unknown, and another sync would not tell: after a failed fsync the kernel calls the
/// pages clean and the next one succeeds ("Can Applications Recover from fsync Failures?", ATC
/// '20). Nothing unsynced may be acknowledged; stop the process, and the next start finds out which
/// frames are there.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("the log stopped for good and must be reopened: {reason}")]
pub struct Poisoned {
    /// The first failure.
    pub reason: String,
}

/// Error of a read.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file system failed; trying again may help.
    #[error("log: cannot read at {position}: {source}")]
    Io {
        /// Position that was read.
        position: Position,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The bytes are not those that were written (they were checked when the log was opened, so
    /// this happened since). [`Reader::skip_damage`](crate::Reader::skip_damage) goes on behind
    /// them.
    #[error("log: damaged at {position}: {reason}")]
    Corrupt {
        /// Position that was read.
        position: Position,
        /// Reason why the bytes are not sound.
        reason: &'static str,
    },
}

/// Error of releasing segments.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ReleaseError {
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

/// Error of a checkpoint, or of storing one.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file's bytes do not fit together.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The checkpoint file.
        path: PathBuf,
        /// Reason why the bytes are not sound.
        reason: &'static str,
    },
    /// A newer program wrote the checkpoint.
    #[error("{}: version {version} is newer than this program reads", path.display())]
    Version {
        /// The checkpoint file.
        path: PathBuf,
        /// The version found.
        version: u16,
    },
    /// The disk is full, even with the reserve given up; the old checkpoint stands.
    #[error("the disk has no space for a checkpoint")]
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
        /// Error of the operating system.
        source: io::Error,
    },
    /// See [`Poisoned`].
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}
