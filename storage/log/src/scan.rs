//! Scans a whole segment for sound frames. Used when a log is opened, when a reader skips damage,
//! and to inspect a log.

use crate::bad_sectors::TolerantFile;
use crate::fields::u32_at;
use crate::frame::{ALIGN_BYTES, FRAME_HEADER_BYTES, FrameHeader, MAGIC};
use crate::fs::{File, Fs};
use crate::section::FrameSection;
use crate::segment::{self, HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Frame, Position};
use millrace_blocks::{BLOCK_HEADER_BYTES, bytes_of, proven_header};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Bytes read at a time: several blocks, since one that ends behind the window is read again.
const WINDOW_BYTES: usize = 4 << 20;

/// Findings of scanning a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentScan {
    /// Header of the segment; `Damaged` also if there is none, as after a crash before its first
    /// sync.
    pub header: Result<SegmentHeader, HeaderError>,
    /// Salt of the header or, without it, of a first frame in its place, or of the next segment's
    /// header.
    pub salt: Option<u64>,
    pub frames: u64,
    pub rows: u64,
    pub sequence_first: Option<u64>,
    pub sequence_last: Option<u64>,
    /// Damage with a sound frame behind it.
    pub damaged: Vec<Damage>,
    /// End of the last sound frame.
    pub end: u64,
    /// Bytes behind `end` other than zeros; the range ends with the last byte not zero.
    pub tail: Option<Damage>,
}

/// Bytes that are not a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    pub bytes: Range<u64>,
    pub reason: &'static str,
}

impl SegmentScan {
    fn new(header: Result<SegmentHeader, HeaderError>) -> Self {
        Self {
            salt: header.ok().map(|header| header.salt),
            header,
            frames: 0,
            rows: 0,
            sequence_first: None,
            sequence_last: None,
            damaged: Vec::new(),
            end: SEGMENT_HEADER_BYTES,
            tail: None,
        }
    }

    fn add(&mut self, frame: &Frame) {
        self.frames += 1;
        let rows = frame.sections.iter().map(|s| u64::from(s.header.rows));
        self.rows += rows.sum::<u64>();
        self.sequence_first.get_or_insert(frame.sequence);
        self.sequence_last = Some(frame.sequence);
        self.end = frame.end.offset;
    }
}

/// Reads a segment from end to end, each byte checked, and shows every sound frame to `visit`. If
/// its header is damaged, `salt_elsewhere` is asked for its salt: nothing else tells its frames
/// from bytes of clients.
pub(crate) fn scan(
    file: &dyn File,
    number: u64,
    salt_elsewhere: &dyn Fn() -> Option<u64>,
    visit: &mut dyn FnMut(&Frame),
) -> io::Result<SegmentScan> {
    let mut scanner = Scanner::new(file, number)?;
    let header = match scanner.window.get(0, SEGMENT_HEADER_BYTES)? {
        Some(bytes) => SegmentHeader::decode(bytes, number),
        None => Err(HeaderError::Damaged),
    };
    let header = match scanner.other_version()? {
        Some(version) => Err(HeaderError::Version(version)),
        None => header,
    };
    let mut scan = SegmentScan::new(header);
    if matches!(header, Err(HeaderError::Version(_))) {
        return Ok(scan);
    }
    if scan.salt.is_none() {
        // Only the log itself writes at this offset, so a frame here can be trusted.
        let of_frame = scanner.salt_of_first_frame()?;
        scan.salt = of_frame.or_else(salt_elsewhere);
    }
    let Some(salt) = scan.salt else {
        scan.end = 0;
        scan.tail = scanner.tail(0, "the segment header is damaged")?;
        return Ok(scan);
    };
    scanner.salt = salt;
    let high_water = header.map_or(0, |header| header.sequence_high_water);
    loop {
        let expected = scan.sequence_last.unwrap_or(high_water);
        match scanner.frame_at(scan.end, expected)? {
            Ok(frame) => {
                visit(&frame);
                scan.add(&frame);
            }
            Err(reason) => match scanner.next_frame(scan.end + ALIGN_BYTES, expected)? {
                Some(frame) => {
                    let bytes = scan.end..frame.position.offset;
                    scan.damaged.push(Damage { bytes, reason });
                    visit(&frame);
                    scan.add(&frame);
                }
                None => {
                    scan.tail = scanner.tail(scan.end, reason)?;
                    return Ok(scan);
                }
            },
        }
    }
}

/// Finds the first sound frame at or behind `from`, for a reader that met damage.
pub(crate) fn find_frame(
    file: &dyn File,
    from: Position,
    salt: u64,
    limit: u64,
) -> io::Result<Option<u64>> {
    let mut scanner = Scanner::new(file, from.segment)?;
    scanner.salt = salt;
    scanner.window.file_bytes = scanner.window.file_bytes.min(limit);
    let frame = scanner.next_frame(from.offset.next_multiple_of(ALIGN_BYTES), 0)?;
    Ok(frame.map(|frame| frame.position.offset))
}

/// Salt of a segment, as the header of the next one has it.
pub(crate) fn salt_in_next(fs: &dyn Fs, dir: &Path, number: u64, next: Option<u64>) -> Option<u64> {
    let file = fs.open(&dir.join(segment::file_name(next?))).ok()?;
    let mut bytes = Vec::new();
    TolerantFile::new(file)
        .read_at(&mut bytes, SEGMENT_HEADER_BYTES as usize, 0)
        .ok()?;
    let before = SegmentHeader::decode(&bytes, next?).ok()?.before;
    before.filter(|it| it.number == number).map(|it| it.salt)
}

struct Scanner<'a> {
    window: Window<'a>,
    number: u64,
    salt: u64,
}

impl<'a> Scanner<'a> {
    fn new(file: &'a dyn File, number: u64) -> io::Result<Self> {
        Ok(Self {
            window: Window {
                file,
                file_bytes: file.len()?,
                start: 0,
                buffer: Vec::with_capacity(WINDOW_BYTES),
            },
            number,
            salt: 0,
        })
    }

    /// Version of the first frame, if this program does not read it. A program that reads both
    /// wrote the header of such a segment anew, with its own version.
    fn other_version(&mut self) -> io::Result<Option<u16>> {
        let header = self
            .window
            .get(SEGMENT_HEADER_BYTES, FRAME_HEADER_BYTES as u64)?;
        Ok(header.and_then(FrameHeader::other_version))
    }

    fn salt_of_first_frame(&mut self) -> io::Result<Option<u64>> {
        let header = self
            .window
            .get(SEGMENT_HEADER_BYTES, FRAME_HEADER_BYTES as u64)?;
        let Some(Ok(header)) = header.map(FrameHeader::decode) else {
            return Ok(None);
        };
        self.salt = header.salt;
        let frame = self.frame_at(SEGMENT_HEADER_BYTES, 0)?;
        Ok(frame.is_ok().then_some(header.salt))
    }

    /// Reads the frame at `offset`, if all of it is sound and its sequence is above `sequence`.
    fn frame_at(&mut self, offset: u64, sequence: u64) -> io::Result<Result<Frame, &'static str>> {
        let window = &mut self.window;
        let Some(bytes) = window.get(offset, FRAME_HEADER_BYTES as u64)? else {
            return Ok(Err("the frame header is cut short"));
        };
        let header = match FrameHeader::decode(bytes) {
            Ok(header) => header,
            Err(reason) => return Ok(Err(reason)),
        };
        if header.salt != self.salt || header.sequence <= sequence {
            return Ok(Err("the frame is of another place"));
        }
        let end = header.frame_bytes().and_then(|n| n.checked_add(offset));
        if end.is_none_or(|end| end > window.file_bytes) {
            return Ok(Err("the frame is cut short"));
        }
        let Some(headers) = window.get(offset, header.all_headers_bytes())? else {
            return Ok(Err("the frame is cut short"));
        };
        let headers = headers.to_vec();
        let position = Position {
            segment: self.number,
            offset,
        };
        let frame = match header.frame(&headers, position) {
            Ok(frame) => frame,
            Err(reason) => return Ok(Err(reason)),
        };
        for section in &frame.sections {
            if !window.is_proven(section)? {
                return Ok(Err("the checksum of a section does not fit"));
            }
        }
        let tail_bytes = header.tail_bytes() as u64;
        let tail = window.get(frame.end.offset - tail_bytes, tail_bytes)?;
        if !tail.is_some_and(|tail| header.committed_by(&headers, tail)) {
            return Ok(Err("the frame is not committed"));
        }
        Ok(Ok(frame))
    }

    /// Finds the first sound frame at or behind `offset`.
    fn next_frame(&mut self, mut offset: u64, sequence: u64) -> io::Result<Option<Frame>> {
        while let Some(found) = self.window.find_magic(offset)? {
            if let Ok(frame) = self.frame_at(found, sequence)? {
                return Ok(Some(frame));
            }
            offset = found + ALIGN_BYTES;
        }
        Ok(None)
    }

    /// Finds the bytes from `start` to the last that is not zero.
    fn tail(&mut self, start: u64, reason: &'static str) -> io::Result<Option<Damage>> {
        let mut end = None;
        let mut offset = start;
        while let Some(bytes) = self.window.chunk(offset)? {
            let last = bytes.iter().rposition(|&byte| byte != 0);
            end = last.map(|last| offset + last as u64 + 1).or(end);
            offset += bytes.len() as u64;
        }
        Ok(end.map(|end| Damage {
            bytes: start..end,
            reason,
        }))
    }
}

/// Window of the file in memory, moved as needed.
struct Window<'a> {
    file: &'a dyn File,
    file_bytes: u64,
    start: u64,
    buffer: Vec<u8>,
}

impl Window<'_> {
    /// Returns `bytes` bytes from `offset` on; `None` if the file ends before.
    fn get(&mut self, offset: u64, bytes: u64) -> io::Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(bytes).filter(|&e| e <= self.file_bytes) else {
            return Ok(None);
        };
        let held = self.start + self.buffer.len() as u64;
        if offset < self.start || end > held {
            let wanted = bytes.max(WINDOW_BYTES as u64) as usize;
            self.buffer.clear();
            self.start = offset;
            self.file.read_at(&mut self.buffer, wanted, offset)?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.buffer.get(from..from + bytes as usize))
    }

    /// Returns some bytes from `offset` on; `None` at the end of the file.
    fn chunk(&mut self, offset: u64) -> io::Result<Option<&[u8]>> {
        let rest = self.file_bytes.saturating_sub(offset);
        match rest.min(WINDOW_BYTES as u64) {
            0 => Ok(None),
            bytes => self.get(offset, bytes),
        }
    }

    fn is_proven(&mut self, section: &FrameSection) -> io::Result<bool> {
        let (offset, bytes) = (section.blocks_at.offset, section.blocks_bytes);
        let crc = self.proven_headers_crc(offset, bytes)?;
        Ok(crc == Some(section.block_headers_crc))
    }

    /// Checks block after block; `None` if one does not fit its header.
    fn proven_headers_crc(&mut self, offset: u64, bytes: u64) -> io::Result<Option<u32>> {
        let mut hasher = crc32fast::Hasher::new();
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        while at < end {
            let header = self.get(at, BLOCK_HEADER_BYTES as u64)?;
            let Some(block_bytes) = header.and_then(bytes_of) else {
                return Ok(None);
            };
            if block_bytes > end - at {
                return Ok(None);
            }
            match self.get(at, block_bytes)?.and_then(proven_header) {
                Some(header) => hasher.update(header),
                None => return Ok(None),
            }
            at += block_bytes;
        }
        Ok(Some(hasher.finalize()))
    }

    fn find_magic(&mut self, mut offset: u64) -> io::Result<Option<u64>> {
        while let Some(bytes) = self.chunk(offset)? {
            let found = bytes
                .chunks(ALIGN_BYTES as usize)
                .position(|chunk| u32_at(chunk, 0) == Some(MAGIC));
            if let Some(index) = found {
                return Ok(Some(offset + index as u64 * ALIGN_BYTES));
            }
            // A chunk is a multiple of the alignment, except for the last of the file.
            offset += bytes.len() as u64;
        }
        Ok(None)
    }
}
