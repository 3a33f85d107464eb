//! A query that answers rows: the engine writes them, formatted as one document, into a pipe.
//!
//! The library's own streaming makes a whole document of every block (a JSON object, a Parquet file, a header line each),
//! and its plain call gathers the answer in memory. `INTO OUTFILE` onto a pipe does neither: the output is what a server
//! sends, and the pipe holds the engine back when the client reads slowly. One thing it does not do is to notice that
//! nobody reads any more; `answer` stops such a statement.

use std::os::fd::AsRawFd as _;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::sync::oneshot;

use crate::exception::Exception;
use crate::ffi::{Connection, Parameters};
use crate::sql::FormatClause;
use crate::statement::{Ended, Started};

/// Asked for each pipe, bytes; with less (the default is 64 KiB) the engine waits more often.
const PIPE_BYTES: usize = 1 << 20;

/// A query taken apart.
pub(crate) struct Text<'a> {
    pub(crate) sql: &'a [u8],
    /// Where its last token ends.
    pub(crate) body_end: usize,
    pub(crate) format: Option<&'a FormatClause>,
    /// The format if it names none.
    pub(crate) default: &'a str,
}

/// Runs the query; `started` gets the reading end of the pipe before the first row.
pub(crate) fn run(
    connection: &mut Connection,
    text: &Text<'_>,
    parameters: &Parameters,
    started: oneshot::Sender<Started>,
) -> Result<Ended, Exception> {
    let (pipe, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(no_pipe)?;
    // Beyond the user's share of pipe memory the kernel says no, and the pipe is as large as it was.
    let _ = fcntl_setpipe_size(&write_end, PIPE_BYTES);
    let format = text
        .format
        .map_or(text.default, |clause| &clause.name)
        .to_owned();
    // The engine opens the pipe anew, blocking and by itself, so that its writes wait for room.
    let sql = text.writing_into(&format!("/proc/self/fd/{}", write_end.as_raw_fd()));
    if started
        .send(Started {
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
    let finished = connection.query(&sql, text.default, parameters)?;
    drop(write_end);
    Ok(Ended { finished, format })
}

fn no_pipe(error: rustix::io::Errno) -> Exception {
    Exception::new(
        1002,
        &format!("Cannot make a pipe for the answer: {error}"),
        "UNKNOWN_EXCEPTION",
    )
}

// === impl Text ===

impl Text<'_> {
    /// The same query, writing into `path`.
    fn writing_into(&self, path: &str) -> Vec<u8> {
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
