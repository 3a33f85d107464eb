//! Just enough of ClickHouse SQL to find where an INSERT's data begins and where a query names its output format.
//!
//! Whether a text is valid, how many statements it holds and whether it only reads is asked of the engine's own
//! parser ([`crate::ffi::Connection::analyze`]); the `lexer` only finds positions, and knows strings, quoted names,
//! comments and parentheses so as not to be fooled by them.

mod insert;
pub(crate) mod lexer;
pub(crate) mod names;
mod other;

use lexer::Lexer;

/// Where the parts of a statement are. Offsets are bytes of the text given.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Shape {
    /// `INSERT … VALUES …` or `INSERT … FORMAT x …`: rows follow at `data_at`.
    Insert {
        head: Vec<u8>,
        format: String,
        data_at: usize,
    },
    /// Anything else; `body_end` is where its last token (a closing semicolon aside) ends.
    Other {
        format: Option<FormatClause>,
        body_end: usize,
        /// The words before a file that is read or written.
        file: Option<&'static str>,
    },
}

/// A closing `FORMAT name`.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct FormatClause {
    pub(crate) name: String,
    /// Where the word FORMAT begins and where the name ends.
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// Takes a statement apart.
pub(crate) fn shape(sql: &[u8]) -> Shape {
    let mut lexer = Lexer::new(sql);
    if let Some(first) = lexer.next()
        && first.is("INSERT")
        && let Some(insert) = insert::insert(sql, &mut lexer)
    {
        return insert;
    }
    other::other(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_makes_the_lexer_panic_or_stand_still() {
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
            shape(sql.as_bytes());
        }
        shape(&[0xff, 0x27, 0x00, 0x80]);
    }
}
