//! Parquet: rows as JSON objects by the names of columns, read by row group and within one by pages.
//!
//! The description of such a file is at its end, so what cannot be sought in is copied to a temporary file first.
//!
//! A file of some bytes can claim to hold any amount of rows, columns, and values, and pages unpack to thousands of times
//! their size. So nothing is believed before it was looked at; the library decodes only what fits into bounds:
//!
//! | Module | Bounds |
//! |---|---|
//! | `footer` | the description of the file, with `thrift`, the protocol that it is in |
//! | `page` | pages, before they are unpacked |
//! | `values` | what is in them, before it is decoded, with `lengths`, those of texts |
//! | `budget` | what the pages of all columns, and what is made of them for a batch, take at once |
//! | `json` | rows, before they are written |
//! | `parts` | columns that do not fit beside one another: some after the others |
//!
//! With them a file takes at most 512 MiB, whatever is in it, and far less usually. A row that is too long is a fault of its own;
//! a page or a row that would take more makes the file one that cannot be read on. `columns` says what columns are
//! read as, `pages` hands pages to the library, `reader` reads a row group of them, `rows` makes lines of what comes out.

mod budget;
mod columns;
mod footer;
mod json;
mod lengths;
mod page;
mod pages;
mod parts;
mod reader;
mod rows;
mod thrift;
mod times;
mod values;

use crate::{FileError, Framing, Input, Position, Record, RecordError};
use parquet::file::metadata::ParquetStatisticsPolicy;
use parquet::file::metadata::{ParquetMetaDataOptions, ParquetMetaDataReader};
use parts::{LINES_BYTES_MAX, Lines, Parts, ROWS_MAX};
use reader::{Reader, Reading, Source, Way};
use rows::Rows;
use std::fmt::Display;
use std::io::{self, Seek};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Letters of a reason.
const WHY_CHARS_MAX: usize = 300;
/// How often the columns of a row group are read in parts, at most: each time the dictionaries of all are unpacked.
const PASSES_MAX: u32 = 512;

/// The rows of a file.
pub struct Parquet {
    source: Source,
    at: Position,
    /// Rows of the row group that are still to come, those in `rows` and `parts` included.
    rows_left: u64,
    group: Option<Group>,
    rows: Rows,
    parts: Parts,
}

/// The row group that is being read.
struct Group {
    way: Way,
    /// Reads all columns at once, where they fit beside one another.
    reader: Option<Reader>,
    /// Of columns in parts.
    passes: u32,
}

impl Parquet {
    /// From a position on.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet, claims more than is read, or ends before the position.
    pub fn open(input: Input, at: Position) -> Result<Self, FileError> {
        let file = match input {
            Input::Plain(file) => file,
            Input::Stream(mut stream) => {
                let mut copy = tempfile::tempfile()?;
                io::copy(&mut stream, &mut copy)?;
                copy.rewind()?;
                copy
            }
        };
        footer::check(&file)?;
        let skip = ParquetStatisticsPolicy::SkipAll;
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(skip.clone())
            .with_size_stats_policy(skip);
        let metadata = guarded(|| {
            ParquetMetaDataReader::new()
                .with_metadata_options(Some(options))
                .parse_and_finish(&file)
        })?;
        let mut parquet = Self {
            source: Source::new(file, metadata)?,
            at,
            rows_left: 0,
            group: None,
            rows: Rows::default(),
            parts: Parts::default(),
        };
        parquet.go_to(at)?;
        Ok(parquet)
    }

    fn go_to(&mut self, at: Position) -> Result<(), FileError> {
        let groups = 0..at.offset;
        let before: Option<u64> = groups.map(|group| self.source.row_count(group)).sum();
        let skipped = before.and_then(|before| at.ordinal.checked_sub(before));
        let skipped = skipped
            .ok_or(io::ErrorKind::UnexpectedEof)
            .map_err(io::Error::from)?;
        self.begin_group(skipped)
    }

    /// Begins the row group that the position names, behind so many of its rows.
    fn begin_group(&mut self, skipped: u64) -> Result<(), FileError> {
        self.group = None;
        let Some(count) = self.source.row_count(self.at.offset) else {
            return Ok(());
        };
        self.rows_left = count
            .checked_sub(skipped)
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let batch_rows = self.source.batch_rows(self.index())?;
        self.go_on(Way {
            batch_rows,
            parts: 1,
        })
    }

    fn index(&self) -> usize {
        usize::try_from(self.at.offset).unwrap_or(usize::MAX)
    }

    /// Reads what is left of the row group in this way.
    fn go_on(&mut self, way: Way) -> Result<(), FileError> {
        let passes = self.group.as_ref().map_or(0, |group| group.passes);
        let all = 0..self.source.column_count();
        let reader = match way.parts {
            1 => Some(self.reader(way, all, self.rows_left)?),
            _ => None,
        };
        self.group = Some(Group {
            way,
            reader,
            passes,
        });
        Ok(())
    }

    /// Reads the next rows, of some columns.
    fn reader(&self, way: Way, columns: Range<usize>, rows: u64) -> Result<Reader, FileError> {
        let count = self.source.row_count(self.at.offset).unwrap_or_default();
        let start = count.saturating_sub(self.rows_left);
        self.source.reader(&Reading {
            group: self.index(),
            columns,
            rows: start..start.saturating_add(rows),
            batch_rows: way.batch_rows,
            other_bytes: self.parts.bytes(),
        })
    }

    /// Reads on until there is a row to hand out; false at the end of the file.
    fn fill(&mut self) -> Result<bool, FileError> {
        while !self.parts.has_line() && !guarded(|| self.rows.write())? {
            let Some(group) = &mut self.group else {
                return Ok(false);
            };
            let way = group.way;
            if self.rows_left == 0 {
                self.at.offset += 1;
                self.begin_group(0)?;
            } else if let Some(reader) = &mut group.reader {
                match reader.next() {
                    Ok(Some(batch)) => self.rows.take(batch),
                    Ok(None) => return Err(too_few_rows()),
                    Err(error) => {
                        let smaller = reader.smaller(way, self.source.column_count());
                        self.go_on(smaller.ok_or(error)?)?;
                    }
                }
            } else {
                group.passes += 1;
                if group.passes > PASSES_MAX {
                    return Err(malformed(pages::TOO_MUCH));
                }
                self.read_parts(way)?;
            }
        }
        Ok(true)
    }

    /// Reads all parts of as many rows as there is room for; none of them if that took too much memory, and is tried again
    /// in another way.
    fn read_parts(&mut self, way: Way) -> Result<(), FileError> {
        let columns = self.source.column_count();
        let mut rows = self.rows_left.min(ROWS_MAX);
        self.parts.clear();
        for part in 0..way.parts {
            let from = |part: usize| part * columns / way.parts.max(1);
            let mut reader = self.reader(way, from(part)..from(part + 1), rows)?;
            match read_lines(&mut reader, rows, LINES_BYTES_MAX / way.parts as u64) {
                Ok(lines) => {
                    rows = lines.rows();
                    self.parts.push(lines);
                }
                Err(error) => {
                    self.parts.clear();
                    return self.go_on(reader.smaller(way, columns).ok_or(error)?);
                }
            }
        }
        Ok(())
    }
}

/// Reads rows of a part until there are so many, or they have so many bytes.
fn read_lines(reader: &mut Reader, rows: u64, bytes_max: u64) -> Result<Lines, FileError> {
    let mut lines = Lines::default();
    while lines.rows() < rows {
        let batch = reader.next()?.ok_or_else(too_few_rows)?;
        if !guarded(|| lines.take(&batch, bytes_max))? {
            break;
        }
    }
    Ok(lines)
}

impl Framing for Parquet {
    fn next(&mut self) -> Result<Option<Record<'_>>, FileError> {
        if !self.fill()? {
            return Ok(None);
        }
        let at = self.at;
        self.at.ordinal += 1;
        self.at.line += 1;
        self.rows_left = self.rows_left.saturating_sub(1);
        let mut next = self.at;
        next.offset += u64::from(self.rows_left == 0);
        let (raw, is_too_long) = match self.parts.has_line() {
            true => self.parts.line(),
            false => self.rows.line(),
        };
        let fault = is_too_long.then(|| {
            let message = format!(
                "The row is longer than {} MiB. Take out columns, or leave it out.",
                rows::ROW_BYTES_MAX >> 20
            );
            RecordError::new("record_too_large", None, message)
        });
        Ok(Some(Record {
            at,
            next,
            raw,
            fault,
        }))
    }
}

fn too_few_rows() -> FileError {
    malformed("a row group of it has fewer rows than it says")
}

/// The reason may name columns, however long their names are.
fn malformed(why: impl Display) -> FileError {
    let why = why.to_string();
    let why = why.trim_start_matches("Parquet argument error: ");
    let why = why.trim_start_matches("Parquet error: ");
    let why: String = why.chars().take(WHY_CHARS_MAX).collect();
    FileError::Malformed {
        offset: 0,
        message: format!("The file is no Parquet that can be read: {why}."),
    }
}

/// The library checks less of a damaged file than it should, and panics; that is the file's fault, and no reason for
/// others not to be read.
fn guarded<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, FileError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(malformed(error)),
        Err(_) => Err(malformed("it is damaged")),
    }
}
