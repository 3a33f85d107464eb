//! Minimal parsing of ClickHouse SQL: where an INSERT's data begins and where a query names its
//! output format.
//!
//! The engine's own parser ([`crate::ffi::Connection::analyze`]) decides whether a text is valid,
//! how many statements it holds and whether it only reads. The `lexer` only finds positions; it
//! knows strings, quoted names, comments and parentheses so as to skip them.

mod format_clause;
mod insert;
pub(crate) mod lexer;
pub(crate) mod names;
mod parts;

pub(crate) use parts::{FormatClause, StatementParts};

use lexer::Lexer;

/// Splits a statement into its parts.
pub(crate) fn split_statement(sql: &[u8]) -> StatementParts {
    let mut lexer = Lexer::new(sql);
    if let Some(first) = lexer.next()
        && first.is("INSERT")
        && let Some(insert) = insert::split(sql, &mut lexer)
    {
        return insert;
    }
    format_clause::split(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lexer_ends_on_malformed_texts_without_panicking() {
        for sql in [
            "",
            "'",
            "`",
            "\\",
            "'\\",
            "/*",
            "/*/",
            "--",
            "INSERT",
            "INSERT INTO t FORMAT",
            "((((",
            "))))",
            "\u{fffd}é",
        ] {
            split_statement(sql.as_bytes());
        }
        split_statement(&[0xff, 0x27, 0x00, 0x80]);
    }
}
