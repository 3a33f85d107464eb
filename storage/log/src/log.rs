//! The writer: one frame after the other, one sync for all that were appended since the last.

use crate::fail_point::{FailPoint, pass};
use crate::frame::{Encoder, NUMBER_MAX};
use crate::fs::{File, Fs};
use crate::recovery;
use crate::reserve::RESERVE_BYTES;
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::shared::{Segment, Shared};
use crate::{
    AppendError, LogHandle, LogOptions, OpenError, Poisoned, Position, Recovery, Section, SyncError,
};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Slices that go to the kernel in one call: nearly every group has headers, a trailer, and blocks of one to
/// three sections.
const SLICES_MAX: usize = 34;
/// A segment is preallocated in so many steps. In memory each page of it takes time, 7 to 16 ms for 64 MiB,
/// and everybody who sends waits meanwhile; disks do not notice the difference.
const ALLOCATIONS: u64 = 64;

/// The write-ahead log. Synchronous, and owned by one thread; everyone else has a [`LogHandle`].
///
/// Always `released <= synced <= appended`; readers see what is below `synced`.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    segment_bytes: u64,
    /// The segment being written; `None` until the first append after a start, which never
    /// writes into a segment of before.
    active: Option<Active>,
    /// Of the last frame appended.
    sequence: u64,
    /// The next frame's sequence is above this; differs from `sequence` behind a cut.
    sequence_floor: u64,
    encoder: Encoder,
}

#[derive(Debug)]
struct Active {
    file: Arc<dyn File>,
    number: u64,
    salt: u64,
    /// Where the next frame goes.
    offset: u64,
    /// Where the preallocated room ends.
    allocated: u64,
    /// Where the segment ends.
    bytes: u64,
    /// Frames were appended since the last sync.
    unsynced: bool,
}

impl Log {
    /// Opens the log in a directory, made if absent, and decides what of it is there: a torn
    /// tail is cut, a damaged middle is set aside, both are told in [`Recovery`]. Whatever can
    /// be read afterwards is durable.
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
            sequence_floor: opened.sequence_floor,
            encoder: Encoder::default(),
        };
        Ok((log, opened.recovery))
    }

    /// What other threads use of this log.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        LogHandle::new(Arc::clone(&self.shared))
    }

    /// Writes one frame and returns where it starts. It is neither durable nor readable before
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
        self.make_room(frame_bytes)?;
        let Some(active) = self.active.as_mut() else {
            return Err(AppendError::Invalid("no segment is open"));
        };
        let sequence = self.sequence_floor + 1;
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
        self.sequence_floor = sequence;
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

    /// Gives back the room of the newest segment, too, if everything in the log is released. An append
    /// that finds the log full does so by itself; this is for whoever lets none come that far.
    ///
    /// # Errors
    ///
    /// `NoRoom`, which leaves the log as it was, and `Poisoned`.
    pub fn leave_released(&mut self) -> Result<(), AppendError> {
        self.shared.check()?;
        self.leave_released_segment()
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

    /// Appends nothing while the reserve is missing: what an append takes, the next checkpoint would lack.
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

    /// Sees to it that a frame fits both the limit and the active segment.
    fn make_room(&mut self, frame_bytes: u64) -> Result<(), AppendError> {
        if self.is_over(frame_bytes) {
            self.leave_released_segment()?;
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

    /// Takes room on the disk for a frame that fits the active segment. None of it is promised
    /// before: a want of room is an answer here as it is for a new segment.
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
            Err(source) if is_want_of_room(&source) => Err(AppendError::NoRoom {
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

    /// Goes to a new segment. Until its header is written nothing has happened; a want of room
    /// up to there is an answer, not a failure.
    fn roll(&mut self, bytes: u64) -> Result<(), AppendError> {
        self.sync_active()?;
        let number = self.shared.state().segment_newest + 1;
        let header = SegmentHeader {
            number,
            salt: self.shared.fs.random(),
            sequence_before: self.sequence,
            sequence_floor: self.sequence_floor,
        };
        let path = self.shared.path_of(number);
        let allocated = allocation_end(SEGMENT_HEADER_BYTES, bytes, self.segment_bytes);
        let file = match create_segment(&*self.shared.fs, &path, allocated, &header) {
            Ok(file) => file,
            Err(source) => {
                // Whatever part of it is there holds no frame and is made anew next time; should it
                // outlive this, a recovery knows it.
                let _ = self.shared.fs.unlink(&path);
                if !is_want_of_room(&source) {
                    return Err(self.shared.poison("make", &path, &source).into());
                }
                return Err(AppendError::NoRoom {
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
        self.active = Some(Active {
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

    /// Gives back the unused room of the active segment, all of whose frames are synced.
    fn close_active(&mut self) -> Result<(), Poisoned> {
        let Some(active) = self.active.take() else {
            return Ok(());
        };
        active.file.truncate(active.offset).map_err(|error| {
            let path = self.shared.path_of(active.number);
            self.shared.poison("cut", &path, &error)
        })
    }

    /// Frees the newest segment if all of it is released: it is never unlinked while it may be
    /// written to, so a full log with nothing left to ship would otherwise stay full.
    #[cold]
    fn leave_released_segment(&mut self) -> Result<(), AppendError> {
        let (released, synced) = {
            let state = self.shared.state();
            (state.released, state.synced)
        };
        let done = match &self.active {
            Some(active) => !active.unsynced && released >= active.position(),
            // One of before the start, which is not written to any more.
            None => released >= synced && self.shared.usage().bytes_used > 0,
        };
        if done {
            // Its successor takes no room: on a full disk there is none before this one is gone.
            self.roll(SEGMENT_HEADER_BYTES)?;
            self.shared.unlink_released()?;
        }
        Ok(())
    }
}

impl Active {
    fn position(&self) -> Position {
        Position {
            segment: self.number,
            offset: self.offset,
        }
    }
}

/// How far a segment is preallocated that has to reach `end` and may reach `end_max`, when segments
/// usually have so many bytes.
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

/// Disks and descriptor tables fill up and empty again; nothing is broken.
pub(crate) fn is_want_of_room(error: &io::Error) -> bool {
    let room = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| room.iter().any(|errno| errno.raw_os_error() == code))
}

/// Hands headers, blocks and trailer to the kernel from where they lie; nothing is copied.
fn write_frame(active: &Active, encoder: &Encoder, sections: &[Section<'_>]) -> io::Result<()> {
    let mut offset = active.offset;
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let mut parts = std::iter::once(encoder.head.as_slice())
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
