//! Nonces of queries: an answer that decides about rows repeats the random text of its query.
//!
//! A gateway before ClickHouse may cache, or mix up connections: what it repeats is genuine, with
//! the right columns and types, and yet no answer to this query. "Not stored" from before an insert
//! would have its rows sent twice, an old boot id would hide a restart.
//!
//! The nonce is a column and not a header, as gateways strip headers. It also keeps ClickHouse's
//! own query cache out. Where there may be many rows, or none, it is in the name of a column.

use clickhouse::error::Error;
use std::fmt;
use uuid::Uuid;

/// Random text of one query.
#[derive(Debug)]
pub(crate) struct Nonce(String);

impl Nonce {
    /// Creates a nonce for one query: no other has it.
    pub(crate) fn new() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    /// Makes the nonce the first column of a SELECT.
    pub(crate) fn put_into(&self, select: &str) -> String {
        select.replacen("SELECT ", &format!("SELECT '{self}' AS nonce, "), 1)
    }

    /// Checks the nonce of an answer.
    ///
    /// # Errors
    /// If it is another query's.
    pub(crate) fn check(&self, answered: &str) -> Result<(), Error> {
        match answered == self.0 {
            true => Ok(()),
            false => Err(Error::BadResponse(
                "the answer is to another query; what stands before ClickHouse must not cache or mix up answers"
                    .to_owned(),
            )),
        }
    }
}

/// Creates a name for a column that no other query has, for answers that name their columns.
#[must_use]
pub fn nonce_column() -> String {
    // Only digits differ, as in other statements of one kind.
    format!("nonce_{}", Uuid::new_v4().as_u128())
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QueryError, QueryErrorKind};

    #[test]
    fn only_the_nonce_of_the_query_itself_is_an_answer_to_it() {
        let (nonce, other) = (Nonce::new(), Nonce::new());
        nonce.check(&nonce.to_string()).unwrap();
        for answered in [String::new(), other.to_string()] {
            let error = QueryError::from(nonce.check(&answered).unwrap_err());
            assert_eq!(error.kind, QueryErrorKind::NotClickHouse, "{error}");
        }
    }

    #[test]
    fn each_nonce_column_has_a_name_of_its_own_that_needs_no_quotes() {
        let (name, other) = (nonce_column(), nonce_column());
        assert_ne!(name, other);
        let digits = name.strip_prefix("nonce_").unwrap();
        assert!(digits.bytes().all(|byte| byte.is_ascii_digit()), "{name}");
    }

    #[test]
    fn a_nonce_is_the_first_column_of_the_outer_select() {
        let nonce = Nonce::new();
        let select = nonce.put_into("SELECT count() FROM (SELECT 1)");
        let expected = format!("SELECT '{nonce}' AS nonce, count() FROM (SELECT 1)");
        assert_eq!(select, expected);
    }
}
