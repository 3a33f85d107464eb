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
