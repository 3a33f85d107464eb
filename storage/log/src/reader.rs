//! Reads frames back, up to the end of the durable part.

use crate::bad_sectors::TolerantFile;
use crate::block_headers::proven_headers_crc;
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::fs::File;
use crate::quarantine;
use crate::scan;
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::shared::Shared;
use crate::{Frame, FrameSection, Position, ReadError};
use bytes::Bytes;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes read for a frame's headers; more only if they are longer. Headers of a large request take
/// a tenth of it, and bytes beyond them are read again with the blocks.
const HEADERS_READ_BYTES: usize = 2 * 1024;

/// Reader of a log's frames, in order. Only their headers are read by [`next`](Self::next); the
/// blocks are left to [`read_blocks`](Self::read_blocks), so that passing over another lane's
/// frames costs next to nothing.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    position: Position,
    file: Option<(u64, Arc<dyn File>)>,
    buffer: Vec<u8>,
}

/// Bounds within which the next frame must lie.
struct FrameBounds {
    position: Position,
    limit: u64,
    salt: u64,
}

/// Damage that a reader skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Start of the damage.
    pub start: Position,
    /// Position from which reading goes on.
    pub end: Position,
    /// File with a copy of the bytes, as a start makes it; `None` if they cannot be read, or the
    /// disk was full.
    pub copy: Option<PathBuf>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, position: Position) -> Self {
        Self {
            shared,
            position,
            file: None,
            buffer: Vec::new(),
        }
    }

    /// Position from which the next frame is looked for.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Reads the next frame; `None` if no further one is durable yet. Damage that was found when
    /// the log was opened is skipped.
    ///
    /// # Errors
    ///
    /// `Io` and `Corrupt` leave the reader where it is: the first may be tried again, the second is
    /// skipped by [`skip_damage`](Self::skip_damage).
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator that ended may not go on; this one does when more is synced"
    )]
    pub fn next(&mut self) -> Result<Option<Frame>, ReadError> {
        while let Some(bounds) = self.next_bounds() {
            self.position = bounds.position;
            match self.read_frame(&bounds) {
                Ok(frame) => {
                    self.position = frame.end;
                    return Ok(Some(frame));
                }
                // Released meanwhile; the next try finds the frames that are left.
                Err(_) if !self.is_kept(bounds.position.segment) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Skips damage: goes to the next sound frame of this segment, or else to the end of it, and
    /// copies the damaged bytes to the quarantine. `None` if there is nothing to skip.
    ///
    /// # Errors
    ///
    /// `Io` if the file system fails.
    pub fn skip_damage(&mut self) -> Result<Option<Skipped>, ReadError> {
        let Some(bounds) = self.next_bounds() else {
            return Ok(None);
        };
        let start = bounds.position;
        let file = self.file(start.segment).map_err(io_error(start))?;
        let found = scan::find_frame(&*file, start, bounds.salt, bounds.limit);
        let found = found.map_err(io_error(start))?;
        let end = Position {
            offset: found.unwrap_or(bounds.limit),
            ..start
        };
        self.position = end;
        if end == start {
            return Ok(None);
        }
        let (shared, passed) = (&self.shared, start.offset..end.offset);
        let copy = quarantine::keep(&*shared.fs, &shared.dir, start.segment, &*file, &passed);
        // Without a copy if the disk fails: the frames behind must not wait for it.
        let copy = copy.ok().flatten();
        Ok(Some(Skipped { start, end, copy }))
    }

    /// Reads the blocks of a section, as they were appended.
    ///
    /// # Errors
    ///
    /// `Corrupt` if they are damaged, `Io` if they cannot be read: also if their segment was
    /// released meanwhile.
    pub fn read_blocks(&mut self, section: &FrameSection) -> Result<Bytes, ReadError> {
        let mut blocks = Vec::new();
        self.read_blocks_into(section, &mut blocks)?;
        Ok(Bytes::from(blocks))
    }

    /// Reads the blocks of a section and appends them to `out`: sections that are sent together
    /// share a buffer.
    ///
    /// # Errors
    ///
    /// Like [`read_blocks`](Self::read_blocks); then `out` may have bytes that are not to be used.
    pub fn read_blocks_into(
        &mut self,
        section: &FrameSection,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let (position, start) = (section.blocks_at, out.len());
        self.file(position.segment)
            .and_then(|file| file.read_at(out, section.blocks_bytes as usize, position.offset))
            .map_err(io_error(position))?;
        self.check_blocks(section, out.get(start..).unwrap_or_default())
    }

    /// Reads like [`read_blocks_into`](Self::read_blocks_into) if that takes no waiting for a disk;
    /// otherwise returns `false`.
    ///
    /// # Errors
    ///
    /// Like [`read_blocks`](Self::read_blocks).
    pub fn read_cached_blocks_into(
        &mut self,
        section: &FrameSection,
        out: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        let (position, start) = (section.blocks_at, out.len());
        let is_read = self
            .file(position.segment)
            .and_then(|file| {
                file.read_cached_at(out, section.blocks_bytes as usize, position.offset)
            })
            .map_err(io_error(position))?;
        if is_read {
            self.check_blocks(section, out.get(start..).unwrap_or_default())?;
        }
        Ok(is_read)
    }

    /// Reads the blocks of a section as they are now, damaged or not: for people, who may mend
    /// them.
    ///
    /// # Errors
    ///
    /// `Io` if they cannot be read.
    pub fn read_unproven_blocks(&mut self, section: &FrameSection) -> Result<Bytes, ReadError> {
        let (position, mut blocks) = (section.blocks_at, Vec::new());
        self.file(position.segment)
            .and_then(|file| {
                file.read_at(&mut blocks, section.blocks_bytes as usize, position.offset)
            })
            .map_err(io_error(position))?;
        Ok(Bytes::from(blocks))
    }

    /// Finds the next frame's bounds: goes to the next segment at the end of one, and skips known
    /// damage.
    fn next_bounds(&self) -> Option<FrameBounds> {
        let state = self.shared.state();
        let mut position = self.position;
        for (&number, segment) in state.segments.range(position.segment..) {
            if number > position.segment {
                position = Position {
                    segment: number,
                    offset: 0,
                };
            }
            position.offset = position.offset.max(SEGMENT_HEADER_BYTES);
            for damaged in &segment.damaged {
                if damaged.contains(&position.offset) {
                    position.offset = damaged.end;
                }
            }
            if let Some(salt) = segment.salt
                && position.offset < segment.end
            {
                return Some(FrameBounds {
                    position,
                    limit: segment.end,
                    salt,
                });
            }
        }
        None
    }

    fn check_blocks(&self, section: &FrameSection, blocks: &[u8]) -> Result<(), ReadError> {
        let position = section.blocks_at;
        let is_sound = proven_headers_crc(blocks) == Some(section.block_headers_crc);
        if blocks.len() as u64 == section.blocks_bytes && is_sound {
            return Ok(());
        }
        if !self.is_kept(position.segment) {
            // The file is still open here, and being truncated.
            return Err(io_error(position)(io::ErrorKind::NotFound.into()));
        }
        Err(ReadError::Corrupt {
            position,
            reason: "the checksum of a section does not fit",
        })
    }

    fn is_kept(&self, segment: u64) -> bool {
        self.shared.state().segments.contains_key(&segment)
    }

    fn read_frame(&mut self, bounds: &FrameBounds) -> Result<Frame, ReadError> {
        let position = bounds.position;
        let corrupt = |reason| ReadError::Corrupt { position, reason };
        let io = io_error(position);
        let file = self.file(position.segment).map_err(io)?;
        let rest = bounds.limit - position.offset;
        self.read(&*file, position, rest.min(HEADERS_READ_BYTES as u64))?;
        let header = FrameHeader::decode(self.buffer.get(..FRAME_HEADER_BYTES).unwrap_or_default())
            .map_err(corrupt)?;
        let fits = header.frame_bytes().is_some_and(|bytes| bytes <= rest);
        if !fits || header.salt != bounds.salt {
            return Err(corrupt("the frame is of another place"));
        }
        if header.all_headers_bytes() > self.buffer.len() as u64 {
            self.read(&*file, position, header.all_headers_bytes())?;
        }
        let headers = self.buffer.get(..header.all_headers_bytes() as usize);
        header
            .frame(headers.unwrap_or_default(), position)
            .map_err(corrupt)
    }

    fn read(&mut self, file: &dyn File, at: Position, bytes: u64) -> Result<(), ReadError> {
        self.buffer.clear();
        file.read_at(&mut self.buffer, bytes as usize, at.offset)
            .map_err(io_error(at))
    }

    fn file(&mut self, segment: u64) -> io::Result<Arc<dyn File>> {
        if let Some((number, file)) = &self.file
            && *number == segment
        {
            return Ok(Arc::clone(file));
        }
        let file = self.shared.fs.open(&self.shared.path_of(segment))?;
        let file: Arc<dyn File> = TolerantFile::new(file);
        self.file = Some((segment, Arc::clone(&file)));
        Ok(file)
    }
}

fn io_error(position: Position) -> impl Fn(io::Error) -> ReadError {
    move |source| ReadError::Io { position, source }
}
