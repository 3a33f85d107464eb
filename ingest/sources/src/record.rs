//! Records of a file, and their positions.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Position between two records of a file. A framing that is opened there continues with the next
/// record as if it had read all before.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Position {
    /// Number of bytes of the decompressed file before it; for Parquet, of whole row groups.
    pub offset: u64,
    /// Number of records before it, without blank lines, headers and commas.
    pub ordinal: u64,
    /// Number of lines before it, so that a file's first line is line 0 here and 1 for people; for
    /// formats without lines equal to `ordinal`.
    pub line: u64,
}

/// One record: a line, an element of an array, a row.
#[derive(Debug)]
pub struct Record<'a> {
    /// Position of the record.
    pub at: Position,
    /// Position of the next record, whose ordinal is always greater.
    pub next: Position,
    /// Bytes for a [`crate::Mapping`], without surrounding white space: the JSON of a line or an
    /// element, a line of TSV; for CSV and Parquet the row as a JSON object by column name. The
    /// file of rejects keeps them, so that the record can be mapped again without its file.
    pub raw: &'a [u8],
    /// Error for which the record cannot be mapped, such as a line that is too long or a row with
    /// too few columns.
    pub error: Option<RecordError>,
}

/// Error for which a record gives no event. The records after it can still be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("{message}")]
pub struct RecordError {
    /// Code in `snake_case`: the server's (`missing_distinct_id`, `invalid_timestamp`,
    /// `invalid_json`…) if one fits.
    pub code: &'static str,
    /// Field of the source, such as `event_time`.
    pub field: Option<Cow<'static, str>>,
    /// Reason for people, with advice.
    pub message: String,
}

/// Error for which a file cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The disk failed, or a compressed file is damaged or truncated.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not of the format, so that no further record can be found.
    #[error("{message}{}", offset_text(*offset))]
    Malformed {
        /// Offset in the decompressed file; 0 if it is wrong as a whole.
        offset: u64,
        /// Reason for people, with advice.
        message: String,
    },
}

/// Suffix of an error message that names the offset.
fn offset_text(offset: u64) -> String {
    match offset {
        0 => String::new(),
        _ => format!(" (at byte {offset} of its contents)"),
    }
}

/// Decompressed bytes of a file.
pub enum Input {
    /// An uncompressed file.
    Plain(File),
    /// A stream without seek: standard input, or the output of a decompressor.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// Skips from the beginning of the file to an offset.
    ///
    /// # Errors
    /// I/O errors of the file; an end before the offset is `UnexpectedEof`.
    pub fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.seek(SeekFrom::Start(offset)).map(drop),
            Self::Stream(stream) => {
                let skipped = io::copy(&mut stream.take(offset), &mut io::sink())?;
                if skipped == offset {
                    Ok(())
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                }
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Stream(stream) => stream.read(buffer),
        }
    }
}

/// Splits a file into records, in bounded memory.
pub trait Framing: Send {
    /// Reads the next record; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read further. An error of one record is in its `error`.
    fn next(&mut self) -> Result<Option<Record<'_>>, FileError>;
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Stream(_) => "Stream",
        })
    }
}
