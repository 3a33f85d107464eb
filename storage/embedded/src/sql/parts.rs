//! Parts of a statement.

/// Parts of a statement. Offsets are bytes of the given text.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum StatementParts {
    /// `INSERT … VALUES …` or `INSERT … FORMAT x …`: rows follow at `data_at`.
    Insert {
        head: Vec<u8>,
        format: String,
        data_at: usize,
    },
    /// Any other statement; `body_end` is the end of its last token before a closing semicolon.
    Other {
        format: Option<FormatClause>,
        body_end: usize,
        /// The keywords before a file that is read or written.
        file: Option<&'static str>,
    },
}

/// A `FORMAT name` at the end of a statement.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct FormatClause {
    pub(crate) name: String,
    /// Offset of the word FORMAT; `end` is the end of the name.
    pub(crate) at: usize,
    pub(crate) end: usize,
}
