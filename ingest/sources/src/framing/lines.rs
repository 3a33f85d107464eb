//! Framing of lines: NDJSON, TSV.
//!
//! A line ends with `\n` or `\r\n`, the last one also with the file. Blank lines are skipped.

use super::buffer::Buffer;
use crate::{FileError, Framing, Input, Position, Record, RecordError};
use memchr::memchr;

/// Most bytes of a line: more than an event that a server accepts, with fields that mappings drop.
const LINE_BYTES_MAX: usize = 32 << 20;
/// Bytes that the reject of a longer line keeps.
const KEPT_BYTES: usize = 64 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads the lines of a file.
#[derive(Debug)]
pub struct Lines {
    buffer: Buffer,
    at: Position,
    line_bytes_max: usize,
    /// Beginning of a line that is too long.
    kept: Vec<u8>,
}

impl Lines {
    /// Opens a file at a position.
    ///
    /// # Errors
    /// The file cannot be read, or ends before the position.
    pub fn open(mut input: Input, at: Position) -> Result<Self, FileError> {
        input.skip_to(at.offset)?;
        Ok(Self {
            buffer: Buffer::new(input),
            at,
            line_bytes_max: LINE_BYTES_MAX,
            kept: Vec::new(),
        })
    }

    /// Finds the end of the next line.
    fn find(&mut self) -> Result<FoundLine, FileError> {
        let mut searched = 0;
        loop {
            let unread = self.buffer.unread();
            let rest = unread.get(searched..).unwrap_or_default();
            if let Some(end) = memchr(b'\n', rest) {
                return Ok(FoundLine::Line(searched + end + 1));
            }
            searched = unread.len();
            if searched > self.line_bytes_max {
                return Ok(FoundLine::TooLong(searched));
            }
            if !self.buffer.fill()? {
                return Ok(FoundLine::Line(self.buffer.unread().len()));
            }
        }
    }

    /// Skips the rest of a line that is too long; returns its bytes.
    fn skip_line(&mut self) -> Result<u64, FileError> {
        let mut skipped = 0;
        loop {
            let unread = self.buffer.unread();
            let end = memchr(b'\n', unread);
            let length = end.map_or(unread.len(), |end| end + 1);
            self.buffer.consume(length);
            skipped += length as u64;
            if end.is_some() || !self.buffer.fill()? {
                return Ok(skipped);
            }
        }
    }

    fn too_long(&mut self, length: usize) -> Result<Record<'_>, FileError> {
        let at = self.at;
        let kept = KEPT_BYTES.min(length);
        self.kept.clear();
        let beginning = self.buffer.unread().get(..kept).unwrap_or_default();
        self.kept.extend_from_slice(beginning);
        let skipped = self.skip_line()?;
        self.at = Position {
            offset: at.offset + skipped,
            ordinal: at.ordinal + 1,
            line: at.line + 1,
        };
        let message = format!(
            "The line is longer than {} MiB. Split or omit it.",
            self.line_bytes_max >> 20
        );
        Ok(Record {
            at,
            next: self.at,
            raw: &self.kept,
            error: Some(RecordError {
                code: "record_too_large",
                field: None,
                message,
            }),
        })
    }
}

impl Framing for Lines {
    fn next(&mut self) -> Result<Option<Record<'_>>, FileError> {
        loop {
            let length = match self.find()? {
                FoundLine::Line(0) => return Ok(None),
                FoundLine::Line(length) => length,
                FoundLine::TooLong(length) => return self.too_long(length).map(Some),
            };
            let at = self.at;
            let skipped = if at.offset == 0 && self.buffer.unread().starts_with(BOM) {
                BOM.len()
            } else {
                0
            };
            self.buffer.consume(length);
            self.at.offset += length as u64;
            self.at.line += 1;
            let line = self.buffer.consumed(length, length);
            let line = line.get(skipped..).unwrap_or_default();
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            self.at.ordinal += 1;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let raw = line.strip_suffix(b"\r").unwrap_or(line).len();
            let line = self.buffer.consumed(length - skipped, raw);
            return Ok(Some(Record {
                at,
                next: self.at,
                raw: line,
                error: None,
            }));
        }
    }
}

enum FoundLine {
    /// Bytes of the line with its end; 0 at the end of the file.
    Line(usize),
    /// Bytes in the buffer of a line that is too long.
    TooLong(usize),
}
