//! Error of rows that are not made a block.

/// Reason why rows are not made a block. They can be sent as they are all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The insert target is another table, or has columns that this version does not know, or
    /// lacks one that the table is sorted by.
    #[error("the columns are not those of events")]
    UnknownColumns,
    /// There is no row.
    #[error("there is no row")]
    NoRows,
    /// The bytes end within a row, or are none.
    #[error("row {row} does not end within the bytes")]
    Incomplete {
        /// Index of the row, from 0.
        row: usize,
    },
    /// A day or a flag is none that is ever written.
    #[error("row {row} has no valid {column}")]
    Invalid {
        /// Index of the row, from 0.
        row: usize,
        /// Name of the column.
        column: &'static str,
    },
    /// There are more rows or bytes than a block may have.
    #[error("a block may not be as large")]
    TooLarge,
    /// The event names are more than a dictionary pays for.
    #[error("the event names are too many for a dictionary")]
    ManyNames,
}
