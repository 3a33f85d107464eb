//! The writer of a log: appends frame after frame, and one sync makes all of them durable.

use crate::fail_point::{FailPoint, pass};
use crate::frame::Encoder;
use crate::fs::{File, Fs, is_out_of_space};
use crate::recovery;
use crate::reserve::RESERVE_BYTES;
use crate::segment::{NUMBER_MAX, SEGMENT_HEADER_BYTES, SegmentBefore, SegmentHeader};
use crate::shared::{Segment, Shared};
use crate::{
    AppendError, LogHandle, LogOptions, OpenError, Poisoned, Position, Recovery, Section, SyncError,
};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most slices in one write: nearly every group has headers, a trailer, and blocks of one to three
/// sections.
const SLICES_MAX: usize = 34;
/// Steps in which a segment is preallocated. In memory each page takes time, 7 to 16 ms for 64 MiB,
/// and all requests wait meanwhile; on disks it makes no difference.
const ALLOCATIONS: u64 = 64;

/// The write-ahead log. Synchronous, and owned by one thread; everyone else has a [`LogHandle`].
///
/// Always `released <= synced <= appended`; readers see what is below `synced`.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    segment_bytes: u64,
    /// Segment being written; `None` until the first append after a start, which never writes into
    /// an earlier segment.
    active: Option<ActiveSegment>,
    /// Sequence of the last frame appended.
    sequence: u64,
    /// Highest sequence used up, below the next frame's; differs from `sequence` behind a cut.
    sequence_high_water: u64,
    encoder: Encoder,
}

#[derive(Debug)]
struct ActiveSegment {
    file: Arc<dyn File>,
    number: u64,
    salt: u64,
    /// Offset of the next frame.
    offset: u64,
    /// End of the preallocated part.
    allocated: u64,
    /// End of the segment.
    bytes: u64,
    /// True if frames were appended since the last sync.
    unsynced: bool,
}

impl Log {
    /// Opens the log in a directory, made if absent, and recovers it: a torn tail is cut, a damaged
    /// middle is quarantined, both are reported in [`Recovery`]. All frames that can be read
    /// afterwards are durable.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(options: LogOptions, fs: Arc<dyn Fs>) -> Result<(Self, Recovery), OpenError> {
        let opened = recovery::open(options, fs)?;
        let log = Self {
            shared: Arc::new(opened.shared),
            segment_bytes: opened.segment_bytes,
            active: None,
            sequence: opened.sequence,
            sequence_high_water: opened.sequence_high_water,
            encoder: Encoder::default(),
        };
        Ok((log, opened.recovery))
    }

    /// Returns a handle of this log for other threads.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        LogHandle::new(Arc::clone(&self.shared))
    }

    /// Writes one frame and returns its position. The frame is neither durable nor readable before
    /// the next [`sync`](Self::sync), and must not be acknowledged before.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]. All but `Poisoned` leave the log as it was.
    pub fn append(&mut self, sections: &[Section<'_>]) -> Result<Position, AppendError> {
        self.shared.check()?;
        self.keep_reserve()?;
        self.encoder
            .encode(sections)
            .map_err(AppendError::Invalid)?;
        let frame_bytes = self.encoder.frame_bytes();
        self.ensure_capacity(frame_bytes)?;
        let Some(active) = self.active.as_mut() else {
            return Err(AppendError::Invalid("no segment is open"));
        };
        let sequence = self.sequence_high_water + 1;
        if sequence > NUMBER_MAX {
            return Err(AppendError::Invalid("the log has no sequence left"));
        }
        self.encoder.seal(active.salt, sequence);
        write_frame(active, &self.encoder, sections).map_err(|error| {
            let path = self.shared.path_of(active.number);
            self.shared.poison("write", &path, &error)
        })?;
        pass(FailPoint::FrameAppended);
        let position = active.position();
        active.offset += frame_bytes;
        active.unsynced = true;
        self.sequence = sequence;
        self.sequence_high_water = sequence;
        self.shared
            .bytes_used
            .fetch_add(frame_bytes, Ordering::Relaxed);
        Ok(position)
    }

    /// Makes every appended frame durable and readable; returns the end of the last one. Once it
    /// has returned, no crash and no power cut loses them.
    ///
    /// # Errors
    ///
    /// See [`Poisoned`]: nothing appended since the last sync may be acknowledged.
    pub fn sync(&mut self) -> Result<Position, SyncError> {
        self.shared.check()?;
        Ok(self.sync_active()?)
    }

    /// Frees the newest segment, too, if everything in the log is released. An append that finds
    /// the log full does so by itself; this is for callers that refuse earlier.
    ///
    /// # Errors
    ///
    /// `DiskFull`, which leaves the log as it was, and `Poisoned`.
    pub fn roll_if_released(&mut self) -> Result<(), AppendError> {
        self.shared.check()?;
        self.roll_released_segment()
    }

    fn sync_active(&mut self) -> Result<Position, Poisoned> {
        let Some(active) = self.active.as_mut().filter(|active| active.unsynced) else {
            return Ok(self.shared.state().synced);
        };
        active.file.sync_data().map_err(|error| {
            let path = self.shared.path_of(active.number);
            self.shared.poison("sync", &path, &error)
        })?;
        active.unsynced = false;
        let position = active.position();
        let mut state = self.shared.state();
        state.synced = position;
        state.sequence_synced = self.sequence;
        if let Some(segment) = state.segments.get_mut(&active.number) {
            segment.end = active.offset;
            segment.bytes = active.offset;
        }
        Ok(position)
    }

    /// Fails while the reserve is missing: the space that an append took, the next checkpoint would
    /// lack.
    fn keep_reserve(&self) -> Result<(), AppendError> {
        if self.shared.reserve.is_there() {
            return Ok(());
        }
        self.shared
            .keep_reserve_if_idle()
            .map_err(|source| AppendError::NoReserve {
                bytes_needed: RESERVE_BYTES,
                source,
            })
    }

    /// Ensures that a frame fits both the limit and the active segment.
    fn ensure_capacity(&mut self, frame_bytes: u64) -> Result<(), AppendError> {
        if self.is_over(frame_bytes) {
            self.roll_released_segment()?;
            if self.is_over(frame_bytes) {
                let usage = self.shared.usage();
                return Err(AppendError::Full {
                    bytes_used: usage.bytes_used,
                    bytes_max: usage.bytes_max,
                });
            }
        }
        if !self.fits(frame_bytes) {
            let least = frame_bytes.saturating_add(SEGMENT_HEADER_BYTES);
            self.roll(self.segment_bytes.max(least))?;
        }
        self.allocate(frame_bytes)
    }

    /// Allocates disk space for a frame that fits the active segment. A full disk is refused here
    /// as it is for a new segment.
    fn allocate(&mut self, frame_bytes: u64) -> Result<(), AppendError> {
        let Some(active) = self.active.as_mut() else {
            return Ok(());
        };
        let end = active.offset.saturating_add(frame_bytes);
        if end <= active.allocated {
            return Ok(());
        }
        let allocated = allocation_end(end, active.bytes, self.segment_bytes);
        match active.file.allocate(active.allocated..allocated) {
            Ok(()) => {
                active.allocated = allocated;
                Ok(())
            }
            Err(source) if is_out_of_space(&source) => Err(AppendError::DiskFull {
                bytes_needed: allocated - active.allocated,
                source,
            }),
            Err(source) => {
                let path = self.shared.path_of(active.number);
                Err(self.shared.poison("make", &path, &source).into())
            }
        }
    }

    fn fits(&self, frame_bytes: u64) -> bool {
        self.active.as_ref().is_some_and(|active| {
            let end = active.offset.checked_add(frame_bytes);
            end.is_some_and(|end| end <= active.bytes)
        })
    }

    fn is_over(&self, frame_bytes: u64) -> bool {
        let header_bytes = match self.fits(frame_bytes) {
            true => 0,
            false => SEGMENT_HEADER_BYTES,
        };
        let usage = self.shared.usage();
        let after = [frame_bytes, header_bytes]
            .iter()
            .fold(usage.bytes_used, |sum, &bytes| sum.saturating_add(bytes));
        after > usage.bytes_max
    }

    /// Rolls to a new segment. Until its header is written nothing has happened; a full disk up to
    /// there is refused, and poisons nothing.
    fn roll(&mut self, bytes: u64) -> Result<(), AppendError> {
        self.sync_active()?;
        let (number, before) = {
            let state = self.shared.state();
            let newest = state.segments.last_key_value();
            let before = newest.and_then(|(&number, segment)| {
                let salt = segment.salt?;
                Some(SegmentBefore { number, salt })
            });
            (state.segment_newest + 1, before)
        };
        let header = SegmentHeader {
            number,
            salt: self.shared.fs.random(),
            sequence_before: self.sequence,
            sequence_high_water: self.sequence_high_water,
            before,
        };
        let path = self.shared.path_of(number);
        let allocated = allocation_end(SEGMENT_HEADER_BYTES, bytes, self.segment_bytes);
        let file = match create_segment(&*self.shared.fs, &path, allocated, &header) {
            Ok(file) => file,
            Err(source) => {
                // A part of it holds no frame and is made anew next time; if it cannot be unlinked,
                // a recovery recognizes it.
                let _ = self.shared.fs.unlink(&path);
                if !is_out_of_space(&source) {
                    return Err(self.shared.poison("make", &path, &source).into());
                }
                return Err(AppendError::DiskFull {
                    bytes_needed: allocated,
                    source,
                });
            }
        };
        pass(FailPoint::SegmentMade);
        // Durable before anything older may be released: it continues the numbers.
        file.sync_data()
            .and_then(|()| self.shared.fs.sync_dir(&self.shared.dir))
            .map_err(|error| self.shared.poison("sync", &path, &error))?;
        self.close_active()?;
        let mut state = self.shared.state();
        state.segments.insert(number, Segment::new(header.salt));
        state.segment_newest = number;
        self.shared
            .bytes_used
            .fetch_add(SEGMENT_HEADER_BYTES, Ordering::Relaxed);
        self.active = Some(ActiveSegment {
            file,
            number,
            salt: header.salt,
            offset: SEGMENT_HEADER_BYTES,
            allocated,
            bytes,
            unsynced: false,
        });
        Ok(())
    }

    /// Truncates the active segment, all of whose frames are synced, to its frames.
    fn close_active(&mut self) -> Result<(), Poisoned> {
        let Some(active) = self.active.take() else {
            return Ok(());
        };
        active.file.truncate(active.offset).map_err(|error| {
            let path = self.shared.path_of(active.number);
            self.shared.poison("cut", &path, &error)
        })
    }

    /// Rolls to a new segment if all of the newest is released: that one is never unlinked while it
    /// may be written to, so a full log with nothing left to ship would stay full.
    #[cold]
    fn roll_released_segment(&mut self) -> Result<(), AppendError> {
        let (released, synced) = {
            let state = self.shared.state();
            (state.released, state.synced)
        };
        let done = match &self.active {
            Some(active) => !active.unsynced && released >= active.position(),
            // A segment from before the start is not written to any more.
            None => released >= synced && self.shared.usage().bytes_used > 0,
        };
        if done {
            // The successor is preallocated nothing: on a full disk there is no space before this
            // one is gone.
            self.roll(SEGMENT_HEADER_BYTES)?;
            self.shared.unlink_released()?;
        }
        Ok(())
    }
}

impl ActiveSegment {
    fn position(&self) -> Position {
        Position {
            segment: self.number,
            offset: self.offset,
        }
    }
}

/// Offset up to which a segment is preallocated that has to reach `end` and may reach `end_max`.
fn allocation_end(end: u64, end_max: u64, segment_bytes: u64) -> u64 {
    let step = segment_bytes
        .div_ceil(ALLOCATIONS)
        .max(SEGMENT_HEADER_BYTES);
    let stepped = end.checked_next_multiple_of(step);
    stepped.unwrap_or(u64::MAX).min(end_max)
}

fn create_segment(
    fs: &dyn Fs,
    path: &Path,
    bytes: u64,
    header: &SegmentHeader,
) -> io::Result<Arc<dyn File>> {
    let file = fs.create(path)?;
    file.allocate(0..bytes)?;
    file.write_at(&mut [IoSlice::new(&header.encode())], 0)?;
    Ok(file)
}

/// Writes headers, blocks and trailer from where they are in memory; nothing is copied.
fn write_frame(
    active: &ActiveSegment,
    encoder: &Encoder,
    sections: &[Section<'_>],
) -> io::Result<()> {
    let mut offset = active.offset;
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let mut parts = std::iter::once(encoder.headers.as_slice())
        .chain(sections.iter().map(|section| section.blocks))
        .chain(std::iter::once(encoder.tail()))
        .peekable();
    while parts.peek().is_some() {
        let mut count = 0;
        let mut bytes = 0;
        for (slice, part) in slices.iter_mut().zip(parts.by_ref()) {
            *slice = IoSlice::new(part);
            count += 1;
            bytes += part.len() as u64;
        }
        let filled = slices.get_mut(..count).unwrap_or_default();
        active.file.write_at(filled, offset)?;
        offset += bytes;
    }
    Ok(())
}
