//! Records of a file, and where they are.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// A place between two records of a file. A framing that is opened there goes on with the record
/// behind it as if it had read all before.
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
    /// Bytes of the decompressed file before it; for Parquet, whole row groups before it.
    pub offset: u64,
    /// Records of the file before it: blank lines, headers and commas are none.
    pub ordinal: u64,
    /// Lines of the file before it, so that a file's first line is line 0 here and 1 for people;
    /// for formats without lines the same as `ordinal`.
    pub line: u64,
}

/// One record: a line, an element of an array, a row.
#[derive(Debug)]
pub struct Record<'a> {
    /// Where it begins.
    pub at: Position,
    /// Where the next one begins. Always behind `at` by the ordinal.
    pub next: Position,
    /// Its bytes as a [`crate::Mapping`] reads them, without white space around: the JSON of a line or an
    /// element, a line of TSV; for CSV and Parquet the row as a JSON object by column name. It is what the
    /// file of rejects keeps, so that the record can be mapped again without its file.
    pub raw: &'a [u8],
    /// Why it is no record after all, such as a line that is too long or a row with too few columns.
    pub fault: Option<RecordError>,
}

/// Why a record gives no event. The file goes on behind it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("{message}")]
pub struct RecordError {
    /// For machines, `snake_case`. The server's codes (`missing_distinct_id`, `invalid_timestamp`,
    /// `invalid_json`…) where they say what is wrong.
    pub code: &'static str,
    /// Which field of the source, such as `event_time`.
    pub field: Option<Cow<'static, str>>,
    /// A sentence for people, with what to do.
    pub message: String,
}

/// Why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The disk, or a compressed file that is damaged or cut off.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not of the format, so that no further record can be told apart.
    #[error("{message}{}", place(*offset))]
    Malformed {
        /// Where, in bytes of the decompressed file; 0 where it is wrong as a whole.
        offset: u64,
        /// A sentence for people, with what to do.
        message: String,
    },
}

/// A place in a file, compressed or not.
fn place(offset: u64) -> String {
    match offset {
        0 => String::new(),
        _ => format!(" (at byte {offset} of its contents)"),
    }
}

/// The decompressed bytes of a file.
pub enum Input {
    /// A plain file.
    Plain(File),
    /// What cannot be sought in: standard input, or what comes out of a decompressor.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// Goes from the beginning of the file to this byte.
    ///
    /// # Errors
    /// Those of the file; an end before that byte is `UnexpectedEof`.
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

/// Tells the records of one file apart. Memory is bounded, however long the file is.
pub trait Framing: Send {
    /// The next record; `None` at the end of the file.
    ///
    /// # Errors
    /// When the file cannot be read on. What is wrong with one record is its `fault`.
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
