//! Reports of a running statement: the start of its output, and its end.

use std::os::fd::OwnedFd;

use crate::ffi::StatementOutput;

/// Start of a query's output: its rows are read from `pipe`.
pub(crate) struct QueryStarted {
    pub(crate) pipe: OwnedFd,
    pub(crate) format: String,
}

/// End of a statement; a query's rows have all gone through the pipe.
pub(crate) struct StatementEnded {
    pub(crate) finished: StatementOutput,
    pub(crate) format: String,
}
