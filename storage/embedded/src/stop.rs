//! Stopping a query by its id: the one `KILL` that is done, and of it as much as can harm nobody's rows.
//!
//! Millrace stops what it reads for exports, by the same interface and as the same user as everybody else. So the
//! statement that it sends for that is known by its words, and what is run in its place ends queries only: no insert, no
//! deletion, no backup.

use crate::exception::Exception;
use crate::ffi::{Connection, Finished, Parameters};
use crate::sql::lexer::Lexer;

/// Ids that nobody has by accident, and that are no end of another one.
const ID_CHARS_MIN: usize = 32;
const SQL: &[u8] =
    b"KILL QUERY WHERE (query_id = {id:String} OR endsWith(Settings['log_comment'], {id:String})) \
    AND query_kind = 'Select' ASYNC FORMAT Null";
/// The words and signs of Millrace's own statement; `ID` is the id between quotes.
const WORDS: [&str; 20] = [
    "KILL",
    "QUERY",
    "WHERE",
    "(",
    "query_id",
    "=",
    "ID",
    "OR",
    "endsWith",
    "(",
    "Settings",
    "[",
    "'log_comment'",
    "]",
    ",",
    "ID",
    ")",
    ")",
    "ASYNC",
    ";",
];

/// The id of the query that a statement stops, if it is that statement.
pub(crate) fn query_id(sql: &[u8]) -> Option<String> {
    let (mut lexer, mut id) = (Lexer::new(sql), None);
    let mut words = WORDS.into_iter();
    while let Some(token) = lexer.next() {
        let (word, text) = (words.next()?, std::str::from_utf8(token.text).ok()?);
        if word != "ID" {
            if text != word {
                return None;
            }
            continue;
        }
        let given = text.strip_prefix('\'')?.strip_suffix('\'')?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_id = given.len() >= ID_CHARS_MIN && given.bytes().all(is_plain);
        if !is_id || id.as_ref().is_some_and(|id| id != given) {
            return None;
        }
        id = Some(given.to_owned());
    }
    // A semicolon at the end may be left out.
    id.filter(|_| words.next().is_none_or(|rest| rest == ";"))
}

/// Stops the query of an id, if there is one that runs.
pub(crate) fn run(connection: &mut Connection, id: String) -> Result<Finished, Exception> {
    let parameters = Parameters(vec![("id".to_owned(), id)]);
    connection.query(SQL, "Null", &parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "windows-0198c0de-0000-7000-8000-000000000001";

    fn own(id: &str) -> String {
        format!(
            "KILL QUERY WHERE (query_id = '{id}' OR endsWith(Settings['log_comment'], '{id}')) ASYNC"
        )
    }

    #[test]
    fn the_servers_own_statement_is_known_and_no_other() {
        let table = [
            (own(ID), true),
            (format!("{}\n;", own(ID)), true),
            (own("a"), false),
            (own(""), false),
            (own(&ID.replace('-', "%")), false),
            (own(ID).replacen(ID, &ID.replace('1', "2"), 1), false),
            (own(ID).replace(" OR ", " AND "), false),
            (own(ID).replace("QUERY", "MUTATION"), false),
            (own(ID).replace("WHERE", "WHERE 1 OR"), false),
            (own(ID).replace(" ASYNC", " OR 1 ASYNC"), false),
            (own(ID).replace(" ASYNC", ""), false),
            (format!("{}; SELECT 1", own(ID)), false),
            ("KILL".to_owned(), false),
            (String::new(), false),
        ];
        for (sql, is_own) in table {
            let expected = is_own.then(|| ID.to_owned());
            assert_eq!(query_id(sql.as_bytes()), expected, "{sql}");
        }
    }
}
