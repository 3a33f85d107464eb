//! Answers that are repeated, as by a gateway that caches or mixes up connections.

use bytes::Bytes;
use http::Response;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the kind of all inserts.
const INSERTS: &str = "INSERT";
/// Most kinds of requests whose answers are kept.
const KINDS_MAX: usize = 256;

/// Genuine answers of ClickHouse's, the last one to each kind of request.
#[derive(Debug, Default)]
pub(super) struct StaleAnswers(Mutex<HashMap<String, Response<Bytes>>>);

impl StaleAnswers {
    /// Returns the last answer to a request of this kind.
    pub(super) fn of(&self, kind: &str) -> Option<Response<Bytes>> {
        self.kept().get(kind).cloned()
    }

    /// Keeps an answer, if it is a success.
    pub(super) fn keep(&self, kind: String, answer: &Response<Bytes>) {
        let mut kept = self.kept();
        if answer.status().is_success() && kept.len() < KINDS_MAX {
            kept.insert(kind, answer.clone());
        }
    }

    /// Forgets all answers.
    pub(super) fn clear(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Response<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kind of a request: answers to requests of one kind have the same columns. Inserts are of one
/// kind; a query's is its statement up to the condition, without texts and numbers.
pub(super) fn kind(is_insert: bool, statement: &[u8]) -> String {
    if is_insert {
        return INSERTS.to_owned();
    }
    let statement = String::from_utf8_lossy(statement);
    let columns_and_table = statement.split(" WHERE ").next().unwrap_or_default();
    // Between two quotes there is a text in every second piece.
    let pieces = columns_and_table.split('\'').step_by(2);
    let letters = pieces.flat_map(str::chars);
    letters.filter(|it| !it.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_of_one_kind_if_they_differ_in_texts_and_numbers_only() {
        let count = b"SELECT 'a1' AS nonce, count() FROM t WHERE id = 1";
        for (is_insert, statement, is_same) in [
            (false, &count[..], true),
            (
                false,
                b"SELECT 'b2' AS nonce, count() FROM t WHERE id = 2",
                true,
            ),
            (
                false,
                b"SELECT 'b2' AS nonce, count() FROM u WHERE id = 1",
                false,
            ),
            (false, b"SELECT 'b2' AS nonce, uptime()", false),
            (true, count, false),
        ] {
            let is_as_count = kind(is_insert, statement) == kind(false, count);
            assert_eq!(is_as_count, is_same, "{}", statement.escape_ascii());
        }
        assert_eq!(kind(true, b"rows"), kind(true, b"other rows"));
    }
}
