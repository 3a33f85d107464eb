//! Statements that pass and that do not.
//!
//! | Module | Holds |
//! |---|---|
//! | `statements` | the statements |
//! | `parameters` | values of parameters |

mod parameters;
mod statements;

use super::*;
use statements::{INSIDE, OUTSIDE};

fn permitted(sources: &[&str]) -> Permitted {
    let names = |text: &str| text.split(' ').map(str::to_owned).collect();
    let known = Known {
        functions: names("file aiGenerate length arrayMap now format"),
        table_functions: names("file url s3 remote executable numbers newOne eval format"),
    };
    let sources: Vec<_> = sources.iter().map(|name| name.parse().unwrap()).collect();
    Permitted::new(&known, &sources)
}

#[test]
fn what_stays_in_the_database_passes() {
    for sql in INSIDE {
        permitted(&[])
            .check(sql.as_bytes(), &[])
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn what_leaves_it_is_refused_by_name_however_it_is_written() {
    for (sql, name) in OUTSIDE {
        let Err(exception) = permitted(&[]).check(sql.as_bytes(), &[]) else {
            panic!("{sql}: passed");
        };
        assert_eq!(exception.code, 497);
        assert!(exception.text.contains(name), "{sql}: {exception}");
    }
}

#[test]
fn rows_may_hold_any_text_and_no_call() {
    for rows in [
        "('file(1)', 'it''s url(2)'), (now(), 'a\\'file(1)')",
        "('\u{201c}$$file(')",
    ] {
        permitted(&[]).check_rows(rows.as_bytes()).unwrap();
    }
    for rows in [
        "('a', file('b'))",
        "($$ ' $$ || file('a') || $$ ' $$)",
        "(\u{2018}'\u{2019}, file('a'), '')",
    ] {
        permitted(&[]).check_rows(rows.as_bytes()).unwrap_err();
    }
}

#[test]
fn an_operator_opens_a_source_by_its_name() {
    for (source, sql) in [
        ("file", "SELECT file('a')"),
        ("url", "SELECT * FROM url('a')"),
        ("s3", "CREATE TABLE t (a Int8) ENGINE = S3('a')"),
    ] {
        permitted(&[source]).check(sql.as_bytes(), &[]).unwrap();
        permitted(&["sqlite"])
            .check(sql.as_bytes(), &[])
            .unwrap_err();
    }
}
