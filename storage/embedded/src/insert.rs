//! An INSERT with rows: the engine reads them as they come and holds the sender back when it has enough.
//!
//! Nothing is inserted unless the body came to its end: the engine gathers rows into blocks of up to 1 048 576 rows and
//! 1 GiB (see `engine`), and a block that is not whole when the statement is cancelled is thrown away. A larger insert
//! is several blocks, as on any server, and those before a cut stay.

use std::io::{Cursor, Read};

use crate::blocks::read_full;
use crate::exception::Exception;
use crate::ffi::{Connection, Finished, Parameters};
use crate::upload::from_io;

/// Bytes given to the engine at a time; it queues up to 16 such pieces.
const PIECE_BYTES: usize = 1 << 20;

/// An INSERT taken apart.
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
    /// Runs it; `rest` gives the rows after the first ones.
    pub(crate) fn run(
        &self,
        connection: &mut Connection,
        rest: &mut dyn Read,
    ) -> Result<Finished, Exception> {
        let mut stream = connection.insert(self.head, self.format, self.parameters)?;
        let mut source = Cursor::new(self.first).chain(rest);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            // Dropping the stream on an error cancels the insert.
            let count = read_full(&mut source, &mut piece).map_err(|error| from_io(&error))?;
            let bytes = piece.get(..count).unwrap_or_default();
            if bytes.is_empty() || !stream.append(bytes) {
                return stream.finish();
            }
        }
    }
}
