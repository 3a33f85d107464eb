//! Stops a query by its id: the one `KILL` that is permitted, limited to what can harm no rows.
//!
//! Millrace stops its reads for exports through the same interface and as the same user as
//! everybody else. So the statement that it sends is recognised by its words, and another one runs
//! in its place, which cancels queries only: no insert, no deletion, no backup.

use crate::exception::Exception;
use crate::ffi::{Connection, Parameters, StatementOutput};
use crate::sql::lexer::Lexer;

/// Shortest id: long enough not to be used by accident or to be the suffix of another one.
const ID_CHARS_MIN: usize = 32;
const SQL: &[u8] =
    b"KILL QUERY WHERE (query_id = {id:String} OR endsWith(Settings['log_comment'], {id:String})) \
    AND query_kind = 'Select' ASYNC FORMAT Null";
/// Words and signs of Millrace's own statement; `ID` is the quoted id.
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

/// Returns the id of the query to stop, if the text is that statement.
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

/// Stops the query with this id, if it runs.
pub(crate) fn run(connection: &mut Connection, id: String) -> Result<StatementOutput, Exception> {
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
    fn only_the_servers_own_kill_statement_is_recognised() {
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
