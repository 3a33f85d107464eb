//! Framings, which split files into records.

mod array;
mod buffer;
mod csv;
mod header;
mod lines;
mod parquet;
#[cfg(test)]
mod tests;

pub use array::Elements;
pub use csv::Csv;
pub use lines::Lines;
pub use parquet::Parquet;

use crate::{FileError, Framing, Input, Position};
use std::io::{Cursor, Read, Seek};

/// Bytes at a file's beginning by which its form is detected.
const BEGINNING_BYTES: u64 = 64 << 10;

/// Opens a JSON file, whose first bytes show if it has arrays or lines.
///
/// # Errors
/// The file cannot be read, or ends before the position.
pub fn json(input: Input, at: Position) -> Result<Box<dyn Framing>, FileError> {
    let (beginning, input) = peek(input)?;
    Ok(if array::begins(&beginning) {
        Box::new(Elements::open(input, at)?)
    } else {
        Box::new(Lines::open(input, at)?)
    })
}

/// Reads the first bytes of a file, and returns them with the file from its beginning on.
///
/// # Errors
/// The file cannot be read.
pub fn peek(mut input: Input) -> Result<(Vec<u8>, Input), FileError> {
    let mut beginning = Vec::new();
    input
        .by_ref()
        .take(BEGINNING_BYTES)
        .read_to_end(&mut beginning)?;
    let input = match input {
        Input::Plain(mut file) => {
            file.rewind()?;
            Input::Plain(file)
        }
        Input::Stream(stream) => {
            let again = Cursor::new(beginning.clone());
            Input::Stream(Box::new(again.chain(stream)))
        }
    };
    Ok((beginning, input))
}
