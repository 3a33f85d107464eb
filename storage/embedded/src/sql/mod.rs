//! Just enough of ClickHouse SQL to find where an INSERT's data begins and where a query names its output format.
//!
//! Whether a text is valid, how many statements it holds and whether it only reads is asked of the engine's own
//! parser ([`crate::ffi::Connection::analyze`]); the `lexer` only finds positions, and knows strings, quoted names,
//! comments and parentheses so as not to be fooled by them.

mod lexer;

use lexer::{Kind, Lexer, Token};

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
        into_outfile: bool,
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
        && let Some(insert) = insert(sql, &mut lexer)
    {
        return insert;
    }
    other(sql)
}

/// Walks an INSERT up to the word that says where its rows come from; `None` if they come from a query.
fn insert(sql: &[u8], lexer: &mut Lexer<'_>) -> Option<Shape> {
    let mut token = lexer.next()?;
    for optional in ["INTO", "TABLE", "FUNCTION"] {
        if token.is(optional) {
            token = lexer.next()?;
        }
    }
    // The table's name may be any word, also `format` or `values`.
    while lexer
        .peek()
        .is_some_and(|next| next.kind == Kind::Punctuation(b'.'))
    {
        lexer.next();
        lexer.next();
    }
    while let Some(token) = lexer.next() {
        if token.depth > 0 {
            continue;
        }
        if token.is("VALUES") {
            return Some(Shape::Insert {
                head: sql.get(..token.start)?.to_vec(),
                format: "Values".into(),
                data_at: token.end,
            });
        }
        if token.is("FORMAT") {
            return insert_format(sql, token.start, lexer);
        }
        if ["SELECT", "WITH", "FROM"].iter().any(|word| token.is(word)) {
            return None;
        }
    }
    None
}

/// `FORMAT name [SETTINGS a = 1, …]`, then the data: after one newline if there is one, else after the blanks.
fn insert_format(sql: &[u8], format_at: usize, lexer: &mut Lexer<'_>) -> Option<Shape> {
    let name = lexer.next().filter(Token::is_name)?;
    let mut head = sql.get(..format_at)?.to_vec();
    let mut end = name.end;
    if lexer.peek().is_some_and(|next| next.is("SETTINGS")) {
        let settings_at = end;
        end = settings_end(lexer)?;
        head.extend_from_slice(sql.get(settings_at..end)?);
    }
    if lexer
        .peek()
        .is_some_and(|next| next.kind == Kind::Punctuation(b';'))
    {
        end = lexer.next()?.end;
    }
    let rest = sql.get(end..)?;
    let blanks = rest
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\x0c'))
        .count();
    let newline = match rest.get(blanks..) {
        Some([b'\r', b'\n', ..]) => 2,
        Some([b'\n' | b'\r', ..]) => 1,
        _ => 0,
    };
    let format = String::from_utf8_lossy(name.text).into_owned();
    Some(Shape::Insert {
        head,
        format,
        data_at: end + blanks + newline,
    })
}

/// Reads `SETTINGS name = value, …` and returns where it ends.
fn settings_end(lexer: &mut Lexer<'_>) -> Option<usize> {
    lexer.next()?;
    loop {
        lexer.next().filter(Token::is_name)?;
        lexer
            .next()
            .filter(|token| token.kind == Kind::Punctuation(b'='))?;
        let mut value = lexer.next()?;
        if matches!(value.kind, Kind::Punctuation(b'-' | b'+')) {
            value = lexer.next()?;
        }
        if !lexer
            .peek()
            .is_some_and(|next| next.kind == Kind::Punctuation(b','))
        {
            return Some(value.end);
        }
        lexer.next();
    }
}

/// Finds the closing FORMAT clause: FORMAT and a name, then only SETTINGS, a semicolon or the end.
fn other(sql: &[u8]) -> Shape {
    let mut lexer = Lexer::new(sql);
    let (mut format, mut body_end, mut into_outfile) = (None, 0, false);
    while let Some(token) = lexer.next() {
        if token.kind == Kind::Punctuation(b';') {
            continue;
        }
        body_end = token.end;
        if token.depth > 0 {
            continue;
        }
        if token.is("INTO") && lexer.peek().is_some_and(|next| next.is("OUTFILE")) {
            into_outfile = true;
        }
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
    Shape::Other {
        format,
        body_end,
        into_outfile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An INSERT, and its head, format and data.
    const INSERTS: &[(&str, &str, &str, &str)] = &[
        (
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t ",
            "Values",
            " (1)",
        ),
        (
            "insert into db.t (a, b) format CSV\n1,2\n",
            "insert into db.t (a, b) ",
            "CSV",
            "1,2\n",
        ),
        (
            "INSERT INTO t FORMAT TSV\r\n\n",
            "INSERT INTO t ",
            "TSV",
            "\n",
        ),
        (
            "INSERT INTO t FORMAT JSONEachRow {\"a\":1}",
            "INSERT INTO t ",
            "JSONEachRow",
            "{\"a\":1}",
        ),
        (
            "INSERT INTO values VALUES (1)",
            "INSERT INTO values ",
            "Values",
            " (1)",
        ),
        (
            "INSERT INTO TABLE `format`.format (`values`) FORMAT Native",
            "INSERT INTO TABLE `format`.format (`values`) ",
            "Native",
            "",
        ),
        (
            "/* VALUES */ INSERT INTO t -- FORMAT x\n FORMAT CSV;\n1",
            "/* VALUES */ INSERT INTO t -- FORMAT x\n ",
            "CSV",
            "1",
        ),
        (
            "INSERT INTO t SETTINGS a='FORMAT' FORMAT CSV\n1",
            "INSERT INTO t SETTINGS a='FORMAT' ",
            "CSV",
            "1",
        ),
        (
            "INSERT INTO t FORMAT CSV SETTINGS a = -1, b='x'\n1",
            "INSERT INTO t  SETTINGS a = -1, b='x'",
            "CSV",
            "1",
        ),
    ];

    #[test]
    fn insert_data_begins_after_values_or_after_the_format_line() {
        for (sql, head, format, data) in INSERTS {
            let Shape::Insert {
                head: got_head,
                format: got_format,
                data_at,
            } = shape(sql.as_bytes())
            else {
                panic!("{sql}: not an insert with data");
            };
            assert_eq!(
                (
                    String::from_utf8(got_head).unwrap().as_str(),
                    got_format.as_str()
                ),
                (*head, *format),
                "{sql}"
            );
            assert_eq!(&sql[data_at..], *data, "{sql}");
        }
    }

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
            let Shape::Other { format, .. } = shape(sql.as_bytes()) else {
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
