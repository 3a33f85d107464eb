//! Parquet: rows as JSON objects by the names of columns, read by row group and within one by pages.
//!
//! The description of such a file is at its end, so what cannot be sought in is copied to a temporary file first.

use crate::{FileError, Framing, Input, Position, Record};
use arrow_json::LineDelimitedWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// About how much of a row group is in memory as rows.
const BATCH_BYTES: u64 = 4 << 20;
const BATCH_ROWS_MAX: u64 = 4_096;

/// The rows of a file.
pub struct Parquet {
    file: File,
    metadata: ArrowReaderMetadata,
    at: Position,
    /// Rows of the row group that are still to come, those in `json` included.
    rows_left: u64,
    rows: Option<ParquetRecordBatchReader>,
    /// Some rows as lines of JSON, and where the next begins.
    json: Vec<u8>,
    start: usize,
}

impl Parquet {
    /// From a position on.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet, or ends before the position.
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
        let metadata = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))?;
        let mut parquet = Self {
            file,
            metadata,
            at,
            rows_left: 0,
            rows: None,
            json: Vec::new(),
            start: 0,
        };
        parquet.go_to(at)?;
        Ok(parquet)
    }

    /// Rows of a row group; none past the last.
    fn row_count(&self, group: u64) -> Option<u64> {
        let group = usize::try_from(group).ok()?;
        let group = self.metadata.metadata().row_groups().get(group)?;
        Some(group.num_rows().try_into().unwrap_or_default())
    }

    fn go_to(&mut self, at: Position) -> Result<(), FileError> {
        let before: Option<u64> = (0..at.offset).map(|group| self.row_count(group)).sum();
        let skipped = before.and_then(|before| at.ordinal.checked_sub(before));
        let skipped = skipped
            .ok_or(io::ErrorKind::UnexpectedEof)
            .map_err(io::Error::from)?;
        self.open_group(skipped)
    }

    /// Opens the row group that the position names, behind so many of its rows.
    fn open_group(&mut self, skipped: u64) -> Result<(), FileError> {
        self.rows = None;
        let Some(count) = self.row_count(self.at.offset) else {
            return Ok(());
        };
        self.rows_left = count
            .checked_sub(skipped)
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let index = usize::try_from(self.at.offset).unwrap_or_default();
        let bytes = self
            .metadata
            .metadata()
            .row_groups()
            .get(index)
            .map_or(0, |group| group.total_byte_size());
        let row_bytes = bytes.unsigned_abs() / count.max(1);
        let batch_rows = (BATCH_BYTES / row_bytes.max(1)).clamp(1, BATCH_ROWS_MAX);
        let file = self.file.try_clone()?;
        let metadata = self.metadata.clone();
        let rows = guarded(|| {
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                .with_row_groups(vec![index])
                .with_batch_size(usize::try_from(batch_rows).unwrap_or(1))
                .with_offset(usize::try_from(skipped).unwrap_or(usize::MAX))
                .build()
        })?;
        self.rows = Some(rows);
        Ok(())
    }

    /// Reads on until there is a row in `json`; false at the end of the file.
    fn fill(&mut self) -> Result<bool, FileError> {
        while self.start >= self.json.len() {
            let Some(rows) = &mut self.rows else {
                return Ok(false);
            };
            self.json.clear();
            self.start = 0;
            let batch = guarded(|| rows.next().transpose())?;
            match batch {
                Some(batch) => {
                    let mut writer = LineDelimitedWriter::new(&mut self.json);
                    guarded(|| writer.write(&batch).and_then(|()| writer.finish()))?;
                }
                None if self.rows_left > 0 => {
                    return Err(FileError::Malformed {
                        offset: self.at.offset,
                        message: "A row group has fewer rows than the file says.".to_owned(),
                    });
                }
                None => {
                    self.at.offset += 1;
                    self.open_group(0)?;
                }
            }
        }
        Ok(true)
    }
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
        let unread = self.json.get(self.start..).unwrap_or_default();
        let length = memchr::memchr(b'\n', unread).unwrap_or(unread.len());
        self.start += length + 1;
        Ok(Some(Record {
            at,
            next,
            raw: unread.get(..length).unwrap_or_default(),
            fault: None,
        }))
    }
}

/// The library checks less of a damaged file than it should, and panics; that is the file's fault, and no reason for
/// others not to be read.
fn guarded<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, FileError> {
    let outcome = catch_unwind(AssertUnwindSafe(read));
    let why = match outcome {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it is damaged".to_owned(),
    };
    Err(FileError::Malformed {
        offset: 0,
        message: format!("The file is no Parquet that can be read: {why}."),
    })
}
