//! Options of a log.

use std::path::PathBuf;

/// Options of opening a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The directory, made if absent. One process at a time may have it open.
    pub dir: PathBuf,
    /// Bytes of a segment file, preallocated step by step; 64 MiB is a good size. A larger frame
    /// gets a segment of its own size. Taken as `bytes_max / 4` if that is less, so that a full log
    /// can always be emptied segment by segment.
    pub segment_bytes: u64,
    /// Bytes of frames the directory may hold; an append beyond them is refused with
    /// [`AppendError::Full`](crate::AppendError::Full). The rest of the preallocated segment
    /// comes on top, one segment at most.
    pub bytes_max: u64,
}

/// Usage of a log's capacity.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Bytes of frames and segment headers on disk and not yet released.
    pub bytes_used: u64,
    /// The limit given in [`LogOptions`].
    pub bytes_max: u64,
}
