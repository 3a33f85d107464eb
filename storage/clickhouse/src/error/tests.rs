//! Outcomes of inserts and kinds of errors, by what ClickHouse or a gateway answers.

use super::*;
use crate::QueryError;
use clickhouse::error::Error;

#[test]
fn an_exception_about_rows_or_settings_does_not_turn_to_another_host() {
    let (own, of_shard) = (
        "DB::Exception: u: Authentication failed",
        "DB::Exception: Received from ch2:9000. DB::Exception: u: Authentication failed",
    );
    let table = [
        (None, own, true),
        (Some(999), own, true),
        (Some(242), own, true),
        (Some(279), own, true),
        (Some(210), own, true),
        (Some(202), own, true),
        (Some(516), own, false),
        (Some(516), of_shard, true),
        (Some(33), of_shard, false),
        (Some(60), of_shard, false),
        (Some(241), of_shard, false),
    ];
    for (code, message, expected) in table {
        assert_eq!(
            is_of_the_host(code, message),
            expected,
            "{code:?} {message}"
        );
    }
}

#[test]
fn the_end_of_a_connection_between_hosts_is_not_the_fault_of_the_rows() {
    let table = [
        "Code: 32. DB::Exception: Attempt to read after eof",
        "Code: 33. DB::Exception: Cannot read all data",
        "Code: 40. DB::Exception: Checksum doesn't match",
        "Code: 271. DB::Exception: Checksum doesn't match",
    ];
    for text in table {
        let text = format!("{text}: while receiving packet from ch2:9000");
        let error = InsertError::from(Error::BadResponse(text));
        assert_eq!(
            (error.code, error.outcome),
            (Some(210), InsertOutcome::Unknown)
        );
    }
}

#[test]
fn an_exception_is_classified_by_the_state_of_the_rows() {
    use InsertOutcome::{BadData, Misconfigured, NotStored, TooLarge, Unknown};
    let table = [
        (
            "Code: 252. DB::Exception: Too many partitions for single INSERT block (more than 1)",
            Some(252),
            BadData,
        ),
        (
            "Code: 252. DB::Exception: Too many parts (3000) in all data parts",
            Some(252),
            NotStored,
        ),
        ("Code: 33. DB::Exception: Cut data", Some(33), BadData),
        (
            "Code: 32. DB::Exception: Attempt to read after eof",
            Some(32),
            BadData,
        ),
        (
            "Code: 40. DB::Exception: Checksum doesn't match",
            Some(40),
            BadData,
        ),
        // Of a body, whose checksum is not the engine's own.
        (
            "Code: 271. DB::Exception: Checksum doesn't match",
            Some(271),
            BadData,
        ),
        ("Code: 117. DB::Exception: Bad data", Some(117), BadData),
        (
            "Code: 516. DB::Exception: u: Authentication failed",
            Some(516),
            Misconfigured,
        ),
        (
            "Code: 60. DB::Exception: Table does not exist",
            Some(60),
            Misconfigured,
        ),
        (
            "Code: 241. DB::Exception: Memory limit exceeded",
            Some(241),
            Unknown,
        ),
        (
            "Code: 319. DB::Exception: Unknown status, client must retry",
            Some(319),
            Unknown,
        ),
        (
            "Code: 216. DB::Exception: Query with id = t is already running",
            Some(216),
            Unknown,
        ),
        ("502 Bad Gateway", None, Unknown),
        ("413 Payload Too Large: <html>", None, TooLarge),
        ("Code: banana", None, Unknown),
        ("<html>Error Code: 33</html>", None, Unknown),
        (" Code: 33. DB::Exception: x", None, Unknown),
    ];
    for (text, code, outcome) in table {
        let error = InsertError::from(Error::BadResponse(text.to_owned()));
        assert_eq!((error.code, error.outcome), (code, outcome), "{text}");
    }
}

#[test]
fn a_timeout_leaves_the_rows_unknown() {
    assert_eq!(
        InsertError::from(Error::TimedOut).outcome,
        InsertOutcome::Unknown
    );
}

#[test]
fn a_missing_table_or_database_is_mended_by_migrating() {
    for (code, missing) in [(60, true), (81, true), (516, false)] {
        let error = QueryError::from(Error::BadResponse(format!("Code: {code}. x")));
        assert_eq!(error.schema_is_missing(), missing, "{code}");
    }
}
