//! Finds the beginning of the rows of an INSERT.

use super::lexer::{Kind, Lexer, Token};
use super::parts::StatementParts;

/// Splits an INSERT at the word that precedes its rows; `None` if they come from a query.
pub(super) fn split(sql: &[u8], lexer: &mut Lexer<'_>) -> Option<StatementParts> {
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
            return Some(StatementParts::Insert {
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

/// Splits `FORMAT name [SETTINGS a = 1, …]` from the data, which begins after one newline if there
/// is one, else after the blanks.
fn insert_format(sql: &[u8], format_at: usize, lexer: &mut Lexer<'_>) -> Option<StatementParts> {
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
    Some(StatementParts::Insert {
        head,
        format,
        data_at: end + blanks + newline,
    })
}

/// Reads `SETTINGS name = value, …` and returns the offset of its end.
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

#[cfg(test)]
mod tests {
    use crate::sql::{StatementParts, split_statement};

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
            let StatementParts::Insert {
                head: got_head,
                format: got_format,
                data_at,
            } = split_statement(sql.as_bytes())
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
}
