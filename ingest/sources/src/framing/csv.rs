//! Framing of CSV: a header, then rows, each read as a JSON object of texts by the header's names.
//!
//! A row may have several lines, as quoted fields may. A row with more or fewer fields than the
//! header is an error: it is unknown which field is missing.

use super::buffer::Buffer;
use super::header::{self, Header};
use crate::{FileError, Framing, Input, Position, Record, RecordError};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use millrace_rows::counted;
use std::io::ErrorKind;

/// Most bytes of a row, without its quotes.
const ROW_BYTES_MAX: usize = 32 << 20;
/// Bytes that the reject of a longer row keeps.
const KEPT_BYTES: usize = 64 << 10;
const FIELDS_MAX: usize = 100_000;

/// Reads the rows of a CSV file.
pub struct Csv {
    buffer: Buffer,
    reader: Reader,
    header: Header,
    at: Position,
    row: Row,
    row_bytes_max: usize,
    /// The row as JSON.
    json: Vec<u8>,
}

/// Concatenated fields of a row.
#[derive(Default)]
struct Row {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    bytes_used: usize,
    fields: usize,
    /// Number of quotes in the row's bytes in the file.
    quotes: usize,
    lines: u64,
    length: u64,
    is_too_long: bool,
    ends_in_return: bool,
    /// True if the file ended within the row, without a line end.
    is_cut: bool,
}

impl Csv {
    /// Opens a file at a position; the header is read first. A missing `delimiter` is detected
    /// from it.
    ///
    /// # Errors
    /// The file cannot be read, ends before the position, or its header is invalid.
    pub fn open(input: Input, at: Position, delimiter: Option<u8>) -> Result<Self, FileError> {
        let (input, of_header) = match input {
            // A copy shares the position in the file, which is set again below.
            Input::Plain(file) if at.offset > 0 => {
                let copy = Input::Plain(file.try_clone()?);
                (Some(Input::Plain(file)), copy)
            }
            other => (None, other),
        };
        let mut buffer = Buffer::new(of_header);
        let skipped = Header::check_encoding(&mut buffer)?;
        let delimiter = match delimiter {
            Some(delimiter) => delimiter,
            None => Header::find_delimiter(&mut buffer)?,
        };
        let mut csv = Self {
            buffer,
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            header: Header::default(),
            at: Position {
                offset: skipped,
                ..Position::default()
            },
            row: Row::default(),
            row_bytes_max: ROW_BYTES_MAX,
            json: Vec::new(),
        };
        if csv.read_row()? {
            if csv.row.is_too_long {
                return Err(header::too_long());
            }
            let fields: Vec<_> = csv.row.fields().collect();
            csv.header = Header::of(&fields)?;
        }
        csv.at.ordinal = 0;
        if at.offset > 0 {
            csv.go_to(input, at)?;
        }
        Ok(csv)
    }

    fn go_to(&mut self, input: Option<Input>, at: Position) -> Result<(), FileError> {
        if let Some(mut input) = input {
            input.skip_to(at.offset)?;
            self.buffer = Buffer::new(input);
        } else {
            let mut rest = at.offset.saturating_sub(self.at.offset);
            while rest > 0 {
                let unread = self.buffer.unread().len() as u64;
                if unread == 0 && !self.buffer.fill()? {
                    return Err(FileError::Io(ErrorKind::UnexpectedEof.into()));
                }
                let step = rest.min(unread);
                self.buffer
                    .consume(usize::try_from(step).unwrap_or_default());
                rest -= step;
            }
        }
        self.reader.reset();
        self.at = at;
        Ok(())
    }

    /// Reads the next row into `row`; returns false at the end.
    fn read_row(&mut self) -> Result<bool, FileError> {
        self.skip_blank_lines()?;
        self.row.clear();
        loop {
            let is_at_end = self.buffer.unread().is_empty() && !self.buffer.fill()?;
            let input = self.buffer.unread();
            let row = &mut self.row;
            let (result, read, written, ends) = self.reader.read_record(
                input,
                row.bytes.get_mut(row.bytes_used..).unwrap_or_default(),
                row.ends.get_mut(row.fields..).unwrap_or_default(),
            );
            row.count(input.get(..read).unwrap_or_default());
            row.bytes_used += written;
            row.fields += ends;
            self.buffer.consume(read);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => row.grow_bytes(self.row_bytes_max),
                ReadRecordResult::OutputEndsFull => row.grow_ends(),
                ReadRecordResult::Record => {
                    row.is_cut = is_at_end;
                    break;
                }
                ReadRecordResult::End => return Ok(false),
            }
        }
        self.finish_line_end()?;
        Ok(true)
    }

    /// Skips blank lines, which belong to no row.
    fn skip_blank_lines(&mut self) -> Result<(), FileError> {
        loop {
            let unread = self.buffer.unread();
            let ends = unread
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                .count();
            let skipped = unread.get(..ends).unwrap_or_default();
            self.at.offset += ends as u64;
            self.at.line += memchr::memchr_iter(b'\n', skipped).count() as u64;
            let is_all = ends == unread.len();
            self.buffer.consume(ends);
            if !is_all || !self.buffer.fill()? {
                return Ok(());
            }
        }
    }

    /// Skips the `\n` after the `\r` at which the row ended.
    fn finish_line_end(&mut self) -> Result<(), FileError> {
        if self.buffer.unread().is_empty() {
            self.buffer.fill()?;
        }
        if self.row.ends_in_return && self.buffer.unread().first() == Some(&b'\n') {
            self.buffer.consume(1);
            self.row.length += 1;
            self.row.lines += 1;
        }
        self.at.offset += self.row.length;
        self.at.line += self.row.lines;
        self.at.ordinal += 1;
        Ok(())
    }
}

impl Framing for Csv {
    fn next(&mut self) -> Result<Option<Record<'_>>, FileError> {
        self.skip_blank_lines()?;
        let at = self.at;
        if !self.read_row()? {
            return Ok(None);
        }
        self.row.is_too_long |= self.row.is_long_as_json(self.row_bytes_max);
        let error = self.row_error();
        self.json.clear();
        if self.row.is_too_long {
            let fields = self.row.fields().take(self.header.len());
            self.header.write(&mut self.json, fields, KEPT_BYTES);
        } else {
            self.header
                .write(&mut self.json, self.row.fields(), usize::MAX);
        }
        Ok(Some(Record {
            at,
            next: self.at,
            raw: &self.json,
            error,
        }))
    }
}

impl Csv {
    fn row_error(&self) -> Option<RecordError> {
        let row = &self.row;
        if row.is_too_long {
            let message = format!(
                "The row is longer than {} MiB. Is there a quote that is never closed?",
                self.row_bytes_max >> 20
            );
            return Some(RecordError::new("record_too_large", None, message));
        }
        if row.is_cut && row.quotes % 2 == 1 {
            let message =
                "The file ends within quotes. It was cut off, or a quote is never closed.";
            return Some(RecordError::new("unclosed_quote", None, message));
        }
        if row.fields != self.header.len() {
            let message = format!(
                "The row has {}, the header {}. Put fields that hold the delimiter into quotes.",
                counted(row.fields as u64, "field"),
                self.header.len()
            );
            return Some(RecordError::new("wrong_column_count", None, message));
        }
        let bytes = row.bytes.get(..row.bytes_used).unwrap_or_default();
        crate::json::utf8(bytes).err()
    }
}

impl Row {
    fn clear(&mut self) {
        *self = Self {
            bytes: std::mem::take(&mut self.bytes),
            ends: std::mem::take(&mut self.ends),
            ..Self::default()
        };
    }

    /// Counts quotes, lines and bytes that were read.
    fn count(&mut self, read: &[u8]) {
        self.quotes += memchr::memchr_iter(b'"', read).count();
        self.lines += memchr::memchr_iter(b'\n', read).count() as u64;
        self.length += read.len() as u64;
        if let Some(last) = read.last() {
            self.ends_in_return = *last == b'\r';
        }
    }

    /// Grows the buffer; drops the bytes of a row that is too long.
    fn grow_bytes(&mut self, bytes_max: usize) {
        if self.is_too_long || self.bytes_used >= bytes_max {
            self.is_too_long = true;
            self.bytes_used = KEPT_BYTES.min(self.bytes_used);
            return;
        }
        let capacity = (2 * self.bytes.len()).clamp(4_096, bytes_max);
        self.bytes.resize(capacity, 0);
    }

    /// Returns true if the row is too long as JSON, where a control character takes six bytes.
    fn is_long_as_json(&self, bytes_max: usize) -> bool {
        let bytes = self.bytes.get(..self.bytes_used).unwrap_or_default();
        if bytes.len() <= bytes_max / 6 {
            return false;
        }
        let controls = bytes.iter().filter(|byte| **byte < b' ').count();
        bytes.len() + 5 * controls > 2 * bytes_max
    }

    /// Grows the list of fields.
    fn grow_ends(&mut self) {
        if self.fields >= FIELDS_MAX {
            self.is_too_long = true;
            self.fields = 0;
            return;
        }
        let capacity = (2 * self.ends.len()).clamp(64, FIELDS_MAX);
        self.ends.resize(capacity, 0);
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let ends = self.ends.get(..self.fields).unwrap_or_default();
        ends.iter().map(move |end| {
            let field = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            field
        })
    }
}
