//! Inspects a log directory without lock or change, while its process runs or not.

use crate::bad_sectors::TolerantFile;
use crate::checkpoint;
use crate::fs::{File, Fs};
use crate::recovery::list_segments;
use crate::scan::{self, SegmentScan};
use crate::segment::{self, HeaderError};
use crate::{CheckpointError, Frame, OpenError, Position};
use std::io;
use std::path::Path;

/// Contents of a log directory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Bytes of the checkpoint, or its error; `None` without one.
    pub checkpoint: Result<Option<Vec<u8>>, CheckpointError>,
}

/// Report on one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SegmentReport {
    /// Number of the segment.
    pub number: u64,
    /// Bytes of the file, with the preallocated part.
    pub file_bytes: u64,
    /// Bytes of header and frames.
    pub used_bytes: u64,
    /// Number of sound frames.
    pub frames: u64,
    /// Rows in these frames.
    pub rows: u64,
    /// First and last sequence.
    pub sequences: Option<(u64, u64)>,
    /// Ranges without sound frames.
    pub unreadable: Vec<UnreadableRange>,
}

/// Range of a segment that holds no sound frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadableRange {
    /// Position where the range starts.
    pub start: Position,
    /// Position where the range ends.
    pub end: Position,
    /// Kind of the reason.
    pub kind: UnreadableKind,
    /// Reason why the bytes are not a frame.
    pub reason: &'static str,
}

/// Kinds of [`UnreadableRange`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UnreadableKind {
    /// The segment's own header is damaged.
    Header,
    /// Unsound bytes with a sound frame behind them.
    DamagedMiddle,
    /// Unsound bytes at the end. In the newest segment of a running process this is the frame
    /// just being written.
    Tail,
    /// A later format; nothing of the segment was read.
    NewerVersion,
    /// An earlier format; nothing of the segment was read.
    OlderVersion,
}

/// Reads a log directory and shows every sound frame to `visit`, in order. Changes nothing.
///
/// # Errors
///
/// [`OpenError::Io`] if the directory or a segment cannot be read; damage is not an error.
pub fn inspect(
    fs: &dyn Fs,
    dir: &Path,
    visit: &mut dyn FnMut(&Frame),
) -> Result<Inspection, OpenError> {
    let mut segments = Vec::new();
    let numbers = list_segments(fs, dir)?;
    for (nth, &number) in numbers.iter().enumerate() {
        let path = dir.join(segment::file_name(number));
        let failed = |source| OpenError::Io {
            action: "read",
            path: path.clone(),
            source,
        };
        let file = match fs.open(&path) {
            Ok(file) => TolerantFile::new(file),
            // Released since the directory was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        let next = numbers.get(nth + 1).copied();
        let salt_elsewhere = || scan::salt_in_next(fs, dir, number, next);
        let scan = scan::scan(&*file, number, &salt_elsewhere, visit).map_err(failed)?;
        let file_bytes = file.len().map_err(failed)?;
        // Released while it was read: it may have been emptied already.
        if !is_gone(fs, &path) {
            segments.push(report(number, file_bytes, &scan));
        }
    }
    let checkpoint = checkpoint::load(fs, dir).map(|stored| stored.map(|stored| stored.bytes));
    Ok(Inspection {
        segments,
        checkpoint,
    })
}

fn is_gone(fs: &dyn Fs, path: &Path) -> bool {
    let opened = fs.open(path);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn report(number: u64, file_bytes: u64, scan: &SegmentScan) -> SegmentReport {
    let range = |kind, bytes: &std::ops::Range<u64>, reason| {
        let at = |offset| Position {
            segment: number,
            offset,
        };
        UnreadableRange {
            start: at(bytes.start),
            end: at(bytes.end),
            kind,
            reason,
        }
    };
    let header = 0..segment::SEGMENT_HEADER_BYTES;
    let mut unreadable = Vec::new();
    match scan.header {
        Ok(_) => {}
        Err(HeaderError::Damaged) => {
            unreadable.push(range(UnreadableKind::Header, &header, "no sound header"));
        }
        Err(HeaderError::Version(version)) => {
            let (kind, reason) = if version < segment::FORMAT_VERSION {
                let reason = "the format is older than this program reads";
                (UnreadableKind::OlderVersion, reason)
            } else {
                let reason = "the format is newer than this program";
                (UnreadableKind::NewerVersion, reason)
            };
            unreadable.push(range(kind, &(0..file_bytes), reason));
        }
    }
    for damage in &scan.damaged {
        unreadable.push(range(
            UnreadableKind::DamagedMiddle,
            &damage.bytes,
            damage.reason,
        ));
    }
    if let Some(tail) = &scan.tail {
        unreadable.push(range(UnreadableKind::Tail, &tail.bytes, tail.reason));
    }
    SegmentReport {
        number,
        file_bytes,
        used_bytes: scan.end,
        frames: scan.frames,
        rows: scan.rows,
        sequences: scan.sequence_first.zip(scan.sequence_last),
        unreadable,
    }
}
