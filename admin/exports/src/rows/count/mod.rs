//! How many rows went by.
//!
//! A run compares the rows that ClickHouse says are there with those that it handed on, so they are
//! counted in the bytes themselves, whatever their form, as they pass.
//!
//! | Module | Counts |
//! |---|---|
//! | `lines` | line ends |
//! | `csv` | line ends that are in no quotes, but for the line of names |
//! | `parquet` | what the end of the file says |
//! | `arrow` | what the head of each batch says |
//! | `flatbuffer`, `thrift` | just enough of the encodings that those two use |

mod arrow;
mod csv;
mod flatbuffer;
mod lines;
mod parquet;
mod thrift;

use super::RowForm;
use arrow::ArrowCounter;
use csv::CsvCounter;
use lines::LineCounter;
use parquet::ParquetCounter;
use thiserror::Error;

/// The bytes are not what they should be: cut short, or of another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CountError {
    /// They end in the middle.
    #[error("the rows end in the middle")]
    Cut,
    /// They are no bytes of that form.
    #[error("the rows are not in the form that was asked for: {0}")]
    Malformed(&'static str),
}

/// Counts rows in bytes that come in pieces cut anywhere.
#[derive(Debug)]
pub struct RowCounter(Form);

#[derive(Debug)]
enum Form {
    Lines(LineCounter),
    Csv(CsvCounter),
    Parquet(ParquetCounter),
    Arrow(ArrowCounter),
}

impl RowCounter {
    /// Counts rows of a form.
    #[must_use]
    pub fn new(form: RowForm) -> Self {
        Self(match form {
            RowForm::JsonLines | RowForm::TableJsonLines => Form::Lines(LineCounter::default()),
            RowForm::Csv => Form::Csv(CsvCounter::default()),
            RowForm::Parquet(_) => Form::Parquet(ParquetCounter::default()),
            RowForm::Arrow(_) => Form::Arrow(ArrowCounter::default()),
        })
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// They cannot be of that form. Then the count is of no use.
    pub fn update(&mut self, piece: &[u8]) -> Result<(), CountError> {
        match &mut self.0 {
            Form::Lines(counter) => counter.update(piece),
            Form::Csv(counter) => counter.update(piece),
            Form::Parquet(counter) => counter.update(piece),
            Form::Arrow(counter) => return counter.update(piece),
        }
        Ok(())
    }

    /// How many rows have gone by so far, where that can be told before the end.
    #[must_use]
    pub fn so_far(&self) -> Option<u64> {
        match &self.0 {
            Form::Lines(counter) => Some(counter.rows()),
            Form::Csv(counter) => Some(counter.rows()),
            Form::Parquet(_) => None,
            Form::Arrow(counter) => Some(counter.rows()),
        }
    }

    /// How many rows there were, once all bytes have been taken.
    ///
    /// # Errors
    /// The bytes end in the middle, or are of another form.
    pub fn finish(self) -> Result<u64, CountError> {
        match self.0 {
            Form::Lines(counter) => counter.finish(),
            Form::Csv(counter) => counter.finish(),
            Form::Parquet(counter) => counter.finish(),
            Form::Arrow(counter) => counter.finish(),
        }
    }
}
