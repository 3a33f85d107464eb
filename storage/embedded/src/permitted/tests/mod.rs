//! Tests of statements that are allowed and that are refused.
//!
//! | Module | Holds |
//! |---|---|
//! | `statements` | the statements |
//! | `parameters` | values of parameters |

mod parameters;
mod statements;

use super::*;
use statements::{ALLOWED, REFUSED};

fn policy(sources: &[&str]) -> StatementPolicy {
    let names = |text: &str| text.split(' ').map(str::to_owned).collect();
    let known = EngineFunctions {
        functions: names("file aiGenerate length arrayMap now format"),
        table_functions: names("file url s3 remote executable numbers newOne eval format"),
    };
    let sources: Vec<_> = sources.iter().map(|name| name.parse().unwrap()).collect();
    StatementPolicy::new(&known, &sources)
}

#[test]
fn statements_that_stay_in_the_database_pass() {
    for sql in ALLOWED {
        policy(&[])
            .check(sql.as_bytes(), &[])
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn statements_that_leave_the_database_are_refused_however_they_are_written() {
    for (sql, name) in REFUSED {
        let Err(exception) = policy(&[]).check(sql.as_bytes(), &[]) else {
            panic!("{sql}: passed");
        };
        assert_eq!(exception.code, 497);
        assert!(exception.text.contains(name), "{sql}: {exception}");
    }
}

#[test]
fn rows_may_hold_any_text_but_no_refused_call() {
    for rows in [
        "('file(1)', 'it''s url(2)'), (now(), 'a\\'file(1)')",
        "('\u{201c}$$file(')",
    ] {
        policy(&[]).check_rows(rows.as_bytes()).unwrap();
    }
    for rows in [
        "('a', file('b'))",
        "($$ ' $$ || file('a') || $$ ' $$)",
        "(\u{2018}'\u{2019}, file('a'), '')",
    ] {
        policy(&[]).check_rows(rows.as_bytes()).unwrap_err();
    }
}

#[test]
fn an_operator_opens_a_source_by_its_name() {
    for (source, sql) in [
        ("file", "SELECT file('a')"),
        ("url", "SELECT * FROM url('a')"),
        ("s3", "CREATE TABLE t (a Int8) ENGINE = S3('a')"),
    ] {
        policy(&[source]).check(sql.as_bytes(), &[]).unwrap();
        policy(&["sqlite"]).check(sql.as_bytes(), &[]).unwrap_err();
    }
}

/// Each of these was read once for each of its repetitions.
#[test]
fn statements_that_are_read_again_and_again_are_refused() {
    let heredocs: String = (0..100_000).map(|it| format!("${it}$, ")).collect();
    for (head, repeated) in [
        ("SELECT ", heredocs.as_str()),
        ("SELECT * FROM ", &"values((1, ".repeat(100_000)),
        ("SELECT * FROM ", &"null({".repeat(100_000)),
        ("CREATE VIEW v AS SELECT ", &"arrayMap({".repeat(100_000)),
        ("SELECT $a, ", &"file /* ".repeat(100_000)),
    ] {
        let sql = [head, repeated].concat();
        let Err(exception) = policy(&[]).check(sql.as_bytes(), &[]) else {
            panic!("{head}: passed");
        };
        assert!([62, 497].contains(&exception.code), "{exception}");
    }
    for sql in [
        "FROM ".repeat(100_000),
        "(FROM ".repeat(100_000),
        "SELECT * FROM values((1, 2)), ".repeat(10_000),
        "SELECT 1 /* ".repeat(100_000),
        "SELECT $a$, $b$, $c$".to_owned(),
        format!("SELECT {}", "\u{2018}a\u{2019}".repeat(100_000)),
        "SELECT * FROM values((1, (SELECT a FROM values((2, 3)))))".to_owned(),
    ] {
        let start = sql.get(..60).unwrap_or(&sql);
        let checked = policy(&[]).check(sql.as_bytes(), &[]);
        checked.unwrap_or_else(|error| panic!("{start}: {error}"));
    }
}

/// The engine sees a call of `format` behind each text, whose end our lexer saw elsewhere.
#[test]
fn a_text_whose_end_is_uncertain_hides_no_call() {
    for text in [
        "\u{2018} ' \u{2019}",
        "1\u{2018} ' \u{2019}",
        "\u{201c} ' \u{201d}",
    ] {
        let sql = format!("SELECT {text}, a FROM format(Values, 'a String', concat('(', a)) -- '");
        let Err(exception) = policy(&[]).check(sql.as_bytes(), &[]) else {
            panic!("{sql}: passed");
        };
        assert_eq!(exception.code, 62, "{sql}: {exception}");
    }
}
