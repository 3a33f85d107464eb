//! Counts rows in bytes of any form.
//!
//! A run compares ClickHouse's count of rows with the rows that it handed over, which are counted
//! in the bytes themselves as they pass, whatever their form.
//!
//! | Module | Counts |
//! |---|---|
//! | `lines` | line ends |
//! | `csv` | line ends outside of quotes, without the header line |
//! | `parquet` | the number in the metadata at the end of the file |
//! | `arrow` | the number in the head of each batch |

mod arrow;
mod csv;
mod error;
mod lines;
mod parquet;

pub use error::CountError;

use super::RowForm;
use arrow::ArrowCounter;
use csv::CsvCounter;
use lines::LineCounter;
use parquet::ParquetCounter;

/// Counter of rows in bytes that arrive in pieces cut anywhere.
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
    /// Creates a counter for a form.
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
    /// The bytes are not of that form. Then the count is of no use.
    pub fn update(&mut self, piece: &[u8]) -> Result<(), CountError> {
        match &mut self.0 {
            Form::Lines(counter) => counter.update(piece),
            Form::Csv(counter) => counter.update(piece),
            Form::Parquet(counter) => counter.update(piece),
            Form::Arrow(counter) => return counter.update(piece),
        }
        Ok(())
    }

    /// Number of rows so far, where the form tells it before the end.
    #[must_use]
    pub fn so_far(&self) -> Option<u64> {
        match &self.0 {
            Form::Lines(counter) => Some(counter.rows()),
            Form::Csv(counter) => Some(counter.rows()),
            Form::Parquet(_) => None,
            Form::Arrow(counter) => Some(counter.rows()),
        }
    }

    /// Returns the number of rows, once all bytes have been taken.
    ///
    /// # Errors
    /// The bytes are truncated, or of another form.
    pub fn finish(self) -> Result<u64, CountError> {
        match self.0 {
            Form::Lines(counter) => counter.finish(),
            Form::Csv(counter) => counter.finish(),
            Form::Parquet(counter) => counter.finish(),
            Form::Arrow(counter) => counter.finish(),
        }
    }
}
