//! Finds the closing FORMAT clause of a statement, and any file that it reads or writes.

use super::lexer::{Kind, Lexer, Token};
use super::parts::{FormatClause, StatementParts};

/// Splits off the closing FORMAT clause: FORMAT and a name, then only SETTINGS, a semicolon or the
/// end.
pub(super) fn split(sql: &[u8]) -> StatementParts {
    let mut lexer = Lexer::new(sql);
    let (mut format, mut body_end, mut file) = (None, 0, None);
    while let Some(token) = lexer.next() {
        if token.kind == Kind::Punctuation(b';') {
            continue;
        }
        body_end = token.end;
        if token.depth > 0 {
            continue;
        }
        file = file.or_else(|| file_keywords(&token, lexer));
        if token.is("FORMAT")
            && let Some(name) = lexer.peek().filter(Token::is_name)
        {
            let mut ahead = lexer;
            ahead.next();
            let closes = ahead.next().is_none_or(|next| {
                next.is("SETTINGS") || next.kind == Kind::Punctuation(b';') || next.is("INTO")
            });
            if closes {
                let text = String::from_utf8_lossy(name.text).into_owned();
                format = Some(FormatClause {
                    name: text,
                    at: token.start,
                    end: name.end,
                });
            }
        }
    }
    StatementParts::Other {
        format,
        body_end,
        file,
    }
}

/// Keywords before a file's name. A table may be called `infile`; its alias is no string.
fn file_keywords(token: &Token<'_>, mut ahead: Lexer<'_>) -> Option<&'static str> {
    let next = ahead.next()?;
    if token.is("INTO") && next.is("OUTFILE") {
        return Some("INTO OUTFILE");
    }
    let is_text = |token: Token<'_>| {
        let first = token.text.first().copied().unwrap_or_default();
        matches!(first, b'\'' | b'$') || !first.is_ascii()
    };
    let is_read = token.is("FROM") && next.is("INFILE") && ahead.next().is_some_and(is_text);
    is_read.then_some("FROM INFILE")
}

#[cfg(test)]
mod tests {
    use crate::sql::{StatementParts, split_statement};

    #[test]
    fn only_a_closing_format_clause_names_the_output_format() {
        let cases: &[(&str, Option<&str>)] = &[
            ("SELECT 1", None),
            ("SELECT 1 FORMAT JSON", Some("JSON")),
            ("SELECT 1 format JSON; -- done", Some("JSON")),
            ("SELECT 1 FORMAT CSV SETTINGS max_threads = 1", Some("CSV")),
            ("SELECT format FROM t", None),
            ("SELECT 'FORMAT JSON'", None),
            ("SELECT (SELECT 1 FORMAT JSON)", None),
            ("SELECT 1 -- FORMAT JSON", None),
            ("SELECT \"a FORMAT b\" /* FORMAT x */", None),
            ("INSERT INTO t SELECT 1", None),
        ];
        for (sql, expected) in cases {
            let StatementParts::Other { format, .. } = split_statement(sql.as_bytes()) else {
                panic!("{sql}: an insert with data")
            };
            assert_eq!(
                format.map(|clause| clause.name).as_deref(),
                *expected,
                "{sql}"
            );
        }
    }

    #[test]
    fn file_clauses_are_found_and_tables_of_those_names_are_not() {
        for (sql, expected) in [
            ("SELECT 1 INTO OUTFILE 'a'", Some("INTO OUTFILE")),
            (
                "INSERT INTO t FROM INFILE 'a' FORMAT CSV",
                Some("FROM INFILE"),
            ),
            (
                "INSERT INTO t (a) FROM infile $$a$$ COMPRESSION 'gzip'",
                Some("FROM INFILE"),
            ),
            (
                "INSERT INTO t FROM /* /* */ ' */ INFILE // '\n 'a' VALUES",
                Some("FROM INFILE"),
            ),
            (
                "INSERT INTO t FROM INFILE \u{2018}a\u{2019} FORMAT CSV",
                Some("FROM INFILE"),
            ),
            ("SELECT * FROM infile WHERE a = 'b'", None),
            ("INSERT INTO t SELECT a FROM infile \"b\"", None),
            ("SELECT 'FROM INFILE', $a$ FROM INFILE 'a' $a$", None),
        ] {
            let StatementParts::Other { file, .. } = split_statement(sql.as_bytes()) else {
                panic!("{sql}: an insert with data")
            };
            assert_eq!(file, expected, "{sql}");
        }
    }
}
