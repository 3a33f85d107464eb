//! Inserts that passed, kept so that a bare loop can send the engine the very same blocks.

use bytes::Bytes;
use http::Uri;

/// A request that inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The path and the statement with its settings.
    pub path_and_query: String,
    /// The rows.
    pub rows: Bytes,
}

/// What is kept, and which.
#[derive(Debug)]
pub(super) struct Tape {
    /// A part of the statement of those that are.
    of: String,
    /// When so many bytes are reached, no further one is.
    bytes_max: usize,
    bytes: usize,
    pub(super) kept: Vec<Insert>,
}

impl Tape {
    pub(super) fn new(of: &str, bytes_max: usize) -> Self {
        Self {
            of: of.to_owned(),
            bytes_max,
            bytes: 0,
            kept: Vec::new(),
        }
    }

    /// Whether a request is to be kept.
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

/// The statement of a request whose body is rows.
fn statement(uri: &Uri) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    let (_, statement) = pairs.find(|(name, _)| name == "query")?;
    Some(statement.into_owned())
}
