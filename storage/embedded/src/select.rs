//! Queries that return rows: the engine writes them, formatted as one document, into a pipe.
//!
//! The library's own streaming makes a document of every block (a JSON object, a Parquet file, a
//! header line each), and its plain call gathers the result in memory. `INTO OUTFILE` onto a pipe
//! does neither: the output is the same as a server's, and the pipe slows the engine down to the
//! client's speed. It does not notice that nobody reads any more; `response` stops such a
//! statement.

use std::os::fd::AsRawFd as _;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::sync::oneshot;

use crate::exception::Exception;
use crate::ffi::{Connection, Parameters};
use crate::sql::FormatClause;
use crate::statement_progress::{QueryStarted, StatementEnded};

/// Capacity requested for each pipe, bytes; with less (the default is 64 KiB) the engine waits more
/// often.
pub(crate) const PIPE_BYTES: usize = 1 << 20;

/// Parts of a query.
pub(crate) struct SelectParts<'a> {
    pub(crate) sql: &'a [u8],
    /// End of the query's last token.
    pub(crate) body_end: usize,
    pub(crate) format: Option<&'a FormatClause>,
    /// Format used if the query names none.
    pub(crate) default: &'a str,
}

/// Runs the query; `started` receives the reading end of the pipe before the first row.
pub(crate) fn run(
    connection: &mut Connection,
    parts: &SelectParts<'_>,
    parameters: &Parameters,
    started: oneshot::Sender<QueryStarted>,
) -> Result<StatementEnded, Exception> {
    let (pipe, write_end) =
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(pipe_error)?;
    // Beyond the user's limit of pipe memory the kernel refuses, and the pipe keeps its size.
    let _ = fcntl_setpipe_size(&write_end, PIPE_BYTES);
    let format = parts
        .format
        .map_or(parts.default, |clause| &clause.name)
        .to_owned();
    // The engine opens the pipe itself, in blocking mode, so its writes wait for capacity.
    let sql = parts.with_outfile(&format!("/proc/self/fd/{}", write_end.as_raw_fd()));
    if started
        .send(QueryStarted {
            pipe,
            format: format.clone(),
        })
        .is_err()
    {
        return Err(Exception::new(
            210,
            "the client went away before its query began",
            "NETWORK_ERROR",
        ));
    }
    let finished = connection.query(&sql, parts.default, parameters)?;
    drop(write_end);
    Ok(StatementEnded { finished, format })
}

fn pipe_error(error: rustix::io::Errno) -> Exception {
    Exception::new(
        1002,
        &format!("Cannot make a pipe for the answer: {error}"),
        "UNKNOWN_EXCEPTION",
    )
}

// === impl SelectParts ===

impl SelectParts<'_> {
    /// Rewrites the query to write its result into `path`.
    fn with_outfile(&self, path: &str) -> Vec<u8> {
        let part = |from: usize, to: usize| self.sql.get(from..to).unwrap_or_default();
        let (before, name, after) = match self.format {
            Some(clause) => (
                part(0, clause.at),
                clause.name.as_str(),
                part(clause.end, self.body_end),
            ),
            None => (part(0, self.body_end), self.default, &b""[..]),
        };
        let mut sql = before.to_vec();
        sql.extend_from_slice(format!("\nINTO OUTFILE '{path}' APPEND FORMAT {name} ").as_bytes());
        sql.extend_from_slice(after);
        sql
    }
}
