//! Writes the last segment anew when a log is opened.
//!
//! The copy makes the frames in it durable: they may have been read from pages that a failed sync
//! of the last process left behind *clean*, and which no further sync of that file would write
//! ("fsyncgate"). A copy has pages of its own.

use crate::bad_sectors::TolerantFile;
use crate::fail_point::{FailPoint, pass};
use crate::fs::{File, Fs, is_out_of_space};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, file_name};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const TEMPORARY_NAME: &str = "segment.tmp";
const COPY_BYTES: usize = 1 << 20;

/// Replaces a segment by a synced copy of its bytes below `end`, with this header. The name is
/// durable after the next sync of the directory.
pub(crate) fn segment(
    fs: &dyn Fs,
    dir: &Path,
    from: &dyn File,
    header: &SegmentHeader,
    end: u64,
) -> io::Result<()> {
    let path = dir.join(file_name(header.number));
    let temporary = dir.join(TEMPORARY_NAME);
    let copied =
        copy_segment(fs, &temporary, from, header, end).and_then(|()| fs.rename(&temporary, &path));
    match copied {
        // A full disk must not keep the log from starting: only shipping frees space.
        Err(error) if is_out_of_space(&error) => {
            let _ = fs.unlink(&temporary);
            rewrite_segment(fs, &path, header, end)
        }
        other => other,
    }
}

/// Copies the bytes below `end`, with a new header; offsets stay the same.
fn copy_segment(
    fs: &dyn Fs,
    path: &Path,
    from: &dyn File,
    header: &SegmentHeader,
    end: u64,
) -> io::Result<()> {
    let to = fs.create(path)?;
    to.allocate(0..end)?;
    to.write_at(&mut [IoSlice::new(&header.encode())], 0)?;
    copy_range(from, &*to, SEGMENT_HEADER_BYTES..end, SEGMENT_HEADER_BYTES)?;
    to.sync_data()?;
    pass(FailPoint::RecoveryCopied);
    Ok(())
}

/// Writes the bytes below `end` over themselves, so that a sync writes them. A file with another
/// hard link belongs to a backup as well, and is not cut: the bytes behind `end` are found once
/// more at the next start, and reported as damage.
fn rewrite_segment(fs: &dyn Fs, path: &Path, header: &SegmentHeader, end: u64) -> io::Result<()> {
    let file = fs.open_writable(path)?;
    copy_range(
        &*TolerantFile::new(Arc::clone(&file)),
        &*file,
        SEGMENT_HEADER_BYTES..end,
        SEGMENT_HEADER_BYTES,
    )?;
    file.write_at(&mut [IoSlice::new(&header.encode())], 0)?;
    if file.link_count()? < 2 {
        file.truncate(end)?;
    }
    file.sync_data()
}

/// Copies a range of bytes to `offset` of another file.
pub(crate) fn copy_range(
    from: &dyn File,
    to: &dyn File,
    range: Range<u64>,
    mut offset: u64,
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(COPY_BYTES);
    let mut at = range.start;
    while at < range.end {
        buffer.clear();
        let wanted = (range.end - at).min(COPY_BYTES as u64) as usize;
        from.read_at(&mut buffer, wanted, at)?;
        if buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_at(&mut [IoSlice::new(&buffer)], offset)?;
        at += buffer.len() as u64;
        offset += buffer.len() as u64;
    }
    Ok(())
}
