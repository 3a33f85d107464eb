//! INSERT with rows: the engine reads them as they arrive, and applies back-pressure to the sender.
//!
//! Nothing is inserted unless the body is complete: the engine gathers rows into blocks of up to 1
//! 048 576 rows and 1 GiB (see `engine`), and discards an incomplete block when the statement is
//! cancelled. A larger insert is several blocks, as on any server, and those before a cut stay.

use std::borrow::Cow;
use std::io::{Cursor, Read};

use memchr::memmem;

use crate::blocks::read_full;
use crate::exception::Exception;
use crate::ffi::{Connection, Parameters, StatementOutput};
use crate::permitted::StatementPolicy;
use crate::upload::from_io;

/// Bytes given to the engine at a time; it queues up to 16 such chunks.
const CHUNK_BYTES: usize = 1 << 20;

/// Longest rows of `VALUES` that may hold expressions, bytes: they are checked as a statement is,
/// so they are read completely.
const EXPRESSIONS_BYTES_MAX: usize = 1 << 20;
/// Settings that allow expressions in `VALUES`.
const EXPRESSIONS: [&str; 2] = [
    "input_format_values_interpret_expressions",
    "input_format_values_deduce_templates_of_expressions",
];

/// First rows of an INSERT, checked before it runs: only those of `VALUES` can hold SQL.
pub(crate) struct Values<'a> {
    head: &'a [u8],
    pub(crate) first: Cow<'a, [u8]>,
    /// True if all rows are in `first`.
    is_whole: bool,
    is_sql: bool,
}

// === impl Values ===

impl<'a> Values<'a> {
    /// Reads up to [`EXPRESSIONS_BYTES_MAX`] of rows that may hold expressions, after the `first`
    /// that came with the statement.
    pub(crate) fn read(
        head: &'a [u8],
        format: &str,
        first: &'a [u8],
        rest: &mut dyn Read,
    ) -> Result<Self, Exception> {
        let is_sql = format.eq_ignore_ascii_case("Values");
        let (mut first, mut is_whole) = (Cow::Borrowed(first), false);
        if is_sql {
            let remaining = (EXPRESSIONS_BYTES_MAX + 1).saturating_sub(first.len()) as u64;
            let read = rest.take(remaining).read_to_end(first.to_mut());
            read.map_err(|error| from_io(&error))?;
            is_whole = first.len() <= EXPRESSIONS_BYTES_MAX;
        }
        Ok(Self {
            head,
            first,
            is_whole,
            is_sql,
        })
    }

    /// Checks the rows. If there are more, they must be literals; returns true if a setting of the
    /// connection now says so.
    pub(crate) fn check(
        &self,
        connection: &mut Connection,
        policy: &StatementPolicy,
    ) -> Result<bool, Exception> {
        if !self.is_sql {
            return Ok(false);
        }
        if self.is_whole {
            return policy.check_rows(&self.first).map(|()| false);
        }
        let head = self.head.to_ascii_lowercase();
        let names = |name: &&str| memmem::find(&head, name.as_bytes()).is_some();
        if let Some(name) = EXPRESSIONS.iter().copied().find(names) {
            let message = format!(
                "Not enough privileges: {name} in an INSERT of more than {EXPRESSIONS_BYTES_MAX} \
                 bytes of VALUES; omit it, or insert fewer rows at a time"
            );
            return Err(Exception::new(497, &message, "ACCESS_DENIED"));
        }
        set(connection, "0").map(|()| true)
    }

    /// Allows expressions again for a session's next rows.
    pub(crate) fn allow_expressions(connection: &mut Connection) -> Result<(), Exception> {
        set(connection, "DEFAULT")
    }
}

fn set(connection: &mut Connection, value: &str) -> Result<(), Exception> {
    let [interpret, deduce] = EXPRESSIONS;
    let sql = format!("SET {interpret} = {value}, {deduce} = {value}");
    connection
        .query(sql.as_bytes(), "", &Parameters::default())
        .map(drop)
}

/// Parts of an INSERT statement.
pub(crate) struct Insert<'a> {
    /// The statement up to its FORMAT clause.
    pub(crate) head: &'a [u8],
    pub(crate) format: &'a str,
    /// Rows that came with the statement's text.
    pub(crate) first: &'a [u8],
    pub(crate) parameters: &'a Parameters,
}

// === impl Insert ===

impl Insert<'_> {
    /// Runs the INSERT; `rest` yields the rows after the first ones.
    pub(crate) fn run(
        &self,
        connection: &mut Connection,
        rest: &mut dyn Read,
    ) -> Result<StatementOutput, Exception> {
        let mut stream = connection.insert(self.head, self.format, self.parameters)?;
        let mut source = Cursor::new(self.first).chain(rest);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            // Dropping the stream on an error cancels the insert.
            let count = read_full(&mut source, &mut chunk).map_err(|error| from_io(&error))?;
            let bytes = chunk.get(..count).unwrap_or_default();
            if bytes.is_empty() || !stream.append(bytes) {
                return stream.finish();
            }
        }
    }
}
