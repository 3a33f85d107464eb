//! Errors of ClickHouse, in words for the customer.

use super::error_codes::{OF_QUERY, OF_SERVER};
use crate::error::ExportError;
use millrace_clickhouse::QueryError;
use thiserror::Error;

/// Error of a search for the windows of a range that have rows, in words for the customer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowSearchError {
    /// ClickHouse worked on the search for as long as it may. A retry helps if it was busy.
    #[error(
        "ClickHouse takes longer to find the windows of the range that have rows than it may: ask for a shorter \
         range or a narrower filter."
    )]
    TooLong,
    /// The search reached ClickHouse's limit of memory. A retry helps if others used the memory.
    #[error(
        "ClickHouse needs more memory to find the windows of the range that have rows than it may: ask for a \
         shorter range or a narrower filter, and ask the operator if that does not help."
    )]
    TooLarge,
    /// Any other error.
    #[error(transparent)]
    Rows(#[from] ExportError),
}

impl From<QueryError> for WindowSearchError {
    fn from(error: QueryError) -> Self {
        match error.code {
            Some(159 | 160) => Self::TooLong,
            Some(MEMORY_LIMIT_EXCEEDED) if !is_memory_of_all(&error) => Self::TooLarge,
            _ => Self::Rows(read_failure(&error, false)),
        }
    }
}

/// Code of `ACCESS_DENIED`: to a table, a function or a right that the query needs.
const ACCESS_DENIED: u32 = 497;
/// Code of `MEMORY_LIMIT_EXCEEDED`: of the query, of its user, or of the whole server.
const MEMORY_LIMIT_EXCEEDED: u32 = 241;
/// Beginnings of the message of [`MEMORY_LIMIT_EXCEEDED`] where the query's own limit was not
/// reached: of several versions of ClickHouse.
const MEMORY_OF_ALL: [&str; 4] = [
    "(total) memory limit",
    "User memory limit",
    "Memory limit (total)",
    "Memory limit (for user)",
];

/// Converts an error of reading rows. ClickHouse's messages contain tables, hosts and our own
/// conditions, so only the error's name is passed on, and only for a query that the customer wrote.
///
/// ClickHouse is ours: while it is down, rejects our user or has too much to do, an export waits. A
/// run fails only for what its window or the customer's query may have caused.
#[must_use]
pub fn read_failure(error: &QueryError, is_of_customer: bool) -> ExportError {
    let of_run = error.code.filter(|_| !is_memory_of_all(error));
    let told = of_run.filter(|_| is_of_customer).and_then(of_query);
    let may_be_of_the_run = |code: u32| match is_of_customer {
        true => OF_SERVER.iter().all(|(known, _)| *known != code),
        false => is_of_size(code),
    };
    told.unwrap_or_else(|| match of_run.is_some_and(may_be_of_the_run) {
        true => ExportError::retryable("The rows could not be read from ClickHouse."),
        false => ExportError::waiting(
            "The rows cannot be read from the server's ClickHouse now. The export waits until they can; there is \
             nothing to do about it.",
        ),
    })
}

/// Returns true if memory was short, and not for what this query used: others used it.
fn is_memory_of_all(error: &QueryError) -> bool {
    let text = error.message.split_once("DB::Exception: ");
    let begins =
        |(_, text): (&str, &str)| MEMORY_OF_ALL.iter().any(|start| text.starts_with(start));
    error.code == Some(MEMORY_LIMIT_EXCEEDED) && text.is_some_and(begins)
}

/// Returns true for limits that a window with very many rows, or a destination that takes them
/// slowly, reaches without a customer's query.
const fn is_of_size(code: u32) -> bool {
    matches!(code, 158..=160 | MEMORY_LIMIT_EXCEEDED | 307 | 396)
}

/// Error for a query that cannot be run as it is; `None` for the server's own errors, which may
/// pass.
fn of_query(code: u32) -> Option<ExportError> {
    let message = match code {
        159 | 160 => "The query takes longer than a query of an export may.".to_owned(),
        MEMORY_LIMIT_EXCEEDED => "The query needs more memory than a query of an export may.".to_owned(),
        158 | 307 | 396 => "The query answers more rows than a query of an export may.".to_owned(),
        ACCESS_DENIED => "ClickHouse refuses the query: ACCESS_DENIED. It needs something that exports may not use. \
             Omit that, or ask the operator to grant it to the user that Millrace has in ClickHouse."
            .to_owned(),
        code => {
            let (_, name) = OF_QUERY.iter().find(|(known, _)| *known == code)?;
            format!("ClickHouse refuses the query: {name}.")
        }
    };
    Some(ExportError::permanent(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExportErrorKind;
    use millrace_clickhouse::QueryErrorKind;

    fn failure(code: Option<u32>, is_of_customer: bool) -> ExportError {
        let message = "Code: 47. DB::Exception: Unknown identifier x in scope SELECT x FROM \
                       millrace.events WHERE team_id = 2. (UNKNOWN_IDENTIFIER) (version 26.7.3)";
        let error = QueryError {
            code,
            kind: QueryErrorKind::Other,
            message: message.to_owned(),
        };
        let failure = read_failure(&error, is_of_customer);
        assert!(!failure.message.contains("millrace"), "{failure}");
        failure
    }

    #[test]
    fn customers_see_errors_of_their_query_and_nothing_of_the_server() {
        let table = [
            (
                Some(47),
                true,
                ExportErrorKind::Permanent,
                "UNKNOWN_IDENTIFIER",
            ),
            (Some(159), true, ExportErrorKind::Permanent, "longer"),
            (Some(160), true, ExportErrorKind::Permanent, "longer"),
            (Some(241), true, ExportErrorKind::Permanent, "memory"),
            (Some(158), true, ExportErrorKind::Permanent, "more rows"),
            (Some(396), true, ExportErrorKind::Permanent, "more rows"),
            (
                Some(497),
                true,
                ExportErrorKind::Permanent,
                "ask the operator",
            ),
            (
                Some(446),
                true,
                ExportErrorKind::Permanent,
                "FUNCTION_NOT_ALLOWED",
            ),
            (
                Some(675),
                true,
                ExportErrorKind::Permanent,
                "CANNOT_PARSE_IPV4",
            ),
            // The same codes for a statement without a customer's query.
            (Some(47), false, ExportErrorKind::Waiting, "waits until"),
            (
                Some(159),
                false,
                ExportErrorKind::Retryable,
                "could not be read",
            ),
            (
                Some(241),
                false,
                ExportErrorKind::Retryable,
                "could not be read",
            ),
            (Some(497), false, ExportErrorKind::Waiting, "waits until"),
        ];
        for (code, is_of_customer, kind, words) in table {
            let failure = failure(code, is_of_customer);
            assert_eq!(failure.kind, kind, "{code:?}");
            assert!(failure.message.contains(words), "{failure}");
        }
    }

    #[test]
    fn a_search_for_windows_knows_its_limits_from_other_failures() {
        let table = [
            (Some(159), WindowSearchError::TooLong, "shorter range"),
            (Some(160), WindowSearchError::TooLong, "shorter range"),
            (Some(241), WindowSearchError::TooLarge, "shorter range"),
            (
                Some(210),
                WindowSearchError::Rows(failure(None, false)),
                "waits until",
            ),
            (
                None,
                WindowSearchError::Rows(failure(None, false)),
                "waits until",
            ),
        ];
        for (code, expected, words) in table {
            let error = QueryError {
                code,
                ..QueryError::without_code("millrace.events")
            };
            let told = WindowSearchError::from(error);
            assert_eq!(told, expected, "{code:?}");
            let told = told.to_string();
            assert!(told.contains(words), "{told}");
            assert!(!told.contains("millrace"), "{told}");
        }
    }

    #[test]
    fn an_export_waits_for_the_server_and_fails_for_its_own_query() {
        use ExportErrorKind::{Retryable, Waiting};
        assert!(OF_SERVER.is_sorted_by(|a, b| a.0 < b.0), "each once");
        for (code, name) in OF_SERVER {
            assert!(OF_QUERY.iter().all(|(known, _)| known != code), "{name}");
            for is_of_customer in [true, false] {
                let kind = failure(Some(*code), is_of_customer).kind;
                assert_eq!(kind, Waiting, "{name} {is_of_customer}");
            }
        }
        // No answer, or one of a gateway.
        for is_of_customer in [true, false] {
            assert_eq!(failure(None, is_of_customer).kind, Waiting);
        }
        // LOGICAL_ERROR, STD_EXCEPTION, UNKNOWN_EXCEPTION, and one of a later version: a query may
        // cause them, and without one it is the server.
        for code in [49, 1_001, 1_002, 424_242] {
            assert_eq!(failure(Some(code), true).kind, Retryable, "{code}");
            assert_eq!(failure(Some(code), false).kind, Waiting, "{code}");
        }
    }

    #[test]
    fn memory_that_others_use_is_no_fault_of_the_run() {
        use ExportErrorKind::{Permanent, Retryable, Waiting};
        // Message, and the kinds with a customer's query and without.
        let table = [
            (
                "Query memory limit exceeded: would use 1 GiB",
                Permanent,
                Retryable,
            ),
            (
                "Memory limit (for query) exceeded: would use 1 GiB",
                Permanent,
                Retryable,
            ),
            (
                "Query memory limit exceeded in 'SELECT (total) memory limit'",
                Permanent,
                Retryable,
            ),
            (
                "(total) memory limit exceeded: would use 9 GiB",
                Waiting,
                Waiting,
            ),
            (
                "User memory limit exceeded: would use 9 GiB",
                Waiting,
                Waiting,
            ),
            (
                "Memory limit (total) exceeded: would use 9 GiB",
                Waiting,
                Waiting,
            ),
            (
                "Memory limit (for user) exceeded: would use 9 GiB",
                Waiting,
                Waiting,
            ),
        ];
        for (text, with_query, without) in table {
            let error = QueryError {
                code: Some(241),
                ..QueryError::without_code(format!(
                    "bad response: Code: 241. DB::Exception: {text}"
                ))
            };
            assert_eq!(read_failure(&error, true).kind, with_query, "{text}");
            assert_eq!(read_failure(&error, false).kind, without, "{text}");
            let search = WindowSearchError::from(error);
            let is_limit = search == WindowSearchError::TooLarge;
            assert_eq!(is_limit, without == Retryable, "{text}");
        }
    }

    #[test]
    fn an_invalid_query_fails_its_run_at_once_with_the_errors_name() {
        assert!(OF_QUERY.is_sorted_by(|a, b| a.0 < b.0), "each once");
        for (code, name) in OF_QUERY {
            let told = failure(Some(*code), true);
            assert_eq!(told.kind, ExportErrorKind::Permanent, "{name}");
            assert!(told.message.contains(name), "{told}");
            let own = failure(Some(*code), false);
            assert_eq!(own.kind, ExportErrorKind::Waiting, "{name}");
        }
    }
}
