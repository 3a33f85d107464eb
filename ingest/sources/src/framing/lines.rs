//! Files of lines: NDJSON, TSV.
//!
//! A line ends with `\n` or `\r\n`, the last one also with the file. Lines of white space alone are none.

use super::buffer::Buffer;
use crate::{FileError, Framing, Input, Position, Record, RecordError};
use memchr::memchr;

/// The longest line: longer than any event that a server takes, with what mappings leave out.
const LINE_BYTES_MAX: usize = 32 << 20;
/// How much of a longer line its reject keeps.
const KEPT_BYTES: usize = 64 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The lines of a file.
#[derive(Debug)]
pub struct Lines {
    buffer: Buffer,
    at: Position,
    line_bytes_max: usize,
    /// The beginning of a line that is too long.
    kept: Vec<u8>,
}

impl Lines {
    /// From a position on.
    ///
    /// # Errors
    /// When the file cannot be read, or ends before it.
    pub fn open(mut input: Input, at: Position) -> Result<Self, FileError> {
        input.skip_to(at.offset)?;
        Ok(Self {
            buffer: Buffer::new(input),
            at,
            line_bytes_max: LINE_BYTES_MAX,
            kept: Vec::new(),
        })
    }

    /// Bytes of the next line with its end, 0 at the end; or of what is there of one that is too long.
    fn find(&mut self) -> Result<Found, FileError> {
        let mut searched = 0;
        loop {
            let unread = self.buffer.unread();
            let rest = unread.get(searched..).unwrap_or_default();
            if let Some(place) = memchr(b'\n', rest) {
                return Ok(Found::Line(searched + place + 1));
            }
            searched = unread.len();
            if searched > self.line_bytes_max {
                return Ok(Found::TooLong(searched));
            }
            if !self.buffer.fill()? {
                return Ok(Found::Line(self.buffer.unread().len()));
            }
        }
    }

    /// Passes the rest of a line that is too long; its bytes.
    fn pass(&mut self) -> Result<u64, FileError> {
        let mut passed = 0;
        loop {
            let unread = self.buffer.unread();
            let end = memchr(b'\n', unread);
            let length = end.map_or(unread.len(), |place| place + 1);
            self.buffer.consume(length);
            passed += length as u64;
            if end.is_some() || !self.buffer.fill()? {
                return Ok(passed);
            }
        }
    }

    fn too_long(&mut self, length: usize) -> Result<Record<'_>, FileError> {
        let at = self.at;
        let kept = KEPT_BYTES.min(length);
        self.kept.clear();
        let beginning = self.buffer.unread().get(..kept).unwrap_or_default();
        self.kept.extend_from_slice(beginning);
        let passed = self.pass()?;
        self.at = Position {
            offset: at.offset + passed,
            ordinal: at.ordinal + 1,
            line: at.line + 1,
        };
        let message = format!(
            "The line is longer than {} MiB. Split it, or leave it out.",
            self.line_bytes_max >> 20
        );
        Ok(Record {
            at,
            next: self.at,
            raw: &self.kept,
            fault: Some(RecordError {
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
                Found::Line(0) => return Ok(None),
                Found::Line(length) => length,
                Found::TooLong(length) => return self.too_long(length).map(Some),
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
                fault: None,
            }));
        }
    }
}

enum Found {
    Line(usize),
    TooLong(usize),
}
