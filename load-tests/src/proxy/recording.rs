//! Recording of inserts, so that a bare loop can send the engine the very same blocks.

use bytes::Bytes;
use http::Uri;

/// A recorded insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// Path and query string, with the statement and its settings.
    pub path_and_query: String,
    /// Rows in the body.
    pub rows: Bytes,
}

/// Recorded inserts, and the condition for more.
#[derive(Debug)]
pub(super) struct Recording {
    /// Text that the statement must contain.
    of: String,
    /// Size in bytes at which the recording stops.
    bytes_max: usize,
    bytes: usize,
    pub(super) kept: Vec<Insert>,
}

impl Recording {
    pub(super) fn new(of: &str, bytes_max: usize) -> Self {
        Self {
            of: of.to_owned(),
            bytes_max,
            bytes: 0,
            kept: Vec::new(),
        }
    }

    /// Returns true if a request is to be recorded.
    pub(super) fn takes(&self, uri: &Uri) -> bool {
        let statement = statement(uri).unwrap_or_default();
        self.bytes < self.bytes_max
            && statement.starts_with("INSERT INTO ")
            && statement.contains(&self.of)
    }

    pub(super) fn keep(&mut self, insert: Insert) {
        self.bytes += insert.rows.len();
        self.kept.push(insert);
    }
}

/// Statement of a request whose body is rows.
fn statement(uri: &Uri) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    let (_, statement) = pairs.find(|(name, _)| name == "query")?;
    Some(statement.into_owned())
}
